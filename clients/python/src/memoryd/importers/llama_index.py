"""The table of LlamaIndex' SQLAlchemyChatStore: the messages of a key, as ChatStore finds them."""

from __future__ import annotations

from collections.abc import Iterator

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base_db import MessageStatus

from memoryd.importers._database import Database, keys, require_columns
from memoryd.importers._sessions import (
    BadRow,
    SourceSession,
    fitting,
    item_id,
    parsed,
    set_time,
    timestamp,
)
from memoryd.importers._validation import fault
from memoryd.llama_index._messages import from_chat
from memoryd.llama_index._rows import PLAIN, Row
from memoryd.llama_index.chat_store import default_count, key_space, session_of
from memoryd.v1 import memory_pb2 as memory

_COLUMNS = ("id", "key", "timestamp", "status", "data")
_ARCHIVED = {status.value: status is MessageStatus.ARCHIVED for status in MessageStatus}


class LlamaIndexTable:
    """Makes the sessions that ChatStore and Memory find under the prefix and the key, with the same
    `table` and `schema`. Rows keep their ids, which `delete_message` takes.

    Status and time are those of the row. An archived message after an active one cannot exist in a
    session of memoryd. It becomes active, with ChatStore's mark of a message archived by hand.
    """

    def __init__(self, database: Database, table: str, schema: str | None, prefix: str) -> None:
        self._database = database
        self._table = database.quoted(table)
        if schema is not None:
            self._table = f"{database.quoted(schema)}.{self._table}"
        self._space = key_space("", schema, table)
        self._prefix = prefix
        require_columns(database, self._table, _COLUMNS, "SQLAlchemyChatStore")

    def keys(self) -> Iterator[str]:
        return keys(self._database, self._table, "key")

    def session(self, key: str) -> SourceSession:
        session_id = session_of(self._space, self._prefix + key)
        return SourceSession(session_id, lambda: self._messages(key), config=PLAIN)

    def left(self) -> Iterator[str]:
        yield from ()  # A row without a key is none of the library's.

    def _messages(self, key: str) -> Iterator[memory.Message]:
        db = self._database
        id, named, time, status, data = (db.quoted(name) for name in _COLUMNS)
        position = 0
        are_archived = True
        # In the library's order.
        for row, nanoseconds, state, document, size in db.rows(
            f"SELECT {id}, {time}, {status}, {db.document(data)} FROM {self._table} "
            f"WHERE {named} = {db.mark} ORDER BY {time}, {id}", (key,),
        ):
            if state not in _ARCHIVED:
                raise BadRow(row, f"its status {state!r} is neither active nor archived")
            are_archived = are_archived and _ARCHIVED[state]
            message = _row(row, document, size, _ARCHIVED[state] and not are_archived).wire()
            message.status = (
                memory.MESSAGE_STATUS_ARCHIVED if are_archived else memory.MESSAGE_STATUS_ACTIVE)
            # Above all ids so far, so that no later message gets one of them.
            position = max(position + 1, row)
            message.message_id = item_id(row)
            message.position = position
            when = timestamp(nanoseconds) if isinstance(nanoseconds, int) else None
            if when is None:
                raise BadRow(row, f"its timestamp {nanoseconds!r} is no time from 1970 on")
            set_time(message, when)
            yield message


def _row(row: int, document: str | bytes | None, size: int | None, archived: bool) -> Row:
    try:
        chat = ChatMessage.model_validate(parsed(row, document, size))
        message = from_chat(chat)
        fitting(row, message)  # Before its tokens are counted, which takes its time.
        message.token_count = default_count()(chat)
        return Row(message, archived)
    except (TypeError, ValueError) as error:
        raise BadRow(row, f"LlamaIndex does not read it: {fault(error)}") from error
