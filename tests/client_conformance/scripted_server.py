"""A server of memoryd.v1 that does with each attempt of a call what a script says.

Clients reach it through a relay of TCP, which stays at one port: a step may break its connections, refuse
new ones for a while, or put another server behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import json
import time
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from support import paths  # noqa: F401  (makes memoryd importable)

_SERVICES = ("block", "item", "job", "memory", "server", "session", "worker")
_MODULES = [importlib.import_module(f"memoryd.v1.{name}_service_pb2") for name in _SERVICES]
# What each step is called, in cases.yaml.
STEPS = ("reply", "lose", "drop", "fail", "late", "silent", "drain", "restart", "pages")


def _methods() -> dict[str, tuple[type[Message], type[Message], bool]]:
    found = {}
    for module in _MODULES:
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                found[f"/{service.full_name}/{method.name}"] = (
                    _class_of(method.input_type), _class_of(method.output_type), method.server_streaming)
    return found


def _class_of(descriptor: Any) -> type[Message]:
    module = next(m for m in _MODULES if hasattr(m, descriptor.name))
    made: type[Message] = getattr(module, descriptor.name)
    return made


METHODS = _methods()
REQUESTS = {path.rsplit("/", 1)[1]: types[0] for path, types in METHODS.items()}


def to_json(message: Message) -> Any:
    """The message as proto JSON."""
    return json_format.MessageToDict(message)


@dataclasses.dataclass
class Attempt:
    """An attempt of a call, as the server saw it. `seconds` is how long until its deadline; None: it has
    none."""

    rpc: str
    requests: list[Any]
    metadata: dict[str, str]
    seconds: float | None
    at: float
    broken: bool = False

    @property
    def request_ids(self) -> list[str]:
        """Of the request, or of each part of a batch."""
        request = self.requests[0] if self.requests else {}
        parts = request.get("batches") or request.get("puts") or [request]
        return [one.get("requestId", "") for one in parts]


class _Refuses(Exception):
    """Ends a call with a status."""

    def __init__(self, step: dict[str, Any]) -> None:
        super().__init__(step)
        self.step = step


class ScriptedServer:
    """Takes the steps of `script` one by one, one for each attempt. What comes beyond them is refused and
    counted too. Of one event loop."""

    def __init__(self) -> None:
        self.script: list[dict[str, Any]] = []
        self.attempts: list[Attempt] = []
        self.target = ""
        # Replies by request id, as a server keeps them.
        self._done: dict[str, Any] = {}
        self._server: grpc.aio.Server | None = None
        self._upstream = 0
        self._relay: asyncio.Server | None = None
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        await self._serve()
        await self._open()

    async def stop(self) -> None:
        await self.go_away()
        for task in list(self._tasks):
            task.cancel()
        if self._server is not None:
            await self._server.stop(None)

    async def go_away(self) -> None:
        """Ends all connections and takes no new ones."""
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        self.break_connections()

    async def come_back(self, seconds: float) -> None:
        """Takes connections again after so many seconds, at the same port."""
        await asyncio.sleep(seconds)
        if self._relay is None:
            await self._open()

    async def restart(self, seconds: float) -> None:
        await self.go_away()
        await self.come_back(seconds)

    def break_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def say_goodbye(self) -> None:
        """Tells the clients by GOAWAY to go; another server takes what comes from now on."""
        old = self._server
        await self._serve()
        if old is not None:
            self.run(old.stop(30))

    def run(self, coroutine: Any) -> None:
        """Runs it beside all else, until the server stops."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self) -> None:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)])
        server.add_generic_rpc_handlers([_Handlers(self)])
        self._upstream = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._server = server

    async def _open(self) -> None:
        self._relay = await asyncio.start_server(
            self._relayed, "127.0.0.1", self._port, reuse_address=True)
        self._port = self._relay.sockets[0].getsockname()[1]
        self.target = f"127.0.0.1:{self._port}"

    async def _relayed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(there)
        try:
            await asyncio.gather(_copy(reader, there), _copy(there_reader, writer))
        finally:
            for one in (writer, there):
                self._writers.discard(one)
                one.transport.abort()

    async def answer(self, path: str, received: list[bytes], context: Any) -> Any:
        """Yields the replies to an attempt."""
        request_type, reply_type, _ = METHODS[path]
        requests = [to_json(request_type.FromString(one)) for one in received]
        seconds = context.time_remaining()
        metadata = dict(context.invocation_metadata() or ())
        attempt = Attempt(path.rsplit("/", 1)[1], requests, metadata,
                          seconds if seconds is not None and seconds < 1e7 else None, time.monotonic())
        self.attempts.append(attempt)
        step = self._next()
        if "fail" in step and step["fail"].get("in_batch") and attempt.rpc == "BatchItems":
            failed = step["fail"]
            code = grpc.StatusCode[failed["code"]].value[0]
            error = {"code": code, "reason": failed["reason"], "message": failed.get("message", "")}
            yield _made(reply_type, {"outcomes": [{"error": error}]})
            return
        if "fail" in step:
            raise _Refuses(step["fail"])
        if "silent" in step:
            await asyncio.Event().wait()  # Until the caller gives up.
        if "late" in step:
            await asyncio.sleep(step["late"])
        if "drain" in step:
            await self.say_goodbye()
            if step["drain"] == "refused":
                raise _Refuses({"code": "UNAVAILABLE", "reason": "DRAINING"})
        if "restart" in step:
            # Not by this call, which ends with its connection.
            self.run(self.restart(step["restart"]))
            await asyncio.Event().wait()  # Until the caller gives up.
        if "drop" in step:
            self.break_connections()
            return
        if "pages" in step:
            for page in step["pages"]:
                yield _made(reply_type, page)
            if "then" in step:
                # What was sent reaches the client first.
                await asyncio.sleep(0.2)
                if step["then"] == "drop":
                    self.break_connections()
                else:
                    raise _Refuses(step["then"])
            return
        reply = self._kept(attempt, step.get("reply", step.get("lose")) or {})
        if "large_mib" in step:
            reply = {**reply, "messages": [{"role": "user", "text": "x" * (step["large_mib"] << 20)}]}
        if "lose" in step:
            self.break_connections()
            return
        yield _made(reply_type, _fit(attempt, reply))

    def _next(self) -> dict[str, Any]:
        if not self.script:
            return {"fail": {"code": "FAILED_PRECONDITION", "reason": "NOT_IN_THE_SCRIPT"}}
        return self.script[0] if self.script[0].get("for_ever") else self.script.pop(0)

    def _kept(self, attempt: Attempt, reply: Any) -> Any:
        """Does the call, or finds what it came to before."""
        key = "/".join(attempt.request_ids)
        if not key.strip("/"):
            return reply
        if key in self._done:
            return {**self._done[key], "replayed": True}
        self._done[key] = reply
        return reply


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, scripted: ScriptedServer) -> None:
        self._scripted = scripted

    def service(self, details: Any) -> Any:
        path = details.method
        if path not in METHODS:
            return None

        async def handle(requests: Any, context: Any) -> Any:
            received = [one async for one in requests]
            try:
                async for reply in self._scripted.answer(path, received, context):
                    yield reply.SerializeToString()
            except _Refuses as refused:
                step = refused.step
                code = grpc.StatusCode[step["code"]]
                if details_of := _details(step):
                    context.set_trailing_metadata((("grpc-status-details-bin", details_of),))
                await context.abort(code, step.get("message", ""))

        return grpc.stream_stream_rpc_method_handler(handle)


