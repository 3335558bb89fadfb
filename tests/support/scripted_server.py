"""A server that says to a worker what a test wants it to say."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

from support import paths  # noqa: F401  (makes memoryd importable)

from memoryd.v1 import worker_service_pb2 as wire
from memoryd.v1 import worker_service_pb2_grpc


class ScriptedServer(worker_service_pb2_grpc.WorkerServiceServicer):
    """Stands in for memoryd: calls the worker that attaches, and takes its results."""

    def __init__(self) -> None:
        self.hello = None
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        self._results: dict[int, wire.WorkerResult] = {}
        self._changed = threading.Condition()
        self._last = 0

    def Attach(self, requests, context):
        calls = self._calls = queue.SimpleQueue()
        self.hello = next(requests).hello
        welcome = wire.WorkerWelcome(server_version="x", max_message_bytes=100_000)
        yield wire.AttachResponse(welcome=welcome)

        def read():
            with contextlib.suppress(Exception):
                for request in requests:
                    with self._changed:
                        self._results[request.result.call_id] = request.result
                        self._changed.notify_all()
            calls.put(None)

        threading.Thread(target=read, daemon=True).start()
        yield from iter(calls.get, None)

    def send(self, **fields) -> int:
        with self._changed:
            self._last += 1
            call_id = self._last
        call = wire.WorkerCall(call_id=call_id, session_id="s", timeout={"seconds": 20}, **fields)
        self._calls.put(wire.AttachResponse(call=call))
        return call_id

    def cancel(self, call_id: int) -> None:
        self._calls.put(wire.AttachResponse(cancel=wire.WorkerCancel(call_id=call_id)))

    def drop(self) -> None:
        """Ends the stream."""
        self._calls.put(None)

    def result(self, call_id: int | None = None) -> wire.WorkerResult:
        """The result of a call, or the next one; for any number of threads."""
        def found() -> int | None:
            if call_id is not None:
                return call_id if call_id in self._results else None
            return next(iter(self._results), None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() is not None, 30), "no result"
            return self._results.pop(found())

    def call(self, **fields) -> wire.WorkerResult:
        return self.result(self.send(**fields))


@contextlib.contextmanager
def attaching() -> Iterator[tuple[ScriptedServer, str]]:
    """A scripted server that runs, and its address."""
    server = grpc.server(ThreadPoolExecutor(8))
    service = ScriptedServer()
    worker_service_pb2_grpc.add_WorkerServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield service, f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
