"""Messages larger, deeper and odder than the server's own forms hold: each adapter takes what its
library's own store takes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from autogen_core.memory import MemoryContent, MemoryMimeType
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import Memory as LibraryMemory

from support.odd_values import canonical
from test_llama_index import Talker

from memoryd.autogen import ListMemory
from memoryd.langchain import ChatMessageHistory
from memoryd.llama_index import Memory

PAGE = "<p>page</p>\n" * 100_000


def deep(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = {"d": value}
    return {"raw": value}


def call(arguments: Any) -> ToolCallBlock:
    return ToolCallBlock(tool_call_id="c", tool_name="write", tool_kwargs=arguments)


LLAMA: dict[str, ChatMessage] = {
    "tool answer of 1.2 MB": ChatMessage(
        role="tool", content=PAGE, additional_kwargs={"tool_call_id": "c"}),
    "tool answer of 3 MB in characters of three bytes": ChatMessage(
        role="tool", content="日" * 1_000_000, additional_kwargs={"tool_call_id": "c"}),
    "arguments of 1.2 MB": ChatMessage(role="assistant", blocks=[call({"text": PAGE})]),
    "arguments of 1.2 MB as text": ChatMessage(role="assistant", blocks=[call('"' + PAGE)]),
    "additional_kwargs of 300 KB": ChatMessage(role="assistant", content="", additional_kwargs={
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "z" * 300_000}}]}),
    "additional_kwargs of 2 MB": ChatMessage(
        role="assistant", content="a", additional_kwargs={"reasoning": "z" * 2_000_000}),
    "U+0000 in additional_kwargs": ChatMessage(
        role="tool", content="x", additional_kwargs={"tool_call_id": "c", "stdout": "a\0b"}),
    "U+0000 everywhere": ChatMessage(
        role="tool", content="a\0", additional_kwargs={"tool_call_id": "\0", "k\0": ["\0"]}),
    "additional_kwargs 70 deep": ChatMessage(
        role="user", content="x", additional_kwargs=deep(70)),
    "arguments 200 deep": ChatMessage(role="assistant", blocks=[call(deep(200))]),
    "1,200 blocks": ChatMessage(
        role="user", blocks=[TextBlock(text=str(number)) for number in range(1_200)]),
    "1,200 calls": ChatMessage(role="assistant", blocks=[call({"n": n}) for n in range(1_200)]),
    "an integer of 400 digits": ChatMessage(
        role="user", content="x", additional_kwargs={"n": 10**400}),
}


@pytest.mark.parametrize("name", LLAMA)
def test_llama_index(server, session_id, name):
    async def both() -> None:
        given: dict[str, Any] = {"session_id": session_id, "token_limit": 10**7,
                                 "tokenizer_fn": str.split}
        uri = f"memoryd://{server.target}"
        for memory in (LibraryMemory.from_defaults(**given),
                       Memory.from_defaults(**given, async_database_uri=uri)):
            await memory.aput(LLAMA[name])
            assert await memory.aget_all() == await memory.aget() == [LLAMA[name]]

    asyncio.run(both())


LANGCHAIN: dict[str, BaseMessage] = {
    "tool answer of 1.2 MB": ToolMessage(PAGE, tool_call_id="c"),
    "arguments of 1.2 MB": AIMessage("", tool_calls=[
        {"name": "write", "args": {"text": PAGE}, "id": "c", "type": "tool_call"}]),
    "artifact of 2 MB": ToolMessage("x", tool_call_id="c", artifact={"rows": "z" * 2_000_000}),
    "U+0000 everywhere": ToolMessage("a\0", tool_call_id="\0", additional_kwargs={"k\0": "\0"}),
    "additional_kwargs 70 deep": HumanMessage("x", additional_kwargs=deep(70)),
    "1,200 blocks": HumanMessage([{"type": "text", "text": str(n)} for n in range(1_200)]),
    "1,200 calls": AIMessage("", tool_calls=[
        {"name": "f", "args": {}, "id": str(n), "type": "tool_call"} for n in range(1_200)]),
}


@pytest.mark.parametrize("name", LANGCHAIN)
def test_langchain(server, session_id, name):
    [said] = messages_from_dict(messages_to_dict([LANGCHAIN[name]]))
    history = ChatMessageHistory(session_id, target=server.target)
    history.add_message(said)
    assert history.messages == [said] and type(history.messages[0]) is type(said)


AUTOGEN: dict[str, MemoryContent] = {
    "text of 1.2 MB": MemoryContent(content=PAGE, mime_type=MemoryMimeType.TEXT),
    "JSON of 1.2 MB": MemoryContent(content={"rows": PAGE}, mime_type=MemoryMimeType.JSON),
    "JSON 70 deep": MemoryContent(content=deep(70), mime_type=MemoryMimeType.JSON),
    "metadata of 300 KB": MemoryContent(content="x", mime_type=MemoryMimeType.TEXT,
                                        metadata={"raw": "z" * 300_000}),
    "U+0000 everywhere": MemoryContent(content="a\0", mime_type=MemoryMimeType.TEXT,
                                       metadata={"k\0": "\0"}),
    "bytes of 3 MB": MemoryContent(content=bytes(3_000_000), mime_type=MemoryMimeType.BINARY),
}


@pytest.mark.parametrize("name", AUTOGEN)
def test_autogen(server, session_id, name):
    async def run() -> None:
        memory = ListMemory(session_id=session_id, target=server.target, timeout=60)
        await memory.add(AUTOGEN[name])
        assert (await memory.query()).results == [AUTOGEN[name]]
        await memory.close()

    asyncio.run(run())


# Halves of characters, as text that was cut at a UTF-16 unit has them.
HALVES = ("\ud83d\ude00 ok", "cut \ud83d", "\ude00 late", "\ude00\ud83d turned",
          "a\ud83db\ud83d\ude00")


@pytest.mark.parametrize("text", HALVES, ids=ascii)
def test_halves_come_back_and_pairs_are_joined(server, session_id, text):
    target = server.target
    memory = Memory.from_defaults(session_id=f"{session_id}-llama",
                                  async_database_uri=f"memoryd://{target}")
    chats = [ChatMessage(role="user", content=text),
             ChatMessage(role="assistant", blocks=[call({"a": text, text: 1})]),
             ChatMessage(role="tool", content=text,
                         additional_kwargs={"tool_call_id": "c", "raw": [text]})]
    memory.put_messages(chats)
    assert [canonical(chat.model_dump(mode="json")) for chat in memory.get_all()] == [
        canonical(chat.model_dump(mode="json")) for chat in chats]
    history = ChatMessageHistory(session_id, target=target)
    said: list[BaseMessage] = [
        HumanMessage(text, additional_kwargs={text: text}), HumanMessage([text]),
        AIMessage("", tool_calls=[{"name": "f", "args": {"a": text}, "id": "c",
                                   "type": "tool_call"}]),
        ToolMessage(text, tool_call_id="c", artifact=text)]
    history.add_messages(said)
    assert canonical(messages_to_dict(history.messages)) == canonical(messages_to_dict(said))

    async def with_autogen() -> None:
        listed = ListMemory(session_id=f"{session_id}-autogen", target=target, timeout=60)
        for content in (text, {"a": text}):
            mime_type = MemoryMimeType.TEXT if content is text else MemoryMimeType.JSON
            await listed.add(MemoryContent(
                content=content, mime_type=mime_type, metadata={"k": text}))
        found = (await listed.query()).results
        assert canonical([[item.content, item.metadata] for item in found]) == canonical(
            [[text, {"k": text}], [{"a": text}, {"k": text}]])
        await listed.close()

    asyncio.run(with_autogen())


@pytest.mark.parametrize("calls", [1, 3])
def test_a_run_ends_whose_tools_answer_with_megabytes(server, session_id, calls):
    def fetch(url: str) -> str:
        """Fetches a page."""
        return url + PAGE

    async def run(memory: LibraryMemory) -> list[ChatMessage]:
        asked = ChatMessage(role="assistant", blocks=[
            ToolCallBlock(tool_call_id=f"c{n}", tool_name="fetch", tool_kwargs={"url": "u"})
            for n in range(calls)])
        llm = Talker().will_say(asked)
        agent = FunctionAgent(name="agent", description="An agent.", tools=[fetch], llm=llm)
        assert str(await agent.run("read it", memory=memory)) == "reply 2"
        assert [len(said) for said in llm.asked] == [1, 2 + calls]
        messages: list[ChatMessage] = await memory.aget_all()
        # Which of tools that run in threads ends first is chance.
        return sorted(messages, key=lambda said: said.additional_kwargs.get("tool_call_id", ""))

    given: dict[str, Any] = {"session_id": session_id, "token_limit": 10**8,
                             "tokenizer_fn": str.split}
    found = asyncio.run(run(Memory.from_defaults(
        **given, async_database_uri=f"memoryd://{server.target}")))
    assert found == asyncio.run(run(LibraryMemory.from_defaults(**given)))
    assert len(found) == 3 + calls
