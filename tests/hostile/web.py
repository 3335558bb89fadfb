"""Rows 99 to 108: what the HTTP port is sent. Others are served on both ports beside it and after it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import resource
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hostile.frames import METRICS
from hostile.place import MEMORY, Place, placed
from support.access import credential, write_credentials
from support.http import LISTEN, HttpCaller, path_of, reason_of
from support.metrics import scrape, value
from support.process_memory import PeakMemory
from support.server import Server
from support.waiting import wait_for

TOKEN = "agent"
GET = path_of("Get")
HELD_MIB = 32.0
JSON = {"Content-Type": "application/json"}


@contextlib.contextmanager
def web(*arguments: str) -> Iterator[Place]:
    """A place whose server has both ports. Its callers show a token."""
    with tempfile.TemporaryDirectory() as name:
        file = write_credentials(Path(name) / "c.yaml", [credential("team", token=TOKEN)])
        given = [f"--credentials={file}", LISTEN, METRICS, "--memory-limit-mib=512", *arguments]
        with Server(MEMORY, arguments=given) as server, placed(server, token=TOKEN) as place:
            yield place
            assert_serves(place)


def assert_serves(place: Place) -> None:
    """A good Put on each port, found on the other."""
    place.assert_serves_on(place.caller)
    session = place.session()
    caller = HttpCaller(place.server.http, TOKEN)
    with contextlib.closing(caller.connection):
        status, answer = caller("Put", sessionId=session, messages=[{"role": "user", "text": "good"}])
        assert status == 200, answer
    assert [m.text for m in place.caller("Get", session_id=session).messages] == ["good"]


@contextlib.contextmanager
def flat(place: Place, most_mib: float = HELD_MIB) -> Iterator[contextlib.ExitStack]:
    """Memory grows little until all that the stack holds is closed, and then nothing is held."""
    for _ in range(3):
        assert_serves(place)
    peak = PeakMemory(place.server.pid)
    with contextlib.ExitStack() as stack:
        yield stack
        assert_serves(place)
        assert peak.grown_mib() < most_mib, f"grew by {peak.grown_mib():.0f} MiB"
    # Those of the caller by gRPC stay.
    wait_for(lambda: value(scrape(place.server.metrics), "memoryd_connections") <= 1)
    wait_for(lambda: value(scrape(place.server.metrics), "memoryd_rpc_in_flight") == 0)


def connect(stack: contextlib.ExitStack, place: Place, source: str = "127.0.0.1") -> socket.socket:
    host, _, port = place.server.http.rpartition(":")
    opened = socket.create_connection((host, int(port)), 30, source_address=(source, 0))
    return stack.enter_context(opened)


def head(length: int | None = None, *more: str, path: str = GET) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}",
             "Content-Type: application/json", *more]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """The status and body of an answer; 0 where the server closes without one."""
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        return response.status, response.read()
    except (http.client.HTTPException, ConnectionError):
        return 0, b""


def all_of(connection: socket.socket) -> bytes:
    """What the server says until it ends the connection."""
    answered = b""
    with contextlib.suppress(ConnectionError):
        while some := connection.recv(1 << 16):
            answered += some
    return answered


def sent(connection: socket.socket, data: bytes) -> bool:
    """Whether the server took it all."""
    try:
        connection.sendall(data)
    except (ConnectionError, TimeoutError):
        return False
    return True


def half_requests(_: Place) -> None:
    whole = head(1 << 20)
    with web() as place, flat(place, 64.0) as stack:
        for number in range(1000):
            connection = connect(stack, place, f"127.0.0.{number % 8 + 2}")
            assert sent(connection, whole[:-20] if number % 2 else whole + b"{")
            if number % 100 == 0:
                assert_serves(place)


def idle_connections(_: Place) -> None:
    """From eight addresses; those above the server's most are closed as they come."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with web() as place, flat(place, 96.0) as stack:
        for number in range(10_000):
            with contextlib.suppress(ConnectionError):
                connect(stack, place, f"127.0.0.{number % 8 + 2}")
            if number % 1000 == 0:
                place.assert_serves_on(place.caller)
        stack.close()
        wait_for(lambda: value(scrape(place.server.metrics), "memoryd_connections") <= 1)


