"""Checkpoints of a namespace, newest first, a page after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from memoryd import _item_calls, items
from memoryd._steps import Steps
from memoryd.errors import MemorydError
from memoryd.items import Item
from memoryd.langgraph import _keys
from memoryd.langgraph._records import Found, Place, Typed, record_of, unpacked

# Values may be large, and a reply has at most 64 MiB.
READ_AT_ONCE = 50
# A checkpoint with its pending writes, as most have them.
_OF_ONE = 8
PAGE = 1000


class Reading:
    """The checkpoints of a namespace from the newest on, each with its writes, which come before it
    in the order of keys from the end."""

    def __init__(
        self,
        place: Place,
        serde: SerializerProtocol,
        *,
        checkpoint_id: str | None = None,
        newest: str | None = None,
        before: str | None = None,
        most: int | None = None,
    ) -> None:
        """`checkpoint_id` is the only one that is read, `newest` the greatest, and `before` greater
        than all that are. `most` is how many are needed; None: all of them."""
        start = _keys.checkpoint_key(checkpoint_id) if checkpoint_id else ""
        ends = [_keys.after_checkpoint(one) for one in (checkpoint_id, newest) if one]
        if before:
            ends.append(_keys.checkpoint_key(before))
        size = READ_AT_ONCE if most is None or checkpoint_id else _OF_ONE * most
        self._pages = _item_calls.list_items(
            place.path, order="key-descending", key_prefix=_keys.CHECKPOINTS, start_key=start,
            end_key=min(ends, default=""), page_size=min(size, READ_AT_ONCE))
        self._call: Any = None if ends and min(ends) <= start else self._pages.first
        self._serde = serde
        self._writes: dict[str, list[list[Any]]] = {}

    @property
    def is_over(self) -> bool:
        return self._call is None

    def page(self) -> Steps[list[Found]]:
        """The next of them; may be none though there are more."""
        found: list[Found] = []
        if self._call is None:
            return found
        page = yield self._call
        self._call = self._pages.next(page)
        for item in map(Item, page.items):
            key = _keys.checkpoint_of(item.wire.key)
            if key != item.wire.key:
                self._writes.setdefault(key, []).append(unpacked(item))
                continue
            found.append(Found(record_of(item, self._serde), self._writes.pop(key, [])))
            # What is left was written for a checkpoint that was never stored.
            self._writes.clear()
        return found


def read(path: Sequence[str], keys: Sequence[str]) -> Steps[list[Item]]:
    """The items of these keys that there are; fewer at a time where they are large."""
    found: list[Item] = []
    start, at_once = 0, READ_AT_ONCE
    while start < len(keys):
        asked = [items.get(key) for key in keys[start:start + at_once]]
        try:
            outcomes = yield _item_calls.batch_items([items.batch(path, asked)])
            results = items.results(outcomes[0])
        except MemorydError as error:
            if error.reason not in _item_calls.TOO_MUCH_AT_ONCE or len(asked) == 1:
                raise
            at_once = (len(asked) + 1) // 2
            continue
        found.extend(Item(result.get.item) for result in results if result.get.HasField("item"))
        start += len(asked)
    return found


def blobs_of(place: Place, found: Iterable[Found]) -> Steps[dict[str, Typed]]:
    """The values that these keep apart, by their keys."""
    wanted = {key for one in found for key in one.record.blobs().values()}
    stored = yield from read(place.path, sorted(wanted))
    made: dict[str, Typed] = {}
    for item in stored:
        kind, data = unpacked(item)
        made[item.wire.key] = kind, data
    return made
