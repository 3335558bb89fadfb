"""Graphs of LangGraph that keep their state and their items in memoryd."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import os
import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from support import paths
from support.server import Server, restarted
from support.writers import Progress

import memoryd
from memoryd.langgraph import Connection, MemorydSaver, MemorydStore

# Of the values of a delta channel that are stored whole, every so many updates one.
FREQUENCY = 5
TURNS = 12
RESTARTS = 3


@pytest.fixture
def base() -> tuple[str, ...]:
    return ("tests", uuid.uuid4().hex)


def appended(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(one for write in writes for one in write)]


class Log(TypedDict):
    log: Annotated[list[str], DeltaChannel(appended, snapshot_frequency=FREQUENCY)]
    turn: int


class Count(TypedDict):
    count: Annotated[int, operator.add]


def logging_graph(saver: Any) -> Any:
    builder = StateGraph(Log)
    builder.add_node("a", lambda state: {"log": [f"a{state['turn']}"]})
    builder.add_node("b", lambda state: {"log": [f"b{len(state['log'])}"]})
    builder.add_edge(START, "a").add_edge("a", "b")
    return builder.compile(checkpointer=saver)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def run_turns(graph: Any, name: str, turns: range) -> Any:
    state: Any = None
    for turn in turns:
        state = graph.invoke({"log": [f"turn {turn}"], "turn": turn}, thread(name))
    return state


def histories(saver: Any, name: str) -> list[Any]:
    """What is known of the delta channel at each checkpoint."""
    return [saver.get_delta_channel_history(config=one.config, channels=["log", "other"])
            for one in saver.list(thread(name))]


def test_a_delta_channel_is_as_in_memory(server, base):
    theirs, ours = InMemorySaver(), MemorydSaver(server.target, namespace=base)
    for saver in (theirs, ours):
        run_turns(logging_graph(saver), "t", range(TURNS))
    states = [
        [(one.values, one.next) for one in logging_graph(saver).get_state_history(thread("t"))]
        for saver in (theirs, ours)]
    assert states[0] == states[1] and len(states[0]) > 3 * TURNS
    for expected, found in zip(histories(theirs, "t"), histories(ours, "t"), strict=True):
        for channel in ("log", "other"):
            assert [value for _, _, value in found[channel]["writes"]] == [
                value for _, _, value in expected[channel]["writes"]]
            assert found[channel].get("seed") == expected[channel].get("seed")


@pytest.mark.parametrize("turns", range(1, TURNS))
def test_prune_keeps_what_a_delta_channel_is_rebuilt_from(server, base, turns):
    ours, theirs = MemorydSaver(server.target, namespace=base), InMemorySaver()
    for saver in (ours, theirs):
        expected = run_turns(logging_graph(saver), "t", range(turns))
    before = len([*ours.list(thread("t"))])
    ours.prune(["t"])
    kept = len([*ours.list(thread("t"))])
    assert kept <= before and kept <= 4 * FREQUENCY
    graph = logging_graph(MemorydSaver(server.target, namespace=base))
    assert graph.get_state(thread("t")).values == expected
    # Twice is as once, and the thread goes on.
    ours.prune(["t"])
    assert len([*ours.list(thread("t"))]) == kept
    assert run_turns(graph, "t", range(turns, turns + 3)) == run_turns(
        logging_graph(theirs), "t", range(turns, turns + 3))


def counting_graph(saver: Any, store: Any = None) -> Any:
    def step(state: Count) -> Count:
        return {"count": 1}

    return StateGraph(Count).add_node(step).add_edge(START, "step").compile(
        checkpointer=saver, store=store)


def test_threads_of_many_coroutines_are_apart(server, base):
    async def use() -> None:
        saver = MemorydSaver(server.target, namespace=base)
        graph = counting_graph(saver)

        async def count(name: str, times: int) -> int:
            for _ in range(times):
                state = await graph.ainvoke({"count": 0}, thread(name))
            return state["count"]

        assert await asyncio.gather(*(count(f"t{at}", at + 1) for at in range(8))) == [
            *range(1, 9)]
        async with contextlib.aclosing(saver.alist(None)) as listed:
            assert {one.config["configurable"]["thread_id"] async for one in listed} == {
                f"t{at}" for at in range(8)}

    asyncio.run(use())


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_thread_goes_on_over_restarts(store, durability):
    progress = Progress()
    states: list[int] = []

    def count(target: str) -> None:
        try:
            graph = counting_graph(MemorydSaver(target, timeout=120.0))
            for _ in range(TURNS):
                state = graph.invoke({"count": 0}, thread("t"), durability=durability)
                states.append(state["count"])
                progress.add(1)
        except BaseException as error:
            progress.fail(error)

    with restarted(store) as (listen, restart):
        counting = threading.Thread(target=count, args=(listen,))
        counting.start()
        for number in range(RESTARTS):
            progress.wait_for(TURNS * (number + 1) // (RESTARTS + 1))
            restart()
        counting.join()
        progress.check()
        assert states == [*range(1, TURNS + 1)]
        assert counting_graph(MemorydSaver(listen)).get_state(thread("t")).values == {
            "count": TURNS}


# Where memoryd is.


@pytest.fixture(params=["address", "memoryd://", "connection", "environment", "pickled"])
def target(server, request, monkeypatch) -> Iterator[Any]:
    monkeypatch.delenv("MEMORYD_TARGET", raising=False)
    if request.param == "environment":
        monkeypatch.setenv("MEMORYD_TARGET", server.target)
    yield {"address": server.target, "memoryd://": f"memoryd://{server.target}",
           "connection": Connection(server.target), "environment": None,
           "pickled": pickle.loads(pickle.dumps(Connection(server.target)))}[request.param]


def test_every_way_to_name_the_server(base, target):
    store = MemorydStore(target, namespace=base)
    store.put(("a",), "k", {"v": 1})
    graph = counting_graph(MemorydSaver(target, namespace=base), store)
    assert graph.invoke({"count": 1}, thread("t")) == {"count": 2}
    assert MemorydStore(target, namespace=base).get(("a",), "k").value == {"v": 1}
    assert graph.invoke({"count": 1}, thread("t")) == {"count": 4}


def test_a_local_server_keeps_a_thread(monkeypatch, tmp_path_factory):
    for name in [name for name in os.environ if name.startswith("MEMORYD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMORYD_BINARY", str(paths.BINARY))
    folder = tmp_path_factory.mktemp("local")
    for expected in (2, 4):
        with memoryd.local(folder) as memory:
            graph = counting_graph(MemorydSaver(memory.target), MemorydStore(memory.target))
            assert graph.invoke({"count": 1}, thread("t")) == {"count": expected}


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
