"""memoryd.langgraph against the server, beside LangGraph's own store and checkpointer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import uuid
from typing import Any

import pytest
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from support import paths
from support.server import Server

from memoryd import AsyncClient, Client, MemorydError
from memoryd.langgraph import Connection, MemorydSaver, MemorydStore

STORE_OPERATIONS = 10_000
SAVER_OPERATIONS = 10_000
ODD_THREADS = ["t", "*", "a/b", "%", "", "ü", "x" * 80]
NAMESPACES = ["", "child:1", "a:1|b:2", "n|" * 200]


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


def test_conforms(server, base):
    made = []

    @checkpointer_test(name="memoryd")
    async def checkpointer():
        made.append(1)
        yield MemorydSaver(server.target, namespace=(*base, str(len(made))))

    report = asyncio.run(validate(checkpointer))
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert {name for name, result in report.results.items() if result.passed} == {
        one.value for one in ALL_CAPABILITIES}
    assert sum(result.tests_passed for result in report.results.values()) == 81


# The store.


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


def test_calls_of_one_loop_are_gathered(server, base, monkeypatch):
    sent = []
    plain_call = AsyncClient._call

    async def counted(self, call):
        sent.append(call.rpc.name)
        return await plain_call(self, call)

    async def use() -> None:
        async with AsyncClient(server.target) as client:
            client._gatherer._send = lambda call: counted(client, call)
            await asyncio.gather(*(client.put_item((*base, str(at)), "k", at) for at in range(100)))
            found = await asyncio.gather(
                *(client.get_item((*base, str(at)), "k") for at in range(100)))
            assert [one.value for one in found] == list(range(100))
            answers = await asyncio.gather(
                client.put_item(base, "new", 1, expected_version=0),
                client.put_item((*base, "0"), "k", 1, expected_version=0),
                client.delete_item((*base, "1"), "k"), return_exceptions=True)
            assert answers[0].version > 0
            assert answers[1].reason == "VERSION_MISMATCH"
            assert answers[1].details["version"] == str(found[0].version)
            assert answers[2] is True

    asyncio.run(use())
    assert sent == ["BatchItems"] * 3


# The checkpointer.


def comparable(found: CheckpointTuple | None) -> Any:
    if found is None:
        return None
    return (found.config["configurable"], found.checkpoint, found.metadata,
            found.parent_config and found.parent_config["configurable"],
            [tuple(one) for one in found.pending_writes or ()])


class BothSavers:
    """The same calls on both, and the threads' checkpoints."""

    def __init__(self, target: str, base: tuple[str, ...], choices: random.Random, events) -> None:
        self.theirs = InMemorySaver()
        self.ours = MemorydSaver(target, namespace=base)
        self.choices = choices
        self.events = events
        self.known: dict[tuple[str, str], list] = {}

    def call(self, name: str, *given: Any) -> tuple[Any, Any]:
        theirs = getattr(self.theirs, name)(*given)
        if self.choices.random() < 0.5:
            return theirs, getattr(self.ours, name)(*given)
        return theirs, self.events.run_until_complete(getattr(self.ours, f"a{name}")(*given))

    def listed(self, config: Any, **asked: Any) -> tuple[list, list]:
        theirs = [comparable(one) for one in self.theirs.list(config, **asked)]
        if self.choices.random() < 0.5:
            return theirs, [comparable(one) for one in self.ours.list(config, **asked)]

        async def all_of() -> list:
            return [comparable(one) async for one in self.ours.alist(config, **asked)]

        return theirs, self.events.run_until_complete(all_of())


def some_channel_value(choices: random.Random) -> Any:
    return choices.choice([
        None, 1, 1.5, "small", "long" * 100, [1, "two"], {"a": {"b": b"bytes"}}, (1, 2), {3, 4},
        uuid.UUID(int=choices.getrandbits(64))])


def check_put(both: BothSavers, choices: random.Random, place: tuple[str, str]) -> None:
    known = both.known.setdefault(place, [])
    parent = choices.choice(known[-3:]) if known else None
    values = dict(parent["channel_values"]) if parent else {}
    versions = dict(parent["channel_versions"]) if parent else {}
    changed = choices.sample(["messages", "x", "branch:to:a", "ü/1"], choices.randint(0, 3))
    for channel in changed:
        versions[channel] = both.theirs.get_next_version(versions.get(channel), None)
        if choices.random() < 0.15:
            values.pop(channel, None)
        else:
            values[channel] = some_channel_value(choices)
    checkpoint = {**empty_checkpoint(), "id": str(uuid6(clock_seq=len(known))),
                  "channel_values": values, "channel_versions": versions}
    config = {"configurable": {"thread_id": place[0], "checkpoint_ns": place[1]}}
    if parent:
        config["configurable"]["checkpoint_id"] = parent["id"]
    metadata = {"source": choices.choice(["input", "loop"]), "step": len(known),
                "parents": {}, "run_id": f"r{choices.randint(0, 5)}"}
    theirs, ours = both.call(
        "put", config, checkpoint, metadata, {channel: versions[channel] for channel in changed})
    assert ours == theirs
    known.append(checkpoint)


