"""memoryd.langgraph's checkpointer: LangGraph's own tests of one, and the same calls beside InMemorySaver."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from typing import Any

import pytest
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.memory import InMemorySaver

from memoryd import MemorydError
from memoryd.langgraph import Connection, MemorydSaver

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
    values = {f"c{at}": bytes([at]) * (9 << 20) for at in range(8)}
    checkpoint: Any = {**empty_checkpoint(), "id": str(uuid6(clock_seq=1)),
                       "channel_values": values, "channel_versions": dict.fromkeys(values, "1")}
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(config, checkpoint, {}, dict.fromkeys(values, "1"))
    # More than a reply holds.
    assert saver.get_tuple(config).checkpoint["channel_values"] == values
    assert asyncio.run(saver.aget_tuple(config)).checkpoint["channel_values"] == values


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
