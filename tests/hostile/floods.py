"""Rows 57 to 65 and 92 to 98: more of something than anybody needs, over one connection or many.

Each is sent to a port in plain text and to one with TLS, by somebody without a credential where that
makes a difference. Others are served beside it and after it, and memory stays nearly flat.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hostile.frames import METRICS, header_bomb
from hostile.place import PUT, Place, own_server, placed, put_bytes
from support.access import credential, write_credentials
from support.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FRAME_BYTES,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Connection,
    Fields,
    block,
    frame,
    header_frames,
    literal,
    prefixed,
    string_length,
)
from support.metrics import scrape, value
from support.process_memory import PeakMemory
from support.server import Server
from support.tls import SERVER_NAMES, Authority, anybody, secure_channel, server_arguments
from support.waiting import wait_for

# Calls are of `method`, a path of the server's.
Flood = Callable[..., None]
FLOOD_BYTES = 16 << 20
CHECK = "/grpc.health.v1.Health/Check"
# The session of calls that are reset.
RESET, RESETS = "reset", 5000
# Buffers, the calls of a burst and the allocator's own.
HELD_MIB = 24.0
GUARDED = "agent"


@contextlib.contextmanager
def guarded(tls: bool) -> Iterator[tuple[Place, ssl.SSLContext | None]]:
    """A place whose callers show a token, and how an attacker connects to it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        credentials = write_credentials(folder / "c.yaml", [credential("team", token=GUARDED)])
        arguments = [f"--credentials={credentials}", METRICS, "--memory-limit-mib=512"]
        if not tls:
            with own_server(*arguments, token=GUARDED) as place:
                yield place, None
            return
        authority = Authority(folder)
        arguments += server_arguments(authority.issue(SERVER_NAMES))
        with Server("sqlite::memory:", arguments=arguments) as server, \
                placed(server, lambda: secure_channel(server.target, authority.certificate),
                       GUARDED) as place:
            yield place, anybody()


def held(flood: Flood, *, connections: int = 1, most_mib: float = HELD_MIB,
         acknowledge: bool = False) -> Callable[[Place], None]:
    """The flood over so many connections at once leaves others served and memory nearly flat."""
    def step(_: Place) -> None:
        for tls in (False, True):
            with guarded(tls) as (place, context), contextlib.ExitStack() as stack:
                for _number in range(3):
                    place.assert_serves_on(place.caller)
                peak = PeakMemory(place.server.pid)
                for _number in range(connections):
                    connection = stack.enter_context(
                        Connection(place.server.target, acknowledge=acknowledge, tls=context))
                    flood(connection)
                    place.assert_serves_on(place.caller)
                assert peak.grown_mib() < most_mib, f"grew by {peak.grown_mib():.0f} MiB"
                wait_for(lambda: value(scrape(place.server.metrics), "memoryd_rpc_in_flight") == 0)
    return step


