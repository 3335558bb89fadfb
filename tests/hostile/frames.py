"""Rows 36 to 69: frames and bodies that no gRPC library sends, one connection at a time."""

from __future__ import annotations

import functools
import struct
import tempfile
import zlib
from pathlib import Path

import grpc

from hostile.fields import Step
from hostile.place import PUT, Place, own_server, put_bytes
from support.access import METHODS, credential, write_credentials
from support.calls import refusal, user
from support.http2 import PROTOCOL_ERROR, block, literal, prefixed
from support.metrics import scrape, value
from support.postgres import Cluster
from support.process_memory import PeakMemory
from support.waiting import wait_for

OK, UNKNOWN, INVALID, DEADLINE, EXHAUSTED, UNIMPLEMENTED, UNAVAILABLE, UNAUTHENTICATED = (
    code.value[0] for code in (
        grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNAUTHENTICATED))
MIB = 1 << 20
# What a server that does nothing may grow by: buffers of a connection, and the allocator's own.
FLAT_MIB = 8.0
# A group of a field that no message has, begun and ended: a nested message that needs no schema.
GROUP, END_GROUP = b"\x9b\x06", b"\x9c\x06"
METRICS = "--metrics-listen=127.0.0.1:0"


def bodies_are_invalid(*bodies: bytes) -> Step:
    """Every unary RPC answers INVALID_ARGUMENT to a message of these bytes."""
    def step(place: Place) -> None:
        for name, method in METHODS.items():
            if method.client_streaming:
                continue
            path = f"/{method.containing_service.full_name}/{name}"
            for body in bodies:
                error = refusal(place.channel.unary_unary(path), body, timeout=30)
                assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, (name, error)
    return step


def flat(step: Step, most_mib: float = FLAT_MIB) -> Step:
    """The step, on a server of its own that has served before, whose memory it leaves as it was."""
    @functools.wraps(step)
    def measured(_: Place) -> None:
        with own_server() as place:
            for _number in range(3):
                place.assert_serves()
            peak = PeakMemory(place.server.pid)
            step(place)
            assert peak.grown_mib() < most_mib
    return measured


def raw_bodies(expected: int, *bodies: bytes) -> Step:
    """Each body, whole in a stream of its own, is answered so; the connection goes on."""
    def step(place: Place) -> None:
        connection = place.connect()
        for body in bodies:
            answer = connection.call(PUT, body)
            assert answer.status == expected, (body[:16], answer)
        assert not connection.closed
    return step


def two_messages(place: Place) -> None:
    session_id = place.session()
    body = prefixed(put_bytes(session_id, "one")) + prefixed(put_bytes(session_id, "two"))
    answer = place.call(body)
    assert answer.status == OK, answer
    assert place.texts(session_id) == ["one"]


def compressed(*flags: int, encoding: str | None = None) -> Step:
    """A flag that announces compression, or none that is known, over plain bytes."""
    def step(place: Place) -> None:
        headers = {} if encoding is None else {"grpc-encoding": encoding}
        connection = place.connect()
        session_id = place.session()
        for flag in flags:
            answer = connection.call(PUT, prefixed(put_bytes(session_id, "plain"), flag), headers)
            assert answer.status == UNIMPLEMENTED, answer
        place.assert_absent(session_id)
        assert not connection.closed
    return step


def gzip_garbage(place: Place) -> None:
    connection = place.connect()
    for body in (b"garbage!", b"", zlib.compress(put_bytes("s"), wbits=31)):
        for encoding in ("gzip", "deflate"):
            answer = connection.call(PUT, prefixed(body, 1), {"grpc-encoding": encoding})
            assert answer.status == UNIMPLEMENTED, (body[:8], answer)
    assert not connection.closed


