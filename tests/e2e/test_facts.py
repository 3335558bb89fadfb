"""Facts that callers add, correct and delete: what follows from them, and what must not."""

from __future__ import annotations

import threading

import grpc
import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import DONE, WAIT, block, drained, every_turn, field_of, models_file, section, turn
from support.calls import Calls, block_wire, reason, refusal, user
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
ALREADY_EXISTS = grpc.StatusCode.ALREADY_EXISTS
PERMISSION_DENIED = grpc.StatusCode.PERMISSION_DENIED
FAILED_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
FACTS = block("facts", "fact-extraction", model="chat", facts=["Logan has a cat."], max_facts=10)
BIRD = "<facts><fact>Logan has a bird.</fact></facts>"


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
            "--job-retry-ms=20"]


@pytest.fixture(scope="module")
def calls(store_kind, arguments):
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as running, \
            running.channel() as channel:
        yield Calls(channel)


def known(calls: Calls, session_id: str) -> block_wire.KnownFacts:
    return calls.GetBlock(session_id=session_id, block="facts").facts


def texts(calls: Calls, session_id: str) -> list[str]:
    return [fact.text for fact in known(calls, session_id).facts]


def said(calls: Calls, session_id: str) -> list[str]:
    return section(calls.Get(session_id=session_id), "facts")


def found(calls: Calls, session_id: str, query: str) -> list[str]:
    results = calls.Query(session_id=session_id, query=query).results
    return [r.block_item.fact.text for r in results if r.block_item.HasField("fact")]


def undo(calls: Calls, session_id: str, change: int) -> None:
    calls.UndoBlockChange(session_id=session_id, block="facts", change=change)


def test_what_is_added_is_shown_found_and_taken_back(calls, session_id):
    calls.CreateSession(session_id=session_id, config=every_turn(FACTS))
    reply = calls.AddFact(session_id=session_id, block="facts", text=" Logan plays\nthe oboe. ")
    fact = reply.fact
    assert (fact.fact_id, fact.text, fact.seen_count, fact.trust, list(fact.message_ids)) == (
        2, "Logan plays the oboe.", 0, 0.8, [])
    assert fact.HasField("first_time") and fact.change == reply.change
    assert reply.revision == calls.GetSession(session_id=session_id).session.revision
    assert list(known(calls, session_id).facts)[1] == fact
    assert said(calls, session_id) == ["<fact>Logan has a cat.</fact>",
                                       "<fact>Logan plays the oboe.</fact>"]
    assert found(calls, session_id, "oboe")[0] == "Logan plays the oboe."
    undo(calls, session_id, reply.change)
    assert texts(calls, session_id) == ["Logan has a cat."]
    assert found(calls, session_id, "oboe") in ([], ["Logan has a cat."])
    (past,) = known(calls, session_id).history
    assert (past.fact, past.end) == (fact, block_wire.FACT_END_UNDONE)
    undo(calls, session_id, past.change)
    assert texts(calls, session_id) == ["Logan has a cat.", "Logan plays the oboe."]


def test_a_correction_and_a_deletion_go_into_the_history(calls, session_id):
    calls.CreateSession(session_id=session_id, config=every_turn(FACTS))
    cat = known(calls, session_id).facts[0]
    corrected = calls.UpdateFact(session_id=session_id, block="facts", fact_id=1,
                                 text="Logan has two cats.")
    assert (corrected.fact.fact_id, corrected.fact.text, corrected.fact.trust) == (
        1, "Logan has two cats.", cat.trust)
    assert said(calls, session_id) == ["<fact>Logan has two cats.</fact>"]
    assert found(calls, session_id, "two") == ["Logan has two cats."]
    (past,) = known(calls, session_id).history
    assert (past.fact, past.end, past.change, past.job_id, list(past.replaced_by)) == (
        cat, block_wire.FACT_END_CORRECTED, corrected.change, "", [1])
    deleted = calls.DeleteFact(session_id=session_id, block="facts", fact_id=1)
    assert deleted.fact == corrected.fact
    assert said(calls, session_id) == [] and found(calls, session_id, "cats") == []
    assert known(calls, session_id).history[1].end == block_wire.FACT_END_DELETED
    undo(calls, session_id, deleted.change)
    assert list(known(calls, session_id).facts) == [corrected.fact]
    undo(calls, session_id, corrected.change)
    assert list(known(calls, session_id).facts) == [cat]


def test_a_job_under_way_loses_neither(calls, models, session_id):
    calls.CreateSession(session_id=session_id, config=every_turn(FACTS))
    calls.Put(session_id=session_id, messages=turn("one"))
    models.set_replies([BIRD])
    before = len(models.requests)
    with models.hanging():
        calls.Put(session_id=session_id, messages=turn("two"))
        models.wait_for_requests(before + 1)
        calls.AddFact(session_id=session_id, block="facts", text="Logan plays the oboe.")
        calls.UpdateFact(session_id=session_id, block="facts", fact_id=1, text="Logan has cats.")
        assert texts(calls, session_id) == ["Logan has cats.", "Logan plays the oboe."]
    assert [job.state for job in drained(calls, session_id)] == [DONE]
    assert texts(calls, session_id) == [
        "Logan has cats.", "Logan plays the oboe.", "Logan has a bird."]
    # The model was shown what was changed meanwhile.
    assert "plays the oboe" in models.requests[-1].texts[0]


