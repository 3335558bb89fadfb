"""The Connect protocol over HTTP/1.1, by Python's own client."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import grpc
from google.protobuf import json_format, message_factory
from google.rpc import status_pb2

from support.access import METHODS

LISTEN = "--http-listen=127.0.0.1:0"
# Methods whose requests stream: those that take lines of JSON, and those that stream replies besides.
IN_LINES = {name for name, method in METHODS.items()
            if method.client_streaming and not method.server_streaming}
GRPC_ONLY = {name for name, method in METHODS.items()
             if method.client_streaming and method.server_streaming}
LINES = "application/x-ndjson"


def parsed(text: str | bytes) -> Any:
    """JSON in which no object has a name twice. Of two, most parsers take the last without a word."""
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), [name for name, _ in pairs]
        return dict(pairs)
    return json.loads(text, object_pairs_hook=once)


def path_of(method: str) -> str:
    return f"/{METHODS[method].containing_service.full_name}/{method}"


class HttpCaller:
    """Calls RPCs by their names, on one connection that is kept."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def raw(self, path: str, body: bytes, headers: Mapping[str, str] | None = None,
            method: str = "POST") -> tuple[int, bytes]:
        """The status of HTTP and the body of the answer."""
        self.connection.request(method, path, body, {**self._headers, **(headers or {})})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def __call__(self, method: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        """A call in JSON: the status of HTTP, and the reply or the error."""
        status, body = self.raw(path_of(method), json.dumps(fields).encode(),
                                {"Content-Type": "application/json"})
        return status, parsed(body)

    def opened(self, path: str, body: bytes, headers: Mapping[str, str]) -> Iterator[bytes]:
        """A stream's envelopes as they come, on a connection of its own; not 200 is an HttpError."""
        host = f"{self.connection.host}:{self.connection.port}"
        with contextlib.closing(http.client.HTTPConnection(host, timeout=60)) as connection:
            envelope = b"\0" + len(body).to_bytes(4, "big") + body
            connection.request("POST", path, envelope, {**self._headers, **headers})
            answer = connection.getresponse()
            if answer.status != 200:
                raise HttpError(parsed(answer.read()))
            while head := answer.read(5):
                yield head + answer.read(int.from_bytes(head[1:5], "big"))

    def watch(self, method: str, **fields: Any) -> Iterator[dict[str, Any]]:
        """The messages of a stream in JSON as they come; the last says how it ended."""
        for envelope in self.opened(path_of(method), json.dumps(fields).encode(),
                                    {"Content-Type": "application/connect+json"}):
            yield parsed(envelope[5:])

    def stream(self, method: str, **fields: Any) -> list[dict[str, Any]]:
        """The messages of a stream in JSON; the last says how it ended."""
        request = json.dumps(fields).encode()
        status, body = self.raw(path_of(method), b"\0" + len(request).to_bytes(4, "big") + request,
                                {"Content-Type": "application/connect+json"})
        assert status == 200, (status, body)
        messages = []
        while body:
            size = int.from_bytes(body[1:5], "big")
            messages.append(parsed(body[5:5 + size]))
            assert (body[0] == 2) == (len(body) == 5 + size)
            body = body[5 + size:]
        return messages

    def lines(self, method: str, **fields: Any) -> list[dict[str, Any]]:
        """The messages of a stream, each on a line; the last may be an error."""
        status, body = self.raw(path_of(method), json.dumps(fields).encode(),
                                {"Content-Type": "application/json", "Accept": LINES})
        assert status == 200, (status, body)
        return [parsed(line) for line in body.splitlines()]

    def send_lines(self, method: str, *requests: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """A stream of requests, each on a line: the status of HTTP, and the reply or the error."""
        status, body = self.raw(path_of(method), lines_of(requests), {"Content-Type": LINES})
        return status, parsed(body)

    def code(self, method: str, **fields: Any) -> tuple[str, str]:
        """The code and the reason of a call, unary or a stream; `ok` and nothing for a reply."""
        if method == "WatchSession":
            answer = next(self.watch(method, **fields)).get("error", {})
        elif METHODS[method].server_streaming and not METHODS[method].client_streaming:
            answer = self.stream(method, **fields)[-1].get("error", {})
        elif method in IN_LINES:
            _, answer = self.send_lines(method, fields)
        else:
            _, answer = self(method, **fields)
        if not isinstance(answer.get("code"), str) or "message" not in answer:
            return "ok", ""
        return answer["code"], reason_of(answer)


def lines_of(requests: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(request).encode() + b"\n" for request in requests)


def reason_of(error: Mapping[str, Any]) -> str:
    """What the ErrorInfo of an error has as its reason."""
    return next(detail["debug"]["reason"] for detail in error["details"]
                if detail["type"] == "google.rpc.ErrorInfo")


class HttpChannel:
    """Calls by the Connect protocol behind the face of a grpc.Channel, as far as stubs and `Caller`
    use it, so that one test asks both ports. Streams in both directions are sent too, for the
    refusal."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._kept = threading.local()

    def __enter__(self) -> HttpChannel:
        return self

    def __exit__(self, *_: object) -> None:
        pass  # Connections end with their threads.

    def unary_unary(self, path: str, request_serializer: Callable[[Any], bytes],
                    response_deserializer: Callable[[bytes], Any], **_: Any) -> Callable[..., Any]:
        def call(request: Any, timeout: float | None = None, metadata: Any = (), **_: Any) -> Any:
            headers = {"Content-Type": "application/proto", **dict(metadata or ())}
            status, body = self._post(path, request_serializer(request), headers, timeout)
            if status != 200:
                raise HttpError(parsed(body))
            return response_deserializer(body)
        return call

    def unary_stream(self, path: str, request_serializer: Callable[[Any], bytes],
                     response_deserializer: Callable[[bytes], Any], **_: Any) -> Callable[..., Any]:
        def call(request: Any, timeout: float | None = None, metadata: Any = (),
                 **_: Any) -> Iterator[Any]:
            sent = request_serializer(request)
            headers = {"Content-Type": "application/connect+proto", **dict(metadata or ())}
            if timeout is not None:
                headers["Connect-Timeout-Ms"] = str(int(timeout * 1000))
            for envelope in HttpCaller(self._address).opened(path, sent, headers):
                flags, message = envelope[0], envelope[5:]
                if flags == 0:
                    yield response_deserializer(message)
                elif error := json.loads(message).get("error"):
                    raise HttpError(error)
        return call

    def stream_unary(self, path: str, request_serializer: Callable[[Any], bytes],
                     response_deserializer: Callable[[bytes], Any], **_: Any) -> Callable[..., Any]:
        reply = message_factory.GetMessageClass(METHODS[path.rpartition("/")[2]].output_type)

        def call(requests: Iterable[Any], timeout: float | None = None, metadata: Any = (),
                 **_: Any) -> Any:
            sent = lines_of(json_format.MessageToDict(request) for request in requests)
            headers = {"Content-Type": LINES, **dict(metadata or ())}
            status, body = self._post(path, sent, headers, timeout)
            if status != 200:
                raise HttpError(parsed(body))
            return json_format.Parse(body, reply())
        return call

    def stream_stream(self, path: str, request_serializer: Callable[[Any], bytes],
                      response_deserializer: Callable[[bytes], Any], **_: Any) -> Callable[..., Any]:
        one = self.unary_stream(path, request_serializer, response_deserializer)
        return lambda requests, **options: one(next(iter(requests)), **options)

    def _post(self, path: str, body: bytes, headers: dict[str, str],
              timeout: float | None) -> tuple[int, bytes]:
        if timeout is not None:
            headers["Connect-Timeout-Ms"] = str(int(timeout * 1000))
        if not hasattr(self._kept, "caller"):
            self._kept.caller = HttpCaller(self._address)
        return self._kept.caller.raw(path, body, headers)


class HttpError(grpc.RpcError):
    """An error of the Connect protocol as grpc's Python library has its own."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error.get('message')}")
        self._error = error

    def code(self) -> grpc.StatusCode:
        name = self._error["code"].upper()
        return grpc.StatusCode["CANCELLED" if name == "CANCELED" else name]

    def details(self) -> str:
        return self._error.get("message", "")

    def trailing_metadata(self) -> list[tuple[str, bytes]]:
        """The details, as gRPC sends them."""
        status = status_pb2.Status(code=self.code().value[0], message=self.details())
        for detail in self._error.get("details", ()):
            padded = detail["value"] + "=" * (-len(detail["value"]) % 4)
            status.details.add(type_url=f"type.googleapis.com/{detail['type']}",
                               value=base64.b64decode(padded))
        return [("grpc-status-details-bin", status.SerializeToString())]
