#!/usr/bin/env python3
"""A stand-in for PgBouncer in transaction mode, which Debian 12 has without named statements.

usage: named_pooler.py SERVER_PORT PORT MODE     a pooler of its own process, until it is ended

It does with named statements what PgBouncer does from 1.21 on with max_prepared_statements: a
client's name stands for the statement's text and types, which has one name on all connections of the
server, and is prepared on one of them when it is used there. So in mode `keeps`. In mode `forgets` it
does the same, but ends a client now and then for using a name, as PgBouncer does with a name that it
does not know. In mode `loses` it passes names on, as older ones do: what a client prepares is on the
connection that it happened to have. All take connections of the server in turn, so that no two
transactions of a client after one another have the same.

It reads the frames of the protocol as far as memoryd's clients use it, and knows no passwords.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import hashlib
import struct
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")
Frame = tuple[int, bytes]

# How it treats named statements.
KEEPS, FORGETS, LOSES = "keeps", "forgets", "loses"
MODES = (KEEPS, FORGETS, LOSES)
# Of the server's for each database and user, and of statements that one of them keeps.
CONNECTIONS, STATEMENTS = 4, 200
# Of so many uses of names one is forgotten.
_FORGOTTEN = 40
_SSL_REQUEST, _GSS_REQUEST, _CANCEL_REQUEST = 80877103, 80877104, 80877102
_CONTROL_SECONDS = 30.0
# Types of frames of a client, and of a server. Some letters are of both.
_PARSE, _BIND, _DESCRIBE, _CLOSE, _SYNC, _QUERY, _TERMINATE = b"PBDCSQX"
_PARSED, _BOUND, _CLOSED, _ERROR, _READY, _STATUS, _KEY = b"123EZSK"
_IDLE = b"I"


class NamedPooler:
    """Runs on a thread of its own from construction until the context is left."""

    def __init__(self, server_port: int, mode: str = KEEPS, port: int = 0) -> None:
        self._server_port = server_port
        self.mode = mode
        # Statements of clients with and without a name, prepared on and evicted from connections of
        # the server, bound by name, given up by DEALLOCATE; transactions; clients that were ended.
        self.counts: collections.Counter[str] = collections.Counter()
        # What clients have prepared: text and types, by name.
        self.named: dict[bytes, bytes] = {}
        self._pools: dict[tuple[str, str], _Pool] = {}
        self._clients: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._run(self._listen(port))

    def join(self) -> None:
        self._thread.join()

    def _run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CONTROL_SECONDS)

    async def _listen(self, port: int) -> int:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", port)
        return self._listener.sockets[0].getsockname()[1]

    def __enter__(self) -> NamedPooler:
        return self

    def __exit__(self, *_: object) -> None:
        async def work() -> None:
            self._listener.close()
            clients = list(self._clients)
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
            for pool in self._pools.values():
                pool.close()
        self._run(work())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve_client(reader, writer)
        except _Ended as end:
            self.counts["ended"] += 1
            writer.write(end.frame())
        finally:
            self._clients.discard(task)
            writer.close()

    async def _serve_client(self, reader: asyncio.StreamReader,
                            writer: asyncio.StreamWriter) -> None:
        settings = await _read_startup(reader, writer)
        if "options" in settings:
            raise _Ended("08P01", "unsupported startup parameter: options")
        whose = settings["database"], settings["user"]
        pool = self._pools.get(whose)
        if pool is None:
            pool = self._pools[whose] = _Pool(self._server_port, *whose)
        server = await pool.take()
        writer.write(_frame(ord("R"), struct.pack("!i", 0)) + server.greeting
                     + _frame(_KEY, struct.pack("!ii", 1, 1)) + _frame(_READY, _IDLE))
        pool.give_back(server)
        statements: dict[bytes, bytes] = {}  # Of this client, by name: text and types.
        held: _ServerConnection | None = None
        try:
            while frames := await _read_group(reader):
                if held is None:
                    held = await pool.take()
                    self.counts["transactions"] += 1
                exchange = _Exchange(held, statements, self)
                for kind, body in frames:
                    exchange.add(kind, body)
                if await exchange.run(writer) == _IDLE:
                    pool.give_back(held)
                    held = None
        finally:
            if held is not None:  # Whatever it was at is rolled back.
                held.close()
                pool.lose()


class _Ended(Exception):
    """The connection of a client ends, with words of the pooler's."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self._sqlstate, self._message = sqlstate, message

    def frame(self) -> bytes:
        fields = {"S": "FATAL", "V": "FATAL", "C": self._sqlstate, "M": self._message}
        return _frame(_ERROR, b"".join(f"{key}{value}\0".encode()
                                       for key, value in fields.items()) + b"\0")


