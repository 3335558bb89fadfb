"""request_id and expected_revision."""

from __future__ import annotations

import grpc
import pytest

from support.calls import Calls, memory, reason, refusal, user, wire
from support.server import Server

from memoryd.errors import error_info

REUSED = (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
LOST = (grpc.StatusCode.ABORTED, "REVISION_MISMATCH")


def outcome(error):
    return error.code(), reason(error)


def test_a_repeated_put_answers_as_before_and_stores_once(calls, session_id):
    fields = {"session_id": session_id, "messages": [user("a"), user("b")], "request_id": "r1"}
    first = calls.Put(**fields)
    second = calls.Put(**fields)
    assert not first.replayed and second.replayed
    first.replayed = True
    assert first == second
    assert [m.text for m in calls.all_messages(session_id)] == ["a", "b"]


def test_a_request_id_counts_over_set_reset_and_restart(store):
    fields = {"session_id": "s", "messages": [user("a")], "request_id": "r1"}
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        first = calls.Put(**fields)
        calls.Set(session_id="s", messages=[user("b")], request_id="r2")
        calls.Reset(session_id="s", request_id="r3")
        assert calls.Put(**fields).message_ids == first.message_ids
        assert calls.all_messages("s") == []
        assert outcome(refusal(calls.Put, session_id="s", messages=[], request_id="r2")) == REUSED
        server.kill()
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        again = calls.Put(**fields)
        assert again.replayed and again.message_ids == first.message_ids
        replayed = calls.Set(session_id="s", messages=[user("b")], request_id="r2")
        assert replayed.replayed and replayed.removed_count == 1
        assert calls.all_messages("s") == []


def test_a_request_id_with_another_request_is_refused(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("a")], request_id="r1")
    revision = calls.GetSession(session_id=session_id).session.revision
    attempts = (
        lambda: calls.Put(session_id=session_id, messages=[user("b")], request_id="r1"),
        lambda: calls.Put(session_id=session_id, messages=[user("a"), user("a")], request_id="r1"),
        lambda: calls.Set(session_id=session_id, messages=[user("a")], request_id="r1"),
        lambda: calls.Reset(session_id=session_id, request_id="r1"),
        lambda: calls.DeleteSession(session_id=session_id, request_id="r1"),
        lambda: calls.UpdateSession(session_id=session_id, request_id="r1"),
        lambda: calls.CreateSession(session_id=session_id, request_id="r1"),
    )
    for attempt in attempts:
        assert outcome(refusal(attempt)) == REUSED
    assert calls.GetSession(session_id=session_id).session.revision == revision
    assert [m.text for m in calls.all_messages(session_id)] == ["a"]


def test_a_request_id_belongs_to_its_session(calls, session_id):
    for tail in ("a", "b"):
        reply = calls.Put(session_id=session_id + tail, messages=[user(tail)], request_id="r1")
        assert not reply.replayed


def test_every_change_replays(calls, session_id):
    config = memory.SessionConfig(token_limit=77)
    changes = (
        (calls.CreateSession, {"config": config, "request_id": "1"}),
        (calls.Put, {"messages": [user("a")], "request_id": "2"}),
        (calls.UpdateSession, {"config": config, "request_id": "3"}),
        (calls.Set, {"messages": [user("b"), user("c")], "request_id": "4"}),
        (calls.Reset, {"request_id": "5"}),
        (calls.DeleteSession, {"request_id": "6"}),
    )
    for call, fields in changes:
        first = call(session_id=session_id, **fields)
        second = call(session_id=session_id, **fields)
        assert second.replayed, call
        second.replayed = False
        assert first == second


