"""What blocks know can be seen, and a change of facts undone, whatever runs meanwhile."""

from __future__ import annotations

import json

import grpc
import pytest

from support.blocks import (
    DONE,
    WAIT,
    block,
    drained,
    every_turn,
    field_of,
    jobs_of,
    models_file,
    section,
    turn,
)
from support.calls import Calls, block_wire, memory, reason, refusal, user
from support.model_server import DIMENSIONS, ModelServer
from support.server import Server
from support.stores import fresh_store
from support.waiting import wait_for

import memoryd

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
FAILED_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
FACTS = block("facts", "fact-extraction", model="chat", facts=["Logan has a cat."])
VECTORS = block("vectors", "vector", embedder="embed")
REPLACING = '<facts><fact evidence="1" replaces="1">Logan has a dog.</fact></facts>'


@pytest.fixture(scope="module")
def models():
    with ModelServer() as server:
        yield server


@pytest.fixture(autouse=True)
def quiet(models):
    models.set_replies(["none"])


@pytest.fixture(scope="module")
def arguments(models, tmp_path_factory):
    return [models_file(tmp_path_factory.mktemp("models"), models, {"timeout_ms": 60000}),
            "--job-retry-ms=20", "--sweep-interval-ms=100"]


@pytest.fixture(scope="module")
def server(store_kind, arguments):
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as running:
        yield running


@pytest.fixture(scope="module")
def calls(server):
    with server.channel() as channel:
        yield Calls(channel)


def feed(calls: Calls, session_id: str, *texts: str, config=None) -> None:
    """Turns, each of which feeds the blocks with the one before it."""
    for text in texts:
        reply = calls.Put(session_id=session_id, messages=turn(text), wait=WAIT, config=config)
        assert not reply.open_jobs


def replaced(calls: Calls, models: ModelServer, session_id: str) -> None:
    """A session in which a dog has taken the cat's place, as change 1."""
    models.set_replies([REPLACING, "none"])
    feed(calls, session_id, "My cat is a dog now", "What is it?",
         config=every_turn(FACTS))
    assert texts(calls, session_id) == ["Logan has a dog."]


def facts_of(calls: Calls, session_id: str) -> block_wire.KnownFacts:
    return calls.GetBlock(session_id=session_id, block="facts").facts


def texts(calls: Calls, session_id: str) -> list[str]:
    return [fact.text for fact in facts_of(calls, session_id).facts]


def history(calls: Calls, session_id: str) -> list[str]:
    return [past.fact.text for past in facts_of(calls, session_id).history]


def test_facts_that_nobody_says_again_are_retired(calls, models, session_id):
    models.set_replies(['<facts><fact evidence="1">Logan has a dog.</fact></facts>', "none"])
    lasting = block("facts", "fact-extraction", model="chat", facts=["Logan has a cat."], ttl=1)
    feed(calls, session_id, "I have a dog", "What is it?", config=every_turn(lasting))
    wait_for(lambda: texts(calls, session_id) == ["Logan has a cat."])
    past = facts_of(calls, session_id).history[0]
    assert past.fact.text == "Logan has a dog." and past.end == block_wire.FACT_END_RETIRED
    for kind in ("summary", "entity"):
        config = every_turn(block("b", kind, ttl=1, model="chat"))
        error = refusal(calls.CreateSession, session_id=f"{session_id} {kind}", config=config)
        assert error.code() == INVALID and "ttl" in error.details()
    for ttl in (0, -1, 315_360_001, 1.5, "1"):
        config = every_turn(block("b", "fact-extraction", model="chat", ttl=ttl))
        error = refusal(calls.CreateSession, session_id=f"{session_id} bad", config=config)
        assert error.code() == INVALID and "config.blocks[0].options_json" in error.details()


