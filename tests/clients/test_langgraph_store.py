"""memoryd.langgraph's store against the server, beside LangGraph's own in memory and in PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import AsyncPostgresStore

from support.clock import Clock, moved_clock
from support.postgres import run_sql, temporary_database
from support.server import Server

from memoryd import MemorydError
from memoryd.langgraph import MemorydStore

STORE_OPERATIONS = 10_000
TTL_OPERATIONS = 2000
# No sum of the latter is near one of the former: what a test takes itself changes nothing.
TTL_MINUTES = (100, 220, 300)
PASSING_MINUTES = (40, 120)


@pytest.fixture
def base() -> tuple[str, ...]:
    return ("tests", uuid.uuid4().hex)


@contextlib.contextmanager
def loop():
    made = asyncio.new_event_loop()
    try:
        yield made
    finally:
        made.close()


class BothStores:
    """The same operations on both, and when each key was written last."""

    def __init__(self, target: str, base: tuple[str, ...], choices: random.Random, events) -> None:
        self.theirs = InMemoryStore()
        self.ours = MemorydStore(target, namespace=base)
        self.choices = choices
        self.events = events
        self.written: dict[Any, int] = {}
        self.count = 0

    def batch(self, ops: list) -> tuple[list, list]:
        ours = (self.ours.batch(ops) if self.choices.random() < 0.5
                else self.events.run_until_complete(self.ours.abatch(ops)))
        for op in ops:
            self.count += 1
            if isinstance(op, PutOp):
                self.written[op.namespace, op.key] = self.count
        return self.theirs.batch(ops), ours

    def newest_first(self, found: list) -> list:
        return sorted(found, key=lambda one: -self.written[one.namespace, one.key])


def plain(found: Any) -> Any:
    if isinstance(found, list):
        return [plain(one) for one in found]
    return found and (tuple(found.namespace), found.key, found.value)


def some_namespace(choices: random.Random) -> tuple[str, ...]:
    return tuple(choices.choice("ab*") for _ in range(choices.randint(1, 4)))


def some_value(choices: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"n": choices.randint(-3, 3), "s": choices.choice(["x", "y", "ü", ""])}
    if choices.random() < 0.5:
        made["deep"] = {"f": choices.choice([0.5, 1, 1.0, None, True]), "l": [1, {"k": "v"}]}
    return made


def some_filter(choices: random.Random) -> dict[str, Any] | None:
    return choices.choice([
        None, {"n": 1}, {"n": {"$gt": choices.randint(-3, 3)}},
        {"n": {"$gte": -1, "$lt": 2}}, {"n": {"$lte": 0}, "s": {"$ne": "x"}}, {"s": {"$eq": "ü"}},
        {"missing": {"$ne": 1}}, {"missing": {"$eq": None}}, {"missing": None},
        {"deep": {"l": [1, {"k": "v"}]}}, {"deep": {"f": {"$eq": 0.5}}}])


def check_store(both: BothStores, choices: random.Random) -> None:
    kind = choices.random()
    if kind < 0.45:
        value = None if choices.random() < 0.25 else some_value(choices)
        both.batch([PutOp(some_namespace(choices), choices.choice("klm"), value)])
    elif kind < 0.7:
        ops = [GetOp(some_namespace(choices), choices.choice("klm")) for _ in range(3)]
        theirs, ours = both.batch(ops)
        assert plain(ours) == plain(theirs)
    elif kind < 0.88:
        prefix = some_namespace(choices)[choices.randint(0, 2):]
        offset, limit = choices.randint(0, 5), choices.randint(0, 12)
        filter = some_filter(choices)
        (found,), _ = both.theirs.batch([SearchOp(prefix, filter, 10_000)]), None
        _, (ours,) = both.batch([SearchOp(prefix, filter, limit, offset)])
        assert plain(ours) == plain(both.newest_first(found))[offset:offset + limit]
    else:
        # Namespaces without items are none of ours.
        for namespace in [one for one, within in both.theirs._data.items() if not within]:
            del both.theirs._data[namespace]
        asked: dict[str, Any] = {
            "prefix": some_namespace(choices) if choices.random() < 0.5 else None,
            "suffix": some_namespace(choices) if choices.random() < 0.5 else None,
            "max_depth": choices.choice([None, 1, 2, 3]),
            "limit": choices.randint(1, 100), "offset": choices.randint(0, 3)}
        both.count += 1
        assert both.ours.list_namespaces(**asked) == both.theirs.list_namespaces(**asked), asked


def test_store_is_as_in_memory(server, base):
    choices = random.Random(28)
    with loop() as events:
        both = BothStores(server.target, base, choices, events)
        while both.count < STORE_OPERATIONS:
            check_store(both, choices)


def test_store_reads_the_state_before_puts(server, base):
    store = MemorydStore(server.target, namespace=base)
    store.put(("a",), "k", {"v": 1})
    found = store.batch([
        PutOp(("a",), "k", {"v": 2}), GetOp(("a",), "k"), PutOp(("a",), "k", {"v": 3}),
        SearchOp(("a",))])
    assert (found[0], found[1].value, found[2]) == (None, {"v": 1}, None)
    assert [one.value for one in found[3]] == [{"v": 1}]
    assert store.get(("a",), "k").value == {"v": 3}


def test_a_store_lists_its_own_namespaces_alone(server, base):
    """Whatever it is named after: an id that a user chose may be `*`."""
    own, other = (MemorydStore(server.target, namespace=(*base, user)) for user in ("*", "bob"))
    own.put(("a",), "k", {})
    other.put(("secret",), "k", {})
    for asked in ({}, {"max_depth": 1}, {"prefix": ("*",)}, {"suffix": ("*",)}):
        assert own.list_namespaces(**asked) == [("a",)], asked
    assert other.list_namespaces() == [("secret",)]


def ran(store: MemorydStore, ops: list[Any], is_async: bool) -> list[Any]:
    return asyncio.run(store.abatch(ops)) if is_async else store.batch(ops)


@pytest.mark.parametrize("is_async", [False, True])
def test_store_runs_more_operations_than_a_call_has(server, base, is_async):
    store = MemorydStore(server.target, namespace=base, timeout=60.0)
    ran(store, [PutOp(("many", str(at)), "k", {"at": at}) for at in range(1001)], is_async)
    found = ran(store, [GetOp(("many", str(at)), "k") for at in range(1001)], is_async)
    assert [one.value["at"] for one in found] == [*range(1001)]
    asked = [GetOp(("many", "1000"), "k"), *(GetOp(("one",), str(at)) for at in range(10_000)),
             PutOp(("one",), "9999", {"at": 1})]
    found = ran(store, asked, is_async)
    assert found[0].value == {"at": 1000} and not any(found[1:])
    assert store.get(("one",), "9999").value == {"at": 1}


@pytest.mark.parametrize("is_async", [False, True])
def test_store_keeps_more_bytes_than_a_call_has(server, base, is_async):
    store = MemorydStore(server.target, namespace=base, timeout=60.0)
    values = {str(at): {"v": str(at) * (17 << 20)} for at in range(4)}
    ran(store, [PutOp(("large",), key, value) for key, value in values.items()], is_async)
    *found, _ = ran(store, [*(GetOp(("large",), key) for key in values),
                            PutOp(("large",), "0", {"v": 1})], is_async)
    assert [one.value == values[one.key] for one in found] == [True] * 4
    assert store.get(("large",), "0").value == {"v": 1}
    store.put(("large",), "0", values["0"])
    (found,) = ran(store, [SearchOp(("large",))], is_async)
    assert {one.key: len(one.value["v"]) for one in found} == dict.fromkeys(values, 17 << 20)


def test_store_finds_words(server, base):
    store = MemorydStore(server.target, namespace=base, index=["text"])
    store.put(("a",), "tea", {"text": "Ada drinks green tea", "note": "zebra"})
    store.put(("a",), "car", {"text": "The car is red"})
    store.put(("a",), "out", {"text": "green tea as well"}, index=False)
    found = store.search(("a",), query="green tea")
    assert found[0].key == "tea"
    scores = {one.key: one.score for one in found}
    assert scores["tea"] > (scores["car"] or 0.0)
    # What answers to no word of it fills the rest without a score, as with LangGraph's own.
    assert found[-1].key == "out" and scores["out"] is None and len(found) == 3
    assert [one.key for one in store.search(("a",), query="tea", limit=1)] == ["tea"]
    assert len(store.search(("a",), query="green tea", limit=2, offset=2)) == 1


@pytest.mark.parametrize("namespace,key,value,named", [
    (("n",) * 14, "k", {}, "namespace"), (("x" * 257,), "k", {}, "namespace"),
    (("a\n",), "k", {}, "namespace"), (("a",), "k" * 1025, {}, "key"), (("a",), "", {}, "key"),
    (("a",), "k", {"v": float("nan")}, "json"), (("a",), "k", {"v": "\0"}, "json"),
    (("a",), "k", {"v": "\ud800"}, "json")])
def test_store_refuses(server, base, namespace, key, value, named):
    store = MemorydStore(server.target, namespace=base)
    with pytest.raises(MemorydError, match=named):
        store.put(namespace, key, value)
    assert store.search(()) == []


@pytest.mark.parametrize("ttl", [0, -1])
def test_store_refuses_a_ttl(server, base, ttl):
    with pytest.raises(MemorydError, match="ttl"):
        MemorydStore(server.target, namespace=base).put(("a",), "k", {}, ttl=ttl)


# Times to live.


class AgedStores:
    """The same operations on both, and a clock for both. Theirs is in PostgreSQL, whose clock stays:
    instead, what it stored grows older."""

    def __init__(self, theirs: AsyncPostgresStore, database: str, ours: MemorydStore,
                 clock: Clock) -> None:
        self.theirs, self._database, self.ours, self._clock = theirs, database, ours, clock
        self.expired = 0

    async def pass_minutes(self, minutes: int) -> None:
        self._clock.advance(60 * minutes)
        run_sql(self._database,
                f"UPDATE store SET expires_at = expires_at - interval '{minutes} minutes'")
        self.expired += await self.theirs.sweep_ttl()

    async def check(self, op: Any) -> None:
        (expected,), (found,) = await self.theirs.abatch([op]), await self.ours.abatch([op])
        if isinstance(op, ListNamespacesOp):
            # A namespace is listed until its expired items are swept.
            assert set(found) >= set(expected), op
            return
        assert plain(found) == plain(expected), op


def some_timed_operation(choices: random.Random) -> Any:
    namespace, key = (choices.choice("ab"),), choices.choice("klmn")
    refresh = choices.random() < 0.4
    kind = choices.random()
    if kind < 0.35:
        return PutOp(namespace, key, {"n": choices.randint(0, 9)},
                     ttl=choices.choice([*TTL_MINUTES, None]))
    if kind < 0.4:
        return PutOp(namespace, key, None)
    if kind < 0.8:
        return GetOp(namespace, key, refresh_ttl=refresh)
    if kind < 0.95:
        return SearchOp(namespace, limit=choices.randint(1, 5), refresh_ttl=refresh,
                        filter=choices.choice([None, {"n": {"$gt": 4}}]))
    return ListNamespacesOp()


def test_ttls_are_as_in_postgres(store):
    choices = random.Random(3)

    async def use(database: str, target: str, clock: Clock) -> None:
        async with AsyncPostgresStore.from_conn_string(database) as theirs:
            await theirs.setup()
            stores = AgedStores(theirs, database, MemorydStore(target, timeout=60.0), clock)
            for _ in range(TTL_OPERATIONS):
                if choices.random() < 0.12:
                    await stores.pass_minutes(choices.choice(PASSING_MINUTES))
                await stores.check(some_timed_operation(choices))
            assert stores.expired > TTL_OPERATIONS / 40

    with moved_clock() as clock, temporary_database() as database, \
            Server(store, environment=clock.environment) as server:
        asyncio.run(use(database, server.target, clock))


@pytest.mark.parametrize("refreshes", [True, False])
def test_the_default_ttl_is_as_in_postgres(store, refreshes):
    ttl: Any = {"default_ttl": 30, "refresh_on_read": refreshes}

    async def use(database: str, target: str, clock: Clock) -> list[bool]:
        async with AsyncPostgresStore.from_conn_string(database, ttl=ttl) as theirs:
            await theirs.setup()
            stores = AgedStores(theirs, database, MemorydStore(target, ttl=ttl, timeout=60.0),
                                clock)
            for one in (stores.theirs, stores.ours):
                await one.aput(("a",), "default", {})
                await one.aput(("a",), "own", {}, ttl=100)
            seen = []
            for _ in range(3):
                await stores.pass_minutes(20)
                found = [await one.aget(("a",), "default") for one in (stores.theirs, stores.ours)]
                assert plain(found[0]) == plain(found[1])
                seen.append(found[0] is not None)
                assert await stores.ours.aget(("a",), "own", refresh_ttl=False)
            return seen

    with moved_clock() as clock, temporary_database() as database, \
            Server(store, environment=clock.environment) as server:
        assert asyncio.run(use(database, server.target, clock)) == [True, refreshes, refreshes]
