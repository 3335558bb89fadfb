"""An embedder's part in Query: what messages mean is found out by jobs, and nobody waits for it."""

from __future__ import annotations

import grpc
import pytest

from support.blocks import (
    DONE,
    FAILED,
    OPEN,
    WAIT,
    block,
    every_turn,
    field_of,
    jobs_of,
    missing,
    models_file,
)
from support.calls import Calls, assistant, memory, note, refusal, user
from support.embedders import BLOCK, LINES, config, cosine, embed, found, put, query, settled
from support.model_server import DIMENSIONS, ModelServer
from support.server import Server
from support.stores import fresh_store
from support.waiting import wait_for

import memoryd

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
def models():
    with ModelServer(embed=embed) as server:
        yield server


@pytest.fixture(scope="module")
def shared_models():
    with ModelServer(embed=embed) as server:
        yield server


@pytest.fixture(scope="module")
def target(store_kind, shared_models, tmp_path_factory):
    arguments = [models_file(tmp_path_factory.mktemp("models"), shared_models),
                 "--job-retry-ms=20"]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server:
        yield server.target


@pytest.fixture(scope="module")
def calls(target):
    with grpc.insecure_channel(target) as channel:
        yield Calls(channel)


@pytest.fixture
def lines(calls, session_id) -> str:
    """A session whose messages have their embeddings."""
    put(calls, session_id, *LINES, config=config())
    settled(calls, session_id)
    return session_id


def test_a_query_finds_what_has_no_word_of_it(calls, lines):
    reply = query(calls, lines)
    best = reply.results[0]
    assert best.message.text == LINES[0] and best.score == 1
    assert best.parts_of_score.embedding == pytest.approx(1) and not best.parts_of_score.words
    assert not best.parts_of_score.HasField("cosine")
    assert best.parts_of_score.embedding_cosine > max(
        result.parts_of_score.embedding_cosine for result in reply.results[1:])
    assert found(calls, lines, "a downpour")[0] == LINES[1]
    assert [r.message.text for r in query(calls, lines, vector_threshold=0.5).results] == [LINES[0]]
    # Its jobs are listed as those of blocks are.
    jobs = jobs_of(calls, lines)
    assert jobs and all((job.block, job.state) == (BLOCK, DONE) for job in jobs)
    assert [job.end_position for job in jobs][-1] == 4
    error = refusal(calls.ListBlockEntries, session_id=lines, block=BLOCK)
    assert error.code() == grpc.StatusCode.NOT_FOUND


def test_its_weight_is_that_of_the_session(calls, lines, shared_models):
    calls.UpdateSession(session_id=lines, config=config(embedder_weight=0.01))
    assert found(calls, lines, "hound likes cheese")[0] == LINES[2]
    calls.UpdateSession(session_id=lines, config=config(embedder_weight=10))
    assert found(calls, lines, "puppy hound puppy hound cheese")[0] == LINES[0]
    calls.UpdateSession(session_id=lines, config=config(embedder_weight=0))
    before = len(shared_models.requests)
    assert found(calls, lines, "hound cheese") == [LINES[2]]
    assert len(shared_models.requests) == before


def test_names_of_speakers_are_not_part_of_the_question(calls, session_id, shared_models):
    calls.Put(session_id=session_id, messages=[user("I have a dog", name="Ann")], config=config())
    settled(calls, session_id)
    query(calls, session_id, "Does Ann have a hound?")
    assert shared_models.requests[-1].texts == ["Does have a hound?"]


def test_many_messages_are_asked_for_together(calls, session_id, shared_models):
    before = len(shared_models.requests)
    put(calls, session_id, *(f"line {i}" for i in range(300)), config=config())
    calls.Put(session_id=session_id, messages=[assistant("I see.")] * 3, contents=[note("a dog")])
    settled(calls, session_id)
    asked = [r.texts for r in shared_models.requests[before:] if len(r.texts) > 1]
    assert sum(map(len, asked)) == 303 and len(asked) <= 6
    # A content has none.
    assert found(calls, session_id, "line 299")[0] == "line 299"


