"""memoryd.llama_index: the classes as their users see them."""

from __future__ import annotations

import asyncio
import copy
import datetime
import gc
import json
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence

import grpc
import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ImageBlock,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import BaseModel, Field, PrivateAttr
from llama_index.core.llms import MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import ChatMemoryBuffer as LibraryBuffer
from llama_index.core.memory import Memory as LibraryMemory
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from workflows import Context
from workflows.context.serializers import JsonSerializer, PickleSerializer
from workflows.context.state_store import UnserializableKeyWarning

from support import paths
from support.documents import code_of
from support.postgres import free_port
from support.server import Server
from support.waiting import wait_for

from memoryd import Client, MemorydError, _requests, message
from memoryd.llama_index import (
    AsyncDBChatStore,
    BaseMemory,
    BaseMemoryBlock,
    ChatMemoryBuffer,
    ChatStore,
    ChatSummaryMemoryBuffer,
    DetachedBlock,
    FactExtractionMemoryBlock,
    InsertMethod,
    Memory,
    MessageStatus,
    SimpleComposableMemory,
    StaticMemoryBlock,
    VectorMemory,
    _live,
)
from memoryd.llama_index import memory as memory_module
from memoryd.llama_index._rows import Row
from memoryd.v1 import job_service_pb2 as job_wire

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


def texts(messages: list[ChatMessage]) -> list[str | None]:
    return [message.content for message in messages]


def turns(count: int, first: int = 0) -> list[ChatMessage]:
    """Turns of three words each, told apart by their numbers."""
    made = []
    for number in range(first, first + count):
        made += [user(f"question {number}"), assistant("answer")]
    return made


class ScriptedLLM(MockLLM):
    """Answers with one fact that it counts; fails as often as it is told to."""

    def __init__(self, failures: int = 0, said: str = "fact") -> None:
        super().__init__()
        self._failures = failures
        self._said = said
        self._calls: list[list[ChatMessage]] = []

    @property
    def calls(self) -> list[list[ChatMessage]]:
        return self._calls

    async def achat(self, messages, **kwargs):
        self._calls.append(list(messages))
        if len(self._calls) <= self._failures:
            raise ConnectionError("the model is away")
        reply = f"<facts><fact>{self._said} {len(self._calls)}</fact></facts>"
        return ChatResponse(message=assistant(reply))


class Recorder(BaseMemoryBlock[str]):
    """Notes what it is fed with, and on which event loop."""

    fed: list[list[str | None]] = Field(default_factory=list)
    loops: list[object] = Field(default_factory=list)

    async def _aget(self, messages=None, **block_kwargs):
        return f"{sum(map(len, self.fed))} seen {block_kwargs.get('extra', '')}".strip()

    async def _aput(self, messages):
        self.loops.append(asyncio.get_running_loop())
        self.fed.append(texts(messages))


def recorder(name: str = "recorder", **fields) -> Recorder:
    return Recorder(name=name, fed=[], loops=[], **fields)


@pytest.fixture
def uri(server) -> str:
    return f"memoryd://{server.target}"


def small(uri: str, session_id: str, **fields) -> Memory:
    """A memory from which a turn leaves as soon as there are more than two."""
    given = {"token_limit": 7, "token_flush_size": 1, "chat_history_token_ratio": 1.0,
             "tokenizer_fn": str.split, **fields}
    return Memory(session_id=session_id, async_database_uri=uri, **given)


# Memory.


def test_it_is_the_librarys_class(uri, session_id):
    memory = Memory.from_defaults(session_id=session_id, async_database_uri=uri, token_limit=100)
    assert isinstance(memory, (LibraryMemory, BaseMemory)) and memory.class_name() == "Memory"
    assert isinstance(memory.sql_store, AsyncDBChatStore)
    assert memory.sql_store.table_name == "llama_index_memory"
    assert (memory.token_flush_size, memory.token_limit) == (70, 100)
    assert Memory(token_limit=100, async_database_uri=uri).token_flush_size == 10
    with pytest.raises(ValueError, match="Token limit must be set and greater than 0"):
        Memory(async_database_uri=uri)
    with pytest.raises(ValueError, match="All memory blocks must have unique names"):
        Memory.from_defaults(memory_blocks=[recorder(), recorder()], async_database_uri=uri)


async def _a_round(memory: Memory) -> None:
    await memory.aput(user("one"))
    await memory.aput_messages([assistant("two"), user("three")])
    await memory.aput_messages([])
    assert texts(await memory.aget()) == ["one", "two", "three"]
    assert texts(await memory.aget_all()) == ["one", "two", "three"]
    assert texts(await memory.sql_store.get_messages(memory.session_id, limit=1, offset=1)) == [
        "two"]
    await memory.aset([user("four")])
    assert texts(await memory.aget()) == ["four"]
    await memory.areset()
    assert await memory.aget() == []


def test_a_round_of_coroutines(uri, session_id):
    asyncio.run(_a_round(Memory.from_defaults(session_id=session_id, async_database_uri=uri)))


def test_synchronous_methods_work_with_and_without_an_event_loop(uri, session_id):
    memory = small(uri, session_id, memory_blocks=[recorder()])

    def a_round() -> None:
        memory.reset()
        memory.put(user("one"))
        memory.put_messages([assistant("two"), user("three")])
        assert texts(memory.get())[-3:] == ["one", "two", "three"]
        assert texts(memory.get_all()) == ["one", "two", "three"]
        memory.put_messages(turns(4))
        memory.set([user("four")])
        assert texts(memory.get_all()) == ["four"]

    a_round()

    async def on_a_loop() -> None:
        a_round()

    asyncio.run(on_a_loop())
    assert len(memory.memory_blocks[0].fed) > 2


def test_everything_of_a_message_comes_back(uri, session_id):
    memory = Memory.from_defaults(session_id=session_id, async_database_uri=uri)
    message = ChatMessage(
        role="assistant",
        blocks=[TextBlock(text="a"), ImageBlock(url="https://example.com/a.png"),
                ToolCallBlock(tool_call_id="c1", tool_name="f", tool_kwargs={"x": 1.0})],
        additional_kwargs={"z": None, "a": [1, 2.0, "é"]})
    memory.put(message)
    found, = memory.get()
    assert found.model_dump(mode="json") == message.model_dump(mode="json")
    assert json.dumps(found.additional_kwargs) == json.dumps(message.additional_kwargs)


def test_what_leaves_feeds_the_blocks_on_the_callers_event_loop(uri, session_id):
    block = recorder()
    memory = small(uri, session_id, memory_blocks=[block])

    async def run() -> None:
        loop = asyncio.get_running_loop()
        await memory.aput_messages(turns(3))
        assert block.fed == [["question 0", "answer"]]
        assert block.loops == [loop]
        assert texts(await memory.sql_store.get_messages(session_id, status=ARCHIVED)) == [
            "question 0", "answer"]
        assert texts(await memory.aget(extra="now"))[:1] == [
            "<memory>\n<recorder>\n2 seen now\n</recorder>\n</memory>"]

    asyncio.run(run())


def test_manage_queue_flushes_what_the_store_was_given(uri, session_id):
    block = recorder()
    memory = small(uri, session_id, memory_blocks=[block])

    async def run() -> None:
        await memory.aput(user("first"))
        await memory.sql_store.add_messages(session_id, turns(4))
        assert await memory.sql_store.count_messages(session_id) == 9
        assert block.fed == []
        await memory._manage_queue()
        assert await memory.sql_store.count_messages(session_id) < 9
        assert block.fed[0][:1] == ["first"]

    asyncio.run(run())


