"""A ListMemory of autogen_core as a session of profile `autogen-list`.

The model context is the agent's own and stays the library's: what UpdateContext inserts is added to
it. A null is an absent field; JSON travels as text, its key order and its difference of 1 and 1.0
kept.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import LLMMessage, SystemMessage
from pydantic import TypeAdapter

from support.calls import Calls, memory

_CONTEXTS = {
    "unbounded": (UnboundedChatCompletionContext, ()),
    "buffered": (BufferedChatCompletionContext, ("buffer_size",)),
    "head_tail": (HeadAndTailChatCompletionContext, ("head_size", "tail_size")),
}
_ROLES = {
    "SystemMessage": "system",
    "UserMessage": "user",
    "AssistantMessage": "assistant",
    "FunctionExecutionResultMessage": "tool",
}
MESSAGE = TypeAdapter(LLMMessage)


def model_context(config: dict[str, Any]) -> ChatCompletionContext:
    """The model context of a trace."""
    context, sizes = _CONTEXTS[config["context"]]
    return context(**{size: config[size] for size in sizes})


class ListMemorySession:
    """One ListMemory of a trace with the model context that it updates."""

    def __init__(self, calls: Calls, session_id: str, config: dict[str, Any]) -> None:
        self._calls = calls
        self._id = session_id
        self._context = model_context(config)
        calls.CreateSession(
            session_id=session_id, config=memory.SessionConfig(profile="autogen-list")
        )

    def replay(self, op: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the library's operation would have returned."""
        if op == "add":
            self._calls.Put(session_id=self._id, contents=[to_content(arguments["content"])])
        elif op == "set_content":
            contents = [to_content(dump) for dump in arguments["contents"]]
            self._calls.Set(session_id=self._id, contents=contents)
        elif op == "clear":
            self._calls.Reset(session_id=self._id)
        elif op == "query":
            # top_k is none of the library's, and the profile must not look at it.
            reply = self._calls.Query(session_id=self._id, query=arguments["query"], top_k=1)
            return {"results": [_found(result) for result in reply.results]}
        elif op == "update_context":
            memories = self._update_context()
            return {"memories": memories, "context_messages": self._context_messages()}
        elif op == "context_add":
            asyncio.run(self._context.add_message(MESSAGE.validate_python(arguments["message"])))
        elif op == "context_clear":
            asyncio.run(self._context.clear())
        elif op == "context_get":
            return {"context_messages": self._context_messages()}
        else:
            raise ValueError(f"unknown operation {op}")
        return {"ok": True}

    def _update_context(self) -> list[dict[str, Any]]:
        messages = [_to_message(dump) for dump in self._context_messages()]
        reply = self._calls.UpdateContext(session_id=self._id, messages=messages)
        inserted = [insertion.message for insertion in reply.insertions]
        if list(reply.messages) != messages + inserted:
            raise AssertionError(f"{self._id}: the context came back changed: {reply.messages}")
        for message in inserted:
            if message.role != "system":
                raise AssertionError(f"{self._id}: a {message.role} message was inserted")
            asyncio.run(self._context.add_message(SystemMessage(content=message.text)))
        return [_found(result) for result in reply.results]

    def _context_messages(self) -> list[dict[str, Any]]:
        messages = asyncio.run(self._context.get_messages())
        return [message.model_dump(mode="json") for message in messages]


def to_content(dump: dict[str, Any]) -> memory.Content:
    """The wire form of a dumped MemoryContent."""
    content = memory.Content(mime_type=dump["mime_type"])
    if dump["metadata"] is not None:
        content.metadata_json = _dumps(dump["metadata"])
    (kind, value), = dump["content"].items()
    if kind == "text":
        content.text = value
    elif kind == "json":
        content.json = _dumps(value)
    elif kind == "bytes_b64":
        content.bytes_value = base64.b64decode(value, validate=True)
    else:
        raise ValueError(f"unknown kind of content {kind}")
    return content


def to_dump(content: memory.Content) -> dict[str, Any]:
    """The dump of the MemoryContent that a content stands for."""
    kind = content.WhichOneof("value")
    if kind == "text":
        value: dict[str, Any] = {"text": content.text}
    elif kind == "json":
        value = {"json": json.loads(content.json)}
    elif kind == "bytes_value":
        value = {"bytes_b64": base64.b64encode(content.bytes_value).decode()}
    else:
        raise ValueError(f"no dump for a content of {kind}")
    metadata = content.metadata_json
    return {
        "mime_type": content.mime_type,
        "metadata": json.loads(metadata) if metadata else None,
        "content": value,
    }


def _found(result: Any) -> dict[str, Any]:
    if result.score or result.WhichOneof("item") != "content":
        raise AssertionError(f"not a content without a score: {result}")
    return to_dump(result.content)


def _to_message(dump: dict[str, Any]) -> memory.Message:
    """A message of the model context, as an agent would send it."""
    message = memory.Message(role=_ROLES[dump["type"]], name=dump.get("source", ""))
    if isinstance(dump["content"], str):
        message.text = dump["content"]
    elif dump["type"] == "AssistantMessage":
        for call in dump["content"]:
            message.parts.add().tool_call.CopyFrom(memory.ToolCall(
                call_id=call["id"], name=call["name"], arguments_json=call["arguments"]))
    else:
        for result in dump["content"]:
            message.parts.add().tool_result.CopyFrom(memory.ToolResult(
                call_id=result["call_id"], name=result["name"], text=result["content"],
                is_error=result["is_error"]))
    return message


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
