"""CrewAI's records as the values of items.

    {"record": {...},           as CrewAI writes it, without its embedding
     "within": "/crew/ann/",    the scope, so that a range of texts is all below a scope
     "tags": {"diet": true}}    the categories, so that a filter knows each

The key is the record's id, and the vector its embedding.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

from crewai.memory.types import MemoryRecord

from memoryd import items
from memoryd.v1 import item_service_pb2 as wire

Filter = dict[str, Any]
# What a text search looks at.
_SEARCHED = ["record.content"]


def stored(record: MemoryRecord, expected_version: int | None = None) -> wire.ItemOperation:
    """Returns the operation that stores a record. Raises TypeError for metadata that JSON does not
    have, as CrewAI's own storage."""
    written = record.model_dump(mode="json", exclude={"metadata", "embedding"})
    value = {
        "record": {**written, "metadata": record.metadata},
        "within": _within(record.scope),
        "tags": dict.fromkeys(record.categories, True),
    }
    return items.put(record.id, value, vector=record.embedding or (), search=_SEARCHED,
                     expected_version=expected_version)


def read(item: items.Item) -> MemoryRecord:
    """Returns the record of an item, with its embedding if that was asked for."""
    vector = list(item.wire.vector)
    return MemoryRecord(**item.value["record"], embedding=vector or None)


def filter_of(
    scope_prefix: str | None, metadata_filter: dict[str, Any] | None, category: str | None = None
) -> Filter:
    """Returns the filter that passes records in a scope and below it, whose metadata has these
    values, and which are of a category."""
    made: Filter = {}
    within = _within(scope_prefix or "")
    if within != "/":
        # "0" is what comes after "/".
        made["within"] = {"$gte": within, "$lt": within[:-1] + "0"}
    if metadata_filter:
        made["record"] = {"metadata": {
            name: {"$eq": value} for name, value in metadata_filter.items()}}
    if category is not None:
        made["tags"] = {category: {"$eq": True}}
    return made


def filters_of(
    scope_prefix: str | None,
    metadata_filter: dict[str, Any] | None,
    categories: Sequence[str] | None,
) -> list[Filter]:
    """Returns filters of which a record has to pass one."""
    return [filter_of(scope_prefix, metadata_filter, category)
            for category in dict.fromkeys(categories or (None,))]


def child(scope: str, parent: str) -> str | None:
    """Returns the scope right below `parent` that a scope is or lies in; None if there is none."""
    within, above = _within(scope), _within(parent)
    if within == above or not within.startswith(above):
        return None
    return above + within[len(above):].partition("/")[0]


def when(record: MemoryRecord) -> datetime.datetime:
    """Returns when a record was made; a time without a zone is UTC, as CrewAI makes them."""
    return aware(record.created_at)


def aware(time: datetime.datetime) -> datetime.datetime:
    return time if time.tzinfo else time.replace(tzinfo=datetime.timezone.utc)


def newest_first(records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    return sorted(records, key=lambda record: (when(record), record.id), reverse=True)


def _within(scope: str) -> str:
    names = [name for name in scope.split("/") if name]
    return f"/{'/'.join(names)}/" if names else "/"