def managing(base: type[LibraryMemory]) -> type[LibraryMemory]:
    """A memory that does something in its queue's step, as users write it."""

    class Managing(base):
        _managed: int = PrivateAttr(default=0)

        async def _manage_queue(self):
            self._managed += 1
            await super()._manage_queue()

    return Managing


def keeping(base: type[LibraryMemory]) -> type[LibraryMemory]:
    """A memory with a queue of its own: all but the last two messages leave, one by one."""

    class Keeping(base):
        async def _manage_queue(self):
            while await self.sql_store.count_messages(self.session_id) > 2:
                left = await self.sql_store.archive_oldest_messages(self.session_id, 1)
                for block in self.memory_blocks:
                    await block.aput(left, from_short_term_memory=True)

    return Keeping


@pytest.mark.parametrize("changed", [managing, keeping])
def test_a_step_that_a_subclass_changes_is_taken(uri, session_id, changed):
    def run(cls: type[LibraryMemory], **store) -> list[object]:
        block = recorder()
        memory = cls(session_id=session_id, token_limit=7, token_flush_size=1,
                     chat_history_token_ratio=1.0, tokenizer_fn=str.split,
                     memory_blocks=[block], **store)

        async def ask() -> list[object]:
            for each in turns(3):
                await memory.aput(each)
            await memory.aput_messages(turns(2, first=3))
            return [getattr(memory, "_managed", None), block.fed, texts(await memory.aget()),
                    texts(await memory.aget_all())]

        return asyncio.run(ask())

    ours = run(changed(Memory), async_database_uri=uri)
    assert ours == run(changed(LibraryMemory)) and ours[1] != []


@pytest.mark.parametrize("step", [
    "add_message", "add_messages", "get_messages", "archive_oldest_messages"])
def test_a_step_of_a_store_that_a_subclass_changes_is_taken(uri, session_id, step):
    def run(memory_class: type[LibraryMemory], store_class: type[SQLAlchemyChatStore],
            *place: str) -> list[object]:
        asked = []

        async def counted(self, *arguments, **named):
            asked.append(step)
            return await getattr(super(changed, self), step)(*arguments, **named)

        changed = type("Changed", (store_class,), {step: counted})
        block = recorder()
        memory = memory_class.from_defaults(
            session_id=session_id, chat_store=changed("t", *place), token_limit=7,
            token_flush_size=1, chat_history_token_ratio=1.0, tokenizer_fn=str.split,
            memory_blocks=[block])

        async def ask() -> list[object]:
            for each in turns(3):
                await memory.aput(each)
            await memory.aput_messages(turns(2, first=3))
            return [len(asked), block.fed, texts(await memory.aget_all())]

        return asyncio.run(ask())

    ours = run(Memory, ChatStore, uri)
    assert ours == run(LibraryMemory, SQLAlchemyChatStore) and ours[0] > 0


def test_an_argument_of_a_later_version_is_the_librarys(uri, session_id, monkeypatch):
    given = {"session_id": session_id, "async_database_uri": uri, "memory_blocks_concurrency": 3}
    with pytest.raises(TypeError, match="memory_blocks_concurrency"):
        Memory.from_defaults(**given)
    now, told = LibraryMemory.from_defaults.__func__, []

    def later(cls, *, memory_blocks_concurrency=None, **others):
        told.append(memory_blocks_concurrency)
        return now(cls, **others)

    monkeypatch.setattr(LibraryMemory, "from_defaults", classmethod(later))
    assert type(Memory.from_defaults(**given)) is Memory and told == [3]


class Function(BaseModel):
    name: str = "add"
    arguments: str = '{"a":363,"b":42}'


class Call(BaseModel):
    id: str = "call_1"
    function: Function = Function()


@pytest.mark.parametrize("kwargs", [
    {"tool_calls": [Call()]}, {"b": bytes(range(32)) * 3}, {"t": (1, 2)},
    {"e": InsertMethod.USER}, {"d": datetime.date(2026, 3, 30)}, {"plain": [1.0, "é", None]},
])
def test_additional_kwargs_are_counted_as_they_are_stored(server, uri, session_id, kwargs):
    message = ChatMessage(role="user", content="hi", additional_kwargs=kwargs)
    library = LibraryMemory.from_defaults(session_id=session_id)

    async def counted_by_the_library() -> int:
        await library.aput(message)
        return library._estimate_token_count(await library.aget_all())

    expected = asyncio.run(counted_by_the_library())
    memory = Memory.from_defaults(session_id=session_id, async_database_uri=uri)
    memory.put(message)
    memory.put_messages([message])
    store = memory.sql_store
    store.add_message(session_id, message)
    store.set_messages(f"{session_id}-set", [message])
    with Client(server.target) as client:
        counted = [found.token_count for key in (session_id, f"{session_id}-set")
                   for found in client.get_all(key)]
    assert counted == [expected] * 4


def test_set_does_not_flush(uri, session_id):
    memory = small(uri, session_id)
    memory.set(turns(5))
    assert len(memory.get()) == 10
    memory.put(user("more"))
    assert len(memory.get()) < 10 and len(memory.get_all()) == 11


def test_chat_history_replaces_what_there_is(uri, session_id):
    given = {"session_id": session_id, "async_database_uri": uri}
    Memory.from_defaults(**given).put(user("old"))
    assert texts(Memory.from_defaults(**given).get()) == ["old"]
    assert texts(Memory.from_defaults(**given, chat_history=[user("new")]).get()) == ["new"]
    assert Memory.from_defaults(**given, chat_history=[]).get_all() == []


def test_reset_by_status_keeps_the_other(uri, session_id):
    memory = small(uri, session_id)
    memory.put_messages(turns(4))
    asyncio.run(memory.areset(status=ARCHIVED))
    assert 0 < len(memory.get_all()) < 8
    asyncio.run(memory.areset(status=ACTIVE))
    assert memory.get_all() == []


def test_facts_outlive_the_process(uri, session_id):
    def block(llm: ScriptedLLM, **fields) -> FactExtractionMemoryBlock:
        return FactExtractionMemoryBlock(name="facts", llm=llm, **fields)

    memory = small(uri, session_id, memory_blocks=[block(ScriptedLLM(), facts=["given"])])
    memory.put_messages(turns(3))
    assert memory.memory_blocks[0].facts == ["given", "fact 1"]
    memory.close()
    # What another process makes: new objects.
    again = small(uri, session_id, memory_blocks=[block(ScriptedLLM())])
    assert "<fact>given</fact>\n<fact>fact 1</fact>" in again.get()[0].content
    assert again.memory_blocks[0].facts == ["given", "fact 1"]
    # Also when the first thing it does is to put.
    third_llm = ScriptedLLM()
    third = small(uri, session_id, memory_blocks=[block(third_llm)])
    third.put_messages(turns(1, first=3))
    assert "<fact>given</fact>\n<fact>fact 1</fact>" in third_llm.calls[0][-1].content
    # A list that its owner changes is as he left it.
    third.memory_blocks[0].facts.clear()
    third.put_messages(turns(1, first=4))
    assert third.memory_blocks[0].facts == ["fact 2"]
    assert third_llm.calls[0][0].additional_kwargs == {"session_id": session_id}


def test_facts_are_seen_whichever_process_feeds_the_block(uri, session_id):
    first, second = (
        small(uri, session_id,
              memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=ScriptedLLM())])
        for _ in range(2))
    for number in range(2):
        first.put_messages(turns(3, first=3 * number))
        shown = [memory.get()[0].content for memory in (first, second)]
        assert shown[0] == shown[1]
        known = [memory.memory_blocks[0].facts for memory in (first, second)]
        assert known[0] == known[1] and len(known[0]) > number


