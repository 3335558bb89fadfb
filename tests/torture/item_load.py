"""What clients of the torture do with items, and what they note of it (items.py)."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import grpc

from support.calls import item_wire
from torture import bodies, history
from torture.history import Record

# In percent.
OPERATIONS = {"put": 16, "change": 26, "get": 14, "delete": 6, "batch": 16, "list": 10, "search": 4,
              "namespaces": 1, "copy": 1, "drop": 1}
RETRIED, CONCURRENT, OTHER_BODY = 0.10, 0.10, 0.02
KEYLESS = 0.3
MOST_ATTEMPTS = 6
# Sizes of texts in bytes, and how many of them; SQLite keeps what is above 1 KiB apart.
SIZES = ((200, 0.7), (8_000, 0.28), (100_000, 0.02))
TTL_MS = 700
# JSON has no NUL in it; this stands for it, and in no text.
_NUL = "\ue000"
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}
_EVERYTHING = 1000


@dataclasses.dataclass(frozen=True)
class Space:
    """A namespace that every tenant has. Its name stands for a session's in bodies and records."""

    name: str
    path: tuple[str, ...]  # `{tenant}` is the tenant's name.
    keys: tuple[str, ...]
    dropped: bool = False  # Now and then all of it is deleted.
    expires: bool = False

    def of(self, tenant: str) -> list[str]:
        return [name.format(tenant=tenant) for name in self.path]


def _keys(count: int) -> tuple[str, ...]:
    return tuple(f"k/{number}.é" for number in range(count))


SPACES = {space.name: space for space in (
    Space("space-hot", ("torture", "hot"), _keys(3)),
    # Below another one, of the same keys.
    Space("space-below", ("torture", "hot", "a.b/c*"), _keys(3)),
    Space("space-wide", ("torture", "wide"), _keys(12)),
    Space("space-own", ("torture", "own of {tenant}"), _keys(2)),
    Space("space-dropped", ("torture", "dropped"), _keys(5), dropped=True),
    Space("space-brief", ("torture", "brief"), _keys(4), expires=True),
)}
# Those that a wrong clock can't confuse: versions and times of others come from it.
TIMELESS = [space.name for space in SPACES.values() if not space.dropped and not space.expires]


@dataclasses.dataclass(frozen=True)
class Caller:
    """What the load takes of the client that it is part of."""

    # A call's operation, session, request and replica -> its reply, None for an error, and the record.
    call: Callable[..., Awaitable[tuple[Any, Record]]]
    write_down: Callable[[Record], None]
    next_number: Callable[[], int]
    two_replicas: Callable[[], list[int]]
    sender: bodies.Sender  # With any session.
    texts: bodies.Bodies
    chance: random.Random


