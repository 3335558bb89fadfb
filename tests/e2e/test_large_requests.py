"""How large a request may be, what is told of it, and media as large as agents send."""

from __future__ import annotations

import concurrent.futures
import subprocess

import grpc
import pytest

from support.calls import Calls, memory, reason, refusal, user, wire
from support.paths import BINARY
from support.server import Server, ready

MIB = 1 << 20
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
IMAGE_BYTES = 5_000_000


def picture(size: int = IMAGE_BYTES, value: int = 7) -> memory.Message:
    return memory.Message(role="user", parts=[
        memory.Part(text="?"),
        memory.Part(image=memory.Media(data=bytes([value]) * size, mime_type="image/png"))])


def equal(given: object, expected: object) -> bool:
    """Compared here, since pytest would take minutes to say where megabytes differ."""
    return bool(given == expected)


def put_of(session_id: str, size: int) -> wire.PutRequest:
    """A Put that is encoded in exactly so many bytes."""
    request = wire.PutRequest(session_id=session_id, messages=[picture(size)])
    image = request.messages[0].parts[1].image
    image.data = image.data[:2 * size - request.ByteSize()]
    assert request.ByteSize() == size
    return request


def fields_of(request: wire.PutRequest) -> dict:
    return {"session_id": request.session_id, "messages": request.messages}


def test_by_default_a_request_has_36_mib_and_not_a_byte_more(calls, session_id):
    limits = calls.GetServerInfo().limits
    assert limits.request_bytes == 36 * MIB
    largest = put_of(session_id, 36 * MIB)
    calls.Put(**fields_of(largest))
    assert equal(calls.GetAll(session_id=session_id).messages[0].parts, largest.messages[0].parts)
    assert equal(calls.Get(session_id=session_id).messages[0].parts, largest.messages[0].parts)
    error = refusal(calls.Put, **fields_of(put_of(session_id, 36 * MIB + 1)))
    assert (error.code(), reason(error)) == (EXHAUSTED, "REQUEST_TOO_LARGE")
    for named in ("messages", "max_request_mib", str(36 * MIB), str(36 * MIB + 1), "nothing"):
        assert named in error.details()
    assert len(calls.GetAll(session_id=session_id).messages) == 1


@pytest.mark.parametrize("rpc, fields, named", (
    ("Put", {"contents": [memory.Content(bytes_value=bytes(5 * MIB))]}, "messages, contents: "),
    ("Set", {"messages": [picture(5 * MIB)]}, "messages, contents: "),
    ("UpdateMessage", {"message_id": "m", "parts": picture(5 * MIB).parts}, "parts: "),
    ("UpdateContent", {"content_id": "c", "bytes_value": bytes(5 * MIB)}, "bytes_value, image: "),
    ("UpdateContext", {"messages": [picture(5 * MIB)]}, "messages: "),
))
def test_what_is_too_large_is_named_and_other_calls_go_on(store, session_id, rpc, fields, named):
    with Server(store, arguments=["--max-request-mib=4"]) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        calls.Put(session_id=session_id, messages=[user("before")])
        under_way = [channel.unary_unary("/memoryd.v1.MemoryService/Get").future(
            wire.GetRequest(session_id=session_id).SerializeToString(), timeout=30)
            for _ in range(20)]
        error = refusal(getattr(calls, rpc), session_id=session_id, **fields)
        assert (error.code(), reason(error)) == (EXHAUSTED, "REQUEST_TOO_LARGE")
        assert error.details().startswith(named) and "max_request_mib" in error.details()
        for call in under_way:
            assert call.result()
        # The same connection.
        assert [m.text for m in calls.all_messages(session_id)] == ["before"]


def test_eight_images_of_5_mb_come_back_together(calls, session_id):
    calls.CreateSession(session_id=session_id, config={"profile": "llama-index"})
    for value in range(8):
        calls.Put(session_id=session_id, messages=[picture(value=value)])
    shown = calls.Get(session_id=session_id).messages
    assert equal([message.parts[1].image.data for message in shown],
                 [bytes([value]) * IMAGE_BYTES for value in range(8)])
    assert equal([m.parts for m in calls.all_messages(session_id)], [m.parts for m in shown])


def test_what_no_reply_holds_is_to_be_read_in_pages(calls, session_id):
    calls.CreateSession(session_id=session_id, config={"profile": "autogen-list"})
    contents = [memory.Content(mime_type="image/png", bytes_value=bytes([value]) * IMAGE_BYTES)
                for value in range(14)]
    for content in contents:
        calls.Put(session_id=session_id, contents=[content])
    error = refusal(calls.Query, session_id=session_id)
    assert reason(error) == "REPLY_TOO_LARGE" and "GetAll" in error.details()
    found: list[bytes] = []
    token = ""
    while not found or token:
        page = calls.GetAll(session_id=session_id, include_contents=True, page_token=token)
        found += [content.bytes_value for content in page.contents]
        token = page.next_page_token
    assert equal(found, [content.bytes_value for content in contents])


@pytest.mark.resident
def test_several_at_once_within_a_small_memory(store, session_id):
    """Each is stored or refused, and the server goes on."""
    # A slow disk takes more than 5 s for what the store writes at once.
    arguments = ["--memory-limit-mib=512", "--store-timeout-ms=60000"]
    with Server(store, arguments=arguments) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        assert calls.GetServerInfo().limits.request_bytes >= 30 * MIB
        with concurrent.futures.ThreadPoolExecutor(12) as threads:
            def put(value: int) -> str:
                try:
                    calls.Put(session_id=f"{session_id}-{value}", messages=[
                        picture(28 * MIB, value)])
                except grpc.RpcError as error:
                    return reason(error)
                return ""
            outcomes = list(threads.map(put, range(12)))
        assert "" in outcomes
        assert set(outcomes) <= {"", "MEMORY_SHORT", "QUEUE_FULL"}, outcomes
        for value, outcome in enumerate(outcomes):
            stored = calls.all_messages(f"{session_id}-{value}") if not outcome else []
            assert [m.parts[1].image.data[:1] for m in stored] == ([bytes([value])] if not outcome
                                                                  else [])
        calls.Put(session_id=session_id, messages=[user("after")])


@pytest.mark.resident
def test_a_small_memory_takes_less_and_says_so(store, tmp_path):
    with Server(store, arguments=["--memory-limit-mib=160"]) as server, \
            server.channel() as channel:
        limits = Calls(ready(channel)).GetServerInfo().limits
        assert 4 * MIB <= limits.request_bytes < 20 * MIB
        error = refusal(Calls(channel).Put, session_id="s", messages=[picture(20 * MIB)])
        assert str(limits.request_bytes) in error.details()


@pytest.mark.resident
def test_more_than_the_memory_holds_is_refused_at_the_start(store):
    done = subprocess.run(
        [str(BINARY), f"--store={store}", "--listen=127.0.0.1:0", "--memory-limit-mib=160",
         "--max-request-mib=60"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "max_request_mib: 60 MiB" in done.stderr and "memory_limit_mib" in done.stderr