def gzipped_zeros(size: int) -> bytes:
    """Zeros, some thousand to a byte. Blocks that stand for themselves may be repeated."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    one = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = 0
    for _ in range(size // MIB):
        checksum = zlib.crc32(bytes(MIB), checksum)
    end = packer.flush() + struct.pack("<II", checksum, size)
    return b"\x1f\x8b\x08" + bytes(7) + one * (size // MIB) + end


def gzip_bomb(place: Place) -> None:
    bomb = prefixed(gzipped_zeros(512 * MIB), 1)
    peak = PeakMemory(place.server.pid)
    answer = place.call(bomb, {"grpc-encoding": "gzip"})
    # What may be held is the bomb as it was sent, half a MiB of it.
    assert answer.status == UNIMPLEMENTED, answer
    assert peak.grown_mib() < 1 + len(bomb) / MIB


def unknown_methods(place: Place) -> None:
    connection = place.connect()
    body = prefixed(put_bytes(place.session()))
    for path in ("/memoryd.v1.MemoryService/Nothing", "/memoryd.v1.Nobody/Put", "/nobody/Put", "/",
                 "", "Put", "//", "/memoryd.v1.MemoryService/Put/", "/memoryd.v1.MemoryService/put",
                 "/" + "x" * 4000, "*"):
        answer = connection.call(path, body)
        # What does not begin with a slash is no path.
        assert answer.status == UNIMPLEMENTED or (
            answer.reset == PROTOCOL_ERROR and not path.startswith("/")), (path[:40], answer)
    assert not connection.closed


def broken_headers(place: Place) -> None:
    """A request without :path, :method or :scheme is none; a call is a POST."""
    connection = place.connect()
    body = prefixed(put_bytes(place.session()))
    target = place.server.target
    for name in (":path", ":method", ":scheme"):
        encoded = block(target, PUT, leave_out=[name])
        assert connection.finish(connection.start_with(encoded), body).reset == PROTOCOL_ERROR
    encoded = block(target, PUT, method="GET")
    answer = connection.finish(connection.start_with(encoded), body)
    assert answer.headers[":status"] == "405", answer
    assert not connection.closed


def content_types(place: Place) -> None:
    connection = place.connect()
    target = place.server.target
    for given in ({"content_type": "application/json"}, {"content_type": ""},
                  {"content_type": "text/plain; charset=latin-1"}, {"leave_out": ["content-type"]}):
        session_id = place.session()
        encoded = block(target, PUT, **given)
        answer = connection.finish(connection.start_with(encoded), prefixed(put_bytes(session_id)))
        assert answer.headers[":status"] == "415", (given, answer)
        place.assert_absent(session_id)
    encoded = block(target, PUT, content_type="application/grpc+proto")
    answer = connection.finish(connection.start_with(encoded), prefixed(put_bytes(session_id)))
    assert answer.status == OK, answer
    assert not connection.closed


def metadata_of_9_kb(place: Place) -> None:
    answer = place.call(prefixed(put_bytes(place.session())), {"x-a": "a" * 9000})
    assert answer.status == EXHAUSTED, answer


def unheeding_metadata(headers: list[tuple[str, str]]) -> Step:
    """Metadata that only gRPC's own limits would stop, by a caller who is not held to them."""
    def step(place: Place) -> None:
        session_id = place.session()
        connection = place.connect(acknowledge=False)
        answer = connection.call(PUT, prefixed(put_bytes(session_id)), headers)
        assert answer.status == EXHAUSTED, answer
        place.assert_absent(session_id)
    return step


def odd_header_bytes(place: Place) -> None:
    """Odd names and values change nothing, come back nowhere and are no credential."""
    odd = [b"a\0b", b"a\nb", b"a\r\nb", b"\x7f", b"\xff\xfe", b"\x1b[31m", b"", b" ", b"x" * 4000]
    connection = place.connect()
    answer = connection.call(PUT, prefixed(put_bytes("up")), [(b"X-UP", b"x")])
    assert answer.reset == PROTOCOL_ERROR, "names are in lower case (RFC 9113, section 8.2)"
    for name in (b"x-odd", b"x\xff", b"x y", b"x\0", b"x\n", b"traceparent", b"user-agent",
                 b"x-request-id", b"authorization"):
        for given in odd:
            session_id = place.session()
            answer = connection.call(PUT, prefixed(put_bytes(session_id)), [(name, given)])
            assert answer.status == OK, (name, given, answer)
            answer = connection.call(PUT, prefixed(put_bytes("")), [(name, given)])
            assert answer.status == INVALID, (name, given, answer)
            if len(given) != 1:
                assert given == b"" or given.decode("latin-1") not in answer.headers.values()
            # A request id is made where the one that came is odd.
            made = answer.headers["x-request-id"]
            assert len(made) == 32 and int(made, 16) >= 0, (name, given, made)
    assert not connection.closed
    with tempfile.TemporaryDirectory() as folder:
        file = write_credentials(Path(folder) / "c.yaml", [credential("team", token="agent")])
        with own_server(f"--credentials={file}", token="agent") as guarded:
            connection = guarded.connect()
            for given in ("Bearer agent\0", "Bearer ag\0ent", "Bearer agent\n", "Bearer agent\x7f",
                          "Bearer \xff"):
                answer = connection.call(PUT, prefixed(put_bytes("s")), {"authorization": given})
                assert answer.status == UNAUTHENTICATED, (given, answer)
            assert not connection.closed


def bad_base64(place: Place) -> None:
    connection = place.connect()
    answer = connection.call(PUT, prefixed(put_bytes(place.session())), {"x-bin": "!!!notb64"})
    assert answer.status == OK, answer


def header_bomb(target: str, method: str) -> bytes:
    """58 MB of headers in 20 kB: one long header, put into the table and named again and again."""
    return (block(target, method) + literal("x-b", b"a" * 3900, indexed=True)
            + bytes([0x80 | 62]) * 15000)


