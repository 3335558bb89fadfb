"""How memoryd.langgraph's checkpointer stores and reads checkpoints: calls, sizes, keys, crashes."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from memoryd import Client
from memoryd.langgraph import MemorydSaver


@pytest.fixture
def base() -> tuple[str, ...]:
    return ("tests", uuid.uuid4().hex)


def at(config: Any, checkpoint_id: str) -> Any:
    return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint_id}}


def items_below(target: str, base: tuple[str, ...]) -> int:
    with Client(target) as client:
        return sum(1 for path in client.list_namespaces(prefix=base)
                   for _ in client.list_items(path, keys_only=True))


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


@pytest.mark.parametrize("size", [5000, 9000])
@pytest.mark.parametrize("is_known", [True, False])
def test_saver_keeps_a_value_that_grows_where_it_is(server, base, size, is_known):
    # A node that changes its state in place and returns other channels.
    values = {"of": ["x"], "other": 1}
    saver, versions = MemorydSaver(server.target, namespace=base), {}
    config = put_step(saver, thread(), values, [*values], versions)
    values["of"].append("y" * size)
    for _ in range(2):
        if not is_known:
            saver = MemorydSaver(server.target, namespace=base)
        config = put_step(saver, config, values, ["other"], versions)
        assert saver.get_tuple(thread()).checkpoint["channel_values"] == values


def test_saver_need_not_ask_for_values_that_it_has_read(server, base, monkeypatch):
    values = {"large": ["x" * 9000], "other": 1}
    versions: dict[str, str] = {}
    config = put_step(MemorydSaver(server.target, namespace=base), thread(), values, [*values],
                      versions)
    saver = MemorydSaver(server.target, namespace=base)
    saver.get_tuple(thread())
    calls = counted_calls(monkeypatch)
    put_step(saver, config, values, ["other"], versions)
    assert calls == ["BatchItems"]


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
