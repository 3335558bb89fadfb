"""StreamAll: what GetAll gives page by page, as one stream that waits for its reader."""

from __future__ import annotations

import contextlib

import grpc
import pytest

from support.calls import Calls, note, reason, refusal, user
from support.process_memory import PeakMemory
from support.server import Server

from memoryd import Client
from memoryd.v1 import filter_pb2 as wire
from memoryd.v1.memory_pb2 import Media, Message, Part


def fill(calls, session_id: str, count: int) -> list[str]:
    texts = [str(number) for number in range(count)]
    for begin in range(0, count, 100):
        calls.Put(session_id=session_id, messages=[user(t) for t in texts[begin:begin + 100]])
    return texts


def fill_large(calls, session_id: str, count: int) -> list[str]:
    """Messages of 100 kB, whose bytes no tokenizer has to read; their texts."""
    texts = [str(number) for number in range(count)]
    picture = Part(image=Media(data=bytes(100_000), mime_type="image/png"))
    for begin in range(0, count, 20):
        calls.Put(session_id=session_id, messages=[
            Message(role="user", parts=[Part(text=text), picture]) for text in texts[begin:begin + 20]])
    return texts


def collect(stream) -> list:
    return list(stream)


def stream_error(calls, **fields) -> grpc.RpcError:
    return refusal(lambda: list(calls.StreamAll(**fields)))


def test_a_stream_holds_what_the_pages_hold(calls, session_id):
    texts = fill(calls, session_id, 2500)
    calls.Put(session_id=session_id, contents=[note("a"), note("b")])
    pages = list(calls.StreamAll(session_id=session_id, include_contents=True))
    assert [m for page in pages for m in page.messages] == calls.all_messages(session_id)
    assert [m.text for page in pages for m in page.messages] == texts
    assert [c.text for page in pages for c in page.contents] == ["a", "b"]
    assert [bool(page.next_page_token) for page in pages] == [True] * (len(pages) - 1) + [False]
    small = list(calls.StreamAll(session_id=session_id, page_size=999))
    assert [len(page.messages) for page in small] == [999, 999, 502]
    assert calls.streamed(session_id, filter=wire.Filter(roles=["nobody"])) == []
    asked = wire.Filter(message_ids=[pages[0].messages[7].message_id])
    assert [m.text for m in calls.streamed(session_id, filter=asked)] == [texts[7]]


def test_an_unknown_session_is_one_empty_page(calls, session_id):
    page, = calls.StreamAll(session_id=session_id)
    assert not page.messages and not page.next_page_token


def test_a_broken_stream_is_gone_on_with_and_keeps_to_its_request(calls, session_id):
    texts = fill(calls, session_id, 2500)
    stream = calls.StreamAll(session_id=session_id)
    first = next(stream)
    stream.cancel()
    rest = calls.streamed(session_id, page_token=first.next_page_token)
    assert [m.text for m in (*first.messages, *rest)] == texts
    of_a_page = calls.GetAll(session_id=session_id).next_page_token
    for fields in ({"page_token": of_a_page}, {"session_id": ""}, {"page_size": -1},
                   {"filter": {"roles": [""]}},
                   {"page_token": first.next_page_token, "include_contents": True}):
        error = stream_error(calls, **{"session_id": session_id, **fields})
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, fields
        assert dict(error.trailing_metadata())["x-request-id"]


def test_what_comes_meanwhile_is_not_part_of_it(calls, session_id):
    texts = fill(calls, session_id, 1500)
    stream = calls.StreamAll(session_id=session_id)
    first = next(stream)
    calls.Put(session_id=session_id, messages=[user("late")])
    assert [m.text for page in (first, *stream) for m in page.messages] == texts


@pytest.mark.large
@pytest.mark.parametrize("replace", (
    lambda calls, s: calls.Set(session_id=s, messages=[user("new")]),
    lambda calls, s: calls.DeleteSession(session_id=s),
), ids=("set", "delete"))
def test_a_session_that_is_replaced_ends_its_streams(calls, session_id, replace):
    # More than fits into the connection: the server has not read the last page by then.
    fill_large(calls, session_id, 300)
    stream = calls.StreamAll(session_id=session_id)
    next(stream)
    replace(calls, session_id)
    error = refusal(collect, stream)
    assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "SESSION_REPLACED")


@pytest.mark.large
def test_a_server_waits_for_its_readers(store):
    """Readers that take nothing cost a page each, and what they leave goes when they do."""
    readers = 20
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        fill_large(calls, "s", 400)
        list(calls.StreamAll(session_id="s"))
        memory = PeakMemory(server.pid)
        channels = [server.channel() for _ in range(readers)]
        streams = [Calls(one).StreamAll(session_id="s") for one in channels]
        for stream in streams:
            next(stream)
        assert memory.grown_mib() < readers * 6
        for stream in streams[1:]:
            stream.cancel()
        # One that was held up that long has lost nothing.
        assert sum(len(page.messages) for page in streams[0]) > 300
        for one in channels:
            one.close()
        assert calls.Put(session_id="s", messages=[user("goes on")]).revision


@pytest.mark.large
def test_a_drain_ends_streams_at_their_next_page(store):
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        fill_large(calls, "s", 400)
        stream = calls.StreamAll(session_id="s")
        next(stream)
        server.terminate()
        error = refusal(collect, stream)
        assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert server.wait() == 0


@pytest.mark.large
def test_the_client_goes_on_over_a_restart(store, tmp_path):
    address = f"unix:{tmp_path}/socket"
    with contextlib.ExitStack() as servers, Client(address, timeout=60) as client:
        first = servers.enter_context(Server(store, listen=address))
        with first.channel() as channel:
            texts = fill_large(Calls(channel), "s", 400)
        stream = client.stream_all("s")
        found = [next(stream).parts[0].text for _ in range(5)]
        first.kill()
        servers.enter_context(Server(store, listen=address))
        found += [m.parts[0].text for m in stream]
        assert found == texts
