"""The bound on the bytes of a session's active messages, and sessions that are above it."""

from __future__ import annotations

import itertools

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from support.blocks import FAILED, jobs_of
from support.calls import Calls, memory, reason, refusal
from support.server import Server, ready
from support.stores import fresh_store
from support.waiting import wait_for

KIB = 1 << 10
MIB = 1 << 20
SMALL = ["--active-mib=1", "--job-attempts=2", "--job-retry-ms=20", "--sweep-interval-ms=100"]
LARGE = ["--active-mib=64"]
FAILED_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
RESOURCE_EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
def store(store_kind):
    with fresh_store(store_kind) as store:
        yield store


def picture(number: int, size: int = 300 * KIB) -> memory.Message:
    """A message that counts no tokens, however many bytes it has."""
    image = memory.Media(data=bytes([number]) * size, token_count=0)
    return memory.Message(role="user", parts=[memory.Part(text=f"picture {number}"),
                                              memory.Part(image=image)])


def config(**fields) -> memory.SessionConfig:
    return memory.SessionConfig(tokenizer="whitespace", **fields)


def numbers(messages) -> list[int]:
    return [int(message.parts[0].text.split()[1]) for message in messages]


def fill(store: str, session_id: str, count: int, *, arguments=LARGE, **fields) -> None:
    with Server(store, arguments=arguments) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        calls.CreateSession(session_id=session_id, config=config(**fields))
        for number in range(count):
            calls.Put(session_id=session_id, messages=[picture(number)])


def test_default_archives_and_feeds_by_bytes(store, session_id):
    block = memory.Block(name="kept", kind="worker", worker="nobody", priority=1)
    with Server(store, arguments=SMALL) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        calls.CreateSession(session_id=session_id, config=config(blocks=[block]))
        archived = sum(calls.Put(session_id=session_id, messages=[picture(n)]).archived_count
                       for n in range(8))
        assert archived == 5
        active = calls.GetAll(session_id=session_id, status="MESSAGE_STATUS_ACTIVE").messages
        assert numbers(active) == [5, 6, 7]
        jobs = jobs_of(calls, session_id)
        assert [(job.begin_position, job.end_position) for job in jobs] == [
            (n, n + 1) for n in range(1, 6)]


@pytest.mark.parametrize("fields", [{"profile": "llama-index"}, {"policy": "buffer"}])
def test_a_put_is_refused_where_nothing_leaves(store, session_id, fields):
    with Server(store, arguments=SMALL) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        calls.CreateSession(session_id=session_id, config=config(**fields))
        for number in range(3):
            calls.Put(session_id=session_id, messages=[picture(number)])
        error = refusal(calls.Put, session_id=session_id, messages=[picture(3)])
        assert (error.code(), reason(error)) == (RESOURCE_EXHAUSTED, "ACTIVE_BYTES")
        assert "messages" in error.details() and "active_mib" in error.details()
        assert numbers(calls.Get(session_id=session_id).messages) == [0, 1, 2]
        error = refusal(calls.Put, session_id=session_id, messages=[picture(3), picture(4, MIB)])
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "messages[1]" in error.details() and "active_mib" in error.details()


def test_a_stored_session_above_the_bound_is_worked_on(store, session_id):
    fill(store, session_id, 10, policy="buffer")
    with Server(store, arguments=SMALL) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        for error in (refusal(calls.Get, session_id=session_id),
                      refusal(calls.Put, session_id=session_id, messages=[picture(10)])):
            assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "ACTIVE_BYTES")
            for helps in ("GetAll", "StreamAll", "DeleteMessage", "Reset", "Set", "active_mib"):
                assert helps in error.details()
        session = calls.GetSession(session_id=session_id).session
        assert session.active_count == 10
        found = calls.all_messages(session_id)
        assert numbers(found) == list(range(10))
        streamed = [message for page in calls.StreamAll(session_id=session_id)
                    for message in page.messages]
        assert numbers(streamed) == list(range(10))
        hits = calls.Query(session_id=session_id, query="picture 4", top_k=3).results
        assert hits and 4 in numbers([hit.message for hit in hits])
        calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(token_limit=99))
        for message in found[:7]:
            calls.DeleteMessage(session_id=session_id, message_id=message.message_id)
        assert numbers(calls.Get(session_id=session_id).messages) == [7, 8, 9]
    fill(store, f"{session_id} set", 10, policy="buffer")
    fill(store, f"{session_id} expires", 10, policy="buffer",
         retention=memory.Retention(session_ttl=Duration(seconds=1)))
    with Server(store, arguments=SMALL) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        calls.Set(session_id=f"{session_id} set", messages=[picture(1)])
        assert numbers(calls.Get(session_id=f"{session_id} set").messages) == [1]
        wait_for(lambda: not calls.GetAll(session_id=f"{session_id} expires").messages)


def test_a_put_in_default_archives_first_what_is_too_much(store, session_id):
    block = memory.Block(name="kept", kind="worker", worker="nobody", priority=1)
    fill(store, session_id, 12, blocks=[block])
    with Server(store, arguments=SMALL) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        assert reason(refusal(calls.Get, session_id=session_id)) == "ACTIVE_BYTES"
        calls.Put(session_id=session_id, messages=[picture(12)])
        active = calls.GetAll(session_id=session_id, status="MESSAGE_STATUS_ACTIVE").messages
        assert active and numbers(active)[-1] == 12
        assert len(active) <= 3
        assert numbers(calls.all_messages(session_id)) == list(range(13))
        # What left is fed to the block, without a gap.
        ends = [(job.begin_position, job.end_position) for job in jobs_of(calls, session_id)]
        assert ends[0][0] == 1
        assert all(before[1] == after[0] for before, after in itertools.pairwise(ends))
        assert ends[-1][1] == active[0].position


def test_a_job_that_is_too_large_is_given_up(store, session_id):
    block = memory.Block(name="kept", kind="worker", worker="nobody", priority=1)
    with Server(store, arguments=LARGE) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        calls.CreateSession(session_id=session_id, config=config(blocks=[block], token_limit=10))
        calls.Put(session_id=session_id, messages=[picture(n) for n in range(9)])
    with Server(store, arguments=SMALL) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        wait_for(lambda: [job.state for job in jobs_of(calls, session_id)] == [FAILED])
        assert "active_mib" in jobs_of(calls, session_id)[0].last_error
