"""One unary call as raw HTTP/2 frames, for request bodies that no gRPC library sends."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

import hpack

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _CONTINUATION = 0, 1, 3, 4, 6, 7, 9
_FRAME_BYTES = 16384
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1


def raw_call(target: str, method: str, body: bytes, more_headers: Mapping[str, str] | None = None,
             timeout: float = 30.0) -> int | None:
    """The grpc-status answered to `body`, all of it in one stream; None when the server reset it.

    `target` is host:port, `body` what follows the headers: length-prefixed messages or not.
    """
    host, _, port = target.rpartition(":")
    headers = [
        (":method", "POST"), (":scheme", "http"), (":path", method), (":authority", target),
        ("te", "trailers"), ("content-type", "application/grpc"), *(more_headers or {}).items(),
    ]
    encoded = hpack.Encoder().encode(headers, huffman=False)
    with socket.create_connection((host, int(port)), timeout) as connection:
        connection.sendall(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, b"")
            + _header_frames(encoded)
            + _frame(_DATA, _END_STREAM, 1, body)
        )
        decoder = hpack.Decoder()
        stream = connection.makefile("rb")
        while len(head := stream.read(9)) == 9:
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            payload = stream.read(length)
            if kind == _SETTINGS and not flags & _ACK:
                connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
            elif kind == _PING and not flags & _ACK:
                connection.sendall(_frame(_PING, _ACK, 0, payload))
            elif kind == _HEADERS:
                for name, value in decoder.decode(payload):
                    if name == "grpc-status":
                        return int(value)
            elif kind in (_RST_STREAM, _GOAWAY):
                return None
    return None


def prefixed(message: bytes) -> bytes:
    """A message with its gRPC prefix."""
    return struct.pack(">BI", 0, len(message)) + message


def _header_frames(encoded: bytes) -> bytes:
    parts = [encoded[i:i + _FRAME_BYTES] for i in range(0, len(encoded), _FRAME_BYTES)]
    frames = b""
    for index, part in enumerate(parts):
        kind = _HEADERS if index == 0 else _CONTINUATION
        frames += _frame(kind, _END_HEADERS if index == len(parts) - 1 else 0, 1, part)
    return frames


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload
