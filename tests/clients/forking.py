#!/usr/bin/env python3
"""A process that uses a client and then forks; test_forks.py runs one for each case.

usage: forking.py CASE TARGET SESSION

Exits 0 when everything went as it should.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable

CASE, TARGET, SESSION = sys.argv[1:] if __name__ == "__main__" else ("", "", "")

if CASE.startswith("gevent"):
    if CASE.endswith("behind"):
        import memoryd  # noqa: F401  (before the patches)
    from gevent import monkey
    monkey.patch_all()
if CASE.startswith("grpc first"):
    import grpc  # noqa: F401  (before memoryd)

from memoryd import AsyncClient, Client, MemorydError, Worker, message

# A child that hangs is ended by then, and fails.
HANGING_SECONDS = 30
CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__.replace("_", " ")] = function
    return function


def exit_code(work: Callable[[], object]) -> int:
    """What a child comes to that does this and ends without more ado: 0 unless it raises."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(HANGING_SECONDS)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_child(work: Callable[[], object]) -> None:
    code = exit_code(work)
    assert code == 0, code


def raises(part: str, work: Callable[[], object]) -> None:
    try:
        work()
    except (MemorydError, RuntimeError) as error:
        assert part in str(error), error
    else:
        raise AssertionError("nothing was raised")


def client() -> Client:
    return Client(TARGET, timeout=20)


def async_client() -> AsyncClient:
    return AsyncClient(TARGET, timeout=20)


def put(memory: Client) -> None:
    memory.put(SESSION, [message("user", "x")])


def aput(memory: AsyncClient) -> None:
    async def main() -> None:
        await memory.put(SESSION, [message("user", "x")])

    asyncio.run(main())


def count() -> int:
    return client().count_messages(SESSION)


@case
def clients() -> None:
    before, async_before = client(), async_client()
    put(before)
    aput(async_before)
    in_child(lambda: put(before))
    in_child(lambda: put(client()))
    in_child(lambda: aput(async_before))
    in_child(lambda: aput(async_client()))

    def all_of_them() -> None:
        for memory in (before, client()):
            put(memory)
        for memory in (async_before, async_client()):
            aput(memory)

    def and_so_does_its_child() -> None:
        all_of_them()
        in_child(all_of_them)

    in_child(and_so_does_its_child)
    # The parent's connections are as they were.
    all_of_them()
    assert count() == 2 + 4 + 8 + 4


@case
def clients_never_used_before() -> None:
    before, async_before = client(), async_client()
    in_child(lambda: put(before))
    in_child(lambda: aput(async_before))
    put(before)
    aput(async_before)
    assert count() == 4


@case
def closing() -> None:
    """A child that leaves what its parent is in."""
    memory, worker = client(), Worker(TARGET, name=SESSION, models={"chat": lambda m, n: "x"})
    async_memory = async_client()

    async def close() -> None:
        await async_memory.close()

    with memory, worker:
        put(memory)
        aput(async_memory)
        pid = os.fork()
        if pid == 0:
            signal.alarm(HANGING_SECONDS)
            asyncio.run(close())
    if pid == 0:
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, code
    put(client())
    aput(async_memory)


@case
def children_that_make_no_call() -> None:
    put(client())
    aput(async_client())
    with Worker(TARGET, name=SESSION, models={"chat": lambda m, n: "x"}):
        in_child(lambda: None)
        assert exit_code(lambda: os._exit(3)) == 3
        pid = os.fork()
        if pid == 0:
            signal.alarm(HANGING_SECONDS)
            sys.exit(7)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == 7, code
        put(client())


@case
def pools() -> None:
    global _shared, _async_shared
    _shared, _async_shared = client(), async_client()
    put(_shared)
    aput(_async_shared)
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=_put_both)
    process.start()
    process.join()
    assert process.exitcode == 0
    with fork.Pool(2) as pool:
        pool.map(_put_both, range(6))
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=fork) as executor:
        list(executor.map(_put_both, range(6)))
    assert count() == 2 + 2 * 13


