"""Runs of Pydantic AI whose conversations are in memoryd: other frameworks, callers that race or are
killed, odd input."""

from __future__ import annotations

import asyncio
import collections
import datetime
import itertools
import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
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
from pydantic_ai.models.function import FunctionModel

from support import paths
from support.agents.openai_items import parallel_calls
from support.agents.pydantic_weather import weather_agent
from support.agents.rules import anthropic_violations, openai_violations
from support.conversations import PNG
from support.server import Server, restarted
from support.stores import fresh_store

from memoryd import Client, MemorydError, to_anthropic, to_openai
from memoryd.langchain import ChatMessageHistory
from memoryd.openai_agents import MemorydSession
from memoryd.pydantic_ai import MemorydConversationStore

EXAMPLE = paths.REPOSITORY / "examples/pydantic_ai_agent.py"
SOURCE = str(paths.REPOSITORY / "clients/python/src")
SAID = [
    "My name is Ann. -> Hello!",
    "Tea, please. -> Here: one pot of tea.",
    "What was my name, and what did I drink? -> You said 'My name is Ann.', and had one pot of tea.",
]
CALLS_OF_A_TURN = 1000
CALLERS = 6
TURNS = 5


@pytest.fixture(scope="module")
def client(server) -> Iterator[Client]:
    with Client(server.target, timeout=60) as made:
        yield made


@pytest.fixture
def store(server) -> MemorydConversationStore:
    return MemorydConversationStore(
        server.target, namespace=("tests", uuid.uuid4().hex), timeout=60.0)


def again(store: MemorydConversationStore) -> MemorydConversationStore:
    """As another process has it."""
    return pickle.loads(pickle.dumps(store))


def scripted(*said: list[Any]) -> FunctionModel:
    left = iter(said)
    return FunctionModel(lambda messages, info: ModelResponse(next(left)))


def scripted_agent(*said: list[Any]) -> Agent:
    return weather_agent(scripted(*said))


