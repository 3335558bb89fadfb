"""Agents of LangChain: one with a history of all steps, one with a memory that summarises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from langchain_classic import memory as library
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_classic.agents.format_scratchpad import format_to_tool_messages
from langchain_core.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, messages_to_dict, trim_messages
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_openai import ChatOpenAI

from support.agents.asking import Place, answers, fleeting
from support.agents.script import add, fail, read, weather

from memoryd import langchain

_PROMPT = ChatPromptTemplate.from_messages([
    ("system", "Be kind."), MessagesPlaceholder("chat_history"), ("human", "{input}"),
    MessagesPlaceholder("agent_scratchpad")])


class WordCountingModel(ChatOpenAI):
    """Counts words, for which no vocabulary has to be fetched."""

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], *_: Any, **__: Any) -> int:
        return sum(len(str(message.content).split()) for message in messages)


async def remember(fact: str) -> str:
    """Notes a fact."""
    return f"noted: {fact}"


def _tool(function: Callable[..., Awaitable[str]]) -> BaseTool:
    """A tool to call from coroutines and elsewhere."""

    async def called(**arguments: Any) -> str:
        try:
            return await function(**arguments)
        except RuntimeError as error:
            raise ToolException(str(error)) from error

    made = StructuredTool.from_function(coroutine=function)
    return StructuredTool(name=made.name, description=made.description,
                          args_schema=made.args_schema, handle_tool_error=True, coroutine=called,
                          func=lambda **arguments: asyncio.run(called(**arguments)))


class _Conversation:
    """A conversation in turns by threads and by coroutines."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def _llm(self) -> WordCountingModel:
        return WordCountingModel(
            model="gpt-4o-mini", base_url=self._place.model, api_key="none",
            http_client=httpx.Client(**fleeting()),
            http_async_client=httpx.AsyncClient(**fleeting()))

    def _executor(self, way: int, **fields: Any) -> AgentExecutor:
        tools = [_tool(function) for function in (weather, add, read, remember, fail)]
        return AgentExecutor(
            agent=create_tool_calling_agent(self._llm(), tools, _PROMPT), tools=tools,
            stream_runnable=way % 2 == 0, **fields)

    def converse(self, questions: list[str], way: int) -> list[list[str]]:
        agent = self._agent(way)
        config = {"configurable": {"session_id": self._place.session_id}}

        with asyncio.Runner() as runner:
            def ask(question: str) -> str:
                given = {"input": question}
                if way % 3 == 1:
                    return runner.run(agent.ainvoke(given, config))["output"]
                return agent.invoke(given, config)["output"]

            return [answers(ask, question) for question in questions]

    def _agent(self, way: int) -> Any:
        raise NotImplementedError


def _with_steps(output: dict[str, Any]) -> dict[str, Any]:
    steps = format_to_tool_messages(output["intermediate_steps"])
    return {**output, "messages": [*steps, AIMessage(output["output"])]}


class HistoryConversation(_Conversation):
    """Calls and results are messages of the history, of which the model gets the newest turns."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._history: BaseChatMessageHistory = InMemoryChatMessageHistory()
        if place.target is not None:
            self._history = langchain.ChatMessageHistory(place.session_id, target=place.target)

    def _agent(self, way: int) -> Any:
        newest = trim_messages(max_tokens=400, strategy="last", start_on="human",
                               token_counter=self._llm())
        steps = (
            RunnablePassthrough.assign(chat_history=lambda given: given["chat_history"])
            | RunnablePassthrough.assign(
                chat_history=RunnableLambda(lambda given: given["chat_history"]) | newest)
            | self._executor(way, return_intermediate_steps=True)
            | RunnableLambda(_with_steps))
        return RunnableWithMessageHistory(
            steps, lambda session_id: self._history, input_messages_key="input",
            history_messages_key="chat_history", output_messages_key="messages")

    def history(self) -> Any:
        return messages_to_dict(self._history.messages)


class SummaryConversation(_Conversation):
    """Turns leave the memory for a summary."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        fields: dict[str, Any] = {
            "llm": self._llm(), "max_token_limit": 200, "memory_key": "chat_history",
            "return_messages": True, "input_key": "input", "output_key": "output"}
        if place.target is None:
            self._memory = library.ConversationSummaryBufferMemory(**fields)
        else:
            self._memory = langchain.ConversationSummaryBufferMemory(
                **fields, session_id=place.session_id, target=place.target)

    def _agent(self, way: int) -> Any:
        return self._executor(way, memory=self._memory)

    def history(self) -> Any:
        return [self._memory.moving_summary_buffer,
                *messages_to_dict(self._memory.chat_memory.messages)]
