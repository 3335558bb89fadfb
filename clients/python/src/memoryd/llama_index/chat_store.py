"""A chat store of LlamaIndex with its messages in memoryd."""

from __future__ import annotations

import urllib.parse
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, TypeVar, cast

import grpc
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr, model_serializer
from llama_index.core.memory import Memory as LibraryMemory
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.ext.asyncio import AsyncEngine

from memoryd import AsyncClient
from memoryd._adapters import turns
from memoryd._ids import Id, id_text
from memoryd.llama_index import _background
from memoryd.llama_index._live import latest, name_of
from memoryd.llama_index._messages import to_chat, to_dump
from memoryd.llama_index._rows import Count, Row, Session, may_lack, new_row
from memoryd.llama_index._target import Target, client_of, default_uri, is_ours

Result = TypeVar("Result")

DEFAULT_TABLE_NAME = "llama_index_memory"
DEFAULT_URI = "memoryd://localhost:50051"


def key_space(space: str, db_schema: str | None, table_name: str) -> str:
    """Returns the name of the key space of these three. Empty: the default key space."""
    parts = (space, db_schema or "", table_name if table_name != DEFAULT_TABLE_NAME else "")
    return "/".join(urllib.parse.quote(part, safe="") for part in parts) if any(parts) else ""


def session_of(space: str, key: str) -> str:
    """Returns the session of a key in a key space."""
    return f"@{space}@{key}" if space or key.startswith("@") else key


