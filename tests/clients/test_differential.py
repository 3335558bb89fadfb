"""Each adapter beside its library's own store: the same generated messages of all kinds are put into
both, and both are read."""

from __future__ import annotations

import asyncio
import base64
import datetime
import decimal
import enum
import json
import math
import re
import sys
import uuid
from collections.abc import Sequence
from typing import Any

import autogen_core.memory
import pytest
from autogen_core import Image
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import UnboundedChatCompletionContext
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
    messages_from_dict,
    messages_to_dict,
)
from llama_index.core.base.llms import types as llama
from llama_index.core.memory import Memory as LibraryMemory
from PIL import Image as PILImage

from support.odd_values import Odd, canonical

from memoryd.autogen import ListMemory
from memoryd.langchain import ChatMessageHistory
from memoryd.llama_index import Memory, MessageStatus

pytestmark = pytest.mark.filterwarnings("ignore")  # LangChain's, of what it deprecates.

SEEDS = range(4)
# For each seed, adapter and store.
MESSAGES = 120


# LlamaIndex.


def llama_block(odd: Odd) -> Any:
    data = base64.b64encode(odd.random.randbytes(odd.random.choice((0, 3, 40)))).decode()
    arguments = odd.random.choice((odd.object, odd.text))
    url = odd.random.choice((None, "https://example.org/a.png"))
    return odd.random.choice((
        lambda: llama.TextBlock(text=odd.text()),
        lambda: llama.ImageBlock(image=data.encode(), image_mimetype="image/png", detail="low"),
        lambda: llama.ImageBlock(url="https://example.org/é.png"),
        lambda: llama.AudioBlock(audio=data.encode(), format="mp3"),
        lambda: llama.VideoBlock(video=data.encode(), video_mimetype="video/mp4", fps=2),
        lambda: llama.DocumentBlock(data=data.encode(), title=odd.text(), url=url,
                                    document_mimetype="application/pdf"),
        lambda: llama.CachePoint(cache_control=llama.CacheControl(type="ephemeral")),
        lambda: llama.CitableBlock(title=odd.text(), source=odd.text(),
                                   content=[llama.TextBlock(text=odd.text())]),
        lambda: llama.CitationBlock(cited_content=llama.TextBlock(text=odd.text()), title="t",
                                    source=odd.text(), additional_location_info={"é": 2**70}),
        lambda: llama.ThinkingBlock(content=odd.text(), additional_information=odd.object(),
                                    num_tokens=odd.random.choice((None, 3, 2**70))),
        lambda: llama.ToolCallBlock(tool_call_id=odd.random.choice((None, "", odd.id())),
                                    tool_name=odd.text(), tool_kwargs=arguments()),
    ))()


def llama_message(odd: Odd) -> llama.ChatMessage:
    odd.begin()
    roles = ("user", "assistant", "tool", "system", "developer", "function", "chatbot", "model")
    kwargs = odd.object()
    if odd.one_in(3):
        kwargs["tool_call_id"] = odd.random.choice((odd.id(), 7, None, "", [1]))
    if odd.one_in(4):
        kwargs["tool_calls"] = odd.random.choice((
            [{"id": odd.id(), "type": "function",
              "function": {"name": "f", "arguments": odd.text()}} for _ in range(2)],
            [{"id": odd.id(), "name": "f", "input": odd.object(), "type": "tool_use"}],
            odd.json()))
    blocks = [llama_block(odd) for _ in range(odd.random.choice((0, 1, 1, 2, 3, 6)))]
    if odd.one_in(80):
        blocks = [llama.TextBlock(text=str(number)) for number in range(1_200)] + blocks
    return llama.ChatMessage(role=odd.random.choice(roles), blocks=blocks,
                             additional_kwargs=kwargs)


def llama_dumps(messages: Sequence[llama.ChatMessage]) -> list[str]:
    return [canonical(message.model_dump(mode="json")) for message in messages]