def _details(step: dict[str, Any]) -> bytes:
    if "reason" not in step:
        return b""
    status = status_pb2.Status(code=grpc.StatusCode[step["code"]].value[0], message=step.get("message", ""))
    told = {key: str(value) for key, value in step.get("details", {}).items()}
    if "retry_after_ms" in step:
        told["retry_after_ms"] = str(step["retry_after_ms"])
    status.details.add().Pack(
        error_details_pb2.ErrorInfo(reason=step["reason"], domain="memoryd", metadata=told))
    if "retry_after_ms" in step:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(step["retry_after_ms"])
        status.details.add().Pack(retry)
    return status.SerializeToString()


def _fit(attempt: Attempt, reply: Any) -> Any:
    """The reply in the form of BatchItems, where a client makes operations on one item by that."""
    if attempt.rpc != "BatchItems" or "outcomes" in reply:
        return reply
    (batch,) = attempt.requests[0]["batches"]
    (operation,) = batch["operations"]
    (kind,) = operation
    own = {key: value for key, value in reply.items() if key != "replayed"}
    result = own.get("write", {}) if kind == "put" else own
    return {"outcomes": [{"results": [{kind: result}], "replayed": reply.get("replayed", False)}]}


def _made(reply_type: type[Message], reply: Any) -> Message:
    fields = reply_type.DESCRIPTOR.fields_by_name
    if "replayed" not in fields:
        reply = {key: value for key, value in reply.items() if key != "replayed"}
    made: Message = json_format.ParseDict(json.loads(json.dumps(reply)), reply_type())
    return made


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        # The other side has ended, whole.
        writer.transport.abort()
