"""What a source has to give: sessions, and their items row by row."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from google.protobuf.timestamp_pb2 import Timestamp

from memoryd.importers._database import MAX_DOCUMENT_BYTES
from memoryd.v1 import memory_pb2 as memory

# What a request of an import holds by default, less what is around a message.
_MAX_ITEM_BYTES = (36 << 20) - (64 << 10)


class BadRow(Exception):
    """A row that no message can be made of; says which and why."""

    def __init__(self, row: object, why: str) -> None:
        super().__init__(f"row {row}: {why}")


def item_id(row: int) -> str:
    """The id of the message that a row with this number becomes."""
    return f"row-{row}"


def row_of(item: memory.Message | memory.Content) -> str:
    """The row that an item was made of, as its id names it."""
    id = item.message_id if isinstance(item, memory.Message) else item.content_id
    return id.removeprefix("row-")


@dataclasses.dataclass(frozen=True)
class SourceSession:
    """A session of a source, which is read anew by each iterator. Items have ids and positions.

    Iterators raise BadRow, or DatabaseError, and add to `left` what of their rows can't be carried.
    """

    session_id: str
    messages: Callable[[], Iterator[memory.Message]] = lambda: iter(())
    contents: Callable[[], Iterator[memory.Content]] = lambda: iter(())
    config: memory.SessionConfig | None = None
    left: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


class Source(Protocol):
    """The tables of one memory."""

    def keys(self) -> Iterator[str]:
        """What it calls its sessions, in any order. Raises DatabaseError."""

    def session(self, key: str) -> SourceSession:
        """The session of a key; without a row when there is none."""

    def left(self) -> Iterator[str]:
        """What belongs to no session and is left, in words. Raises DatabaseError."""


def parsed(row: object, document: str | bytes | None, size: int | None) -> dict[str, Any]:
    """The object that a column of JSON holds, given as Database.document has it."""
    if size is None:
        raise BadRow(row, "it is NULL")
    if document is None:
        raise BadRow(row, f"it has {size} bytes, and no message more than {MAX_DOCUMENT_BYTES}")
    try:
        value = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise BadRow(row, f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRow(row, f"it is no JSON object but {type(value).__name__}")
    return value


def fitting(row: object, item: memory.Message | memory.Content) -> None:
    """Raises BadRow when no request can hold the item."""
    if item.ByteSize() > _MAX_ITEM_BYTES:
        raise BadRow(row, f"it makes {item.ByteSize()} bytes, and a request has room for "
                          f"{_MAX_ITEM_BYTES}")


def set_time(message: memory.Message, when: Timestamp) -> None:
    """A row has one time: when its message was made and when it was stored."""
    message.create_time.CopyFrom(when)
    message.ingest_time.CopyFrom(when)


def timestamp(nanoseconds: int) -> Timestamp | None:
    """The time, None when it is none that memoryd takes: from 1970 to 9999."""
    if not 0 <= nanoseconds < 253402300800 * 10**9:
        return None
    return Timestamp(seconds=nanoseconds // 10**9, nanos=nanoseconds % 10**9)
