"""The Python adapters of frameworks, for the tests of the TypeScript ones.

usage: python_frameworks.py TARGET

stdin: a line of JSON for each call, `[NAME, ARGUMENT...]`. stdout: a line of JSON with the result.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agents.memory import Session
from langgraph.checkpoint.base import empty_checkpoint

from memoryd.langgraph import MemorydSaver, MemorydStore
from memoryd.openai_agents import MemorydSession

TARGET = sys.argv[1]


def store(namespace: list[str]) -> MemorydStore:
    return MemorydStore(TARGET, namespace=namespace)


def session(session_id: str) -> Session:
    return MemorydSession(session_id, TARGET)


def store_put(base: list[str], path: list[str], key: str, value: Any, index: Any) -> None:
    store(base).put(tuple(path), key, value, index=index)


def store_get(base: list[str], path: list[str], key: str) -> Any:
    found = store(base).get(tuple(path), key)
    return found and found.value


def store_search(base: list[str], path: list[str], query: str) -> list[Any]:
    """The keys of items that answer the query."""
    return [one.key for one in store(base).search(tuple(path), query=query) if one.score is not None]


def store_namespaces(base: list[str]) -> list[Any]:
    return list(store(base).list_namespaces())


def saver_put(base: list[str], thread: str) -> None:
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    checkpoint: Any = {**empty_checkpoint(), "channel_values": {"by": ["python"]},
                       "channel_versions": {"by": "1"}}
    MemorydSaver(TARGET, namespace=base).put(config, checkpoint, {"step": 1}, {"by": "1"})


def saver_list(base: list[str]) -> list[Any]:
    return [[one.config["configurable"]["thread_id"], one.checkpoint["channel_values"]]
            for one in MemorydSaver(TARGET, namespace=base).list(None)]


def saver_delete(base: list[str], thread: str) -> None:
    MemorydSaver(TARGET, namespace=base).delete_thread(thread)


def session_add(session_id: str, items: list[Any]) -> None:
    asyncio.run(session(session_id).add_items(items))


def session_items(session_id: str, limit: int | None) -> Any:
    return asyncio.run(session(session_id).get_items(limit))


def session_pop(session_id: str) -> Any:
    return asyncio.run(session(session_id).pop_item())


CALLS = {one.__name__: one for one in (
    store_put, store_get, store_search, store_namespaces, saver_put, saver_list, saver_delete,
    session_add, session_items, session_pop)}


def main() -> None:
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(CALLS[name](*arguments)), flush=True)


if __name__ == "__main__":
    main()
