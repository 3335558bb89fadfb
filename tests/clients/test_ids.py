"""Ids as programs have them: UUIDs and numbers for sessions, signatures for calls of tools."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from autogen_core.memory import MemoryContent, MemoryMimeType
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock

from memoryd import Client, autogen, langchain, llama_index
from memoryd._ids import id_text
from memoryd.v1 import memory_pb2 as wire

UUID = uuid.UUID("7d5c2f0e-3f0c-4a0e-9d4f-3a1f0f6f1a11")
# What becomes of each as an id.
GIVEN = ((UUID, str(UUID)), (42, "42"), (0, "0"), (-7, "-7"), (2**63, str(2**63)))
# LiteLLM's for a call that Gemini has signed; the longest that is taken.
SIGNED = "call_0123456789abcdef__thought__" + "EuIDCt8DAWkUfRN3" * 285
LONGEST = "c" * 16_384


@pytest.fixture
def client(server):
    with Client(server.target) as connected:
        yield connected


def texts(client: Client, session_id: str) -> list[str]:
    return [found.text for found in client.get_all(session_id)]


@pytest.fixture(params=GIVEN, ids=lambda given: repr(given[0]))
def named(request, client):
    """An id as it is given, and the session that it names, which is empty."""
    given, session_id = request.param
    client.reset(session_id)
    yield given, session_id
    client.delete_session(session_id)


def test_langchains_histories_take_them(client, server, named):
    given, session_id = named
    history = langchain.ChatMessageHistory(given, target=server.target)
    history.add_messages([HumanMessage("hello")])
    assert history.session_id == session_id
    assert texts(client, session_id) == ["hello"]
    asyncio.run(langchain.ChatMessageHistory(given, target=server.target).aadd_messages(
        [AIMessage("hi")]))
    assert texts(client, session_id) == ["hello", "hi"]


@pytest.mark.parametrize("kind", ("ConversationBufferMemory", "ConversationBufferWindowMemory",
                                  "ConversationStringBufferMemory"))
def test_langchains_memories_take_them(client, server, named, kind):
    given, session_id = named
    made = getattr(langchain, kind)(session_id=given, target=server.target)
    made.save_context({"input": "hello"}, {"output": "hi"})
    assert made.session_id == session_id
    assert texts(client, session_id) == ["hello", "hi"]
    again = getattr(langchain, kind)(session_id=session_id, target=server.target)
    assert again.load_memory_variables({}) == made.load_memory_variables({})


def test_langchains_entity_stores_take_them(server, named):
    given, session_id = named
    for kind in (langchain.EntityStore, langchain.RedisEntityStore,
                 langchain.UpstashRedisEntityStore):
        given_so, named_so = (
            kind(session_id=name, target=server.target) if kind is not
            langchain.UpstashRedisEntityStore else
            kind(session_id=name, url="", token="", target=server.target)
            for name in (given, session_id))
        given_so.set("Ann", "a friend")
        assert named_so.get("Ann") == "a friend"
        named_so.clear()


def test_llama_indexs_memory_takes_them(client, server, named):
    given, session_id = named
    uri = f"memoryd://{server.target}"
    by_defaults = llama_index.Memory.from_defaults(session_id=given, async_database_uri=uri)
    by_defaults.put(ChatMessage(role="user", content="hello"))
    assert by_defaults.session_id == session_id
    assert texts(client, session_id) == ["hello"]
    assert [found.content for found in llama_index.Memory(
        session_id=given, token_limit=1000, async_database_uri=uri).get_all()] == ["hello"]


def test_llama_indexs_stores_take_them_as_keys(client, server, named):
    given, session_id = named
    store = llama_index.ChatStore(async_database_uri=f"memoryd://{server.target}")
    store.add_message(given, ChatMessage(role="user", content="hello"))
    assert texts(client, session_id) == ["hello"]
    buffer = llama_index.ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key=given)
    assert buffer.chat_store_key == session_id
    assert [found.content for found in buffer.get_all()] == ["hello"]


@pytest.mark.parametrize("kind", ("ListMemory", "SearchMemory"))
def test_autogens_memories_take_them(client, server, named, kind):
    given, session_id = named
    client.delete_session(session_id)
    memory = getattr(autogen, kind)(session_id=given, target=server.target)
    assert memory.session_id == session_id
    asyncio.run(memory.add(MemoryContent(content="hello", mime_type=MemoryMimeType.TEXT)))
    assert [found.text for found in client.get_all_contents(session_id)] == ["hello"]


@pytest.mark.parametrize("given", (True, 4.5, b"x", object(), ["x"]))
def test_what_is_no_id_is_refused_by_its_type(given):
    with pytest.raises(TypeError, match=f"not {type(given).__name__}"):
        id_text(given)
    with pytest.raises(TypeError):
        langchain.ChatMessageHistory(given)
    with pytest.raises(TypeError):
        autogen.ListMemory(session_id=given)


def test_an_id_with_half_a_character_is_refused_and_a_pair_is_the_character():
    assert id_text("a\ud83d\ude00") == "a\U0001f600"
    for refused in (lambda: id_text("a\ud83d"), lambda: langchain.ChatMessageHistory("a\ud83d"),
                    lambda: autogen.ListMemory(session_id="a\ud83d"),
                    lambda: llama_index.ChatStore(
                        async_database_uri="memoryd://localhost:1").get_messages("a\ud83d")):
        with pytest.raises(ValueError, match=r"an id has no halves.*'a\\ud83d'"):
            refused()


def test_a_memory_without_an_id_has_a_new_one():
    for none in (None, ""):
        assert autogen.ListMemory(session_id=none).session_id.startswith("autogen-")
    assert langchain.ChatMessageHistory().session_id != langchain.ChatMessageHistory().session_id


@pytest.mark.parametrize("call_id", (SIGNED, LONGEST), ids=("signed", "longest"))
def test_ids_of_calls_may_hold_signatures(server, session_id, call_id):
    call = {"name": "now", "args": {}, "id": call_id, "type": "tool_call"}
    said = [HumanMessage("what time is it?"), AIMessage("", tool_calls=[call]),
            ToolMessage("12:00", tool_call_id=call_id)]
    history = langchain.ChatMessageHistory(session_id, target=server.target)
    history.add_messages(said)
    assert history.messages == said
    memory = llama_index.Memory.from_defaults(session_id=f"{session_id} llama",
                                              async_database_uri=f"memoryd://{server.target}")
    chat = [ChatMessage(role="assistant", blocks=[
        ToolCallBlock(tool_call_id=call_id, tool_name="now", tool_kwargs={})])]
    memory.put_messages(chat)
    assert memory.get_all() == chat


def test_a_page_of_many_long_ids_comes_back(client, session_id):
    kept = [f"{number:08}" + "s" * 16_376 for number in range(200)]
    for call_id in kept:
        call = wire.ToolCall(call_id=call_id, name="now", arguments_json="{}")
        client.put(session_id, [wire.Message(role="assistant", parts=[wire.Part(tool_call=call)])])
    assert [found.parts[0].tool_call.call_id for found in client.get_all(session_id)] == kept
