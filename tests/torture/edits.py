"""What updates of single messages make reads show, in the history of one session.

What an update makes of an item is an edition of it, `ITEM+EDITION` (bodies.py). It lies where the
item lies, so all that is said of places is said of the item.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterator

from torture.bodies import original
from torture.highest import Highest
from torture.history import Record

# The item as it was put is older than each of its editions, whatever their revisions.
_AS_PUT = 0.0
# What is known of an edition that was seen and never acknowledged: that it is one.
_UNKNOWN = 0.5


@dataclasses.dataclass
class _Edition:
    invoke: float
    refused: bool
    revision: float  # Of one that was acknowledged, else _UNKNOWN.


class Edits:
    """Add all updates, then `note` all reads, then ask what is wrong with one."""

    def __init__(self) -> None:
        self._editions: dict[str, dict[str, _Edition]] = collections.defaultdict(dict)
        # By item: when it was known, by an acknowledgement or a read, to be of a revision.
        self._known: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
        self._highest: dict[str, Highest] = {}

    def add(self, edition: str, invoke: float, returned: float, revision: int,
            refused: bool) -> None:
        acknowledged = returned < math.inf
        item = original(edition)
        self._editions[item][edition] = _Edition(invoke, refused,
                                                 revision if acknowledged else _UNKNOWN)
        if acknowledged:
            self._known[item].append((returned, revision))

    def note(self, read: Record) -> Iterator[str]:
        """Takes a read into account, and says which editions it can't have shown. Sets what it shows
        of items that were updated, and their editions, for the other checks."""
        read["updated"] = updated = [
            (item, edition) for item, edition in zip(read["items"], read["shown"], strict=True)
            if edition != item or item in self._editions]
        for item, edition in updated:
            if edition == item:
                continue
            known = self._editions.get(item, {}).get(edition)
            if known is None or known.refused or known.invoke > read["return_ns"]:
                yield edition
            else:
                self._known[item].append((read["return_ns"], known.revision))

    def older_than_known(self, read: Record) -> str:
        """An edition shown although a later one was known before; "" when there is none."""
        named = read.get("revision") or 0
        for item, edition in read["updated"]:
            revision = self._revision(item, edition)
            if revision == _UNKNOWN:
                continue  # Which may have been done at any time.
            if item not in self._highest:
                self._highest[item] = Highest(self._known[item])
            known = max((e.revision for e in self._editions[item].values()
                         if e.revision <= named and not e.refused and e.revision != _UNKNOWN),
                        default=_AS_PUT)
            if revision < max(known, self._highest[item].before(read["invoke_ns"])):
                return edition
        return ""

    def newer_than_named(self, read: Record) -> str:
        """An edition shown although the reply names an earlier revision; "" when there is none."""
        named = read.get("revision")
        if named is None:
            return ""
        return next((edition for item, edition in read["updated"]
                     if self._revision(item, edition) > named), "")

    def _revision(self, item: str, edition: str) -> float:
        if edition == item:
            return _AS_PUT
        known = self._editions.get(item, {}).get(edition)
        return _UNKNOWN if known is None else known.revision
