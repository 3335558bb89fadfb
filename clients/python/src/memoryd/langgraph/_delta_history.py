"""What the values of delta channels are rebuilt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoryd._steps import Steps
from memoryd.langgraph._reading import Reading, blobs_of
from memoryd.langgraph._records import Found, Place, pending_writes

# Where a channel's value is, and the writes since.
_Seeds = dict[str, Found]
_Writes = dict[str, list[PendingWrite]]


class DeltaHistory:
    """The way from a checkpoint back over its parents, until each channel has a value.

    The parents are read a page after the other. A checkpoint's writes made its child, so those of
    the checkpoint that has a channel's value count too."""

    def __init__(self, place: Place, serde: SerializerProtocol, channels: Sequence[str]) -> None:
        self._place = place
        self._serde = serde
        self._channels = channels
        self._open = set(channels)
        self._seeds: _Seeds = {}
        # The newest first.
        self._writes: _Writes = {channel: [] for channel in channels}

    def of(self, checkpoint_id: str | None) -> Steps[Mapping[str, DeltaChannelHistory]]:
        """The history at a checkpoint, or at the newest."""
        wanted, is_target = checkpoint_id, True
        while self._open and (wanted or is_target):
            # More than once only where a parent has a greater id than its child.
            reading = Reading(self._place, self._serde, newest=wanted)
            before = wanted, is_target
            while self._open and not reading.is_over:
                page = yield from reading.page()
                for found in page:
                    if wanted and found.record.id != wanted:
                        continue
                    if not is_target:
                        self._add(found)
                    wanted, is_target = found.record.parent, False
                    if not wanted or not self._open:
                        break
                if not wanted:
                    break
            if (wanted, is_target) == before:
                break
        return (yield from self._made())

    def _add(self, found: Found) -> None:
        for write in reversed(pending_writes(found.writes, self._serde)):
            if write[1] in self._open:
                self._writes[write[1]].append(write)
        for channel in [one for one in self._open if found.record.has(one)]:
            self._seeds[channel] = found
            self._open.remove(channel)

    def _made(self) -> Steps[Mapping[str, DeltaChannelHistory]]:
        blobs = yield from blobs_of(self._place, self._seeds.values())
        made: dict[str, DeltaChannelHistory] = {}
        for channel in self._channels:
            history: DeltaChannelHistory = {"writes": self._writes[channel][::-1]}
            if channel in self._seeds:
                seed = self._seeds[channel].complete(self._place, blobs, self._serde)
                history["seed"] = seed.checkpoint["channel_values"][channel]
            made[channel] = history
        return made