def check_writes(both: BothSavers, choices: random.Random, config: Any) -> None:
    writes = [(choices.choice(["messages", "x", "__error__", "__interrupt__", "__resume__"]),
               some_channel_value(choices)) for _ in range(choices.randint(0, 4))]
    both.call("put_writes", config, writes, choice_of_task(choices), choices.choice(["", "~a", "b"]))


def choice_of_task(choices: random.Random) -> str:
    return f"task-{choices.randint(0, 3)}"


def place_of(found: Any) -> str:
    return str(found[0])


def at(config: Any, checkpoint_id: str) -> Any:
    return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint_id}}


def check_saver(both: BothSavers, choices: random.Random) -> None:
    place = choices.choice(ODD_THREADS), choices.choice(NAMESPACES)
    known = both.known.get(place, [])
    config: Any = {"configurable": {"thread_id": place[0], "checkpoint_ns": place[1]}}
    one = at(config, choices.choice(known)["id"]) if known else None
    kind = choices.random()
    if kind < 0.3:
        check_put(both, choices, place)
    elif kind < 0.5 and one:
        check_writes(both, choices, one)
    elif kind < 0.8:
        theirs, ours = both.call("get_tuple", choices.choice([config, one or config]))
        assert comparable(ours) == comparable(theirs)
    elif kind < 0.995:
        asked = {
            "filter": choices.choice([None, {"source": "input"}, {"step": 1, "none": None}]),
            "before": choices.choice([None, one]),
            "limit": choices.choice([0, 1, 3, 60, None])}
        theirs, ours = both.listed(config, **asked)
        assert ours == theirs
    else:
        both.call("delete_thread", place[0])
        for of in [of for of in both.known if of[0] == place[0]]:
            del both.known[of]


def test_saver_is_as_in_memory(server, base):
    choices = random.Random(7)
    with loop() as events:
        both = BothSavers(server.target, base, choices, events)
        for _ in range(SAVER_OPERATIONS):
            check_saver(both, choices)
        for config in [None, *({"configurable": {"thread_id": one}} for one in ODD_THREADS)]:
            theirs, ours = both.listed(config)
            assert sorted(ours, key=place_of) == sorted(theirs, key=place_of)


def items_below(target: str, base: tuple[str, ...]) -> int:
    client = Connection(target).client
    return sum(1 for path in client.list_namespaces(prefix=base)
               for _ in client.list_items(path, keys_only=True))


def test_saver_keeps_nothing_of_what_it_deletes(server, base):
    saver = MemorydSaver(server.target, namespace=base)
    choices = random.Random(1)
    with loop() as events:
        both = BothSavers(server.target, base, choices, events)
        for _ in range(20):
            for place in (("t", ""), ("t", "child")):
                check_put(both, choices, place)
                check_writes(both, choices, {"configurable": {
                    "thread_id": "t", "checkpoint_ns": place[1],
                    "checkpoint_id": both.known[place][-1]["id"]}})
    saver.copy_thread("t", "u")
    saver.prune(["t"])
    assert [comparable(one) for one in saver.list({"configurable": {"thread_id": "t"}})] == [
        comparable(both.theirs.get_tuple(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ns}}))
        for ns in ("", "child")]
    saver.delete_thread("t")
    assert len([*saver.list(None)]) == 40
    saver.delete_for_runs([f"r{at}" for at in range(6)])
    assert [*saver.list(None)] == []
    client = Connection(server.target).client
    # Pending writes of no run's, and nothing else, could be left; there are none.
    assert items_below(server.target, base) == 0, [
        (path, one.wire.key) for path in client.list_namespaces(prefix=base)
        for one in client.list_items(path, keys_only=True)]


def test_saver_stores_values_once_a_version(server, base):
    saver = MemorydSaver(server.target, namespace=base)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    values = {"large": ["x" * 100_000]}
    for step in range(5):
        new = {"large": "1"} if step == 0 else {}
        checkpoint: Any = {**empty_checkpoint(), "id": str(uuid6(clock_seq=step)),
                           "channel_values": values, "channel_versions": {"large": "1"}}
        config = saver.put(config, checkpoint, {"step": step}, new)
    path = (*base, "threads", "t", "%")
    assert Connection(server.target).client.get_namespace(path).item_bytes < 110_000
    assert [one.checkpoint["channel_values"] for one in saver.list(config | {})] == [values]