def test_halves_of_characters_are_no_fault_of_a_block(uri, session_id):
    def make() -> Memory:
        blocks = [FactExtractionMemoryBlock(name="facts", llm=ScriptedLLM(said="cut \ud83d")),
                  StaticMemoryBlock(name="static", static_content="half \ude00")]
        return small(uri, session_id, memory_blocks=blocks)

    memory = make()
    memory.put_messages([user("q \ud83d one two"), assistant("a \ude00"), *turns(2)])
    assert memory.memory_blocks[0].facts == ["cut \ud83d 1"]
    assert "half \ude00" in memory.get()[0].content
    memory.close()
    later = make()
    assert "cut \ud83d 1" in later.get()[0].content
    assert later.memory_blocks[0].facts == ["cut \ud83d 1"]


def test_a_block_that_fails_raises_and_is_fed_again(server, uri, session_id):
    llm = ScriptedLLM(failures=1)
    block = FactExtractionMemoryBlock(name="facts", llm=llm)
    memory = small(uri, session_id, memory_blocks=[block])
    with pytest.raises(ConnectionError, match="the model is away"):
        memory.put_messages(turns(3))
    assert len(memory.get_all()) == 6
    wait_for(lambda: block.facts == ["fact 2"])
    with Client(server.target) as client:
        wait_for(lambda: [job.state for job in client.list_jobs(session_id)]
                 == [job_wire.JOB_STATE_DONE])


class Slow(Recorder):
    """Is done with what it takes in once it is let go."""

    until: Callable[[], object] = bool

    async def _aput(self, messages):
        await super()._aput(messages)
        await asyncio.to_thread(wait_for, self.until)


@pytest.mark.parametrize("waits", [True, False], ids=["the put waits", "nobody waits"])
def test_a_block_that_is_slower_than_an_attempt_is_asked_once(store, waits):
    with Server(store, arguments=["--job-timeout-ms=1000", "--job-retry-ms=10"]) as server, \
            Client(server.target) as client:

        def jobs(state: int = job_wire.JOB_STATE_OPEN) -> list[job_wire.Job]:
            return list(client.list_jobs("s", state=state))

        block = Slow(name="slow", fed=[], loops=[],
                     until=lambda: any(job.attempts > 1 for job in jobs()))
        memory = small(f"memoryd://{server.target}", "s", memory_blocks=[block])
        if waits:
            memory.put_messages(turns(4))
        else:
            memory.put_messages(turns(1))
            client.put("s", [
                message("user" if number % 2 == 0 else "assistant", "one two", token_count=4)
                for number in range(4)])
        wait_for(lambda: not jobs())
        done = jobs(job_wire.JOB_STATE_DONE)
        assert done and any(job.attempts > 1 for job in done)
        assert len(block.fed) == len(done)
        fed = [text for texts_ in block.fed for text in texts_]
        assert fed == texts(memory.get_all())[:len(fed)]


@pytest.mark.parametrize("blocks", [0, 1], ids=["without blocks", "with blocks"])
def test_without_a_server_everything_says_so_in_time(session_id, blocks, monkeypatch):
    # A call that could only end by this limit would not end here.
    monkeypatch.setattr(memory_module, "_PUT_SECONDS", 3600.0)
    memory = Memory.from_defaults(
        session_id=session_id, async_database_uri=f"memoryd://127.0.0.1:{free_port()}?timeout=0.5",
        memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=ScriptedLLM())][:blocks])
    for call in (lambda: memory.put(user("one")), memory.get, memory.get_all, memory.reset,
                 lambda: memory.put_messages(turns(1)), lambda: memory.set(turns(1)),
                 lambda: asyncio.run(memory._manage_queue())):
        with pytest.raises(MemorydError) as caught:
            call()
        assert caught.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def test_a_server_that_goes_during_a_put_is_missed(store, monkeypatch):
    monkeypatch.setattr(memory_module, "_PUT_SECONDS", 3600.0)
    with Server(store) as server:
        block = Slow(name="slow", fed=[], loops=[], until=lambda: server.kill() or True)
        memory = small(f"memoryd://{server.target}?timeout=1", "s", memory_blocks=[block])
        with pytest.raises(MemorydError) as caught:
            memory.put_messages(turns(3))
        assert caught.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def test_a_block_that_accepts_nothing_is_not_fed(uri, session_id):
    block = recorder(accept_short_term_memory=False)
    memory = small(uri, session_id, memory_blocks=[block])
    memory.put_messages(turns(4))
    assert block.fed == []


def test_other_clients_of_the_session_see_the_blocks(server, uri, session_id):
    blocks = [StaticMemoryBlock(name="core", static_content="Likes tea."), recorder("any name!")]
    memory = small(uri, session_id, memory_blocks=blocks)
    memory.put_messages(turns(3))
    with Client(server.target) as client:
        said = client.get(session_id).messages[0]
    assert "<core>\nLikes tea.\n</core>" in said.text and "2 seen" in said.text


def test_two_memories_of_one_session_see_each_other(uri, session_id):
    first = small(uri, session_id, memory_blocks=[recorder()])
    second = small(uri, session_id, memory_blocks=[recorder()])
    first.put_messages(turns(1))
    second.put_messages(turns(1, first=1))
    assert texts(first.get_all()) == texts(second.get_all())
    first.put_messages(turns(2, first=2))
    fed = first.memory_blocks[0].fed + second.memory_blocks[0].fed
    assert sorted(text for texts_ in fed for text in texts_ if text != "answer") == [
        "question 0", "question 1"]


def test_concurrent_puts_lose_and_double_nothing(uri, session_id):
    block = recorder()
    memory = small(uri, session_id, memory_blocks=[block])

    async def run() -> None:
        await asyncio.gather(*(memory.aput(user(f"m{i}")) for i in range(40)))

    asyncio.run(run())
    everything = texts(memory.get_all())
    assert sorted(everything) == sorted(f"m{i}" for i in range(40))
    fed = [text for texts_ in block.fed for text in texts_]
    assert fed == everything[: len(fed)] and len(fed) + len(memory.sql_store.get_messages(
        session_id)) == 40


def test_blocks_may_change(uri, session_id):
    memory = small(uri, session_id, memory_blocks=[recorder("a")])
    memory.put_messages(turns(3))
    memory.memory_blocks = [recorder("b")]
    memory.put_messages(turns(1, first=3))
    assert memory.memory_blocks[0].fed == [["question 1", "answer"]]
    memory.memory_blocks = []
    memory.put_messages(turns(1, first=4))
    assert len(memory.get()) == 4


def test_a_ratio_above_one_is_the_librarys(uri, session_id):
    memory = small(uri, session_id, chat_history_token_ratio=2.0)
    library = LibraryMemory(token_limit=7, token_flush_size=1, chat_history_token_ratio=2.0,
                            tokenizer_fn=str.split)
    for each in (memory, library):
        each.put_messages(turns(7))
    assert texts(memory.get()) == texts(library.get())


def test_messages_that_a_block_owns_are_not_written_to(uri, session_id):
    class Says(BaseMemoryBlock[list[ChatMessage]]):
        own: list[ChatMessage] = Field(default_factory=list)

        async def _aget(self, messages=None, **block_kwargs):
            return self.own

        async def _aput(self, messages):
            pass

    own = [ChatMessage(role="system", content="mine")]
    memory = Memory.from_defaults(session_id=session_id, async_database_uri=uri, memory_blocks=[
        Says(name="says", own=own), StaticMemoryBlock(name="core", static_content="text")])
    assert memory.get() == memory.get() and texts(own) == ["mine"]