def _put_both(_: object = None) -> None:
    put(_shared)
    aput(_async_shared)


@case
def calls_of_other_threads() -> None:
    """Each is done once, whatever the forks."""
    memory, async_memory = client(), async_client()
    stop = threading.Event()
    done: list[int] = []

    def keep_putting() -> None:
        while not stop.is_set():
            put(memory)
            done.append(1)

    async def keep_putting_async() -> None:
        while not stop.is_set():
            await async_memory.put(SESSION, [message("user", "x")])
            done.append(1)

    async def several() -> None:
        await asyncio.gather(*(keep_putting_async() for _ in range(3)))

    threads = [threading.Thread(target=keep_putting) for _ in range(2)]
    threads.append(threading.Thread(target=lambda: asyncio.run(several())))
    for thread in threads:
        thread.start()
    children = 0
    for _ in range(4):
        in_child(lambda: None)
        in_child(lambda: put(memory))
        in_child(lambda: put(client()))
        in_child(lambda: aput(async_memory))
        in_child(lambda: aput(async_client()))
        children += 4
    stop.set()
    for thread in threads:
        thread.join()
    assert count() == len(done) + children


@case
def items_of_event_loops() -> None:
    """Threads wait for them inside gRPC, in each process its own. Each is stored once."""
    memory = async_client()
    stop = threading.Event()
    path = ("forks", SESSION)

    async def raise_counter(key: str, times: int) -> None:
        for _ in range(times):
            found = await memory.get_item(path, key)
            count, version = (found.value, found.version) if found else (0, 0)
            await memory.put_item(path, key, count + 1, expected_version=version)

    async def several(name: str, times: int) -> None:
        await asyncio.gather(*(raise_counter(f"{name}{at}", times) for at in range(3)))
        found = [item.value async for item in memory.list_items(path, key_prefix=name)]
        assert len(found) == 3 and len(set(found)) == 1, found

    rounds = 0

    def keep_storing() -> None:
        nonlocal rounds
        while not stop.is_set():
            asyncio.run(several("parent", 2))
            rounds += 1

    thread = threading.Thread(target=keep_storing)
    thread.start()
    for child in range(6):
        in_child(lambda name=f"child{child}": asyncio.run(several(name, 2)))
    stop.set()
    thread.join()
    asyncio.run(several("parent", 1))
    found = asyncio.run(memory.get_item(path, "parent0"))
    assert found is not None and found.value == 2 * rounds + 1


@case
def a_call_that_waits() -> None:
    """The server answers only a Put that comes again, or one of asyncio's at CountMessages."""
    answers: list[object] = []
    memory, async_memory = client(), async_client()
    waiting = threading.Thread(target=lambda: answers.append(memory.put("sync", request_id="r")))

    async def wait() -> None:
        answers.append(await async_memory.put("async", request_id="a"))

    async_waiting = threading.Thread(target=lambda: asyncio.run(wait()))
    waiting.start()
    async_waiting.start()
    memory.get_session("both are there")
    in_child(lambda: client().get_session("x"))
    waiting.join()
    in_child(lambda: memory.get_session("x"))
    memory.get_session("answer the other")
    async_waiting.join()
    assert len(answers) == 2


@case
def a_child_that_forks_at_once() -> None:
    """While another thread of it makes its first call, which asks whether gRPC works there."""
    memory = client()
    put(memory)
    children = 4

    def child() -> None:
        calling = threading.Thread(target=lambda: put(memory))
        calling.start()
        in_child(lambda: put(memory))
        calling.join()

    for _ in range(children):
        in_child(child)
    assert count() == 1 + 2 * children


