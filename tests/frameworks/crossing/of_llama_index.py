"""LlamaIndex, whose agent speaks to OpenAI's API."""

from __future__ import annotations

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.llms.openai import OpenAI

import chats
from support.agents.rules import openai_violations
from support.conversations import PNG

from memoryd.llama_index import Memory


def memory_of(target: str, session_id: str) -> Memory:
    return Memory.from_defaults(
        session_id, token_limit=10**9, async_database_uri=f"memoryd://{target}")


async def weather(city: str) -> str:
    """Says the weather."""
    return f"sun in {city}"


def tell(target: str, session_id: str) -> None:
    memory_of(target, session_id).put_messages([
        ChatMessage(role="user", blocks=[TextBlock(text=chats.QUESTION), ImageBlock(
            image=PNG, image_mimetype="image/png")]),
        ChatMessage(role="assistant", blocks=[
            ThinkingBlock(content=chats.THOUGHT), TextBlock(text=chats.LOOK),
            *(ToolCallBlock(tool_call_id=call_id, tool_name=name, tool_kwargs={"city": city})
              for call_id, name, city in chats.CALLS)]),
        *(ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": call[0]})
          for call, text in zip(chats.CALLS, chats.RESULTS, strict=True)),
        ChatMessage(role="assistant", content=chats.ANSWER)])


def asked(target: str, session_id: str) -> list[tuple[list[chats.Said], list[str]]]:
    async def run(provider: chats.Provider) -> None:
        llm = OpenAI(model="gpt-4o-mini", api_base=provider.url, api_key="none", max_retries=0)
        agent = FunctionAgent(tools=[weather], llm=llm, streaming=False)
        await agent.run(chats.NEXT, memory=memory_of(target, session_id))

    with chats.Provider() as provider:
        asyncio.run(run(provider))
    messages = provider.requests[0]["messages"]
    return [(chats.of_chat(messages), list(openai_violations(messages)))]