def test_saver_stores_a_large_checkpoint_in_parts(server, base):
    saver = MemorydSaver(server.target, namespace=base, timeout=60.0)
    values = {f"c{at}": bytes([at]) * (9 << 20) for at in range(5)}
    checkpoint: Any = {**empty_checkpoint(), "id": str(uuid6(clock_seq=1)),
                       "channel_values": values, "channel_versions": dict.fromkeys(values, "1")}
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(config, checkpoint, {}, dict.fromkeys(values, "1"))
    assert saver.get_tuple(config).checkpoint["channel_values"] == values


def test_saver_refuses_a_value_that_no_item_holds(server, base):
    saver = MemorydSaver(server.target, namespace=base, timeout=60.0)
    checkpoint: Any = {**empty_checkpoint(), "channel_values": {"c": bytes((32 << 20) + 1)},
                       "channel_versions": {"c": "1"}}
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    with pytest.raises(MemorydError):
        saver.put(config, checkpoint, {}, {"c": "1"})
    assert saver.get_tuple(config) is None


def test_saver_refuses_a_long_thread_id(server, base):
    with pytest.raises(ValueError, match="thread_id: must be at most 256 bytes"):
        MemorydSaver(server.target, namespace=base).delete_thread("x" * 257)


# What a saver asks the server.


