"""What deletes of single messages excuse, and forbid, in the history of one session."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_NEVER = math.inf


class Deletions:
    """Deletes by item, and, for those items whose place was told, by position. Those that were
    refused are not part of it."""

    def __init__(self) -> None:
        self._sent: dict[str, float] = {}  # When the first was sent.
        self._returned: dict[str, float] = {}  # When one was first acknowledged.
        self._revision: dict[str, int] = {}  # Of one that was acknowledged.
        self._sent_at: dict[int, float] = {}  # As _sent, by position.
        self._lacked: dict[int, float] = {}  # When a read first ended that lacked a position.

    def __len__(self) -> int:
        """How many items may be gone."""
        return len(self._sent)

    def add(self, item: str, sent: float, returned: float, revision: int) -> None:
        self._sent[item] = min(sent, self._sent.get(item, _NEVER))
        if returned < _NEVER:
            self._returned[item] = min(returned, self._returned.get(item, _NEVER))
            self._revision[item] = revision

    def place(self, position: int, item: str) -> None:
        if item in self._sent:
            self._sent_at[position] = self._sent[item]

    def may_lack(self, item: str, before: float = _NEVER) -> bool:
        """Whether a read that returned at `before` may lack an item."""
        return self._sent.get(item, _NEVER) < before

    def may_lack_position(self, position: int, before: float = _NEVER) -> bool:
        return self._sent_at.get(position, _NEVER) < before

    def may_lack_positions(self, positions: Iterable[int], before: float) -> bool:
        return all(self.may_lack_position(position, before) for position in positions)

    def lacks(self, positions: Sequence[int], returned: float) -> list[int]:
        """Notes which positions lie between those of a read, and returns those it may not lack."""
        held = set(positions)
        missing = [p for p in range(positions[0], positions[-1] + 1) if p not in held]
        for position in missing:
            self._lacked[position] = min(returned, self._lacked.get(position, _NEVER))
        return [p for p in missing if not self.may_lack_position(p, returned)]

    def shown(self, positions: Iterable[int], items: Iterable[str], invoke: float,
              revision: int | None) -> str:
        """An item of a read that it may not show; "" when there is none."""
        if not self._sent:
            return ""
        for position, item in zip(positions, items, strict=False):
            if (self._returned.get(item, _NEVER) < invoke
                    or self._lacked.get(position, _NEVER) < invoke
                    or (revision is not None and self._revision.get(item, _NEVER) <= revision)):
                return item
        return ""
