"""Sessions that one framework has begun and another goes on with, where their configurations differ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from agents.models.chatcmpl_converter import Converter
from langchain_core.messages import HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import StaticMemoryBlock

from support.agents.rules import openai_violations

from memoryd import Client, from_openai, message
from memoryd.langchain import ChatMessageHistory
from memoryd.llama_index import Memory
from memoryd.openai_agents import MemorydSession
from memoryd.v1 import memory_pb2 as proto


@pytest.fixture(scope="module")
def client(server) -> Iterator[Client]:
    with Client(server.target, timeout=60) as made:
        yield made


def memory_of(server: Any, session_id: str, **given: Any) -> Memory:
    return Memory.from_defaults(
        session_id, async_database_uri=f"memoryd://{server.target}?timeout=60", **given)


def test_a_memory_goes_on_with_a_session_and_keeps_what_is_fixed(server, client, session_id):
    client.create_session(session_id, proto.SessionConfig(
        tokenizer="o200k_base", image_token_count=7, subject="ann"))
    client.put(session_id, [message("user", "I drink tea."), message("assistant", "Noted.")])
    for text in ("And coffee.", "And milk."):  # Each by a memory of its own.
        kept = memory_of(server, session_id, token_limit=1234, memory_blocks=[
            StaticMemoryBlock(name="about", static_content="Ann.")])
        kept.put(ChatMessage(role="user", content=text))
        kept.put(ChatMessage(role="assistant", content="Noted."))
    assert [one.content for one in kept.get_all()] == [
        "I drink tea.", "Noted.", "And coffee.", "Noted.", "And milk.", "Noted."]
    config = client.get_session(session_id).config
    assert (config.profile, config.tokenizer, config.image_token_count, config.subject) == (
        "default", "o200k_base", 7, "ann")
    assert config.token_limit == 1234 and [block.name for block in config.blocks] == ["about"]


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "coroutines"])
def test_a_history_goes_on_where_the_caller_counts_tokens(server, client, session_id, is_async):
    memory_of(server, session_id).put(ChatMessage(role="user", content="Tea?"))
    history = ChatMessageHistory(session_id, target=server.target)
    if is_async:
        asyncio.run(history.aadd_messages([HumanMessage("Coffee.")]))
    else:
        history.add_messages([HumanMessage("Coffee.")])
    assert [one.content for one in history.messages] == ["Tea?", "Coffee."]
    assert all(one.token_count > 0 for one in client.get_all(session_id))


def test_a_text_and_its_calls_are_one_message_of_chat_completions(server, client, session_id):
    client.put(session_id, [from_openai(one) for one in (
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [{"type": "text", "text": text} for text in ("I", "look.")],
         "tool_calls": [{"id": name, "type": "function", "function": {"name": "a", "arguments": "{}"}}
                        for name in ("c1", "c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "sun"},
        {"role": "tool", "tool_call_id": "c2", "content": "rain"},
        {"role": "assistant", "content": [{"type": "text", "text": text} for text in ("Sun", "rain.")]},
    )])
    items = asyncio.run(MemorydSession(session_id, server.target).get_items())
    messages = Converter.items_to_messages(items)
    assert [one["role"] for one in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert messages[1]["content"] == "I\nlook." and messages[4]["content"] == "Sun\nrain."
    assert not list(openai_violations(messages))