def test_a_put_waits_for_none_of_it(calls, session_id, shared_models):
    with shared_models.hanging():
        for i in range(3):
            reply = put(calls, session_id, LINES[i], wait=WAIT, config=config() if i == 0 else None)
            assert not reply.open_jobs
        reply = query(calls, session_id, "cheese")
        assert [r.message.text for r in reply.results] == [LINES[2]]
        assert list(reply.notices) == ["EMBEDDINGS_PENDING"] and reply.pending_embeddings == 3
        assert not reply.missing_blocks
        assert [job.state for job in jobs_of(calls, session_id)] == [OPEN]
    settled(calls, session_id)
    assert found(calls, session_id)[0] == LINES[0]


def test_a_query_does_without_an_embedder_that_does_not_answer(calls, lines, shared_models):
    with shared_models.hanging():
        reply = query(calls, lines, "like hound", timeout=3)
        assert [r.message.text for r in reply.results] == [LINES[2]]
        assert list(reply.notices) == ["NO_EMBEDDING"] and missing(reply) == {BLOCK: "TIMEOUT"}
        put(calls, lines, "a puppy")
        reply = query(calls, lines, "hound", timeout=3)
        assert list(reply.notices) == ["NO_EMBEDDING", "EMBEDDINGS_PENDING"]
        assert reply.pending_embeddings == 1 and not reply.results
        # UpdateContext never asks it.
        calls.UpdateContext(session_id=lines, messages=[user("hound?")])
    settled(calls, lines)
    assert set(found(calls, lines)[:2]) == {LINES[0], "a puppy"}


@pytest.mark.parametrize("lie, reason", (
    (("status", {"code": 500}), "UNAVAILABLE"), (("status", {"code": 404}), "FAILED_PRECONDITION"),
    (("half_json", {}), "DATA_LOSS"), (("nan", {}), "DATA_LOSS"),
    (("wrong_dimensions", {}), "DATA_LOSS"), (("cut", {}), "UNAVAILABLE"),
    (("redirect", {}), "FAILED_PRECONDITION")))
def test_nonsense_hurts_nobody(calls, lines, shared_models, lie, reason):
    name, details = lie
    shared_models.lie(name, **details)
    reply = query(calls, lines, "hound likes cheese")
    assert missing(reply) == {BLOCK: reason} and list(reply.notices) == ["NO_EMBEDDING"]
    assert reply.results[0].message.text == LINES[2]
    # A job is tried again.
    shared_models.lie(name, **details)
    put(calls, lines, "a puppy")
    job = wait_for(lambda: next((job for job in jobs_of(calls, lines)
                                 if (job.end_position, job.state) == (5, DONE)), None), 6000)
    assert (job.state, job.attempts) == (DONE, 2) and reason in job.last_error
    assert set(found(calls, lines)[:2]) == {LINES[0], "a puppy"}


def test_a_changed_message_is_found_by_its_new_text_alone(calls, lines, shared_models):
    message_id = calls.all_messages(lines)[0].message_id
    with shared_models.hanging():
        calls.UpdateMessage(session_id=lines, message_id=message_id, text="It is a downpour")
        reply = query(calls, lines, timeout=3)
        assert reply.pending_embeddings == 1 and not reply.results
    settled(calls, lines)
    assert set(found(calls, lines, "rain")[:2]) == {LINES[1], "It is a downpour"}
    for result in query(calls, lines).results:
        likeness = cosine(embed("hound"), embed(result.message.text))
        assert result.parts_of_score.embedding_cosine == pytest.approx(likeness, abs=0.01)


