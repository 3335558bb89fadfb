"""A link to a PostgreSQL server that can be cut, silenced, and made to lose the answers of commits.

It reads the frames of the protocol as far as it takes to know where memoryd's commits begin and
where their answers end.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import enum
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")

# How a commit loses its answer: the statement never gets there; the connection breaks behind it;
# it is done, and the connection breaks ahead of the answer; or the answer comes late.
LOSSES = ("request", "under_way", "answer")
DELAY = "delay"
# What stands in a statement of memoryd that writes sessions, and in no other.
_MARKS = (b"INSERT INTO memoryd_sessions", b"UPDATE memoryd_sessions")
_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
# Types of frames; the server's ReadyForQuery ends an answer.
_PARSE, _BIND, _SYNC = b"PBS"
_ERROR, _NOTICE, _COMPLETE, _READY = b"ENCZ"
_CHUNK = 1 << 18
_CONTROL_SECONDS = 30.0


class Proxies:
    """Links that one thread forwards. Leaving the context closes them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._links: list[Link] = []

    def link(self, port: int) -> Link:
        """A new link to a server on this port of the loopback interface."""
        link = Link(self, port)
        self._links.append(link)
        return link

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CONTROL_SECONDS)

    def __enter__(self) -> Proxies:
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links:
            link.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Link:
    """Forwards connections from `port` to a server. All methods may be called on any thread."""

    def __init__(self, proxies: Proxies, target: int) -> None:
        self._proxies = proxies
        self._relays: set[_Relay] = set()
        # For the relays, on the thread of the loop.
        self.target = target
        self.losses: collections.deque[tuple[str, float]] = collections.deque()
        self.flowing: asyncio.Event
        # How often each loss of `lose` has come about.
        self.lost: collections.Counter[str] = collections.Counter()
        # When the latest of the commits was sent that were answered well, and without a warning;
        # CLOCK_MONOTONIC.
        self.acknowledged_sent_ns = 0
        self.port = proxies.run(self._listen())

    async def _listen(self) -> int:
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_CHUNK)
        return self._server.sockets[0].getsockname()[1]

    def lose(self, losses: Sequence[str], delay_seconds: float = 0) -> None:
        """The next commits lose their answers in these ways, one each, of LOSSES or DELAY."""
        async def work() -> None:
            self.losses.extend((loss, delay_seconds) for loss in losses)
        self._proxies.run(work())

    def lose_no_more(self) -> None:
        """What `lose` has left is not done."""
        async def work() -> None:
            self.losses.clear()
        self._proxies.run(work())

    def silence(self) -> None:
        """Forwards nothing more and leaves all connections open, new ones too, as a network does
        that swallows packets."""
        async def work() -> None:
            self.flowing.clear()
        self._proxies.run(work())

    def resume(self) -> None:
        """Forwards again, what was held back first."""
        async def work() -> None:
            self.flowing.set()
        self._proxies.run(work())

    def cut(self) -> None:
        """Closes all connections; new ones are taken."""
        async def work() -> None:
            for relay in list(self._relays):
                relay.abort()
        self._proxies.run(work())

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        self.silence()
        try:
            yield
        finally:
            self.resume()

    def close(self) -> None:
        async def work() -> None:
            self._server.close()
            for relay in list(self._relays):
                relay.abort()
            # The tasks of the relays come to their ends.
            while self._relays:  # noqa: ASYNC110  (a task leaves when it ends)
                await asyncio.sleep(0)
        self._proxies.run(work())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = _Relay(self, reader, writer)
        self._relays.add(relay)
        try:
            await relay.run()
        finally:
            relay.abort()
            self._relays.discard(relay)


class _Then(enum.Enum):
    """What becomes of a frame."""

    FORWARD = 1
    FORWARD_AND_END = 2
    END = 3
    HOLD = 4  # Until the link's delay is over.