def test_facts_by_many_are_all_kept(calls, session_id):
    few = block("facts", "fact-extraction", model="chat", max_facts=100)
    calls.CreateSession(session_id=session_id, config=every_turn(few))

    def add(who: int) -> None:
        for number in range(5):
            reply = calls.AddFact(session_id=session_id, block="facts", text=f"{who} says {number}")
            if number % 2:
                calls.UpdateFact(session_id=session_id, block="facts", fact_id=reply.fact.fact_id,
                                 text=f"{who} says {number}, corrected")

    threads = [threading.Thread(target=add, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts(calls, session_id)) == sorted(
        f"{who} says {number}" + (", corrected" if number % 2 else "")
        for who in range(8) for number in range(5))
    ids = [fact.fact_id for fact in known(calls, session_id).facts]
    assert sorted(ids) == list(range(1, 41))


def test_it_is_retired_with_its_last_evidence(calls, session_id):
    calls.CreateSession(session_id=session_id, config=every_turn(FACTS))
    calls.Put(session_id=session_id, messages=[
        user("one", message_id="a"), user("two", message_id="b")], wait=WAIT)
    added = calls.AddFact(session_id=session_id, block="facts", text="Logan counts.",
                          message_ids=["b", "a"])
    assert list(added.fact.message_ids) == ["a", "b"]
    error = refusal(calls.AddFact, session_id=session_id, block="facts", text="x",
                    message_ids=["a", "nobody"])
    assert (error.code(), reason(error)) == (NOT_FOUND, "MESSAGE_NOT_FOUND")
    assert error.details().startswith("message_ids")
    assert calls.DeleteMessage(session_id=session_id, message_id="a").retired_fact_count == 0
    calls.UpdateFact(session_id=session_id, block="facts", fact_id=2, text="Logan counts to two.")
    assert calls.DeleteMessage(session_id=session_id, message_id="b").retired_fact_count == 1
    assert texts(calls, session_id) == ["Logan has a cat."]
    assert known(calls, session_id).history[-1].end == block_wire.FACT_END_RETIRED


def test_retries_are_done_once(store, arguments, session_id):
    with Server(store, arguments=arguments) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.CreateSession(session_id=session_id, config=every_turn(FACTS))
        common = {"session_id": session_id, "block": "facts"}
        requests = (
            (calls.AddFact, {**common, "text": "b", "request_id": "1"}),
            (calls.UpdateFact, {**common, "fact_id": 2, "text": "c", "request_id": "2"}),
            (calls.DeleteFact, {**common, "fact_id": 2, "request_id": "3"}))
        first = [call(**fields) for call, fields in requests]
        for (call, fields), reply in zip(requests, first, strict=True):
            again = call(**fields)
            assert again.replayed and (again.fact, again.change, again.revision) == (
                reply.fact, reply.change, reply.revision)
        assert texts(calls, session_id) == ["Logan has a cat."]
        error = refusal(calls.DeleteFact, **{**common, "fact_id": 1, "request_id": "3"})
        assert reason(error) == "REQUEST_ID_REUSED"
        for call, fields in requests:
            error = refusal(call, **{**fields, "request_id": None}, expected_revision=1)
            assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "REVISION_MISMATCH")
        calls.AddFact(**common, text="kept")
        server.kill()
    with Server(store, arguments=arguments) as server, server.channel() as channel:
        calls = Calls(channel)
        assert calls.AddFact(**requests[0][1]).replayed
        assert texts(calls, session_id) == ["Logan has a cat.", "kept"]


