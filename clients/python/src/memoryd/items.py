"""Items: values under keys, in namespaces that are paths of names.

    from memoryd import items

    with memoryd.local("agent-memory") as memory:
        memory.put_item(("users", "ada"), "diet", {"drinks": "tea"}, ttl=3600)
        print(memory.get_item(("users", "ada"), "diet").value)
        memory.batch_items([
            items.batch(("users", "ada"), [items.put("name", "Ada"), items.delete("diet")]),
            items.batch(("users", "bob"), [items.get("name")]),
        ])

A value is JSON, or bytes. The functions here make the operations of a batch; the methods of the
clients take the same arguments. item_service.proto says what each does.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import duration_pb2, timestamp_pb2

from memoryd._wire_text import dumps
from memoryd.errors import MemorydError
from memoryd.results import Wrapped, shortened
from memoryd.v1 import item_service_pb2 as wire

if TYPE_CHECKING:
    _Item = wire.Item
else:
    # protobuf's classes can't be derived from.
    _Item = object

# Seconds, or a timedelta.
Ttl = float | datetime.timedelta
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Item(Wrapped, _Item):
    """An item as the server stores it: an item_service_pb2.Item."""

    def __init__(self, wire: wire.Item, score: float | None = None) -> None:
        super().__init__(wire)
        # How well the item matches the search; None where nothing was ranked.
        self.score = score

    @property
    def value(self) -> Any:
        """The value: bytes, or what its JSON says. None also where the item came without one."""
        kind = self.wire.WhichOneof("value")
        if kind == "bytes_value":
            return self.wire.bytes_value
        return json.loads(self.wire.json) if kind else None

    @property
    def path(self) -> tuple[str, ...]:
        """The namespace."""
        return tuple(self.wire.namespace)

    @property
    def created(self) -> datetime.datetime:
        """When the item was stored first."""
        return _time(self.wire.create_time)

    @property
    def updated(self) -> datetime.datetime:
        """When the item was stored last."""
        return _time(self.wire.update_time)

    @property
    def expires(self) -> datetime.datetime | None:
        """When the item expires. None: never."""
        return _time(self.wire.expire_time) if self.wire.HasField("expire_time") else None

    def _shown(self) -> Iterator[str]:
        yield f"{self.path}, {self.wire.key!r}, version={self.wire.version}"
        if self.wire.WhichOneof("value") == "json":
            yield shortened(self.wire.json)


def put(
    key: str,
    value: Any,
    *,
    mime_type: str = "",
    expected_version: int | None = None,
    ttl: Ttl | None = None,
    search: Sequence[str] | None = None,
    vector: Iterable[float] = (),
) -> wire.ItemOperation:
    """Stores an item, see `Client.put_item`."""
    made = wire.ItemPut(
        key=key, mime_type=mime_type, expected_version=expected_version, vector=vector,
        search=searched(search))
    if isinstance(value, bytes):
        made.bytes_value = value
    else:
        made.json = dumps(value)
    if ttl is not None:
        made.ttl.CopyFrom(duration(ttl))
    return wire.ItemOperation(put=made)


def get(
    key: str, *, refresh_ttl: bool | None = None, with_vector: bool = False
) -> wire.ItemOperation:
    """Reads an item, see `Client.get_item`."""
    return wire.ItemOperation(
        get=wire.ItemGet(key=key, with_vector=with_vector, **given(refresh_ttl=refresh_ttl)))


def delete(key: str, *, expected_version: int | None = None) -> wire.ItemOperation:
    """Deletes an item, see `Client.delete_item`."""
    return wire.ItemOperation(
        delete=wire.ItemDelete(key=key, expected_version=expected_version))


def batch(
    namespace: Sequence[str],
    operations: Iterable[wire.ItemOperation],
    *,
    request_id: str | None = None,
    config: wire.NamespaceConfig | None = None,
) -> wire.ItemBatch:
    """Returns operations on one namespace that are stored whole or not at all. Reads see the state
    before the writes."""
    return wire.ItemBatch(
        namespace=names(namespace), operations=operations, config=config,
        request_id=uuid.uuid4().hex if request_id is None else request_id)


def results(outcome: wire.ItemBatchOutcome) -> Sequence[wire.ItemOperationResult]:
    """Returns what each operation of a batch did. Raises the MemorydError of a batch that failed;
    `details` has `operation`, the index of the one at fault, and `version` for
    `VERSION_MISMATCH`."""
    if not outcome.HasField("error"):
        done: Sequence[wire.ItemOperationResult] = outcome.results
        return done
    error = outcome.error
    details = {"operation": str(error.operation)} if error.HasField("operation") else {}
    if error.reason == "VERSION_MISMATCH":
        details["version"] = str(error.version)
    raise MemorydError(
        _CODES.get(error.code, grpc.StatusCode.UNKNOWN), error.message, error.reason,
        details=details)


def item_of(found: wire.GetItemResponse) -> Item | None:
    """Returns the item of a reply; None if there is none."""
    return Item(found.item) if found.HasField("item") else None


def names(path: Sequence[str]) -> Sequence[str]:
    """Returns the path of a namespace. Raises TypeError for a str, which would be a path of its
    letters."""
    if isinstance(path, str):
        raise TypeError(f"namespace: must be a sequence of names; got {path!r}. Give ({path!r},)")
    return path


def duration(ttl: Ttl) -> duration_pb2.Duration:
    made = duration_pb2.Duration()
    made.FromTimedelta(
        ttl if isinstance(ttl, datetime.timedelta) else datetime.timedelta(seconds=ttl))
    return made


def given(**fields: Any) -> dict[str, Any]:
    """Returns the fields that are not None, for those of which the stubs' types know no None."""
    return {name: value for name, value in fields.items() if value is not None}


def searched(fields: Sequence[str] | None) -> wire.ItemSearch | None:
    return None if fields is None else wire.ItemSearch(fields=fields)


def filter_json(filter: Mapping[str, Any] | None) -> str:
    return dumps(filter) if filter else ""


def _time(time: timestamp_pb2.Timestamp) -> datetime.datetime:
    converted: datetime.datetime = time.ToDatetime(tzinfo=datetime.timezone.utc)
    return converted