def test_what_is_gone_is_not_found(calls, lines):
    calls.DeleteMessage(session_id=lines, message_id=calls.all_messages(lines)[0].message_id)
    assert LINES[0] not in found(calls, lines)
    calls.Reset(session_id=lines)
    assert not found(calls, lines)
    put(calls, lines, "a puppy")
    settled(calls, lines)
    assert found(calls, lines) == ["a puppy"]
    calls.Set(session_id=lines, messages=[user("a hound")])
    settled(calls, lines)
    assert found(calls, lines) == ["a hound"]
    calls.DeleteSession(session_id=lines)
    assert not calls.Query(session_id=lines, query="hound").notices


def test_messages_that_came_before_it_are_embedded_too(calls, session_id):
    put(calls, session_id, *LINES, config=config(embedder=""))
    assert not found(calls, session_id) and not jobs_of(calls, session_id)
    calls.UpdateSession(session_id=session_id, config=config())
    settled(calls, session_id)
    assert found(calls, session_id)[0] == LINES[0]
    calls.UpdateSession(session_id=session_id, config=config(embedder=""))
    assert not found(calls, session_id)


def test_a_session_that_waits_for_its_blocks_does_not_wait_for_it(target, calls, session_id,
                                                                  shared_models):
    class Counter(memoryd.Block):
        name = "count"

        def put(self, messages, state):
            return (state or 0) + len(messages)

    with memoryd.Worker(target, name="agent", blocks=[Counter()]), shared_models.hanging():
        session = every_turn(block("count", "worker", worker="agent"),
                             feed=memory.FEED_BEFORE_REPLY,
                             retrieval=memory.Retrieval(embedder="embed"))
        for i in range(4):
            reply = put(calls, session_id, f"line {i}", config=session, wait=WAIT)
            assert not reply.open_jobs
        states = {(job.block, job.state) for job in jobs_of(calls, session_id)}
        assert states == {(BLOCK, OPEN), ("count", DONE)}
    settled(calls, session_id)


def facts_of(calls, session_id: str) -> list[tuple[str, int]]:
    facts = calls.GetBlock(session_id=session_id, block="facts").facts.facts
    return [(fact.text, fact.seen_count) for fact in facts]


def test_facts_that_are_known_in_other_words_are_said_again(calls, session_id, shared_models,
                                                            monkeypatch):
    def learn(*facts: str) -> None:
        shared_models.set_replies(["".join(f"<fact>{fact}</fact>" for fact in facts)])
        for text in ("one", "two"):
            put(calls, session_id, text, wait=WAIT)

    calls.CreateSession(session_id=session_id, config=every_turn(
        block("facts", "fact-extraction", model="chat"), feed=memory.FEED_BEFORE_REPLY,
        retrieval=memory.Retrieval(embedder="embed")))
    learn("puppy downpour", "Ann likes cheese on Wednesdays with old friends")
    assert len(facts_of(calls, session_id)) == 2
    seen = facts_of(calls, session_id)[0][1]
    learn("hound rain", "Ann likes cheese on Wednesdays with old puppy friends")
    (same, more), (later, _) = facts_of(calls, session_id)
    assert same == "puppy downpour" and more > seen
    assert later == "Ann likes cheese on Wednesdays with old puppy friends"
    # An embedder that does not answer holds up nothing and takes nothing away.
    monkeypatch.setattr(shared_models, "embed", lambda _: [float("nan")] * DIMENSIONS)
    learn("hound downpour")
    assert [text for text, _ in facts_of(calls, session_id)] == [same, later, "hound downpour"]
    shared_models.set_replies(["none"])


