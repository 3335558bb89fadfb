"""memoryd.langchain against the server: what it remembers, and that any process finds it."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import os
import pickle
import subprocess
import sys
import threading
import uuid
from typing import Any

import pytest
from langchain_classic import memory as library
from langchain_core.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.vectorstores import InMemoryVectorStore

from support.calls import memory as proto
from support.documents import code_of
from support.paths import REPOSITORY
from support.server import Server
from support.stores import fresh_store

from memoryd import Client, MemorydError, langchain, message
from memoryd.langchain import entity_stores
from memoryd.langchain.messages import from_message, to_message

pytestmark = pytest.mark.filterwarnings("ignore")  # LangChain's, of what it deprecates.


class WordsLLM(FakeListLLM):
    """Answers by its script and counts words as tokens."""

    def get_token_ids(self, text: str) -> list[int]:
        return list(range(len(text.split())))


class FailingLLM(WordsLLM):
    def _call(self, *_: Any, **__: Any) -> str:
        raise ConnectionError("the model is away")

    async def _acall(self, *_: Any, **__: Any) -> str:
        raise ConnectionError("the model is away")


@pytest.fixture
def where(server, session_id) -> dict[str, str]:
    return {"session_id": session_id, "target": server.target}


@pytest.fixture
def client(server):
    with Client(server.target) as connected:
        yield connected


EVERY_KIND = [
    HumanMessage("plain"),
    HumanMessage(""),
    HumanMessage([]),
    HumanMessage("named", name="bob", id="h1", additional_kwargs={"n": 1.0, "z": None, "é": "\0"}),
    HumanMessage([{"type": "text", "text": "one"}]),
    HumanMessage(["bare", {"type": "text", "text": "block"},
                  {"type": "text", "text": "x", "n": 1}]),
    HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                  {"type": "image_url", "image_url": {"url": "data:,x", "detail": "low"}},
                  {"type": "image", "base64": "AAEC", "mime_type": "image/png"},
                  {"type": "image", "base64": "not base64"}, {"type": "image", "id": "f1"},
                  {"type": "image_url", "image_url": {"url": ""}},
                  {"type": "file", "base64": "", "mime_type": "a/b"}]),
    AIMessage("answer", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
              response_metadata={"model": "m", "logprobs": [1e-7, -0.5]}),
    AIMessage("", tool_calls=[{"name": "f", "args": {"x": 1, "y": 1.0, "s": "it's"}, "id": "c1"}]),
    AIMessage("with text", tool_calls=[{"name": "f", "args": {}, "id": None},
                                       {"name": "g", "args": {"a": [1]}, "id": "c2"}]),
    AIMessage([{"type": "text", "text": "a"}, {"type": "tool_use", "id": "c", "name": "f",
                                               "input": {}}],
              tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
    AIMessage("", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c", "error": "no JSON",
                                       "type": "invalid_tool_call"}]),
    AIMessage("", additional_kwargs={"tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}]}),
    AIMessageChunk("piece", id="run-1", tool_call_chunks=[
        {"name": "f", "args": '{"x": 1}', "id": "c", "index": 0, "type": "tool_call_chunk"}]),
    SystemMessage("be kind"),
    ToolMessage("42", tool_call_id="c1", name="f", artifact={"rows": [1, 2]}, status="error"),
    ToolMessage([{"type": "text", "text": "42"}], tool_call_id="c1"),
    FunctionMessage("7", name="fn"),
    ChatMessage("hi", role="bob"),
    ChatMessage("hi", role="user"),
    ChatMessage("hi", role=""),
    ChatMessage("hi", role="zero\u200bwidth" * 20),
    RemoveMessage(id="h1"),
    HumanMessage("long " * 500_000),
    AIMessage("much beside it", response_metadata={"raw": "x" * 300_000}),
    HumanMessage([{"type": "image", "base64": "no base64 " * 150_000}]),
    AIMessage([{"type": "text", "text": "cited", "annotations": [{"url": "u"}], "id": "m1"},
               {"type": "text", "text": "long " * 300_000, "index": 1},
               {"type": "text", "text": None}, {"type": "text", "text": ["x"], "$part": [0, "text"]},
               {"type": "thinking", "thinking": "hm", "signature": "s"},
               {"type": "thinking", "thinking": "", "signature": None},
               {"type": "reasoning", "reasoning": "so", "extras": {"x": 1}},
               {"type": "reasoning", "summary": []}]),
    ToolMessage([{"type": "image", "base64": "AAEC", "id": "i1"}, "seen"], tool_call_id="c1"),
]

# A block of content, the kind of its part, and what the part has in its fields.
PNG = base64.b64encode(b"PNG").decode()
BLOCKS = [
    ({"type": "text", "text": "kept", "cache_control": {"type": "ephemeral"}}, "text", "kept"),
    ({"type": "output_text", "text": "said", "annotations": []}, "text", "said"),
    ({"type": "text", "text": "half \ud83d", "index": 0}, "text", "half \ufffd"),
    ({"type": "thinking", "thinking": "why", "signature": "c2ln"}, "thinking",
     proto.Thinking(text="why", signature="c2ln")),
    ({"type": "reasoning", "reasoning": "so"}, "thinking", proto.Thinking(text="so")),
    ({"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"}, "image",
     proto.Media(data=b"PNG", mime_type="image/png")),
    ({"type": "image", "source_type": "url", "url": "https://e.org/a"}, "image",
     proto.Media(url="https://e.org/a")),
    ({"type": "image", "url": "https://e.org/a", "id": "i"}, "image",
     proto.Media(url="https://e.org/a")),
    ({"type": "image", "base64": PNG, "mime_type": "image/png", "extras": {"detail": "low"}},
     "image", proto.Media(data=b"PNG", mime_type="image/png")),
    ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
     "image", proto.Media(data=b"PNG", mime_type="image/png")),
    ({"type": "image_url", "image_url": "https://e.org/a"}, "image",
     proto.Media(url="https://e.org/a")),
    ({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}, "image",
     proto.Media(data=b"PNG", mime_type="image/png")),
    ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG},
      "cache_control": {"type": "ephemeral"}}, "image",
     proto.Media(data=b"PNG", mime_type="image/png")),
    ({"type": "document", "source": {"type": "url", "url": "https://e.org/a.pdf"}}, "document",
     proto.Media(url="https://e.org/a.pdf")),
    ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf",
                                     "data": PNG}, "title": "T"}, "document",
     proto.Media(data=b"PNG", mime_type="application/pdf")),
    ({"type": "file", "base64": PNG, "mime_type": "application/pdf"}, "document",
     proto.Media(data=b"PNG", mime_type="application/pdf")),
    ({"type": "file", "file": {"filename": "a.pdf",
                               "file_data": f"data:application/pdf;base64,{PNG}"}}, "document",
     proto.Media(data=b"PNG", mime_type="application/pdf")),
    ({"type": "audio", "source_type": "base64", "data": PNG, "mime_type": "audio/wav"}, "audio",
     proto.Media(data=b"PNG", mime_type="audio/wav")),
    ({"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}, "audio",
     proto.Media(data=b"PNG")),
    ({"type": "media", "mime_type": "video/mp4", "data": PNG}, "video",
     proto.Media(data=b"PNG", mime_type="video/mp4")),
    # What names no medium, or has it elsewhere, stays whole.
    ({"type": "file", "source_type": "text", "data": "words", "url": ""}, "opaque", None),
    ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
     "opaque", None),
    ({"type": "document", "source": {"type": "content", "content": []}}, "opaque", None),
    ({"type": "image", "source_type": "id", "id": "f1"}, "opaque", None),
    ({"type": "image_url", "image_url": {"url": "\ud83d"}}, "opaque", None),
    ({"type": ["image"], "data": PNG}, "opaque", None),
    ({"type": "weather", "data": PNG}, "opaque", None),
]


@pytest.mark.parametrize("said", EVERY_KIND, ids=lambda said: said.type)
def test_a_message_comes_back_as_it_was(where, said):
    history = langchain.ChatMessageHistory(**where)
    history.add_message(said)
    [found] = history.messages
    assert found == said
    assert type(found) is type(said)
    assert repr(found) == repr(said)


def test_text_tool_calls_and_names_stand_in_fields_that_all_clients_read(where, client):
    history = langchain.ChatMessageHistory(**where)
    history.add_messages([HumanMessage("Where is Oslo?", name="ann"), AIMessage("", tool_calls=[
        {"name": "find", "args": {"city": "Oslo"}, "id": "c1"}])])
    asked, called = client.get_all(where["session_id"])
    assert (asked.role, asked.name, asked.text, asked.metadata_json) == (
        "user", "ann", "Where is Oslo?", "")
    assert called.parts[1].tool_call.arguments_json == '{"city": "Oslo"}'
    found = client.query(where["session_id"], "oslo", top_k=2).results
    assert found[0].message.message_id == asked.message_id


@pytest.mark.parametrize(("block", "kind", "holds"), BLOCKS)
def test_a_block_is_the_part_that_all_clients_know(block, kind, holds):
    for said in (HumanMessage([block]), ToolMessage(["x", block], tool_call_id="c1")):
        made = to_message(said)
        part = made.parts[-1] if made.parts else proto.Part(text=made.text)
        assert part.WhichOneof("kind") == kind
        if kind != "opaque":
            assert getattr(part, kind) == holds
        assert repr(from_message(made)) == repr(said)


def test_a_block_that_another_client_has_changed_is_what_it_is_now():
    made = to_message(HumanMessage([{"type": "text", "text": "a", "id": "m1"},
                                    {"type": "file", "base64": PNG, "id": "f1"}]))
    made.parts[0].CopyFrom(proto.Part(audio=proto.Media(url="https://e.org/a")))
    made.parts[1].document.data = b"PDF"
    assert from_message(made).content == [
        {"type": "audio", "url": "https://e.org/a"},
        {"type": "file", "base64": base64.b64encode(b"PDF").decode(), "id": "f1"},
    ]


def test_messages_that_another_client_has_put_are_those_of_their_role(where, client):
    client.put(where["session_id"], [
        message("user", "u", metadata={"k": 1}),
        message("assistant", parts=[proto.Part(text="a"), proto.Part(tool_call=proto.ToolCall(
            call_id="c", name="f", arguments_json="[1]"))]),
        message("tool", parts=[proto.Part(tool_result=proto.ToolResult(
            call_id="c", name="f", text="t", is_error=True))]),
        message("developer", "d"),
        message("somebody", parts=[proto.Part(text="x"), proto.Part(image=proto.Media(
            url="https://example.org/a.png"))]),
    ])
    assert langchain.ChatMessageHistory(**where).messages == [
        HumanMessage("u", additional_kwargs={"k": 1}),
        AIMessage("a", tool_calls=[{"name": "f", "args": {"arguments": [1]}, "id": "c"}]),
        ToolMessage("t", tool_call_id="c", name="f", status="error"),
        SystemMessage("d"),
        ChatMessage([{"type": "text", "text": "x"},
                     {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}],
                    role="somebody"),
    ]


def test_what_could_not_be_had_back_is_refused_and_nothing_stored(where):
    class Odd(BaseMessage):
        type: str = "odd"

    history = langchain.ChatMessageHistory(**where)
    for bad in (Odd(content="x"), ToolMessage("x", tool_call_id="c", artifact=object())):
        with pytest.raises(TypeError, match="can't be stored"):
            history.add_messages([HumanMessage("before"), bad])
    assert history.messages == []


def test_every_message_that_reads_back_writes_the_same_again():
    for said in EVERY_KIND:
        assert to_message(from_message(to_message(said))) == to_message(said)


def test_a_history_is_shared_cleared_and_replaced(where):
    history, elsewhere = (langchain.ChatMessageHistory(**where) for _ in range(2))
    assert isinstance(history, BaseChatMessageHistory)
    history.add_user_message("a")
    elsewhere.add_ai_message("b")
    assert history.messages == elsewhere.messages == [HumanMessage("a"), AIMessage("b")]
    assert str(history) == "Human: a\nAI: b"
    elsewhere.messages = [SystemMessage("only")]
    assert history == elsewhere and history.messages == [SystemMessage("only")]
    given = history.messages
    history.add_messages([HumanMessage("c")])
    history.add_messages([])
    assert given == history.messages == [SystemMessage("only"), HumanMessage("c")]
    history.clear()
    assert len(given) == 2
    assert elsewhere.messages == []
    assert pickle.loads(pickle.dumps(history)).session_id == history.session_id
    connected = langchain.ChatMessageHistory(
        history.session_id, target=langchain.Connection(where["target"]))
    assert pickle.loads(pickle.dumps(connected)).messages == connected.messages


def test_more_messages_than_a_request_holds(where):
    history = langchain.ChatMessageHistory(**where)
    many = [HumanMessage(f"{number}") for number in range(2_500)]
    history.add_messages(many)
    assert history.messages == many
    history.messages = many[:1_200]
    assert history.messages == many[:1_200]
    large = [HumanMessage("word " * 150_000) for _ in range(6)]
    history.messages = large
    assert history.messages == large


def test_a_history_in_coroutines(where):
    async def converse() -> list[BaseMessage]:
        history = langchain.ChatMessageHistory(**where)
        await history.aadd_messages([HumanMessage("a"), AIMessage("b")])
        found = await history.aget_messages()
        await history.aclear()
        assert await history.aget_messages() == []
        return found

    for _ in range(2):  # An event loop each.
        assert asyncio.run(converse()) == [HumanMessage("a"), AIMessage("b")]


def test_runnable_with_message_history(where):
    echo = RunnableLambda(lambda messages: f"{len(messages)} so far")
    target = where["target"]

    def made() -> RunnableWithMessageHistory:
        return RunnableWithMessageHistory(
            echo, lambda session_id: langchain.ChatMessageHistory(session_id, target=target))

    config = {"configurable": {"session_id": where["session_id"]}}
    assert made().invoke([HumanMessage("a")], config) == "1 so far"
    assert asyncio.run(made().ainvoke([HumanMessage("b")], config)) == "3 so far"
    assert [m.content for m in langchain.ChatMessageHistory(**where).messages] == [
        "a", "1 so far", "b", "3 so far"]


def test_sessions_are_apart_and_new_ones_differ(server):
    one, other = (langchain.ConversationBufferMemory(target=server.target) for _ in range(2))
    one.save_context({"input": "a"}, {"output": "b"})
    assert one.session_id != other.session_id
    assert other.buffer == ""


def test_connect_says_where_memoryd_is(server, session_id):
    connection = langchain.connect(f"memoryd://{server.target}", timeout=5.0)
    try:
        langchain.ChatMessageHistory(session_id).add_user_message("a")
        assert langchain.ChatMessageHistory(session_id, target=connection).messages == [
            HumanMessage("a")]
    finally:
        langchain.connect()


KINDS: dict[str, dict[str, Any]] = {
    "ConversationBufferMemory": {},
    "ConversationBufferWindowMemory": {"k": 2},
    "ConversationStringBufferMemory": {},
    "ConversationTokenBufferMemory": {"max_token_limit": 9},
    "ConversationSummaryMemory": {},
    "ConversationSummaryBufferMemory": {"max_token_limit": 9},
    "ConversationEntityMemory": {},
    "ConversationVectorStoreTokenBufferMemory": {"max_token_limit": 9, "return_messages": True},
}


def make(kind: str, where: dict[str, Any], **more: Any) -> Any:
    made = getattr(langchain, kind)
    fields = {**KINDS[kind], **more}
    if "llm" in made.model_fields:
        fields.setdefault("llm", WordsLLM(responses=["Ann", "told"]))
    if "retriever" in made.model_fields:
        fields["retriever"] = InMemoryVectorStore(
            DeterministicFakeEmbedding(size=8)).as_retriever()
    return made(**where, **fields)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_process_finds_what_the_old_one_knew(where, kind):
    one = make(kind, where)
    assert isinstance(one, getattr(library, kind))
    for number in range(4):
        one.load_memory_variables({"input": "Who is Ann?"})
        one.save_context({"input": f"question {number}"}, {"output": f"answer {number}"})
    other = make(kind, where)
    kept = [name for name in ("buffer", "moving_summary_buffer", "entity_cache")
            if hasattr(one, name)]
    assert {name: getattr(other, name) for name in kept} == {
        name: getattr(one, name) for name in kept}
    if hasattr(one, "chat_memory"):
        assert other.chat_memory == one.chat_memory != InMemoryChatMessageHistory()
    other.clear()
    assert not getattr(one, "buffer", "") and not getattr(one, "moving_summary_buffer", "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_memory_is_dumped_and_copied_without_its_connection(where, kind):
    one = make(kind, where, input_key="input")
    assert one.model_dump()["input_key"] == "input"
    assert where["session_id"] in repr(one)
    one.save_context({"input": "a"}, {"output": "b"})
    copied = copy.deepcopy(one)
    assert copied.load_memory_variables({"input": "a"}).keys() == set(one.memory_variables)
    if kind == "ConversationBufferMemory":
        assert where["session_id"] in one.model_dump_json()


def test_a_foreign_history_is_treated_as_the_library_treats_it():
    history = InMemoryChatMessageHistory()
    memory = langchain.ConversationSummaryBufferMemory(
        llm=WordsLLM(responses=["summary"]), chat_memory=history, max_token_limit=5,
        target="localhost:1")
    memory.save_context({"input": "one two"}, {"output": "three four"})
    assert history.messages == [AIMessage("three four")]
    assert memory.moving_summary_buffer == "summary"
    tokens = langchain.ConversationTokenBufferMemory(
        llm=WordsLLM(responses=[]), chat_memory=history, max_token_limit=3)
    tokens.save_context({"input": "five"}, {"output": "six"})
    assert history.messages == [AIMessage("six")]


def test_given_fields_replace_what_was_kept(where):
    llm = WordsLLM(responses=["new"])
    langchain.ConversationSummaryMemory(llm=llm, **where, buffer="given")
    memory = langchain.ConversationSummaryMemory(llm=llm, **where)
    assert memory.buffer == "given"
    memory.buffer = "set"
    assert langchain.ConversationSummaryMemory(llm=llm, **where).buffer == "set"
    text = langchain.ConversationStringBufferMemory(
        session_id=f"{where['session_id']}/text", target=where["target"], buffer="before")
    text.save_context({"input": "a"}, {"output": "b"})
    assert text.buffer == "before\nHuman: a\nAI: b"


def test_a_summary_is_made_of_messages_that_there_are(where):
    history = langchain.ChatMessageHistory(**where, messages=[
        HumanMessage("a"), AIMessage("b"), HumanMessage("c")])
    memory = langchain.ConversationSummaryMemory.from_messages(
        WordsLLM(responses=["first", "second"]), history)
    assert memory.buffer == "second"
    assert memory.session_id == where["session_id"]


def test_a_model_that_fails_loses_nothing(where):
    history = langchain.ChatMessageHistory(**where, messages=[HumanMessage("one two three four")])
    memory = langchain.ConversationSummaryBufferMemory(
        llm=FailingLLM(responses=[]), chat_memory=history, max_token_limit=5)
    for save in (memory.save_context,
                 lambda *turn: asyncio.run(memory.asave_context(*turn))):
        with pytest.raises(ConnectionError):
            save({"input": "five"}, {"output": "six"})
    assert [m.content for m in history.messages] == [
        "one two three four", "five", "six", "five", "six"]
    memory.llm = WordsLLM(responses=["summary"])
    memory.prune()
    assert memory.buffer == "System: summary\nHuman: five\nAI: six"


@pytest.mark.parametrize("prunes", ["prune", "aprune"])
def test_a_crash_between_summary_and_deletion_shows_nothing_twice(where, monkeypatch, prunes):
    def prune(memory: Any) -> None:
        asyncio.run(memory.aprune()) if prunes == "aprune" else memory.prune()

    class Crash(Exception):
        pass

    def crash(*_: Any) -> None:
        raise Crash

    fields = {**where, "llm": WordsLLM(responses=["one", "two"]), "max_token_limit": 4}
    memory = langchain.ConversationSummaryBufferMemory(**fields)
    memory.chat_memory.add_messages([HumanMessage("a"), AIMessage("b"), HumanMessage("c")])
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(langchain.ChatMessageHistory, f"{prunes[:-5]}keep_newest", crash)
        prune(memory)
    other = langchain.ConversationSummaryBufferMemory(**fields)
    assert len(other.chat_memory.messages) == 3
    assert other.buffer == "System: one\nAI: b\nHuman: c"
    assert asyncio.run(other.abuffer()) == other.buffer
    prune(other)
    assert other.chat_memory.messages == [AIMessage("b"), HumanMessage("c")]
    assert other.buffer == "System: one\nAI: b\nHuman: c"


def test_deleting_messages_keeps_those_that_came_meanwhile_and_contents(where, client):
    client.put(where["session_id"], contents=[proto.Content(mime_type="text/plain", text="tea")])
    history = langchain.ChatMessageHistory(**where)
    history.add_messages([HumanMessage(str(number)) for number in range(4)])
    ids = [found.message_id for found in client.get_all(where["session_id"])]
    tried = []

    def change(messages: list[BaseMessage]) -> None:
        if not tried:
            langchain.ChatMessageHistory(**where).add_user_message("meanwhile")
        tried.append(messages.pop(0).content)

    history.edit(change)
    assert tried == ["0", "0"]
    assert [m.content for m in history.messages] == ["1", "2", "3", "meanwhile"]
    assert [found.message_id for found in client.get_all(where["session_id"])][:3] == ids[1:]
    assert [c.text for c in client.get_all_contents(where["session_id"])] == ["tea"]


def test_many_threads_summarise_one_conversation_and_lose_no_turn(where):
    class Collecting(WordsLLM):
        """Its summary is all the words that it was ever given."""

        def _call(self, prompt: str, *_: Any, **__: Any) -> str:
            summary, _, lines = prompt.rpartition("Current summary:")[2].partition(
                "New lines of conversation:")
            words = summary.split() + [word for word in lines.split() if word.startswith("turn-")]
            return " ".join(words)

    def converse(thread: int) -> None:
        memory = langchain.ConversationSummaryBufferMemory(
            **where, llm=Collecting(responses=[]), max_token_limit=8)
        for number in range(5):
            memory.save_context({"input": f"turn-{thread}-{number}"}, {"output": "yes"})

    threads = [threading.Thread(target=converse, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    memory = langchain.ConversationSummaryBufferMemory(**where, llm=Collecting(responses=[]))
    said = memory.moving_summary_buffer.split() + [
        m.content for m in memory.chat_memory.messages if m.type == "human"]
    assert sorted(said) == sorted(f"turn-{t}-{n}" for t in range(4) for n in range(5))


def test_the_string_memory_keeps_the_prefixes_of_each_turn(where):
    one = langchain.ConversationStringBufferMemory(**where, human_prefix="Q", ai_prefix="助手")
    one.save_context({"input": "a\nb"}, {"output": ""})
    other = langchain.ConversationStringBufferMemory(**where, human_prefix="", ai_prefix="A")
    asyncio.run(other.asave_context({"input": "c"}, {"output": "d"}))
    expected = {"history": "\nQ: a\nb\n助手: \n: c\nA: d"}
    assert one.load_memory_variables({}) == expected
    assert asyncio.run(other.aload_memory_variables({})) == expected
    with pytest.raises(TypeError):
        one.save_context({"input": 5}, {"output": "x"})
    asyncio.run(one.aclear())
    assert other.buffer == ""


def test_turns_that_the_vector_store_refuses_stay(where):
    memory = make("ConversationVectorStoreTokenBufferMemory", where)
    memory.save_context({"input": "one two"}, {"output": "three four"})

    class Full(InMemoryVectorStore):
        def add_documents(self, documents: Any, **_: Any) -> list[str]:
            raise ConnectionError("the vector store is full")

    refusing = Full(DeterministicFakeEmbedding(size=8)).as_retriever()
    refused = langchain.ConversationVectorStoreTokenBufferMemory(
        **where, llm=memory.llm, retriever=refusing, max_token_limit=2)
    with pytest.raises(ConnectionError):
        refused.save_remainder()
    assert len(memory.chat_memory.messages) == 2
    memory.save_remainder()
    assert memory.chat_memory.messages == []
    [document] = memory.retriever.vectorstore.store.values()
    assert document["text"].startswith("Human: <") and document["text"].endswith("> three four")


STORES_OF_ENTITIES = [
    lambda target, name: langchain.EntityStore(f"{name}/own", target=target),
    lambda target, name: langchain.SQLiteEntityStore(name, db_file="e.db", target=target),
    lambda target, name: langchain.RedisEntityStore(name, target=target),
    lambda target, name: langchain.UpstashRedisEntityStore(name, url="", token="", target=target,
                                                           key_prefix="upstash"),
]


@pytest.mark.parametrize(
    "make_store", STORES_OF_ENTITIES, ids=["own", "sqlite", "redis", "upstash"])
def test_a_store_of_entities(server, make_store):
    name = f"s{uuid.uuid4().hex}"
    store, elsewhere = (make_store(server.target, name) for _ in range(2))
    assert isinstance(store, library.entity.BaseEntityStore)
    own = isinstance(store, langchain.EntityStore)
    redis = isinstance(store, (langchain.RedisEntityStore, langchain.UpstashRedisEntityStore))
    assert store.get("Ann") == ("" if redis else None)
    assert store.get("Ann", "nobody") == "nobody"
    store.set("Ann", "likes tea")
    store.set("日本", "a country")
    assert elsewhere.get("Ann") == "likes tea" and elsewhere.exists("日本")
    store.set("Ann", "")
    assert elsewhere.exists("Ann") == own
    if own:
        store.set("Bob", None)
        assert store.get("Bob", "default") is None
        assert elsewhere.store == {"Ann": "", "日本": "a country", "Bob": None}
        with pytest.raises(KeyError):
            store.delete("nobody")
    else:
        store.delete("nobody")
    elsewhere.delete("日本")
    assert not store.exists("日本")
    elsewhere.clear()
    assert not store.exists("Ann")


@pytest.mark.parametrize("make_store", [
    lambda **given: langchain.EntityStore(**given),
    lambda **given: langchain.SQLiteEntityStore(**given),
    lambda **given: langchain.RedisEntityStore(**given),
    lambda **given: langchain.UpstashRedisEntityStore(**given),
], ids=["own", "sqlite", "redis", "upstash"])
def test_no_default_is_shared_by_two_stores_of_entities(server, make_store):
    alice, bob = (make_store(target=server.target) for _ in range(2))
    alice.set("Ann", "likes tea")
    assert alice.get("Ann") == "likes tea" and not bob.exists("Ann")
    if type(alice) is not langchain.EntityStore:
        # Who names the library's default says it.
        first, second = (make_store(target=server.target, session_id="default") for _ in range(2))
        first.set("Ann", "was named")
        assert second.get("Ann") == "was named" and bob.session_id == "default"
        first.clear()


def test_entities_end_as_in_redis(server, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(entity_stores, "time", lambda: now[0])
    store = langchain.RedisEntityStore(f"s{uuid.uuid4().hex}", ttl=10, recall_ttl=100,
                                       target=server.target)
    store.set("read", "r")
    store.set("unread", "u")
    now[0] += 9
    assert store.get("read") == "r"
    now[0] += 90
    assert store.exists("read") and not store.exists("unread")
    now[0] += 10
    assert store.get("read", "gone") == "gone"
    for_ever = langchain.RedisEntityStore(f"s{uuid.uuid4().hex}", ttl=None, recall_ttl=None,
                                          target=server.target)
    for_ever.set("a", "b")
    now[0] += 1e9
    assert for_ever.get("a") == "b"


def test_names_in_sqlite_are_identifiers(server):
    for names in ({"session_id": "a-b"}, {"table_name": "a b"}):
        with pytest.raises(ValueError, match="must be valid Python identifiers"):
            langchain.SQLiteEntityStore(target=server.target, **names)


def test_large_states_are_kept(server):
    store = langchain.EntityStore(target=server.target)
    for number in range(3):
        store.set(f"entity {number}", "é" * 400_000)
    assert len(store.get("entity 2")) == 400_000


def test_halves_of_characters_are_kept_or_replaced_wherever_text_goes(server, session_id, where):
    """Where LangChain's own form has the text it comes back; where it is text alone, U+FFFD does."""
    store = langchain.EntityStore(where["session_id"] + "-entities", target=server.target)
    store.set("Ann", "cut \ud83d")
    assert store.get("Ann") == "cut \ud83d"
    said = langchain.ConversationStringBufferMemory(**where)
    said.save_context({"input": "\ud83d\ude00 cut \ud83d"}, {"output": "y" * 1_200_000})
    assert said.buffer == "\nHuman: \U0001f600 cut \ufffd\nAI: " + "y" * 1_200_000
    said.buffer = "z" * 1_200_000
    assert said.load_memory_variables({}) == {"history": "z" * 1_200_000}
    memory = langchain.ConversationSummaryMemory(
        llm=WordsLLM(responses=["all \ud83d"]), session_id=session_id + "-summary",
        target=server.target)
    memory.save_context({"input": "a"}, {"output": "b"})
    assert memory.load_memory_variables({}) == {"history": "all \ud83d"}


