"""The importer of LlamaIndex' tables: what its store wrote and reads, memoryd's store reads."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.memory import Memory as LibraryMemory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.ext.asyncio import create_async_engine

from support.importing import run, source_database

from memoryd import Client
from memoryd.llama_index import ChatStore, Memory
from memoryd.v1 import memory_pb2 as memory

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
TABLE = "llama_index_memory"

EVERY_KIND = [
    ChatMessage(role="system", content="be kind"),
    ChatMessage(role="user", content="naïve 🙂 日本語 \u202eright to left"),
    ChatMessage(role="user", content=""),
    ChatMessage(role="user", content=None),
    ChatMessage(role="user", blocks=[]),
    ChatMessage(role="assistant", content=None, additional_kwargs={
        "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{\"x\": 1}"}}],
        "n": 1.0, "one": 1, "none": None, "é": ["z", {"b": 1, "a": 2}]}),
    ChatMessage(role="assistant", blocks=[
        TextBlock(text="a"), TextBlock(text="b"),
        ToolCallBlock(tool_call_id="c1", tool_name="f", tool_kwargs={"x": 1.0, "y": [None]}),
        ToolCallBlock(tool_name="g", tool_kwargs="no json"),
        ThinkingBlock(content="hm", num_tokens=3, additional_information={"signature": "s"})]),
    ChatMessage(role="tool", content="42", additional_kwargs={"tool_call_id": "c1"}),
    ChatMessage(role="user", blocks=[
        ImageBlock(image=b"\x89PNG\r\n\x1a\n", image_mimetype="image/png"),
        ImageBlock(url="https://example.org/a.png", detail="low"),
        DocumentBlock(data=b"text", title="t", document_mimetype="text/plain"),
        CitationBlock(cited_content=TextBlock(text="said"), source="s", title="t",
                      additional_location_info={"page": 1})]),
    ChatMessage(role="developer", content="d"),
    ChatMessage(role="model", content="m"),
]


def turns(count: int) -> list[ChatMessage]:
    return [ChatMessage(role=("user", "assistant")[i % 2], content=f"m{i}") for i in range(count)]


@pytest.fixture(params=("sqlite", "postgresql"))
def url(request, tmp_path):
    with source_database(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def prefix(session_id) -> str:
    return f"{session_id}/"


def written(url: str, **options) -> SQLAlchemyChatStore:
    scheme, _, rest = url.partition("://")
    return SQLAlchemyChatStore(async_database_uri=f"{DRIVERS[scheme]}://{rest}",
                               **{"table_name": TABLE, **options})


def at_work(work):
    """Runs a coroutine function with one store of the library's, on a loop of its own."""
    return asyncio.run(work())


