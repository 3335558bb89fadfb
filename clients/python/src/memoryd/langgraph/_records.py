"""Checkpoints and pending writes as the values of items."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import ormsgpack
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoryd.items import Item
from memoryd.langgraph import _keys

# A channel's value as a serializer makes it: its type and bytes.
Typed = tuple[str, bytes]
# The longest text that needs no serialization to be seen to be small.
_SHORT = 128


def is_plain(value: Any) -> bool:
    """Whether a channel's value is kept in each checkpoint as it is."""
    if type(value) is str:
        return len(value) <= _SHORT
    return value is None or type(value) in (bool, int, float)


def packed(*parts: Any) -> bytes:
    return ormsgpack.packb(parts)


def unpacked(item: Item) -> list[Any]:
    parts: list[Any] = ormsgpack.unpackb(item.wire.bytes_value)
    return parts


@dataclasses.dataclass(frozen=True)
class Place:
    """The namespace of a thread's checkpoints of one checkpoint_ns."""

    path: tuple[str, ...]
    thread_id: Any

    def config(self, ns: str, checkpoint_id: str) -> Any:
        return {"configurable": {
            "thread_id": self.thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


@dataclasses.dataclass(frozen=True)
class Record:
    """A checkpoint as it is stored. Its `channel_values` are the plain ones; `within` are other
    small ones, and `apart` the channels whose values are items of their own."""

    ns: str
    parent: str | None
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    within: Mapping[str, Typed] = dataclasses.field(default_factory=dict)
    apart: Sequence[str] = ()

    @property
    def id(self) -> str:
        return self.checkpoint["id"]

    @property
    def run_id(self) -> str | None:
        run = self.metadata.get("run_id")
        return str(run) if run else None

    def has(self, channel: str) -> bool:
        """Whether the channel has a value here."""
        return (channel in self.checkpoint["channel_values"] or channel in self.within
                or channel in self.apart)

    def blobs(self) -> dict[str, str]:
        """The keys of the values that are kept apart, by channel."""
        versions = self.checkpoint["channel_versions"]
        return {channel: _keys.blob_key(channel, versions[channel]) for channel in self.apart}

    def packed(self, serde: SerializerProtocol) -> bytes:
        return packed(self.ns, self.parent, *serde.dumps_typed(self.checkpoint),
                      *serde.dumps_typed(self.metadata), self.within, self.apart)


@dataclasses.dataclass(frozen=True)
class Found:
    """A record, and its pending writes as they were packed."""

    record: Record
    writes: list[list[Any]]

    def complete(
        self, place: Place, blobs: Mapping[str, Typed], serde: SerializerProtocol
    ) -> CheckpointTuple:
        """The checkpoint. `blobs` are values that are kept apart, by their keys."""
        record = self.record
        typed = {**record.within, **{channel: blobs[key] for channel, key in record.blobs().items()
                                     if key in blobs}}
        values = {**record.checkpoint["channel_values"],
                  **{channel: serde.loads_typed((kind, data))
                     for channel, (kind, data) in typed.items()}}
        checkpoint: Any = {**record.checkpoint, "channel_values": {
            channel: values[channel]
            for channel in record.checkpoint["channel_versions"] if channel in values}}
        parent = place.config(record.ns, record.parent) if record.parent else None
        return CheckpointTuple(place.config(record.ns, record.id), checkpoint, record.metadata,
                               parent, pending_writes(self.writes, serde))


def record_of(item: Item, serde: SerializerProtocol) -> Record:
    ns, parent, kind, checkpoint, metadata_kind, metadata, within, apart = unpacked(item)
    return Record(ns, parent, serde.loads_typed((kind, checkpoint)),
                  serde.loads_typed((metadata_kind, metadata)), within, apart)


def packed_write(
    serde: SerializerProtocol, task_path: str, task_id: str, index: int, channel: str, value: Any
) -> bytes:
    return packed(task_path, task_id, index, channel, *serde.dumps_typed(value))


def pending_writes(found: list[list[Any]], serde: SerializerProtocol) -> list[PendingWrite]:
    """The writes of one checkpoint, from what was packed, in the order that LangGraph wants."""
    return [(task_id, channel, serde.loads_typed((kind, data)))
            for _, task_id, _, channel, kind, data
            in sorted(found, key=lambda one: writes_sort_key(one[0], one[1], one[2]))]