class _Pool:
    """Connections of the server, taken in turn."""

    def __init__(self, port: int, database: str, user: str) -> None:
        self._of = port, database, user
        self._idle: collections.deque[_ServerConnection] = collections.deque()
        self._open = 0
        self._freed = asyncio.Condition()

    async def take(self) -> _ServerConnection:
        while True:
            if self._open < CONNECTIONS:
                self._open += 1
                try:
                    return await _ServerConnection.open(*self._of)
                except BaseException:
                    self.lose()
                    raise
            if self._idle:
                server = self._idle.popleft()
                if not await server.has_ended():
                    return server
                server.close()
                self.lose()
                continue
            async with self._freed:
                await self._freed.wait_for(lambda: self._idle or self._open < CONNECTIONS)

    def give_back(self, server: _ServerConnection) -> None:
        self._idle.append(server)
        self._wake()

    def lose(self) -> None:
        self._open -= 1
        self._wake()

    def close(self) -> None:
        for server in self._idle:
            server.close()

    def _wake(self) -> None:
        async def work() -> None:
            async with self._freed:
                self._freed.notify()
        self._waking = asyncio.ensure_future(work())


@dataclasses.dataclass
class _ServerConnection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: bytes  # The parameters that it was told.
    # What the server has by names of the pooler's, the last used last.
    prepared: collections.OrderedDict[bytes, None] = dataclasses.field(
        default_factory=collections.OrderedDict)

    @classmethod
    async def open(cls, port: int, database: str, user: str) -> _ServerConnection:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        text = f"user\0{user}\0database\0{database}\0client_encoding\0UTF8\0\0".encode()
        writer.write(struct.pack("!ii", 8 + len(text), 3 << 16) + text)
        greeting = b""
        while True:
            kind, body = await _read_frame(reader)
            if kind == _STATUS:
                greeting += _frame(kind, body)
            if kind == _ERROR:
                writer.close()
                raise OSError(body)
            if kind == _READY:
                return cls(reader, writer, greeting)

    async def has_ended(self) -> bool:
        """Of one that nothing was asked: any byte is the server's farewell."""
        byte = asyncio.ensure_future(self.reader.read(1))
        await asyncio.sleep(0)
        ended = byte.done()
        byte.cancel()
        await asyncio.wait([byte])
        return ended

    def close(self) -> None:
        self.writer.close()


@dataclasses.dataclass
class _Answer:
    """One to come, of the server's or, if it is `given`, of the pooler's."""

    kind: int
    wanted: bool = True  # The client is to have it.
    given: bool = False
    name: bytes = b""  # What is prepared or closed on the server by then.