class _Relay:
    """One connection through a link."""

    def __init__(self, link: Link, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter) -> None:
        self._link = link
        self._client = reader, writer
        self._writers = [writer]
        self._task = asyncio.current_task()
        self._commits: dict[bytes, bool] = {}  # Whether a prepared statement is one.
        self._in_commit = False  # One was seen, and its answer has not ended.
        self._refused = False  # That answer is an error so far, or has a warning.
        self._loss = ""  # What becomes of that answer, if it is not to go through.
        self._delay = 0.0
        self._sent_ns = 0

    async def run(self) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._relay(await self._startup())
        except asyncio.CancelledError:
            pass
        finally:
            for writer in self._writers:
                writer.close()  # What was said last still gets there.

    def abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _startup(self) -> bytes:
        """The first packet that is the server's to answer."""
        reader, writer = self._client
        while True:
            head = await reader.readexactly(4)
            body = await reader.readexactly(struct.unpack("!i", head)[0] - 4)
            if struct.unpack("!i", body[:4])[0] not in (_SSL_REQUEST, _GSS_REQUEST):
                return head + body
            writer.write(b"N")

    async def _relay(self, first: bytes) -> None:
        await self._link.flowing.wait()
        if self._client[0].at_eof():  # Whoever has given up meanwhile connects no more.
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", self._link.target,
                                                       limit=_CHUNK)
        self._writers.append(writer)
        writer.write(first)
        pumps = [asyncio.create_task(self._pump(self._client[0], writer, self._question)),
                 asyncio.create_task(self._pump(reader, self._client[1], self._answer))]
        try:
            ended, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in ended:
                pump.result()
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
                    look: Callable[[int, bytearray, int, int], _Then]) -> None:
        """Forwards whole frames, each seen by `look`, until one side or `look` ends it."""
        held = bytearray()
        while data := await reader.read(_CHUNK):
            held += data
            position, then = 0, _Then.FORWARD
            while then is _Then.FORWARD and len(held) >= position + 5:
                end = position + 1 + struct.unpack_from("!i", held, position + 1)[0]
                if len(held) < end:
                    break
                then = look(held[position], held, position + 5, end)
                position = end
            if then is _Then.END:
                return
            if then is _Then.HOLD:
                await asyncio.sleep(self._delay)
            if position:
                await self._link.flowing.wait()
                writer.write(bytes(held[:position]))
                await writer.drain()
                del held[:position]
            if then is _Then.FORWARD_AND_END:
                return

    def _question(self, kind: int, frame: bytearray, begin: int, end: int) -> _Then:
        if kind == _PARSE:
            name = frame.index(0, begin)
            sql = frame[name + 1:frame.index(0, name + 1)]
            self._commits[bytes(frame[begin:name])] = any(mark in sql for mark in _MARKS)
        elif kind == _BIND:
            name = frame.index(0, begin) + 1
            if self._commits.get(bytes(frame[name:frame.index(0, name)]), False):
                self._in_commit, self._refused = True, False
        elif kind == _SYNC and self._in_commit:
            self._sent_ns = time.monotonic_ns()
            if self._link.losses:
                self._loss, self._delay = self._link.losses.popleft()
            if self._loss in ("request", "under_way"):
                self._link.lost[self._loss] += 1
                return _Then.END if self._loss == "request" else _Then.FORWARD_AND_END
        return _Then.FORWARD

    def _answer(self, kind: int, frame: bytearray, begin: int, end: int) -> _Then:
        if self._loss in ("request", "under_way"):
            return _Then.END
        text = frame[begin:end] if kind in (_ERROR, _NOTICE, _COMPLETE) else b""
        # An update of nothing commits nothing.
        if kind == _ERROR or b"VWARNING\0" in text or text == b"UPDATE 0\0":
            self._refused = True
        if kind != _READY or not self._in_commit:
            return _Then.FORWARD
        self._in_commit = False
        loss, self._loss = self._loss, ""
        if loss:
            self._link.lost[loss] += 1
            if loss == "answer":
                return _Then.END
        if not self._refused:
            self._link.acknowledged_sent_ns = max(self._link.acknowledged_sent_ns, self._sent_ns)
        return _Then.HOLD if loss == DELAY else _Then.FORWARD
