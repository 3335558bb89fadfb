"""An agent of AutoGen that adds to its memory by a tool."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import autogen_core.memory
from autogen_agentchat.agents import AssistantAgent
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import ModelInfo
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

from support.agents.asking import Place, answers
from support.agents.script import add, fail, read, weather

from memoryd.autogen import ListMemory

_MODEL = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown",
                   structured_output=False, multiple_system_messages=True)


class Conversation:
    """Its messages are the agent's state, which AutoGen's users save and load: a file here."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._state = place.folder / "agent.json"
        self._memory: autogen_core.memory.ListMemory = autogen_core.memory.ListMemory()
        if place.target is not None:
            self._memory = ListMemory(session_id=place.session_id, target=place.target)

    def converse(self, questions: list[str], way: int) -> list[list[str]]:
        with asyncio.Runner() as runner:
            client = OpenAIChatCompletionClient(
                model="scripted", base_url=self._place.model, api_key="none", model_info=_MODEL)
            remember = FunctionTool(self._remember, "Notes a fact.", name="remember")
            agent = AssistantAgent(
                "agent", client, tools=[weather, add, read, fail, remember],
                memory=[self._memory], system_message="Be kind.", max_tool_iterations=5,
                model_context=BufferedChatCompletionContext(buffer_size=24),
                model_client_stream=way % 2 == 0)

            def ask(question: str) -> str:
                return str(runner.run(agent.run(task=question)).messages[-1].content)

            if self._state.exists():
                state = json.loads(self._state.read_text(encoding="utf-8"))
                runner.run(agent.load_state(state))
            said = [answers(ask, question) for question in questions]
            state = runner.run(agent.save_state())
            self._state.write_text(json.dumps(state), encoding="utf-8")
            runner.run(client.close())
            return said

    async def _remember(self, fact: str) -> str:
        """Notes a fact."""
        await self._memory.add(MemoryContent(
            content=fact, mime_type=MemoryMimeType.TEXT, metadata={"n": 1.0}))
        return f"noted: {fact}"

    def history(self) -> Any:
        kept = [content.model_dump(mode="json") for content in self._memory.content]
        return [kept, json.loads(self._state.read_text(encoding="utf-8"))]