def test_facts_show_where_they_come_from(calls, models, session_id):
    config = every_turn(FACTS)
    calls.CreateSession(session_id=session_id, config=config)
    found = calls.GetBlock(session_id=session_id, block="facts")
    assert (found.block.name, found.block.kind, found.block.options_json) == (
        "facts", "fact-extraction", FACTS.options_json)
    assert (found.revision, found.jobs_made, found.jobs_ended) == (1, 0, 0)
    assert not found.HasField("update_time")
    (cat,) = found.facts.facts
    assert (cat.fact_id, cat.text, list(cat.message_ids), cat.trust) == (
        1, "Logan has a cat.", [], 1.0)
    assert not cat.HasField("first_time")

    models.set_replies([REPLACING, "none"])
    calls.Put(session_id=session_id, messages=[user("My cat is a dog now", message_id="m-1")])
    feed(calls, session_id, "What is it?")
    found = calls.GetBlock(session_id=session_id, block="facts")
    assert found.revision == calls.GetSession(session_id=session_id).session.revision
    assert (found.jobs_made, found.jobs_ended) == (1, 1)
    assert found.HasField("update_time")
    (dog,) = found.facts.facts
    assert (dog.fact_id, dog.text, list(dog.message_ids), dog.seen_count, dog.trust) == (
        2, "Logan has a dog.", ["m-1"], 1, 0.8)
    assert dog.first_time == dog.last_time
    assert dog.HasField("first_time")
    (past,) = found.facts.history
    (job,) = jobs_of(calls, session_id)
    assert past.fact == cat
    assert (past.end, past.change, past.job_id, list(past.replaced_by), list(past.brought)) == (
        block_wire.FACT_END_REPLACED, 1, job.job_id, [2], [2])


def test_an_undone_change_shows_in_the_next_get(calls, models, session_id):
    replaced(calls, models, session_id)
    reply = calls.UndoBlockChange(session_id=session_id, block="facts", change=1)
    assert [fact.text for fact in reply.facts] == ["Logan has a cat."]
    assert not reply.replayed
    assert reply.facts[0] == facts_of(calls, session_id).facts[0]
    got = calls.Get(session_id=session_id)
    assert section(got, "facts") == ["<fact>Logan has a cat.</fact>"]
    assert got.revision == reply.revision
    (past,) = facts_of(calls, session_id).history
    assert (past.fact.text, past.end, past.job_id) == (
        "Logan has a dog.", block_wire.FACT_END_UNDONE, "")
    error = refusal(calls.UndoBlockChange, session_id=session_id, block="facts", change=1)
    assert (error.code(), reason(error)) == (NOT_FOUND, "CHANGE_NOT_FOUND")
    # The undoing can be undone as well.
    calls.UndoBlockChange(session_id=session_id, block="facts", change=past.change)
    assert texts(calls, session_id) == ["Logan has a dog."]


def test_a_job_under_way_takes_its_messages_in_anew(calls, models, session_id):
    replaced(calls, models, session_id)
    models.set_replies(["<facts><fact>Logan has a bird.</fact></facts>"])
    before = len(models.requests)
    with models.hanging():
        calls.Put(session_id=session_id, messages=turn("And a bird"))
        models.wait_for_requests(before + 1)
        calls.UndoBlockChange(session_id=session_id, block="facts", change=1)
        assert texts(calls, session_id) == ["Logan has a cat."]
    jobs = drained(calls, session_id)
    assert [(job.state, job.attempts, job.last_error) for job in jobs] == [(DONE, 1, "")] * 2
    assert jobs[1].usage.calls == 2
    assert texts(calls, session_id) == ["Logan has a cat.", "Logan has a bird."]
    assert history(calls, session_id) == ["Logan has a dog."]
    first, second = (request.texts[0] for request in models.requests[before:])
    assert "a dog." in first and "a cat." not in first
    assert "a cat." in second and "a dog." not in second


def test_an_undo_on_another_server_is_not_lost(models, arguments, session_id):
    with fresh_store("postgresql") as store, \
            Server(store, arguments=arguments) as one, Server(store, arguments=arguments) as two, \
            one.channel() as channel_one, two.channel() as channel_two:
        here, there = Calls(channel_one), Calls(channel_two)
        replaced(here, models, session_id)
        models.set_replies(["<facts><fact>Logan has a bird.</fact></facts>"])
        before = len(models.requests)
        with models.hanging():
            here.Put(session_id=session_id, messages=turn("And a bird"))
            models.wait_for_requests(before + 1)
            there.UndoBlockChange(session_id=session_id, block="facts", change=1)
            assert texts(here, session_id) == ["Logan has a cat."]
        drained(here, session_id)
        for calls in (here, there):
            assert texts(calls, session_id) == ["Logan has a cat.", "Logan has a bird."]
            assert history(calls, session_id) == ["Logan has a dog."]


