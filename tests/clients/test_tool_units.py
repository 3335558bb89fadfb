"""Calls of tools and their results, in every form that the frameworks have, once retention or
DeleteMessage has taken messages."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

from support.server import Server
from test_langchain import WordsLLM

from memoryd import Client, message
from memoryd.autogen import SearchMemory
from memoryd.langchain import ChatMessageHistory, ConversationSummaryBufferMemory
from memoryd.llama_index import ChatStore, Memory, MessageStatus
from memoryd.v1 import memory_pb2 as proto


@pytest.fixture
def client(server):
    with Client(server.target) as connected:
        yield connected


@pytest.fixture
def where(server, session_id) -> dict[str, str]:
    return {"session_id": session_id, "target": server.target}


def kept(**fields: Any) -> proto.SessionConfig:
    return proto.SessionConfig(retention=proto.Retention(**fields))


def ids_of(found: Iterable[proto.Message]) -> list[tuple[list[str], list[str]]]:
    """Of each message the calls and the results that the server knows."""
    return [([part.tool_call.call_id for part in one.parts if part.HasField("tool_call")],
             [part.tool_result.call_id for part in one.parts if part.HasField("tool_result")])
            for one in found]


def check_pairs(said: list[tuple[list[str], list[str]]]) -> None:
    """What OpenAI's and Anthropic's interfaces refuse: an answer without its call, and a call
    without its answers, but at the end."""
    open_calls: set[str] = set()
    for calls, results in said:
        assert set(results) <= open_calls
        open_calls -= set(results)
        if calls:
            assert not open_calls
            open_calls |= set(calls)


# The forms of a call, and of its result.

LANGCHAIN_CALLS: dict[str, Callable[[list[str]], BaseMessage]] = {
    "tool_calls": lambda ids: AIMessage("", tool_calls=[
        {"name": "f", "args": {"x": 1}, "id": id} for id in ids]),
    "pieces of a chunk": lambda ids: AIMessageChunk("", tool_call_chunks=[
        {"name": "f", "args": '{"x"', "id": id, "index": index} for index, id in enumerate(ids)]),
    "invalid_tool_calls": lambda ids: AIMessage("", invalid_tool_calls=[
        {"name": "f", "args": "{", "id": id, "error": None} for id in ids]),
    "additional_kwargs": lambda ids: AIMessage("", additional_kwargs={"tool_calls": [
        {"id": id, "type": "function", "function": {"name": "f", "arguments": "{"}}
        for id in ids]}),
    "arguments of 1.2 MB": lambda ids: AIMessage([{"type": "text", "text": "a"}], tool_calls=[
        {"name": "f", "args": {"x": "y" * 1_200_000}, "id": id} for id in ids]),
}
LANGCHAIN_RESULTS: list[Callable[[str], BaseMessage]] = [
    lambda id: ToolMessage("r", tool_call_id=id),
    lambda id: ToolMessage("r", tool_call_id=id, status="error", name="f", artifact=[1]),
    lambda id: ToolMessage([{"type": "text", "text": "r"}, "s"], tool_call_id=id),
    lambda id: ToolMessage("r" * 1_200_000, tool_call_id=id),
]
LLAMA_CALLS: dict[str, Callable[[list[str]], ChatMessage]] = {
    "blocks": lambda ids: ChatMessage(role="assistant", blocks=[
        ToolCallBlock(tool_call_id=id, tool_name="f", tool_kwargs={"x": 1}) for id in ids]),
    "OpenAI's additional_kwargs": lambda ids: ChatMessage(
        role="assistant", content="a", additional_kwargs={"tool_calls": [
            {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for id in ids]}),
    "Bedrock's additional_kwargs": lambda ids: ChatMessage(
        role="assistant", blocks=[], additional_kwargs={"tool_calls": [
            {"toolUseId": id, "name": "f", "input": {}} for id in ids]}),
    "both": lambda ids: ChatMessage(
        role="assistant", blocks=[ToolCallBlock(tool_call_id=id, tool_name="f", tool_kwargs="{}")
                                  for id in ids],
        additional_kwargs={"tool_calls": [{"id": id} for id in ids]}),
    "arguments of 1.2 MB": lambda ids: ChatMessage(role="assistant", blocks=[
        ToolCallBlock(tool_call_id=id, tool_name="f", tool_kwargs="y" * 1_200_000)
        for id in ids]),
}
LLAMA_RESULTS: list[Callable[[str], ChatMessage]] = [
    lambda id: ChatMessage(role="tool", content="r", additional_kwargs={"tool_call_id": id}),
    lambda id: ChatMessage(role="tool", blocks=[], additional_kwargs={"tool_call_id": id}),
    lambda id: ChatMessage(role="tool", blocks=[TextBlock(text="r" * 1_200_000)],
                           additional_kwargs={"tool_call_id": id, "raw": "z" * 300_000}),
]


@pytest.mark.parametrize("form", LANGCHAIN_CALLS)
def test_the_server_knows_langchains_calls_and_results(where, client, form):
    ids = ["c1", "c2"]
    said = [LANGCHAIN_CALLS[form](ids)] + [made(id) for made in LANGCHAIN_RESULTS for id in ids]
    history = ChatMessageHistory(**where)
    for one in said:  # Together they are more than a request may have.
        history.add_message(one)
    assert ids_of(client.get_all(where["session_id"])) == [
        (ids, []), *(([], [id]) for _ in LANGCHAIN_RESULTS for id in ids)]
    assert history.messages == said


@pytest.mark.parametrize("form", LLAMA_CALLS)
def test_the_server_knows_llama_indexs_calls_and_results(server, session_id, client, form):
    ids = ["c1", "c2"]
    said = [LLAMA_CALLS[form](ids)] + [made(id) for made in LLAMA_RESULTS for id in ids]
    memory = Memory.from_defaults(
        session_id=session_id, async_database_uri=f"memoryd://{server.target}",
        token_limit=10**7)
    for one in said:
        memory.put(one)
    assert ids_of(client.get_all(session_id)) == [
        (ids, []), *(([], [id]) for _ in LLAMA_RESULTS for id in ids)]
    assert memory.get_all() == said


def test_ids_as_the_world_makes_them(where, client, server):
    ids = ["s" * 5_000, "s" * 20_000, "half \ud83d"]
    said = [LANGCHAIN_CALLS["tool_calls"](ids), *(ToolMessage("r", tool_call_id=id) for id in ids)]
    history = ChatMessageHistory(**where)
    history.add_messages(said)
    assert history.messages == said
    (calls, _), *answers = ids_of(client.get_all(where["session_id"]))
    assert [([], [call]) for call in calls] == answers and len(set(calls)) == 3
    memory = Memory.from_defaults(session_id=where["session_id"] + "-llama",
                                  async_database_uri=f"memoryd://{server.target}")
    said = [LLAMA_CALLS["blocks"](ids), *map(LLAMA_RESULTS[0], ids)]
    memory.put_messages(said)
    assert memory.get_all() == said
    (calls, _), *answers = ids_of(client.get_all(where["session_id"] + "-llama"))
    assert sorted(([], [call]) for call in calls) == sorted(answers)


def turns(random_: random.Random, calls: Any, results: Any, human: Any, answer: Any) -> list[Any]:
    said = []
    for turn in range(6):
        said.append(human(f"q{turn}"))
        for step in range(random_.randrange(3)):
            ids = [f"c{turn}{step}{k}" for k in range(random_.randint(1, 3))]
            said.append(random_.choice(calls)(ids))
            random_.shuffle(ids)
            said += [random_.choice(results)(id) for id in ids]
        said.append(answer(f"a{turn}"))
    return said


def langchain_pairs(messages: list[BaseMessage]) -> list[tuple[list[str], list[str]]]:
    """As a provider would see them, without the adapter's code."""
    said = []
    for one in messages:
        calls = [call["id"] for call in [*one.tool_calls, *one.invalid_tool_calls]] if isinstance(
            one, AIMessage) else []
        results = [one.tool_call_id] if isinstance(one, ToolMessage) else []
        said.append((list(dict.fromkeys(calls)), results))
    return said


