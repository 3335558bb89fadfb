"""The log: lines of JSON, with nothing of what callers say, and never in anybody's way."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import pty
import re
import time

import grpc
import pytest

from support.calls import Calls, user
from support.http2 import prefixed, raw_call
from support.metrics import scrape, value
from support.server import Server, open_channel

from memoryd.v1 import memory_pb2 as memory

ALL = "--log-requests=all"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


class Logged:
    """A server whose log goes to a file."""

    def __init__(self, store: str, path, *arguments: str, **options) -> None:
        self._path = path
        with open(path, "wb") as log:
            self.server = Server(store, arguments=arguments, log=log, **options)

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.server.__exit__(*error)

    def text(self) -> str:
        """All of the log, after the server's end."""
        if self.server.process.poll() is None:
            assert self.server.stop() == 0
        return self._path.read_bytes().decode()

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.text().splitlines()]

    def of_calls(self) -> list[dict]:
        return [line for line in self.lines() if line["msg"] == "call"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


def digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def trailing(call: grpc.Call) -> dict[str, str]:
    return {name: text for name, text in call.trailing_metadata() if name == "x-request-id"}


def get(channel: grpc.Channel, session_id: str, *metadata: tuple[str, str]):
    """A Get with metadata: the finished call, good or bad."""
    from memoryd.v1 import memory_service_pb2, memory_service_pb2_grpc

    stub = memory_service_pb2_grpc.MemoryServiceStub(channel)
    request = memory_service_pb2.GetRequest(session_id=session_id)
    try:
        return stub.Get.with_call(request, metadata=metadata, timeout=30)[1]
    except grpc.RpcError as error:
        return error


def test_every_line_is_json_with_time_level_and_message(store, path):
    with Logged(store, path) as logged:
        lines = logged.lines()
    assert lines
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["ts"])
        assert line["level"] in ("debug", "info", "warning", "error")
        assert line["msg"]
    # Only what a slow start is still doing comes before its version.
    first = next(line["msg"] for line in lines if not line["msg"].startswith("still "))
    assert re.fullmatch(r"memoryd \d+\.\d+\.\d+, revision \S+", first)
    assert lines[-1]["msg"] == "drained"


def test_a_call_leaves_a_line_that_tells_it_from_others(store, path):
    with Logged(store, path, ALL) as logged, logged.server.channel() as channel:
        get(channel, "s-1", ("x-request-id", "my-id"), ("traceparent", TRACEPARENT))
        get(channel, "", ("x-request-id", "bad-id"))
        channel.close()
        good, bad = logged.of_calls()
    assert good.pop("ms") >= 0 and good.pop("ts")
    assert re.fullmatch(r"[0-9a-f]{16}", good.pop("span_id"))
    assert good == {"level": "info", "msg": "call", "method": "Get", "code": "OK",
                    "request_id": "my-id", "trace_id": TRACE, "parent_id": PARENT,
                    "tenant": digest("default"), "session": digest("s-1")}
    assert bad["code"] == "INVALID_ARGUMENT" and bad["reason"] == "INVALID_FIELD"
    assert bad["request_id"] == "bad-id"
    assert "trace_id" not in bad and "session" not in bad and "error" not in bad


def test_a_call_that_failed_says_under_which_id_it_was_logged(store, path):
    with Logged(store, path, ALL) as logged, logged.server.channel() as channel:
        assert trailing(get(channel, "", ("x-request-id", "my-id"))) == {"x-request-id": "my-id"}
        made = trailing(get(channel, ""))["x-request-id"]
        too_long = trailing(get(channel, "", ("x-request-id", "x" * 65)))["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{32}", made) and re.fullmatch(r"[0-9a-f]{32}", too_long)
        assert made != too_long
        assert not trailing(get(channel, "s", ("x-request-id", "my-id")))
        channel.close()
        assert [line["request_id"] for line in logged.of_calls()] == [
            "my-id", made, too_long, "my-id"]


def test_only_the_servers_own_errors_are_logged_unless_asked(store, path):
    with Logged(store, path) as logged, logged.server.channel() as channel:
        get(channel, "s")
        get(channel, "")
        channel.close()
        assert logged.of_calls() == []


@pytest.mark.parametrize("choice, expected", (("errors", 1), ("none", 0)))
def test_an_overloaded_server_says_so(store, path, choice, expected):
    arguments = (f"--log-requests={choice}", "--max-pending-calls=1")
    with Logged(store, path, *arguments) as logged:
        def put(number: int) -> bool:
            with open_channel(logged.server.target) as channel:
                try:
                    Calls(channel).Put(session_id=f"s{number}", messages=[user("a")])
                    return False
                except grpc.RpcError as error:
                    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
                    return True

        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            refused = 0
            while not refused:
                refused = sum(threads.map(put, range(64)))
        lines = logged.of_calls()
    assert len(lines) == expected * refused
    for line in lines:
        assert line["level"] == "warning" and line["reason"] == "QUEUE_FULL"