def header_floods(_: Place) -> None:
    floods = (b"X-Long: " + b"x" * (16 << 20), b"x: y\r\n" * (2 << 20), b"x" * (16 << 20))
    with web() as place, flat(place) as stack:
        for flood in floods:
            connection = connect(stack, place)
            sent(connection, head()[:-2] + flood)
            # The rest of the flood may have reset it.
            assert answer(connection)[0] in (431, 400, 0)
        for line in (b"POST /" + b"x" * (1 << 20), b"\r\n" * 100_000):
            connection = connect(stack, place)
            sent(connection, line)
            assert answer(connection)[0] in (431, 400, 0)


def pipelined(_: Place) -> None:
    """Requests ahead of their answers, which nobody reads for a while: no more of them is read."""
    request = head(2, path=path_of("GetServerInfo")) + b"{}"
    with web() as place, flat(place) as stack:
        for _number in range(5):
            connection = connect(stack, place)
            connection.settimeout(2.0)
            with contextlib.suppress(TimeoutError):
                for _batch in range(2000):
                    connection.sendall(request * 100)
            connection.settimeout(60.0)
            assert_serves(place)
            with connection.makefile("rb") as stream:
                for _answer in range(100):
                    assert stream.readline().startswith(b"HTTP/1.1 200")
                    size = 0
                    while (line := stream.readline()) != b"\r\n":
                        if line.lower().startswith(b"content-length:"):
                            size = int(line.split(b":")[1])
                    assert json.loads(stream.read(size))


def chunk_floods(_: Place) -> None:
    """Chunks of a byte, each with as long an extension as there may be, and one that never ends."""
    with web() as place, flat(place) as stack:
        connection = connect(stack, place)
        chunk = b"1;" + b"x" * 4000 + b"\r\n \r\n"
        sent(connection, head(None, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n" + chunk * 2000
             + b"0\r\n\r\n")
        assert answer(connection)[0] in (400, 0)  # Without the session's id.
        for rest in (b"1;" + b"x" * (16 << 20), b"fffffffffffffffff\r\n", b"-1\r\n", b"0x2\r\n{}\r\n",
                     b"2 \n{}"):
            connection = connect(stack, place)
            sent(connection, head(None, "Transfer-Encoding: chunked") + rest)
            with contextlib.suppress(OSError):  # The server has ended it.
                connection.shutdown(socket.SHUT_WR)
            assert answer(connection)[0] in (400, 0)


def bombs(_: Place) -> None:
    """A few bytes of gzip that stand for 100 MiB, and members that hold nothing."""
    bomb = gzip.compress(b'{"sessionId": "' + b"x" * (100 << 20) + b'"}')
    with web() as place, flat(place, 160.0):
        for body, expected in ((bomb, 429), (gzip.compress(b"") * 10_000, 400), (b"\x1f\x8b", 400),
                               (gzip.compress(bomb), 400)):
            caller = HttpCaller(place.server.http, TOKEN)
            with contextlib.closing(caller.connection):
                status, _body = caller.raw(GET, body, {**JSON, "Content-Encoding": "gzip"})
                assert status == expected, _body


def smuggled(_: Place) -> None:
    """Requests that two servers might cut apart in two ways."""
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with web() as place, flat(place) as stack:
        for more in (["Content-Length: 2", "Content-Length: 3"], ["Content-Length: 2, 3"],
                     ["Content-Length: +2"], ["Content-Length: 2x"], ["Content-Length: -1"],
                     ["Content-Length: 99999999999999999999"],
                     ["Content-Length: 2", "Transfer-Encoding: chunked"],
                     ["Transfer-Encoding: chunked", "Content-Length: 2"],
                     ["Content-Length : 2"], ["Host: evil.example"], ["X: a\nContent-Length: 2"],
                     ["X: a\0b"]):
            connection = connect(stack, place)
            sent(connection, head(None, *more) + b"{}" + hidden)
            answered = all_of(connection)
            assert answered.startswith(b"HTTP/1.1 400 ") or not answered, (more, answered)
            assert b"MALFORMED_REQUEST" in answered or not answered, (more, answered)
            # What stood behind it is not answered.
            assert b"200 OK" not in answered, (more, answered)


def odd_requests(_: Place) -> None:
    """Paths, methods and types that are none."""
    with web() as place, flat(place) as stack:
        for path in ("/", "//", "*", "/x/../memoryd.v1.MemoryService/Get", "/memoryd.v1.MemoryService",
                     "/memoryd.v1.MemoryService/get", "/memoryd.v1.MemoryService/Get/",
                     "/memoryd.v1.MemoryService%2fGet", "/../../etc/passwd", "/%2e%2e/etc/passwd",
                     f"http://localhost{GET}", "/memoryd.v1.MemoryService/Get%e9"):
            assert HttpCaller(place.server.http, TOKEN).raw(path, b"{}", JSON)[0] in (400, 404), path
        connection = connect(stack, place)
        sent(connection, head(2).replace(b" HTTP/1.1", b"\xe9 HTTP/1.1") + b"{}")
        assert answer(connection)[0] in (400, 404)
        for method in ("PUT", "DELETE", "HEAD", "TRACE", "OPTIONS", "PATCH", "CONNECT", "get", "X"):
            status, _body = HttpCaller(place.server.http, TOKEN).raw(GET, b"{}", JSON, method)
            assert status in (400, 405), method
        for kind in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                     "application/jsonx", "application/grpc", "application/connect+json",
                     "application/json, application/proto", "a" * 9000):
            status, _body = HttpCaller(place.server.http, TOKEN).raw(GET, b"{}", {"Content-Type": kind})
            assert status == 415, kind
        assert HttpCaller(place.server.http, TOKEN)("GetServerInfo")[0] == 200


