"""OpenAI's Agents SDK, over both of OpenAI's APIs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

import chats
from support.agents.rules import openai_violations
from support.conversations import PNG, encoded

from memoryd.openai_agents import MemorydSession

set_tracing_disabled(True)


class Scripted(Model):
    def __init__(self, *said: list[Any]) -> None:
        self._said = iter(said)

    async def get_response(self, *arguments, **named):
        return ModelResponse(output=next(self._said), usage=Usage(), response_id=None)

    def stream_response(self, *arguments, **named):
        raise NotImplementedError


@function_tool
def weather(city: str) -> str:
    return f"sun in {city}"


@function_tool
def fail(city: str) -> str:
    raise RuntimeError(f"no {city}")


def text(said: str) -> ResponseOutputMessage:
    return ResponseOutputMessage(
        id="msg", type="message", role="assistant", status="completed",
        content=[ResponseOutputText(type="output_text", text=said, annotations=[])])


def tell(target: str, session_id: str) -> None:
    calls = [ResponseFunctionToolCall(type="function_call", call_id=call_id, name=name,
                                      arguments=json.dumps({"city": city}))
             for call_id, name, city in chats.CALLS]
    thought = ResponseReasoningItem(id="rs", type="reasoning", summary=[
        {"type": "summary_text", "text": chats.THOUGHT}])
    model = Scripted([thought, text(chats.LOOK), *calls], [text(chats.ANSWER)])
    question = [{"role": "user", "content": [
        {"type": "input_text", "text": chats.QUESTION},
        {"type": "input_image", "image_url": f"data:image/png;base64,{encoded(PNG)}",
         "detail": "auto"}]}]
    agent = Agent("a", model=model, tools=[weather, fail])
    asyncio.run(Runner.run(agent, question, session=MemorydSession(session_id, target)))


def asked(target: str, session_id: str) -> list[tuple[list[chats.Said], list[str]]]:
    session = MemorydSession(session_id, target)

    async def run(provider: chats.Provider) -> None:
        client = AsyncOpenAI(api_key="none", base_url=provider.url, max_retries=0)
        for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
            agent = Agent("a", model=kind("m", client), tools=[weather, fail])
            await Runner.run(agent, chats.NEXT, session=session)
            await session.pop_item()  # The answer, and
            await session.pop_item()  # the question, for the other one.

    with chats.Provider() as provider:
        asyncio.run(run(provider))
    chat, responses = provider.requests
    return [(chats.of_chat(chat["messages"]), list(openai_violations(chat["messages"]))),
            (chats.of_responses(responses["input"]), [])]
