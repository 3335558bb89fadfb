"""Reads that show all that a session holds of a kind: its contents, or the messages of a role.

Unlike a read of the tape they have holes by themselves, so they are held against the writes alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

from torture.highest import Highest

_NEVER = math.inf


@dataclasses.dataclass(frozen=True)
class _Write:
    name: str
    items: Sequence[str]
    invoke: float
    returned: float  # _NEVER when it was not acknowledged.
    revision: float
    refused: bool


class Subset:
    """What there is of a kind. Add all writes and wipes, then ask about reads."""

    def __init__(self) -> None:
        self._writes: dict[str, _Write] = {}  # By item.
        self._acknowledged: list[_Write] = []
        self._wipes: list[_Write] = []
        self._wiped_by: Highest | None = None
        self._known_wiped: Highest | None = None

    def add(self, name: str, items: Sequence[str], invoke: float, returned: float, revision: float,
            refused: bool = False) -> None:
        """A write of items of the kind, or with none a wipe."""
        write = _Write(name, items, invoke, returned, revision, refused)
        if not items and not refused:
            self._wipes.append(write)
        elif returned < _NEVER and not refused:
            self._acknowledged.append(write)
        self._writes.update(dict.fromkeys(items, write))

    def wrong_with(self, items: Sequence[str], invoke: float, returned: float,
                   may_lack: Callable[[str], bool] = lambda item: False
                   ) -> Iterator[tuple[str, str, str]]:
        """What is wrong with a read that showed `items`: the count, what it is about, and why."""
        if self._wiped_by is None:
            done = [w for w in self._wipes if w.returned < _NEVER]
            self._wiped_by = Highest((w.invoke, w.revision) for w in done)
            self._known_wiped = Highest((w.returned, w.revision) for w in done)
        for item in items:
            write = self._writes.get(item)
            if write is None or write.refused or write.invoke > returned:
                yield "invented", item, (f"{item}, which nobody sent, or sent later, or which was "
                                         "refused")
            elif write.returned < _NEVER and write.revision < self._known_wiped.before(invoke):
                yield "stale", item, f"{item} of {write.name}, wiped before"
        if len(set(items)) < len(items):
            yield "doubled", items[0], "an item twice"
        # A wipe of unknown outcome may have been done at any time.
        if any(w.returned == _NEVER and w.invoke < returned for w in self._wipes):
            return
        wiped, shown = self._wiped_by.before(returned), set(items)
        for write in self._acknowledged:
            if write.returned < invoke and write.revision > wiped:
                missing = [i for i in write.items if i not in shown and not may_lack(i)]
                if missing:
                    yield "stale", missing[0], f"not {missing[0]} of {write.name}"