def test_a_worker_may_be_the_embedder(target, calls, session_id):
    asked = []

    def answer(texts, purpose):
        asked.append((purpose, list(texts)))
        return [embed(text) for text in texts]

    put(calls, session_id, *LINES, config=config(embedder="mine", embedder_worker="agent"))
    reply = query(calls, session_id)
    assert list(reply.notices) == ["EMBEDDINGS_PENDING"] and not reply.missing_blocks
    with memoryd.Worker(target, name="agent", embedders={"mine": answer}):
        settled(calls, session_id)
        assert found(calls, session_id)[0] == LINES[0]
        assert ("text", list(LINES)) in asked and ("query", ["hound"]) in asked
    wait_for(lambda: missing(query(calls, session_id)) == {BLOCK: "WORKER_ELSEWHERE"})


def test_an_embedder_that_there_is_not_is_named(calls, session_id):
    put(calls, session_id, *LINES, config=config(embedder="nobody"))
    job = wait_for(lambda: next((j for j in jobs_of(calls, session_id) if j.last_error), None))
    assert job.state == OPEN and "no embedder of that name" in job.last_error
    assert query(calls, session_id).pending_embeddings == 3
    calls.UpdateSession(session_id=session_id, config=config())
    settled(calls, session_id)
    assert found(calls, session_id)[0] == LINES[0]


def test_a_job_that_failed_can_be_tried_again(store, models, session_id, tmp_path):
    with Server(store, arguments=[models_file(tmp_path, models), "--job-attempts=1"]) as server, \
            server.channel() as channel:
        calls = Calls(channel)
        models.lie("status", code=500)
        put(calls, session_id, *LINES, config=config())
        job = wait_for(lambda: jobs_of(calls, session_id, state=FAILED))[0]
        # The next ones go on.
        put(calls, session_id, "a puppy")
        wait_for(lambda: query(calls, session_id).pending_embeddings == 3)
        calls.RetryJob(session_id=session_id, job_id=job.job_id)
        settled(calls, session_id)
        assert set(found(calls, session_id)[:2]) == {LINES[0], "a puppy"}


def test_a_kill_loses_none(store, models, session_id, tmp_path):
    argument = models_file(tmp_path, models)
    with Server(store, arguments=[argument]) as server, server.channel() as channel:
        calls = Calls(channel)
        put(calls, session_id, *LINES, config=config())
        settled(calls, session_id)
        with models.hanging():
            put(calls, session_id, "a puppy")
            models.wait_for_requests(len(models.requests))
            server.kill()
    with Server(store, arguments=[argument]) as server, server.channel() as channel:
        calls = Calls(channel)
        settled(calls, session_id)
        assert set(found(calls, session_id)[:2]) == {LINES[0], "a puppy"}
        embedded = [text for request in models.requests for text in request.texts]
        assert embedded.count(LINES[0]) == 1, "what is embedded is not asked for again"


@pytest.mark.parametrize("field, fields", (
    ("embedder", {"embedder": "x" * 129}), ("embedder", {"embedder": "a\nb"}),
    ("embedder_worker", {"embedder_worker": "x" * 129, "embedder": "embed"}),
    ("embedder_worker", {"embedder_worker": "agent", "embedder": ""}),
    ("embedder_weight", {"embedder_weight": -0.1}), ("embedder_weight", {"embedder_weight": 10.1}),
    ("embedder_weight", {"embedder_weight": float("nan")})))
def test_a_setting_out_of_range_is_named(calls, session_id, field, fields):
    for call in (calls.CreateSession, calls.Put):
        error = refusal(call, session_id=session_id, config=config(**fields))
        assert error.code() == INVALID and field_of(error) == f"config.retrieval.{field}", error


def test_the_configuration_comes_back(calls, session_id):
    weights = calls.CreateSession(session_id=session_id).session.config.retrieval
    assert (weights.embedder, weights.embedder_worker, weights.embedder_weight) == ("", "", 1)
    assert weights.vector_weight == 0.6
    retrieval = memory.Retrieval(embedder="embed")
    weights = calls.UpdateSession(
        session_id=session_id,
        config=memory.SessionConfig(retrieval=retrieval)).session.config.retrieval
    assert (weights.embedder, weights.vector_weight) == ("embed", 0.3)