def test_its_store_and_ours_read_the_same(server, url, prefix):
    read: dict[str, dict] = {}

    async def fill():
        store = written(url)
        await store.add_messages("every kind", EVERY_KIND)
        await store.add_messages("long", turns(1200))
        # Ids with gaps, and keys by turns.
        for number in range(6):
            await store.add_message("one", turns(6)[number])
            await store.add_message("@other", turns(6)[number])
        await store.archive_oldest_messages("long", 700)
        await store.archive_oldest_messages("one", 2)
        await store.add_message("one", ChatMessage(role="user", content="late"), ARCHIVED)
        await store.add_message("one", ChatMessage(role="user", content="last"))
        await store.add_message("all archived", ChatMessage(role="user", content="x"), ARCHIVED)
        for key in await store.get_keys():
            read[key] = {status: await store.get_messages(key, status)
                         for status in (ACTIVE, ARCHIVED, None)}
        dump = await store._dump_db_data()
        # Reads in its order, as the memory of the next process would.
        memory_of_key = LibraryMemory.from_defaults(session_id="long", chat_store=store)
        read["memory"] = {None: await memory_of_key.aget()}
        await store._async_engine.dispose()
        return dump

    dump = at_work(fill)
    done = run("llama-index", "--database", written(url).async_database_uri, "--target",
               server.target, "--session-prefix", prefix)
    assert done.code == 0, done.lines
    assert done.summary == "5 sessions imported, 0 there before, 0 failed"
    assert done.line("long") == "imported  long: 1200 messages"

    store = ChatStore(async_database_uri=f"memoryd://{server.target}")
    of_memory = read.pop("memory")[None]
    assert len(read) == 5
    for key, by_status in read.items():
        for status, messages in by_status.items():
            assert store.get_messages(prefix + key, status) == messages, (key, status)
    assert set(store.get_keys()) >= {prefix + key for key in read}
    assert Memory.from_defaults(session_id=f"{prefix}long", chat_store=store).get() == of_memory

    with Client(server.target) as client:
        for key in read:
            rows = sorted((row for row in dump if row["key"] == key),
                          key=lambda row: row["timestamp"])
            stored = list(client.get_all(store.session_id(prefix + key)))
            times = [row["timestamp"] for row in rows]
            assert [m.ingest_time.ToNanoseconds() // 1000 for m in stored] == [
                time // 1000 for time in times]
            assert [m.create_time.ToNanoseconds() for m in stored] == times
            made = client.get_session(store.session_id(prefix + key))
            assert made.create_time.ToNanoseconds() // 1000 == times[0] // 1000
        assert [m.status for m in client.get_all(f"{prefix}long")] == (
            [memory.MESSAGE_STATUS_ARCHIVED] * 700 + [memory.MESSAGE_STATUS_ACTIVE] * 500)


def test_rows_keep_the_ids_by_which_they_are_deleted(server, url, prefix):
    async def fill():
        store = written(url)
        for number in range(4):
            await store.add_message("a", ChatMessage(role="user", content=f"a{number}"))
            await store.add_message("b", ChatMessage(role="user", content=f"b{number}"))
        # The id of b2, whose place in the order is another's.
        return await store.delete_message("b", 6)

    assert at_work(fill).content == "b2"
    assert run("llama-index", "--database", url, "--target", server.target,
               "--session-prefix", prefix).code == 0

    async def delete():
        store = ChatStore(async_database_uri=f"memoryd://{server.target}")
        key = f"{prefix}b"
        assert await store.row_ids(key) == [2, 4, 8]
        await store.add_message(key, ChatMessage(role="user", content="new"))
        assert len(set(await store.row_ids(key))) == 4
        assert await store.delete_message(key, 6) is None
        assert (await store.delete_message(key, 4)).content == "b1"
        return [message.content for message in await store.get_messages(key)]

    assert asyncio.run(delete()) == ["b0", "b3", "new"]


def test_another_table_and_schema_are_a_space_of_their_own(server, session_id):
    with source_database("postgresql", None) as url:
        async def fill():
            store = written(url, table_name="other %", db_schema="Mine")
            await store.add_messages(session_id, turns(3))

        at_work(fill)
        at = ("llama-index", "--database", url, "--target", server.target)
        assert run(*at, "--table", "other %", "--schema", "Mine").code == 0
        uri = f"memoryd://{server.target}"
        assert ChatStore("other %", uri, db_schema="Mine").get_messages(session_id) == turns(3)
        assert ChatStore(async_database_uri=uri).get_messages(session_id) == []
        missing = run(*at)
        assert missing.code == 2
        assert '"llama_index_memory" is no table of SQLAlchemyChatStore' in missing.error


def test_a_dump_of_an_engine_of_its_own_is_read_too(server, tmp_path, session_id):
    # In a journal mode other than the default one, while the library is at work.
    async def work():
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'wal.db'}")
        async with engine.connect() as connection:
            await connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        store = SQLAlchemyChatStore(TABLE, async_engine=engine)
        await store.add_messages(session_id, turns(2))
        done = await asyncio.to_thread(
            run, "llama-index", "--database", str(tmp_path / "wal.db"), "--target", server.target)
        await store.add_messages(session_id, turns(2))
        await engine.dispose()
        return done

    assert asyncio.run(work()).code == 0
    store = ChatStore(async_database_uri=f"memoryd://{server.target}")
    assert store.get_messages(session_id) == turns(2)