@case
def a_call_that_has_no_time() -> None:
    """Is no sign that gRPC does not work."""
    memory = client()
    put(memory)

    def child() -> None:
        raises("DEADLINE_EXCEEDED", lambda: memory.get_session(SESSION, timeout=1e-9))
        put(memory)

    in_child(child)
    assert count() == 2


@case
def iterators() -> None:
    memory = client()
    for _ in range(5):
        memory.put(SESSION, [message("user", "word " * 800) for _ in range(500)])
    pages, stream = memory.get_all(SESSION, page_size=100), memory.stream_all(SESSION)
    next(pages)
    next(stream)

    def read() -> None:
        assert (len(list(pages)), len(list(stream))) == (2499, 2499)

    in_child(read)
    read()


@case
def workers() -> None:
    """The server asks the worker `parent` for a chat when its session is got. SESSION is a server
    for the child's."""
    worker = Worker(TARGET, name="parent", models={"chat": lambda m, n: str(os.getpid())})
    unused = Worker(SESSION, name="child", models={"chat": lambda m, n: "x"})

    def child() -> None:
        raises("forked from", worker.run)
        raises("forked from", worker.start)
        worker.close()
        with unused:
            pass
        with Worker(SESSION, name="child", models={"chat": lambda m, n: str(os.getpid())}):
            said = Client(SESSION, timeout=20).get_session("child").session_id
            assert said == str(os.getpid())

    with worker:
        in_child(child)
        # Its stream is the one that it had.
        assert client().get_session("parent").session_id == str(os.getpid())


# Where gRPC can't work.


def _refused(sentence: str, seconds: float) -> None:
    memory, async_memory = Client(TARGET, timeout=seconds), AsyncClient(TARGET, timeout=seconds)
    put(memory)
    aput(async_memory)
    in_child(lambda: raises(sentence, lambda: put(memory)))
    in_child(lambda: raises(sentence, lambda: put(Client(TARGET))))
    in_child(lambda: raises(sentence, lambda: aput(async_memory)))
    in_child(lambda: raises(sentence, lambda: aput(AsyncClient(TARGET))))
    in_child(lambda: raises(sentence, lambda: list(memory.stream_all(SESSION))))
    in_child(lambda: raises(sentence, Worker(
        TARGET, name=SESSION, models={"chat": lambda m, n: "x"}).run))
    pid = os.fork()
    if pid == 0:  # Ends as programs do, with what it has of the parent's.
        signal.alarm(HANGING_SECONDS)
        raises(sentence, lambda: put(memory))
        raises(sentence, lambda: aput(async_memory))
        sys.exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 7, code
    put(memory)
    aput(async_memory)


@case
def support_is_off() -> None:
    _refused("set GRPC_ENABLE_FORK_SUPPORT=1", 20)


@case
def grpc_first() -> None:
    _refused("where it is imported first", 20)


@case
def support_is_off_and_nothing_was_called() -> None:
    clients_never_used_before()


# Adapters.


@case
def llama_index() -> None:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemoryBlock

    from memoryd.llama_index import ChatStore, Memory

    class Heard(BaseMemoryBlock[str]):
        heard: list[str] = Field(default_factory=list)

        async def _aget(self, messages=None, **_):
            return f"{os.getpid()} heard {self.heard}"

        async def _aput(self, messages):
            self.heard.extend(str(m.content) for m in messages)

    uri = f"memoryd://{TARGET}?timeout=20"
    chats = [ChatMessage(role="user", content=c) for c in "abcd"]

    def memory(name: str, **fields: object) -> Memory:
        return Memory.from_defaults(session_id=SESSION + name, async_database_uri=uri, **fields)

    plain = memory("plain")
    with_block = memory("block", token_limit=4, token_flush_size=1, chat_history_token_ratio=0.5,
                        tokenizer_fn=list, memory_blocks=[Heard(name="heard")])
    store = ChatStore(async_database_uri=uri)
    plain.put(chats[0])
    store.add_message(SESSION + "store", chats[0])
    with_block.put_messages(chats[:3])
    assert with_block.memory_blocks[0].heard
    heard = len(with_block.memory_blocks[0].heard)

    def child() -> None:
        plain.put(chats[1])
        assert [m.content for m in plain.get()] == ["a", "b"]
        store.add_message(SESSION + "store", chats[1])
        assert len(store.get_messages(SESSION + "store")) == 2
        new = memory("new")
        new.put(chats[0])
        assert len(new.get()) == 1
        # Its own copy of the block is fed, and asked, here.
        with_block.put_messages(chats)
        assert len(with_block.memory_blocks[0].heard) > heard
        assert f"{os.getpid()} heard" in str(with_block.get())
        with_block.close()

    in_child(child)
    assert len(with_block.memory_blocks[0].heard) == heard
    with_block.put_messages(chats)
    assert len(with_block.memory_blocks[0].heard) > heard
    assert f"{os.getpid()} heard" in str(with_block.get())
    assert len(plain.get()) == 2


