"""A memory store of Strands."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from strands.memory import ExtractionConfig, MemoryEntry, MemoryStore, SearchOptions

from memoryd._adapters.connections import connection_of
from memoryd._adapters.names import quoted
from memoryd._adapters.outcomes import ended
from memoryd._connection import Connection
from memoryd._ids import Id, id_text
from memoryd.errors import MemorydError
from memoryd.v1 import item_service_pb2 as wire

# In the metadata of what was found, as Strands' own store for Bedrock has it.
_SCORE = "_relevance_score"
_DEFAULT_RESULTS = 10
_MOST_RESULTS = 1000


class MemorydMemoryStore(MemoryStore):
    """Keeps what agents remember in memoryd, for any number of agents and processes:
    `Agent(memory_manager=MemoryManager(stores=[MemorydMemoryStore("ann")]))`.

    Searches compare words, and meanings where the server has word vectors. What is added twice is
    stored once.
    """

    def __init__(
        self,
        memory_id: Id,
        target: str | Connection | None = None,
        *,
        name: str = "",
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: ExtractionConfig | bool | None = None,
        namespace: Sequence[str] = ("strands-memory",),
        subject: str = "",
        **options: Any,
    ) -> None:
        """`memory_id` names the memory; stores with the same one share it. `name` is what tools
        call the store, else `memory_id`. `target` and `options` are as for memoryd.Client; without
        `target` the address comes from the environment. `namespace` is the path below which the
        memory is. `subject` is the user whose data it is, the same for each object of this memory;
        erasing it deletes the memory. The others are Strands' own."""
        _check_limit("max_search_results", max_search_results)
        memory_name = id_text(memory_id)
        self.name = name or memory_name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = writable
        self.extraction = extraction
        self._connection = connection_of(target, options)
        self._path = (*namespace, quoted(memory_name))
        self._config = wire.NamespaceConfig(subject=subject) if subject else None

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Returns the entries that answer the query, the best first, at most `max_search_results`
        of the options or of the store, else 10. `_relevance_score` in the metadata is the server's
        score. A query without words finds nothing."""
        asked = (options or {}).get("max_search_results")
        _check_limit("options.max_search_results", asked)
        if not query.strip():
            return []
        limit = asked or self.max_search_results or _DEFAULT_RESULTS
        found = await self._connection.async_client.search_items(
            self._path, query=query, limit=min(limit, _MOST_RESULTS))
        return [
            MemoryEntry(item.value["content"],
                        metadata={**(item.value["metadata"] or {}), _SCORE: item.score})
            for item in found if item.score is not None]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> str:
        """Stores a text, and returns its key. One that is stored keeps its metadata. Raises
        ValueError if the store is not writable or the text is blank, and TypeError for metadata
        that JSON does not have."""
        if not self.writable:
            raise ValueError("MemorydMemoryStore: the store is not writable; give it writable=True")
        if not content.strip():
            raise ValueError("MemorydMemoryStore: content must not be empty")
        key = hashlib.sha256(content.strip().encode("utf-8", "surrogatepass")).hexdigest()
        try:
            await ended(self._connection.async_client.put_item(
                self._path, key, {"content": content, "metadata": metadata}, expected_version=0,
                search=["content"], config=self._config))
        except MemorydError as error:
            if error.reason != "VERSION_MISMATCH":
                raise
        return key


def _check_limit(name: str, limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ValueError(f"MemorydMemoryStore: {name} must be at least 1")