def test_header_values_are_never_echoed_raw(store, path):
    odd = ["a\nb", "a\x00b", '"},{"level":"error', "\x1b[31m", "\x7f", "a\rb\tc", "café", "x" * 200]
    with Logged(store, path, ALL, "--log-level=debug") as logged:
        for text in odd:
            for name in ("x-request-id", "traceparent"):
                raw_call(logged.server.target, "/memoryd.v1.MemoryService/Get", prefixed(b""),
                         {name: text})
        text = logged.text()
        lines = logged.of_calls()
    assert all(0x20 <= ord(c) < 0x7f or c == "\n" for c in text)
    assert lines and all(json.loads(line)["level"] for line in text.splitlines())
    assert all(re.fullmatch(r"[0-9a-f]{32}", line["request_id"]) or line["request_id"] in odd
               for line in lines)
    assert not any("trace_id" in line for line in lines)


def test_nothing_that_callers_say_is_in_the_log(store, path):
    canary = "CANARY7391"
    metadata = (("authorization", f"Bearer {canary}"), ("x-canary", canary), (canary.lower(), "1"))
    with Logged(store, path, ALL, "--log-level=debug") as logged:
        with logged.server.channel() as channel:
            calls = Calls(channel)
            message = user(canary, message_id=canary, thread_id=canary,
                           metadata_json=json.dumps({canary: canary}))
            tool = memory.Part(tool_call=memory.ToolCall(
                call_id=canary, name=canary, arguments_json=json.dumps({"a": canary})))
            calls.Put(session_id=canary, messages=[message], request_id=canary)
            calls.Put(session_id=canary, messages=[memory.Message(role=canary, parts=[tool])])
            calls.Get(session_id=canary, input=canary)
            calls.GetAll(session_id=canary)
            calls.Put(session_id=canary, contents=[memory.Content(
                content_id=canary, mime_type="text/plain", text=canary)])
            assert calls.Query(session_id=canary, query=canary).results
            calls.UpdateContext(session_id=canary, messages=[user(canary)])
            calls.ListSessions()
            for wrong in (
                {"session_id": canary, "messages": [message]},
                {"session_id": canary, "messages": [user("other")], "request_id": canary},
                {"session_id": canary + "\n", "messages": [user(canary)]},
                {"session_id": canary, "messages": [user("x", metadata_json=canary)]},
                {"session_id": canary, "messages": [memory.Message(role=canary * 10, text="x")]},
                {"session_id": canary, "messages": [], "config": {"profile": canary}},
                {"session_id": canary, "messages": [], "config": {"tokenizer": canary}},
            ):
                with pytest.raises(grpc.RpcError):
                    calls.Put(**wrong)
            for wrong in ({"page_token": canary}, {"page_size": -1}):
                with pytest.raises(grpc.RpcError):
                    calls.GetAll(session_id=canary, **wrong)
            get(channel, canary, *metadata)
            get(channel, "", *metadata)
            for body in (canary.encode(), prefixed(canary.encode()), b"\x01" + canary.encode()):
                raw_call(logged.server.target, "/memoryd.v1.MemoryService/Put", body,
                         {"authorization": f"Bearer {canary}"})
        text = logged.text()
        assert len(logged.of_calls()) >= 20
    assert canary.lower() not in text.lower()


def test_text_is_for_terminals(store, tmp_path):
    leader, follower = pty.openpty()
    with open(leader, "rb", buffering=0) as screen:
        with open(follower, "wb") as log:
            server = Server(store, log=log)
        with server:
            first = screen.read(4096).decode()
            assert re.match(r"\d{4}-\d\d-\d\dT\S+Z (info|warning) +\w", first), first
    with Server(store, arguments=["--log-format=text", ALL]) as server, server.channel() as channel:
        get(channel, "s")
        channel.close()
        assert server.stop() == 0
        assert re.search(r" info +call method=Get code=OK ms=[0-9.]+ request_id=", server.output())


def test_a_reader_who_never_reads_is_in_nobodys_way(store):
    reader, writer = os.pipe()  # Nobody ever reads it.
    count, threads = 8000, 8
    try:
        with open(writer, "wb") as log:
            server = Server(store, log=log,
                            arguments=[ALL, "--log-level=debug", "--metrics-listen=127.0.0.1:0"])
        with server:
            def work(number: int) -> None:
                with server.channel() as channel:
                    for i in range(count // threads):
                        failed = get(channel, "" if i % 4 == 0 else f"s{number}")
                        assert (failed.code() == grpc.StatusCode.OK) == (i % 4 != 0)

            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, range(threads)))
            # All but what the pipe (64 KiB) and the queue (4,096 lines) hold.
            assert value(scrape(server.metrics), "memoryd_log_dropped_total") > count - 4096 - 1000
            begin = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - begin < 10
    finally:
        os.close(reader)
