"""Checkpoints and pending writes as the values of items."""

from __future__ import annotations

import dataclasses
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

# Of a text that is kept in each checkpoint instead of apart.
_SMALL = 128


def is_small(value: Any) -> bool:
    """Whether a channel's value costs less in each checkpoint than as an item of its own."""
    if type(value) is str:
        return len(value) <= _SMALL
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
    """A checkpoint without the values that are kept apart."""

    ns: str
    parent: str | None
    checkpoint: Checkpoint
    metadata: CheckpointMetadata

    @property
    def id(self) -> str:
        return self.checkpoint["id"]

    @property
    def run_id(self) -> str | None:
        run = self.metadata.get("run_id")
        return str(run) if run else None

    def blobs(self) -> dict[str, str]:
        """The keys of the values that are kept apart, by channel."""
        within = self.checkpoint["channel_values"]
        return {channel: _keys.blob_key(channel, version)
                for channel, version in self.checkpoint["channel_versions"].items()
                if channel not in within}

    def packed(self, serde: SerializerProtocol) -> bytes:
        return packed(self.ns, self.parent, *serde.dumps_typed(self.checkpoint),
                      *serde.dumps_typed(self.metadata))

    def complete(
        self, place: Place, values: dict[str, Any], writes: list[PendingWrite]
    ) -> CheckpointTuple:
        values = {**self.checkpoint["channel_values"], **values}
        checkpoint: Any = {**self.checkpoint, "channel_values": {
            channel: values[channel]
            for channel in self.checkpoint["channel_versions"] if channel in values}}
        parent = place.config(self.ns, self.parent) if self.parent else None
        return CheckpointTuple(place.config(self.ns, self.id), checkpoint, self.metadata, parent,
                               writes)


def record_of(item: Item, serde: SerializerProtocol) -> Record:
    ns, parent, kind, checkpoint, metadata_kind, metadata = unpacked(item)
    return Record(ns, parent, serde.loads_typed((kind, checkpoint)),
                  serde.loads_typed((metadata_kind, metadata)))


def packed_write(
    serde: SerializerProtocol, task_path: str, task_id: str, index: int, channel: str, value: Any
) -> bytes:
    return packed(task_path, task_id, index, channel, *serde.dumps_typed(value))


def pending_writes(found: list[list[Any]], serde: SerializerProtocol) -> list[PendingWrite]:
    """The writes of one checkpoint, from what was packed, in the order that LangGraph wants."""
    return [(task_id, channel, serde.loads_typed((kind, data)))
            for _, task_id, _, channel, kind, data
            in sorted(found, key=lambda one: writes_sort_key(one[0], one[1], one[2]))]
