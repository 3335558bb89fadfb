"""Google's ADK, whose requests are contents of Gemini."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai import types

import chats
from support.conversations import PNG

from memoryd.google_adk import MemorydSessionService


class Scripted(BaseLlm):
    said: list[list[types.Part]]
    asked: list[list[types.Content]]

    async def generate_content_async(self, llm_request, stream=False):
        self.asked.append([content.model_copy(deep=True) for content in llm_request.contents])
        yield LlmResponse(content=types.Content(role="model", parts=self.said.pop(0)))


def weather(city: str) -> str:
    """Says the weather."""
    return f"sun in {city}"


def fail(city: str) -> dict[str, str]:
    """Fails."""
    return {"error": f"no {city}"}


def run(target: str, session_id: str, parts: list[types.Part], *said: list[types.Part]) -> Any:
    app_name, user_id, own_id = session_id.split("/")
    names = {"app_name": app_name, "user_id": user_id, "session_id": own_id}
    model = Scripted(model="scripted", said=list(said), asked=[])

    async def run_once() -> None:
        sessions = MemorydSessionService(target, agent_name="waiter")
        if await sessions.get_session(**names) is None:
            await sessions.create_session(**names)
        agent = LlmAgent(name="waiter", model=model, tools=[weather, fail])
        runner = Runner(agent=agent, session_service=sessions, app_name=app_name)
        message = types.Content(role="user", parts=parts)
        async for _ in runner.run_async(user_id=user_id, session_id=own_id, new_message=message):
            pass

    asyncio.run(run_once())
    return model.asked


def tell(target: str, session_id: str) -> None:
    calls = [types.Part(function_call=types.FunctionCall(id=call_id, name=name, args={"city": city}))
             for call_id, name, city in chats.CALLS]
    run(target, session_id,
        [types.Part(text=chats.QUESTION), types.Part.from_bytes(data=PNG, mime_type="image/png")],
        [types.Part(text=chats.THOUGHT, thought=True, thought_signature=b"signed"),
         types.Part(text=chats.LOOK), *calls],
        [types.Part(text=chats.ANSWER)])


def asked(target: str, session_id: str) -> list[tuple[list[chats.Said], list[str]]]:
    (contents,) = run(target, session_id, [types.Part(text=chats.NEXT)],
                      [types.Part(text=chats.ANSWER)])
    chat: list[chats.Said] = []
    violations: list[str] = []
    waiting: list[str] = []
    for content in contents:
        said = chats.Said("assistant" if content.role == "model" else content.role)
        for number, part in enumerate(content.parts):
            if part.function_call:
                # ADK sends no ids of its own to Gemini, which then goes by names.
                said.calls.append(part.function_call.id or part.function_call.name)
                said.names.append(part.function_call.name)
            elif part.function_response:
                response = part.function_response
                said.results.append((response.id or response.name, str(response.response)))
            elif part.inline_data:
                said.images.append(part.inline_data.data)
            elif part.text and not part.thought:
                said.texts.append(part.text)
            elif not part.thought:
                violations.append(f"parts[{number}]: says nothing: {part}")
        # Gemini wants the responses of all calls of a content at once.
        answered = [one for one, _ in said.results]
        if sorted(answered) != sorted(waiting):
            violations.append(f"responses of {answered} behind calls {waiting}")
        waiting = said.calls
        chat.append(said)
    return [(chat, violations)]
