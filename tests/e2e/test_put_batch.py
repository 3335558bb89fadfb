"""Many Puts in one call: each is a Put of its own, on every store."""

from __future__ import annotations

import contextlib
import threading
import uuid

import grpc
import pytest
from google.protobuf import duration_pb2

from support.access import Caller, credential, write_credentials
from support.blocks import WAIT, block, every_turn, turn
from support.calls import Calls, memory, reason, refusal, user, wire
from support.http import LISTEN, HttpCaller
from support.metrics import Watch
from support.server import Server, open_channel, ready, terminated_under_load
from support.stores import fresh_store

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DENIED = grpc.StatusCode.PERMISSION_DENIED
METRICS = "--metrics-listen=127.0.0.1:0"


@pytest.fixture
def name() -> str:
    """How the ids of sessions begin that nobody else uses."""
    return f"s-{uuid.uuid4().hex}"


def put(session_id: str, *texts: str, **fields) -> wire.PutRequest:
    return wire.PutRequest(session_id=session_id, messages=[user(text) for text in texts], **fields)


def batch(calls, *puts: wire.PutRequest, **options):
    reply = calls.PutBatch(wire.PutBatchRequest(puts=puts), **options)
    assert len(reply.outcomes) == len(puts)
    return reply.outcomes


def replies(calls, *puts: wire.PutRequest) -> list[wire.PutResponse]:
    outcomes = batch(calls, *puts)
    assert not [outcome.error for outcome in outcomes if outcome.HasField("error")]
    return [outcome.reply for outcome in outcomes]


def texts(calls, session_id: str) -> list[str]:
    return [message.text for message in calls.all_messages(session_id)]


def test_a_put_of_a_batch_answers_as_one_of_its_own(calls, name):
    single = calls.Put(put(f"{name}-0", "a", "b"))
    first, second = replies(calls, put(f"{name}-1", "a", "b"), put(f"{name}-2", "c"))
    for reply in (single, first):
        assert len(reply.message_ids) == 2
        for field in ("generation", "message_ids"):
            reply.ClearField(field)
    assert first == single
    assert (second.revision, list(second.positions)) == (1, [1])
    assert texts(calls, f"{name}-1") == ["a", "b"] and texts(calls, f"{name}-2") == ["c"]
    assert not batch(calls)


def test_puts_of_one_session_take_effect_in_their_order(calls, name):
    """Also where some are large enough to be counted apart, and the session was not in memory."""
    for _ in range(5):
        sent = [f"{i} " + "word " * (30_000 if i % 7 == 3 else 1) for i in range(40)]
        session = f"{name}-{uuid.uuid4().hex}"
        found = replies(calls, *(put(session, text) for text in sent))
        assert [list(reply.positions) for reply in found] == [[i + 1] for i in range(40)]
        assert [reply.revision for reply in found] == list(range(1, 41))
        assert texts(calls, session) == sent


def test_expected_revisions_follow_those_before(calls, name):
    outcomes = batch(
        calls, put(name, "a", expected_revision=0), put(name, "b", expected_revision=2),
        put(name, "c", expected_revision=1), put(name, "d", expected_revision=2))
    assert [outcome.HasField("error") for outcome in outcomes] == [False, True, False, False]
    error = outcomes[1].error
    assert (error.code, error.reason) == (grpc.StatusCode.ABORTED.value[0], "REVISION_MISMATCH")
    alone = refusal(calls.Put, put(name, "e", expected_revision=7))
    assert reason(alone) == "REVISION_MISMATCH"
    assert texts(calls, name) == ["a", "c", "d"]


def test_one_that_is_refused_hurts_no_other(calls, name):
    many = [user("x")] * 1001
    outcomes = batch(
        calls, put(f"{name}-0", "a"), put("", "b"),
        wire.PutRequest(session_id=f"{name}-1", messages=[user("x"), memory.Message(text="c")]),
        wire.PutRequest(session_id=f"{name}-0", messages=many),
        put(f"{name}-0", "d", expected_revision=-1), put(f"{name}-0", "e"),
        put(f"{name}-0", "f", request_id=""))
    fields = {1: "puts[1].session_id", 2: "puts[2].messages[1].role", 3: "puts[3].messages",
              4: "puts[4].expected_revision", 6: "puts[6].request_id"}
    for at, outcome in enumerate(outcomes):
        assert outcome.HasField("error") == (at in fields), at
        if at in fields:
            error = outcome.error
            assert (error.code, error.reason) == (INVALID.value[0], "INVALID_FIELD")
            assert error.message.startswith(fields[at]) and error.metadata["field"] == fields[at]
    assert texts(calls, f"{name}-0") == ["a", "e"] and not texts(calls, f"{name}-1")