def test_what_cant_be_done_is_named(calls, session_id):
    common = {"session_id": session_id, "block": "facts"}
    full = ((calls.AddFact, {"text": "x"}), (calls.UpdateFact, {"text": "x", "fact_id": 1}),
            (calls.DeleteFact, {"fact_id": 1}))
    for call, fields in full:
        error = refusal(call, **common, **fields)
        assert (error.code(), reason(error)) == (NOT_FOUND, "SESSION_NOT_FOUND")
    calls.CreateSession(session_id=session_id, config=every_turn(
        FACTS, block("vectors", "vector", embedder="embed")))
    for call, fields in full:
        error = refusal(call, **{**common, "block": "other"}, **fields)
        assert (error.code(), reason(error)) == (NOT_FOUND, "BLOCK_NOT_FOUND")
        error = refusal(call, **{**common, "block": "vectors"}, **fields)
        assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "BLOCK_KEEPS_NO_HISTORY")
        for bad, field in (({"session_id": ""}, "session_id"), ({"block": ""}, "block")):
            error = refusal(call, **{**common, **fields, **bad})
            assert (error.code(), field_of(error)) == (INVALID, field)
    for call, fields in full[1:]:
        error = refusal(call, **common, **{**fields, "fact_id": 2})
        assert (error.code(), reason(error)) == (NOT_FOUND, "FACT_NOT_FOUND")
        error = refusal(call, **common, **{**fields, "fact_id": 0})
        assert (error.code(), field_of(error)) == (INVALID, "fact_id")
    for call, fields in full[:2]:
        for text in ("", "  ", "...", "x" * 1001):
            error = refusal(call, **common, **{**fields, "text": text})
            assert (error.code(), field_of(error)) == (INVALID, "text")
    for bad, field in (({"trust": 1.1}, "trust"), ({"trust": -0.1}, "trust"),
                       ({"trust": float("nan")}, "trust"),
                       ({"message_ids": ["m"] * 9}, "message_ids"),
                       ({"message_ids": [""]}, "message_ids[0]")):
        error = refusal(calls.AddFact, **common, text="x", **bad)
        assert (error.code(), field_of(error)) == (INVALID, field)
    error = refusal(calls.AddFact, **common, text="logan has a cat")
    assert (error.code(), reason(error)) == (ALREADY_EXISTS, "FACT_EXISTS")
    for number in range(14):
        calls.AddFact(**common, text=f"fact {number}")
    error = refusal(calls.AddFact, **common, text="one too many")
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "BLOCK_FULL")
    calls.CreateSession(session_id=session_id + "-llama",
                        config=every_turn(FACTS, profile="llama-index"))
    error = refusal(calls.AddFact, session_id=session_id + "-llama", block="facts", text="x")
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "BLOCK_KEEPS_NO_HISTORY")


def test_the_server_says_who_wrote_a_fact_and_how_far_it_is_trusted(store, arguments, tmp_path):
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        {**credential("t", token="web"), "name": "web", "untrusted": True},
        {**credential("t", token="app"), "name": "app"},
        {**credential("t", ["read"], token="reader"), "name": "reader"}])
    with Server(store, arguments=[*arguments, f"--credentials={credentials}"]) as server, \
            server.channel() as channel:
        app, web, reader = (Caller(channel, name) for name in ("app", "web", "reader"))
        common = {"session_id": "s", "block": "facts"}
        app("CreateSession", session_id="s", config=every_turn(FACTS))
        app("Put", session_id="s", messages=[user("said", message_id="good")], wait=WAIT)
        web("Put", session_id="s", messages=[user("page", message_id="bad")], wait=WAIT)
        sure = app("AddFact", **common, text="sure", trust=1, message_ids=["good"]).fact
        assert (sure.writer, sure.trust) == ("token:app", 1)
        page = app("AddFact", **common, text="page", trust=1, message_ids=["good", "bad"]).fact
        assert (page.writer, page.trust) == ("token:app", 0.1)
        rumour = web("AddFact", **common, text="rumour", trust=1)
        assert (rumour.fact.writer, rumour.fact.trust) == ("token:web", 0.1)

        # Who need not be believed moves nothing that is trusted more.
        for call in (lambda: web("UpdateFact", **common, fact_id=sure.fact_id, text="x"),
                     lambda: web("DeleteFact", **common, fact_id=sure.fact_id),
                     lambda: web("UndoBlockChange", **common, change=sure.change)):
            error = refusal(call)
            assert (error.code(), reason(error)) == (PERMISSION_DENIED, "FACT_TRUSTED")
        corrected = web("UpdateFact", **common, fact_id=page.fact_id, text="another page").fact
        assert (corrected.writer, corrected.trust) == ("token:web", 0.1)
        app("DeleteFact", **common, fact_id=rumour.fact.fact_id)
        facts = app("GetBlock", **common).facts
        assert [fact.text for fact in facts.facts] == ["Logan has a cat.", "sure", "another page"]
        assert [(past.fact.text, past.writer) for past in facts.history] == [
            ("page", "token:web"), ("rumour", "token:app")]
        for method in ("AddFact", "UpdateFact", "DeleteFact"):
            error = refusal(reader, method, **common)
            assert error.code() == PERMISSION_DENIED


def test_facts_of_another_session_are_found_and_erased_there(calls, session_id):
    own = session_id + "-user"
    calls.CreateSession(session_id=own, config=every_turn(FACTS, subject=session_id))
    calls.CreateSession(session_id=session_id, config=every_turn(
        block("user", "session", session_id=own)))
    calls.AddFact(session_id=own, block="facts", text="Logan plays the oboe.")
    results = calls.Query(session_id=session_id, query="oboe").results
    assert results[0].block_item.fact.text == "Logan plays the oboe."
    assert calls.EraseSubject(subject=session_id).block_count == 1
    assert calls.Query(session_id=session_id, query="oboe").results == []