def hpack_bomb(place: Place) -> None:
    encoded = header_bomb(place.server.target, PUT)
    for acknowledge in (True, False):
        connection = place.connect(acknowledge=acknowledge)
        answer = connection.finish(connection.start_with(encoded), prefixed(b""))
        assert answer.status is None and connection.closed, answer
        place.assert_serves()


def headers_of_known_crashes(place: Place) -> None:
    """CVE-2023-1428: headers that gRPC looked at itself, beside more than may come."""
    target = place.server.target
    large = {"x-a": "a" * 9000}
    blocks = (block(target, PUT, large, te="x"), block(target, PUT, large, scheme="x"),
              block(target, PUT, {"grpclb_client_stats": "x", **large}))
    for encoded in blocks:
        connection = place.connect()
        answer = connection.finish(connection.start_with(encoded), prefixed(put_bytes("s")))
        assert answer.status == EXHAUSTED or answer.reset == PROTOCOL_ERROR, answer
    # Nobody is held to the limit before he has acknowledged it: then the process lives.
    for encoded in blocks:
        connection = place.connect(acknowledge=False)
        connection.finish(connection.start_with(encoded), prefixed(put_bytes("s")))
        place.assert_serves()


def odd_timeouts(*timeouts: str) -> Step:
    """A deadline that is none, or too far away, is the server's own."""
    def step(place: Place) -> None:
        connection = place.connect()
        for timeout in timeouts:
            session_id = place.session()
            answer = connection.call(PUT, prefixed(put_bytes(session_id)),
                                     {"grpc-timeout": timeout})
            assert answer.status == OK, (timeout, answer)
            assert place.texts(session_id) == ["good"]
        assert not connection.closed
    return step


def capped_deadlines(place: Place) -> None:
    odd_timeouts("99999999H", "99999999M", "99999999S", "99999999m", "2562047H")(place)


def no_time_left(place: Place) -> None:
    connection = place.connect()
    for _ in range(20):
        session_id = place.session()
        answer = connection.call(PUT, prefixed(put_bytes(session_id)), {"grpc-timeout": "0n"})
        assert answer.status == DEADLINE, answer
        place.calls.Put(session_id=session_id, messages=[user("last")])
        assert place.texts(session_id) in (["last"], ["good", "last"])
    assert not connection.closed


def cancelled_puts(place: Place) -> None:
    """Reset at each step that a caller can see: in the headers, in the body, behind it, with its
    reply on the way, and while the store does not answer. 0 or 1 stored, never half."""
    connection = place.connect()
    session_id = place.session()
    sent = 0

    def begin() -> tuple[int, bytes]:
        nonlocal sent
        sent += 1
        body = prefixed(put_bytes(session_id, f"{sent}" + "x" * 40_000))
        return connection.start(PUT), body

    for _ in range(20):
        for part in (0, 3, 5, 6, 20_000, None):
            stream, body = begin()
            if part != 0:
                connection.send_body(stream, body if part is None else body[:part],
                                     end=part is None)
            connection.reset(stream)
        connection.read_what_came()
    for _ in range(20):
        stream, body = begin()
        connection.send_body(stream, body)
        place.calls.Get(session_id=session_id)  # Gives it time to be anywhere in the server.
        connection.reset(stream)
        connection.read_what_came()
    assert not connection.closed
    _assert_each_once(place, session_id)
    for _ in range(100):  # One may be done before it is cancelled.
        future = place.channel.unary_unary(PUT).future(put_bytes(place.session()))
        future.cancel()
        try:
            future.result()
        except grpc.FutureCancelledError:
            return
    raise AssertionError("none was cancelled")


def cancelled_puts_before_a_frozen_store(_: Place) -> None:
    with Cluster() as cluster, own_server(METRICS, store=cluster.url) as place:
        session_id = place.session()
        place.calls.Put(session_id=session_id, messages=[user("before")])
        connection = place.connect()
        cluster.pause()
        try:
            streams = []
            for number in range(20):
                stream = connection.start(PUT)
                connection.send_body(stream, prefixed(put_bytes(session_id, f"{number}")))
                streams.append(stream)
            wait_for(lambda: value(scrape(place.server.metrics), "memoryd_pending_calls") == 20)
            for stream in streams:
                connection.reset(stream)
        finally:
            cluster.resume()
        wait_for(lambda: value(scrape(place.server.metrics), "memoryd_pending_calls") == 0)
        _assert_each_once(place, session_id)


def _assert_each_once(place: Place, session_id: str) -> None:
    place.calls.Put(session_id=session_id, messages=[user("last")])
    texts = place.texts(session_id)
    assert "last" in texts and len(texts) == len(set(texts)), [text[:9] for text in texts]