def llama_pairs(messages: list[ChatMessage]) -> list[tuple[list[str], list[str]]]:
    said = []
    for one in messages:
        raw = one.additional_kwargs.get("tool_calls", [])
        calls = [call.get("id", call.get("toolUseId")) for call in raw]
        calls += [block.tool_call_id for block in one.blocks if isinstance(block, ToolCallBlock)]
        result = one.additional_kwargs.get("tool_call_id")
        said.append((list(dict.fromkeys(calls)), [result] if result else []))
    return said


SMALL = "arguments of 1.2 MB"


# For a session that takes few messages.
RETENTIONS: list[Callable[[random.Random], proto.SessionConfig]] = [
    lambda random_: kept(keep_messages=random_.randint(2, 9)),
    lambda random_: kept(keep_bytes=random_.randint(300, 2_000)),
    lambda random_: kept(keep_messages=random_.randint(4, 12),
                         keep_bytes=random_.randint(300, 2_000)),
]


@pytest.mark.parametrize("seed", range(9))
def test_langchains_history_is_what_providers_take(where, client, seed):
    random_ = random.Random(seed)
    client.create_session(where["session_id"], RETENTIONS[seed % 3](random_))
    calls = [made for form, made in LANGCHAIN_CALLS.items() if form != SMALL]
    history = ChatMessageHistory(**where)
    for one in turns(random_, calls, LANGCHAIN_RESULTS[:3], HumanMessage, AIMessage):
        history.add_message(one)
        found = history.messages
        check_pairs(langchain_pairs(found))
        if any(isinstance(one, HumanMessage) for one in found):
            assert isinstance(found[0], HumanMessage)
        assert asyncio.run(history.aget_messages()) == found


