"""A chat that one framework has stored, read by each other one: what a provider would refuse in the
next request, and what is missing of it. The servers' part is in the tests of each adapter."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai.chat_models._compat import _convert_from_v1_to_chat_completions
from langchain_openai.chat_models.base import _convert_message_to_dict
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.llms.openai.utils import to_openai_message_dicts
from pydantic_ai import BinaryContent
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from support.agents.rules import anthropic_violations, openai_violations
from support.conversations import PNG, encoded

from memoryd import from_anthropic, from_openai, to_anthropic, to_openai
from memoryd._adapters import own_forms, turns
from memoryd.langchain.messages import from_message, to_message
from memoryd.llama_index._messages import from_chat, to_chat
from memoryd.openai_agents._items import FORM as RESPONSES
from memoryd.pydantic_ai._form import FORM as PYDANTIC
from memoryd.v1 import memory_pb2 as memory

Messages = list[memory.Message]

URL = f"data:image/png;base64,{encoded(PNG)}"
CALLS = (("c1", "weather", {"city": "Lyon"}), ("c2", "weather", {"city": "Rome"}))
RESULTS = (("c1", "sun", False), ("c2", "no such city", True))


def of_openai() -> Messages:
    return [from_openai(one) for one in (
        {"role": "user", "content": [{"type": "text", "text": "Look, and tell the weather."},
                                     {"type": "image_url", "image_url": {"url": URL}}]},
        {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
            {"id": called, "type": "function",
             "function": {"name": name, "arguments": json.dumps(arguments)}}
            for called, name, arguments in CALLS]},
        *({"role": "tool", "tool_call_id": called, "content": text} for called, text, _ in RESULTS),
        {"role": "assistant", "content": "Sun in Lyon."})]


def of_anthropic() -> Messages:
    return [from_anthropic(one) for one in (
        {"role": "user", "content": [
            {"type": "text", "text": "Look, and tell the weather."},
            {"type": "image", "source": {
                "type": "base64", "media_type": "image/png", "data": encoded(PNG)}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I look."},
            *({"type": "tool_use", "id": called, "name": name, "input": arguments}
              for called, name, arguments in CALLS)]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": called, "content": text, "is_error": is_error}
            for called, text, is_error in RESULTS]},
        {"role": "assistant", "content": "Sun in Lyon."})]


def of_langchain() -> Messages:
    return [to_message(one) for one in (
        HumanMessage([{"type": "text", "text": "Look, and tell the weather."},
                      {"type": "image_url", "image_url": {"url": URL}}]),
        AIMessage("I look.", tool_calls=[
            {"name": name, "args": arguments, "id": called, "type": "tool_call"}
            for called, name, arguments in CALLS]),
        *(ToolMessage(text, tool_call_id=called, status="error" if is_error else "success")
          for called, text, is_error in RESULTS),
        AIMessage("Sun in Lyon."))]


def of_llama_index() -> Messages:
    return [from_chat(one) for one in (
        ChatMessage(role="user", blocks=[TextBlock(text="Look, and tell the weather."),
                                         ImageBlock(image=base64.b64encode(PNG),
                                                    image_mimetype="image/png")]),
        ChatMessage(role="assistant", blocks=[
            ThinkingBlock(content="hm"), TextBlock(text="I look."),
            *(ToolCallBlock(tool_call_id=called, tool_name=name, tool_kwargs=arguments)
              for called, name, arguments in CALLS)]),
        *(ChatMessage(role=MessageRole.TOOL, content=text,
                      additional_kwargs={"tool_call_id": called}) for called, text, _ in RESULTS),
        ChatMessage(role="assistant", content="Sun in Lyon."))]


def of_openai_agents() -> Messages:
    return [own_forms.stored(RESPONSES, one) for one in (
        {"role": "user", "content": [
            {"type": "input_text", "text": "Look, and tell the weather."},
            {"type": "input_image", "image_url": URL, "detail": "auto"}]},
        {"id": "rs", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "I look.", "annotations": []}]},
        *({"type": "function_call", "call_id": called, "name": name,
           "arguments": json.dumps(arguments)} for called, name, arguments in CALLS),
        *({"type": "function_call_output", "call_id": called, "output": text}
          for called, text, _ in RESULTS),
        {"role": "assistant", "content": "Sun in Lyon."})]


def of_pydantic_ai() -> Messages:
    messages = [
        ModelRequest([UserPromptPart(["Look, and tell the weather.",
                                      BinaryContent(PNG, media_type="image/png")])]),
        ModelResponse([ThinkingPart("hm"), TextPart("I look."), *(
            ToolCallPart(name, arguments, called) for called, name, arguments in CALLS)]),
        ModelRequest([ToolReturnPart(
            "weather", text, called, outcome="failed" if is_error else "success")
            for called, text, is_error in RESULTS]),
        ModelResponse([TextPart("Sun in Lyon.")])]
    return [own_forms.stored(PYDANTIC, own_forms.json_value(one))
            for one in ModelMessagesTypeAdapter.dump_python(messages, mode="json")]


def read_openai(messages: Messages) -> tuple[list[str], Any]:
    made = to_openai(messages)
    return list(openai_violations(made)), made


def read_anthropic(messages: Messages) -> tuple[list[str], Any]:
    made = to_anthropic(messages).messages
    return list(anthropic_violations(made)), made


def read_langchain(messages: Messages) -> tuple[list[str], Any]:
    # As ChatOpenAI makes its request of them.
    found = [from_message(one) for one in turns.single(messages)]
    made = [_convert_message_to_dict(_convert_from_v1_to_chat_completions(one) if isinstance(
        one, AIMessage) else one) for one in found]
    return list(openai_violations(made)), made


def read_llama_index(messages: Messages) -> tuple[list[str], Any]:
    found = [to_chat(one) for one in turns.single(messages)]
    made = to_openai_message_dicts(found, model="gpt-4o")
    return list(openai_violations(made)), made


def read_openai_agents(messages: Messages) -> tuple[list[str], Any]:
    made = [value for one in own_forms.read(RESPONSES, messages) for value in one.values]
    return list(item_violations(made)), made


def read_pydantic_ai(messages: Messages) -> tuple[list[str], Any]:
    values = [value for one in own_forms.read(PYDANTIC, turns.whole(messages))
              for value in one.values]
    found = ModelMessagesTypeAdapter.validate_json(json.dumps(values))
    return list(request_violations(found)), ModelMessagesTypeAdapter.dump_python(
        found, mode="json")


def item_violations(items: list[Any]) -> Iterator[str]:
    """Calls without an answer before the next message, and answers of no call."""
    waiting: list[str] = []
    for place, item in enumerate(items):
        if item.get("type") == "function_call":
            waiting.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            if item["call_id"] not in waiting:
                yield f"items[{place}]: an answer of no call"
            else:
                waiting.remove(item["call_id"])
        elif item.get("role") and waiting:
            yield f"items[{place}]: before it {waiting} have no answer"


def request_violations(messages: Sequence[Any]) -> Iterator[str]:
    """Calls that the requests before the next response do not answer, and the reverse."""
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if message.kind == "response" and waiting:
            yield f"messages[{place}]: before it {waiting} have no answer"
        for part in message.parts:
            if part.part_kind == "tool-call":
                waiting.append(part.tool_call_id)
            elif part.part_kind == "tool-return":
                if part.tool_call_id not in waiting:
                    yield f"messages[{place}]: an answer of no call"
                else:
                    waiting.remove(part.tool_call_id)


WRITERS = (of_openai, of_anthropic, of_langchain, of_llama_index, of_openai_agents, of_pydantic_ai)
READERS = (read_openai, read_anthropic, read_langchain, read_llama_index, read_openai_agents,
           read_pydantic_ai)


@pytest.mark.parametrize("reader", READERS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("writer", WRITERS, ids=lambda one: one.__name__)
def test_a_chat_goes_on_in_another_framework(writer, reader):
    refused, made = reader(writer())
    assert refused == []
    said = json.dumps(made)
    for wanted in ("Look, and tell the weather.", "I look.", "Lyon", "Rome", "c1", "c2", "sun",
                   "no such city", "Sun in Lyon."):
        assert wanted in said, wanted
    picture = encoded(PNG)
    assert picture in said or picture.replace("+", "-").replace("/", "_") in said
    # No two answers in a row, which some providers refuse.
    roles = [one.get("role") for one in made if isinstance(one, dict)]
    if reader is not read_openai_agents:
        assert not any(one == two == "assistant" for one, two in itertools.pairwise(roles))