def test_every_name_of_the_list():
    for name in ("CombinedMemory", "ReadOnlySharedMemory", "SimpleMemory", "BaseChatMemory",
                 "VectorStoreRetrieverMemory", "SummarizerMixin", "get_prompt_input_key",
                 "BaseEntityStore", "InMemoryEntityStore", *KINDS):
        assert hasattr(langchain, name)


def test_the_example_remembers_over_a_restart(server, session_id):
    def run(text: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "clients/python/src")}
        command = [sys.executable, str(REPOSITORY / "examples/langchain_agent.py"),
                   server.target, session_id, text]
        return subprocess.run(command, env=environment, check=True, capture_output=True,
                              text=True).stdout

    assert run("My name is Alice.") == "You said: My name is Alice.\n"
    assert run("What is my name?") == "You said: My name is Alice. / What is my name?\n"


def test_the_guide(server):
    [code] = code_of(REPOSITORY / "clients" / "python" / "LANGCHAIN.md", "python", server.target)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "clients/python/src")}
    done = subprocess.run([sys.executable, "-c", code],
                          env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "Hello Alice!\n"


@pytest.fixture(scope="module")
def templated(store_kind, tmp_path_factory):
    file = tmp_path_factory.mktemp("templates") / "memoryd.yaml"
    file.write_text(json.dumps({"templates": {"chat": {"token_limit": 500}, "other": {}}}))  # JSON is YAML.
    with fresh_store(store_kind) as store, Server(store, arguments=[f"--config={file}"]) as server:
        yield server


def _added(history: langchain.ChatMessageHistory) -> None:
    history.add_messages([HumanMessage("Tea")])


def _added_asynchronously(history: langchain.ChatMessageHistory) -> None:
    asyncio.run(history.aadd_messages([HumanMessage("Tea")]))


def _assigned(history: langchain.ChatMessageHistory) -> None:
    history.messages = [HumanMessage("Tea")]


@pytest.mark.parametrize("write", [_added, _added_asynchronously, _assigned])
def test_a_history_is_made_from_a_template(templated, session_id, write):
    for template in ("chat", "chat", "other", "gone", ""):  # What is there keeps its own.
        history = langchain.ChatMessageHistory(session_id, target=templated.target, template=template)
        write(history)
        write(history)
        assert history.messages[-1].content == "Tea"
    with Client(templated.target) as client:
        session = client.get_session(session_id)
        assert (session.template, session.config.token_limit) == ("chat", 500)
        history = langchain.ChatMessageHistory(target=templated.target, template="gone")
        with pytest.raises(MemorydError, match="template"):
            write(history)


@pytest.mark.parametrize("kind", [
    langchain.ConversationBufferMemory, langchain.ConversationStringBufferMemory,
    langchain.ConversationEntityMemory])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_memory_is_made_from_a_template(templated, session_id, kind, is_async):
    llm = {"llm": WordsLLM(responses=["NONE"])} if kind is langchain.ConversationEntityMemory else {}
    memory = kind(session_id=session_id, target=templated.target, template="chat", **llm)
    turn = {"input": "Tea"}, {"output": "Yes"}
    if llm:
        memory.entity_cache = []
    for _ in range(2):
        if is_async:
            asyncio.run(memory.asave_context(*turn))
        else:
            memory.save_context(*turn)
    with Client(templated.target) as client:
        assert client.get_session(session_id).template == "chat"
        assert client.count_messages(session_id) == 4
        # What a memory knows besides is in sessions of the adapter's own.
        others = {session.session_id: session.template for session in client.list_sessions()
                  if session.session_id.startswith(f"{session_id}/")}
    assert not any(others.values())


def test_a_template_is_that_of_the_history(templated, session_id):
    history = langchain.ChatMessageHistory(session_id, target=templated.target, template="chat")
    langchain.ConversationBufferMemory(chat_memory=history).save_context({"input": "Tea"}, {"output": "Yes"})
    with Client(templated.target) as client:
        assert client.get_session(session_id).template == "chat"
    for kind, further in ((langchain.ConversationBufferMemory, {}),
                          (langchain.ConversationEntityMemory, {"llm": WordsLLM(responses=["NONE"])})):
        with pytest.raises(ValueError, match="template: "):
            kind(chat_memory=history, template="chat", **further)
