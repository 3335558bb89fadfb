#!/usr/bin/env python3
"""LangGraph's store and checkpointer in memoryd beside those that LangGraph has for PostgreSQL.

    build/bench-venv/bin/python tests/benchmark/graphs.py [--rounds 5] [--seconds 3]
        [--callers 1 8] [--messages 20] [--only put turn] [--folder /dev/shm] [--binary PATH]

How it measures is said in beside.py. Each caller has a namespace or a thread of its own.

  put      store: an item under a new key
  empty    their put beside a call over grpc.aio that does nothing and waits for no store
  get      store: one of 100 items
  search   store: the 10 newest of a namespace of 100 items
  save     checkpointer: aput of a checkpoint whose messages have changed
  writes   checkpointer: aput_writes of two values
  load     checkpointer: aget_tuple of the newest checkpoint
  turn     checkpointer: what a graph of three nodes asks for at one invocation: one load, and then
           four times save and three times writes; the figure counts each call
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import beside
import callers

ITEMS = 100
FOUND = 10
NODES = 3

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


def of_thread(name: str) -> beside.Caller:
    async def caller(saver: Any, messages: int) -> Callable[[], Awaitable[object]]:
        thread = Thread(saver, messages)
        await thread.save()
        made: Callable[[], Awaitable[object]] = getattr(thread, name)
        return made

    return caller


def their_saver(database: str, _: int) -> beside.Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        # It has a lock around whatever it does: more connections are of no use to it.
        saver = await stack.enter_async_context(AsyncPostgresSaver.from_conn_string(database))
        await saver.setup()
        return saver

    return open_one


def their_store(database: str, count: int) -> beside.Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from langgraph.store.postgres import AsyncPostgresStore

        store = await stack.enter_async_context(AsyncPostgresStore.from_conn_string(
            database, pool_config={"min_size": count, "max_size": count}))
        await store.setup()
        return store

    return open_one


def connection(target: str, stack: contextlib.AsyncExitStack) -> Any:
    from memoryd.langgraph import Connection

    made = Connection(target)
    stack.push_async_callback(made.async_client.close)
    return made


class EmptyCall:
    """Has a store's `aput`, which asks the server's health, and stores nothing."""

    def __init__(self, channel: Any) -> None:
        self._check = channel.unary_unary("/grpc.health.v1.Health/Check")

    async def aput(self, *_: object) -> None:
        await self._check(b"")


def empty_call(target: str) -> beside.Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        import grpc.aio

        return EmptyCall(await stack.enter_async_context(grpc.aio.insecure_channel(target)))

    return open_one


def our_saver(target: str) -> beside.Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from memoryd.langgraph import MemorydSaver

        return MemorydSaver(connection(target, stack))

    return open_one


def our_store(target: str) -> beside.Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from memoryd.langgraph import MemorydStore

        return MemorydStore(connection(target, stack))

    return open_one


LEGS = {
    "put": beside.Leg(their_store, our_store, puts),
    "empty": beside.Leg(their_store, empty_call, puts),
    "get": beside.Leg(their_store, our_store, gets),
    "search": beside.Leg(their_store, our_store, searches),
    "save": beside.Leg(their_saver, our_saver, of_thread("save")),
    "writes": beside.Leg(their_saver, our_saver, of_thread("write")),
    "load": beside.Leg(their_saver, our_saver, of_thread("load")),
    "turn": beside.Leg(their_saver, our_saver, of_thread("turn"), 2 + 2 * NODES)}

if __name__ == "__main__":
    beside.main(__doc__, "LangGraph's", LEGS)
