"""An agent of LlamaIndex whose memory flushes into three blocks."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import httpx
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import (
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    StaticMemoryBlock,
)
from llama_index.core.memory import Memory as LibraryMemory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.llms.openai import OpenAI
from workflows import Context

from support.agents.asking import Place, answers, fleeting
from support.agents.script import add, fail, read, weather

from memoryd.llama_index import Memory


class Diary(BaseMemoryBlock[str]):
    """Keeps how each message that left begins in a file, for whichever process asks."""

    path: pathlib.Path

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return "\n".join([f"{len(lines)} messages", *lines[-3:]])

    async def _aput(self, messages: list[ChatMessage]) -> None:
        with self.path.open("a", encoding="utf-8") as diary:
            for message in messages:
                diary.write(f"{message.role.value}: {(message.content or '')[:40]!r}\n")


async def remember(fact: str) -> str:
    """Notes a fact."""
    return f"noted: {fact}"


class Conversation:
    def __init__(self, place: Place) -> None:
        self._model = place.model
        fields: dict[str, Any] = {
            "session_id": place.session_id,
            "token_limit": 3000,
            "token_flush_size": 300,
            "memory_blocks": [
                StaticMemoryBlock(name="about", static_content="The user is called Zoë 👩‍🚀."),
                FactExtractionMemoryBlock(name="facts", llm=self._llm(), max_facts=20),
                Diary(name="diary", path=place.folder / "diary"),
            ],
        }
        if place.target is None:
            uri = f"sqlite+aiosqlite:///{place.folder / 'library.db'}"
            self._memory = LibraryMemory.from_defaults(**fields, async_database_uri=uri)
        else:
            self._memory = Memory.from_defaults(
                **fields, async_database_uri=f"memoryd://{place.target}")

    def _llm(self) -> OpenAI:
        # LlamaIndex waits for seconds before it tries again; the turn is asked again in its place.
        return OpenAI(model="gpt-4o-mini", api_base=self._model, api_key="none", max_retries=0,
                      async_http_client=httpx.AsyncClient(**fleeting()))

    def converse(self, questions: list[str], way: int) -> list[list[str]]:
        agent = FunctionAgent(tools=[weather, add, read, remember, fail], llm=self._llm(),
                              system_prompt="Be kind.", streaming=way % 2 == 0)
        context = Context(agent) if way % 3 == 0 else None

        async def ask(question: str) -> str:
            return str(await agent.run(question, memory=self._memory, ctx=context))

        with asyncio.Runner() as runner:
            return [answers(lambda text: runner.run(ask(text)), question)
                    for question in questions]

    def history(self) -> Any:
        async def read_all() -> Any:
            store, key = self._memory.sql_store, self._memory.session_id
            shown = await self._memory.aget()
            kept = [await store.get_messages(key, status=status)
                    for status in (MessageStatus.ACTIVE, MessageStatus.ARCHIVED)]
            return [[message.model_dump(mode="json") for message in messages]
                    for messages in (shown, *kept)]

        return asyncio.run(read_all())