def test_a_retry_undoes_once(store, models, arguments, session_id):
    undo = {"session_id": session_id, "block": "facts", "change": 1, "request_id": "undo-1"}
    with Server(store, arguments=arguments) as server, server.channel() as channel:
        calls = Calls(channel)
        replaced(calls, models, session_id)
        first = calls.UndoBlockChange(**undo)
        again = calls.UndoBlockChange(**undo)
        assert again.replayed
        assert (again.revision, list(again.facts)) == (first.revision, list(first.facts))
        error = refusal(calls.UndoBlockChange, **{**undo, "change": 2})
        assert reason(error) == "REQUEST_ID_REUSED"
        error = refusal(calls.UndoBlockChange, session_id=session_id, block="facts", change=2,
                        expected_revision=1)
        assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "REVISION_MISMATCH")
    with Server(store, arguments=arguments) as server, server.channel() as channel:
        calls = Calls(channel)
        again = calls.UndoBlockChange(**undo)
        assert again.replayed and list(again.facts) == list(first.facts)
        assert texts(calls, session_id) == ["Logan has a cat."]


def test_entries_come_in_pages(calls, session_id):
    said = [f"Message {number}" for number in range(6)]
    calls.CreateSession(session_id=session_id, config=every_turn(VECTORS))
    assert not calls.all_entries(session_id, "vectors")
    feed(calls, session_id, *said)
    found = calls.GetBlock(session_id=session_id, block="vectors")
    assert (found.entries.entry_count, found.jobs_ended) == (5, 5)
    entries = calls.all_entries(session_id, "vectors", page_size=2)
    assert [entry.text for entry in entries] == [
        f"user: {text}\nassistant: I see." for text in said[:5]]
    assert [entry.position for entry in entries] == [1, 2, 3, 4, 5]
    assert {entry.dimensions for entry in entries} == {DIMENSIONS}
    ids = {m.position: m.message_id for m in calls.all_messages(session_id)}
    assert [(s.position, s.message_id) for s in entries[1].sources] == [(3, ids[3]), (4, ids[4])]

    token = calls.ListBlockEntries(session_id=session_id, block="vectors",
                                   page_size=2).next_page_token
    error = refusal(calls.ListBlockEntries, session_id=session_id + "x", block="vectors",
                    page_token=token)
    assert (error.code(), field_of(error)) == (INVALID, "page_token")
    calls.Reset(session_id=session_id)
    error = refusal(calls.ListBlockEntries, session_id=session_id, block="vectors",
                    page_token=token)
    assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "SESSION_REPLACED")
    assert not calls.all_entries(session_id, "vectors")


@pytest.mark.large
def test_a_page_of_entries_is_bounded(calls, session_id):
    said = [f"{number} " + "word " * 350 for number in range(700)]
    config = every_turn(VECTORS, token_limit=100_000)
    for begin in range(0, 700, 350):
        calls.Put(session_id=session_id, messages=[user(text) for text in said[begin:begin + 350]],
                  config=config, wait=WAIT)
    page = calls.ListBlockEntries(session_id=session_id, block="vectors", page_size=1000)
    assert 100 < len(page.entries) < 699 and page.ByteSize() <= 1 << 20
    entries = calls.all_entries(session_id, "vectors")
    assert [entry.text.split()[1] for entry in entries] == [str(number) for number in range(699)]


def test_a_block_taken_out_and_put_in_again_begins_anew(calls, session_id):
    calls.CreateSession(session_id=session_id, config=every_turn(VECTORS))
    feed(calls, session_id, "one", "two")
    core = block("core", "static", content=["Always"])
    calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(blocks=[core]))
    error = refusal(calls.GetBlock, session_id=session_id, block="vectors")
    assert (error.code(), reason(error)) == (NOT_FOUND, "BLOCK_NOT_FOUND")
    calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(blocks=[VECTORS]))
    assert not calls.all_entries(session_id, "vectors")
    feed(calls, session_id, "three")
    assert calls.GetBlock(session_id=session_id, block="vectors").entries.entry_count == 1
    (entry,) = calls.all_entries(session_id, "vectors")
    assert (entry.position, entry.text) == (1, "user: two\nassistant: I see.")


class Counter(memoryd.Block):
    name = "counter"

    def put(self, messages, state):
        return (state or 0) + len(messages)

    def get(self, messages, state):
        return str(state)


