"""Takes sessions from a source into memoryd, one after the other."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import enum
import itertools
import re
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from memoryd import Client, MemorydError, _calls
from memoryd.importers._database import DatabaseError, DatabaseLost
from memoryd.importers._sessions import BadRow, Source, SourceSession, fitting, row_of
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import session_service_pb2 as wire

Item = TypeVar("Item", memory.Message, memory.Content)

# What says more of the server, or of who asks, than of a session: others would fail alike.
_OF_ALL = (
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNIMPLEMENTED,
)
_PROBED_ITEMS = 250
_PROBED_BYTES = 512 << 10
_PROGRESS_SECONDS = 0.5


class Outcome(enum.Enum):
    """What became of a session, as its line begins."""

    IMPORTED = "imported"
    READ = "read"  # And nothing was made, as was asked.
    THERE = "there"
    FAILED = "failed"


class Import:
    """One run. Prints a line for each session to standard output, and how far the one at hand is to
    standard error where that is a terminal."""

    def __init__(self, source: Source, client: Client | None) -> None:
        """Without a client sessions are read, and nothing is made.

        `done` counts the sessions so far."""
        self._source = source
        self._client = client
        self.done = collections.Counter[Outcome]()
        self._progress = _Progress()

    def run(self, only: Collection[str] = ()) -> None:
        """Takes the sessions of these keys, without any all, and counts them in `done`. Raises
        MemorydError when the server takes no session at all, and DatabaseError when the keys can't
        be read; what was made before stays."""
        for key in only or self._source.keys():
            outcome, told = self._take(key)
            self._progress.clear()
            self.done[outcome] += 1
            print(f"{outcome.value:<8}  {visible(key)}: {told}", flush=True)
        if not only:
            for left in self._source.left():
                print(f"left      {left}")

    def _take(self, key: str) -> tuple[Outcome, str]:
        session = self._source.session(key)
        read = _Read(key, self._progress)
        try:
            with contextlib.closing(read.counted(session.messages(), "messages")) as messages, \
                    contextlib.closing(read.counted(session.contents(), "contents")) as contents:
                first = next(messages, None)
                if first is None:
                    content = next(contents, None)
                    if content is None:
                        return Outcome.FAILED, "there is no such session"
                    self._send(session, (), itertools.chain((content,), contents),
                               content.ingest_time)
                else:
                    created = first.create_time if first.HasField("create_time") else None
                    self._send(session, itertools.chain((first,), messages), contents, created)
        except DatabaseLost:
            raise
        except (BadRow, DatabaseError) as error:
            return Outcome.FAILED, str(error)
        except MemorydError as error:
            if error.reason == "SESSION_EXISTS":
                return Outcome.THERE, "left as it is, memoryd has such a session"
            if error.code in _OF_ALL:
                raise
            return Outcome.FAILED, self._row_of(error, session) + error.message
        told = ", ".join(f"{count} {what}" for what, count in read.counts.items())
        left = ", ".join(f"{count} {what}" for what, count in session.left.items())
        if left:
            told += f"; not carried: {left}"
        return Outcome.READ if self._client is None else Outcome.IMPORTED, told

    def _send(
        self, session: SourceSession, messages: Iterable[memory.Message],
        contents: Iterable[memory.Content], created: Timestamp | None,
    ) -> None:
        if self._client is None:
            collections.deque(itertools.chain[Any](messages, contents), maxlen=0)
            return
        since = None if created is None else created.ToDatetime(datetime.timezone.utc)
        self._client.import_session(
            session.session_id, messages, contents, config=session.config, create_time=since)

    def _row_of(self, error: MemorydError, session: SourceSession) -> str:
        """Which row the server refused. It named a place in one of the requests of a stream, and
        not in which; so the rows are sent again by streams that end behind their one request of
        items, which make nothing."""
        kind = error.field.partition("[")[0]
        if self._client is None or kind not in ("messages", "contents"):
            return ""
        read: Any = session.messages() if kind == "messages" else session.contents()
        with contextlib.suppress(BadRow, DatabaseError), contextlib.closing(read):
            for batch in _batches(read):
                place = _refused_place(self._client, session, kind, batch)
                if place is not None:
                    return f"row {row_of(batch[place])}: "
        return ""


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = 0
    for item in items:
        if batch and (len(batch) == _PROBED_ITEMS or size + item.ByteSize() > _PROBED_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.ByteSize()
    yield batch


def _refused_place(
    client: Client, session: SourceSession, kind: str, batch: list[Any]
) -> int | None:
    """The index of the item that the server refuses, None when it takes all."""
    begin = wire.ImportBegin(session_id=session.session_id, config=session.config)

    def requests() -> Generator[wire.ImportSessionRequest, None, None]:
        yield wire.ImportSessionRequest(begin=begin)
        items: Any = {kind: batch}
        yield wire.ImportSessionRequest(items=wire.ImportItems(**items))

    upload = _calls.import_session(session.session_id)
    try:
        client._upload(dataclasses.replace(upload, requests=requests))
    except MemorydError as error:
        named = re.match(rf"{kind}\[([0-9]+)\]", error.field)
        return int(named.group(1)) if named else None
    return None


class _Read:
    """Items of a session on their way, counted by what they are."""

    def __init__(self, key: str, progress: _Progress) -> None:
        self.counts = collections.Counter[str]()
        self._key = key
        self._progress = progress

    def counted(self, items: Iterator[Item], what: str) -> Generator[Item, None, None]:
        for item in items:
            fitting(row_of(item), item)
            self.counts[what] += 1
            self._progress.show(lambda: f"{visible(self._key)}: {self.counts[what]} {what}")
            yield item


class _Progress:
    """A line of standard error that is written anew, where that is a terminal."""

    def __init__(self) -> None:
        self._is_shown = False
        self._next = time.monotonic() + _PROGRESS_SECONDS
        self._has_terminal = sys.stderr.isatty()

    def show(self, text: Callable[[], str]) -> None:
        if not self._has_terminal or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PROGRESS_SECONDS
        self._is_shown = True
        print(f"\r\x1b[K{text()}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._is_shown = False


def visible(key: str) -> str:
    """A key as it can stand in a line of a terminal."""
    return key if key.isprintable() else ascii(key)