def user(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


def texts(messages: Any) -> list[str]:
    return [part.content for message in messages for part in message.parts
            if part.part_kind in ("text", "user-prompt")]


async def run(store: MemorydConversationStore, agent: Agent, said: Any, name: str) -> Any:
    conversation = await store.load(name) or Conversation(conversation_id=name)
    result = await agent.run(said, conversation=conversation)
    await store.save(result)
    return result


def converse(store: MemorydConversationStore, name: str) -> None:
    """Reasoning, an image, parallel calls, one of which fails."""
    agent = scripted_agent(
        [ThinkingPart("hm", signature="s"), TextPart("Let me look."),
         ToolCallPart("weather", {"city": "Lyon"}, "c1"),
         ToolCallPart("fail", {"city": "Rome"}, "c2")],
        [TextPart("Sun.")])
    image = BinaryContent(PNG, media_type="image/png")
    assert asyncio.run(run(store, agent, ["What is this?", image], name)).output == "Sun."


# What other frameworks make of it, and it of theirs.


def test_a_conversation_is_valid_elsewhere(server, client, store, session_id):
    converse(store, session_id)
    stored = list(client.get_all(session_id))
    assert [one.role for one in stored] == ["user", "assistant", "tool", "assistant"]
    assert [part.WhichOneof("kind") for part in stored[0].parts] == ["text", "image"]
    assert stored[0].parts[1].image.data == PNG
    assert [part.tool_result.is_error for part in stored[2].parts] == [False, True]
    openai, anthropic = to_openai(stored), to_anthropic(stored)
    assert not list(openai_violations(openai))
    assert not list(anthropic_violations(anthropic.messages))
    assert [one["role"] for one in openai] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [one["role"] for one in anthropic.messages] == [
        "user", "assistant", "user", "assistant"]
    items = asyncio.run(MemorydSession(session_id, server.target).get_items())
    assert [one.get("role") or one["type"] for one in items] == [
        "user", "assistant", "function_call", "function_call", "function_call_output",
        "function_call_output", "assistant"]
    messages = ChatMessageHistory(session_id, target=server.target).messages
    assert messages[0].type == "human" and messages[-1].content == "Sun."


def test_a_chat_of_langchain_goes_on_here_and_back(server, store, session_id):
    history = ChatMessageHistory(session_id, target=server.target)
    history.add_messages([
        HumanMessage("Weather?"),
        AIMessage("", tool_calls=[
            {"name": "weather", "args": {"city": "Lyon"}, "id": "c1", "type": "tool_call"},
            {"name": "weather", "args": {"city": "Rome"}, "id": "c2", "type": "tool_call"}]),
        ToolMessage("sun", tool_call_id="c1"), ToolMessage("rain", tool_call_id="c2"),
        AIMessage("Sun and rain.")])

    async def go_on() -> None:
        found = await store.load(session_id)
        assert [message.kind for message in found.messages] == [
            "request", "response", "request", "request", "response"]
        assert [part.args for part in found.messages[1].parts] == [
            '{"city": "Lyon"}', '{"city": "Rome"}']
        assert [one.parts[0].tool_name for one in found.messages[2:4]] == ["weather"] * 2
        # It is the same each time.
        assert (await again(store).load(session_id)).messages == found.messages
        await run(store, scripted_agent([TextPart("Yes.")]), "Sure?", session_id)
        # And it goes on there, which the store sees as a revision of its own.
        stale = await store.load(session_id)
        history.add_messages([HumanMessage("Thanks."), AIMessage("Welcome.")])
        stale.messages = [*stale.messages, user("lost?")]
        with pytest.raises(ConversationConflict):
            await store.save(stale)
        await run(store, scripted_agent([TextPart("Bye.")]), "That is all.", session_id)
        entries = await again(store).load_entries(session_id)
        assert texts([one.message for one in entries]) == [
            "Weather?", "Sun and rain.", "Sure?", "Yes.", "Thanks.", "Welcome.", "That is all.",
            "Bye."]
        assert [one.parent_id for one in entries[1:]] == [one.id for one in entries[:-1]]

    asyncio.run(go_on())
    assert len(history.messages) == 11 and history.messages[-1].content == "Bye."


def test_what_another_framework_adds_or_pops_without_a_word_is_not_missed(
    server, client, store, session_id
):
    other = MemorydSession(session_id, server.target)

    async def go_on() -> None:
        await store.save(Conversation(
            conversation_id=session_id, messages=[user("q"), ModelResponse([TextPart("a")])]))
        # A call that the provider ran says nothing here, alone and after a text.
        hosted = {"id": "ws", "type": "web_search_call", "status": "completed",
                  "action": {"type": "search", "query": "q"}}
        await other.add_items([hosted])
        assert texts((await store.load(session_id)).messages) == ["q", "a"]
        await other.add_items([{"role": "user", "content": "q2"},
                               {"role": "assistant", "content": "a2"}, hosted])
        found = await store.load(session_id)
        assert texts(found.messages) == ["q", "a", "q2", "a2"]
        for left in (["q", "a", "q2", "a2"], ["q", "a", "q2"], ["q", "a"], ["q", "a"], ["q"]):
            await other.pop_item()
            found = await store.load(session_id)
            assert texts(found.messages) == left
        await run(store, scripted_agent([TextPart("b")]), "again", session_id)
        assert texts((await again(store).load(session_id)).messages) == ["q", "again", "b"]

    asyncio.run(go_on())


def test_a_chat_of_openais_sdk_goes_on_here(server, store, session_id):
    asyncio.run(MemorydSession(session_id, server.target).add_items(parallel_calls()))
    found = asyncio.run(store.load(session_id))
    assert [[part.part_kind for part in message.parts] for message in found.messages] == [
        ["user-prompt"], ["text", "tool-call", "tool-call"], ["tool-return"], ["tool-return"],
        ["text"]]
    asyncio.run(run(store, scripted_agent([TextPart("Yes.")]), "Sure?", session_id))
    items = asyncio.run(MemorydSession(session_id, server.target).get_items(3))
    assert [one["content"] for one in items] == ["Sun.", "Sure?", "Yes."]


# Callers that race, or end in the middle.


def test_of_callers_that_race_one_saves_a_turn(client, store, session_id):
    async def race() -> None:
        saved: list[str] = []
        for turn in range(TURNS):
            async def call(at: int, turn: int, ready: asyncio.Barrier) -> None:
                mine = again(store)
                found = (await mine.load(session_id)
                         or Conversation(conversation_id=session_id))
                found.messages = [*found.messages, user(f"{turn}.{at}"), user(f"{turn}.{at}")]
                await ready.wait()
                try:
                    await mine.save(found)
                    saved.append(f"{turn}.{at}")
                except ConversationConflict:
                    pass

            ready = asyncio.Barrier(CALLERS)
            await asyncio.gather(*(call(at, turn, ready) for at in range(CALLERS)))
        assert len(saved) == TURNS
        expected = [one for name in saved for one in (name, name)]
        assert texts((await store.load(session_id)).messages) == expected
        # And nothing of the others is left for other clients.
        stored = [one.text for one in client.get_all(session_id)]
        assert stored == expected

    asyncio.run(race())


def test_messages_of_a_save_that_was_cut_are_in_no_history(client, store, session_id):
    async def cut() -> None:
        conversation = Conversation(conversation_id=session_id, messages=[user("one")])
        await store.save(conversation)
        cutting = again(store)
        cutting._steps._recorded = None  # Ends here.
        found = await cutting.load(session_id)
        found.messages = [*found.messages, user("lost"), ModelResponse([
            ToolCallPart("t", {}, "c")]), ModelRequest([ToolReturnPart("t", "r", "c")])]
        with pytest.raises(TypeError):
            await cutting.save(found)
        assert len([*client.get_all(session_id)]) == 4
        found = await again(store).load(session_id)
        assert texts(found.messages) == ["one"]
        found.messages = [*found.messages, user("two")]
        await store.save(found)
        assert texts((await again(store).load(session_id)).messages) == ["one", "two"]
        assert [one.text for one in client.get_all(session_id)] == ["one", "two"]

    asyncio.run(cut())


def test_a_fork_and_a_deletion_that_were_cut_are_done_again(client, store, session_id):
    other = session_id + "-fork"

    async def cut() -> None:
        conversation = Conversation(
            conversation_id=session_id, messages=[user(str(at)) for at in range(4)])
        await store.save(conversation)
        cutting = again(store)
        cutting._steps._recorded = None
        with pytest.raises(TypeError):
            await cutting.fork(session_id, at=3, new_conversation_id=other)
        assert await store.load(other) is None
        made = await store.fork(session_id, at=2, new_conversation_id=other)
        assert texts(made.messages) == texts((await store.load(other)).messages) == ["0", "1"]
        cutting._steps._purged = None
        with pytest.raises(TypeError):
            await cutting.delete(session_id)
        assert await store.load(session_id) is None
        assert [one.conversation_id for one in await store.list_conversations()] == [other]
        await store.save(Conversation(conversation_id=session_id, messages=[user("anew")]))
        assert texts((await store.load(session_id)).messages) == ["anew"]
        assert [one.text for one in client.get_all(session_id)] == ["anew"]
        assert texts((await store.load(other)).messages) == ["0", "1"]

    asyncio.run(cut())


def test_the_example_goes_on_after_it_was_killed(server):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), server.target], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": SOURCE}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SAID
    asyncio.run(MemorydConversationStore(server.target).delete("waiter"))