def test_every_kind_shows_what_it_knows(server, calls, models, session_id):
    blocks = (block("core", "static", content=["Always"]),
              block("summary", "summary", model="chat"),
              block("counter", "worker", worker="counting"))
    worker = memoryd.Worker(server.target, name="counting", blocks=[Counter()])
    worker.start()
    try:
        models.set_replies(["They talk."])
        feed(calls, session_id, "one", "two", config=every_turn(*blocks))
        found = {b.name: calls.GetBlock(session_id=session_id, block=b.name) for b in blocks}
    finally:
        worker.close()
    assert found["core"].WhichOneof("knowledge") is None
    assert found["core"].block.content[0].text == "Always"
    ids = [m.message_id for m in calls.all_messages(session_id)]
    assert found["summary"].summary == block_wire.KnownSummary(
        text="They talk.", message_count=2, first_message_id=ids[0], last_message_id=ids[1])
    assert json.loads(found["counter"].worker_state) == 2

    other = session_id + "-entities"
    models.set_replies(['<entity name="Ann" evidence="1">likes tea</entity>',
                        '<entity name="Ann" evidence="1">likes coffee</entity>'])
    feed(calls, other, "one", "two", "three",
         config=every_turn(block("people", "entity", model="chat")))
    known = calls.GetBlock(session_id=other, block="people").entities
    ids = [m.message_id for m in calls.all_messages(other)]
    (ann,) = known.entities
    assert (ann.name, ann.text, list(ann.message_ids)) == ("Ann", "likes coffee", [ids[0], ids[2]])
    (past,) = known.history
    assert (past.entity.text, past.job_id) == ("likes tea", jobs_of(calls, other)[1].job_id)


def test_llama_index_keeps_texts_alone(calls, models, session_id):
    models.set_replies(["<fact>Logan has a dog.</fact>"])
    feed(calls, session_id, "one", "two", config=every_turn(FACTS, VECTORS, profile="llama-index"))
    known = facts_of(calls, session_id)
    assert known == block_wire.KnownFacts(facts=[
        block_wire.Fact(text="Logan has a cat."), block_wire.Fact(text="Logan has a dog.")])
    for entry in calls.all_entries(session_id, "vectors"):
        assert json.loads(entry.metadata_json) == {"session_id": session_id}
    error = refusal(calls.UndoBlockChange, session_id=session_id, block="facts", change=1)
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "BLOCK_KEEPS_NO_HISTORY")


def test_what_is_not_there_is_named(calls, session_id):
    for call, fields in ((calls.GetBlock, {}), (calls.ListBlockEntries, {}),
                         (calls.UndoBlockChange, {"change": 1})):
        error = refusal(call, session_id=session_id, block="facts", **fields)
        assert (error.code(), reason(error)) == (NOT_FOUND, "SESSION_NOT_FOUND")
    calls.CreateSession(session_id=session_id, config=every_turn(FACTS, VECTORS))
    for call, fields in ((calls.GetBlock, {}), (calls.ListBlockEntries, {}),
                         (calls.UndoBlockChange, {"change": 1})):
        error = refusal(call, session_id=session_id, block="other", **fields)
        assert (error.code(), reason(error)) == (NOT_FOUND, "BLOCK_NOT_FOUND")
        for bad, field in (({"session_id": ""}, "session_id"), ({"block": ""}, "block"),
                           ({"block": "a\n"}, "block"), ({"block": "x" * 65}, "block")):
            error = refusal(call, **{"session_id": session_id, "block": "facts", **fields, **bad})
            assert (error.code(), field_of(error)) == (INVALID, field)
    error = refusal(calls.ListBlockEntries, session_id=session_id, block="facts")
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "BLOCK_HAS_NO_ENTRIES")
    error = refusal(calls.ListBlockEntries, session_id=session_id, block="vectors", page_size=-1)
    assert (error.code(), field_of(error)) == (INVALID, "page_size")
    error = refusal(calls.ListBlockEntries, session_id=session_id, block="vectors",
                    page_token="nonsense")
    assert (error.code(), field_of(error)) == (INVALID, "page_token")
    error = refusal(calls.UndoBlockChange, session_id=session_id, block="vectors", change=1)
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "BLOCK_KEEPS_NO_HISTORY")
    error = refusal(calls.UndoBlockChange, session_id=session_id, block="facts")
    assert (error.code(), field_of(error)) == (INVALID, "change")
    error = refusal(calls.UndoBlockChange, session_id=session_id, block="facts", change=1,
                    request_id="")
    assert (error.code(), field_of(error)) == (INVALID, "request_id")