# Dump and load.


# Per way that a memory is written and read again: both halves.
DUMPS = {
    "from_dict": (lambda memory: json.dumps(memory.to_dict()),
                  lambda text: Memory.from_dict(json.loads(text))),
    "JsonSerializer": (JsonSerializer().serialize, JsonSerializer().deserialize),
    "PickleSerializer": (PickleSerializer().serialize, PickleSerializer().deserialize),
    "model_validate": (Memory.model_dump_json,
                       lambda text: Memory.model_validate(json.loads(text))),
    "pickle": (pickle.dumps, pickle.loads),
}


def as_elsewhere(memory: Memory, way: str) -> Memory:
    """What a process without the memory reads."""
    dump, load = DUMPS[way]
    dumped = dump(memory)
    hidden = dict(_live._objects)
    _live._objects.clear()
    try:
        loaded = load(dumped)
    finally:
        _live._objects.update(hidden)
    assert loaded is not memory
    return loaded


class Unpicklable(Recorder):
    """Has what no pickle has."""

    lock: object = threading.Lock()


def filled(uri: str, session_id: str, **fields) -> Memory:
    memory = Memory.from_defaults(
        session_id=session_id, async_database_uri=uri, token_limit=50, table_name="t",
        insert_method=InsertMethod.USER, memory_blocks=[
            StaticMemoryBlock(name="core", static_content="text"),
            Unpicklable(name="seen", fed=[], loops=[])], **fields)
    memory.put(user("kept"))
    return memory


@pytest.mark.parametrize("way", DUMPS)
def test_a_dump_comes_back_to_its_process_as_the_memory(uri, session_id, way):
    memory = filled(uri, session_id, tokenizer_fn=str.split)
    dump, load = DUMPS[way]
    loaded = load(dump(memory))
    assert type(loaded) is Memory and loaded.insert_method == InsertMethod.USER
    assert (loaded.session_id, loaded.token_limit) == (session_id, 50)
    assert loaded.memory_blocks[1] is memory.memory_blocks[1]
    assert loaded.tokenizer_fn is str.split and loaded.sql_store.client is memory.sql_store.client
    assert "".join(texts(loaded.get())).count("text") == 1
    assert way == "model_validate" or loaded is memory
    assert "sql_store" not in memory.model_dump() and "tokenizer_fn" not in memory.model_dump()


@pytest.mark.parametrize("way", DUMPS)
def test_a_dump_elsewhere_says_what_it_lacks(uri, session_id, way):
    memory = filled(uri, session_id)
    loaded = as_elsewhere(memory, way)
    assert texts(loaded.get_all()) == ["kept"] and loaded.insert_method == InsertMethod.USER
    assert loaded.memory_blocks[0].static_content == memory.memory_blocks[0].static_content
    assert isinstance(loaded.memory_blocks[1], DetachedBlock)
    for use in (loaded.get, lambda: loaded.put(user("lost")), lambda: loaded.put_messages(turns(1)),
                lambda: asyncio.run(loaded._manage_queue())):
        with pytest.raises(LookupError, match=f"memory_blocks: .*'{session_id}'.*'seen'"):
            use()
    assert texts(memory.get_all()) == ["kept"]
    loaded.memory_blocks = [loaded.memory_blocks[0], recorder("seen")]
    assert "text" in loaded.get()[0].content
    # Also who decides to do without.
    loaded.memory_blocks = [DetachedBlock(name="seen")]
    loaded.put(user("more"))
    assert texts(memory.get_all()) == ["kept", "more"]


@pytest.mark.parametrize("way", DUMPS)
def test_a_tokenizer_is_not_replaced_in_silence(uri, session_id, way):
    memory = small(uri, session_id, tokenizer_fn=lambda text: text.split())
    loaded = as_elsewhere(memory, way)
    with pytest.raises(LookupError, match="tokenizer_fn"):
        loaded.put(user("one"))
    assert loaded.get_all() == []
    loaded.tokenizer_fn = str.split
    loaded.put(user("one"))
    given = Memory.from_dict(memory.to_dict(), tokenizer_fn=len)
    assert given is not memory and given.tokenizer_fn is len


def test_a_pickle_has_what_can_be_pickled(uri, session_id):
    memory = small(uri, session_id, memory_blocks=[recorder()])
    memory.put_messages(turns(3))
    memory.memory_blocks[0].loops.clear()
    loaded = as_elsewhere(memory, "pickle")
    assert loaded.tokenizer_fn is str.split
    assert loaded.memory_blocks[0].fed == [["question 0", "answer"]]


def test_a_dump_finds_the_memory_that_its_process_has_of_the_session(uri, session_id):
    memory = filled(uri, session_id)
    dump = memory.to_dict()
    other = filled(uri, f"{session_id}-other")
    bare = Memory.from_defaults(
        session_id=session_id, async_database_uri=uri, table_name="t", token_limit=50)
    del memory
    gc.collect()
    assert isinstance(Memory.from_dict(dump).memory_blocks[1], DetachedBlock)
    made_again = filled(uri, session_id)
    assert Memory.from_dict(dump) is made_again is not bare
    assert other.get_all() != []


def test_a_dump_that_was_changed_is_another_memory(uri, session_id):
    memory = filled(uri, session_id)
    changed = Memory.from_dict({**memory.to_dict(), "token_limit": 60})
    assert changed is not memory and changed.token_limit == 60
    assert changed.memory_blocks[1] is memory.memory_blocks[1]
    # Blocks know what was said in a session, and another one must not.
    other = Memory.from_dict({**memory.to_dict(), "session_id": f"{session_id}-other"})
    assert isinstance(other.memory_blocks[1], DetachedBlock)
    with pytest.raises(LookupError, match="memory_blocks"):
        other.put(user("one"))
    copied = memory.model_copy(update={"session_id": f"{session_id}-copy"})
    assert Memory.from_dict(copied.to_dict()) is copied
    assert Memory.from_dict(memory.to_dict()) is memory


def test_credentials_are_not_replaced_in_silence(uri, session_id):
    told = []

    def token() -> str:
        told.append("asked")
        return "secret"

    store = ChatStore("t", uri, token=token)
    memory = Memory.from_defaults(session_id=session_id, chat_store=store)
    memory.put(user("one"))
    dump, pickled, of_store = memory.to_dict(), pickle.dumps(memory), store.model_dump()
    buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key=f"{session_id}-b")
    buffer.put(user("two"))
    of_buffer = buffer.to_string()
    assert "secret" not in json.dumps([dump, of_store, of_buffer])
    assert ChatMemoryBuffer.from_string(of_buffer) is buffer
    for again in (ChatStore.from_dict(of_store), ChatStore.model_validate(of_store),
                  pickle.loads(pickle.dumps(store))):
        told.clear()
        assert texts(again.get_messages(session_id)) == ["one"] and told
    del memory, store, buffer, again
    gc.collect()
    for load in (lambda: Memory.from_dict(dump).get(), lambda: pickle.loads(pickled).get(),
                 lambda: ChatMemoryBuffer.from_string(of_buffer).get(),
                 lambda: ChatStore.from_dict(of_store).get_messages(session_id)):
        with pytest.raises(LookupError, match=r"credentials: .*token"):
            load()
    given = Memory.from_dict(dump, sql_store=ChatStore("t", uri, token=token))
    assert texts(given.get()) == ["one"]