def continuation_flood(connection: Connection, method: str = PUT) -> None:
    part = literal("x-c", b"b" * 16000)[:FRAME_BYTES]
    connection.send(frame(HEADERS, 0, 1, block(connection.target, method)))
    for _ in range(FLOOD_BYTES // FRAME_BYTES):
        if connection.closed:
            return
        connection.send(frame(CONTINUATION, 0, 1, part))


def huge_string(connection: Connection, method: str = PUT) -> None:
    """CVE-2023-33953: a header of 3 GiB, of which 2 MiB come; each frame costs more than the last
    one."""
    begin = block(connection.target, method) + b"\x00\x03x-d" + string_length(3 << 30)
    connection.send(frame(HEADERS, 0, 1, begin))
    for _ in range(128):
        if connection.closed:
            return
        connection.send(frame(CONTINUATION, 0, 1, b"a" * FRAME_BYTES))


def small_fields(connection: Connection, method: str = PUT) -> None:
    """One header block of fields of a few bytes, which never ends."""
    part = (literal("x-s", b"s") * (FRAME_BYTES // 7 + 1))[:FRAME_BYTES // 7 * 7]
    connection.send(frame(HEADERS, 0, 1, block(connection.target, method)))
    for _ in range(FLOOD_BYTES // FRAME_BYTES):
        if connection.closed:
            return
        connection.send(frame(CONTINUATION, 0, 1, part))


def half_a_header_block(connection: Connection, method: str = PUT) -> None:
    begin = block(connection.target, method) + literal("x-h", b"h" * 12_000)
    connection.send(frame(HEADERS, 0, 1, begin))


def priorities(connection: Connection, method: str = PUT) -> None:
    for _ in range(100):
        if connection.closed:
            return
        connection.send(frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 16)) * 1000)


def rapid_reset(connection: Connection, method: str = PUT) -> None:
    """CVE-2023-44487: calls begun and reset at once."""
    encoded = block(connection.target, method)
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


def half_open_streams(connection: Connection, method: str = PUT) -> None:
    encoded = block(connection.target, method)
    for first in range(1, 4_000, 400):
        if connection.closed:
            return
        connection.send(b"".join(frame(HEADERS, END_HEADERS, stream, encoded)
                                 for stream in range(first, first + 400, 2)))
        connection.read_what_came()


def whole_calls(connection: Connection, method: str = CHECK, headers: Fields = (),
                request: bytes = b"") -> None:
    """Calls sent ahead of their answers, which are not read: what does not fit into the socket's
    buffers waits on this side, and after a while no more of it is sent."""
    encoded = block(connection.target, method, headers)
    connection.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
    connection.set_timeout(1.0)
    with contextlib.suppress(TimeoutError):
        for first in range(1, 200_000, 400):
            frames = b"".join(
                frame(HEADERS, END_HEADERS, stream, encoded)
                + frame(DATA, END_STREAM, stream, prefixed(request))
                for stream in range(first, first + 400, 2))
            connection.send(frames)


def provoked_resets(connection: Connection, method: str = PUT) -> None:
    """Each frame makes the server reset a stream: a window that overflows."""
    encoded = block(connection.target, method)
    overflow = struct.pack(">I", (1 << 31) - 1)
    connection.set_timeout(1.0)
    with contextlib.suppress(TimeoutError):
        for first in range(1, 100_000, 200):
            if connection.closed:
                return
            connection.send(b"".join(
                frame(HEADERS, END_HEADERS, stream, encoded) + frame(WINDOW_UPDATE, 0, stream, overflow)
                for stream in range(first, first + 200, 2)))


def half_bodies(connection: Connection, method: str = PUT, headers: Fields = ()) -> None:
    """Bodies of 4 MiB that stop a byte short."""
    body = prefixed(b"x" * (4 << 20))[:-1]
    for _ in range(20):
        if connection.closed:
            return
        connection.send_body(connection.start(method, headers), body, end=False)


def too_many_streams(place: Place) -> None:
    """More streams than announced: beyond that they are refused, and then the connection ends."""
    held(half_open_streams, connections=5)(place)


def header_bombs(connection: Connection, method: str = PUT) -> None:
    """58 MB of headers in 20 kB, again and again."""
    encoded = header_bomb(connection.target, method)
    for stream in range(1, 201, 2):
        if connection.closed:
            return
        connection.send(header_frames(stream, encoded, end=True))
        connection.read_what_came()


def empty_data(connection: Connection, method: str = PUT) -> None:
    stream = connection.start(method)
    for _ in range(200):
        if connection.closed:
            return
        connection.send(frame(DATA, 0, stream) * 1000)
        connection.read_what_came()


def ping_flood(connection: Connection, method: str = PUT) -> None:
    for _ in range(2000):
        if connection.closed:
            return
        connection.send(frame(PING, 0, 0, b"12345678") * 200)
        connection.read_what_came()


def settings_flood(connection: Connection, method: str = PUT) -> None:
    for _ in range(200):
        if connection.closed:
            return
        connection.send(frame(SETTINGS) * 1000)
        connection.read_what_came()


def pings(place: Place) -> None:
    """As many as an eager client sends are answered; then the connection ends."""
    connection = place.connect()
    connection.send(frame(PING, 0, 0, b"12345678") * 200)
    assert connection.call(PUT, prefixed(put_bytes(place.session())), place.headers).status == 0
    connection.send(frame(PING, 0, 0, b"12345678") * 2000)
    assert connection.wait_until_closed() == ENHANCE_YOUR_CALM
    connection = place.connect()
    ping_flood(connection)
    if not connection.closed:
        connection.wait_until_closed()


def settings(place: Place) -> None:
    settings_flood(place.connect())


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
