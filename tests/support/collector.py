"""A collector of OpenTelemetry's on loopback: takes spans by OTLP over HTTP."""

from __future__ import annotations

import dataclasses
import http.server
import struct
import subprocess
import threading
from typing import Any

from support.paths import BINARY, server_environment

WAIT_SECONDS = 60.0


def check_endpoint(url: str) -> subprocess.CompletedProcess:
    """What memoryd says of an endpoint for spans, without a start."""
    return subprocess.run([str(BINARY), f"--otlp-endpoint={url}", "--check-config"],
                          env=server_environment(), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, check=False)


def exports_spans() -> bool:
    """Whether the memoryd under test was built with opentelemetry-cpp."""
    return check_endpoint("http://127.0.0.1:4318/v1/traces").returncode == 0


@dataclasses.dataclass
class Span:
    """A span as it was sent; ids are hexadecimal, times nanoseconds since the epoch."""

    trace_id: str
    span_id: str
    parent_id: str
    state: str
    name: str
    kind: int
    start: int
    end: int
    attributes: dict[str, Any]
    status: int
    resource: dict[str, Any]
    scope: str


class Collector:
    """Serves `url` while it lives; `spans` is what was sent. Use as a context manager.

    After hang() it takes connections and answers none, until it is closed.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._spans: list[Span] = []
        self._headers: list[dict[str, str]] = []
        self._answers = threading.Event()
        self._answers.set()
        self._asked = threading.Event()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1/traces"

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def hang(self) -> None:
        self._asked.clear()
        self._answers.clear()

    def wait_until_asked(self) -> None:
        """Returns once somebody waits for an answer that does not come."""
        assert self._asked.wait(WAIT_SECONDS)

    @property
    def spans(self) -> list[Span]:
        with self._lock:
            return list(self._spans)

    @property
    def headers(self) -> list[dict[str, str]]:
        """Of each request, names in lower case."""
        with self._lock:
            return list(self._headers)

    def wait(self, count: int) -> list[Span]:
        """The spans, once there are `count`."""
        with self._lock:
            assert self._lock.wait_for(lambda: len(self._spans) >= count, WAIT_SECONDS), self._spans
            return list(self._spans)

    def take(self, headers: dict[str, str], body: bytes) -> None:
        self._asked.set()
        self._answers.wait()
        with self._lock:
            self._headers.append(headers)
            self._spans += _spans(body)
            self._lock.notify_all()


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: Collector


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces", self.path
        assert self.headers["Content-Type"] == "application/x-protobuf", self.headers
        self.server.owner.take({k.lower(): v for k, v in self.headers.items()}, body)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


# The numbers below are those of the fields in OpenTelemetry's trace.proto and what it imports.
def _spans(body: bytes) -> list[Span]:
    found = []
    for resource_spans in _fields(body).get(1, ()):
        of_resource = _fields(resource_spans)
        resource = _attributes(_fields(_one(of_resource, 1, b"")), 1)
        for scope_spans in of_resource.get(2, ()):
            of_scope = _fields(scope_spans)
            scope = _one(_fields(_one(of_scope, 1, b"")), 1, b"").decode()
            for span in of_scope.get(2, ()):
                of_span = _fields(span)
                found.append(Span(
                    trace_id=_one(of_span, 1, b"").hex(),
                    span_id=_one(of_span, 2, b"").hex(),
                    parent_id=_one(of_span, 4, b"").hex(),
                    state=_one(of_span, 3, b"").decode(),
                    name=_one(of_span, 5, b"").decode(),
                    kind=_one(of_span, 6, 0),
                    start=_one(of_span, 7, 0),
                    end=_one(of_span, 8, 0),
                    attributes=_attributes(of_span, 9),
                    status=_one(_fields(_one(of_span, 15, b"")), 3, 0),
                    resource=resource,
                    scope=scope))
    return found


def _attributes(fields: dict[int, list], number: int) -> dict[str, Any]:
    attributes = {}
    for pair in fields.get(number, ()):
        of_pair = _fields(pair)
        value = _fields(_one(of_pair, 2, b""))
        attributes[_one(of_pair, 1, b"").decode()] = (
            value[1][0].decode() if 1 in value else _one(value, 3, None))
    return attributes


def _one(fields: dict[int, list], number: int, default: Any) -> Any:
    return fields[number][0] if number in fields else default


def _fields(message: bytes) -> dict[int, list]:
    """A protobuf message without its schema: number of the field to its values."""
    fields: dict[int, list] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        value: Any
        if kind == 0:
            value = varint()
        elif kind == 1:
            value, at = struct.unpack_from("<Q", message, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<I", message, at)[0], at + 4
        else:
            assert kind == 2, kind
            size = varint()
            value, at = message[at:at + size], at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields
