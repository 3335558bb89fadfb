"""What one user of a library in Python does over and over, and so many of them at once.

A user is a function that makes a session of its own and returns the call that is repeated; what it
opens goes to the exit stack it gets.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import multiprocessing
import pathlib
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import processes
from bench import MESSAGE_BYTES, Sample

TEXT = "What is said here has eighty-eight bytes, as many as in the other figures of this page.."
assert len(TEXT) == MESSAGE_BYTES

User = Callable[[contextlib.ExitStack], Callable[[], object]]
AsyncUser = Callable[[contextlib.AsyncExitStack], Awaitable[Callable[[], Awaitable[object]]]]


def threads(user: User, callers: int, seconds: float) -> Sample:
    with contextlib.ExitStack() as stack, \
            concurrent.futures.ThreadPoolExecutor(callers) as pool:
        calls = [user(stack) for _ in range(callers)]
        for call in calls:
            call()
        begin = time.perf_counter()

        def repeat(call: Callable[[], object]) -> list[float]:
            latencies, last = [], time.perf_counter()
            while last < begin + seconds:
                call()
                now = time.perf_counter()
                latencies.append((now - last) * 1e6)
                last = now
            return latencies

        latencies = list(itertools.chain(*pool.map(repeat, calls)))
        return _sample(latencies, time.perf_counter() - begin)


def coroutines(user: AsyncUser, callers: int, seconds: float,
               clocks: Callable[[], Sequence[float]] | None = None) -> Sample:
    """With `clocks`, `spent` of the sample is how far each of them has gone on a call."""
    async def measure() -> Sample:
        async with contextlib.AsyncExitStack() as stack:
            calls = [await user(stack) for _ in range(callers)]
            for call in calls:
                await call()
            before = clocks() if clocks else ()
            begin = time.perf_counter()

            async def repeat(call: Callable[[], Awaitable[object]]) -> list[float]:
                latencies, last = [], time.perf_counter()
                while last < begin + seconds:
                    await call()
                    now = time.perf_counter()
                    latencies.append((now - last) * 1e6)
                    last = now
                return latencies

            latencies = list(itertools.chain(*await asyncio.gather(*map(repeat, calls))))
            sample = _sample(latencies, time.perf_counter() - begin)
            if clocks:
                sample["spent"] = [(after - first) / len(latencies)
                                   for first, after in zip(before, clocks(), strict=True)]
            return sample

    return asyncio.run(measure())


def two_processes(make: Callable[..., AsyncUser], arguments: tuple, callers: int,
                  seconds: float) -> Sample:
    """coroutines() in each of two processes, for what one interpreter alone would hold back."""
    context = multiprocessing.get_context("spawn")
    both, results = context.Barrier(2), context.SimpleQueue()
    running = [context.Process(target=_in_process,
                               args=(make, arguments, callers // 2, seconds, both, results))
               for _ in range(2)]
    for process in running:
        process.start()
    for process in running:
        process.join()
        if process.exitcode != 0:
            raise RuntimeError(f"a process ended with {process.exitcode}")
    samples = [results.get() for _ in running]
    return {"ops_per_second": sum(sample["ops_per_second"] for sample in samples),
            **{name: max(sample[name] for sample in samples)
               for name in ("p50_us", "p99_us", "p999_us")}}


def _in_process(make, arguments, callers, seconds, both, results) -> None:
    user = make(*arguments)
    coroutines(user, callers, 0.1)  # What it imports at the first use is there after it.
    both.wait()
    results.put(coroutines(user, callers, seconds))


def _sample(latencies: list[float], seconds: float) -> Sample:
    return {"ops_per_second": len(latencies) / seconds, **processes.percentiles(latencies)}


def expect(count: int, found: Any) -> None:
    if len(found) != count:
        raise AssertionError(f"{len(found)} messages, not {count}")


# LlamaIndex: `memory` makes a Memory, theirs or ours.


def llama_put(memory: Callable[..., Any], messages: int = 1, before: int = 0) -> AsyncUser:
    async def user(stack: contextlib.AsyncExitStack) -> Callable[[], Awaitable[object]]:
        from llama_index.core.llms import ChatMessage

        made = memory(stack)
        message = ChatMessage(role="user", content=TEXT)
        if before:
            await made.aput_messages([message] * before)
        if messages == 1:
            return lambda: made.aput(message)
        return lambda: made.aput_messages([message] * messages)

    return user


def llama_get(memory: Callable[..., Any], messages: int) -> AsyncUser:
    async def user(stack: contextlib.AsyncExitStack) -> Callable[[], Awaitable[object]]:
        from llama_index.core.llms import ChatMessage

        made = memory(stack)
        await made.aput_messages([ChatMessage(role="user", content=TEXT)] * messages)

        async def read() -> None:
            expect(messages, await made.aget())

        return read

    return user


def llama_library(database: str) -> Callable[..., Any]:
    from llama_index.core.memory import Memory
    from sqlalchemy.ext.asyncio import create_async_engine

    def memory(stack: contextlib.AsyncExitStack) -> Any:
        # One each, as Memory makes for itself out of a URI; its connections are closed here.
        engine = create_async_engine(database.replace("postgresql://", "postgresql+asyncpg://"))
        stack.push_async_callback(engine.dispose)
        return Memory.from_defaults(session_id=str(uuid.uuid4()), async_engine=engine)

    return memory


def llama_memoryd(target: str) -> Callable[..., Any]:
    from memoryd.llama_index import Memory

    return lambda _: Memory.from_defaults(session_id=str(uuid.uuid4()),
                                          async_database_uri=f"memoryd://{target}")


# LangChain: `history` makes a chat history by session, theirs or ours.


def langchain_put(history: Callable[..., Any]) -> User:
    def user(stack: contextlib.ExitStack) -> Callable[[], object]:
        from langchain_core.messages import HumanMessage

        made = history(str(uuid.uuid4()), stack)
        return lambda: made.add_messages([HumanMessage(TEXT)])

    return user


def langchain_aput(history: Callable[..., Awaitable[Any]]) -> AsyncUser:
    async def user(stack: contextlib.AsyncExitStack) -> Callable[[], Awaitable[object]]:
        from langchain_core.messages import HumanMessage

        made = await history(str(uuid.uuid4()), stack)
        return lambda: made.aadd_messages([HumanMessage(TEXT)])

    return user


def langchain_aget(history: Callable[..., Awaitable[Any]], messages: int) -> AsyncUser:
    async def user(stack: contextlib.AsyncExitStack) -> Callable[[], Awaitable[object]]:
        from langchain_core.messages import HumanMessage

        made = await history(str(uuid.uuid4()), stack)
        await made.aadd_messages([HumanMessage(TEXT) for _ in range(messages)])

        async def read() -> None:
            expect(messages, await made.aget_messages())

        return read

    return user


def langchain_library(database: str) -> Callable[..., Any]:
    import psycopg
    from langchain_postgres import PostgresChatMessageHistory

    def history(session_id: str, stack: contextlib.ExitStack) -> Any:
        connection = stack.enter_context(psycopg.connect(database))
        return PostgresChatMessageHistory("history", session_id, sync_connection=connection)

    return history


def langchain_alibrary(database: str) -> Callable[..., Awaitable[Any]]:
    import psycopg
    from langchain_postgres import PostgresChatMessageHistory

    async def history(session_id: str, stack: contextlib.AsyncExitStack) -> Any:
        connection = await psycopg.AsyncConnection.connect(database)
        await stack.enter_async_context(connection)
        return PostgresChatMessageHistory("history", session_id, async_connection=connection)

    return history


def langchain_create_table(database: str) -> None:
    import psycopg
    from langchain_postgres import PostgresChatMessageHistory

    with psycopg.connect(database) as connection:
        PostgresChatMessageHistory.create_tables(connection, "history")


def langchain_library_put(database: str) -> AsyncUser:
    """For a process of its own, which imports the library itself."""
    return langchain_aput(langchain_alibrary(database))


def langchain_library_get(database: str, messages: int) -> AsyncUser:
    return langchain_aget(langchain_alibrary(database), messages)


def langchain_memoryd(target: str) -> Callable[..., Any]:
    from memoryd.langchain import ChatMessageHistory

    return lambda session_id, _: ChatMessageHistory(session_id, target=target)


def langchain_amemoryd(target: str) -> Callable[..., Awaitable[Any]]:
    from memoryd.langchain import ChatMessageHistory

    async def history(session_id: str, _: contextlib.AsyncExitStack) -> Any:
        return ChatMessageHistory(session_id, target=target)

    return history


# LangGraph's store: an item a message, in a namespace a session, over one pool of connections.


def langgraph(database: str, callers: int, read: int = 0) -> AsyncUser:
    stores: list[Any] = []

    async def user(stack: contextlib.AsyncExitStack) -> Callable[[], Awaitable[object]]:
        from langgraph.store.postgres import AsyncPostgresStore

        if not stores:
            opened = AsyncPostgresStore.from_conn_string(
                database, pool_config={"min_size": callers, "max_size": callers})
            stores.append(await stack.enter_async_context(opened))
            stack.callback(stores.clear)
            await stores[0].setup()
        store, namespace = stores[0], ("sessions", str(uuid.uuid4()))

        async def put() -> None:
            await store.aput(namespace, str(uuid.uuid4()), {"role": "user", "content": TEXT})

        async def get() -> None:
            expect(read, await store.asearch(namespace, limit=read))

        for _ in range(read):
            await put()
        return get if read else put

    return user


# mem0 with infer=False, on the store that it has by default, which lies in a folder.


class _Embedder:
    """Answers at once: a model is not what is measured."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return [float(byte) for byte in text[-8:].encode()]

    def embed_batch(self, texts: list[str], memory_action: str = "add") -> list[list[float]]:
        return [self.embed(text) for text in texts]


def mem0(folder: pathlib.Path, read: int = 0) -> User:
    def user(stack: contextlib.ExitStack) -> Callable[[], object]:
        from mem0 import Memory

        own = folder / f"mem0-{uuid.uuid4()}"
        memory = Memory.from_config({
            "vector_store": {"provider": "qdrant", "config": {
                "path": str(own), "embedding_model_dims": 8, "on_disk": True}},
            "history_db_path": str(own) + ".db",
            "llm": {"provider": "openai", "config": {"api_key": "none"}},
            "embedder": {"provider": "openai", "config": {"api_key": "none"}}})
        memory.embedding_model = _Embedder()
        stack.callback(memory.vector_store.client.close)
        count = 0

        def put() -> None:
            nonlocal count
            count += 1
            # Not twice the same: it may leave out what it has.
            text = f"{TEXT[:-8]}{count:8}"
            memory.add([{"role": "user", "content": text}], user_id="user", infer=False)

        def get() -> None:
            expect(read, memory.get_all(filters={"user_id": "user"}, top_k=read)["results"])

        for _ in range(read):
            put()
        return get if read else put

    return user
