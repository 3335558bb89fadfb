"""The memory service of Google's Agent Development Kit."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session

from memoryd import items
from memoryd._adapters.connections import connection_of
from memoryd._adapters.names import quoted
from memoryd._adapters.outcomes import ended
from memoryd._connection import Connection
from memoryd.v1 import item_service_pb2 as wire

_MAX_OPERATIONS = 1000
_UNKNOWN = ""


class MemorydMemoryService(BaseMemoryService):
    """Keeps ADK's memories in memoryd: the contents of events, and what is added by hand. Searches
    compare words, and meanings where the server has word vectors."""

    def __init__(
        self,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("adk",),
        limit: int = 10,
        subjects: bool = False,
        **options: Any,
    ) -> None:
        """`target` and `options` are as for memoryd.Client; without `target` the address comes from
        the environment. `namespace` is the path below which the memories are. `limit` is the most
        that a search returns. With `subjects` memories are the data of their user, see
        Client.erase_subject."""
        self._connection = connection_of(target, options)
        self._base = (*namespace, "memory")
        self._limit = limit
        self._subjects = subjects

    async def add_session_to_memory(self, session: Session) -> None:
        """Remembers all events of a session that have contents. Twice is as once."""
        await self._remember(session.app_name, session.user_id, session.id, session.events, None)

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers events, with `custom_metadata` on each."""
        await self._remember(app_name, user_id, session_id or _UNKNOWN, events, custom_metadata)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers entries. One with the id of a stored entry replaces it."""
        await self._store(app_name, user_id, [
            entry.model_copy(update={
                "id": entry.id or str(uuid.uuid4()),
                "custom_metadata": {**entry.custom_metadata, **(custom_metadata or {})}})
            for entry in memories])

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Returns the memories of a user that answer the query, the best first."""
        if not query.strip():
            return SearchMemoryResponse()
        found = await self._connection.async_client.search_items(
            self._path(app_name, user_id), query=query, limit=self._limit)
        return SearchMemoryResponse(memories=[
            MemoryEntry.model_validate(item.value["memory"])
            for item in found if item.score is not None])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forgets one. It is not remembered again with its session."""
        if memory_id:
            await self._write(app_name, user_id, [
                items.put(_key(memory_id), {"deleted": True}, search=[])])

    async def _remember(
        self, app_name: str, user_id: str, session_id: str, events: Iterable[Event],
        custom_metadata: Mapping[str, object] | None,
    ) -> None:
        entries = [
            MemoryEntry(
                id=event.id, content=event.content, author=event.author,
                timestamp=datetime.datetime.fromtimestamp(event.timestamp).isoformat(),
                custom_metadata=dict(custom_metadata or {}))
            for event in events if event.content and event.content.parts]
        await self._store(app_name, user_id, entries, session_id)

    async def _store(
        self, app_name: str, user_id: str, entries: Sequence[MemoryEntry],
        session_id: str = _UNKNOWN,
    ) -> None:
        by_key = {_key(entry.id or ""): entry for entry in entries}
        keys = list(by_key)
        for start in range(0, len(keys), _MAX_OPERATIONS):
            some = keys[start:start + _MAX_OPERATIONS]
            gone = await self._forgotten(app_name, user_id, some)
            await self._write(app_name, user_id, [
                items.put(key, _value(by_key[key], session_id), search=["text"])
                for key in some if key not in gone])

    async def _forgotten(self, app_name: str, user_id: str, keys: Sequence[str]) -> set[str]:
        outcome, = await self._connection.async_client.batch_items(
            [items.batch(self._path(app_name, user_id), [items.get(key) for key in keys])])
        found = (items.item_of(result.get) for result in items.results(outcome))
        return {item.wire.key for item in found if item and item.value.get("deleted")}

    async def _write(
        self, app_name: str, user_id: str, operations: Sequence[wire.ItemOperation]
    ) -> None:
        if not operations:
            return
        config = wire.NamespaceConfig(subject=user_id) if self._subjects else None
        outcome, = await ended(self._connection.async_client.batch_items(
            [items.batch(self._path(app_name, user_id), operations, config=config)]))
        items.results(outcome)

    def _path(self, app_name: str, user_id: str) -> tuple[str, ...]:
        return (*self._base, quoted(app_name), quoted(user_id))


def _key(memory_id: str) -> str:
    return quoted(memory_id)


def _value(entry: MemoryEntry, session_id: str) -> dict[str, Any]:
    parts = entry.content.parts or []
    return {
        "memory": entry.model_dump(mode="json", exclude_none=True),
        "text": " ".join(part.text for part in parts if part.text),
        "session": session_id,
    }
