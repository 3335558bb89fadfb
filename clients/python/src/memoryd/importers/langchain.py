"""The tables of LangChain's histories over SQL: PostgresChatMessageHistory of langchain-postgres
and SQLChatMessageHistory of langchain-community. They differ by a column with the time."""

from __future__ import annotations

import decimal
from collections.abc import Iterator

from google.protobuf.timestamp_pb2 import Timestamp
from langchain_core.messages import messages_from_dict

from memoryd.importers._database import Database, DatabaseError, keys, require_columns
from memoryd.importers._sessions import (
    BadRow,
    SourceSession,
    item_id,
    parsed,
    set_time,
    timestamp,
)
from memoryd.importers._validation import fault
from memoryd.langchain.messages import to_message
from memoryd.v1 import memory_pb2 as memory

_COLUMNS = ("id", "session_id", "message")
_TIME = "created_at"


class LangChainTable:
    """Makes the sessions that ChatMessageHistory finds under the prefix and the session id. All
    messages are active. The next message that is added moves those beyond the session's limit out
    of short-term memory."""

    def __init__(self, database: Database, table: str, schema: str | None, prefix: str) -> None:
        self._database = database
        self._table = database.quoted(table)
        if schema is not None:
            self._table = f"{database.quoted(schema)}.{self._table}"
        self._prefix = prefix
        written_by = "PostgresChatMessageHistory or SQLChatMessageHistory"
        require_columns(database, self._table, _COLUMNS, written_by)
        try:
            require_columns(database, self._table, (_TIME,), written_by)
            self._time = database.seconds(database.quoted(_TIME))
        except DatabaseError:
            self._time = "NULL"

    def keys(self) -> Iterator[str]:
        return keys(self._database, self._table, "session_id")

    def session(self, key: str) -> SourceSession:
        made = SourceSession(self._prefix + key, lambda: self._messages(key, made))
        return made

    def left(self) -> Iterator[str]:
        session_id = self._database.quoted("session_id")
        ((count,),) = self._database.rows(
            f"SELECT count(*) FROM {self._table} WHERE {session_id} IS NULL")
        if count:
            yield f"{count} rows without a session_id"

    def _messages(self, key: str, session: SourceSession) -> Iterator[memory.Message]:
        db = self._database
        id, session_id, column = (db.quoted(name) for name in _COLUMNS)
        # In the libraries' order.
        for position, (row, seconds, document, size) in enumerate(db.rows(
            f"SELECT {id}, {self._time}, {db.document(column)} FROM {self._table} "
            f"WHERE {session_id} = {db.mark} ORDER BY {id}", (key,),
        ), start=1):
            message = _message(row, document, size)
            message.message_id = item_id(row)
            message.position = position
            when = _timestamp(seconds)
            if when is None:
                session.left["times, which the table does not have"] += 1
            else:
                set_time(message, when)
            yield message


def _message(row: int, document: str | bytes | None, size: int | None) -> memory.Message:
    dump = parsed(row, document, size)
    try:
        (found,) = messages_from_dict([dump])
        return to_message(found)
    except KeyError as error:
        raise BadRow(row, f"LangChain does not read it: there is no {error}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise BadRow(row, f"LangChain does not read it: {fault(error)}") from error


def _timestamp(seconds: str | None) -> Timestamp | None:
    since = decimal.Decimal(seconds or "NaN")
    return timestamp(int(since * 10**9)) if since.is_finite() else None