@pytest.mark.parametrize("seed", range(9))
def test_llama_indexs_memory_is_what_providers_take(server, session_id, client, seed):
    random_ = random.Random(seed)
    memory = Memory.from_defaults(session_id=session_id,
                                  async_database_uri=f"memoryd://{server.target}")
    calls = [made for form, made in LLAMA_CALLS.items() if form != SMALL]
    said = turns(random_, calls, LLAMA_RESULTS[:2],
                 lambda text: ChatMessage(role="user", content=text),
                 lambda text: ChatMessage(role="assistant", content=text))
    memory.put(said[0])
    client.update_session(session_id, RETENTIONS[seed % 3](random_))
    for one in said[1:]:
        memory.put(one)
        check_pairs(llama_pairs(memory.get()))
        check_pairs(llama_pairs(memory.get_all()))


def test_what_a_tenant_keeps_is_what_providers_take(store):
    with Server(store, arguments=["--tenant-keep-messages=8"]) as server:
        history = ChatMessageHistory("langchain", target=server.target)
        memory = Memory.from_defaults(session_id="llama",
                                      async_database_uri=f"memoryd://{server.target}")
        for seed in range(3):
            for one in turns(random.Random(seed), list(LANGCHAIN_CALLS.values())[:4],
                             LANGCHAIN_RESULTS[:3], HumanMessage, AIMessage):
                history.add_message(one)
                check_pairs(langchain_pairs(history.messages))
            for one in turns(random.Random(seed), list(LLAMA_CALLS.values())[:4],
                             LLAMA_RESULTS[:2],
                             lambda text: ChatMessage(role="user", content=text),
                             lambda text: ChatMessage(role="assistant", content=text)):
                memory.put(one)
                check_pairs(llama_pairs(memory.get()))
        assert 0 < len(history.messages) <= 8 and 0 < len(memory.get_all()) <= 8


# What earlier clients have stored, whose calls and results the server does not know.


def old_langchain(id: str) -> list[proto.Message]:
    raw = {"id": id, "type": "function", "function": {"name": "f", "arguments": "{"}}
    return [
        message("assistant", "", metadata={
            "langchain": {"data": {"additional_kwargs": {"tool_calls": [raw]}}}}),
        message("tool", f"r{id}", metadata={"langchain": {"data": {"tool_call_id": id}}}),
    ]


def old_llama(id: str) -> list[proto.Message]:
    return [
        message("assistant", "", metadata={"tool_calls": [{"id": id, "function": {}}]},
                token_count=1),
        message("tool", f"r{id}", metadata={"tool_call_id": id}, token_count=1),
    ]


def test_an_old_langchain_history_loses_no_half_alone(where, client):
    client.create_session(where["session_id"], kept(keep_messages=4))
    client.put(where["session_id"], [message("user", "q0"), *old_langchain("c0"),
                                     *old_langchain("c1"), message("assistant", "a1")])
    history = ChatMessageHistory(**where)
    stored = list(client.get_all(where["session_id"]))
    assert len(stored) < 6  # Something was taken.
    check_pairs(langchain_pairs(history.messages))
    assert history.messages[-1].content == "a1"


