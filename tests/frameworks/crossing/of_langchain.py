"""LangChain, whose chat model speaks to OpenAI's API."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

import chats
from support.agents.rules import openai_violations
from support.conversations import PNG, encoded

from memoryd.langchain import ChatMessageHistory


def tell(target: str, session_id: str) -> None:
    ChatMessageHistory(session_id, target=target).add_messages([
        HumanMessage([
            {"type": "text", "text": chats.QUESTION},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded(PNG)}"}}]),
        AIMessage(
            [{"type": "thinking", "thinking": chats.THOUGHT, "signature": "signed"},
             {"type": "text", "text": chats.LOOK}],
            tool_calls=[{"name": name, "args": {"city": city}, "id": call_id, "type": "tool_call"}
                        for call_id, name, city in chats.CALLS]),
        ToolMessage(chats.RESULTS[0], tool_call_id="c1", name="weather"),
        ToolMessage(chats.RESULTS[1], tool_call_id="c2", name="fail", status="error"),
        AIMessage(chats.ANSWER)])


def asked(target: str, session_id: str) -> list[tuple[list[chats.Said], list[str]]]:
    history = ChatMessageHistory(session_id, target=target)
    question = HumanMessage(chats.NEXT)
    with chats.Provider() as provider:
        model = ChatOpenAI(model="m", api_key="none", base_url=provider.url, max_retries=0)
        answer = model.invoke([*history.messages, question])
    history.add_messages([question, answer])
    messages = provider.requests[0]["messages"]
    return [(chats.of_chat(messages), list(openai_violations(messages)))]