class _Refusing:
    """In place of a client whose credentials are not here."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __getattr__(self, name: str) -> Any:
        raise LookupError(
            f"credentials: the store of {self._uri} was loaded from a dump, which has not the "
            "credentials and the token that it was given; make a ChatStore of this URI with them "
            "before, or name files in the URI"
        )


class Answer(list[Any], Coroutine[Any, Any, Any]):
    """What a call outside of an event loop returned: a list, and a coroutine that has ended, for
    those who run what they were given."""

    def __init__(self, value: Iterable[Any] | None) -> None:
        super().__init__(value or ())
        self._value = value

    def __await__(self) -> Generator[Any, None, Any]:
        return self._value
        yield  # Makes it a generator.

    def send(self, _: Any) -> Any:
        raise StopIteration(self._value)

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None:
        pass


class ChatStore(SQLAlchemyChatStore, BaseChatStore):
    """A chat store over `memoryd://HOST:PORT`. With any other URI it is SQLAlchemyChatStore.

    It has both of the library's interfaces, which share names. On an event loop a method is
    AsyncDBChatStore's: a coroutine, and `delete_message` takes the id of a row (see `row_ids`).
    Elsewhere it is BaseChatStore's: it blocks, and `delete_message` takes an index in the list.
    Names that begin with `a` are BaseChatStore's everywhere.

    A key is a session. A `table_name` other than the default, `db_schema` and the URI's path form
    the key space; keys of different spaces never meet.

    `credentials` and `token` are those of memoryd.Client. A dump contains neither; it contains the
    paths of files that the URI names, see Target. A loaded store takes them from a store of this
    process with the same URI; without one it refuses to be used. Without a URI it is that of the
    environment variable MEMORYD_TARGET, or memoryd://localhost:50051.

    Up to 1,000 messages and 3 MiB of a key are replaced at once, more in steps. An empty list of
    messages to add has no effect (the library's store fails on it).
    """

    _client: AsyncClient | None = PrivateAttr(default=None)
    _target: Target | None = PrivateAttr(default=None)
    _space: str = PrivateAttr(default="")
    _needs_credentials: bool = PrivateAttr(default=False)
    _counts: dict[str, Any] = PrivateAttr(default_factory=dict)

    def __init__(
        self,
        table_name: str = DEFAULT_TABLE_NAME,
        async_database_uri: str | None = None,
        async_engine: AsyncEngine | None = None,
        db_data: list[dict[str, Any]] | None = None,
        db_schema: str | None = None,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str] | None = None,
        class_name: str | None = None,
        needs_credentials: bool = False,
    ) -> None:
        """`class_name` and `needs_credentials` are additional fields of a dump."""
        if async_database_uri is None and async_engine is None:
            async_database_uri = default_uri() or DEFAULT_URI
        super().__init__(table_name, async_database_uri, async_engine, db_data, db_schema)
        if async_engine is None and is_ours(self.async_database_uri):
            uri = self.async_database_uri
            is_lost = False
            if needs_credentials and credentials is None and token is None:
                known = latest(lambda store: isinstance(store, ChatStore) and store.knows(uri))
                is_lost = known is None
                if known is not None:
                    credentials, token = known.target.given
            self._target = Target(uri, credentials=credentials, token=token)
            self._needs_credentials = needs_credentials or self._target.is_given
            self._client = cast(AsyncClient, _Refusing(uri)) if is_lost else client_of(self._target)
            if self._target.is_given:
                name_of(self)
            self._space = key_space(self._target.space, db_schema, table_name)

    @classmethod
    def class_name(cls) -> str:
        return "MemorydChatStore"

    # What Memory builds on.

    @property
    def client(self) -> AsyncClient | None:
        """The client. None: the library's own store is in use."""
        return self._client

    @property
    def target(self) -> Target | None:
        """The target of the client."""
        return self._target

    @property
    def needs_credentials(self) -> bool:
        """Whether the store was given credentials or a token in code, which a dump never
        contains."""
        return self._needs_credentials

    def knows(self, uri: str) -> bool:
        """Whether this store was given credentials in code for this URI."""
        return self.async_database_uri == uri and bool(self._target and self._target.is_given)

    def session_id(self, key: Id) -> str:
        """Returns the session of a key. A UUID or an int is taken as its text."""
        return session_of(self._space, id_text(key))

    def count_with(self, key: str, count: Count) -> None:
        """Lets a method of an object count the tokens of the key's messages as long as the object
        exists."""
        counts = self._counts

        def forget(dead: Any) -> None:
            if counts.get(key) is dead:
                del counts[key]

        counts[key] = weakref.WeakMethod(count, forget)

    async def append(self, key: str, messages: Iterable[ChatMessage], archived: bool) -> None:
        rows = [new_row(chat, self.count(key), archived=archived) for chat in messages]
        await self._session(key).append(rows)

    def count(self, key: str) -> Count:
        known = self._counts.get(id_text(key))
        return (known and known()) or default_count()

    # SQLAlchemyChatStore, or BaseChatStore outside of an event loop.

    def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> Any:
        """Returns the messages of a status, oldest first. None: of every status."""
        if self._client is None:
            return super().get_messages(key, status, limit, offset)
        return _either(self._read(key, status, limit, offset), Answer)

    def add_message(
        self,
        key: str,
        message: ChatMessage,
        status: MessageStatus | int | None = MessageStatus.ACTIVE,
        idx: int | None = None,
    ) -> Any:
        """Adds a message, or inserts it at an index. As in SimpleChatStore, the third argument may
        be that index."""
        if not isinstance(status, MessageStatus):
            idx, status = status if idx is None else idx, MessageStatus.ACTIVE
        if self._client is None:
            return super().add_message(key, message, status)
        if idx is not None:
            return _either(self._insert(key, message, status, idx), Answer)
        return _either(self._add(key, [message], status), Answer)

    async def add_messages(
        self,
        key: str,
        messages: list[ChatMessage],
        status: MessageStatus = MessageStatus.ACTIVE,
    ) -> None:
        if self._client is None:
            return await super().add_messages(key, messages, status)
        return await _background.done(self._add(key, messages, status))

    def set_messages(
        self,
        key: str,
        messages: list[ChatMessage],
        status: MessageStatus = MessageStatus.ACTIVE,
    ) -> Any:
        """Replaces all messages of the key by `messages`."""
        if self._client is None:
            return super().set_messages(key, messages, status)
        return _either(self._set(key, messages, status), Answer)

    async def count_messages(
        self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> int:
        if self._client is None:
            return await super().count_messages(key, status)
        return await _background.done(self._count(key, status))

    def delete_message(self, key: str, idx: int) -> Any:
        """Removes the message and returns it. None: there is none."""
        if self._client is None:
            return super().delete_message(key, idx)
        if _background.in_event_loop():
            return _background.done(self._remove_row(key, idx))
        return _background.wait(self._remove_index(key, idx))

    def delete_messages(
        self, key: str, status: MessageStatus | None = None
    ) -> Any:
        """Removes the messages of a status. None: of every status. Outside an event loop it also
        removes the key and returns its messages, or None for an unknown key."""
        if self._client is None:
            return super().delete_messages(key, status)
        if _background.in_event_loop():
            return _background.done(self._remove(key, status))
        return _background.wait(self._remove_key(key))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        if self._client is None:
            return await super().delete_oldest_messages(key, n)
        return await _background.done(self._leave(key, n, archive=False))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        if self._client is None:
            return await super().archive_oldest_messages(key, n)
        return await _background.done(self._leave(key, n, archive=True))

    def get_keys(self) -> Any:
        """Returns the keys that have messages. Outside an event loop: all keys, in the order in
        which they were made."""
        if self._client is None:
            return super().get_keys()
        if _background.in_event_loop():
            return _background.done(self._keys(empty=False))
        return Answer(_background.wait(self._keys(empty=True)))

    async def row_ids(self, key: str) -> list[int]:
        """Returns the ids of the messages of every status for delete_message, oldest first."""
        self._demand_client()
        return [row.id for row in await _background.done(self._rows(key))]

    # BaseChatStore.

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Removes the last message and returns it. None: unknown key. Raises IndexError if the key
        has no message."""
        self._demand_client()
        return _background.wait(self._remove_index(key, -1))

    async def async_add_message(
        self, key: str, message: ChatMessage, idx: int | None = None
    ) -> None:
        await self.add_message(key, message, idx)

    async def aset_messages(self, key: str, messages: list[ChatMessage]) -> None:
        await self.set_messages(key, messages)

    async def aget_messages(self, key: str) -> list[ChatMessage]:
        messages: list[ChatMessage] = await self.get_messages(key)
        return messages

    # The dump.

    @model_serializer()
    def dump_store(self) -> dict[str, Any]:
        """Returns the store's configuration, and for a library's store in memory its data."""
        data = {**super().dump_store(), "class_name": self.class_name()}
        if self._needs_credentials:
            data["needs_credentials"] = True
        return data

    def __getstate__(self) -> dict[str, Any]:
        # Connections stay here.
        return {"arguments": (self.table_name, self.async_database_uri, None, None,
                              self.db_schema),
                "needs_credentials": self._needs_credentials}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(  # type: ignore[misc]
            *state["arguments"], needs_credentials=state["needs_credentials"])

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> ChatStore:
        return self

    # Inside, on the background's event loop.

    def _demand_client(self) -> AsyncClient:
        if self._client is None:
            raise NotImplementedError(
                f"{self.async_database_uri} is the library's, whose store has no such method"
            )
        return self._client

    def _session(self, key: str) -> Session:
        return Session(self._demand_client(), self.session_id(key))

    async def _restored(self) -> None:
        """Stores what the constructor was given, once."""
        if self._db_data:
            data, self._db_data = self._db_data, None
            for row in sorted(data, key=lambda row: row["timestamp"]):
                chat = ChatMessage.model_validate(row["data"])
                await self.append(row["key"], [chat], row["status"] == MessageStatus.ARCHIVED.value)

    async def _rows(self, key: str, archived: bool | None = None) -> list[Row]:
        await self._restored()
        return [row async for row in self._session(key).rows(archived)]

    async def _read(
        self, key: str, status: MessageStatus | None, limit: int | None, offset: int | None
    ) -> list[ChatMessage]:
        await self._restored()
        begin = max(offset or 0, 0)
        end = None if limit is None or limit < 0 else begin + limit
        if end == begin:
            return []
        session = self._session(key)
        rows: list[Row] = []
        # Where something may be lacking all is needed to know what.
        goes_on = False
        async for row in session.rows(_archived(status)):
            rows.append(row)
            goes_on = goes_on or row.message.position != len(rows)
            if len(rows) == end and not goes_on:
                if not may_lack(rows):
                    break
                goes_on = True
        if goes_on:
            rows = await session.shown(rows, all_there=status is None)
        read = turns.single(row.message for row in rows[begin:end])
        return [to_chat(message) for message in read]

    async def _add(
        self, key: str, messages: list[ChatMessage], status: MessageStatus
    ) -> None:
        await self._restored()
        await self.append(key, messages, status == MessageStatus.ARCHIVED)

    async def _insert(
        self, key: str, message: ChatMessage, status: MessageStatus, idx: int
    ) -> None:
        await self._restored()
        row = new_row(message, self.count(key), archived=status == MessageStatus.ARCHIVED)

        def insert(rows: list[Row]) -> tuple[list[Row], None]:
            rows.insert(idx, row)
            return rows, None

        await self._session(key).change(insert)

    async def _set(
        self, key: str, messages: list[ChatMessage], status: MessageStatus
    ) -> None:
        await self._restored()
        archived = status == MessageStatus.ARCHIVED
        rows = [new_row(chat, self.count(key), archived=archived) for chat in messages]
        await self._session(key).replace(rows)

    async def _count(self, key: str, status: MessageStatus | None) -> int:
        await self._restored()
        session = await self._session(key).known()
        if session is None:
            return 0
        if status is None:
            return session.active_count + session.archived_count
        return len([row async for row in self._session(key).rows(_archived(status))])

    async def _remove_row(self, key: str, idx: int) -> ChatMessage | None:
        def remove(rows: list[Row]) -> tuple[list[Row] | None, ChatMessage | None]:
            for index, row in enumerate(rows):
                if row.id == idx:
                    del rows[index]
                    return rows, row.chat()
            return None, None

        return await self._change_known(key, remove)

    async def _remove_index(self, key: str, idx: int) -> ChatMessage | None:
        def remove(rows: list[Row]) -> tuple[list[Row] | None, ChatMessage | None]:
            if idx >= len(rows):
                return None, None
            row = rows.pop(idx)
            return rows, row.chat()

        return await self._change_known(key, remove)

    async def _remove(self, key: str, status: MessageStatus | None) -> None:
        await self._restored()
        await self._session(key).remove(_archived(status))

    async def _remove_key(self, key: str) -> list[ChatMessage] | None:
        await self._restored()
        session = await self._session(key).known()
        if session is None:
            return None
        removed = [row.chat() for row in await self._rows(key)]
        if session.config.blocks:
            # A Memory's, whose blocks keep what they know.
            await self._session(key).remove()
        else:
            await self._demand_client().delete_session(self.session_id(key))
        return removed

    async def _leave(self, key: str, n: int, archive: bool) -> list[ChatMessage]:
        def leave(rows: list[Row]) -> tuple[list[Row] | None, list[ChatMessage]]:
            left: list[Row] = []
            kept: list[Row] = []
            for row in rows:
                if row.archived or (n >= 0 and len(left) == n):
                    kept.append(row)
                    continue
                left.append(row)
                if archive:
                    kept.append(Row(row.message, archived=True, id=row.id))
            return (kept if left else None), [row.chat() for row in left]

        return await self._change_known(key, leave) or []

    async def _change_known(
        self, key: str, change: Callable[[list[Row]], tuple[list[Row] | None, Result]]
    ) -> Result | None:
        await self._restored()
        session = self._session(key)
        return await session.change(change) if await session.known() is not None else None

    async def _keys(self, empty: bool) -> list[str]:
        await self._restored()
        prefix = f"@{self._space}@"
        found: list[tuple[int, str]] = []
        async for session in self._demand_client().list_sessions():
            name = session.session_id
            if name.startswith(prefix):
                name = name[len(prefix):]
            elif self._space or name.startswith("@"):
                continue
            if empty or session.active_count + session.archived_count > 0:
                found.append((session.create_time.ToNanoseconds(), name))
        return [name for _, name in sorted(found)]

    async def _dump_db_data(self) -> list[dict[str, Any]]:
        if self._client is None:
            return await super()._dump_db_data()
        return await _background.done(self._dump_rows())

    async def _dump_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "key": key,
                "timestamp": row.message.ingest_time.ToNanoseconds(),
                "role": row.message.role,
                "status": (MessageStatus.ARCHIVED if row.archived else MessageStatus.ACTIVE).value,
                "data": to_dump(row.message),
            }
            for key in await self._keys(empty=False)
            for row in await self._rows(key)
        ]


def _either(work: Coroutine[Any, Any, Result], settled: Callable[[Result], Any]) -> Any:
    """`work` as a coroutine on an event loop, what it comes to elsewhere."""
    if _background.in_event_loop():
        return _background.done(work)
    return settled(_background.wait(work))


def _archived(status: MessageStatus | None) -> bool | None:
    return None if status is None else status == MessageStatus.ARCHIVED


_counting: LibraryMemory | None = None


def default_count() -> Count:
    """LlamaIndex' default way of counting."""
    global _counting
    if _counting is None:
        _counting = LibraryMemory(token_limit=1)
    return _counting._estimate_token_count
