"""Where a worker's callbacks run, and that no call waits for itself."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from support.calls import user, wire
from support.scripted_server import ScriptedServer, attaching
from support.waiting import wait_for

import memoryd
from memoryd.v1 import memory_service_pb2_grpc
from memoryd.v1 import worker_service_pb2 as worker_wire

COMPLETE = worker_wire.ModelComplete(model="chat", messages=[user("Hi")])


class Putting(memory_service_pb2_grpc.MemoryServiceServicer):
    """A Put that waits is answered when the worker has completed a chat."""

    def __init__(self, worker: ScriptedServer) -> None:
        self._worker = worker
        self.first: list[int] = []

    def Put(self, request, context):
        for call_id in self.first:
            self._worker.result(call_id)
        result = self._worker.call(complete=COMPLETE)
        return wire.PutResponse(message_ids=[result.complete.text or result.error.message])


@pytest.fixture
def scripted():
    with attaching() as (service, target):
        yield service, target


@pytest.fixture
def memory(scripted):
    return Putting(scripted[0])


@pytest.fixture
def putting(memory):
    """Answers Puts by way of the worker at the scripted server."""
    server = grpc.server(ThreadPoolExecutor(8))
    memory_service_pb2_grpc.add_MemoryServiceServicer_to_server(memory, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def here() -> str:
    return threading.current_thread().name


async def said(target: str) -> str:
    async with memoryd.AsyncClient(target) as client:
        return (await client.put("s", wait=10)).message_ids[0]


def said_synchronously(target: str) -> str:
    with memoryd.Client(target) as client:
        return client.put("s", wait=10).message_ids[0]


class Chat:
    """Models that tell the thread and the event loop on which they run."""

    def __init__(self) -> None:
        self.loops = []

    async def coroutine(self, messages, max_tokens):
        await asyncio.sleep(0)
        self.loops.append(asyncio.get_running_loop())
        return f"{memoryd.current_call().session_id} on {here()}"

    def function(self, messages, max_tokens):
        return f"{memoryd.current_call().session_id} on {here()}"


def worker(target: str, model, **options) -> memoryd.Worker:
    return memoryd.Worker(target, name="w", models={"chat": model}, **options)


def test_a_coroutine_runs_on_the_loop_that_the_worker_was_started_from(scripted, putting):
    chat = Chat()

    async def main():
        async with worker(scripted[1], chat.coroutine):
            assert await said(putting) == f"s on {here()}"
        started = worker(scripted[1], chat.coroutine)
        try:
            assert await started.astart() is started
            assert await said(putting) == f"s on {here()}"
        finally:
            await started.aclose()
        with worker(scripted[1], chat.coroutine):
            assert await said(putting) == f"s on {here()}"
        assert chat.loops == [asyncio.get_running_loop()] * 3

    asyncio.run(main())


def test_a_function_runs_on_a_thread_whoever_waits(scripted, putting):
    async def main():
        async with worker(scripted[1], Chat().function):
            assert (await said(putting)).startswith("s on memoryd-worker_")
            # Holds up the event loop, which the function does not need.
            assert said_synchronously(putting).startswith("s on memoryd-worker_")

    asyncio.run(main())
    with worker(scripted[1], Chat().function):
        assert said_synchronously(putting).startswith("s on memoryd-worker_")


def test_a_synchronous_call_on_the_loop_does_not_wait_for_its_own_coroutine(scripted, putting):
    chat = Chat()

    async def main():
        async with worker(scripted[1], chat.coroutine):
            assert said_synchronously(putting) == "s on memoryd-worker-loop"
            # And as soon as it is free again:
            assert await said(putting) == f"s on {here()}"

    asyncio.run(main())


def test_nor_for_a_coroutine_that_waits_for_the_loop_already(scripted, memory, putting):
    called = threading.Event()

    async def answer():
        return "late"

    def chat(messages, max_tokens):
        called.set()
        return answer()

    async def main():
        async with worker(scripted[1], chat):
            memory.first.append(scripted[0].send(complete=COMPLETE))
            # Without an await, so that the coroutine can't begin.
            assert called.wait(30)
            assert said_synchronously(putting) == "late"

    asyncio.run(main())


def test_a_coroutine_runs_on_a_loop_of_the_workers_own_while_there_is_no_other(scripted, putting):
    chat = Chat()
    with worker(scripted[1], chat.coroutine):
        assert said_synchronously(putting) == "s on memoryd-worker-loop"
    loop = asyncio.new_event_loop()
    between = worker(scripted[1], chat.coroutine)
    loop.run_until_complete(between.astart())
    assert said_synchronously(putting) == "s on memoryd-worker-loop"
    assert loop.run_until_complete(said(putting)) == f"s on {here()}"
    loop.close()
    assert said_synchronously(putting) == "s on memoryd-worker-loop"
    between.close()


def test_a_callback_may_itself_call_and_wait(scripted, putting):
    depth = []

    async def deeper(messages, max_tokens):
        depth.append(here())
        return "bottom" if len(depth) == 4 else await said(putting)

    def deeper_synchronously(messages, max_tokens):
        depth.append(here())
        return "bottom" if len(depth) == 4 else said_synchronously(putting)

    async def main():
        async with worker(scripted[1], deeper):
            return await said(putting)

    assert asyncio.run(main()) == "bottom"
    assert depth == [here()] * 4
    depth.clear()
    with worker(scripted[1], deeper_synchronously):
        assert said_synchronously(putting) == "bottom"
    assert len(set(depth)) == 4


def test_a_cancelled_coroutine_is_cut_short(scripted):
    script, target = scripted
    begun, ended = threading.Event(), threading.Event()

    async def endless(messages, max_tokens):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with worker(target, endless):
        call_id = script.send(complete=COMPLETE)
        assert begun.wait(30)
        script.cancel(call_id)
        result = script.result()
        assert (result.call_id, result.error.code) == (
            call_id, grpc.StatusCode.CANCELLED.value[0])
        assert ended.wait(30)


@pytest.mark.parametrize("from_loop", (True, False))
def test_closing_cancels_coroutines(scripted, from_loop):
    script, target = scripted
    begun, ended = threading.Event(), threading.Event()

    async def endless(messages, max_tokens):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def main():
        async with worker(target, endless):
            script.send(complete=COMPLETE)
            assert await asyncio.to_thread(begun.wait, 30)
        assert await asyncio.to_thread(ended.wait, 30)

    if from_loop:
        asyncio.run(main())
        return
    with worker(target, endless):
        script.send(complete=COMPLETE)
        assert begun.wait(30)
    assert ended.wait(30)


def test_arun_serves_until_it_is_cancelled(scripted, putting):
    script, target = scripted

    async def main():
        serving = asyncio.create_task(worker(target, Chat().coroutine).arun())
        await asyncio.to_thread(wait_for, lambda: script.hello)
        assert await said(putting) == f"s on {here()}"
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(main())


def test_a_worker_serves_what_is_decorated(scripted):
    script, target = scripted
    serving = memoryd.Worker(target, name="w")

    @serving.block("mentions")
    class Mentions(memoryd.Block):
        def put(self, messages, state):
            return (state or 0) + len(messages)

        def get(self, messages, state):
            return str(state)

    @serving.block("weather")
    async def weather(messages):
        return f"It rains on {len(messages)}."

    @serving.model("chat")
    def chat(messages, max_tokens):
        return "Hi."

    @serving.embedder("embed")
    def embed(texts, purpose):
        return [[1.0]] * len(texts)

    assert Mentions().put([1], None) == 1 and chat([], 0) == "Hi."
    with serving:
        assert [(b.name, b.takes_messages, b.truncates) for b in script.hello.blocks] == [
            ("mentions", True, False), ("weather", False, False)]
        assert list(script.hello.models) == ["chat"] and list(script.hello.embedders) == ["embed"]
        put = worker_wire.BlockPut(messages=[user("a")])
        assert script.call(block="mentions", put=put).put.state == b"1"
        get = worker_wire.BlockGet(messages=[user("a")])
        assert script.call(block="weather", get=get).content.parts[0].text == "It rains on 1."
        assert script.call(complete=COMPLETE).complete.text == "Hi."
        texts = worker_wire.ModelEmbed(embedder="embed", texts=["a", "b"])
        assert len(script.call(embed=texts).embed.vectors) == 2
        with pytest.raises(RuntimeError, match="before it starts"):
            serving.model("late")(chat)
        with pytest.raises(RuntimeError, match="starts once"):
            serving.start()


def test_what_is_no_block_is_refused():
    serving = memoryd.Worker("localhost:1", name="w")
    with pytest.raises(TypeError, match=r"int is no memoryd\.Block"):
        serving.block("b")(int)
    serving.close()


def test_a_worker_that_finds_nobody_gives_up():
    for start in (lambda: memoryd.Worker("unix:/nonexistent/m.sock", name="w").start(0.2),
                  lambda: asyncio.run(
                      memoryd.Worker("unix:/nonexistent/m.sock", name="w").astart(0.2))):
        with pytest.raises(TimeoutError, match="not attached"):
            start()
