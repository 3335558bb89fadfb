"""Rows 57 to 65: more of something than anybody needs, over one connection or many.

What gRPC 1.51 does not bound by itself is let run for a while beside good traffic, and then tried
on the port that is meant for networks, which wants a client certificate before it parses anything.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from support.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FRAME_BYTES,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    Connection,
    block,
    frame,
    literal,
    prefixed,
    string_length,
)
from support.metrics import scrape, value
from support.process_memory import PeakMemory
from support.server import Server
from support.tls import SERVER_NAMES, Authority, secure_channel, server_arguments

from hostile.frames import FLAT_MIB, METRICS
from hostile.place import PUT, Place, own_server, placed, put_bytes

Flood = Callable[[Connection, Place], None]
# Enough to see that it is let through, and short enough to run with every push.
FLOOD_BYTES = 16 << 20
# The session of calls that are reset.
RESET, RESETS = "reset", 5000


@contextlib.contextmanager
def behind_client_certificates() -> Iterator[Place]:
    """A place on a port that wants a client certificate, and has callers who show one."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        client = authority.issue("DNS:client")
        arguments = [*server_arguments(authority.issue(SERVER_NAMES), authority.certificate),
                     METRICS]
        with Server("sqlite::memory:", arguments=arguments) as server:
            def opened():
                return secure_channel(server.target, authority.certificate, client)

            with placed(server, opened) as place:
                yield place


def assert_unreachable(flood: Flood) -> None:
    """The flood by somebody without a certificate ends at the handshake and costs nothing."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    anybody.set_alpn_protocols(["h2"])
    with behind_client_certificates() as place:
        for tls in (anybody, None):
            for _ in range(3):
                place.assert_serves()
            peak = PeakMemory(place.server.pid)
            try:
                connection = Connection(place.server.target, tls=tls)
            except (ssl.SSLError, ConnectionError):
                continue
            with connection:
                flood(connection, place)
                connection.wait_until_closed()
            assert peak.grown_mib() < FLAT_MIB
        assert value(scrape(place.server.metrics), "memoryd_rpc_in_flight") == 0


def contained(flood: Flood, most_mib: float = 64.0) -> Callable[[Place], None]:
    """On a plain port others are served beside the flood and after it, and memory grows with what
    came; behind client certificates nobody gets as far."""
    def step(_: Place) -> None:
        with own_server() as place:
            peak = PeakMemory(place.server.pid)
            connection = Connection(place.server.target, acknowledge=False)
            with connection:
                flood(connection, place)
                place.assert_serves()
            place.assert_serves()
            assert peak.grown_mib() < most_mib
            # A reset that comes in another read than its call may find it stored.
            assert len(place.texts(RESET)) < RESETS // 10
        assert_unreachable(flood)
    return step


def continuation_flood(connection: Connection, place: Place) -> None:
    part = literal("x-c", b"b" * 16000)[:FRAME_BYTES]
    connection.send(frame(HEADERS, 0, 1, block(place.server.target, PUT)))
    for _ in range(FLOOD_BYTES // FRAME_BYTES):
        if connection.closed:
            return
        connection.send(frame(CONTINUATION, 0, 1, part))


def huge_string(connection: Connection, place: Place) -> None:
    """CVE-2023-33953: a header of 3 GiB, of which 2 MiB come; each frame costs more than the last
    one."""
    begin = block(place.server.target, PUT) + b"\x00\x03x-d" + string_length(3 << 30)
    connection.send(frame(HEADERS, 0, 1, begin))
    for _ in range(128):
        if connection.closed:
            return
        connection.send(frame(CONTINUATION, 0, 1, b"a" * FRAME_BYTES))


def rapid_reset(connection: Connection, place: Place) -> None:
    """CVE-2023-44487: calls begun and reset at once."""
    encoded = block(place.server.target, PUT)
    body = prefixed(put_bytes(RESET))
    stream = 1
    for _ in range(RESETS // 50):
        frames = b""
        for _number in range(50):
            frames += frame(HEADERS, END_HEADERS, stream, encoded)
            frames += frame(DATA, END_STREAM, stream, body)
            frames += frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
            stream += 2
        if connection.closed:
            return
        connection.send(frames)
        connection.read_what_came()


def half_open_streams(connection: Connection, place: Place) -> None:
    encoded = block(place.server.target, PUT)
    for first in range(1, 40_000, 400):
        if connection.closed:
            return
        connection.send(b"".join(frame(HEADERS, END_HEADERS, stream, encoded)
                                 for stream in range(first, first + 400, 2)))
        connection.read_what_came()


def too_many_streams(place: Place) -> None:
    """More streams than announced, by a caller who has acknowledged that: his connection ends."""
    connection = place.connect()
    half_open_streams(connection, place)
    connection.wait_until_closed()
    # Some 12 kB each.
    contained(half_open_streams, most_mib=384.0)(place)


def pings(place: Place) -> None:
    connection = place.connect()
    connection.send(frame(PING, 0, 0, b"12345678") * 200)
    assert connection.wait_until_closed() == ENHANCE_YOUR_CALM
    connection = place.connect()
    for _ in range(2000):
        if connection.closed:
            return
        connection.send(frame(PING, 0, 0, b"12345678") * 200)
        connection.read_what_came()
    connection.wait_until_closed()


def settings(place: Place) -> None:
    connection = place.connect()
    for _ in range(200):
        if connection.closed:
            break
        connection.send(frame(SETTINGS) * 1000)
        connection.read_what_came()


def a_body_that_never_ends(_: Place) -> None:
    """A call without a deadline whose body stops short: its connection grows too old, and takes it
    along. Calls on others never notice, though each of those grows too old as well."""
    with own_server("--max-connection-age-s=1", "--max-connection-age-grace-s=1") as place:
        session_id = place.session()
        connection = place.connect()
        stream = connection.start(PUT, place.headers)
        body = prefixed(put_bytes(session_id))
        connection.send_body(stream, body[:1], end=False)
        for byte in body[1:-1]:
            connection.send_body(stream, bytes([byte]), end=False)
        while not connection.closed:
            place.assert_serves_on(place.caller)
            connection.read_what_came()
        place.assert_absent(session_id)


def silent_connections(place: Place) -> None:
    """Without a preface, half of one, or with another protocol's words: closed by the server."""
    host, _, port = place.server.target.rpartition(":")
    opened = [socket.create_connection((host, int(port)), 30) for _ in range(20)]
    with contextlib.ExitStack() as stack:
        for number, each in enumerate(opened):
            stack.enter_context(each)
            each.sendall((b"", b"PRI * HT")[number % 2])
        place.assert_serves()
        for each in opened:
            with contextlib.suppress(ConnectionError):
                while each.recv(4096):
                    pass
