"""mem0's history database: the events of memories, and the last messages of each scope."""

from __future__ import annotations

import collections
import datetime
import itertools
import json
from collections.abc import Iterator
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from memoryd.importers._database import Database, DatabaseError, Row, keys, require_columns
from memoryd.importers._sessions import BadRow, SourceSession, set_time, timestamp
from memoryd.v1 import memory_pb2 as memory

_WRITTEN_BY = "mem0's SQLiteManager"
_HISTORY = ("id", "memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at",
            "actor_id", "role")
_MESSAGES = ("id", "session_scope", "role", "content", "name", "created_at")
# Of the 256 KiB that metadata may have.
_MAX_METADATA_BYTES = 200 << 10


class Mem0Database:
    """Makes a session of each scope, with its messages, and one session of all memories. The
    database does not record whose memories they are.

    A memory becomes a content. Its id is the memory's; its text and time are those of the last
    event. Its metadata has under `mem0` the time when it was made, its actor and role, and as
    `former` its earlier text. Deleted memories are left out.
    """

    def __init__(self, database: Database, prefix: str, memories: str) -> None:
        """`memories` is the key of the session of all memories."""
        self._database = database
        self._prefix = prefix
        self._memories = memories
        require_columns(database, "history", _HISTORY, _WRITTEN_BY)
        try:
            require_columns(database, "messages", _MESSAGES, _WRITTEN_BY)
            self._has_messages = True
        except DatabaseError:
            self._has_messages = False  # mem0 before 2.

    def keys(self) -> Iterator[str]:
        if self._has_messages:
            yield from keys(self._database, "messages", "session_scope")
        if list(self._database.rows("SELECT 1 FROM history LIMIT 1")):
            yield self._memories

    def session(self, key: str) -> SourceSession:
        if key == self._memories:
            made = SourceSession(self._prefix + key, contents=lambda: self._contents(made))
            return made
        made = SourceSession(self._prefix + key, lambda: self._messages(key, made))
        return made

    def left(self) -> Iterator[str]:
        yield from ()

    def _messages(self, key: str, session: SourceSession) -> Iterator[memory.Message]:
        if not self._has_messages:
            return
        # In the library's order; it gives the messages of one call the same time.
        for position, (row, role, content, name, created_at) in enumerate(self._database.rows(
            "SELECT id, role, content, name, created_at FROM messages WHERE session_scope = ? "
            "ORDER BY created_at, rowid", (key,),
        ), start=1):
            if not role:
                raise BadRow(row, f"its role is {role!r}")
            try:
                message = memory.Message(
                    message_id=row, position=position, role=role, text=content, name=name or "")
            except (TypeError, ValueError) as error:
                raise BadRow(row, str(error)) from error
            when = _timestamp(created_at)
            if when is None:
                session.left["times that can't be read"] += 1
            else:
                set_time(message, when)
            yield message

    def _contents(self, session: SourceSession) -> Iterator[memory.Content]:
        # In the order in which memories were made, and each one's events as they came: their times
        # alone do not tell, since a deletion may have none.
        columns = ", ".join(_HISTORY)
        events = self._database.rows(
            f"SELECT {columns} FROM (SELECT *, rowid AS event_row, "
            "min(rowid) OVER (PARTITION BY memory_id) AS first_row FROM history) "
            "ORDER BY first_row, event_row")
        position = 0
        for _, group in itertools.groupby(events, key=lambda event: event[1]):
            content = _content(group, session)
            if content is not None:
                position += 1
                content.position = position
                yield content


def _content(events: Iterator[Row], session: SourceSession) -> memory.Content | None:
    """The memory that events have made, None when they have deleted it."""
    content: memory.Content | None = None
    about: dict[str, Any] = {}
    former: collections.deque[dict[str, Any]] = collections.deque()
    room = _MAX_METADATA_BYTES
    for row, memory_id, old, new, event, created_at, updated_at, actor_id, role in events:
        if event == "DELETE":
            content = None
            continue
        if event not in ("ADD", "UPDATE"):
            raise BadRow(row, f"its event {event!r} is not ADD, UPDATE or DELETE")
        if not memory_id or not isinstance(new, str):
            raise BadRow(row, f"its memory_id is {memory_id!r} and its new_memory {new!r}")
        if event == "UPDATE" and old is not None:
            former.append({"memory": old, "until": updated_at})
            room -= _bytes(former[-1])
        while room < 0:
            room += _bytes(former.popleft())
            session.left["former texts of memories that have too many"] += 1
        try:
            content = memory.Content(content_id=memory_id, mime_type="text/plain", text=new)
        except (TypeError, ValueError) as error:
            raise BadRow(row, str(error)) from error
        when = _timestamp(updated_at or created_at)
        if when is None:
            session.left["times that can't be read"] += 1
        else:
            content.ingest_time.CopyFrom(when)
        about = {"created_at": created_at, "actor_id": actor_id, "role": role}
    if content is None:
        session.left["memories that were deleted"] += 1
        return None
    about = {name: value for name, value in about.items() if value is not None}
    if former:
        about["former"] = list(former)
    if about:
        content.metadata_json = _dump({"mem0": about})
    return content


def _bytes(value: dict[str, Any]) -> int:
    return len(_dump(value).encode())


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _timestamp(text: object) -> Timestamp | None:
    """A time as mem0 writes it, in ISO 8601; without an offset it is UTC."""
    try:
        found = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.timezone.utc)
    since = found - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return timestamp(since // datetime.timedelta(microseconds=1) * 1000)
