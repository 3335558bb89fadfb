"""HTTP/2 connections as raw frames, for what no gRPC library sends."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping

import hpack

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 2, 3, 4, 6, 7
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
FRAME_BYTES = 16384
PROTOCOL_ERROR, CANCEL, ENHANCE_YOUR_CALM = 1, 8, 11

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_INITIAL_WINDOW = 65535
_INITIAL_WINDOW_SIZE = 4  # Of the settings.

Text = str | bytes
# A Mapping, or pairs where a name comes twice.
Fields = Mapping[Text, Text] | Iterable[tuple[Text, Text]]


@dataclasses.dataclass(frozen=True)
class Answer:
    """How a stream ended: with `status` (a grpc-status) and its `headers`, or reset by the server
    with `reset`, or with its connection, `closed` and perhaps with the code of a GOAWAY."""

    status: int | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reset: int | None = None
    goaway: int | None = None
    closed: bool = False


class Connection:
    """A connection to `target`, host:port, whose every frame is the caller's.

    With `acknowledge` the server's settings are acknowledged as soon as they are read, which
    settle() waits for: only from then on gRPC holds a client to them. `source` is the address
    that it comes from. Use as a context manager.
    """

    def __init__(self, target: str, *, acknowledge: bool = True, timeout: float = 30.0,
                 tls: ssl.SSLContext | None = None, source: str = "") -> None:
        host, _, port = target.rpartition(":")
        self.target = target
        self.closed = False
        self.goaway: int | None = None
        self._acknowledge = acknowledge
        self._settled = False
        self._decoder = hpack.Decoder(max_header_list_size=1 << 24)
        self._answers: dict[int, Answer] = {}
        self._headers: dict[int, dict[str, str]] = {}
        self._next = 1
        self._received = bytearray()
        self._stream_window = _INITIAL_WINDOW
        self._windows: dict[int, int] = {0: _INITIAL_WINDOW}
        self._socket = socket.create_connection(
            (host, int(port)), timeout, (source, 0) if source else None)
        try:
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            self.send(_PREFACE + frame(SETTINGS))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def set_timeout(self, seconds: float) -> None:
        """How long a send waits for the server to read, and a read for the server to send."""
        self._socket.settimeout(seconds)

    def send(self, frames: bytes) -> None:
        """Sends bytes as they are, to a server that may have closed the connection: what it said
        before that is still to be read."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self._socket.sendall(frames)

    def settle(self) -> Connection:
        """Returns when the server's settings have been read, and acknowledged if they shall be."""
        while not self._settled and not self.closed:
            self._read_frame()
        return self

    def take_nothing(self) -> None:
        """Opens no window for what streams that begin from now on are answered."""
        self.send(frame(SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, 0)))

    def start(self, method: Text, headers: Fields = (), end: bool = False) -> int:
        """Sends the headers of a call; the number of its stream."""
        return self.start_with(block(self.target, method, headers), end)

    def start_with(self, encoded: bytes, end: bool = False) -> int:
        """Begins a stream with a header block."""
        stream = self._next
        self._next += 2
        self._windows[stream] = self._stream_window
        self.send(header_frames(stream, encoded, end))
        return stream

    def send_body(self, stream: int, body: bytes, end: bool = True) -> None:
        """Sends a body, or some of it, as the server's windows allow; all that is left of it is
        dropped when the stream ends before."""
        sent = 0
        while not self.closed and stream not in self._answers:
            room = min(self._windows[0], self._windows[stream], FRAME_BYTES)
            if room <= 0 and sent < len(body):
                self._read_frame()
                continue
            part = body[sent:sent + room]
            sent += len(part)
            for window in (0, stream):
                self._windows[window] -= len(part)
            last = sent == len(body)
            self.send(frame(DATA, END_STREAM if end and last else 0, stream, part))
            if last:
                return

    def reset(self, stream: int, code: int = CANCEL) -> None:
        self.send(frame(RST_STREAM, 0, stream, struct.pack(">I", code)))

    def answer(self, stream: int) -> Answer:
        """The end of a stream, once the server has said it. TimeoutError when it never does."""
        while stream not in self._answers:
            if self.closed:
                return Answer(goaway=self.goaway, closed=True)
            self._read_frame()
        return self._answers[stream]

    def call(self, method: Text, body: bytes, headers: Fields = ()) -> Answer:
        """A unary call with this body: length-prefixed messages or not."""
        return self.finish(self.start(method, headers), body)

    def finish(self, stream: int, body: bytes) -> Answer:
        self.send_body(stream, body)
        return self.answer(stream)

    def wait_until_closed(self) -> int | None:
        """Reads until the server closes the connection; the code of its GOAWAY, if it sent one."""
        while not self.closed:
            self._read_frame()
        return self.goaway

    def read_what_came(self) -> None:
        """Reads the frames that have arrived, and waits for none."""
        timeout = self._socket.gettimeout()
        self._socket.settimeout(0)
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
            while self._receive():
                pass
        self._socket.settimeout(timeout)
        while len(self._received) >= 9 + int.from_bytes(self._received[:3], "big"):
            self._read_frame()

    def _receive(self) -> bool:
        """Takes in some of what the server sends; False when it has closed the connection."""
        try:
            part = self._socket.recv(65536)
        except (BlockingIOError, ssl.SSLWantReadError):
            raise
        except (ConnectionError, ssl.SSLError):
            part = b""
        self._received += part
        self.closed = self.closed or not part
        return bool(part)

    def _read_exactly(self, count: int) -> bytes | None:
        while len(self._received) < count:
            if not self._receive():
                return None
        found = bytes(self._received[:count])
        del self._received[:count]
        return found

    def _read_frame(self) -> None:
        head = self._read_exactly(9)
        payload = None if head is None else self._read_exactly(int.from_bytes(head[:3], "big"))
        if head is None or payload is None:
            return
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:9], "big")
        if kind == SETTINGS and not flags & ACK:
            self._take_settings(payload)
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self._windows[stream] = self._windows.get(stream, 0) + int.from_bytes(payload, "big")
        elif kind == HEADERS:
            headers = self._headers.setdefault(stream, {})
            headers.update(self._decoder.decode(payload))
            if "grpc-status" in headers or flags & END_STREAM:
                status = headers.get("grpc-status")
                self._answers[stream] = Answer(None if status is None else int(status), headers)
        elif kind == RST_STREAM:
            self._answers.setdefault(stream, Answer(reset=int.from_bytes(payload, "big")))
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")

    def _take_settings(self, payload: bytes) -> None:
        for name, value in struct.iter_unpack(">HI", payload):
            if name == _INITIAL_WINDOW_SIZE:
                for stream in self._windows.keys() - {0}:
                    self._windows[stream] += value - self._stream_window
                self._stream_window = value
        self._settled = True
        if self._acknowledge:
            self.send(frame(SETTINGS, ACK))


