"""Runs of OpenAI's Agents SDK whose session is in memoryd: odd input, other frameworks, restarts."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

from support.agents.openai_items import parallel_calls
from support.agents.rules import anthropic_violations, openai_violations
from support.conversations import PNG, encoded
from support.server import Server, restarted

from memoryd import Client, MemorydError, from_anthropic, to_anthropic, to_openai
from memoryd.langchain import ChatMessageHistory
from memoryd.openai_agents import MemorydSession

CALLS_OF_A_TURN = 1000
TURNS = 6

set_tracing_disabled(True)


@pytest.fixture(scope="module")
def client(server) -> Iterator[Client]:
    with Client(server.target, timeout=60) as made:
        yield made


def text(said: str) -> ResponseOutputMessage:
    return ResponseOutputMessage(
        id="msg", type="message", role="assistant", status="completed",
        content=[ResponseOutputText(type="output_text", text=said, annotations=[])])


def call(call_id: str, name: str, **arguments: Any) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", call_id=call_id, name=name, arguments=json.dumps(arguments))


class Scripted(Model):
    """Says one list of items after the other."""

    def __init__(self, *said: list[Any]) -> None:
        self._said = iter(said)
        self.asked: list[Any] = []

    async def get_response(self, system_instructions, input, *rest, **named):
        self.asked.append(input)
        return ModelResponse(output=next(self._said), usage=Usage(), response_id=None)

    def stream_response(self, *arguments, **named):
        raise NotImplementedError


@function_tool(failure_error_function=None)
def weather(city: str) -> str:
    return f"sun in {city}"


@function_tool
def fail(city: str) -> str:
    raise RuntimeError(f"no {city}")


IMAGE = {"role": "user", "content": [
    {"type": "input_text", "text": "What is this?"},
    {"type": "input_image", "image_url": f"data:image/png;base64,{encoded(PNG)}",
     "detail": "auto"}]}


def converse(session: MemorydSession) -> None:
    """Reasoning, an image, parallel calls, one of which fails."""
    thought = ResponseReasoningItem(id="rs", type="reasoning", summary=[
        {"type": "summary_text", "text": "hm"}])
    model = Scripted(
        [thought, text("Let me look."), call("c1", "weather", city="Lyon"),
         call("c2", "fail", city="Rome")],
        [text("Sun.")])
    agent = Agent("a", model=model, tools=[weather, fail])
    result = asyncio.run(Runner.run(agent, [IMAGE], session=session))
    assert result.final_output == "Sun."


# What other frameworks make of it.


def test_what_was_said_at_once_is_one_message_elsewhere(server, client, session_id):
    converse(MemorydSession(session_id, server.target))
    context = client.get(session_id)
    openai = context.to_openai()
    assert not list(openai_violations(openai))
    assert openai[1]["content"] == "Let me look."
    anthropic = context.to_anthropic()
    assert not list(anthropic_violations(anthropic.messages))
    stored = list(client.get_all(session_id))
    assert [part.WhichOneof("kind") for part in stored[0].parts] == ["text", "image"]
    assert stored[1].parts[0].thinking.text == "hm"
    assert stored[0].parts[1].image.data == PNG


def test_calls_that_stand_together_are_one_message_elsewhere(server, client, session_id):
    asyncio.run(MemorydSession(session_id, server.target).add_items(parallel_calls()))
    context = client.get(session_id)  # Which puts each result behind its call.
    assert not list(openai_violations(context.to_openai()))
    assert not list(anthropic_violations(context.to_anthropic().messages))
    stored = list(client.get_all(session_id))
    openai, anthropic = to_openai(stored), to_anthropic(stored)
    assert not list(openai_violations(openai))
    assert not list(anthropic_violations(anthropic.messages))
    assert [one["role"] for one in openai] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [one["id"] for one in openai[1]["tool_calls"]] == ["c1", "c2"]
    assert [one["role"] for one in anthropic.messages] == [
        "user", "assistant", "user", "assistant"]
    messages = ChatMessageHistory(session_id, target=server.target).messages
    assert [one.type for one in messages] == ["human", "ai", "tool", "tool", "ai"]
    assert [one["id"] for one in messages[1].tool_calls] == ["c1", "c2"]


def test_a_chat_of_langchain_goes_on(server, client, session_id):
    history = ChatMessageHistory(session_id, target=server.target)
    history.add_messages([
        HumanMessage("Weather?"),
        AIMessage("", tool_calls=[
            {"name": "weather", "args": {"city": "Lyon"}, "id": "c1", "type": "tool_call"},
            {"name": "weather", "args": {"city": "Rome"}, "id": "c2", "type": "tool_call"}]),
        ToolMessage("sun", tool_call_id="c1"), ToolMessage("rain", tool_call_id="c2"),
        AIMessage("Sun and rain.")])
    session = MemorydSession(session_id, server.target)
    model = Scripted([text("Yes.")])
    asyncio.run(Runner.run(Agent("a", model=model), "Sure?", session=session))
    assert model.asked == [[
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "c1", "name": "weather",
         "arguments": '{"city": "Lyon"}'},
        {"type": "function_call", "call_id": "c2", "name": "weather",
         "arguments": '{"city": "Rome"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sun"},
        {"type": "function_call_output", "call_id": "c2", "output": "rain"},
        {"role": "assistant", "content": "Sun and rain."},
        {"role": "user", "content": "Sure?"}]]
    assert [one.type for one in history.messages] == ["human", "ai", "tool", "tool", "ai", "human",
                                                      "ai"]
    # Items are counted, not messages; those of one message are popped one by one.
    assert len(asyncio.run(session.get_items(6))) == 6
    for left in range(7, -1, -1):
        popped = asyncio.run(session.pop_item())
        assert popped is not None
        assert len(asyncio.run(session.get_items())) == left
    assert asyncio.run(session.pop_item()) is None and not list(client.get_all(session_id))


def test_a_chat_in_anthropics_form_goes_on(server, client, session_id):
    client.put(session_id, [from_anthropic(one) for one in (
        {"role": "user", "content": [
            {"type": "text", "text": "Look."},
            {"type": "image", "source": {
                "type": "base64", "media_type": "image/png", "data": encoded(PNG)}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Lyon"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "sun"},
            {"type": "text", "text": "And?"}]})])
    items = asyncio.run(MemorydSession(session_id, server.target).get_items())
    assert items == [
        {"role": "user", "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "input_image", "image_url": f"data:image/png;base64,{encoded(PNG)}",
             "detail": "auto"}]},
        {"id": "__fake_id__", "type": "message", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
        {"type": "function_call", "call_id": "t1", "name": "weather",
         "arguments": '{"city": "Lyon"}'},
        {"type": "function_call_output", "call_id": "t1", "output": "sun"},
        {"role": "user", "content": "And?"}]


# What is odd.


def both(server: Server, session_id: str) -> tuple[MemorydSession, SQLiteSession]:
    return MemorydSession(session_id, server.target, timeout=60.0), SQLiteSession(session_id)


class Told(pydantic.BaseModel):
    role: str = "user"


@pytest.mark.parametrize("item", [
    {"role": "user", "content": datetime.datetime(2026, 1, 1)}, {"role": "user", "content": b"x"},
    Told(), {"role": "user", "content": {1, 2}}, {("a",): 1}], ids=lambda item: str(item)[:20])
def test_what_json_does_not_have_is_refused_and_nothing_is_stored(server, session_id, item):
    async def run() -> None:
        for session in both(server, session_id):
            with pytest.raises(TypeError):
                await session.add_items([{"role": "user", "content": "first"}, item])
            assert await session.get_items() == []

    asyncio.run(run())


def test_what_is_large(server, session_id):
    large = [
        {"role": "user", "content": [{"type": "input_text", "text": "é" * (5 << 20)}]},
        {"role": "user", "content": [{
            "type": "input_image", "image_url": "data:image/png;base64," + "QUJD" * (5 << 18)}]},
        {"type": "function_call_output", "call_id": "c", "output": "no JSON {" * 600_000},
        {"type": "future", "value": {"deep": [["x" * (5 << 20)]]}},
        {"role": "user", "content": []}, {"role": "user", "content": ""}]

    async def run() -> None:
        for session in both(server, session_id):
            await session.add_items(large)
            assert await session.get_items() == large
            assert [await session.pop_item() for _ in large] == large[::-1]

    asyncio.run(run())


def test_a_thousand_calls_in_one_turn(server, client, session_id):
    model = Scripted([call(f"c{at}", "weather", city=str(at)) for at in range(CALLS_OF_A_TURN)],
                     [text("Sun.")])
    session = MemorydSession(session_id, server.target, timeout=60.0)
    agent = Agent("a", model=model, tools=[weather])
    asyncio.run(Runner.run(agent, "Everywhere?", session=session))
    items = asyncio.run(session.get_items())
    assert len(items) == 2 * CALLS_OF_A_TURN + 2
    assert items[:-1] == model.asked[1]
    openai = to_openai(client.get_all(session_id))
    assert not list(openai_violations(openai))


def test_a_session_that_is_not_there(server, session_id):
    async def run() -> None:
        for session in both(server, session_id):
            for _ in range(2):
                await session.clear_session()
                assert await session.pop_item() is None
                assert await session.get_items() == await session.get_items(3) == []
            await session.add_items([])
            assert await session.get_items() == []

    asyncio.run(run())


def test_an_id_that_the_server_refuses_is_named(server):
    for session_id in ("", "a\nb", "x" * 257):
        session = MemorydSession(session_id, server.target)
        with pytest.raises(MemorydError, match="session_id"):
            asyncio.run(session.add_items([{"role": "user", "content": "hi"}]))
    with pytest.raises(TypeError, match="an id is a str, a UUID or an int, not NoneType"):
        MemorydSession(None)  # type: ignore[arg-type]


def test_a_session_begins_with_its_subject(server, client, session_id):
    session = MemorydSession(session_id, server.target, subject="ann")
    asyncio.run(session.add_items([{"role": "user", "content": "hi"}]))
    assert client.get_session(session_id).config.subject == "ann"
    other = MemorydSession(session_id, server.target, subject="bob")
    asyncio.run(other.add_items([{"role": "user", "content": "ho"}]))
    assert client.get_session(session_id).config.subject == "ann"


def test_many_coroutines_add_and_pop_without_loss(server, session_id):
    sessions = [MemorydSession(session_id, server.target, timeout=60.0) for _ in range(4)]

    async def add(at: int) -> None:
        for number in range(20):
            await sessions[at].add_items([
                {"role": "user", "content": f"{at}.{number}.{part}"} for part in range(2)])

    async def run() -> None:
        await asyncio.gather(*(add(at) for at in range(4)))
        items = [one["content"] for one in await sessions[0].get_items()]
        assert len(items) == 160
        for at in range(4):  # Each in order, and what was added at once stays together.
            assert [one for one in items if one.startswith(f"{at}.")] == [
                f"{at}.{number}.{part}" for number in range(20) for part in range(2)]
        assert all(one[:-1] == two[:-1] for one, two in zip(
            items[::2], items[1::2], strict=True))
        popped = await asyncio.gather(*(session.pop_item() for session in sessions * 45))
        assert sorted(one["content"] for one in popped if one) == sorted(items)

    asyncio.run(run())


def test_a_server_that_goes_away_between_two_calls_of_a_turn(store):
    with restarted(store) as (listen, restart):
        @function_tool
        def away() -> str:
            restart()
            return "back"

        session = MemorydSession("s", listen, timeout=120.0)
        said = itertools.chain.from_iterable(
            [[call(f"c{turn}", "away")], [text(f"{turn}")]] for turn in range(TURNS))
        agent = Agent("a", model=Scripted(*said), tools=[away])

        async def run() -> None:
            for turn in range(TURNS):
                await Runner.run(agent, f"q{turn}", session=session)
            items = await session.get_items()
            assert [one.get("role") or one["type"] for one in items] == TURNS * [
                "user", "function_call", "function_call_output", "assistant"]

        asyncio.run(run())