def test_a_repeat_beside_the_first_is_stored_once(calls, session_id):
    method = calls.channel.unary_unary("/memoryd.v1.MemoryService/Put")
    for round_number in range(20):
        request = wire.PutRequest(session_id=session_id, messages=[user(f"m{round_number}")],
                                  request_id=f"r{round_number}").SerializeToString()
        replies = [method.future(request, timeout=30) for _ in range(8)]
        answers = [wire.PutResponse.FromString(reply.result()) for reply in replies]
        assert sum(not answer.replayed for answer in answers) == 1
        assert len({tuple(answer.positions) for answer in answers}) == 1
    texts = [m.text for m in calls.all_messages(session_id)]
    assert texts == [f"m{i}" for i in range(20)]


def test_expected_revision_must_be_the_one_in_force(calls, session_id):
    first = calls.Put(session_id=session_id, messages=[user("a")], expected_revision=0)
    second = calls.Put(session_id=session_id, messages=[user("b")],
                       expected_revision=first.revision)
    assert second.revision > first.revision
    attempts = (
        lambda r: calls.Put(session_id=session_id, messages=[user("x")], expected_revision=r),
        lambda r: calls.Set(session_id=session_id, messages=[user("x")], expected_revision=r),
        lambda r: calls.Reset(session_id=session_id, expected_revision=r),
        lambda r: calls.UpdateSession(session_id=session_id, expected_revision=r,
                                      config=memory.SessionConfig(token_limit=9)),
        lambda r: calls.DeleteSession(session_id=session_id, expected_revision=r),
    )
    for stale in (0, first.revision, second.revision + 1):
        for attempt in attempts:
            error = refusal(attempt, stale)
            assert outcome(error) == LOST
            assert str(second.revision) in error_info(error).metadata.values()
    assert [m.text for m in calls.all_messages(session_id)] == ["a", "b"]
    calls.Set(session_id=session_id, messages=[user("c")], expected_revision=second.revision)
    assert [m.text for m in calls.all_messages(session_id)] == ["c"]


def test_a_revision_expected_of_nothing_is_lost(calls, session_id):
    error = refusal(calls.Put, session_id=session_id, messages=[user("x")], expected_revision=7)
    assert outcome(error) == LOST
    assert refusal(calls.GetSession, session_id=session_id).code() == grpc.StatusCode.NOT_FOUND


def test_of_puts_on_one_revision_exactly_one_wins(calls, session_id):
    revision = calls.Put(session_id=session_id, messages=[user("start")]).revision
    method = calls.channel.unary_unary("/memoryd.v1.MemoryService/Put")
    requests = [wire.PutRequest(session_id=session_id, messages=[user(f"m{i}")],
                                expected_revision=revision) for i in range(16)]
    futures = [method.future(request.SerializeToString(), timeout=30) for request in requests]
    outcomes = [future.exception() for future in futures]
    assert sum(error is None for error in outcomes) == 1
    for error in outcomes:
        assert error is None or outcome(error) == LOST
    assert len(calls.all_messages(session_id)) == 2


@pytest.mark.parametrize("config, same", (
    ({"profile": "llama-index", "token_limit": 100}, True),
    ({"profile": "llama-index", "token_limit": 100, "token_flush_size": 10}, True),
    ({"profile": "llama-index", "token_limit": 101}, False),
    ({"token_limit": 100}, False),
    ({"profile": "llama-index", "token_limit": 100, "tokenizer": "whitespace"}, False),
))
def test_a_config_given_with_put_must_equal_the_one_in_force(calls, session_id, config, same):
    made = memory.SessionConfig(profile="llama-index", token_limit=100)
    calls.Put(session_id=session_id, messages=[user("a")], config=made)
    fields = {"session_id": session_id, "messages": [user("b")],
              "config": memory.SessionConfig(**config)}
    if same:
        calls.Put(**fields)
    else:
        expected = (grpc.StatusCode.FAILED_PRECONDITION, "CONFIG_MISMATCH")
        assert outcome(refusal(calls.Put, **fields)) == expected
    assert len(calls.all_messages(session_id)) == (2 if same else 1)
    assert calls.GetSession(session_id=session_id).session.config.profile == "llama-index"