def counted_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that synchronous clients make from now on."""
    made: list[str] = []
    plain_call = Client._call

    def call(self: Client, asked: Any) -> Any:
        made.append(asked.rpc.name)
        return plain_call(self, asked)

    monkeypatch.setattr(Client, "_call", call)
    return made


def put_step(saver: MemorydSaver, config: Any, values: dict[str, Any], changed: list[str],
             versions: dict[str, str], **metadata: Any) -> Any:
    """Stores the checkpoint after `config` and returns the config that names it."""
    for channel in changed:
        versions[channel] = saver.get_next_version(versions.get(channel), None)
    checkpoint: Any = {**empty_checkpoint(), "channel_values": values,
                       "channel_versions": dict(versions)}
    return saver.put(config, checkpoint, metadata, {one: versions[one] for one in changed})


def thread(name: str = "t") -> Any:
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


def test_saver_makes_one_call_a_method(server, base, monkeypatch):
    saver = MemorydSaver(server.target, namespace=base)
    values = {"messages": [{"role": "user", "text": "tea"}] * 20, "count": 3, "none": None}
    first = put_step(saver, thread(), values, [*values, "branch:to:a"], versions := {})
    calls = counted_calls(monkeypatch)
    second = put_step(saver, first, values, ["count"], versions)
    saver.put_writes(second, [("count", 4), ("messages", ["x"])], "task")
    newest = saver.get_tuple(thread())
    assert saver.get_tuple(second) == newest
    older = saver.get_tuple(first)
    assert calls == ["BatchItems", "BatchItems", "ListItems", "ListItems", "ListItems"]
    assert newest.checkpoint["channel_values"] == older.checkpoint["channel_values"] == values
    assert newest.pending_writes == [("task", "count", 4), ("task", "messages", ["x"])]
    assert (newest.parent_config, older.pending_writes) == (first, [])


def test_saver_reads_large_values_with_one_more_call(server, base, monkeypatch):
    saver = MemorydSaver(server.target, namespace=base)
    values = {"a": ["x" * 5000], "b": ["y" * 5000], "c": ["z"]}
    put_step(saver, thread(), values, [*values], {})
    calls = counted_calls(monkeypatch)
    assert saver.get_tuple(thread()).checkpoint["channel_values"] == values
    assert calls == ["ListItems", "BatchItems"]


@pytest.mark.parametrize("size", [0, 129, 4000, 4080, 4090, 4096, 4100, 8100, 8192, 8300])
def test_saver_keeps_a_value_of_any_size_that_does_not_change(server, base, size):
    values = {"of": ["x" * size], "other": 1}
    config, versions = thread(), {}
    for step in range(3):
        # Another process each time: it knows nothing of what was stored.
        saver = MemorydSaver(server.target, namespace=base)
        config = put_step(
            saver, config, values, [*values] if step == 0 else ["other"], versions)
        assert saver.get_tuple(thread()).checkpoint["channel_values"] == values
    assert [one.checkpoint["channel_values"] for one in saver.list(thread())] == [values] * 3


class UnequalSerializer(JsonPlusSerializer):
    """Never makes as many bytes as before."""

    def __init__(self) -> None:
        super().__init__()
        self.more = 3000

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        self.more = 3000 - self.more
        kind, data = super().dumps_typed(value)
        return f"{kind} {len(data)}", data + bytes(self.more)

    def loads_typed(self, typed: tuple[str, bytes]) -> Any:
        kind, size = typed[0].split()
        return super().loads_typed((kind, typed[1][:int(size)]))


def test_saver_keeps_a_value_that_is_serialized_in_another_way_each_time(server, base):
    serde = UnequalSerializer()
    values = {str(size): ["x" * size] for size in range(0, 9000, 250)}
    config, versions = thread(), {}
    for step in range(4):
        saver = MemorydSaver(server.target, namespace=base, serde=serde)
        config = put_step(saver, config, values, [] if step else [*values], versions)
        serde.dumps_typed(None)
    assert [one.checkpoint["channel_values"] for one in saver.list(thread())] == [values] * 4


def test_saver_reads_more_writes_than_a_page_has(server, base):
    saver = MemorydSaver(server.target, namespace=base)
    first = put_step(saver, thread(), {"v": 1}, ["v"], versions := {})
    second = put_step(saver, first, {"v": 2}, ["v"], versions)
    for config, of in ((first, "first"), (second, "second")):
        for task in range(30):
            saver.put_writes(config, [("v", [of, task, at]) for at in range(4)], f"{task:02}")
    expected = {of: [(f"{task:02}", "v", [of, task, at]) for task in range(30) for at in range(4)]
                for of in ("first", "second")}
    assert saver.get_tuple(thread()).pending_writes == expected["second"]
    assert saver.get_tuple(first).pending_writes == expected["first"]
    assert [one.pending_writes for one in saver.list(thread())] == [
        expected["second"], expected["first"]]
    assert [one.config for one in saver.list(thread(), limit=1)] == [second]
    saver.copy_thread("t", "u")
    assert [one.pending_writes for one in saver.list(thread("u"))] == [
        expected["second"], expected["first"]]


def test_saver_leaves_out_writes_whose_checkpoint_is_not_stored(server, base):
    saver = MemorydSaver(server.target, namespace=base)
    stored = put_step(saver, thread(), {"v": 1}, ["v"], {})
    saver.put_writes(stored, [("v", 2)], "task")
    later = {"configurable": {**stored["configurable"], "checkpoint_id": str(uuid6())}}
    saver.put_writes(later, [("v", at) for at in range(20)], "task")
    assert saver.get_tuple(later) is None
    found = saver.get_tuple(thread())
    assert (found.config, found.pending_writes) == (stored, [("task", "v", 2)])
    assert len([*saver.list(thread())]) == 1


def test_saver_keeps_odd_checkpoint_ids_apart(server, base):
    saver = MemorydSaver(server.target, namespace=base)
    ids = ["a", "a!", "a b", "a/b", 'a"', "a%", "a-", "aa", "ü", "a" * 300, " " * 250]
    for one in ids:
        checkpoint: Any = {**empty_checkpoint(), "id": one, "channel_values": {"v": one},
                           "channel_versions": {"v": "1"}}
        config = saver.put(thread(), checkpoint, {}, {"v": "1"})
        saver.put_writes(config, [("v", one)], "task/!")
    for one in ids:
        found = saver.get_tuple(at(thread(), one))
        assert found.checkpoint["channel_values"] == {"v": one}
        assert found.pending_writes == [("task/!", "v", one)]
    assert {one.checkpoint["id"] for one in saver.list(thread())} == {*ids}


@pytest.mark.parametrize("made", range(4))
def test_saver_finds_checkpoints_of_a_run_after_a_crash(server, base, monkeypatch, made):
    saver = MemorydSaver(server.target, namespace=base)
    config = put_step(saver, thread(), {"v": 1}, ["v"], versions := {}, run_id="r")
    plain_call = Client._call
    left = [made]

    def call(self: Client, asked: Any) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return plain_call(self, asked)

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(Client, "_call", call)
        config = put_step(saver, config, {"v": 2}, ["v"], versions, run_id="r")
        saver.delete_for_runs(["r"])
    saver.delete_for_runs(["r"])
    assert [*saver.list(None)] == []
    assert items_below(server.target, base) == 0

def test_the_example_goes_on_after_it_was_killed(store):
    example = paths.REPOSITORY / "examples/langgraph_agent.py"
    source = str(paths.REPOSITORY / "clients/python/src")
    with Server(store) as server:
        done = subprocess.run(
            [sys.executable, str(example), server.target], capture_output=True, text=True,
            timeout=120, env={**os.environ, "PYTHONPATH": source}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "now: boil", "now: brew", "now: pour", "done: ['boil', 'brew', 'pour']"]
