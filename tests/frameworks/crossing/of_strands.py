"""Strands, whose requests are messages of Bedrock's Converse."""

from __future__ import annotations

from typing import Any

from strands import Agent, tool

import chats
from support.agents.rules import converse_violations
from support.agents.strands_model import Scripted, use
from support.conversations import PNG

from memoryd.strands import MemorydSessionManager


@tool
def weather(city: str) -> str:
    """Says the weather."""
    return f"sun in {city}"


@tool
def fail(city: str) -> str:
    """Fails."""
    raise RuntimeError(f"no {city}")


def run(target: str, session_id: str, question: Any, *said: list[dict[str, Any]]) -> Any:
    place, _, own_id = session_id.rpartition("/")
    manager = MemorydSessionManager(
        own_id, target, conversation=lambda name, agent_id: f"{place}/{name}")
    model = Scripted(*said)
    Agent(model=model, tools=[weather, fail], callback_handler=None, session_manager=manager)(question)
    return model.asked


def tell(target: str, session_id: str) -> None:
    run(target, session_id,
        [{"text": chats.QUESTION}, {"image": {"format": "png", "source": {"bytes": PNG}}}],
        [{"reasoningContent": {"reasoningText": {"text": chats.THOUGHT, "signature": "signed"}}},
         {"text": chats.LOOK},
         *(use(call_id, name, city=city) for call_id, name, city in chats.CALLS)],
        [{"text": chats.ANSWER}])


def asked(target: str, session_id: str) -> list[tuple[list[chats.Said], list[str]]]:
    (messages,) = run(target, session_id, chats.NEXT, [{"text": chats.ANSWER}])
    chat = []
    for message in messages:
        said = chats.Said(message["role"])
        for block in message["content"]:
            if "toolUse" in block:
                said.calls.append(block["toolUse"]["toolUseId"])
                said.names.append(block["toolUse"]["name"])
            elif "toolResult" in block:
                result = block["toolResult"]
                said.results.append((result["toolUseId"], str(result["content"])))
            elif "image" in block:
                said.images.append(block["image"]["source"]["bytes"])
            elif "text" in block:
                said.texts.append(block["text"])
        chat.append(said)
    return [(chat, list(converse_violations(messages)))]
