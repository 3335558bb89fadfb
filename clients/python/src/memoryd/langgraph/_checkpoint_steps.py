"""What the checkpointer does, as steps that either client makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoryd import _item_calls, items
from memoryd._adapters import names
from memoryd._steps import Steps, every
from memoryd.errors import MemorydError
from memoryd.items import Item
from memoryd.langgraph import _keys
from memoryd.langgraph._delta_history import DeltaHistory
from memoryd.langgraph._reading import PAGE, Reading, blobs_of, read
from memoryd.langgraph._records import (
    Found,
    Place,
    Record,
    Typed,
    is_plain,
    packed,
    packed_write,
    record_of,
    unpacked,
)
from memoryd.v1 import item_service_pb2 as wire

# Of one batch. A server takes a request of 36 MiB by default, and an item of 32 goes alone.
_BATCH_BYTES = 16 << 20
_BATCH_OPERATIONS = 1000
# Of a value that a checkpoint has within itself, so that reading it takes no further call.
_WITHIN_BYTES = 4096
# Of one that was stored before, and is not stored again when it turns out larger now: not every
# serializer makes the same bytes twice.
_STAYS_WITHIN_BYTES = 2 * _WITHIN_BYTES
_KNOWN_APART = 10_000


class Apart:
    """The values that this process knows to be stored apart: they need not be serialized to see
    whether they are small. Any thread may call any method."""

    def __init__(self) -> None:
        self._keys: set[tuple[tuple[str, ...], str]] = set()

    def add(self, path: tuple[str, ...], keys: Iterable[str]) -> None:
        if len(self._keys) > _KNOWN_APART:
            self._keys = set()
        self._keys.update((path, key) for key in keys)

    def __contains__(self, key: tuple[tuple[str, ...], str]) -> bool:
        return key in self._keys


class CheckpointSteps:
    """The namespaces of a saver below `base`, read and written with `serde`."""

    def __init__(self, base: Sequence[str], serde: SerializerProtocol, apart: Apart) -> None:
        self._base = tuple(base)
        self.serde = serde
        self._apart = apart

    def place(self, config: RunnableConfig) -> Place:
        asked = config["configurable"]
        path = self._thread(asked["thread_id"])
        return Place((*path, names.quoted(asked.get("checkpoint_ns") or "")), asked["thread_id"])

    def places(self, config: RunnableConfig | None) -> Steps[list[Place]]:
        """Those of a config, which may leave out the checkpoint_ns, or of all threads."""
        if config and config["configurable"].get("checkpoint_ns") is not None:
            return [self.place(config)]
        threads = (*self._base, "threads")
        path = self._thread(config["configurable"]["thread_id"]) if config else threads
        escaped = [wire.NamespaceMatch(end=wire.NamespaceMatch.END_PREFIX, names=path)]
        pages = _item_calls.list_namespaces(matches=escaped)
        found = yield from every(pages)
        # `*` in a name of a thread stands for any name there.
        return [Place(one, config["configurable"]["thread_id"] if config
                      else names.unquoted(one[len(threads)]))
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
        plain: dict[str, Any] = {}
        within: dict[str, Typed] = {}
        # The keys of values that are kept apart, and those that are stored now.
        apart: dict[str, str] = {}
        blobs: list[wire.ItemOperation] = []
        unknown: dict[str, Typed] = {}
        for channel, value in values.items():
            if channel not in versions:
                continue
            key = _keys.blob_key(channel, versions[channel])
            is_new = channel in new_versions
            if is_plain(value):
                plain[channel] = value
            elif not is_new and (place.path, key) in self._apart:
                apart[channel] = key
            else:
                typed = self.serde.dumps_typed(value)
                if len(typed[1]) <= (_WITHIN_BYTES if is_new else _STAYS_WITHIN_BYTES):
                    within[channel] = typed
                else:
                    apart[channel] = key
                    if is_new:
                        blobs.append(items.put(key, packed(*typed)))
                    else:
                        unknown[key] = typed
        for key, typed in unknown.items():
            # It may have been small when it was stored, and have grown where it is.
            if not (yield from self._is_stored(place, key)):
                blobs.append(items.put(key, packed(*typed)))
        kept: Any = {**checkpoint, "channel_values": plain}
        record = Record(asked.get("checkpoint_ns") or "", asked.get("checkpoint_id"), kept,
                        get_checkpoint_metadata(config, metadata), within, list(apart))
        # The checkpoint itself comes last: before it, nothing finds the rest.
        yield from self._write(
            place, [*blobs, items.put(_keys.checkpoint_key(record.id), record.packed(self.serde))],
            [record])
        self._apart.add(place.path, apart.values())
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
            there = yield from every(_item_calls.list_items(
                place.path, key_prefix=_keys.task_prefix(checkpoint_id, task_id), keys_only=True,
                page_size=PAGE))
            stored = {item.wire.key for item in there}
            made = {key: operation for key, operation in made.items()
                    if key not in stored or not operation.put.HasField("expected_version")}

    def get_tuple(self, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
        place = self.place(config)
        reading = Reading(place, self.serde, checkpoint_id=get_checkpoint_id(config), most=1)
        found: list[Found] = []
        while not found and not reading.is_over:
            found = yield from reading.page()
        loaded = yield from self.loaded(place, found[:1])
        return loaded[0] if loaded else None

    def loaded(self, place: Place, found: Sequence[Found]) -> Steps[list[CheckpointTuple]]:
        blobs = yield from blobs_of(place, found)
        self._apart.add(place.path, blobs)
        return [one.complete(place, blobs, self.serde) for one in found]

    def delta_history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Steps[Mapping[str, DeltaChannelHistory]]:
        history = DeltaHistory(self.place(config), self.serde, channels)
        return (yield from history.of(get_checkpoint_id(config)))

    def delete_thread(self, thread_id: str) -> Steps[None]:
        path = self._thread(thread_id)
        places = yield from self.places({"configurable": {"thread_id": thread_id}})
        runs: list[wire.ItemBatch] = []
        for place in places:
            held = yield from self._held(place)
            runs += self._runs(place, held.records, is_made=False)
        yield _item_calls.delete_namespace(path, recursive=True)
        yield from _send(runs)

    def delete_for_runs(self, run_ids: Iterable[str]) -> Steps[None]:
        for run_id in run_ids:
            run = self._run(run_id)
            entries = yield from every(_item_calls.list_items(run, page_size=PAGE))
            gone: dict[tuple[str, str], set[str]] = {}
            for entry in entries:
                thread, ns, checkpoint_id = unpacked(entry)
                gone.setdefault((thread, ns), set()).add(checkpoint_id)
            for (thread, ns), ids in gone.items():
                place = Place((*self._base, "threads", thread, ns), names.unquoted(thread))
                held = yield from self._held(place)
                yield from self._remove(place, held, ids)
            # Those of checkpoints that were never stored are left.
            yield from _send_in_parts(run, [items.delete(entry.wire.key) for entry in entries])

    def copy_thread(self, source: str, target: str) -> Steps[None]:
        path = self._thread(target)
        places = yield from self.places({"configurable": {"thread_id": source}})
        for place in places:
            copy = Place((*path, place.path[-1]), target)
            # The checkpoints come last, the oldest first: each is found with all of its own.
            for prefix in (_keys.BLOBS, _keys.CHECKPOINTS):
                pages = _item_calls.list_items(place.path, key_prefix=prefix)
                call: Any = pages.first
                found: list[Item] = []
                while call is not None:
                    page = yield call
                    call = pages.next(page)
                    found += map(Item, page.items)
                    # More writes of the last checkpoint may be on the next page.
                    last = _keys.checkpoint_of(found[-1].wire.key) if found and call else None
                    whole = [one for one in found if _keys.checkpoint_of(one.wire.key) != last]
                    found = found[len(whole):]
                    yield from self._copy(copy, whole)

    def _copy(self, copy: Place, found: Sequence[Item]) -> Steps[None]:
        records = [one for one in found if one.wire.key.startswith(_keys.CHECKPOINTS)
                   and _keys.checkpoint_of(one.wire.key) == one.wire.key]
        keys = {one.wire.key for one in records}
        others = [one for one in found if one.wire.key not in keys]
        yield from self._write(
            copy, [items.put(one.wire.key, one.value) for one in (*others, *records)],
            [record_of(one, self.serde) for one in records])

    def prune(self, thread_ids: Iterable[str], strategy: str) -> Steps[None]:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy: must be 'keep_latest' or 'delete'; got {strategy!r}")
        for thread_id in thread_ids:
            if strategy == "delete":
                yield from self.delete_thread(thread_id)
                continue
            places = yield from self.places({"configurable": {"thread_id": thread_id}})
            for place in places:
                held = yield from self._held(place)
                kept = _needed(held.records)
                yield from self._remove(
                    place, held, {one.id for one in held.records} - kept)

    def _is_stored(self, place: Place, key: str) -> Steps[bool]:
        page = yield _item_calls.list_items(
            place.path, start_key=key, key_prefix=key, keys_only=True, page_size=1).first
        return any(one.key == key for one in page.items)

    def _held(self, place: Place) -> Steps[_Held]:
        listed = yield from every(_item_calls.list_items(
            place.path, order="key-descending", key_prefix=_keys.CHECKPOINTS, keys_only=True,
            page_size=PAGE))
        keys = [one.wire.key for one in listed]
        found = yield from read(
            place.path, [key for key in keys if _keys.checkpoint_of(key) == key])
        return _Held(keys, [record_of(one, self.serde) for one in found])

    def _remove(self, place: Place, held: _Held, ids: set[str]) -> Steps[None]:
        """Deletes the checkpoints with these ids and all that only they consist of."""
        gone = [one for one in held.records if one.id in ids]
        if not gone:
            return
        # Only what these consist of: a checkpoint that is stored meanwhile has others.
        blobs = {key for record in gone for key in record.blobs().values()}
        blobs.difference_update(*(record.blobs().values() for record in held.records
                                  if record.id not in ids))
        checkpoints = {_keys.checkpoint_key(record.id) for record in gone}
        # The checkpoints first: a read that finds one finds all of it.
        keys = sorted((key for key in held.keys if _keys.checkpoint_of(key) in checkpoints),
                      key=lambda key: key not in checkpoints)
        yield from self._write(place, [items.delete(key) for key in (*keys, *sorted(blobs))])
        yield from _send(self._runs(place, gone, is_made=False))

    def _write(
        self,
        place: Place,
        operations: Sequence[wire.ItemOperation],
        records: Sequence[Record] = (),
    ) -> Steps[None]:
        """Makes the operations, at once where one batch holds them, else in their order. Before
        them it notes which runs the records are of."""
        yield from _send(self._runs(place, records, is_made=True))
        yield from _send_in_parts(place.path, operations)

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
        return (*self._base, "runs", names.quoted(str(run_id)))


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
        self._reading: Reading | None = None

    def page(self) -> Steps[list[CheckpointTuple]]:
        """The next checkpoints. Empty: there are no more."""
        if self._places is None:
            self._places = yield from self._steps.places(self._config)
            self._places.reverse()
        while self._places and (self._left is None or self._left > 0):
            place = self._places[-1]
            if self._reading is None:
                self._reading = Reading(
                    place, self._steps.serde, checkpoint_id=self._id, before=self._before,
                    most=None if self._filter else self._left)
            found = yield from self._reading.page()
            if self._reading.is_over:
                self._places.pop()
                self._reading = None
            passing = [one for one in found if self._passes(one.record)][:self._left]
            if passing:
                if self._left is not None:
                    self._left -= len(passing)
                loaded = yield from self._steps.loaded(place, passing)
                return loaded
        return []

    def _passes(self, record: Record) -> bool:
        metadata: Mapping[str, Any] = record.metadata
        return all(metadata.get(name) == value for name, value in self._filter.items())


@dataclasses.dataclass(frozen=True)
class _Held:
    """The keys of a namespace's checkpoints and pending writes, and the checkpoints newest
    first."""

    keys: Sequence[str]
    records: Sequence[Record]


def _needed(records: Sequence[Record]) -> set[str]:
    """The newest checkpoint, and those that its delta channels are rebuilt from."""
    by_id = {record.id: record for record in records}
    kept: set[str] = set()
    record = records[0] if records else None
    deltas = set(record.metadata.get("counters_since_delta_snapshot") or ()) if record else ()
    while record is not None:
        kept.add(record.id)
        deltas = {channel for channel in deltas if not record.has(channel)}
        record = by_id.get(record.parent or "") if deltas else None
    return kept


def _send(batches: Sequence[wire.ItemBatch]) -> Steps[None]:
    if batches:
        outcomes = yield _item_calls.batch_items(batches)
        for outcome in outcomes:
            items.results(outcome)


def _send_in_parts(
    path: Sequence[str], operations: Sequence[wire.ItemOperation]
) -> Steps[None]:
    for some in _split(operations):
        yield from _send([items.batch(path, some)])


def _split(operations: Sequence[wire.ItemOperation]) -> list[list[wire.ItemOperation]]:
    """The operations, in order, as batches hold them."""
    made: list[list[wire.ItemOperation]] = []
    size = 0
    for operation in operations:
        added = operation.ByteSize()
        if not made or len(made[-1]) == _BATCH_OPERATIONS or size + added > _BATCH_BYTES:
            made.append([])
            size = 0
        made[-1].append(operation)
        size += added
    return made
