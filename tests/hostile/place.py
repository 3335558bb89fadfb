"""Where a row of the catalogue is run: a server, connections to it, and what must hold after."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc

from support.access import Caller, bearer
from support.calls import Calls, refusal, user, wire
from support.http2 import Answer, Connection, prefixed
from support.server import Server, open_channel, ready

PUT = "/memoryd.v1.MemoryService/Put"
GET = "/memoryd.v1.MemoryService/Get"
MEMORY = "sqlite::memory:"


def put_bytes(session_id: str, text: str = "good") -> bytes:
    return wire.PutRequest(session_id=session_id, messages=[user(text)]).SerializeToString()


class Place:
    """A server for one row.

    `calls` and `caller` use one connection, connect() opens others as raw frames. `opened` is how a
    gRPC connection to the server is made, `token` what its callers must show.
    """

    def __init__(self, server: Server, opened: Callable[[], grpc.Channel] | None = None,
                 token: str | None = None) -> None:
        self.server = server
        self._open = opened or (lambda: open_channel(server.target))
        self._token = token
        self._connections: list[Connection] = []
        self._channel = ready(self._open())
        self.channel = self._channel
        self.calls = Calls(self._channel)
        self.caller = Caller(self._channel, token)

    def session(self) -> str:
        """A session that nobody else uses."""
        return f"session-{uuid.uuid4().hex}"

    @property
    def headers(self) -> Mapping[str, str]:
        return dict(bearer(self._token)) if self._token else {}

    def connect(self, *, settled: bool = True, **options) -> Connection:
        """A connection of raw frames; by default one that heeds the server's settings."""
        connection = Connection(self.server.target, **options)
        self._connections.append(connection)
        return connection.settle() if settled else connection

    def call(self, body: bytes, headers: Mapping[str, str] | None = None,
             method: str = PUT) -> Answer:
        """A call over a raw connection that stays open."""
        return self.connect().call(method, body, headers or {})

    def texts(self, session_id: str) -> list[str]:
        return [m.text for m in self.calls.all_messages(session_id)]

    def assert_absent(self, session_id: str) -> None:
        error = refusal(self.calls.GetSession, session_id=session_id)
        assert error.code() == grpc.StatusCode.NOT_FOUND, error

    def assert_serves(self) -> None:
        """A good Put, on every connection that is still open and on a new one."""
        for connection in self._connections:
            if connection.closed or connection.goaway is not None:
                continue
            answer = connection.call(PUT, prefixed(put_bytes(self.session())), self.headers)
            assert answer.status == 0 or answer.closed, answer
        self.assert_serves_on(self.caller)
        with self._open() as second:
            self.assert_serves_on(Caller(ready(second), self._token))
        assert self.server.process.poll() is None
        # What gRPC and libc say when they give up.
        for trace in ("Check failed", "assertion failed", "terminate called", "    @ "):
            assert trace not in self.server.output(), self.server.output()

    def assert_serves_on(self, caller: Caller) -> None:
        """A good Put, found again."""
        session_id = self.session()
        caller("Put", session_id=session_id, messages=[user("good")])
        assert [m.text for m in caller("Get", session_id=session_id).messages] == ["good"]

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self._channel.close()


@contextlib.contextmanager
def placed(server: Server, opened: Callable[[], grpc.Channel] | None = None,
           token: str | None = None) -> Iterator[Place]:
    """A place that must serve when the body has done its worst."""
    place = Place(server, opened, token)
    with contextlib.closing(place):
        yield place
        place.assert_serves()


@contextlib.contextmanager
def own_server(*arguments: str, store: str = MEMORY, token: str | None = None,
               **options: Any) -> Iterator[Place]:
    """A place on a server that no other row has used; `options` are Server's."""
    with (Server(store, arguments=arguments, **options) as server,
          placed(server, token=token) as place):
        yield place
