"""UpdateMessage and DeleteMessage: what follows from them, and what must not."""

from __future__ import annotations

import random
import threading

import grpc
import pytest

from support.blocks import DONE, WAIT, block, drained, every_turn, models_file, turn
from support.calls import Calls, assistant, block_wire, memory, reason, refusal, user
from support.model_server import ModelServer
from support.server import Server

NOT_FOUND = grpc.StatusCode.NOT_FOUND
INVALID = grpc.StatusCode.INVALID_ARGUMENT
FAILED_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
ACTIVE = memory.MESSAGE_STATUS_ACTIVE
# Four words stay active.
SMALL = memory.SessionConfig(token_limit=100, token_flush_size=1, tokenizer="whitespace",
                             chat_history_token_ratio=0.3)


def call_of(call_id: str, **fields) -> memory.Message:
    return memory.Message(role="assistant", parts=[memory.Part(
        tool_call=memory.ToolCall(call_id=call_id, name="f", arguments_json="{}"))], **fields)


def result_of(call_id: str, **fields) -> memory.Message:
    return memory.Message(role="tool", parts=[memory.Part(
        tool_result=memory.ToolResult(call_id=call_id, name="f", text="done"))], **fields)


def texts(messages) -> list[str]:
    return [m.text for m in messages]


def check(calls, session_id: str, wanted: list[memory.Message]) -> None:
    """What every read says of the session is what it should hold."""
    stored = calls.all_messages(session_id)
    assert stored == wanted
    assert calls.streamed(session_id) == wanted
    session = calls.GetSession(session_id=session_id).session
    active = [m for m in wanted if m.status == ACTIVE]
    assert session.active_count == len(active)
    assert session.archived_count == len(wanted) - len(active)
    assert session.active_token_count == sum(m.token_count for m in active)
    assert calls.GetAll(session_id=session_id, include_total=True).total_count == len(wanted)


def test_an_update_changes_what_it_names_and_nothing_else(calls, session_id):
    calls.Put(session_id=session_id, config=SMALL, messages=[
        memory.Message(role="system", text="be kind"),
        user("one two", message_id="a", name="Ann", metadata_json='{"k":1}', thread_id="t"),
        user("three")])
    before = calls.all_messages(session_id)
    reply = calls.UpdateMessage(session_id=session_id, message_id="a", text="four five six")
    after = calls.all_messages(session_id)
    expected = memory.Message()
    expected.CopyFrom(before[1])
    expected.text = "four five six"
    expected.token_count = before[1].token_count + 1
    assert after == [before[0], expected, before[2]]
    assert (reply.position, reply.token_count) == (2, expected.token_count)
    check(calls, session_id, after)
    assert calls.Get(session_id=session_id).messages == after
    calls.UpdateMessage(session_id=session_id, message_id="a", name="", metadata_json='{"k":2}',
                        expected_revision=reply.revision)
    expected.name, expected.metadata_json = "", '{"k":2}'
    assert calls.all_messages(session_id)[1] == expected
    parts = [memory.Part(text="x"), memory.Part(json="[1]")]
    calls.UpdateMessage(session_id=session_id, message_id="a", parts=parts)
    assert list(calls.all_messages(session_id)[1].parts) == parts
    derived = before[2].message_id
    calls.UpdateMessage(session_id=session_id, message_id=derived, text="")
    assert texts(calls.Get(session_id=session_id).messages) == ["be kind", "", ""]
    calls.UpdateMessage(session_id=session_id, message_id=before[0].message_id, text="pinned")
    assert calls.Get(session_id=session_id).messages[0].text == "pinned"