def test_too_many_puts_are_refused_as_a_whole(calls, name):
    error = refusal(calls.PutBatch, wire.PutBatchRequest(puts=[put(name, "a")] * 1001))
    assert error.code() == INVALID and error.details().startswith("puts: ")
    assert not texts(calls, name)
    assert len(replies(calls, *(put(f"{name}-{i % 500}") for i in range(1000)))) == 1000


def test_a_put_is_the_same_request_in_a_batch_and_by_itself(calls, name):
    first, again, other = batch(calls, *(
        put(name, text, request_id="once") for text in ("a", "a", "b")))
    assert not first.reply.replayed and again.reply.replayed
    assert first.reply.message_ids == again.reply.message_ids
    assert other.error.reason == "REQUEST_ID_REUSED"
    alone = calls.Put(put(name, "a", request_id="once", wait=WAIT))
    assert alone.replayed and alone.message_ids == first.reply.message_ids
    calls.Put(put(name, "c", request_id="twice"))
    assert replies(calls, put(name, "c", request_id="twice"))[0].replayed
    assert texts(calls, name) == ["a", "c"]


def test_a_message_id_is_taken_once(calls, name):
    def named() -> wire.PutRequest:
        return wire.PutRequest(session_id=name, messages=[user("a", message_id="m")])

    first, second, third = batch(calls, named(), named(), put(name, "b"))
    assert first.HasField("reply") and third.HasField("reply")
    assert second.error.reason == "MESSAGE_ID_EXISTS"
    assert second.error.metadata["field"] == "puts[1].messages.message_id"


def test_a_batch_of_many_sessions_is_few_commits(store_kind):
    with fresh_store(store_kind) as store, Server(store, arguments=[METRICS]) as server, \
            server.channel() as channel:
        calls = Calls(ready(channel))
        replies(calls, *(put(f"s{i}", "a") for i in range(64)))
        watch = Watch(server.metrics)
        replies(calls, *(put(f"s{i}", "b") for i in range(64)))
        assert watch.moved("memoryd_commit_batch_writes_sum") == 64
        assert watch.moved("memoryd_commit_batch_writes_count") <= 4
        assert watch.moved("memoryd_rpc_total", method="Put", code="OK") == 64
        assert watch.moved("memoryd_rpc_total", method="PutBatch", code="OK") == 1


def test_each_put_waits_for_its_own_jobs(calls, name):
    """By a worker that is not there."""
    config = every_turn(block("b", "worker", worker="away"))
    calls.CreateSession(session_id=name, config=config)
    first, second, other = replies(
        calls, wire.PutRequest(session_id=name, messages=turn("one")),
        wire.PutRequest(session_id=name, messages=turn("two"),
                        wait=duration_pb2.Duration(nanos=100_000_000)), put(f"{name}-1", "c"))
    assert not first.open_jobs and not other.open_jobs
    assert [job.block for job in second.open_jobs] == ["b"]