@pytest.mark.parametrize("deleted", (1, 2))
def test_a_half_whose_other_half_was_deleted_is_not_shown(where, client, deleted):
    client.put(where["session_id"], [message("user", "q0"), *old_langchain("c0"),
                                     message("assistant", "a0"), message("user", "q1")])
    stored = list(client.get_all(where["session_id"]))
    client.delete_message(where["session_id"], stored[deleted].message_id)
    history = ChatMessageHistory(**where)
    assert [one.content for one in history.messages] == ["q0", "a0", "q1"]
    assert len(history.messages_as_stored()) == 4


@pytest.mark.parametrize("deleted", (1, 2))
def test_llama_index_shows_no_half_whose_other_half_was_deleted(
    server, session_id, client, deleted
):
    config = proto.SessionConfig(profile="llama-index", policy="buffer", tokenizer="caller")
    client.put(session_id, [message("user", "q0", token_count=1), *old_llama("c0"),
                            message("user", "q1", token_count=1)], config=config)
    stored = list(client.get_all(session_id))
    client.delete_message(session_id, stored[deleted].message_id)
    store = ChatStore(async_database_uri=f"memoryd://{server.target}")
    assert [one.content for one in store.get_messages(session_id)] == ["q0", "q1"]
    assert [one.content for one in store.get_messages(session_id, limit=1, offset=1)] == ["q1"]
    assert len(asyncio.run(store.row_ids(session_id))) == 3


def test_an_old_llama_index_memory_loses_no_half_alone(server, session_id, client):
    config = proto.SessionConfig(profile="llama-index", policy="buffer", tokenizer="caller",
                                 retention=proto.Retention(keep_messages=3))
    client.put(session_id, [message("user", "q0", token_count=1), *old_llama("c0"),
                            *old_llama("c1"), message("user", "q1", token_count=1)], config=config)
    assert len(list(client.get_all(session_id))) == 3
    memory = Memory.from_defaults(session_id=session_id,
                                  async_database_uri=f"memoryd://{server.target}")
    check_pairs(llama_pairs(memory.get()))
    assert memory.get()[-1].content == "q1"


# What was stored as a half is shown, as the libraries' own stores show it.


def test_halves_that_were_stored_as_halves_are_shown(where, client, server):
    said = [ToolMessage("r", tool_call_id="none"), AIMessage("a"),
            LANGCHAIN_CALLS["tool_calls"](["c1"]), HumanMessage("q"),
            LANGCHAIN_CALLS["tool_calls"](["c2"])]
    history = ChatMessageHistory(**where)
    history.add_messages(said)
    assert history.messages == said
    history.messages = said[1:] + said[:1]  # At later positions.
    assert history.messages == said[1:] + said[:1]
    halves = [LLAMA_RESULTS[0]("none"), LLAMA_CALLS["blocks"](["c1"]),
              ChatMessage(role="user", content="q"), LLAMA_CALLS["both"](["c2"])]
    memory = Memory.from_defaults(session_id=where["session_id"] + "-llama",
                                  async_database_uri=f"memoryd://{server.target}")
    memory.put_messages(halves)
    assert memory.get() == halves
    memory.set(halves[1:] + halves[:1])
    assert memory.get() == memory.get_all() == halves[1:] + halves[:1]


def test_a_result_whose_call_is_archived_is_shown(server, session_id):
    """As the library shows it: the call is not gone."""
    async def run() -> None:
        memory = Memory.from_defaults(session_id=session_id,
                                      async_database_uri=f"memoryd://{server.target}")
        said = [LLAMA_CALLS["blocks"](["c1"]), LLAMA_RESULTS[0]("c1"),
                ChatMessage(role="user", content="q")]
        await memory.aput_messages(said)
        await memory.sql_store.archive_oldest_messages(session_id, 1)
        assert await memory.aget() == said[1:]
        assert await memory.aget_all(status=MessageStatus.ARCHIVED) == said[:1]

    asyncio.run(run())


def test_a_call_that_waits_is_shown(where, client):
    client.create_session(where["session_id"], kept(keep_messages=3))
    history = ChatMessageHistory(**where)
    said = [HumanMessage("q0"), AIMessage("a0"), HumanMessage("q1"),
            LANGCHAIN_CALLS["tool_calls"](["c1", "c2"]), ToolMessage("r", tool_call_id="c1")]
    for one in said:
        history.add_message(one)
    assert history.messages == said[-3:]


