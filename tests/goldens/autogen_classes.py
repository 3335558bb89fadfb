#!/usr/bin/env python3
"""Replays golden traces of autogen_core's ListMemory through memoryd.autogen.ListMemory.

usage: autogen_classes.py [DIR] [--store sqlite|postgresql|both] [--seeds N]

The class stands where the library's stood; model contexts are the library's. DIR and --seeds are as
for run_goldens.py, whose other files are left alone. Exits 1 when any answer differs.
"""

from __future__ import annotations

import asyncio
import base64
import json
import pathlib
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from autogen_core.memory import MemoryContent, MemoryMimeType

from autogen_list import MESSAGE, model_context
from support import paths  # noqa: F401  (makes memoryd importable)
from support.server import Server
from support.stores import fresh_store
from traces import SHOWN_DIFFERENCES, Tally, files_of, run

from memoryd.autogen import ListMemory


def to_item(dump: dict[str, Any]) -> MemoryContent:
    """The MemoryContent that a trace's dump stands for."""
    (kind, value), = dump["content"].items()
    if kind == "bytes_b64":
        value = base64.b64decode(value, validate=True)
    return MemoryContent(content=value, mime_type=dump["mime_type"], metadata=dump["metadata"])


def to_dump(item: MemoryContent) -> dict[str, Any]:
    """The dump of a MemoryContent, as goldens.py writes it."""
    mime_type = item.mime_type
    value = item.content
    if isinstance(value, bytes):
        content = {"bytes_b64": base64.b64encode(value).decode()}
    else:
        content = {"json" if isinstance(value, dict) else "text": value}
    return {
        "mime_type": mime_type.value if isinstance(mime_type, MemoryMimeType) else mime_type,
        "metadata": item.metadata,
        "content": content,
    }


class Trace:
    """The memory of a trace and the context that it updates."""

    def __init__(self, target: str, config: dict[str, Any]) -> None:
        self.memory = ListMemory(config["name"], target=target)
        if self.memory.name != config["effective_name"]:
            raise AssertionError(f"name {self.memory.name!r}, not {config['effective_name']!r}")
        self._context = model_context(config)

    async def replay(self, op: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the library's operation would have returned."""
        if op == "add":
            await self.memory.add(to_item(arguments["content"]))
        elif op == "set_content":
            self.memory.content = [to_item(dump) for dump in arguments["contents"]]
        elif op == "clear":
            await self.memory.clear()
        elif op == "query":
            found = await self.memory.query(arguments["query"])
            return {"results": [to_dump(item) for item in found.results]}
        elif op == "update_context":
            found = (await self.memory.update_context(self._context)).memories
            return {"memories": [to_dump(item) for item in found.results],
                    "context_messages": await self._messages()}
        elif op == "context_add":
            await self._context.add_message(MESSAGE.validate_python(arguments["message"]))
        elif op == "context_clear":
            await self._context.clear()
        elif op == "context_get":
            return {"context_messages": await self._messages()}
        else:
            raise ValueError(f"unknown operation {op}")
        return {"ok": True}

    async def _messages(self) -> list[dict[str, Any]]:
        return [m.model_dump(mode="json") for m in await self._context.get_messages()]


async def replay_trace(target: str, trace: dict[str, Any], differences: list[str]) -> int:
    """How many operations answered as the library's; the others are described."""
    replayed = Trace(target, trace["config"])
    equal = 0
    for index, op in enumerate(trace["ops"]):
        answer = await replayed.replay(op["op"], op["args"])
        # As JSON: the order of keys and the difference of 1 and 1.0 show.
        if json.dumps(answer) == json.dumps(op["expect"]):
            equal += 1
        else:
            differences.append(f"{trace['id']} op {index} {op['op']}:\n  library {op['expect']}\n"
                               f"  memoryd {answer}"[:1200])
    await replayed.memory.close()
    return equal


def replay_folder(folder: pathlib.Path, kind: str) -> Tally:
    files = files_of(folder, "autogen_*.jsonl")
    equal, differences = 0, []
    with fresh_store(kind) as store, Server(store) as server:
        for file in files:
            for line in file.read_text(encoding="utf-8").splitlines():
                equal += asyncio.run(replay_trace(server.target, json.loads(line), differences))
    for difference in differences[:SHOWN_DIFFERENCES]:
        print(difference)
    tally = Tally(equal=equal, different=len(differences))
    print(f"{kind}, {len(files)} files: {tally}", flush=True)
    return tally


if __name__ == "__main__":
    sys.exit(run(__doc__, replay_folder))
