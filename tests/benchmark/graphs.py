#!/usr/bin/env python3
"""LangGraph's store and checkpointer in memoryd beside those that LangGraph has for PostgreSQL.

    build/bench-venv/bin/python tests/benchmark/graphs.py [--rounds 5] [--seconds 3]
        [--callers 1 8] [--messages 20] [--only put turn] [--folder /dev/shm] [--binary PATH]

Both keep their data in one PostgreSQL, each in a database of its own, with fsync and
synchronous_commit on; `--folder` is where it lies. Server, PostgreSQL and callers share the machine.
Callers are coroutines of one event loop. Each has a namespace or a thread of its own, and they
share one store or checkpointer. Every round runs each leg once, memoryd's right beside the other's,
and every second round backwards. A ratio is memoryd's calls a second over the other's in the same
round; shown are its median, the lowest and the highest. Beside it stands the CPU time a call: of
the callers, and of what serves them, which is PostgreSQL, and memoryd on one side.

  put      store: an item under a new key
  get      store: one of 100 items
  search   store: the 10 newest of a namespace of 100 items
  save     checkpointer: aput of a checkpoint whose messages have changed
  writes   checkpointer: aput_writes of two values
  load     checkpointer: aget_tuple of the newest checkpoint
  turn     checkpointer: what a graph of three nodes asks for at one invocation: one load, and then
           four times save and three times writes; the figure counts each call
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import pathlib
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import callers
import processes
from bench import Sample

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import paths  # (makes the adapter importable)

ITEMS = 100
FOUND = 10
NODES = 3

# Opens a store or a checkpointer for one leg.
Open = Callable[[contextlib.AsyncExitStack], Awaitable[Any]]
# What a caller repeats, once it has made what it needs.
Caller = Callable[[Any, int], Awaitable[Callable[[], Awaitable[object]]]]


def value(number: int) -> dict[str, Any]:
    return {"role": "user", "content": callers.TEXT, "number": number}


async def puts(store: Any, _: int) -> Callable[[], Awaitable[object]]:
    namespace = ("graphs", uuid.uuid4().hex)
    return lambda: store.aput(namespace, uuid.uuid4().hex, value(0))


async def filled(store: Any) -> tuple[str, str]:
    namespace = ("graphs", uuid.uuid4().hex)
    for number in range(ITEMS):
        await store.aput(namespace, str(number), value(number))
    return namespace


async def gets(store: Any, _: int) -> Callable[[], Awaitable[object]]:
    namespace = await filled(store)
    numbers = itertools.cycle(range(ITEMS))

    async def get() -> None:
        number = next(numbers)
        found = await store.aget(namespace, str(number))
        if found is None or found.value["number"] != number:
            raise AssertionError(f"{found} is not item {number}")

    return get


async def searches(store: Any, _: int) -> Callable[[], Awaitable[object]]:
    namespace = await filled(store)

    async def search() -> None:
        callers.expect(FOUND, await store.asearch(namespace, limit=FOUND))

    return search


class Thread:
    """A thread of a graph that has so many messages, the last of which each save replaces."""

    def __init__(self, saver: Any, messages: int) -> None:
        self._saver = saver
        self._config: Any = {"configurable": {"thread_id": uuid.uuid4().hex, "checkpoint_ns": ""}}
        self._newest = self._config
        self._steps = 0
        self._values: dict[str, Any] = {
            "messages": [value(number) for number in range(messages)], "count": 0}
        self._versions: dict[str, str] = {}

    async def save(self) -> None:
        from langgraph.checkpoint.base import empty_checkpoint

        self._steps += 1
        self._values = {"messages": [*self._values["messages"][:-1], value(self._steps)],
                        "count": self._steps}
        self._versions = {channel: self._saver.get_next_version(self._versions.get(channel), None)
                          for channel in self._values}
        checkpoint = {**empty_checkpoint(), "channel_values": self._values,
                      "channel_versions": self._versions}
        self._newest = await self._saver.aput(
            self._newest, checkpoint, {"source": "loop", "step": self._steps, "parents": {}},
            self._versions)

    async def write(self) -> None:
        await self._saver.aput_writes(
            self._newest, [("messages", [value(self._steps)]), ("count", self._steps)],
            uuid.uuid4().hex, "")

    async def load(self) -> None:
        found = await self._saver.aget_tuple(self._config)
        if found is None or found.checkpoint["channel_values"] != self._values:
            raise AssertionError("the newest checkpoint is another one")

    async def turn(self) -> None:
        await self.load()
        for _ in range(NODES):
            await self.save()
            await self.write()
        await self.save()


TURN_CALLS = 2 + 2 * NODES


def of_thread(name: str) -> Caller:
    async def caller(saver: Any, messages: int) -> Callable[[], Awaitable[object]]:
        thread = Thread(saver, messages)
        await thread.save()
        made: Callable[[], Awaitable[object]] = getattr(thread, name)
        return made

    return caller


# By name: whether it is of the checkpointer, what a caller does, and how many calls that is.
LEGS: dict[str, tuple[bool, Caller, int]] = {
    "put": (False, puts, 1), "get": (False, gets, 1), "search": (False, searches, 1),
    "save": (True, of_thread("save"), 1), "writes": (True, of_thread("write"), 1),
    "load": (True, of_thread("load"), 1), "turn": (True, of_thread("turn"), TURN_CALLS)}


def run_leg(open_one: Open, caller: Caller, calls: int, count: int, messages: int,
            seconds: float, served: Callable[[], float]) -> Sample:
    opened: list[Any] = []

    async def user(stack: contextlib.AsyncExitStack) -> Callable[[], Awaitable[object]]:
        if not opened:
            opened.append(await open_one(stack))
        return await caller(opened[0], messages)

    sample = callers.coroutines(user, count, seconds, lambda: (time.process_time(), served()))
    return {**sample, "ops_per_second": calls * sample["ops_per_second"],
            "cpu": [1e6 * spent / calls for spent in sample["spent"]]}


def theirs(database: str, is_saver: bool, count: int) -> Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from langgraph.store.postgres import AsyncPostgresStore

        # The checkpointer has a lock around whatever it does: more connections are of no use to it.
        opened: Any = AsyncPostgresSaver.from_conn_string(database) if is_saver else \
            AsyncPostgresStore.from_conn_string(
                database, pool_config={"min_size": count, "max_size": count})
        made = await stack.enter_async_context(opened)
        await made.setup()
        return made

    return open_one


def ours(target: str, is_saver: bool) -> Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from memoryd.langgraph import Connection, MemorydSaver, MemorydStore

        connection = Connection(target)
        stack.push_async_callback(connection.async_client.close)
        return MemorydSaver(connection) if is_saver else MemorydStore(connection)

    return open_one


def shown(found: Sequence[float], digits: int) -> str:
    return (f"{statistics.median(found):,.{digits}f} "
            f"({min(found):,.{digits}f} to {max(found):,.{digits}f})")


def report(samples: dict[tuple[str, int, str], list[Sample]], given: argparse.Namespace) -> None:
    print("\n| calls/s | callers | memoryd | LangGraph's | memoryd / LangGraph's |"
          " CPU µs of the callers + the servers |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name in given.only:
        for count in given.callers:
            mine, other = ([one["ops_per_second"] for one in samples[name, count, side]]
                           for side in ("memoryd", "postgres"))
            ratios = [one / two for one, two in zip(mine, other, strict=True)]
            cpu = [" + ".join(f"{statistics.median(part):.0f}" for part in
                              zip(*(one["cpu"] for one in samples[name, count, side]), strict=True))
                   for side in ("memoryd", "postgres")]
            print(f"| {name} | {count} | {shown(mine, 0)} | {shown(other, 0)} "
                  f"| {shown(ratios, 2)} × | {cpu[0]}, beside {cpu[1]} |")


def measure(given: argparse.Namespace, folder: pathlib.Path) -> None:
    with processes.Postgres(given.folder) as postgres:
        database = postgres.database("graphs")
        server = processes.Server(
            [given.binary, "--listen=127.0.0.1:0", f"--store={postgres.database('memoryd')}"],
            folder / "memoryd.log")

        def served() -> float:
            return server.cpu_seconds() + postgres.cpu_seconds()

        try:
            legs = [(name, count, side) for name in given.only for count in given.callers
                    for side in ("memoryd", "postgres")]
            samples: dict[tuple[str, int, str], list[Sample]] = {leg: [] for leg in legs}
            for number in range(given.rounds):
                for name, count, side in legs if number % 2 == 0 else reversed(legs):
                    is_saver, caller, calls = LEGS[name]
                    opened = (ours(server.target, is_saver) if side == "memoryd"
                              else theirs(database, is_saver, count))
                    sample = run_leg(
                        opened, caller, calls, count, given.messages, given.seconds, served)
                    samples[name, count, side].append(sample)
                    print(f"  {number + 1}/{given.rounds} {name} {count} {side}: "
                          f"{sample['ops_per_second']:,.0f} /s, p50 {sample['p50_us']:,.0f} µs, "
                          f"CPU {sample['cpu'][0]:.0f} + {sample['cpu'][1]:.0f} µs", flush=True)
            report(samples, given)
        finally:
            server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each leg")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--messages", type=int, default=20, help="in the state of a thread")
    parser.add_argument("--only", nargs="+", choices=LEGS, default=[*LEGS])
    parser.add_argument("--folder", default="/dev/shm", help="of PostgreSQL's data")
    parser.add_argument("--binary", default=paths.BINARY, type=pathlib.Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryd-graphs-") as folder:
        measure(given, pathlib.Path(folder))


if __name__ == "__main__":
    main()