def raw_call(target: str, method: str, body: bytes, more_headers: Mapping[str, str] | None = None,
             timeout: float = 30.0) -> int | None:
    """The grpc-status answered to `body`, all of it in one stream; None when the server reset it.

    `target` is host:port, `body` what follows the headers: length-prefixed messages or not. The
    server's settings are not waited for.
    """
    with Connection(target, timeout=timeout) as connection:
        return connection.call(method, body, more_headers or {}).status


def prefixed(message: bytes, flag: int = 0) -> bytes:
    """A message with its gRPC prefix; a `flag` of 1 says that it is compressed."""
    return struct.pack(">BI", flag, len(message)) + message


def block(target: str, path: Text, more: Fields = (), *, leave_out: Iterable[str] = (),
          **instead: Text) -> bytes:
    """The header block of a call. Of the usual headers, `leave_out` go and `instead` have other
    values, by their names without colon and with `_` for `-`."""
    usual = {":method": "POST", ":scheme": "http", ":path": path, ":authority": target,
             "te": "trailers", "content-type": "application/grpc"}
    by_name = {name.lstrip(":").replace("-", "_"): name for name in usual}
    for name, value in instead.items():
        usual[by_name[name]] = value
    for name in leave_out:
        del usual[name]
    pairs = more.items() if isinstance(more, Mapping) else more
    return b"".join(literal(name, value) for name, value in (*usual.items(), *pairs))


def literal(name: Text, value: Text, *, indexed: bool = False) -> bytes:
    """A header as a literal, which needs no state; `indexed` adds it to the server's table."""
    start = b"\x40" if indexed else b"\x00"
    return start + string(_bytes(name)) + string(_bytes(value))


def string(text: bytes) -> bytes:
    return string_length(len(text)) + text


def string_length(length: int) -> bytes:
    """The beginning of a string of HPACK, without Huffman code."""
    if length < 127:
        return bytes([length])
    length -= 127
    encoded = bytearray([127])
    while length >= 128:
        encoded.append(length & 127 | 128)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)


def header_frames(stream: int, encoded: bytes, end: bool = False) -> bytes:
    """HEADERS and as many CONTINUATION as the block needs."""
    parts = [encoded[i:i + FRAME_BYTES] for i in range(0, len(encoded), FRAME_BYTES)] or [b""]
    frames = b""
    for index, part in enumerate(parts):
        flags = END_HEADERS if index == len(parts) - 1 else 0
        if index == 0:
            frames += frame(HEADERS, flags | (END_STREAM if end else 0), stream, part)
        else:
            frames += frame(CONTINUATION, flags, stream, part)
    return frames


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text