def test_the_example_goes_on_wherever_it_is_killed(store_kind, killed_and_again):
    """Nothing is lost, doubled or orphaned before one and after the next of its calls."""
    with (fresh_store(store_kind) as url, Server(url) as server,
          Client(server.target) as client):
        for first, second in killed_and_again(EXAMPLE, server.target, calls=itertools.count(1)):
            roles = [one.role for one in client.get_all("waiter")]
            assert roles == ["user", "assistant", "user", "assistant", "tool", "assistant", "user",
                             "assistant"]
            # An answer that was stored right before the kill is not told again.
            told = first + second
            assert told == sorted({*told}, key=SAID.index) and len(told) >= len(SAID) - 1
            asyncio.run(MemorydConversationStore(server.target).delete("waiter"))


def test_a_server_that_goes_away_between_two_calls_of_a_turn(store_kind):
    with fresh_store(store_kind) as url, restarted(url) as (listen, restart):
        agent = Agent(scripted(*itertools.chain.from_iterable(
            [[ToolCallPart("away", {})], [TextPart(str(turn))]] for turn in range(TURNS))))

        @agent.tool_plain
        def away() -> str:
            restart()
            return "back"

        store = MemorydConversationStore(listen, timeout=120.0)

        async def go_on() -> None:
            for turn in range(TURNS):
                await run(store, agent, f"q{turn}", "s")
            found = await store.load("s")
            assert [message.kind for message in found.messages] == 2 * TURNS * [
                "request", "response"]

        asyncio.run(go_on())


# What is odd.