def test_a_delete_takes_one_message_and_its_position_for_good(calls, session_id):
    calls.Put(session_id=session_id, config=SMALL, messages=[
        memory.Message(role="system", text="first"), memory.Message(role="system", text="second"),
        *(user(f"m{i}", message_id=f"m{i}") for i in range(8))])
    stored = calls.all_messages(session_id)
    for name in ("m2", stored[0].message_id, "m7", "m5"):
        gone = next(m for m in stored if m.message_id == name)
        reply = calls.DeleteMessage(session_id=session_id, message_id=name)
        assert list(reply.message_ids) == [name]
        assert (reply.active_count, reply.archived_count) == (
            (1, 0) if gone.status == ACTIVE else (0, 1))
        stored = [m for m in stored if m.message_id != name]
        check(calls, session_id, stored)
        assert calls.Get(session_id=session_id).messages == [
            m for m in stored if m.status == ACTIVE]
    put = calls.Put(session_id=session_id, messages=[user("new", message_id="m7")])
    assert list(put.positions) == [11]
    error = refusal(calls.DeleteMessage, session_id=session_id, message_id="m2")
    assert (error.code(), reason(error)) == (NOT_FOUND, "MESSAGE_NOT_FOUND")
    for message in calls.all_messages(session_id):
        calls.DeleteMessage(session_id=session_id, message_id=message.message_id)
    check(calls, session_id, [])
    assert list(calls.Put(session_id=session_id, messages=[user("x")]).positions) == [12]


def test_archived_messages_are_changed_and_deleted_too(calls, session_id):
    config = memory.SessionConfig(token_limit=20, token_flush_size=1, tokenizer="whitespace",
                                  chat_history_token_ratio=0.5)
    calls.Put(session_id=session_id, config=config,
              messages=[user(f"m{i}", message_id=f"m{i}") for i in range(6)])
    assert calls.all_messages(session_id)[0].status != ACTIVE
    calls.UpdateMessage(session_id=session_id, message_id="m0", text="much longer than before")
    calls.DeleteMessage(session_id=session_id, message_id="m1")
    stored = calls.all_messages(session_id)
    assert texts(stored)[:2] == ["much longer than before", "m2"]
    check(calls, session_id, stored)


def test_search_follows(calls, session_id):
    words_alone = memory.SessionConfig(retrieval=memory.Retrieval(vector_weight=0))
    calls.Put(config=words_alone, session_id=session_id, messages=[
        user("a parrot", message_id="a"), user("a hamster", message_id="b")])

    def found(query: str) -> list[str]:
        return [r.message.text for r in calls.Query(session_id=session_id, query=query).results]

    assert found("parrot") == ["a parrot"]
    calls.UpdateMessage(session_id=session_id, message_id="a", text="a tortoise")
    assert found("parrot") == [] and found("tortoise") == ["a tortoise"]
    calls.DeleteMessage(session_id=session_id, message_id="b")
    assert found("hamster") == []


def test_retries_are_done_once(calls, session_id):
    calls.Put(session_id=session_id, messages=[
        user("x", message_id="a"), user("y", message_id="b")])
    update = {"session_id": session_id, "message_id": "a", "text": "z", "request_id": "u"}
    delete = {"session_id": session_id, "message_id": "a", "request_id": "d"}
    first = calls.UpdateMessage(**update)
    calls.UpdateMessage(session_id=session_id, message_id="a", text="later")
    again = calls.UpdateMessage(**update)
    assert again.replayed and again.revision == first.revision
    assert calls.all_messages(session_id)[0].text == "later"
    gone = calls.DeleteMessage(**delete)
    calls.Put(session_id=session_id, messages=[user("other", message_id="a")])
    again = calls.DeleteMessage(**delete)
    assert again.replayed and again.message_ids == gone.message_ids
    assert texts(calls.all_messages(session_id)) == ["y", "other"]
    error = refusal(calls.DeleteMessage, **{**delete, "message_id": "b"})
    assert reason(error) == "REQUEST_ID_REUSED"


