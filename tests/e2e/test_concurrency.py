"""Many writers and readers at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from support.calls import Calls, memory, user, wire
from support.http2 import prefixed, raw_call

WRITERS = 8
PUTS = 60


def test_concurrent_puts_to_one_session_are_all_kept_in_each_writers_order(calls, session_id):
    def write(writer: int) -> list[int]:
        positions = []
        for number in range(PUTS):
            batch = [user(f"{writer}/{number}/{part}") for part in range(2)]
            positions += calls.Put(session_id=session_id, messages=batch).positions
        return positions

    with ThreadPoolExecutor(WRITERS) as pool:
        positions = list(pool.map(write, range(WRITERS)))
    found = calls.all_messages(session_id)
    texts = [m.text for m in found]
    for writer in range(WRITERS):
        mine = [text for text in texts if text.startswith(f"{writer}/")]
        assert mine == [f"{writer}/{n}/{part}" for n in range(PUTS) for part in range(2)]
    assert len(texts) == WRITERS * PUTS * 2
    # The two messages of a Put are neighbours.
    for first, second in zip(texts[::2], texts[1::2], strict=True):
        assert first.rpartition("/")[0] == second.rpartition("/")[0]
    by_position = {m.position: m.text for m in found}
    for writer, mine in enumerate(positions):
        assert [by_position[p].split("/")[0] for p in mine] == [str(writer)] * len(mine)


def test_a_reader_sees_every_put_that_was_acknowledged_before(calls, session_id):
    acknowledged = [0]
    done = threading.Event()

    def write():
        try:
            for number in range(200):
                calls.Put(session_id=session_id, messages=[user(str(number))])
                acknowledged[0] = number + 1
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        least = acknowledged[0]
        texts = [m.text for m in calls.Get(session_id=session_id).messages]
        assert len(texts) >= least
        assert texts == [str(n) for n in range(len(texts))]
    writer.join()
    assert len(calls.all_messages(session_id)) == 200


def test_many_sessions_at_once_stay_apart(calls, session_id):
    def write(number: int) -> None:
        name = f"{session_id}-{number}"
        for turn in range(5):
            calls.Put(session_id=name, messages=[user(f"{number}.{turn}")])

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(100)))
    for number in range(100):
        texts = [m.text for m in calls.all_messages(f"{session_id}-{number}")]
        assert texts == [f"{number}.{turn}" for turn in range(5)]


def test_a_set_is_seen_whole_or_not_at_all(calls, session_id):
    generations = [[user(f"{name}{i}") for i in range(20)] for name in "ab"]
    calls.Set(session_id=session_id, messages=generations[0])
    done = threading.Event()

    def replace():
        try:
            for number in range(60):
                calls.Set(session_id=session_id, messages=generations[number % 2])
        finally:
            done.set()

    writer = threading.Thread(target=replace)
    writer.start()
    whole = [[m.text for m in generation] for generation in generations]
    while not done.is_set():
        assert [m.text for m in calls.Get(session_id=session_id).messages] in whole
        page = calls.GetAll(session_id=session_id)
        assert [m.text for m in page.messages] in whole
    writer.join()


def test_concurrent_puts_never_archive_too_much(calls, session_id):
    config = memory.SessionConfig(profile="llama-index", tokenizer="whitespace", token_limit=20,
                                  token_flush_size=2, chat_history_token_ratio=0.5)
    calls.CreateSession(session_id=session_id, config=config)

    def write(writer: int) -> int:
        return sum(calls.Put(session_id=session_id, messages=[user(f"{writer}")]).archived_count
                   for _ in range(40))

    with ThreadPoolExecutor(WRITERS) as pool:
        archived = sum(pool.map(write, range(WRITERS)))
    session = calls.GetSession(session_id=session_id).session
    assert session.archived_count == archived
    assert session.active_count + session.archived_count == WRITERS * 40
    assert 9 <= session.active_token_count <= 10


def test_a_cancelled_put_is_stored_once_or_not_at_all(server, session_id):
    with server.channel() as channel:
        calls = Calls(channel)
        put = channel.unary_unary("/memoryd.v1.MemoryService/Put")
        for number in range(100):
            request = wire.PutRequest(session_id=session_id, messages=[user(str(number))])
            future = put.future(request.SerializeToString(), timeout=30)
            future.cancel()
        # This Put comes after all of those that still do.
        calls.Put(session_id=session_id, messages=[user("last")])
        texts = [m.text for m in calls.all_messages(session_id)]
        assert len(texts) == len(set(texts))


@pytest.mark.parametrize("timeout", ("0n", "1n", "1u", "50u"))
def test_a_put_past_its_deadline_is_stored_only_if_it_says_so(
        server, calls, session_id, timeout):
    request = wire.PutRequest(session_id=session_id, messages=[user("x")]).SerializeToString()
    status = raw_call(server.target, "/memoryd.v1.MemoryService/Put", prefixed(request),
                      {"grpc-timeout": timeout})
    calls.Put(session_id=session_id, messages=[user("good")])
    texts = [m.text for m in calls.all_messages(session_id)]
    if status == grpc.StatusCode.OK.value[0]:
        assert texts == ["x", "good"]
    elif status == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]:
        assert texts == ["good"]  # Not begun, for it could not have been answered in time.
    else:
        # Cut off, by the transport or while the store was asked, which may have been after it joined a
        # batch: once at most.
        assert status in (None, grpc.StatusCode.DEADLINE_EXCEEDED.value[0],
                          grpc.StatusCode.CANCELLED.value[0],
                          grpc.StatusCode.UNAVAILABLE.value[0])
        assert sorted(texts) in (["good"], ["good", "x"])