def test_what_is_large_or_no_text_comes_back_as_the_library_restores_it(store, session_id):
    odd = [
        ModelRequest([UserPromptPart(["é" * (5 << 20), BinaryContent(
            bytes(range(256)) * (5 << 12), media_type="application/pdf")])]),
        ModelRequest([UserPromptPart([])]), ModelRequest([]), ModelResponse([]),
        ModelRequest([UserPromptPart("nul \0 and \U0001f600")]),
        ModelResponse([ToolCallPart("t", "no JSON {" * 300_000, "c" * 20_000)]),
        ModelRequest([ToolReturnPart("t", {
            "date": datetime.datetime(2026, 1, 1), "enum": collections.Counter("ab"),
            "set": {1}, "bytes": b"\xff", "nan": float("nan")}, "c" * 20_000)])]
    dumped = ModelMessagesTypeAdapter.dump_json(odd)
    expected = ModelMessagesTypeAdapter.validate_json(dumped)

    async def save() -> None:
        await store.save(Conversation(conversation_id=session_id, messages=odd))
        found = (await again(store).load(session_id)).messages
        assert ModelMessagesTypeAdapter.dump_json(found) == ModelMessagesTypeAdapter.dump_json(
            expected)

    asyncio.run(save())


def test_halves_of_characters_are_replaced(store, session_id):
    asyncio.run(store.save(Conversation(
        conversation_id=session_id, messages=[user("cut \ud83d, pair \ud83d\ude00")])))
    assert texts(asyncio.run(store.load(session_id)).messages) == ["cut \ufffd, pair \U0001f600"]


def test_a_thousand_calls_in_one_turn(client, store, session_id):
    agent = scripted_agent(
        [ToolCallPart("weather", {"city": str(at)}, f"c{at}") for at in range(CALLS_OF_A_TURN)],
        [TextPart("Sun.")])
    result = asyncio.run(run(store, agent, "Everywhere?", session_id))
    found = asyncio.run(again(store).load(session_id))
    assert ModelMessagesTypeAdapter.dump_json(
        found.messages) == ModelMessagesTypeAdapter.dump_json(result.all_messages())
    assert len(to_openai(client.get_all(session_id))) >= 3


def test_what_is_not_there(store, session_id):
    async def look() -> None:
        assert await store.load(session_id) is None
        for _ in range(2):
            await store.delete(session_id)
        for entry_id in ("nobody's", "x" * 2000):
            with pytest.raises(KeyError):
                await store.read_entry(entry_id)
            with pytest.raises(KeyError):
                await store.read_history(entry_id)
        with pytest.raises(ConversationConflict):
            await store.delete_record(session_id, expected_revision="r")

    asyncio.run(look())


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 257], ids=["empty", "newline", "long"])
def test_an_id_that_the_server_refuses_is_named(store, name):
    with pytest.raises(MemorydError, match="session_id"):
        asyncio.run(store.save(Conversation(conversation_id=name, messages=[user("hi")])))


def test_entries_are_found_by_ids_that_are_plain(store, session_id):
    async def find() -> None:
        entries = await store.save(Conversation(
            conversation_id=session_id, messages=[user(str(at)) for at in range(3)]))
        for at, entry in enumerate(entries):
            found = await again(store).read_entry(str(entry.id))
            assert texts([found.message]) == [str(at)] and found.parent_id == entry.parent_id
            line = await again(store).read_history(str(entry.id))
            assert [one.id for one in line] == [one.id for one in entries[:at + 1]]

    asyncio.run(find())


def test_what_was_erased_is_not_loaded_and_what_was_deleted_is_missing(client, store, session_id):
    async def lack() -> None:
        entries = await store.save(Conversation(
            conversation_id=session_id, messages=[user(str(at)) for at in range(5)]))
        for at in (0, 2):
            client.delete_message(session_id, entries[at].id)
        found = await store.load(session_id)
        assert texts(found.messages) == ["1", "3", "4"]
        found.messages = [*found.messages, user("5")]
        await store.save(found)
        assert texts((await store.load(session_id)).messages) == ["1", "3", "4", "5"]
        # Its last one, too.
        client.delete_message(session_id, (await store.load_entries(session_id))[-1].id)
        found = await store.load(session_id)
        assert texts(found.messages) == ["1", "3", "4"]
        found.messages = [*found.messages, user("6")]
        await store.save(found)
        assert texts((await again(store).load(session_id)).messages) == ["1", "3", "4", "6"]
        client.delete_session(session_id)
        assert await store.load(session_id) is None
        await store.save(Conversation(conversation_id=session_id, messages=[user("anew")]))
        assert texts((await again(store).load(session_id)).messages) == ["anew"]

    asyncio.run(lack())
