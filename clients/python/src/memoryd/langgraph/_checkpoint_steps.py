"""What the checkpointer does, as steps that either client makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoryd import _item_calls, items
from memoryd._steps import Steps
from memoryd.errors import MemorydError
from memoryd.items import Item
from memoryd.langgraph import _keys
from memoryd.langgraph._records import (
    Place,
    Record,
    is_small,
    packed,
    packed_write,
    pending_writes,
    record_of,
    unpacked,
)
from memoryd.v1 import item_service_pb2 as wire

# Of one batch. A server takes a request of 36 MiB by default, and an item of 32 goes alone.
_BATCH_BYTES = 16 << 20
_BATCH_OPERATIONS = 1000
# Values may be large, and a reply has at most 64 MiB.
_READ_AT_ONCE = 50
_PAGE = 1000


class CheckpointSteps:
    """The namespaces of a saver below `base`, read and written with `serde`."""

    def __init__(self, base: Sequence[str], serde: SerializerProtocol) -> None:
        self._base = tuple(base)
        self.serde = serde

    def place(self, config: RunnableConfig) -> Place:
        asked = config["configurable"]
        path = self._thread(asked["thread_id"])
        return Place((*path, _keys.quoted(asked.get("checkpoint_ns") or "")), asked["thread_id"])

    def places(self, config: RunnableConfig | None) -> Steps[list[Place]]:
        """Those of a config, which may leave out the checkpoint_ns, or of all threads."""
        if config and config["configurable"].get("checkpoint_ns") is not None:
            return [self.place(config)]
        threads = (*self._base, "threads")
        path = self._thread(config["configurable"]["thread_id"]) if config else threads
        escaped = [wire.NamespaceMatch(end=wire.NamespaceMatch.END_PREFIX, names=path)]
        pages = _item_calls.list_namespaces(matches=escaped)
        found = yield from _all(pages)
        # `*` in a name of a thread stands for any name there.
        return [Place(one, config["configurable"]["thread_id"] if config
                      else _keys.unquoted(one[len(threads)]))
                for one in found if one[:len(path)] == path]

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: Mapping[str, Any],
    ) -> Steps[RunnableConfig]:
        place = self.place(config)
        asked = config["configurable"]
        values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        within = {channel: value for channel, value in values.items()
                  if channel in versions and is_small(value)}
        kept: Any = {**checkpoint, "channel_values": within}
        record = Record(asked.get("checkpoint_ns") or "", asked.get("checkpoint_id"), kept,
                        get_checkpoint_metadata(config, metadata))
        blobs = [items.put(_keys.blob_key(channel, version),
                           packed(*self.serde.dumps_typed(values[channel])))
                 for channel, version in new_versions.items()
                 if channel in values and channel not in within]
        # The checkpoint itself comes last: before it, nothing finds the rest.
        yield from self._write(
            place, [*blobs, items.put(_keys.checkpoint_key(record.id), record.packed(self.serde))],
            [record])
        made: RunnableConfig = place.config(record.ns, record.id)
        return made

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Steps[None]:
        place, checkpoint_id = self.place(config), config["configurable"]["checkpoint_id"]
        made: dict[str, wire.ItemOperation] = {}
        for at, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, at)
            key = _keys.write_key(checkpoint_id, task_id, index)
            made[key] = items.put(
                key, packed_write(self.serde, task_path, task_id, index, channel, value),
                # A task that runs again stores its writes again; the first ones stay. What it says
                # of its end replaces what it said.
                expected_version=0 if index >= 0 else None)
        while made:
            try:
                yield from self._write(place, list(made.values()))
                return
            except MemorydError as error:
                if error.reason != "VERSION_MISMATCH":
                    raise
            prefix = f"{_keys.writes_prefix(checkpoint_id)}{_keys.quoted(task_id)}/"
            there = yield from _all(_item_calls.list_items(
                place.path, key_prefix=prefix, keys_only=True, page_size=_PAGE))
            stored = {item.wire.key for item in there}
            made = {key: operation for key, operation in made.items()
                    if key not in stored or not operation.put.HasField("expected_version")}

    def get_tuple(self, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
        place = self.place(config)
        found: list[Item]
        if checkpoint_id := get_checkpoint_id(config):
            found = yield from _read(place.path, [_keys.checkpoint_key(checkpoint_id)])
        else:
            page = yield _newest(place, page_size=1).first
            found = [Item(one) for one in page.items]
        if not found:
            return None
        loaded = yield from self.loaded(place, [record_of(found[0], self.serde)])
        return loaded[0]

    def loaded(self, place: Place, records: Sequence[Record]) -> Steps[list[CheckpointTuple]]:
        """The checkpoints, newest first, with their values and pending writes."""
        if not records:
            return []
        wanted = {key for record in records for key in record.blobs().values()}
        read = yield from _read(place.path, sorted(wanted))
        blobs = {item.wire.key: unpacked(item) for item in read}
        # `0` comes after `/`: all writes from those of the oldest to those of the newest.
        stored = yield from _all(_item_calls.list_items(
            place.path, start_key=_keys.writes_prefix(records[-1].id),
            end_key=_keys.writes_prefix(records[0].id)[:-1] + "0", page_size=_PAGE))
        writes: dict[str, list[list[Any]]] = {}
        for item in stored:
            writes.setdefault(item.wire.key.split("/")[1], []).append(unpacked(item))
        made = []
        for record in records:
            values = {channel: self.serde.loads_typed(tuple(blobs[key]))
                      for channel, key in record.blobs().items() if key in blobs}
            own = pending_writes(writes.get(_keys.quoted(record.id), []), self.serde)
            made.append(record.complete(place, values, own))
        return made

    def delete_thread(self, thread_id: str) -> Steps[None]:
        path = self._thread(thread_id)
        places = yield from self.places({"configurable": {"thread_id": thread_id}})
        for place in places:
            # Before the checkpoints, which name them, so that a call can be repeated.
            records = yield from self._records(place)
            yield from _send(self._runs(place, records, is_made=False))
        yield _item_calls.delete_namespace(path, recursive=True)

    def delete_for_runs(self, run_ids: Iterable[str]) -> Steps[None]:
        for run_id in run_ids:
            run = self._run(run_id)
            entries = yield from _all(_item_calls.list_items(run, page_size=_PAGE))
            gone: dict[tuple[str, str], set[str]] = {}
            for entry in entries:
                thread, ns, checkpoint_id = unpacked(entry)
                gone.setdefault((thread, ns), set()).add(checkpoint_id)
            for (thread, ns), ids in gone.items():
                place = Place((*self._base, "threads", thread, ns), _keys.unquoted(thread))
                records = yield from self._records(place)
                yield from self._remove(
                    place, [one for one in records if one.id in ids],
                    [one for one in records if one.id not in ids])

    def copy_thread(self, source: str, target: str) -> Steps[None]:
        path = self._thread(target)
        places = yield from self.places({"configurable": {"thread_id": source}})
        for place in places:
            copy = Place((*path, place.path[-1]), target)
            # The checkpoints come last, the oldest first: each is found with all of its own.
            for prefix in (_keys.BLOBS, _keys.WRITES, _keys.CHECKPOINTS):
                pages = _item_calls.list_items(place.path, key_prefix=prefix)
                call: Any = pages.first
                while call is not None:
                    page = yield call
                    call = pages.next(page)
                    found = [Item(one) for one in page.items]
                    records = ([record_of(one, self.serde) for one in found]
                               if prefix == _keys.CHECKPOINTS else [])
                    yield from self._write(
                        copy, [items.put(one.wire.key, one.value) for one in found], records)

    def prune(self, thread_ids: Iterable[str], strategy: str) -> Steps[None]:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy: must be 'keep_latest' or 'delete'; got {strategy!r}")
        for thread_id in thread_ids:
            if strategy == "delete":
                yield from self.delete_thread(thread_id)
                continue
            places = yield from self.places({"configurable": {"thread_id": thread_id}})
            for place in places:
                records = yield from self._records(place)
                kept = yield from self._needed(place, records)
                yield from self._remove(
                    place, [one for one in records if one.id not in kept],
                    [one for one in records if one.id in kept])

    def _needed(self, place: Place, records: Sequence[Record]) -> Steps[set[str]]:
        """The newest checkpoint, and those that its delta channels are rebuilt from."""
        by_id = {record.id: record for record in records}
        kept: set[str] = set()
        record = records[0] if records else None
        deltas = set(record.metadata.get("counters_since_delta_snapshot") or ()) if record else ()
        while record is not None:
            kept.add(record.id)
            if deltas:
                loaded = yield from self.loaded(place, [record])
                deltas = {one for one in deltas
                          if one not in loaded[0].checkpoint["channel_values"]}
            record = by_id.get(record.parent or "") if deltas else None
        return kept

    def _remove(
        self, place: Place, gone: Sequence[Record], kept: Sequence[Record]
    ) -> Steps[None]:
        if not gone:
            return
        ids = {_keys.quoted(record.id) for record in gone}
        # Only what these consist of: a checkpoint that is stored meanwhile has others.
        blobs = {key for record in gone for key in record.blobs().values()}
        blobs.difference_update(*(record.blobs().values() for record in kept))
        writes = yield from _all(_item_calls.list_items(
            place.path, key_prefix=_keys.WRITES, keys_only=True, page_size=_PAGE))
        keys = [
            *(_keys.checkpoint_key(record.id) for record in gone),
            *(one.wire.key for one in writes if one.wire.key.split("/")[1] in ids),
            *sorted(blobs)]
        yield from self._write(place, [items.delete(key) for key in keys])
        yield from _send(self._runs(place, gone, is_made=False))

    def _records(self, place: Place) -> Steps[list[Record]]:
        found = yield from _all(_newest(place, page_size=_PAGE))
        return [record_of(one, self.serde) for one in found]

    def _write(
        self,
        place: Place,
        operations: Sequence[wire.ItemOperation],
        records: Sequence[Record] = (),
    ) -> Steps[None]:
        """Makes the operations, at once where one batch holds them, else in their order. With the
        last ones it notes which runs the records are of."""
        *before, last = _split(operations)
        for some in before:
            yield from _send([items.batch(place.path, some)])
        runs = self._runs(place, records, is_made=True)
        yield from _send([*([items.batch(place.path, last)] if last else []), *runs])

    def _runs(
        self, place: Place, records: Iterable[Record], *, is_made: bool
    ) -> list[wire.ItemBatch]:
        thread, ns = place.path[-2:]
        made: dict[str, dict[str, wire.ItemOperation]] = {}
        for record in records:
            if record.run_id is not None:
                key = _keys.run_key(thread, ns, record.id)
                made.setdefault(record.run_id, {})[key] = (
                    items.put(key, packed(thread, ns, record.id)) if is_made
                    else items.delete(key))
        return [items.batch(self._run(run_id), some)
                for run_id, entries in made.items() for some in _split(list(entries.values()))]

    def _thread(self, thread_id: Any) -> tuple[str, ...]:
        return (*self._base, "threads", _keys.thread_name(thread_id))

    def _run(self, run_id: Any) -> tuple[str, ...]:
        return (*self._base, "runs", _keys.quoted(str(run_id)))


class Listing:
    """The checkpoints of a list, a page after the other."""

    def __init__(
        self,
        steps: CheckpointSteps,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        self._steps = steps
        self._config = config
        self._filter = filter or {}
        self._id = get_checkpoint_id(config) if config else None
        self._before = get_checkpoint_id(before) if before else None
        self._left = limit
        self._places: list[Place] | None = None
        self._call: Any = None

    def page(self) -> Steps[list[CheckpointTuple]]:
        """The next checkpoints. Empty: there are no more."""
        if self._places is None:
            self._places = yield from self._steps.places(self._config)
            self._places.reverse()
        while self._places and (self._left is None or self._left > 0):
            place = self._places[-1]
            size = _READ_AT_ONCE if self._left is None or self._filter else self._left
            pages = _newest(
                place, page_size=min(size, _READ_AT_ONCE), checkpoint_id=self._id or "",
                end_key=_keys.checkpoint_key(self._before) if self._before else "")
            page = yield self._call or pages.first
            self._call = pages.next(page)
            if self._call is None:
                self._places.pop()
            records = [record_of(Item(one), self._steps.serde) for one in page.items]
            passing = [one for one in records if self._passes(one)][:self._left]
            if passing:
                if self._left is not None:
                    self._left -= len(passing)
                loaded = yield from self._steps.loaded(place, passing)
                return loaded
        return []

    def _passes(self, record: Record) -> bool:
        metadata: Mapping[str, Any] = record.metadata
        return (not self._id or record.id == self._id) and all(
            metadata.get(name) == value for name, value in self._filter.items())


def _newest(place: Place, *, page_size: int, checkpoint_id: str = "", end_key: str = "") -> Any:
    prefix = _keys.checkpoint_key(checkpoint_id) if checkpoint_id else _keys.CHECKPOINTS
    return _item_calls.list_items(
        place.path, order="key-descending", key_prefix=prefix, end_key=end_key,
        page_size=page_size)


def _all(pages: Any) -> Steps[list[Any]]:
    found: list[Any] = []
    call = pages.first
    while call is not None:
        page = yield call
        found.extend(pages.items(page))
        call = pages.next(page)
    return found


def _read(path: Sequence[str], keys: Sequence[str]) -> Steps[list[Item]]:
    """The items of these keys that there are."""
    found: list[Item] = []
    for start in range(0, len(keys), _READ_AT_ONCE):
        asked = [items.get(key) for key in keys[start:start + _READ_AT_ONCE]]
        outcomes = yield _item_calls.batch_items([items.batch(path, asked)])
        found.extend(Item(result.get.item) for result in items.results(outcomes[0])
                     if result.get.HasField("item"))
    return found


def _send(batches: Sequence[wire.ItemBatch]) -> Steps[None]:
    if batches:
        outcomes = yield _item_calls.batch_items(batches)
        for outcome in outcomes:
            items.results(outcome)


def _split(operations: Sequence[wire.ItemOperation]) -> list[list[wire.ItemOperation]]:
    """The operations, in order, as batches hold them; at least one list."""
    made: list[list[wire.ItemOperation]] = [[]]
    size = 0
    for operation in operations:
        added = operation.ByteSize()
        if made[-1] and (len(made[-1]) == _BATCH_OPERATIONS or size + added > _BATCH_BYTES):
            made.append([])
            size = 0
        made[-1].append(operation)
        size += added
    return made
