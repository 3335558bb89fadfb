"""The storage of CrewAI's memory."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import grpc
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord, ScopeInfo

from memoryd import _item_calls, items
from memoryd._adapters.connections import connection_of
from memoryd._adapters.names import quoted
from memoryd._adapters.outcomes import ended
from memoryd._connection import Connection
from memoryd._ids import Id, id_text
from memoryd._steps import Steps, every
from memoryd.crewai import _records
from memoryd.errors import MemorydError
from memoryd.v1 import item_service_pb2 as wire

_MAX_OPERATIONS = 1000
_MOST_FOUND = 1000
Found = list[tuple[MemoryRecord, float]]


class MemorydStorage:
    """Keeps the records of a CrewAI memory in memoryd: a `StorageBackend`, for any number of
    threads and processes.

    The server ranks by the cosine of the embeddings, filters and scopes included, so that no
    search reads records that are not returned.
    """

    def __init__(
        self,
        memory_id: Id,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("crewai",),
        subject: str = "",
        **options: Any,
    ) -> None:
        """`memory_id` names the memory; objects with the same one share it. `target` and `options`
        are as for memoryd.Client; without `target` the address comes from the environment.
        `namespace` is the path below which the memory is.

        `subject` is the user whose data the records are; erasing it deletes them. It has to be the
        same for each object of this memory."""
        self._connection = connection_of(target, options)
        self._path = (*namespace, quoted(id_text(memory_id)))
        self._config = wire.NamespaceConfig(subject=subject) if subject else None

    def save(self, records: list[MemoryRecord]) -> None:
        """Stores records, up to 1,000 whole or not at all. One with the id of a stored record
        replaces it. Raises EmbeddingDimensionMismatchError for an embedding of another size than
        the memory has."""
        self._connection.client._steps(self._saved(records))

    def update(self, record: MemoryRecord) -> None:
        """Replaces the record with the same id, or stores it."""
        self.save([record])

    def touch_records(self, record_ids: list[str]) -> None:
        """Sets when records were accessed last to now."""
        self._connection.client._steps(self._touched(record_ids))

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> Found:
        """Returns the records most like an embedding, and the cosine of each, the best first.
        Records pass that are in the scope or below it, of one of the categories, and whose metadata
        has all these values."""
        filters = _records.filters_of(scope_prefix, metadata_filter, categories)
        return self._connection.client._steps(
            self._found(query_embedding, filters, limit, min_score))

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime.datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Deletes the records for which all holds that is given, and returns their number. An empty
        list of ids is none."""
        filters = _records.filters_of(scope_prefix, metadata_filter, categories)
        return self._connection.client._steps(self._deleted(filters, record_ids, older_than))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Returns a record with its embedding; None if there is none."""
        if not record_id:
            return None
        item = self._connection.client.get_item(self._path, record_id, with_vector=True)
        return _records.read(item) if item else None

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Returns the records of a scope and below it, the newest first."""
        if limit <= 0 or offset < 0:
            return []
        return self._all(scope_prefix)[offset:offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Describes the records of a scope and below it."""
        scope = scope.rstrip("/") or "/"
        records = self._all(scope)
        return ScopeInfo(
            path=scope,
            record_count=len(records),
            categories=sorted({name for record in records for name in record.categories}),
            oldest_record=records[-1].created_at if records else None,
            newest_record=records[0].created_at if records else None,
            child_scopes=_children(records, scope))

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Returns the scopes right below one."""
        return _children(self._all(parent), parent)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Returns the categories of the records of a scope, and how many have each."""
        counts: dict[str, int] = {}
        for record in self._all(scope_prefix):
            for name in record.categories:
                counts[name] = counts.get(name, 0) + 1
        return counts

    def count(self, scope_prefix: str | None = None) -> int:
        """Returns how many records a scope has."""
        if not _records.filter_of(scope_prefix, None):
            return self._connection.client._steps(self._counted())
        return len(self._all(scope_prefix))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Deletes the records of a scope and below it; without one the whole memory, which may then
        have embeddings of another size."""
        if _records.filter_of(scope_prefix, None):
            self.delete(scope_prefix)
        else:
            self._connection.client.delete_namespace(self._path)

    async def asave(self, records: list[MemoryRecord]) -> None:
        """As save. A caller that is cancelled learns it after the write has ended."""
        await ended(self._connection.async_client._steps(self._saved(records)))

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> Found:
        """As search."""
        filters = _records.filters_of(scope_prefix, metadata_filter, categories)
        return await self._connection.async_client._steps(
            self._found(query_embedding, filters, limit, min_score))

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime.datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """As delete. A caller that is cancelled learns it after the write has ended."""
        filters = _records.filters_of(scope_prefix, metadata_filter, categories)
        return await ended(self._connection.async_client._steps(
            self._deleted(filters, record_ids, older_than)))

    def _saved(self, records: Iterable[MemoryRecord]) -> Steps[None]:
        # A batch has each key once: the last holds.
        last = {record.id: record for record in records}
        operations = [_records.stored(record) for record in last.values()]
        sizes = {len(record.embedding) for record in last.values() if record.embedding}
        if len(sizes) > 1:
            raise EmbeddingDimensionMismatchError(*sorted(sizes)[:2])
        for start in range(0, len(operations), _MAX_OPERATIONS):
            try:
                yield from self._batch(operations[start:start + _MAX_OPERATIONS])
            except MemorydError as error:
                raise (yield from self._explained(error, *sizes)) from error

    def _touched(self, record_ids: Sequence[str]) -> Steps[None]:
        left = list(dict.fromkeys(filter(None, record_ids)))
        now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
        while left:
            some = left[:_MAX_OPERATIONS]
            done = yield from self._batch([items.get(one, with_vector=True) for one in some])
            found = [item for item in map(items.item_of, (one.get for one in done)) if item]
            try:
                yield from self._batch([
                    _records.stored(_records.read(item).model_copy(update={"last_accessed": now}),
                                    item.wire.version) for item in found])
            except MemorydError as error:
                if error.reason != "VERSION_MISMATCH":
                    raise
                continue  # Another writer has changed one of them: read again.
            left = left[_MAX_OPERATIONS:]

    def _found(
        self, embedding: Sequence[float], filters: Sequence[_records.Filter], limit: int,
        min_score: float,
    ) -> Steps[Found]:
        if limit <= 0 or min_score > 1:
            return []
        if not len(embedding):
            size = yield from self._vector_size()
            if size:
                raise EmbeddingDimensionMismatchError(size, 0)
            return []
        found: dict[str, items.Item] = {}
        for one in filters:
            try:
                some = yield from self._ranked(embedding, one, limit, max(min_score, -1.0))
            except MemorydError as error:
                raise (yield from self._explained(error, len(embedding))) from error
            found.update((item.wire.key, item) for item in some)
        best = sorted(found.values(), key=lambda item: -(item.score or 0.0))[:limit]
        return [(_records.read(item), item.score or 0.0) for item in best]

    def _ranked(
        self, embedding: Sequence[float], filter: _records.Filter, limit: int, min_score: float
    ) -> Steps[list[items.Item]]:
        found: list[items.Item] = []
        while len(found) < limit:
            asked = min(limit - len(found), _MOST_FOUND)
            page: list[items.Item] = yield _item_calls.search_items(
                self._path, vector=embedding, filter=filter, limit=asked, offset=len(found),
                score_threshold=min_score, with_vectors=True)
            found.extend(page)
            if len(page) < asked:
                break
        return found

    def _deleted(
        self, filters: Sequence[_records.Filter], record_ids: Sequence[str] | None,
        older_than: datetime.datetime | None,
    ) -> Steps[int]:
        if record_ids is not None and older_than is None and filters == [{}]:
            keys = list(dict.fromkeys(filter(None, record_ids)))
        else:
            keys = yield from self._keys(filters, record_ids, older_than)
        count = 0
        for start in range(0, len(keys), _MAX_OPERATIONS):
            done = yield from self._batch(
                [items.delete(key) for key in keys[start:start + _MAX_OPERATIONS]])
            count += sum(one.delete.existed for one in done)
        return count

    def _keys(
        self, filters: Sequence[_records.Filter], record_ids: Sequence[str] | None,
        older_than: datetime.datetime | None,
    ) -> Steps[list[str]]:
        before = _records.aware(older_than) if older_than else None
        wanted = None if record_ids is None else set(record_ids)
        keys: dict[str, None] = {}
        for one in filters:
            for item in (yield from self._listed(one)):
                if before and _records.when(_records.read(item)) >= before:
                    continue
                if wanted is None or item.wire.key in wanted:
                    keys[item.wire.key] = None
        return list(keys)

    def _all(self, scope: str | None) -> list[MemoryRecord]:
        """All records of a scope and below it, the newest first, without their embeddings."""
        found = self._connection.client._steps(
            self._listed(_records.filter_of(scope, None)))
        return _records.newest_first(map(_records.read, found))

    def _listed(self, filter: _records.Filter) -> Steps[list[items.Item]]:
        return every(_item_calls.list_items(self._path, filter=filter, page_size=_MOST_FOUND))

    def _counted(self) -> Steps[int]:
        namespace = yield from self._namespace()
        return namespace.item_count if namespace else 0

    def _vector_size(self) -> Steps[int]:
        namespace = yield from self._namespace()
        return namespace.vector_size if namespace else 0

    def _namespace(self) -> Steps[wire.Namespace | None]:
        try:
            namespace: wire.Namespace = yield _item_calls.get_namespace(self._path)
        except MemorydError as error:
            if error.code == grpc.StatusCode.NOT_FOUND:
                return None
            raise
        return namespace

    def _batch(
        self, operations: Sequence[wire.ItemOperation]
    ) -> Steps[Sequence[wire.ItemOperationResult]]:
        if not operations:
            return []
        outcome, = yield _item_calls.batch_items(
            [items.batch(self._path, operations, config=self._config)])
        return items.results(outcome)

    def _explained(self, error: MemorydError, *sizes: int) -> Steps[Exception]:
        """CrewAI's own error for an embedding of another size; else the error itself."""
        if error.reason != "VECTOR_SIZE":
            return error
        stored = yield from self._vector_size()
        return EmbeddingDimensionMismatchError(stored, sizes[0] if sizes else 0)


def _children(records: Iterable[MemoryRecord], parent: str) -> list[str]:
    found = (_records.child(record.scope, parent) for record in records)
    return sorted({scope for scope in found if scope is not None})
