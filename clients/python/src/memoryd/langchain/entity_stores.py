"""Stores of entities."""

from __future__ import annotations

import uuid
from time import time
from typing import Any

from langchain_classic.memory import entity as library
from pydantic import Field, PrivateAttr

from memoryd._ids import Id, id_text
from memoryd.langchain.connection import Connection
from memoryd.langchain.state import State, Values

BaseEntityStore = library.BaseEntityStore


class EntityStore(library.InMemoryEntityStore):
    """The entities of a session of memoryd, with the behaviour of LangChain's store in memory. All
    together may be as large as a request. `store` is a copy of all entities; assigning to it
    replaces them."""

    session_id: str = Field(default_factory=lambda: f"{uuid.uuid4().hex}/entities")

    _state: State = PrivateAttr()

    def __init__(
        self,
        session_id: Id | None = None,
        *,
        target: str | Connection | None = None,
        **fields: Any,
    ) -> None:
        """Without `session_id` it is a new session. `target` is memoryd's address, or a
        Connection."""
        if session_id is not None:
            fields["session_id"] = id_text(session_id)
        super().__init__(**fields)
        self._state = State(self.session_id, target)
        if "store" in fields:
            self.store = fields["store"]

    def __getattribute__(self, name: str) -> Any:
        # Pydantic keeps a field's value in the object; a property would hide the field.
        if name == "store" and self.__pydantic_private__:
            return self._state.read()[0]
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "store":
            self._state.change(lambda values: _replace(values, value))

    def set(self, key: str, value: str | None) -> None:
        self._state.change(lambda values: values.update({key: value}))

    def delete(self, key: str) -> None:
        """Deletes an entity. Raises KeyError if there is none."""
        self._state.change(lambda values: values.pop(key))

    def clear(self) -> None:
        self._state.change(lambda values: values.clear())


InMemoryEntityStore = EntityStore


class SQLiteEntityStore(library.SQLiteEntityStore):
    """LangChain's SQLite store by its arguments and behaviour. The entities are in memoryd, in a
    session named by file, table and session. `:memory:` is a new session each time. So is a store
    without `session_id` and `db_file`, because all clients of the server would share a default."""

    _state: State = PrivateAttr()

    def __init__(
        self,
        session_id: Id | None = None,
        db_file: str | None = None,
        table_name: str = "memory_store",
        *,
        target: str | Connection | None = None,
    ) -> None:
        library.BaseEntityStore.__init__(self)
        is_own = db_file == ":memory:" or (session_id is None and db_file is None)
        session_id = "default" if session_id is None else id_text(session_id)
        if not table_name.isidentifier() or not session_id.isidentifier():
            raise ValueError("Table name and session ID must be valid Python identifiers.")
        self.session_id = session_id
        self.table_name = table_name
        base = uuid.uuid4().hex if is_own else db_file or "entities.db"
        self._state = State(f"{base}/{self.full_table_name}", target)

    def get(self, key: str, default: str | None = None) -> str | None:
        found: str | None = self._state.read()[0].get(key, default)
        return found

    def set(self, key: str, value: str | None) -> None:
        """Sets the entity. Deletes it if the value is empty."""
        if not value:
            self.delete(key)
        else:
            self._state.change(lambda values: values.update({key: value}))

    def delete(self, key: str) -> None:
        self._state.change(lambda values: values.pop(key, None))

    def exists(self, key: str) -> bool:
        return key in self._state.read()[0]

    def clear(self) -> None:
        self._state.change(lambda values: values.clear())


class _ExpiringEntityStore(library.BaseEntityStore):
    """Entities that are forgotten a while after they were set or read. Without `session_id` and
    `key_prefix` the session is a new one: a default would be everybody's on the server."""

    session_id: str = "default"
    key_prefix: str = "memory_store"
    ttl: int | None = 60 * 60 * 24
    recall_ttl: int | None = 60 * 60 * 24 * 3

    _state: State = PrivateAttr()

    def __init__(
        self,
        session_id: Id | None,
        key_prefix: str | None,
        ttl: int | None,
        recall_ttl: int | None,
        target: str | Connection | None,
    ) -> None:
        library.BaseEntityStore.__init__(self)
        own = f":{uuid.uuid4().hex}" if session_id is None and key_prefix is None else ""
        self.session_id = "default" if session_id is None else id_text(session_id)
        self.key_prefix = "memory_store" if key_prefix is None else key_prefix
        self.ttl = ttl
        self.recall_ttl = recall_ttl or ttl
        self._state = State(f"{self.full_key_prefix}{own}", target)

    @property
    def full_key_prefix(self) -> str:
        return f"{self.key_prefix}:{self.session_id}"

    def get(self, key: str, default: str | None = None) -> str | None:
        """The value, which from now on lives for `recall_ttl`; else the default, else ""."""

        def read(values: Values) -> str | None:
            entity = _living(values).get(key)
            if entity is None:
                return default or ""
            entity["until"] = _until(self.recall_ttl, entity["until"])
            value: str = entity["value"]
            return value

        return self._state.change(read)

    def set(self, key: str, value: str | None) -> None:
        """Deletes the entity when the value is empty."""
        if not value:
            self.delete(key)
            return
        entity = {"value": value, "until": _until(self.ttl, None)}
        self._state.change(lambda values: _living(values).update({key: entity}))

    def delete(self, key: str) -> None:
        self._state.change(lambda values: _living(values).pop(key, None))

    def exists(self, key: str) -> bool:
        return key in _living(self._state.read()[0])

    def clear(self) -> None:
        self._state.change(lambda values: values.clear())


class RedisEntityStore(_ExpiringEntityStore, library.RedisEntityStore):
    """LangChain's Redis store by its arguments and behaviour, including times to live. The entities
    are in memoryd, in the session `<key_prefix>:<session_id>`, or in a new one if neither is given.
    `url` is not used."""

    redis_client: Any = None

    def __init__(
        self,
        session_id: Id | None = None,
        url: str = "",
        key_prefix: str | None = None,
        ttl: int | None = 60 * 60 * 24,
        recall_ttl: int | None = 60 * 60 * 24 * 3,
        *,
        target: str | Connection | None = None,
    ) -> None:
        super().__init__(session_id, key_prefix, ttl, recall_ttl, target)


class UpstashRedisEntityStore(_ExpiringEntityStore, library.UpstashRedisEntityStore):
    """LangChain's Upstash store, implemented as RedisEntityStore. `url` and `token` are not used.
    The library's own cannot be constructed, and its `clear` may never end."""

    def __init__(
        self,
        session_id: Id | None = None,
        url: str = "",
        token: str = "",
        key_prefix: str | None = None,
        ttl: int | None = 60 * 60 * 24,
        recall_ttl: int | None = 60 * 60 * 24 * 3,
        *,
        target: str | Connection | None = None,
    ) -> None:
        super().__init__(session_id, key_prefix, ttl, recall_ttl, target)


def _replace(values: Values, by: Values) -> None:
    values.clear()
    values.update(by)


def _until(seconds: int | None, otherwise: float | None) -> float | None:
    """When something ends that now gets so many seconds; without any, as it was."""
    return otherwise if seconds is None else time() + seconds


def _living(values: Values) -> Values:
    """Drops what has ended."""
    now = time()
    for key in [key for key, entity in values.items()
                if entity["until"] is not None and entity["until"] <= now]:
        del values[key]
    return values