class _Exchange:
    """What a client asks for until it waits, and the server's answer to it."""

    def __init__(self, server: _ServerConnection, statements: dict[bytes, bytes],
                 pooler: NamedPooler) -> None:
        self._server, self._statements, self._pooler = server, statements, pooler
        self._counts, self._passes = pooler.counts, pooler.mode == LOSES
        self._question = b""
        self._answers: collections.deque[_Answer] = collections.deque()
        # What the server has once it has answered, if no error comes.
        self._prepared = server.prepared.copy()

    def add(self, kind: int, body: bytes) -> None:
        if kind in (_QUERY, _PARSE):
            text = body if kind == _QUERY else body[body.index(0) + 1:]
            self._counts["deallocated"] += text.upper().startswith(b"DEALLOCATE")
        if kind == _PARSE:
            self._parse(body)
        elif kind == _BIND:
            portal = body[:body.index(0) + 1]
            name, rest = _split(body[len(portal):])
            self._counts["bound"] += bool(name)
            if name and self._pooler.mode == FORGETS and self._counts["bound"] % _FORGOTTEN == 0:
                self._statements.pop(name, None)
            self._send(kind, portal + self._of_server(name) + b"\0" + rest)
            self._answers.append(_Answer(_BOUND))
        elif kind == _CLOSE and body[:1] == b"S" and len(body) > 2 and not self._passes:
            # As the client knows it; on the server it stays for the others.
            self._statements.pop(body[1:-1], None)
            self._answers.append(_Answer(_CLOSED, given=True))
        elif kind == _DESCRIBE and body[:1] == b"S":
            self._send(kind, b"S" + self._of_server(body[1:-1]) + b"\0")
        else:
            self._send(kind, body)
            if kind == _CLOSE:
                self._answers.append(_Answer(_CLOSED))

    def _parse(self, body: bytes) -> None:
        name, statement = _split(body)
        self._counts["named" if name else "unnamed"] += 1
        if name:
            self._pooler.named[name] = statement
        if not name or self._passes:
            self._counts["prepared"] += bool(name)
            self._send(_PARSE, body)
            self._answers.append(_Answer(_PARSED))
            return
        if name in self._statements:
            raise _Ended("08P01", "prepared statement name is already in use")
        self._statements[name] = statement
        self._prepare(statement, wanted=True)

    def _of_server(self, name: bytes) -> bytes:
        """The name of what a client knows by another, which is prepared from here on."""
        if not name or self._passes:
            return name
        if name not in self._statements:
            raise _Ended("08P01", "prepared statement did not exist")
        return self._prepare(self._statements[name], wanted=False)

    def _prepare(self, statement: bytes, *, wanted: bool) -> bytes:
        name = b"POOLER_" + hashlib.sha256(statement).hexdigest()[:16].encode()
        if name in self._prepared:
            self._prepared.move_to_end(name)
            if name in self._server.prepared:
                self._server.prepared.move_to_end(name)
            if wanted:
                self._answers.append(_Answer(_PARSED, given=True))
            return name
        self._prepared[name] = None
        self._counts["prepared"] += 1
        self._send(_PARSE, name + b"\0" + statement)
        self._answers.append(_Answer(_PARSED, wanted=wanted, name=name))
        if len(self._prepared) > STATEMENTS:
            oldest, _ = self._prepared.popitem(last=False)
            self._counts["evicted"] += 1
            self._send(_CLOSE, b"S" + oldest + b"\0")
            self._answers.append(_Answer(_CLOSED, wanted=False, name=oldest))
        return name

    def _send(self, kind: int, body: bytes) -> None:
        self._question += _frame(kind, body)

    async def run(self, client: asyncio.StreamWriter) -> bytes:
        """The state of the server's transaction afterwards."""
        self._server.writer.write(self._question)
        while True:
            kind, body = await _read_frame(self._server.reader)
            if kind == _ERROR:
                self._answers.clear()  # What follows was not done.
            self._give(client)
            wanted = True
            if kind in (_PARSED, _BOUND, _CLOSED):
                answer = self._answers.popleft()
                assert answer.kind == kind
                wanted = answer.wanted
                self._note(answer)
                self._give(client)
            if wanted:
                client.write(_frame(kind, body))
            if kind == _READY:
                await client.drain()
                return body

    def _note(self, answer: _Answer) -> None:
        if answer.kind == _PARSED and answer.name:
            self._server.prepared[answer.name] = None
        elif answer.kind == _CLOSED:
            self._server.prepared.pop(answer.name, None)

    def _give(self, client: asyncio.StreamWriter) -> None:
        """The answers that the pooler gives by itself."""
        while self._answers and self._answers[0].given:
            client.write(_frame(self._answers.popleft().kind, b""))


def _frame(kind: int, body: bytes) -> bytes:
    return struct.pack("!Bi", kind, 4 + len(body)) + body


def _split(body: bytes) -> tuple[bytes, bytes]:
    """A name at the beginning, and what follows its end."""
    end = body.index(0)
    return body[:end], body[end + 1:]


async def _read_frame(reader: asyncio.StreamReader) -> Frame:
    kind, length = struct.unpack("!Bi", await reader.readexactly(5))
    return kind, await reader.readexactly(length - 4)


async def _read_group(reader: asyncio.StreamReader) -> list[Frame]:
    """All up to where the client waits for the answer; nothing at its end."""
    frames: list[Frame] = []
    while True:
        frame = await _read_frame(reader)
        if frame[0] == _TERMINATE:
            return []
        frames.append(frame)
        if frame[0] in (_SYNC, _QUERY):
            return frames


async def _read_startup(reader: asyncio.StreamReader,
                        writer: asyncio.StreamWriter) -> dict[str, str]:
    while True:
        length, = struct.unpack("!i", await reader.readexactly(4))
        body = await reader.readexactly(length - 4)
        kind, = struct.unpack("!i", body[:4])
        if kind == _CANCEL_REQUEST:
            raise OSError("a request to cancel")
        if kind in (_SSL_REQUEST, _GSS_REQUEST):
            writer.write(b"N")
            continue
        words = body[4:].decode().split("\0")
        settings = dict(zip(words[::2], words[1::2], strict=False))
        return {"database": settings.get("user", ""), **settings}


def main() -> None:
    server_port, port, mode = sys.argv[1:]
    NamedPooler(int(server_port), mode, int(port)).join()


if __name__ == "__main__":
    main()