def test_a_buffer_comes_back_as_it_is(uri, session_id):
    llm = MockLLM()
    buffer = ChatSummaryMemoryBuffer.from_defaults(
        llm=llm, chat_store=ChatStore(async_database_uri=uri), chat_store_key=session_id,
        token_limit=3, tokenizer_fn=str.split)
    for each in turns(2):
        buffer.put(each)
    text = buffer.to_string()
    assert ChatSummaryMemoryBuffer.from_string(text) is buffer
    changed = ChatSummaryMemoryBuffer.from_dict({**json.loads(text), "token_limit": 4})
    assert changed.llm is llm and changed.tokenizer_fn is str.split
    del buffer
    gc.collect()
    loaded = ChatSummaryMemoryBuffer.from_string(text)
    assert texts(loaded.get_all()) == texts(turns(2))
    with pytest.raises(LookupError, match="tokenizer_fn"):
        loaded.get()
    loaded.tokenizer_fn = str.split
    with pytest.raises(LookupError, match="llm"):
        loaded.get()
    assert texts(loaded.get_all()) == texts(turns(2))
    loaded.llm = llm
    assert len(loaded.get()) == 3


# Workflows.


class Talker(FunctionCallingLLM):
    """Says which call it is; keeps what it was asked."""

    _asked: list[list[str | None]] = PrivateAttr(default_factory=list)
    _says: list[ChatMessage] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[list[str | None]]:
        return self._asked

    def will_say(self, *messages: ChatMessage) -> Talker:
        self._says.extend(messages)
        return self

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    def _answer(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        self._asked.append(texts(messages))
        said = self._says.pop(0) if self._says else assistant(f"reply {len(self._asked)}")
        return ChatResponse(message=said, delta=said.content or "")

    async def achat(self, messages, **kwargs):
        return self._answer(messages)

    async def astream_chat(self, messages, **kwargs):
        async def stream():
            yield self._answer(messages)

        return stream()

    def chat(self, messages, **kwargs):
        raise NotImplementedError

    complete = stream_chat = stream_complete = chat
    acomplete = astream_complete = achat

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, **kwargs):
        return {"messages": list(chat_history or [])}

    def get_tool_calls_from_response(self, response, **kwargs):
        return [ToolSelection(tool_id=block.tool_call_id, tool_name=block.tool_name,
                              tool_kwargs=block.tool_kwargs)
                for block in response.message.blocks if isinstance(block, ToolCallBlock)]


def agent_of(kind: str, llm: Talker) -> FunctionAgent | AgentWorkflow:
    agent = FunctionAgent(name="agent", description="An agent.", tools=[], llm=llm)
    return agent if kind == "agent" else AgentWorkflow(agents=[agent])


AGENTS = pytest.mark.parametrize("kind", ["agent", "workflow"])


@AGENTS
def test_runs_with_a_context_go_on_with_the_memory_that_they_are_given(uri, session_id, kind):
    llm = Talker()
    memory = small(uri, session_id, memory_blocks=[recorder()], token_limit=30)

    async def run() -> None:
        agent = agent_of(kind, llm)
        ctx = Context(agent)
        for question in ("first", "second", "third"):
            await agent.run(question, ctx=ctx, memory=memory)
            assert await ctx.store.get("memory") is memory
            assert "0 seen" in llm.asked[-1][0] and llm.asked[-1][-1] == question
        # Also where the run is given none, and where the Context was written and read.
        await agent.run("fourth", ctx=ctx)
        assert await ctx.store.get("memory") is memory
        again = Context.from_dict(agent, json.loads(json.dumps(ctx.to_dict())))
        await agent.run("fifth", ctx=again)
        assert await again.store.get("memory") is memory

    asyncio.run(run())
    assert texts(memory.get_all()) == [
        text for number, question in enumerate(("first", "second", "third", "fourth", "fifth"), 1)
        for text in (question, f"reply {number}")]


@AGENTS
def test_a_run_writes_to_the_session_that_it_is_given(uri, session_id, kind):
    alice, bob = (small(uri, f"{session_id}-{name}") for name in ("alice", "bob"))

    async def run() -> None:
        agent = agent_of(kind, Talker())
        ctx = Context(agent)
        await agent.run("alice", ctx=ctx, memory=alice)
        await agent.run("bob", ctx=ctx, memory=bob)
        await agent.run("bob again", ctx=ctx)
        plain = ChatMemoryBuffer.from_defaults()
        await agent.run("plain", ctx=ctx, memory=plain)
        assert texts(plain.get_all()) == ["plain", "reply 4"]

    asyncio.run(run())
    assert texts(alice.get_all()) == ["alice", "reply 1"]
    assert texts(bob.get_all()) == ["bob", "reply 2", "bob again", "reply 3"]


@AGENTS
def test_runs_with_a_store_of_the_librarys_are_as_with_its_memory(tmp_path, kind):
    def run(memory: LibraryMemory) -> list[list[str | None]]:
        llm = Talker()

        async def ask() -> None:
            agent = agent_of(kind, llm)
            ctx = Context(agent)
            for question in ("first", "second", "third"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UnserializableKeyWarning)
                    await agent.run(question, ctx=ctx, memory=memory)

        asyncio.run(ask())
        return [*llm.asked, texts(asyncio.run(memory.aget_all()))]

    def made(cls: type[LibraryMemory], name: str) -> LibraryMemory:
        return cls.from_defaults(
            session_id="s", async_database_uri=f"sqlite+aiosqlite:///{tmp_path / name}")

    seen_by_ours = run(made(Memory, "ours.db"))
    assert seen_by_ours == run(made(LibraryMemory, "library.db"))
    assert [len(asked) for asked in seen_by_ours] == [1, 3, 5, 6]
    dump = made(Memory, "ours.db").to_dict()
    assert dump == made(LibraryMemory, "library.db").to_dict()


