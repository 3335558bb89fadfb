"""Messages in OpenAI's and Anthropic's form, put by the client and read back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import Message as AnthropicAnswer
from anthropic.types import MessageParam, TextBlockParam
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from pydantic import TypeAdapter

import memoryd
from memoryd import AsyncClient, Client, from_anthropic, from_openai, message
from memoryd.v1 import filter_pb2
from memoryd.v1 import memory_pb2 as proto
from support.agents.rules import anthropic_violations, openai_violations
from support.conversations import PNG, AnthropicTeller, OpenAITeller, encoded

OPENAI: TypeAdapter = TypeAdapter(ChatCompletionMessageParam)
ANTHROPIC: TypeAdapter = TypeAdapter(MessageParam)
SYSTEM: TypeAdapter = TypeAdapter(str | list[TextBlockParam])

# Seeds of the conversations of a form.
SEEDS = 320
CHUNK = 40
# Nothing leaves, so that a Get shows all.
WHOLE = proto.SessionConfig(policy="buffer", token_limit=10**9)


@pytest.fixture(scope="module")
def client(server) -> Iterator[Client]:
    with Client(server.target, timeout=60) as made:
        yield made


def text_of(value: Any) -> str:
    """JSON, in which the order of keys and 1 and 1.0 differ."""
    return json.dumps(value)


def exhausted(value: Any) -> None:
    """Looks at all that a type takes as an Iterable, which pydantic does only then."""
    if isinstance(value, dict):
        for item in value.values():
            exhausted(item)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for item in value:
            exhausted(item)


def accepted(adapter: TypeAdapter, messages: Any) -> None:
    for one in messages:
        exhausted(adapter.validate_python(one))


def put_anthropic(request: memoryd.AnthropicMessages) -> list[dict[str, Any]]:
    """What was put, if its system message came first."""
    system = [] if request.system is None else [{"role": "system", "content": request.system}]
    return [*({"role": one["role"], "content": one["content"]} for one in system),
            *request.messages]


def reordered(conversation: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conversation with the system message's keys as put_anthropic has them."""
    return [{"role": one["role"], "content": one["content"]} if one["role"] == "system" else one
            for one in conversation]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_conversations_in_openais_form_are_had_back(client, session_id, first):
    for seed in range(first, first + CHUNK):
        told = OpenAITeller(seed).conversation()
        accepted(OPENAI, told)
        client.put(f"{session_id}-{seed}", told, config=WHOLE)
        context = client.get(f"{session_id}-{seed}")
        assert text_of(context.to_openai()) == text_of(told), seed
        stored = list(client.get_all(f"{session_id}-{seed}"))
        assert text_of(memoryd.to_openai(stored)) == text_of(told), seed
        assert len(stored) == len(told)

        crossed = context.to_anthropic()
        accepted(ANTHROPIC, crossed.messages)
        assert list(anthropic_violations(crossed.messages)) == [], seed
        if crossed.system is not None:
            SYSTEM.validate_python(crossed.system)
        assert crossed.keys() <= {"messages", "system"}


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_conversations_in_anthropics_form_are_had_back(client, session_id, first):
    for seed in range(first, first + CHUNK):
        told = AnthropicTeller(seed).conversation()
        accepted(ANTHROPIC, told)
        client.put(f"{session_id}-{seed}", told, config=WHOLE)
        context = client.get(f"{session_id}-{seed}")
        assert text_of(put_anthropic(context.to_anthropic())) == text_of(reordered(told)), seed
        stored = list(client.get_all(f"{session_id}-{seed}"))
        assert text_of(put_anthropic(memoryd.to_anthropic(stored))) == text_of(reordered(told))
        assert len(stored) == len(told)

        crossed = context.to_openai()
        accepted(OPENAI, crossed)
        # A stream that was cut leaves the last call without a result.
        assert [found for found in openai_violations(crossed)
                if not found.startswith("at the end")] == [], seed