@pytest.mark.parametrize("seed", SEEDS)
def test_llama_index(server, session_id, seed):
    odd = Odd(seed, keys=("a", "b", "é", "", "\0", "1"))  # The library dumps no others.

    async def both() -> None:
        given = {"session_id": session_id, "token_limit": sys.maxsize,
                 "tokenizer_fn": lambda text: [text]}
        theirs = LibraryMemory.from_defaults(**given)
        ours = Memory.from_defaults(**given, async_database_uri=f"memoryd://{server.target}")
        for number in range(MESSAGES // 8):
            batch = [llama_message(odd) for _ in range(8)]
            for memory in (theirs, ours):
                if number == 10:
                    await memory.aset(batch)
                elif number % 3:
                    await memory.aput_messages(batch)
                else:
                    for message in batch:
                        await memory.aput(message)
            if number == 5:
                for memory in (theirs, ours):
                    await memory.sql_store.archive_oldest_messages(session_id, 20)
            if number % 5 == 0:
                expected, found = [llama_dumps(await memory.aget()) for memory in (theirs, ours)]
                assert found == expected
        for status in (*MessageStatus, None):
            expected, found = [llama_dumps(await memory.aget_all(status=status))
                               for memory in (theirs, ours)]
            assert found == expected

    asyncio.run(both())


# LangChain, whose stores keep messages as JSON.


def langchain_block(odd: Odd) -> Any:
    return odd.random.choice((
        odd.text,
        odd.object,
        lambda: {"type": "text", "text": odd.text()},
        lambda: {"type": "text", "text": odd.text(), "cache_control": {"type": "ephemeral"}},
        lambda: {"type": "image_url", "image_url": {"url": odd.text(), "detail": "low"}},
        lambda: {"type": "image", "base64": "AAEC", "mime_type": odd.text()},
        lambda: {"type": "tool_use", "id": odd.id(), "name": "f", "input": odd.object()},
        lambda: {"type": "tool_result", "tool_use_id": odd.id(), "content": odd.text()},
        lambda: {"type": "thinking", "thinking": odd.text(), "signature": odd.id()},
    ))()


def langchain_content(odd: Odd) -> Any:
    if odd.one_in(2):
        return odd.text()
    blocks = [langchain_block(odd) for _ in range(odd.random.choice((0, 1, 2, 5)))]
    if odd.one_in(60):
        blocks = [{"type": "text", "text": str(number)} for number in range(1_200)] + blocks
    return blocks


def langchain_message(odd: Odd) -> BaseMessage:
    odd.begin()
    content = langchain_content(odd)
    beyond: dict[str, Any] = {}
    if odd.one_in(3):
        beyond["additional_kwargs"] = odd.object()
    if odd.one_in(4):
        beyond["response_metadata"] = odd.object()
    if odd.one_in(4):
        beyond["name"] = odd.text()
    if odd.one_in(4):
        beyond["id"] = odd.id()
    kind = odd.random.choice((
        HumanMessage, HumanMessageChunk, AIMessage, AIMessage, AIMessageChunk, SystemMessage,
        SystemMessageChunk, ToolMessage, ToolMessage, ToolMessageChunk, FunctionMessage,
        FunctionMessageChunk, ChatMessage, ChatMessageChunk, RemoveMessage))
    if kind is RemoveMessage:
        return RemoveMessage(id=odd.id())
    if issubclass(kind, ToolMessage):
        beyond["tool_call_id"] = odd.random.choice((odd.id(), odd.id(), "", 7, uuid.UUID(int=7)))
        beyond["status"] = odd.random.choice(("success", "error"))
        if odd.one_in(3):
            beyond["artifact"] = odd.json()
    if issubclass(kind, FunctionMessage):
        beyond["name"] = odd.text()
    if issubclass(kind, ChatMessage):
        beyond["role"] = odd.random.choice(("user", "tool", "customer", odd.text()))
    if issubclass(kind, AIMessage):
        calls = [{"name": odd.text(), "args": odd.object(), "id": odd.random.choice((
            odd.id(), None, "")), "type": "tool_call"} for _ in range(odd.random.choice((0, 1, 3)))]
        invalid = [{"name": odd.text(), "args": odd.text(), "id": odd.id(), "error": odd.text(),
                    "type": "invalid_tool_call"} for _ in range(odd.random.choice((0, 0, 1)))]
        if kind is AIMessageChunk and odd.one_in(2):
            beyond["tool_call_chunks"] = [
                {"name": odd.random.choice((None, "f")), "args": odd.random.choice(('{"a":', "x")),
                 "id": odd.random.choice((None, odd.id())), "index": number,
                 "type": "tool_call_chunk"} for number in range(2)]
        else:
            beyond.update(tool_calls=calls, invalid_tool_calls=invalid)
        if odd.one_in(4):
            beyond.setdefault("additional_kwargs", {})["tool_calls"] = [
                {"id": odd.id(), "type": "function",
                 "function": {"name": "f", "arguments": odd.text()}}]
        if odd.one_in(4):
            beyond["usage_metadata"] = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    return kind(content=content, **beyond)


def langchain_dumps(messages: Sequence[BaseMessage]) -> list[str]:
    return [canonical(dump) for dump in messages_to_dict(list(messages))]


@pytest.mark.parametrize("seed", SEEDS)
def test_langchain(server, session_id, seed):
    odd = Odd(seed)
    history = ChatMessageHistory(session_id, target=server.target)
    theirs: list[BaseMessage] = []
    for number in range(MESSAGES // 8):
        batch = [langchain_message(odd) for _ in range(8)]
        if number == 10:
            history.messages = batch
            theirs.clear()
        elif number % 3:
            history.add_messages(batch)
        else:
            for message in batch:
                history.add_message(message)
        theirs += messages_from_dict(json.loads(json.dumps(messages_to_dict(batch))))
        if number % 5 == 0:
            assert langchain_dumps(history.messages) == langchain_dumps(theirs)
    found = history.messages
    assert langchain_dumps(found) == langchain_dumps(theirs)
    assert [type(message) for message in found] == [type(message) for message in theirs]


# AutoGen, whose list keeps the objects themselves.


class Kind(enum.Enum):
    DAY = "day"
    PAIR = (1, 2)


class Level(enum.IntFlag):
    LOW = 1
    HIGH = 4


def autogen_value(odd: Odd, depth: int = 2) -> Any:
    moment = datetime.datetime(2026, 3, 29, 1, 30, 0, 5)
    if depth and odd.one_in(3):
        inside = [autogen_value(odd, depth - 1) for _ in range(odd.random.randrange(3))]
        return odd.random.choice((
            inside, tuple(inside), {"k": inside}, {1: inside, None: 2, (1, "a"): 3},
            {(2, Kind.DAY)}, frozenset({"x"})))
    return odd.random.choice((
        odd.json(1), moment, moment.replace(tzinfo=datetime.UTC), moment.date(), moment.time(),
        datetime.timedelta(days=-1, microseconds=3), Kind.DAY, Kind.PAIR, MemoryMimeType.TEXT,
        Level.LOW, Level.LOW | Level.HIGH, uuid.UUID(int=5), decimal.Decimal("1.10"), b"\0\xff",
        math.inf))


def autogen_content(odd: Odd) -> MemoryContent:
    odd.begin()
    value = odd.random.choice((
        odd.text, odd.text, odd.object, lambda: odd.random.randbytes(odd.random.choice((0, 9))),
        lambda: {"a": autogen_value(odd), "b": odd.json()},
        lambda: Image(PILImage.new("RGB", (2, 1), "red"))))()
    metadata = odd.random.choice((
        lambda: None, dict, odd.object, lambda: {"v": autogen_value(odd), "w": autogen_value(odd)},
        lambda: {"memoryd.autogen": 1}))()
    mime_type = odd.random.choice((*MemoryMimeType, "text/plain", "x/y", "", "z\u200b", "m" * 300))
    return MemoryContent(content=value, mime_type=mime_type, metadata=metadata)


def autogen_text(items: Sequence[MemoryContent]) -> list[str]:
    """What tells contents apart, their types included."""
    return [told((item.content, item.mime_type, item.metadata)) for item in items]


def told(value: Any) -> str:
    """As repr, but for halves of characters, which are joined, and the order in sets."""
    if isinstance(value, Image):
        return repr(value.image.tobytes())
    if isinstance(value, dict):
        return "{" + ", ".join(f"{told(key)}: {told(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(told, value))})"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({', '.join(sorted(map(told, value)))})"
    return repr(joined(value) if type(value) is str else value)


def joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@pytest.mark.parametrize("seed", SEEDS)
def test_autogen(server, session_id, seed):
    odd = Odd(seed)

    async def both() -> None:
        theirs = autogen_core.memory.ListMemory()
        ours = ListMemory(session_id=session_id, target=server.target, timeout=60)
        for number in range(MESSAGES):
            content = autogen_content(odd)
            if number == MESSAGES // 2:
                await theirs.clear()
                await ours.clear()
            for memory in (theirs, ours):
                await memory.add(content)
            if number % 20 == 0:
                expected, found = [autogen_text((await memory.query("")).results)
                                   for memory in (theirs, ours)]
                assert found == expected
                contexts = []
                for memory in (theirs, ours):
                    context = UnboundedChatCompletionContext()
                    updated = await memory.update_context(context)
                    assert autogen_text(updated.memories.results) == expected
                    contexts.append([joined(message.content)
                                     for message in await context.get_messages()])
                assert contexts[1] == [_as_ours(said) for said in contexts[0]]
        await ours.close()

    asyncio.run(both())


def _as_ours(text: str) -> str:
    """An image is named in place of its address, and repr has pairs of halves joined."""
    text = re.sub(r"<autogen_core\._image\.Image object at \w+>", "<Image>", text)
    return text.replace("\\ud83d\\ude00", "\U0001f600")