def test_refusals_change_nothing(calls, session_id):
    error = refusal(calls.DeleteMessage, session_id=session_id, message_id="a")
    assert (error.code(), reason(error)) == (NOT_FOUND, "SESSION_NOT_FOUND")
    calls.Put(session_id=session_id, messages=[user("x", message_id="a"), user("y")])
    stored = calls.all_messages(session_id)
    for method, fields, code, said in (
        (calls.UpdateMessage, {"message_id": "none"}, NOT_FOUND, "message_id:"),
        (calls.UpdateMessage, {"message_id": ""}, INVALID, "message_id:"),
        (calls.DeleteMessage, {"message_id": ""}, INVALID, "message_id:"),
        (calls.UpdateMessage, {"text": "x", "parts": [memory.Part(text="y")]}, INVALID, "text:"),
        (calls.UpdateMessage, {"parts": [memory.Part()]}, INVALID, "parts[0]:"),
        (calls.UpdateMessage, {"metadata_json": "{"}, INVALID, "metadata_json:"),
        (calls.UpdateMessage, {"name": "x" * 257}, INVALID, "name:"),
        (calls.UpdateMessage, {"token_count": -1}, INVALID, "token_count:"),
        (calls.UpdateMessage, {"expected_revision": 7}, grpc.StatusCode.ABORTED, "expected_"),
        (calls.DeleteMessage, {"expected_revision": 7}, grpc.StatusCode.ABORTED, "expected_"),
    ):
        error = refusal(method, **{"session_id": session_id, "message_id": "a", **fields})
        assert error.code() == code, fields
        assert error.details().startswith(said), error.details()
    assert calls.all_messages(session_id) == stored


def test_where_the_caller_counts_new_content_brings_its_count(calls, session_id):
    calls.Put(session_id=session_id, config=memory.SessionConfig(tokenizer="caller"),
              messages=[user("x", message_id="a", token_count=5)])
    error = refusal(calls.UpdateMessage, session_id=session_id, message_id="a", text="y")
    assert error.code() == INVALID and error.details().startswith("token_count:")
    calls.UpdateMessage(session_id=session_id, message_id="a", name="Ann")
    assert calls.all_messages(session_id)[0].token_count == 5
    calls.UpdateMessage(session_id=session_id, message_id="a", text="y", token_count=9)
    assert calls.GetSession(session_id=session_id).session.active_token_count == 9


def test_a_call_and_its_results_are_not_torn_apart(calls, session_id):
    calls.Put(session_id=session_id, messages=[
        user("ask", message_id="q"), call_of("c", message_id="call"),
        result_of("c", message_id="one"), user("again"),
        # The id comes once more: another pair.
        call_of("c", message_id="call2"), result_of("c", message_id="two"), assistant("said")])
    error = refusal(calls.DeleteMessage, session_id=session_id, message_id="one")
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "TOOL_PAIR")
    assert "delete call too" in error.details()
    assert len(calls.all_messages(session_id)) == 7
    gone = calls.DeleteMessage(session_id=session_id, message_id="one", with_tool_messages=True)
    assert list(gone.message_ids) == ["call", "one"] and gone.active_count == 2
    error = refusal(calls.UpdateMessage, session_id=session_id, message_id="call2", text="no call")
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "TOOL_PAIR")
    calls.UpdateMessage(session_id=session_id, message_id="two", parts=result_of("c").parts)
    calls.DeleteMessage(session_id=session_id, message_id="q")
    assert [m.message_id for m in calls.all_messages(session_id)][1:3] == ["call2", "two"]