class ItemLoad:
    """One client's calls about items. `one` does one of them, at random."""

    def __init__(self, caller: Caller, spaces: Sequence[str]) -> None:
        self._caller = caller
        self._chance = caller.chance
        self._spaces = [SPACES[name] for name in spaces]
        self._versions: dict[tuple[str, str], int] = {}  # The latest known.

    async def one(self) -> None:
        operation = self._chance.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
        await getattr(self, f"_{operation}")(self._chance.choice(self._spaces))

    # Writes.

    async def _put(self, space: Space) -> None:
        await self._write(space, [self._a_put(space, self._chance.choice(space.keys))])

    async def _change(self, space: Space) -> None:
        """Reads an item and replaces or deletes it, if nobody else has changed it since."""
        key = self._chance.choice(space.keys)
        if space.expires or self._chance.random() < 0.5:
            await self._get(space, key)
        if space.expires:
            return
        version = self._versions.get((space.name, key), 0)
        if version and self._chance.random() < 0.15:
            await self._write(space, [(key, "", item_wire.ItemDelete(
                key=key, expected_version=version))])
        else:
            await self._write(space, [self._a_put(space, key, version)])

    async def _delete(self, space: Space) -> None:
        key = self._chance.choice(space.keys)
        await self._write(space, [(key, "", item_wire.ItemDelete(key=key))])

    async def _batch(self, space: Space) -> None:
        """Several writes of one namespace, and reads of it beside them."""
        count = self._chance.randint(2, min(4, len(space.keys)))
        writes = []
        for key in self._chance.sample(space.keys, count):
            chance = self._chance.random()
            if chance < 0.15:
                writes.append((key, "", item_wire.ItemDelete(key=key)))
            elif chance < 0.25 and not space.expires:
                writes.append(self._a_put(space, key, self._versions.get((space.name, key), 0)))
            else:
                writes.append(self._a_put(space, key))
        await self._write(space, writes)

    async def _drop(self, space: Space) -> None:
        """Deletes a namespace. Each attempt may be done by itself, also later."""
        space = next((one for one in self._spaces if one.dropped), space)
        if not space.dropped:
            return
        for _ in range(MOST_ATTEMPTS):
            reply, record = await self._call("drop_space", space, item_wire.DeleteNamespaceRequest(
                namespace=self._path(space)))
            record.update(op="space_delete", request=self._name())
            self._caller.write_down(record)
            if reply is not None:
                return

    def _a_put(self, space: Space, key: str, version: int | None = None
               ) -> tuple[str, str, item_wire.ItemPut]:
        """Key, item and what stores it."""
        number = self._caller.next_number()
        most = self._chance.choices([size for size, _ in SIZES], [share for _, share in SIZES])[0]
        text = self._caller.texts.text(self._sender(space), number,
                                       int(math.exp(self._chance.uniform(0, math.log(most)))))
        put = item_wire.ItemPut(key=key, expected_version=version)
        if self._chance.random() < 0.7:
            put.json = json.dumps({"client": self._caller.sender.client,
                                   "text": text.replace("\0", _NUL)},
                                  ensure_ascii=self._chance.random() < 0.5)
        else:
            put.bytes_value = text.encode()
        if space.expires:
            put.ttl.FromMilliseconds(TTL_MS)
        return key, bodies.item_of(text), put

    async def _write(self, space: Space, writes: list[tuple[str, str, Any]]) -> None:
        """Sends writes as one batch; one with a request_id perhaps several times, and again where it
        is not known whether it was done."""
        batch = item_wire.ItemBatch(namespace=self._path(space))
        for _, item, write in writes:
            batch.operations.add(**{"put" if item else "delete": write})
        name = self._name()
        keyed = self._chance.random() >= KEYLESS
        if keyed:
            batch.request_id = name
        noted = {"request": name, "keyed": keyed, "writes": [
            [key, item or None, write.expected_version if write.HasField("expected_version") else None,
             TTL_MS * 1_000_000 if item and space.expires else 0] for key, item, write in writes]}
        chance = self._chance.random()
        if keyed and chance < CONCURRENT:
            outcomes = await asyncio.gather(*(self._attempt(space, batch, noted, replica)
                                              for replica in self._caller.two_replicas()))
        else:
            outcomes = [await self._attempt(space, batch, noted)]
        again = keyed and CONCURRENT <= chance < CONCURRENT + RETRIED
        settle = keyed and self._chance.random() < 0.9
        for _ in range(MOST_ATTEMPTS):
            if not again and not (settle and "ok" not in outcomes and "unknown" in outcomes):
                break
            again = False
            outcomes.append(await self._attempt(space, batch, noted))
        if keyed and "ok" in outcomes and chance > 1 - OTHER_BODY:
            key, item, put = self._a_put(space, writes[0][0])
            other = item_wire.ItemBatch(namespace=batch.namespace, request_id=name)
            other.operations.add(put=put)
            await self._attempt(space, other, {
                "request": name + "!", "keyed": True, "must_fail": True,
                "writes": [[key, item, None, TTL_MS * 1_000_000 if space.expires else 0]]})

    async def _attempt(self, space: Space, batch: item_wire.ItemBatch, noted: Record,
                       replica: int | None = None) -> str:
        if len(batch.operations) == 1 and self._chance.random() < 0.5:
            record = await self._alone(space, batch, replica)
        else:
            record = await self._among_others(space, batch, replica)
        record.update(op="item_write", **noted)
        if record["outcome"] == "ok":
            for (key, _, _, _), version in zip(noted["writes"], record["versions"], strict=True):
                self._versions[space.name, key] = version
        elif "stored" in record:
            lost = noted["writes"][record.setdefault("lost", 0)]
            self._versions[space.name, lost[0]] = record["stored"]
        self._caller.write_down(record)
        return record["outcome"]

    async def _alone(self, space: Space, batch: item_wire.ItemBatch, replica: int | None) -> Record:
        """As a call of its own."""
        operation = batch.operations[0]
        fields = {"namespace": batch.namespace}
        if batch.HasField("request_id"):
            fields["request_id"] = batch.request_id
        if operation.HasField("put"):
            reply, record = await self._call("put_item", space, item_wire.PutItemRequest(
                put=operation.put, **fields), replica)
            if reply is not None:
                record.update(versions=[reply.write.version], existed=[None],
                              replayed=reply.replayed)
            return record
        reply, record = await self._call("delete_item", space, item_wire.DeleteItemRequest(
            delete=operation.delete, **fields), replica)
        if reply is not None:
            record.update(versions=[0], existed=[reply.existed], replayed=reply.replayed)
        return record

    async def _among_others(self, space: Space, batch: item_wire.ItemBatch, replica: int | None
                            ) -> Record:
        """By BatchItems, beside a batch that reads another namespace."""
        other = self._chance.choice(self._spaces)
        reading = _reading(self._path(other), other.keys)
        reply, record = await self._call("batch_items", space, item_wire.BatchItemsRequest(
            batches=[batch, reading]), replica)
        if reply is None:
            return record
        read = {**record, "session": other.name}
        self._note_gets(other, reply.outcomes[1], read)
        outcome = reply.outcomes[0]
        if outcome.HasField("error"):
            _note_error(record, outcome.error)
        else:
            results = outcome.results
            record.update(
                replayed=outcome.replayed,
                versions=[result.put.version for result in results],
                existed=[result.delete.existed if result.HasField("delete") else None
                         for result in results])
        return record

    # Reads.

    async def _get(self, space: Space, key: str = "") -> None:
        key = key or self._chance.choice(space.keys)
        if self._chance.random() < 0.3:
            reply, record = await self._call("batch_items", space, item_wire.BatchItemsRequest(
                batches=[_reading(self._path(space), space.keys)]))
            if reply is not None:
                self._note_gets(space, reply.outcomes[0], record)
            return
        reply, record = await self._call("get_item", space, item_wire.GetItemRequest(
            namespace=self._path(space), get=item_wire.ItemGet(key=key, refresh_ttl=False)))
        if reply is not None:
            self._note(space, record, [key], [reply.item] if reply.HasField("item") else [])

    async def _list(self, space: Space) -> None:
        order = self._chance.choice(item_wire.ItemOrder.values())
        fields, client = {}, None
        if self._chance.random() < 0.25:
            client = self._caller.sender.client
            fields["filter_json"] = json.dumps({"client": client})
        items, first, last, pages = await self._listed(
            self._path(space), space, order=order,
            page_size=self._chance.choice((2, _EVERYTHING, _EVERYTHING)), **fields)
        if items is None:
            return
        first["return_ns"] = last["return_ns"]
        by_key = order not in (item_wire.ITEM_ORDER_OLDEST_FIRST, item_wire.ITEM_ORDER_NEWEST_FIRST)
        keys = [item.key for item in items] if by_key else [item.version for item in items]
        upwards = order not in (item_wire.ITEM_ORDER_KEY_DESCENDING,
                                item_wire.ITEM_ORDER_NEWEST_FIRST)
        ordered = keys == sorted(keys, reverse=not upwards)
        if pages > 1 and not by_key:
            # What is written between two pages moves to another one.
            space_keys, whole = [], False
            items = list({item.key: item for item in items}.values())
        else:
            space_keys, whole = list(space.keys), pages == 1 and not space.expires
        if not ordered:
            first["foreign"] = [f"a list in another order than asked for: {keys}"]
        # Bytes pass no filter, so who was not shown may have put bytes.
        if client is not None:
            space_keys, whole = [], False
            first["of"] = client
        self._note(space, first, space_keys, items, whole=whole)

    async def _listed(self, path: Iterable[str], space: Space, **fields: Any
                      ) -> tuple[list[item_wire.Item] | None, Record, Record, int]:
        """All items of a namespace, None when it could not be read; its first and last call, and how
        many pages it took."""
        items: list[item_wire.Item] = []
        token, failed, pages = "", 0, 0
        first: Record = {}
        while True:
            reply, page = await self._call("list_items", space, item_wire.ListItemsRequest(
                namespace=path, page_token=token, **fields))
            if reply is None:
                failed += 1
                if failed == MOST_ATTEMPTS or page["reason"] == "NAMESPACE_REPLACED":
                    return None, first or page, page, pages
                continue
            first = first or page
            pages += 1
            items += reply.items
            token = reply.next_page_token
            if not token:
                return items, first, page, pages

    async def _search(self, space: Space) -> None:
        """Searches all namespaces, or some, by filter and words."""
        path = self._path(space)
        request = item_wire.SearchItemsRequest(
            namespace_prefix=path[:self._chance.randint(0, len(path))], limit=_EVERYTHING,
            refresh_ttl=False)
        if self._chance.random() < 0.5:
            request.filter_json = json.dumps({"client": self._caller.sender.client})
        if self._chance.random() < 0.3:
            request.query = bodies.word(self._caller.sender.client, self._caller.next_number())
        reply, record = await self._call("search_items", space, request)
        if reply is None:
            return
        by_path: dict[tuple[str, ...], list[item_wire.Item]] = {
            tuple(self._path(one)): [] for one in self._spaces}
        for result in reply.results:
            found = tuple(result.item.namespace)
            if found in by_path:
                by_path[found].append(result.item)
            elif found[0] != "copy" or not found[1].startswith(f"{self._caller.sender.tenant}-"):
                record.setdefault("foreign", []).append(f"an item of {found}")
        everything = not request.filter_json and not request.query
        for one in self._spaces:
            path = self._path(one)
            inside = list(request.namespace_prefix) == path[:len(request.namespace_prefix)]
            if not inside:
                if by_path[tuple(path)]:
                    record.setdefault("foreign", []).append(f"an item of {path}, which was not "
                                                            "searched")
                continue
            noted = {**record, "session": one.name}
            if request.filter_json:
                noted["of"] = self._caller.sender.client
            self._note(one, noted, list(one.keys) if everything else [], by_path[tuple(path)])
            record.pop("foreign", None)

    async def _namespaces(self, space: Space) -> None:
        """Which namespaces there are is a tenant's own affair."""
        reply, record = await self._call("list_spaces", space, item_wire.ListNamespacesRequest(
            page_size=_EVERYTHING))
        if reply is None:
            return
        note_namespaces(record, reply.namespaces, self._caller.sender.tenant)
        self._note(space, record, [], [])

    async def _copy(self, space: Space) -> None:
        """Copies a namespace. What the copy shows is what the namespace held at one moment of the
        call, so it is noted as a read of that."""
        if space.expires:
            return
        path = ["copy", f"{self._caller.sender.tenant}-{self._name()}"]
        reply, record = await self._call("copy_space", space, item_wire.CopyNamespaceRequest(
            namespace=self._path(space), new_namespace=path))
        items, _, last, _ = await self._listed(path, space, page_size=_EVERYTHING)
        if items is None or (reply is None and not items):
            return
        if record["outcome"] == "fail":
            record["foreign"] = [f"a copy that was refused: {len(items)} items"]
        if reply is None:
            # It was made after all, at some time.
            record.update(return_ns=last["return_ns"], outcome="ok")
        elif reply.item_count != len(items):
            record["foreign"] = [f"a copy of {reply.item_count} items that has {len(items)}"]
        self._note(space, record, list(space.keys), items, whole=True, path=path, versions=False)
        for _ in range(MOST_ATTEMPTS):
            dropped, _ = await self._call("drop_space", space, item_wire.DeleteNamespaceRequest(
                namespace=path))
            if dropped is not None:
                break
        # One whose outcome is not known may come yet.
        if reply is None or dropped is None:
            return
        items, first, _, _ = await self._listed(path, space, page_size=_EVERYTHING)
        if items:
            first["foreign"] = [f"{len(items)} items of a copy that was deleted"]
            self._note(space, first, [], [])

    # What they have in common.

    async def _call(self, operation: str, space: Space, request: Any, replica: int | None = None
                    ) -> tuple[Any, Record]:
        reply, record = await self._caller.call(operation, space.name, request, replica)
        record["space"] = True
        return reply, record

    def _name(self) -> str:
        return f"c{self._caller.sender.client}-{self._caller.next_number()}"

    def _path(self, space: Space) -> list[str]:
        return space.of(self._caller.sender.tenant)

    def _sender(self, space: Space) -> bodies.Sender:
        return dataclasses.replace(self._caller.sender, session=space.name)

    def _note_gets(self, space: Space, outcome: item_wire.ItemBatchOutcome, record: Record) -> None:
        if outcome.HasField("error"):
            return
        items = [result.get.item for result in outcome.results if result.get.HasField("item")]
        self._note(space, record, list(space.keys), items, whole=not space.expires)

    def _note(self, space: Space, record: Record, keys: list[str], items: Iterable[item_wire.Item],
              **fields: Any) -> None:
        note_items(record, space, keys, list(items), self._sender(space), **fields)
        if fields.get("versions", True):
            for key in keys:
                self._versions[space.name, key] = 0
            for key, _, version in record["shown"]:
                self._versions[space.name, key] = version
        self._caller.write_down(record)