@pytest.fixture(scope="module")
def guarded(store_kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batches")
    file = write_credentials(folder / "credentials.yaml", [
        credential("a", token="all"), credential("a", ["read"], token="reader"),
        credential("a", ["write"], token="writer"),
        credential("a", token="user", roles=["user"]),
        credential("a", token="ann", subject="ann"), credential("a", token="bob", subject="bob"),
        credential("small", token="small"), credential("slow", token="slow"),
        credential("narrow", token="narrow")])
    config = folder / "memoryd.yaml"
    config.write_text(
        '{"tenants": [{"name": "small", "messages": 3}, {"name": "slow", "calls_per_second": 5},'
        ' {"name": "narrow", "calls_in_flight": 1}]}')
    with fresh_store(store_kind) as store, Server(store, arguments=[
            f"--credentials={file}", f"--config={config}", LISTEN]) as server:
        yield server


@pytest.fixture
def caller(guarded):
    with guarded.channel() as channel:
        yield lambda token: Caller(ready(channel), token)


def codes(reply) -> list[str]:
    return [outcome.error.reason for outcome in reply.outcomes]


def test_who_may_not_put_may_not_in_a_batch(caller, name):
    error = caller("reader").error("PutBatch", puts=[put(name, "a")])
    assert error.code() == DENIED and reason(error) == "RIGHT_MISSING"
    assert caller("nobody").error("PutBatch").code() == grpc.StatusCode.UNAUTHENTICATED
    reply = caller("user")("PutBatch", puts=[put(name, "a"), wire.PutRequest(
        session_id=name, messages=[memory.Message(role="assistant", text="b")]), put(name, "c")])
    assert codes(reply) == ["", "ROLE_NOT_GRANTED", ""]
    assert reply.outcomes[1].error.metadata["field"] == "puts[1].messages[0].role"
    assert codes(caller("writer")("PutBatch", puts=[put(name, "d")])) == [""]


def test_a_caller_of_one_subject_puts_into_its_sessions_alone(caller, name):
    caller("bob")("Put", put(f"{name}-bob", "b"))
    reply = caller("ann")("PutBatch", puts=[
        put(f"{name}-ann", "a"), put(f"{name}-bob", "x"), put(f"{name}-ann", "c")])
    assert codes(reply) == ["", "SUBJECT_NOT_GRANTED", ""]
    session = caller("all")("GetSession", session_id=f"{name}-ann").session
    assert session.config.subject == "ann"
    shown = caller("all")("GetAll", session_id=f"{name}-bob").messages
    assert [message.text for message in shown] == ["b"]


def test_quotas_hold_within_a_batch(caller):
    reply = caller("small")("PutBatch", puts=[put(f"s{i}", "a") for i in range(5)])
    assert sorted(codes(reply)) == ["", "", "", "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"]
    refused = next(o.error for o in reply.outcomes if o.HasField("error"))
    assert refused.metadata["quota"] == "messages" and refused.metadata["limit"] == "3"


def test_each_put_counts_for_the_rate_and_the_call_as_one_under_way(caller, name):
    reply = caller("slow")("PutBatch", puts=[put(f"{name}-{i}", "a") for i in range(20)])
    found = codes(reply)
    assert found.count("TENANT_RATE") >= 10 and found.count("") >= 5
    limited = next(o.error for o in reply.outcomes if o.HasField("error"))
    assert int(limited.metadata["retry_after_ms"]) > 0
    reply = caller("narrow")("PutBatch", puts=[put(f"{name}-{i}", "a") for i in range(20)])
    assert codes(reply) == [""] * 20


def test_a_batch_over_http(guarded, name):
    status, answer = HttpCaller(guarded.http, "all")("PutBatch", puts=[
        {"sessionId": name, "messages": [{"role": "user", "text": "a"}]}, {"sessionId": ""}])
    assert status == 200
    done, refused = answer["outcomes"]
    assert done["reply"]["positions"] == ["1"]
    assert refused["error"]["reason"] == "INVALID_FIELD"
    assert refused["error"]["metadata"] == {"field": "puts[1].session_id"}


def test_a_cancelled_batch_stores_some_of_it_in_order(calls, name):
    """Whatever was not begun is not done: of each session there are the first Puts, or none."""
    puts = [put(f"{name}-{i % 4}", str(i // 4)) for i in range(800)]
    request = wire.PutBatchRequest(puts=puts)
    future = calls.channel.unary_unary(
        "/memoryd.v1.MemoryService/PutBatch",
        request_serializer=wire.PutBatchRequest.SerializeToString,
        response_deserializer=wire.PutBatchResponse.FromString).future(request, timeout=60)
    threading.Event().wait(0.02)
    future.cancel()
    with contextlib.suppress(grpc.FutureCancelledError):
        future.result()
    for i in range(4):
        # Behind what is under way.
        calls.Put(put(f"{name}-{i}", "end"))
        *stored, last = texts(calls, f"{name}-{i}")
        if last == "end":
            assert stored == [str(n) for n in range(len(stored))]


def test_a_deadline_stores_some_of_it_in_order(calls, name):
    """One so short that the reply itself may be late."""
    puts = [put(name, str(i)) for i in range(1000)]
    late = {grpc.StatusCode.DEADLINE_EXCEEDED.value[0], grpc.StatusCode.UNAVAILABLE.value[0]}
    try:
        outcomes = batch(calls, *puts, timeout=0.05)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    else:
        assert {o.error.code for o in outcomes if o.HasField("error")} <= late
    found = texts(calls, name)
    assert found == [str(i) for i in range(len(found))]


def test_sigterm_under_load_keeps_all_that_was_acknowledged(store):
    acknowledged: list[list[str]] = [[] for _ in range(4)]

    def write(writer: int, target: str, warm: threading.Barrier) -> None:
        with open_channel(target) as channel:
            calls = Calls(channel)
            for number in range(1_000_000):
                sent = [f"{writer}/{number}/{i}" for i in range(6)]
                try:
                    outcomes = batch(calls, *(put(f"s{i % 3}", text) for i, text in enumerate(sent)))
                except grpc.RpcError as error:
                    assert error.code() in (
                        grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), error
                    return
                for text, outcome in zip(sent, outcomes, strict=True):
                    if outcome.HasField("reply"):
                        acknowledged[writer].append(text)
                    else:
                        assert outcome.error.reason == "DRAINING"
                if number == 10:
                    warm.wait(60)

    terminated_under_load(store, 4, write)
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        stored = [text for s in range(3) for text in texts(calls, f"s{s}")]
    assert len(stored) == len(set(stored))
    assert set().union(*acknowledged) <= set(stored)
