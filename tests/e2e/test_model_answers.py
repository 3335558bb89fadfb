"""What models really answer: only the answer itself becomes memory."""

from __future__ import annotations

import grpc
import pytest

from support.blocks import DONE, FAILED, WAIT, block, every_turn, jobs_of, models_file
from support.calls import Calls, assistant, user
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store

import memoryd

FACTS = '<facts>\n<fact evidence="1">Maria lives in Lisbon.</fact>\n</facts>'
UNSAID = "Perhaps <fact>Maria hates Lisbon</fact>? Nobody said so."


@pytest.fixture(scope="module")
def models():
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def target(store_kind, models, tmp_path_factory):
    arguments = [models_file(tmp_path_factory.mktemp("models"), models)]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server:
        yield server.target


@pytest.fixture(scope="module")
def calls(target):
    with grpc.insecure_channel(target) as channel:
        yield Calls(channel)


def put_turn(calls: Calls, session_id: str, kind: str):
    """Has a block `b` of the kind fed with one turn; the reply."""
    calls.Put(session_id=session_id,
              messages=[user("I am Maria from Lisbon."), assistant("Welcome.")],
              config=every_turn(block("b", kind, model="chat")))
    return calls.Put(session_id=session_id, messages=[user("ok")], wait=WAIT)


def known(target: str, session_id: str):
    with memoryd.Client(target) as client:
        got = client.get_block(session_id, "b")
    return [fact.text for fact in got.facts.facts] or got.summary.text


# The message of an answer, and whether the facts in it are stored.
ANSWERS = {
    "reasoning_content": ({"content": FACTS, "reasoning_content": UNSAID}, True),
    "reasoning_content_alone": ({"content": None, "reasoning_content": FACTS}, False),
    "reasoning_alone": ({"content": "", "reasoning": FACTS}, False),
    "refusal": ({"content": None, "refusal": FACTS}, False),
    "parts": ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": UNSAID}]},
                           {"type": "text", "text": FACTS}]}, True),
    "reasoning_part": ({"content": [{"type": "reasoning", "text": UNSAID},
                                    {"text": FACTS, "type": "text"}]}, True),
    "reasoning_part_told_late": ({"content": [{"text": UNSAID, "type": "reasoning"},
                                              {"type": "text", "text": FACTS}]}, True),
    "think": ({"content": f"<think>\n{UNSAID}\n</think>\n\n{FACTS}"}, True),
    "think_never_ends": ({"content": f"<think>\n{UNSAID}"}, False),
    "think_only_ends": ({"content": f"{UNSAID}\n</think>\n{FACTS}"}, True),
    "filter": ({"content": FACTS, "finish_reason": "content_filter"}, False),
    "null_finish_reason": ({"content": FACTS, "finish_reason": None}, True),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_only_the_answer_itself_becomes_facts(calls, target, models, session_id, name):
    answer, stored = ANSWERS[name]
    models.set_replies([answer])
    assert not put_turn(calls, session_id, "fact-extraction").open_jobs
    assert (known(target, session_id) or []) == (["Maria lives in Lisbon."] if stored else [])


@pytest.mark.parametrize("name", ANSWERS)
def test_only_the_answer_itself_becomes_a_summary(calls, target, models, session_id, name):
    answer, stored = ANSWERS[name]
    models.set_replies([answer])
    assert not put_turn(calls, session_id, "summary").open_jobs
    assert known(target, session_id) == (FACTS if stored else "")


def test_a_cut_answer_is_asked_for_with_more_room(calls, target, models, session_id):
    models.set_replies([{"content": "<facts><fact>Maria lives in Lis", "finish_reason": "length"},
                        FACTS])
    before = len(models.requests)
    assert not put_turn(calls, session_id, "fact-extraction").open_jobs
    assert known(target, session_id) == ["Maria lives in Lisbon."]
    first, second = (request.body for request in models.requests[before:])
    assert "max_tokens" not in first and second["max_tokens"] >= 2048


@pytest.mark.parametrize("kind", ("fact-extraction", "summary", "entity"))
def test_a_model_that_never_ends_is_named(calls, target, models, session_id, kind):
    models.set_replies([{"content": "<facts><fact>Maria lives in Lis", "finish_reason": "length"}])
    before = len(models.requests)
    (job,) = put_turn(calls, session_id, kind).open_jobs
    assert job.state == "FAILED" and "ran out of tokens" in job.error
    assert len(models.requests) == before + 3
    (job,) = jobs_of(calls, session_id)
    assert (job.state, job.attempts) == (FAILED, 1)
    assert not known(target, session_id)
    # Nothing is lost: once the model has the room, the messages are fed after all.
    models.set_replies([FACTS])
    calls.RetryJob(session_id=session_id, job_id=job.job_id)
    assert not calls.Put(session_id=session_id, messages=[user("more")], wait=WAIT).open_jobs
    assert jobs_of(calls, session_id)[-1].state == DONE