@AGENTS
def test_a_context_in_another_process_wants_the_blocks(uri, session_id, kind, tmp_path):
    llm = Talker()
    memory = small(uri, session_id, memory_blocks=[recorder()], token_limit=30)
    agent = agent_of(kind, llm)
    ctx = Context(agent)

    async def begin() -> None:
        await agent.run("first", ctx=ctx, memory=memory)

    asyncio.run(begin())
    (tmp_path / "ctx.json").write_text(json.dumps(ctx.to_dict()))
    program = f"""
import asyncio, json, pathlib, sys
sys.path[:0] = {sys.path[:3]!r}
from clients.test_llama_index import *

async def main():
    llm = Talker()
    agent = agent_of({kind!r}, llm)
    dump = json.loads(pathlib.Path({str(tmp_path / "ctx.json")!r}).read_text())
    try:
        await agent.run("lost", ctx=Context.from_dict(agent, dump))
    except Exception as error:
        print("refused:", error)
    memory = small({uri!r}, {session_id!r}, memory_blocks=[recorder()], token_limit=30)
    ctx = Context.from_dict(agent, dump)
    await agent.run("second", ctx=ctx)
    await agent.run("third", ctx=Context.from_dict(agent, dump), memory=memory)
    print(await ctx.store.get("memory") is memory, "0 seen" in llm.asked[-1][0])

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, text=True, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(paths.REPOSITORY / "tests")})
    refused, resumed = ended.stdout.splitlines()
    assert refused.startswith("refused:") and "memory_blocks" in refused and "recorder" in refused
    assert resumed == "True True"
    assert texts(memory.get_all())[::2] == ["first", "second", "third"]


def test_a_pickle_is_a_memory_again(uri, session_id):
    memory = Memory.from_defaults(session_id=session_id, async_database_uri=uri)
    memory.put(user("kept"))
    loaded = pickle.loads(pickle.dumps(memory))
    loaded.put(assistant("too"))
    assert texts(memory.get_all()) == ["kept", "too"]


def test_a_deep_copy_is_a_memory_of_its_own(uri, session_id):
    memory = small(uri, session_id, memory_blocks=[recorder()])
    memory.put_messages(turns(3))
    memory.memory_blocks[0].loops.clear()
    copied = copy.deepcopy(memory)
    memory.close()
    copied.put_messages(turns(1, first=3))
    assert copied.memory_blocks[0].fed == [["question 0", "answer"], ["question 1", "answer"]]


def test_what_a_detached_block_should_take_in_waits_for_it(uri, session_id):
    block = FactExtractionMemoryBlock(name="facts", llm=ScriptedLLM())
    memory = small(uri, session_id, memory_blocks=[block])
    memory.put_messages(turns(3))
    loaded = Memory.from_dict(memory.to_dict(), memory_blocks=[DetachedBlock(name="facts")])
    memory.close()
    loaded.put_messages(turns(1, first=3))
    assert len(loaded.get_all()) == 8
    llm = ScriptedLLM(said="later")
    loaded.memory_blocks = [FactExtractionMemoryBlock(name="facts", llm=llm)]
    loaded.put_messages(turns(1, first=4))
    wait_for(lambda: len(llm.calls) == 2)
    assert texts(llm.calls[0])[:2] == ["question 1", "answer"]
    wait_for(lambda: loaded.memory_blocks[0].facts == ["fact 1", "later 1", "later 2"])


def test_a_memory_that_nobody_holds_detaches(uri, session_id):
    others = set(threading.enumerate())  # Of memories that other tests still hold.
    memory = small(uri, session_id, memory_blocks=[recorder()])
    memory.put_messages(turns(3))
    name = memory._feeding.worker_name
    gone = weakref.ref(memory)
    del memory
    gc.collect()
    assert gone() is None and name
    wait_for(lambda: not any(thread.name.startswith("memoryd-worker") and thread.is_alive()
                             for thread in set(threading.enumerate()) - others))


# Other URIs, and how a target is named.


def test_other_uris_and_stores_are_the_librarys(tmp_path):
    for given in ({}, {"async_database_uri": f"sqlite+aiosqlite:///{tmp_path / 'm.db'}"},
                  {"chat_store": SQLAlchemyChatStore("t")}):
        memory = Memory.from_defaults(session_id="s", token_limit=100, **given)
        assert type(memory.sql_store) is SQLAlchemyChatStore
        asyncio.run(memory.aput(user("one")))
        assert "async_database_uri" not in memory.model_dump()


def test_the_environment_names_the_target(uri, session_id, monkeypatch):
    monkeypatch.setenv("MEMORYD_URI", uri)
    Memory.from_defaults(session_id=session_id).put(user("one"))
    assert texts(Memory(token_limit=100, session_id=session_id).get()) == ["one"]
    assert texts(ChatStore().get_messages(session_id)) == ["one"]
    buffer = ChatMemoryBuffer.from_defaults(chat_store_key=session_id)
    assert texts(buffer.get()) == ["one"]


@pytest.mark.parametrize(("uri", "said"), [
    ("memoryd://", "names no host"),
    ("memoryd://localhost", "has no port"),
    ("memoryd://user:secret@localhost:1", "token_file"),
    ("memoryd://localhost:1?tsl=true", "no parameter 'tsl'"),
    ("memoryd://localhost:1?tls=maybe", "tls is true or false"),
])
def test_a_bad_uri_is_refused_by_name(uri, said):
    with pytest.raises(ValueError, match=f"async_database_uri.*{said}"):
        ChatStore(async_database_uri=uri)


def test_spaces_keep_keys_apart(uri, session_id):
    stores = [ChatStore(async_database_uri=uri), ChatStore("t", uri),
              ChatStore("t", uri, db_schema="s"), ChatStore("t/s", uri), ChatStore("s", uri),
              ChatStore(async_database_uri=f"{uri}/t")]
    for number, store in enumerate(stores):
        store.add_message(session_id, user(str(number)))
        store.add_message(f"@t@{session_id}", user("at"))
    for number, store in enumerate(stores):
        assert texts(store.get_messages(session_id)) == [str(number)]
        assert texts(store.get_messages(f"@t@{session_id}")) == ["at"]
        assert {session_id, f"@t@{session_id}"} <= set(store.get_keys())
    assert len(stores[1].get_keys()) == len(set(stores[1].get_keys()))


def test_what_the_server_refuses_is_said(uri):
    memory = Memory.from_defaults(session_id="bad\n", async_database_uri=uri)
    with pytest.raises(MemorydError) as caught:
        memory.put(user("one"))
    assert caught.value.field == "session_id"


# The chat store.


def test_a_chat_store_has_both_interfaces(uri, session_id):
    store = ChatStore(async_database_uri=uri)
    assert isinstance(store, (SQLAlchemyChatStore, AsyncDBChatStore))
    assert isinstance(store, BaseChatStore)
    # Outside of an event loop.
    store.set_messages(session_id, [user("a"), user("b"), user("c")])
    assert store.delete_message(session_id, 1).content == "b"
    assert store.delete_message(session_id, 9) is None
    assert store.delete_last_message(session_id).content == "c"
    assert texts(store.get_messages(session_id)) == ["a"]

    async def on_a_loop() -> None:
        await store.add_messages(session_id, [user("d"), user("e")], status=ARCHIVED)
        assert await store.count_messages(session_id) == 1
        assert await store.count_messages(session_id, status=None) == 3
        _, row, _ = await store.row_ids(session_id)
        assert (await store.delete_message(session_id, row)).content == "d"
        assert await store.delete_message(session_id, row) is None
        await store.async_add_message(session_id, user("f"))
        assert texts(await store.aget_messages(session_id)) == ["a", "f"]
        assert texts(await store.archive_oldest_messages(session_id, 1)) == ["a"]
        assert texts(await store.get_messages(session_id, status=None)) == ["a", "e", "f"]
        assert texts(await store.delete_oldest_messages(session_id, 5)) == ["f"]
        await store.delete_messages(session_id, status=ARCHIVED)
        assert session_id not in await store.get_keys()

    asyncio.run(on_a_loop())
    assert [message.content for message in store.delete_messages(session_id)] == []
    assert store.delete_messages(session_id) is None


def test_more_messages_than_a_request_holds(uri, session_id):
    store = ChatStore(async_database_uri=uri)
    many = [user(f"m{i}") for i in range(2300)]
    store.set_messages(session_id, many)
    assert texts(store.get_messages(session_id)) == texts(many)
    store.delete_message(session_id, 1500)
    asyncio.run(store.archive_oldest_messages(session_id, 3))
    assert len(store.get_messages(session_id)) == 2296
    memory = Memory.from_defaults(session_id=session_id, async_database_uri=uri)
    assert len(memory.get_all()) == 2299 and len(memory.get()) == 2296


@pytest.mark.parametrize("refused", [0, 15, 22])
@pytest.mark.parametrize("way", ["put_messages", "set", "add_messages", "set_messages"])
def test_what_is_refused_is_refused_as_a_whole(uri, session_id, monkeypatch, way, refused):
    block = recorder()
    memory = small(uri, session_id, memory_blocks=[block])
    memory.put_messages(turns(3))
    before, fed = texts(memory.get_all()), list(block.fed)
    store = memory.sql_store
    archived = texts(store.get_messages(session_id, status=ARCHIVED))
    wire = Row.wire

    def spoilt(row: Row) -> object:
        made = wire(row)
        if texts([row.chat()]) == [f"m{refused}"]:
            made.role = "a role\n"
        return made

    monkeypatch.setattr(Row, "wire", spoilt)
    monkeypatch.setattr(_requests, "_MAX_ITEMS", 10)
    many = [user(f"m{i}") for i in range(23)]
    with pytest.raises(MemorydError, match=r"INVALID_ARGUMENT.*role"):
        {
            "put_messages": lambda: memory.put_messages(many),
            "set": lambda: memory.set(many),
            "add_messages": lambda: asyncio.run(store.add_messages(session_id, many)),
            "set_messages": lambda: store.set_messages(session_id, many),
        }[way]()
    assert texts(memory.get_all()) == before and block.fed == fed
    assert texts(store.get_messages(session_id, status=ARCHIVED)) == archived


def test_what_others_put_meanwhile_is_not_taken_back(server, uri, session_id, monkeypatch):
    store = ChatStore(async_database_uri=uri)
    store.set_messages(session_id, [user("before")])
    wire = Row.wire

    def spoilt(row: Row) -> object:
        made = wire(row)
        if texts([row.chat()]) == ["m15"]:
            monkeypatch.setattr(Row, "wire", wire)
            added = message("user", "of another")
            added.token_count = 2
            with Client(server.target) as other:
                other.put(store.session_id(session_id), [added])
            made.role = "a role\n"
        return made

    monkeypatch.setattr(Row, "wire", spoilt)
    monkeypatch.setattr(_requests, "_MAX_ITEMS", 10)
    with pytest.raises(MemorydError, match=r"INVALID_ARGUMENT.*role"):
        store.set_messages(session_id, [user(f"m{i}") for i in range(23)])
    assert "of another" in texts(store.get_messages(session_id))


def test_more_messages_than_a_put_holds_leave_at_once(uri, session_id):
    block = recorder()
    memory = small(uri, session_id, memory_blocks=[block], token_flush_size=7)
    library_block = recorder()
    library = LibraryMemory(token_limit=7, token_flush_size=7, chat_history_token_ratio=1.0,
                            tokenizer_fn=str.split, memory_blocks=[library_block])
    many = [user("w") for _ in range(1100)]
    asyncio.run(memory.aput_messages(many))
    asyncio.run(library.aput_messages(many))
    assert block.fed == library_block.fed and len(memory.get_all()) == 1100


def test_the_library_memory_works_over_our_store(uri, session_id):
    store = ChatStore(async_database_uri=uri)
    block = recorder()
    memory = LibraryMemory.from_defaults(
        session_id=session_id, chat_store=store, chat_history=turns(1), token_limit=7,
        token_flush_size=1, chat_history_token_ratio=1.0, tokenizer_fn=str.split,
        memory_blocks=[block])
    memory.put_messages(turns(2, first=1))
    assert block.fed == [["question 0", "answer"]]
    assert len(memory.get_all()) == 6 and store.get_messages(session_id)[0].content == "question 1"


def test_a_store_is_dumped_without_its_messages(uri):
    store = ChatStore("t", uri, db_schema="s")
    dump = json.loads(store.model_dump_json())
    assert dump == {"table_name": "t", "async_database_uri": uri, "db_schema": "s",
                    "class_name": "MemorydChatStore"}
    for loaded in (ChatStore.from_dict(dump), ChatStore.model_validate(store.model_dump()),
                   ChatStore.model_validate_json(store.model_dump_json()), ChatStore(**dump),
                   pickle.loads(pickle.dumps(store))):
        assert loaded.session_id("k") == store.session_id("k") and loaded.client is store.client


def test_a_dump_of_the_librarys_data_is_loaded(session_id):
    store = ChatStore("t", "sqlite+aiosqlite:///:memory:")

    async def fill() -> None:
        await store.add_messages(session_id, turns(1))
        for loaded in (ChatStore.model_validate(store.model_dump()),
                       ChatStore.model_validate_json(store.model_dump_json())):
            assert texts(await loaded.get_messages(session_id)) == texts(turns(1))

    asyncio.run(fill())


def test_the_data_of_a_librarys_store_moves_over(uri, session_id):
    library = SQLAlchemyChatStore("t")

    async def fill() -> None:
        await library.add_messages(session_id, turns(2))
        await library.archive_oldest_messages(session_id, 2)

    asyncio.run(fill())
    store = ChatStore("t", uri, db_data=library.model_dump()["db_data"])
    assert texts(store.get_messages(session_id)) == ["question 1", "answer"]
    assert len(store.get_messages(session_id, status=None)) == 4


# The deprecated memories.


def test_a_buffer_is_there_again(uri, session_id):
    store = ChatStore(async_database_uri=uri)
    buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key=session_id,
                                            token_limit=5, tokenizer_fn=str.split)
    assert isinstance(buffer, LibraryBuffer)
    for each in turns(3):
        buffer.put(each)
    assert texts(buffer.get()) == ["question 2", "answer"]
    loaded = ChatMemoryBuffer.from_string(buffer.to_string())
    assert len(loaded.get_all()) == 6 and loaded.chat_store_key == session_id

    async def on_a_loop() -> None:
        buffer.put(user("more"))
        await buffer.aput(assistant("and more"))
        assert len(buffer.get_all()) == len(await buffer.aget_all()) == 8
        buffer.reset()
        assert await buffer.aget() == []

    asyncio.run(on_a_loop())


def test_a_summary_that_fails_loses_nothing(uri, session_id):
    class Failing(MockLLM):
        def chat(self, messages, **kwargs):
            raise ConnectionError("the model is away")

    store = ChatStore(async_database_uri=uri)
    buffer = ChatSummaryMemoryBuffer.from_defaults(
        chat_history=turns(3), llm=Failing(), chat_store=store, chat_store_key=session_id,
        token_limit=5, tokenizer_fn=str.split)
    with pytest.raises(ConnectionError):
        buffer.get()
    assert len(buffer.get_all()) == 6


def test_vectors_are_made_again_from_the_messages(uri, session_id):
    from llama_index.core import MockEmbedding

    def vectors() -> VectorMemory:
        return VectorMemory.from_defaults(
            embed_model=MockEmbedding(embed_dim=4), retriever_kwargs={"similarity_top_k": 5},
            chat_store=ChatStore(async_database_uri=uri), chat_store_key=session_id)

    first = vectors()
    composed = SimpleComposableMemory.from_defaults(
        primary_memory=ChatMemoryBuffer.from_defaults(), secondary_memory_sources=[first])
    composed.put(user("question"))
    composed.put(assistant("answer"))
    composed.put(user("next"))
    second = vectors()
    assert sorted(texts(second.get("anything"))) == ["answer", "next", "question"]
    second.put(assistant("reply"))
    second.reset()
    assert vectors().get("anything") == []


def vector_memory(**given) -> VectorMemory:
    from llama_index.core import MockEmbedding

    return VectorMemory.from_defaults(
        embed_model=MockEmbedding(embed_dim=4), retriever_kwargs={"similarity_top_k": 9}, **given)


def seen(memory: BaseMemory) -> list[str | None]:
    return texts(memory.get("anything"))


# Everything that makes a memory; none names a session.
MADE_WITHOUT_A_KEY = {
    "Memory": lambda: Memory(token_limit=100),
    "Memory.from_defaults": lambda: Memory.from_defaults(token_limit=100),
    "Memory.from_dict": lambda: Memory.from_dict({"token_limit": 100}),
    "ChatMemoryBuffer": lambda: ChatMemoryBuffer(token_limit=100),
    "ChatMemoryBuffer.from_defaults": lambda: ChatMemoryBuffer.from_defaults(),
    "ChatMemoryBuffer.from_dict": lambda: ChatMemoryBuffer.from_dict({"token_limit": 100}),
    "ChatMemoryBuffer.from_string": lambda: ChatMemoryBuffer.from_string('{"token_limit": 100}'),
    "ChatMemoryBuffer.model_validate": lambda: ChatMemoryBuffer.model_validate(
        {"token_limit": 100}),
    "ChatSummaryMemoryBuffer": lambda: ChatSummaryMemoryBuffer(token_limit=100),
    "ChatSummaryMemoryBuffer.from_defaults": lambda: ChatSummaryMemoryBuffer.from_defaults(),
    "ChatSummaryMemoryBuffer.from_dict": lambda: ChatSummaryMemoryBuffer.from_dict(
        {"token_limit": 100}),
    "ChatSummaryMemoryBuffer.from_string": lambda: ChatSummaryMemoryBuffer.from_string(
        '{"token_limit": 100}'),
    "VectorMemory.from_defaults": vector_memory,
    "VectorMemory of a store": lambda: vector_memory(chat_store=ChatStore()),
    "SimpleComposableMemory.from_defaults": lambda: SimpleComposableMemory.from_defaults(),
    "SimpleComposableMemory": lambda: SimpleComposableMemory(
        primary_memory=ChatMemoryBuffer.from_defaults(),
        secondary_memory_sources=[vector_memory()]),
}


@pytest.mark.parametrize("make", MADE_WITHOUT_A_KEY.values(), ids=MADE_WITHOUT_A_KEY)
def test_memories_without_a_key_share_nothing(uri, monkeypatch, make):
    monkeypatch.setenv("MEMORYD_URI", uri)
    alice, bob = make(), make()
    alice.put(user("alice: my PIN is 1234"))
    assert seen(bob) == []
    assert "alice: my PIN is 1234" in seen(alice)
    bob.put(user("bob"))
    assert seen(bob) == ["bob"] and "bob" not in seen(alice)


@pytest.mark.parametrize("load", [
    lambda memory: type(memory).from_dict(json.loads(json.dumps(memory.to_dict()))),
    lambda memory: type(memory).model_validate(memory.model_dump()),
    lambda memory: type(memory)(**memory.model_dump()),
    lambda memory: pickle.loads(pickle.dumps(memory)),
    lambda memory: copy.deepcopy(memory),
], ids=["from_dict", "model_validate", "constructor", "pickle", "deepcopy"])
@pytest.mark.parametrize("make", [
    ChatMemoryBuffer.from_defaults, ChatSummaryMemoryBuffer.from_defaults,
    SimpleComposableMemory.from_defaults])
def test_a_dump_keeps_the_key_of_its_memory(uri, monkeypatch, make, load):
    monkeypatch.setenv("MEMORYD_URI", uri)
    memory = make()
    memory.put(user("kept"))
    monkeypatch.setenv("MEMORYD_URI", f"{uri}/elsewhere")
    assert seen(load(memory)) == ["kept"] and type(load(memory)) is type(memory)


def test_a_dump_of_a_vector_memory_keeps_its_key_and_its_store(uri, monkeypatch):
    monkeypatch.setenv("MEMORYD_URI", uri)
    memory = vector_memory()
    memory.put(user("kept"))
    monkeypatch.delenv("MEMORYD_URI")
    loaded = VectorMemory.from_dict(memory.to_dict())
    assert loaded.chat_store_key == memory.chat_store_key and seen(loaded) == ["kept"]
    loaded.put(user("more"))
    assert texts(memory.chat_store.get_messages(memory.chat_store_key)) == ["kept", "more"]


def test_a_key_that_is_given_is_shared_also_when_it_is_the_default(uri, monkeypatch, session_id):
    monkeypatch.setenv("MEMORYD_URI", f"{uri}/{session_id}")
    for make in (ChatMemoryBuffer.from_defaults, ChatSummaryMemoryBuffer.from_defaults):
        given = {"chat_store_key": "chat_history"}
        make(**given).put(user("said"))
        assert seen(make(**given)) == ["said"]
        make(**given).reset()
    # Who gives a store names the place.
    store = ChatStore()
    ChatMemoryBuffer.from_defaults(chat_store=store).put(user("said"))
    assert seen(ChatMemoryBuffer.from_defaults(chat_store=store)) == ["said"]


def test_without_memoryd_the_key_is_the_librarys():
    for make in (ChatMemoryBuffer.from_defaults, ChatSummaryMemoryBuffer.from_defaults):
        memory = make()
        assert memory.chat_store_key == "chat_history"
        assert type(memory.chat_store) is SimpleChatStore
        memory.put(user("one"))
        assert seen(memory) == ["one"] and seen(make()) == []


def test_ways_to_a_server_that_differ_share_no_client(uri, tmp_path, monkeypatch):
    def client(parameters: str = "", **given: object) -> object:
        return ChatStore("t", f"{uri}{parameters}", **given).client

    assert client() is client() is ChatStore("other", uri, db_schema="s").client
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name in "ab":
        (tmp_path / name / "ca.pem").write_text(name)
        (tmp_path / name / "token").write_text(name)
    ways = [client("?timeout=1"), client("?tls=true"), client(token="one"), client(token="one"),
            client(credentials=grpc.local_channel_credentials()), client()]
    # The same words mean other files in another folder.
    for folder in "ab":
        monkeypatch.chdir(tmp_path / folder)
        ways += [client("?ca_file=ca.pem"), client("?token_file=token")]
    (tmp_path / "b" / "ca.pem").write_text("renewed")
    ways.append(client("?ca_file=ca.pem"))
    assert len(set(map(id, ways))) == len(ways)
    assert client("?ca_file=ca.pem") is ways[-1]


def test_what_a_memory_starts_does_not_keep_it(uri, session_id):
    def run() -> weakref.ref[Memory]:
        memory = small(uri, session_id, memory_blocks=[recorder()])

        async def ask() -> None:
            agent = agent_of("agent", Talker())
            await agent.run("first", ctx=Context(agent), memory=memory)

        asyncio.run(ask())
        return weakref.ref(memory)

    gone = run()
    gc.collect()
    assert gone() is None


# Documentation, restarts, and the example.


def test_the_documentation_runs_as_it_stands(server):
    document = paths.REPOSITORY / "clients" / "python" / "LLAMA_INDEX.md"
    code, = code_of(document, "python", server.target)
    exec(compile(code, document.name, "exec"), {})


def test_a_memory_goes_on_over_a_restart_of_the_server(store):
    with Server(store) as server:
        block = FactExtractionMemoryBlock(name="facts", llm=ScriptedLLM())
        memory = small(f"memoryd://{server.target}", "s", memory_blocks=[block])
        memory.put_messages(turns(3))
        server.kill()
        with Server(store, listen=server.target):
            memory.put_messages(turns(1, first=3))
            wait_for(lambda: block.facts == ["fact 1", "fact 2"])
            assert len(memory.get_all()) == 8


def test_the_example_keeps_its_memory(uri, session_id):
    example = paths.REPOSITORY / "examples" / "llama_index_agent.py"
    assert len(example.read_text().splitlines()) <= 40
    package = pathlib.Path(paths.REPOSITORY, "clients", "python", "src")

    def run(text: str) -> str:
        return subprocess.run(
            [sys.executable, str(example), uri, session_id, text], check=True, text=True,
            stdout=subprocess.PIPE, env={"PYTHONPATH": str(package), "PATH": ""}).stdout

    assert run("My name is Alice.") == "You said: My name is Alice.\n"
    assert run("And now?") == "You said: My name is Alice. / And now?\n"
