"""Microsoft's Agent Framework, whose requests are messages of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

import chats
from support.conversations import PNG

from memoryd.agent_framework import MemorydHistoryProvider


class Scripted(FunctionInvocationLayer, BaseChatClient):
    def __init__(self, *said: list[Any]) -> None:
        super().__init__()
        self._said = iter(said)
        self.asked: list[list[Message]] = []

    async def _inner_get_response(self, *, messages, stream, options, **kwargs):
        self.asked.append(list(messages))
        return ChatResponse(messages=[Message("assistant", next(self._said))])


@tool(approval_mode="never_require")
def weather(city: str) -> str:
    """Says the weather."""
    return f"sun in {city}"


@tool(approval_mode="never_require")
def fail(city: str) -> str:
    """Fails."""
    raise RuntimeError(f"no {city}")


def run(target: str, session_id: str, question: Message, *said: list[Any]) -> list[list[Message]]:
    client = Scripted(*said)
    client.function_invocation_configuration["include_detailed_errors"] = True
    agent = Agent(client, tools=[weather, fail], context_providers=[MemorydHistoryProvider(target)])
    asyncio.run(agent.run(question, session=agent.create_session(session_id=session_id)))
    return client.asked


def tell(target: str, session_id: str) -> None:
    calls = [Content.from_function_call(call_id, name, arguments={"city": city})
             for call_id, name, city in chats.CALLS]
    run(target, session_id,
        Message("user", [Content.from_text(chats.QUESTION), Content.from_data(PNG, "image/png")]),
        [Content.from_text_reasoning(text=chats.THOUGHT, protected_data="signed"),
         Content.from_text(chats.LOOK), *calls],
        [Content.from_text(chats.ANSWER)])


def asked(target: str, session_id: str) -> list[tuple[list[chats.Said], list[str]]]:
    (messages,) = run(target, session_id, Message("user", [chats.NEXT]),
                      [Content.from_text(chats.ANSWER)])
    chat = []
    for message in messages:
        said = chats.Said(str(message.role))
        for content in message.contents:
            if content.type == "function_call":
                said.calls.append(content.call_id)
                said.names.append(content.name)
            elif content.type == "function_result":
                said.results.append((content.call_id, str(content.result or content.exception)))
            elif content.type == "data":
                said.images.append(chats.data_of(content.uri))
            elif content.type == "text" and content.text:
                said.texts.append(content.text)
        chat.append(said)
    return [(chat, [])]
