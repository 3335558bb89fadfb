"""Pydantic AI, over OpenAI's and Anthropic's API."""

from __future__ import annotations

import asyncio

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

import chats
from support.agents.pydantic_weather import weather_agent
from support.agents.rules import anthropic_violations, openai_violations
from support.conversations import PNG

from memoryd.pydantic_ai import MemorydConversationStore


def tell(target: str, session_id: str) -> None:
    said = iter((
        [ThinkingPart(chats.THOUGHT, signature="signed", provider_name="anthropic"),
         TextPart(chats.LOOK),
         *(ToolCallPart(name, {"city": city}, call_id) for call_id, name, city in chats.CALLS)],
        [TextPart(chats.ANSWER)]))
    agent = weather_agent(FunctionModel(lambda messages, info: ModelResponse(next(said))))
    store = MemorydConversationStore(target)

    async def run() -> None:
        await store.save(await agent.run(
            [chats.QUESTION, BinaryContent(PNG, media_type="image/png")],
            conversation=Conversation(conversation_id=session_id)))

    asyncio.run(run())


def asked(target: str, session_id: str) -> list[tuple[list[chats.Said], list[str]]]:
    store = MemorydConversationStore(target)

    async def run(provider: chats.Provider) -> None:
        openai = AsyncOpenAI(api_key="none", base_url=provider.url, max_retries=0)
        anthropic = AsyncAnthropic(api_key="none", base_url=provider.url, max_retries=0)
        # Else another provider's thoughts are sent between tags.
        profile = OpenAIModelProfile(openai_chat_send_back_thinking_parts=False)
        for model in (OpenAIChatModel("m", provider=OpenAIProvider(openai_client=openai),
                                      profile=profile),
                      AnthropicModel("m", provider=AnthropicProvider(anthropic_client=anthropic))):
            result = await weather_agent(model).run(chats.NEXT, conversation=await store.load(session_id))
        await store.save(result)

    with chats.Provider() as provider:
        asyncio.run(run(provider))
    chat, messages = (request["messages"] for request in provider.requests)
    return [(chats.of_chat(chat), list(openai_violations(chat))),
            (chats.of_anthropic(messages), list(anthropic_violations(messages)))]