@case
def langchain() -> None:
    from langchain_core.messages import HumanMessage

    from memoryd.langchain import ChatMessageHistory

    def history() -> ChatMessageHistory:
        return ChatMessageHistory(SESSION, target=TARGET)

    before = history()
    before.add_messages([HumanMessage("a")])
    asyncio.run(before.aadd_messages([HumanMessage("b")]))

    def child() -> None:
        for found in (before, history()):
            found.add_messages([HumanMessage("c")])
            asyncio.run(found.aadd_messages([HumanMessage("d")]))
        assert len(before.messages) == len(asyncio.run(before.aget_messages())) == 6

    in_child(child)
    assert len(before.messages) == len(asyncio.run(before.aget_messages())) == 6


@case
def autogen() -> None:
    from autogen_core.memory import MemoryContent, MemoryMimeType

    from memoryd.autogen import ListMemory, SearchMemory

    found = [kind(session_id=SESSION + kind.__name__, target=TARGET, timeout=20)
             for kind in (ListMemory, SearchMemory)]
    content = MemoryContent(content="tea", mime_type=MemoryMimeType.TEXT)

    def add(memory: ListMemory | SearchMemory) -> int:
        async def main() -> int:
            await memory.add(content)
            return len((await memory.query("tea")).results)

        return asyncio.run(main())

    for memory in found:
        assert add(memory) == 1
        in_child(lambda memory=memory: add(memory))
        in_child(lambda memory=memory: add(
            type(memory)(session_id=memory.session_id, target=TARGET, timeout=20)))
        assert add(memory) == 4
    assert len(found[0].content) == 4


# gevent.


def _with_gevent() -> None:
    """The server answers the Put `waits` when another call has come."""
    import gevent

    memory = client()
    waits = gevent.spawn(lambda: memory.put("waits"))
    others = gevent.spawn(lambda: memory.get_session("answer the other"))
    gevent.joinall([waits, others], raise_error=True)
    many = [gevent.spawn(lambda: memory.get_session("x")) for _ in range(20)]
    gevent.joinall(many, raise_error=True)
    async_memory = async_client()

    async def gathered() -> None:
        await asyncio.gather(*(async_memory.get_session("x") for _ in range(5)))

    asyncio.run(gathered())
    in_child(lambda: memory.get_session("x"))
    in_child(lambda: client().get_session("x"))
    in_child(lambda: asyncio.run(gathered()))
    memory.get_session("x")
    asyncio.run(gathered())
    with Worker(TARGET, name="gevent", models={"chat": lambda m, n: str(os.getpid())}):
        assert memory.get_session("gevent").session_id == str(os.getpid())


CASES["gevent"] = CASES["gevent that patches behind"] = _with_gevent


if __name__ == "__main__":
    CASES[CASE]()
    # Not what another test is about: how a process ends that has used gRPC.
    sys.stdout.flush()
    os._exit(0)