def test_many_writers_lose_nothing(server, session_id):
    """Puts, updates and deletes at once: each does what it says, none undoes another."""
    with server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id=session_id, config=SMALL,
                  messages=[user("0", message_id=f"shared{i}") for i in range(40)])
    failures: list[BaseException] = []
    kept: dict[str, str] = {}

    def work(number: int) -> None:
        chance = random.Random(number)
        try:
            with server.channel() as own:
                calls = Calls(own)
                for i in range(25):
                    name = f"w{number}-{i}"
                    calls.Put(session_id=session_id, messages=[user(name, message_id=name)])
                    if chance.random() < 0.5:
                        calls.UpdateMessage(session_id=session_id, message_id=name, text=name * 2)
                        kept[name] = name * 2
                    elif chance.random() < 0.5:
                        calls.DeleteMessage(session_id=session_id, message_id=name)
                    else:
                        kept[name] = name
                for i in range(number, 40, 4):
                    calls.DeleteMessage(session_id=session_id, message_id=f"shared{i}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with server.channel() as channel:
        calls = Calls(channel)
        stored = calls.all_messages(session_id)
        assert {m.message_id: m.text for m in stored} == kept
        check(calls, session_id, stored)


def test_what_is_changed_is_there_after_a_restart(store):
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="s", messages=[user(f"m{i}", message_id=f"m{i}") for i in range(4)])
        calls.UpdateMessage(session_id="s", message_id="m1", text="changed")
        calls.DeleteMessage(session_id="s", message_id="m2")
        stored = calls.all_messages("s")
        server.kill()
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        assert texts(calls.all_messages("s")) == ["m0", "changed", "m3"]
        check(calls, "s", stored)


@pytest.fixture(scope="module")
def models():
    with ModelServer() as running:
        yield running


@pytest.fixture
def fed(store, models, tmp_path):
    """Calls to a server with the models."""
    arguments = [models_file(tmp_path, models, {"timeout_ms": 60000}), "--job-retry-ms=20"]
    models.set_replies(["none"])
    with Server(store, arguments=arguments) as running, running.channel() as channel:
        yield Calls(channel)


FACTS = block("facts", "fact-extraction", model="chat", facts=["Configured."])


def facts_of(calls: Calls) -> block_wire.KnownFacts:
    return calls.GetBlock(session_id="s", block="facts").facts


def test_facts_whose_only_evidence_goes_are_retired(fed, models):
    models.set_replies(['<facts><fact evidence="1">Has a cat.</fact></facts>', "none"])
    config = every_turn(FACTS)
    first = fed.Put(session_id="s", messages=turn("I have a cat"), config=config)
    fed.Put(session_id="s", messages=turn("What else?"), wait=WAIT)
    assert [fact.text for fact in facts_of(fed).facts] == ["Configured.", "Has a cat."]
    unrelated = fed.DeleteMessage(session_id="s", message_id=first.message_ids[1])
    assert unrelated.retired_fact_count == 0
    gone = fed.DeleteMessage(session_id="s", message_id=first.message_ids[0])
    assert gone.retired_fact_count == 1
    known = facts_of(fed)
    assert [fact.text for fact in known.facts] == ["Configured."]
    past, = known.history
    assert (past.fact.text, past.end) == ("Has a cat.", block_wire.FACT_END_RETIRED)
    fed.UndoBlockChange(session_id="s", block="facts", change=past.change)
    assert [fact.text for fact in facts_of(fed).facts] == ["Configured.", "Has a cat."]


def test_a_job_under_way_learns_nothing_from_what_is_deleted(fed, models):
    models.set_replies(['<facts><fact evidence="1">Has a secret.</fact></facts>', "none"])
    config = every_turn(FACTS)
    first = fed.Put(session_id="s", messages=turn("A secret"), config=config)
    asked = len(models.requests)
    with models.hanging():
        fed.Put(session_id="s", messages=turn("What else?"))
        models.wait_for_requests(asked + 1)
        fed.DeleteMessage(session_id="s", message_id=first.message_ids[0])
    assert {job.state for job in drained(fed, "s")} == {DONE}
    assert [fact.text for fact in facts_of(fed).facts] == ["Configured."]


def test_a_job_whose_messages_are_all_deleted_ends(fed):
    slow = block("w", "worker", worker="nobody")
    first = fed.Put(session_id="s", messages=turn("x"), config=every_turn(slow))
    fed.Put(session_id="s", messages=turn("y"))
    for message_id in first.message_ids:
        fed.DeleteMessage(session_id="s", message_id=message_id)
    assert {job.state for job in drained(fed, "s")} == {DONE}