def test_system_messages_stay_before_the_first_human(where, client):
    client.create_session(where["session_id"], kept(keep_messages=4))
    history = ChatMessageHistory(**where)
    said = [SystemMessage("s"), HumanMessage("q0"), AIMessage("a0"), AIMessage("b0"),
            HumanMessage("q1"), AIMessage("a1")]
    history.add_messages(said)
    found = history.messages
    assert found[0] == said[0] and isinstance(found[1], HumanMessage)
    assert found[-1] == said[-1] and len(found) < len(said)


def test_a_summary_buffer_shows_no_half(where, client):
    client.put(where["session_id"], [message("user", "q0"), *old_langchain("c0"),
                                     message("assistant", "a0")])
    stored = list(client.get_all(where["session_id"]))
    client.delete_message(where["session_id"], stored[1].message_id)
    memory = ConversationSummaryBufferMemory(
        llm=WordsLLM(responses=["s"]), return_messages=True, **where)
    for found in (memory.load_memory_variables({}),
                  asyncio.run(memory.aload_memory_variables({}))):
        assert [one.content for one in found["history"]] == ["q0", "a0"]


# What one adapter stores, others read.


def test_adapters_read_each_others_calls_and_results(where, client, server):
    uri = f"memoryd://{server.target}"
    history = ChatMessageHistory(**where)
    history.add_messages([HumanMessage("q"), LANGCHAIN_CALLS["tool_calls"](["c1"]),
                          ToolMessage("found it", tool_call_id="c1", name="f")])
    store = ChatStore(async_database_uri=uri)
    _, called, answered = store.get_messages(where["session_id"])
    assert [block.tool_call_id for block in called.blocks[1:]] == ["c1"]
    assert (answered.content, answered.additional_kwargs["tool_call_id"]) == ("found it", "c1")
    search = SearchMemory(session_id=where["session_id"], target=server.target)
    [best, *_] = asyncio.run(search.query("found")).results
    assert best.content == "found it" and best.metadata["role"] == "tool"

    theirs = {**where, "session_id": where["session_id"] + "-llama"}
    store.set_messages(theirs["session_id"], [
        ChatMessage(role="user", content="q"), LLAMA_CALLS["OpenAI's additional_kwargs"](["c1"]),
        LLAMA_RESULTS[0]("c1")])
    _, called, answered = ChatMessageHistory(**theirs).messages
    assert [call["id"] for call in called.tool_calls] == ["c1"] and called.content == "a"
    assert (answered.content, answered.tool_call_id) == ("r", "c1")


def test_what_words_a_model_is_sent_stays_what_it_was(server, session_id, client):
    """Parts that are an id alone say nothing: no text of the message changes by them."""
    store = ChatStore(async_database_uri=f"memoryd://{server.target}")
    store.set_messages(session_id, [LLAMA_CALLS["OpenAI's additional_kwargs"](["c1"]),
                                    LLAMA_RESULTS[0]("c1")])
    called, answered = client.get_all(session_id)
    for one, words in ((called, "a"), (answered, "r")):
        assert "".join(part.text + part.tool_call.name + part.tool_call.arguments_json
                       + part.tool_result.name + part.tool_result.text
                       for part in one.parts) == words
    assert json.loads(answered.metadata_json) == {"tool_call_id": "c1"}


def test_what_a_reset_of_active_messages_leaves_alone_is_shown(server, session_id, client):
    """As the library shows it: no retention took the call."""
    async def run() -> None:
        memory = Memory.from_defaults(session_id=session_id, token_limit=3, tokenizer_fn=str.split,
                                      async_database_uri=f"memoryd://{server.target}")
        words = ChatMessage(role="assistant", content="a b c d")
        call, result = LLAMA_CALLS["blocks"](["c1"]), LLAMA_RESULTS[1]("c1")
        await memory.aput_messages([words, words])
        assert client.get_session(session_id).archived_count == 2
        await memory.aput(call)
        await memory.areset(MessageStatus.ACTIVE)
        await memory.aput(result)
        assert await memory.aget() == [result]
        assert await memory.aget_all() == [words, words, result]
        await memory.areset()
        await memory.aput(result)
        assert await memory.aget() == await memory.aget_all() == [result]

    asyncio.run(run())