def _reading(path: list[str], keys: Iterable[str]) -> item_wire.ItemBatch:
    return item_wire.ItemBatch(namespace=path, operations=[
        item_wire.ItemOperation(get=item_wire.ItemGet(key=key, refresh_ttl=False)) for key in keys])


def _note_error(record: Record, error: item_wire.ItemError) -> None:
    """What became of one batch of a call that itself is OK."""
    code = _CODES.get(error.code, "UNKNOWN")
    record.update(code=code, reason=error.reason, outcome=history.outcome_of(code, error.reason))
    if error.reason == "VERSION_MISMATCH":
        record.update(stored=error.version, lost=error.operation)
    if bodies.MARKER in error.message:
        record["leaks"] = [error.message]


def note_items(record: Record, space: Space, keys: list[str], items: list[item_wire.Item],
               sender: bodies.Sender, *, whole: bool = False, versions: bool = True,
               path: list[str] | None = None) -> None:
    """Notes what a read of the keys of a namespace has shown. `sender` is of its tenant, name and run;
    `path` is where it was read."""
    path = path or space.of(sender.tenant)
    shown, foreign = [], []
    for item in items:
        text = text_of(item)
        if list(item.namespace) != path:
            foreign.append(f"an item of {list(item.namespace)} among those of {path}")
        elif bodies.is_of(text, sender):
            shown.append([item.key, bodies.item_of(text), item.version if versions else None])
        else:
            foreign.append(text[:200])
    record.update(op="item_read", space=True, keys=keys, shown=shown, whole=whole)
    if foreign:
        record["foreign"] = record.get("foreign", []) + foreign


def note_namespaces(record: Record, namespaces: Iterable[item_wire.Namespace], tenant: str) -> None:
    """Notes those of a list that another tenant's copies and namespaces are."""
    foreign = [str(list(one.namespace)) for one in namespaces
               if (one.namespace[0] == "copy" and not one.namespace[1].startswith(f"{tenant}-"))
               or (one.namespace[1].startswith("own of ") and one.namespace[1] != f"own of {tenant}")]
    if foreign:
        record["foreign"] = record.get("foreign", []) + foreign


def text_of(item: item_wire.Item) -> str:
    """The text that was put, or another one where the value is none of ours."""
    if item.HasField("bytes_value"):
        return item.bytes_value.decode(errors="backslashreplace")
    try:
        return json.loads(item.json)["text"].replace(_NUL, "\0")
    except (ValueError, TypeError, KeyError, AttributeError):
        return item.json