def odd_json(_: Place) -> None:
    """What is no request is refused, and the field is named where there is one."""
    with web() as place, flat(place, 96.0):
        for body, named in (
                (b'{"sesion": 1}', "sesion"), (b'{"sessionId": {"a": 1}}', ""),
                (b'{"limit": "x"}', "limit"), (b'{"limit": 1e400}', "limit"),
                (b'{"limit": 1.5}', "limit"), (b'{"limit": 123456789012345678901234567890}', "limit"),
                (b'{"sessionId": "\xff"}', "UTF-8"), (b'{"sessionId": "\xed\xa0\x80"}', "UTF-8"),
                (b'\xef\xbb\xbf{}', ""), (b'{"sessionId": "a"} {}', ""), (b"[" * 1_000_000, ""),
                (b'{"sessionId":' * 100_000, ""), (b"{" * 100_000, ""), (b"NaN", ""),
                (b'{"filter": ' + b'{"not": ' * 200 + b"{}" + b"}" * 201, "")):
            caller = HttpCaller(place.server.http, TOKEN)
            with contextlib.closing(caller.connection):
                status, got = caller.raw(path_of("Query"), body, JSON)
            error = json.loads(got)
            assert (status, error["code"]) == (400, "invalid_argument"), (body[:60], error)
            assert named in error["message"], (body[:60], error)
            assert reason_of(error)
        # Numbers may come as strings, as 64 bits need it.
        caller = HttpCaller(place.server.http, TOKEN)
        with contextlib.closing(caller.connection):
            assert caller("Query", sessionId="s", query="q", topK="3")[0] == 200


def other_sites(_: Place) -> None:
    """Without credentials, pages that give the server's address another name, or send to it blindly."""
    with Server(MEMORY, arguments=[LISTEN]) as server, placed(server) as place:
        session = place.session()
        body = json.dumps({"sessionId": session, "messages": [{"role": "user", "text": "a"}]}).encode()
        for headers in ({"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example"}, {"Host": ""},
                        {"Host": "localhost.evil.example:80"}, {"Origin": "https://evil.example"},
                        {"Origin": "null"}, {"Origin": "http://localhost.evil.example"},
                        {"Sec-Fetch-Site": "cross-site"}, {"Content-Type": "text/plain"}):
            status, answered = HttpCaller(server.http).raw(path_of("Put"), body, {**JSON, **headers})
            assert status in (400, 403, 415), (headers, answered)
        place.assert_absent(session)
