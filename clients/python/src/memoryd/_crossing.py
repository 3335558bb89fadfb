"""What both forms ask of ids, names and texts of messages that were not put in them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from memoryd.v1 import memory_pb2 as memory

# OpenAI takes ids of 40 characters, Anthropic these characters.
_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME = 64


def texts_of(parts: Iterable[memory.Part]) -> list[str]:
    """The texts of parts that say something in words."""
    texts = []
    for part in parts:
        kind = part.WhichOneof("kind")
        if kind == "text":
            texts.append(part.text)
        elif kind == "json":
            texts.append(part.json)
        elif kind == "citation":
            texts.append(part.citation.cited_text)
    return texts


def answers_of(message: memory.Message, parts: Iterable[memory.Part]) -> list[memory.ToolResult]:
    """The results of a tool's message, at least one. What it says beside them, as LlamaIndex' do,
    belongs to the last one."""
    parts = list(parts)
    found = [part.tool_result for part in parts if part.HasField("tool_result")]
    last = memory.ToolResult(name=message.name)
    if found:
        last.CopyFrom(found.pop())
    last.text += "".join(texts_of(parts))
    return [*found, last]


class Crossing:
    """Ids and names of one conversation, each id the same wherever it stands."""

    def __init__(self, kept: Iterable[str] = (), tools: Mapping[str, str] | None = None) -> None:
        """`kept` are ids in messages that are given as they were put, which stay. `tools` has the
        tool of each call, for results that do not name it."""
        self._kept = frozenset(kept)
        self._tools = tools or {}
        self._unnamed = 0
        # Ids made for calls without one, and the tool of each, until a result takes it.
        self._open: list[tuple[str, str]] = []

    def call_id(self, call: memory.ToolCall) -> str:
        if call.call_id:
            return self._fit(call.call_id)
        self._unnamed += 1
        made = f"call_without_id_{self._unnamed}"
        self._open.append((made, call.name))
        return made

    def answered(self, result: memory.ToolResult) -> str | None:
        """The id of the call that is answered; None for a result of none."""
        if result.call_id:
            return self._fit(result.call_id)
        for at, (made, name) in enumerate(self._open):
            if name == result.name:
                del self._open[at]
                return made
        return None

    def tool_of(self, result: memory.ToolResult) -> str:
        """The name of the tool that has answered."""
        return self.tool_name(result.name or self._tools.get(result.call_id, ""))

    def tool_name(self, name: str) -> str:
        return _NO_NAME.sub("_", name)[:_MAX_NAME] or "tool"

    def _fit(self, given: str) -> str:
        if given in self._kept or _ID.fullmatch(given):
            return given
        return f"call_{hashlib.sha256(given.encode()).hexdigest()[:32]}"
