"""LangGraph's store."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from memoryd import _calls, _item_calls, items
from memoryd._connection import Connection
from memoryd._steps import Steps
from memoryd.errors import MemorydError
from memoryd.v1 import item_service_pb2 as wire

_Key = tuple[tuple[str, ...], str]
_MAX_NAMES = 16
_MAX_OPERATIONS = 1000
# Of one call. A server takes a request of 36 MiB by default, and an item of 32 goes alone.
_MAX_BATCHES = 1000
_MAX_OF_CALL = 10_000
_MAX_BYTES = 16 << 20
_MOST_FOUND = 1000
_ENDS = {"prefix": wire.NamespaceMatch.END_PREFIX, "suffix": wire.NamespaceMatch.END_SUFFIX}


class MemorydStore(BaseStore):
    """Keeps the items of LangGraph's store in memoryd.

    Searches with a query compare words, and meanings where the server has word vectors; without
    `index` they look at all texts of a value. Those without one return what was stored last first.
    Calls that coroutines of one event loop make at the same time are sent as one.
    """

    supports_ttl = True

    def __init__(
        self,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("langgraph",),
        index: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
        **options: Any,
    ) -> None:
        """`target` and `options` are as for memoryd.Client; without `target` the address comes from
        the environment. `namespace` is the path below which the items are. `index` has the paths of
        the fields that searches look at, where a put does not say. `ttl` is as for LangGraph's
        other stores; the server sweeps by itself."""
        self._connection = (
            target if isinstance(target, Connection) else Connection(target, **options))
        self._base = (*namespace, "store")
        self._index = None if index is None else list(index)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._connection.client._steps(self._results(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._connection.async_client._steps(self._results(list(ops)))

    def _results(self, ops: list[Op]) -> Steps[list[Result]]:
        """Reads see the state before the puts."""
        batches, places = self._batches(ops)
        found: dict[int, Result] = {}
        for at, op in enumerate(ops):
            if isinstance(op, SearchOp):
                found[at] = yield from self._search(op)
            elif isinstance(op, ListNamespacesOp):
                found[at] = yield from self._namespaces(op)
        results: list[Sequence[wire.ItemOperationResult]] = []
        for some in _calls_of(batches):
            outcomes = yield _item_calls.batch_items(some)
            for batch, outcome in zip(some, outcomes, strict=True):
                if outcome.error.reason in _item_calls.TOO_MUCH_AT_ONCE:
                    results.append((yield from _in_parts(batch)))
                else:
                    results.append(items.results(outcome))
        settled = self._settled(ops, places, results)
        return [found.get(at, result) for at, result in enumerate(settled)]

    def _batches(
        self, ops: Sequence[Op]
    ) -> tuple[list[wire.ItemBatch], dict[int, tuple[int, int]]]:
        """A batch for each namespace, more where one does not hold all, and where in them each
        operation is. Of puts of one key the last holds."""
        puts: dict[_Key, int] = {}
        for at, op in enumerate(ops):
            if not isinstance(op, GetOp | PutOp | SearchOp | ListNamespacesOp):
                raise ValueError(f"Unknown operation type: {type(op)}")
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = at
        last = set(puts.values())
        batches: list[wire.ItemBatch] = []
        sizes: list[int] = []
        current: dict[tuple[str, ...], int] = {}
        places: dict[int, tuple[int, int]] = {}
        # Reads first: those of a batch may not see the puts of one before it.
        ordered = sorted(range(len(ops)), key=lambda at: isinstance(ops[at], PutOp))
        for at in ordered:
            op = ops[at]
            if not (isinstance(op, GetOp) or at in last) or not isinstance(op, GetOp | PutOp):
                continue
            index = current.get(op.namespace)
            operation = self._operation(op)
            size = operation.ByteSize()
            if (index is None or len(batches[index].operations) == _MAX_OPERATIONS
                    or sizes[index] + size > _MAX_BYTES):
                index = current[op.namespace] = len(batches)
                batches.append(items.batch(self._path(op.namespace), []))
                sizes.append(0)
            places[at] = index, len(batches[index].operations)
            batches[index].operations.append(operation)
            sizes[index] += size
        return batches, places

    def _operation(self, op: GetOp | PutOp) -> wire.ItemOperation:
        if isinstance(op, GetOp):
            return items.get(op.key, refresh_ttl=op.refresh_ttl)
        if op.value is None:
            return items.delete(op.key)
        ttl = None if op.ttl is None else datetime.timedelta(minutes=op.ttl)
        search = self._index if op.index is None else op.index or []
        return items.put(op.key, dict(op.value), ttl=ttl, search=search)

    @staticmethod
    def _settled(
        ops: Sequence[Op],
        places: dict[int, tuple[int, int]],
        results: Sequence[Sequence[wire.ItemOperationResult]],
    ) -> list[Result]:
        made: list[Result] = [None] * len(ops)
        for at, op in enumerate(ops):
            if isinstance(op, GetOp):
                index, inner = places[at]
                item = items.item_of(results[index][inner].get)
                if item is not None:
                    made[at] = Item(value=item.value, key=op.key, namespace=op.namespace,
                                    created_at=item.created, updated_at=item.updated)
        return made

    def _search(self, op: SearchOp) -> Steps[list[SearchItem]]:
        found: list[SearchItem] = []
        most = _MOST_FOUND
        while len(found) < op.limit:
            asked = min(op.limit - len(found), most)
            page: list[items.Item]
            try:
                page = yield _item_calls.search_items(
                    self._path(op.namespace_prefix), query=op.query or "", filter=op.filter,
                    limit=asked, offset=op.offset + len(found), refresh_ttl=op.refresh_ttl)
            except MemorydError as error:
                if error.reason not in _item_calls.TOO_MUCH_AT_ONCE or asked == 1:
                    raise
                most = (asked + 1) // 2
                continue
            found.extend(
                SearchItem(self._own(one.path), one.wire.key, one.value, one.created, one.updated,
                           one.score)
                for one in page)
            if len(page) < asked:
                break
        return found

    def _namespaces(self, op: ListNamespacesOp) -> Steps[list[tuple[str, ...]]]:
        matches = [wire.NamespaceMatch(end=wire.NamespaceMatch.END_PREFIX, names=self._base)]
        for condition in op.match_conditions or ():
            if condition.match_type not in _ENDS:
                raise ValueError(f"Unsupported match type: {condition.match_type}")
            path = tuple(condition.path)
            # No condition reaches into the names above the store.
            if condition.match_type == "suffix":
                matches.append(wire.NamespaceMatch(end=_ENDS["suffix"], names=path))
                path = ("*",) * len(path)
            matches.append(
                wire.NamespaceMatch(end=_ENDS["prefix"], names=(*self._base, *path)))
        depth = 0 if op.max_depth is None else min(len(self._base) + op.max_depth, _MAX_NAMES)
        pages = _item_calls.list_namespaces(matches=matches, max_depth=depth)
        found: list[tuple[str, ...]] = []
        end = op.offset + op.limit
        call: _calls.Call[Any] | None = pages.first
        while call is not None and len(found) < end:
            page = yield call
            # `*` in a name above the store stands for any name there.
            found.extend(self._own(path) for path in pages.items(page)
                         if path[:len(self._base)] == self._base)
            call = pages.next(page)
        return found[op.offset:end]

    def _path(self, namespace: Sequence[str]) -> tuple[str, ...]:
        return (*self._base, *namespace)

    def _own(self, path: tuple[str, ...]) -> tuple[str, ...]:
        return path[len(self._base):]


def _calls_of(batches: Sequence[wire.ItemBatch]) -> list[list[wire.ItemBatch]]:
    """The batches, in order, as calls hold them. The second of one namespace has a later call: its
    writes are not seen by reads of the first, if those are made again."""
    made: list[list[wire.ItemBatch]] = []
    operations = size = 0
    there: set[tuple[str, ...]] = set()
    for batch in batches:
        operations += len(batch.operations)
        size += batch.ByteSize()
        path = tuple(batch.namespace)
        if (not made or len(made[-1]) == _MAX_BATCHES or operations > _MAX_OF_CALL
                or size > _MAX_BYTES or path in there):
            made.append([])
            operations, size, there = len(batch.operations), batch.ByteSize(), set()
        made[-1].append(batch)
        there.add(path)
    return made


def _in_parts(batch: wire.ItemBatch) -> Steps[list[wire.ItemOperationResult]]:
    """The results of a batch, of which nothing was done because a reply does not hold all that it
    reads. The writes stay together, behind the reads."""
    reads = [one for one in batch.operations if one.HasField("get")]
    writes = list(batch.operations[len(reads):])
    results: list[wire.ItemOperationResult] = []
    at_once = max(1, (len(reads) + 1) // 2)
    while len(results) < len(reads):
        some = reads[len(results):len(results) + at_once]
        try:
            outcomes = yield _item_calls.batch_items([items.batch(batch.namespace, some)])
            results.extend(items.results(outcomes[0]))
        except MemorydError as error:
            if error.reason not in _item_calls.TOO_MUCH_AT_ONCE or len(some) == 1:
                raise
            at_once = (len(some) + 1) // 2
    if writes:
        outcomes = yield _item_calls.batch_items([items.batch(batch.namespace, writes)])
        results.extend(items.results(outcomes[0]))
    return results
