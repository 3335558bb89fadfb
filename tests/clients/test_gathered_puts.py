"""Puts of one event loop that are sent as one: each has what it would have had alone."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from support.server import Server
from support.stores import fresh_store

from memoryd import AsyncClient, Client, MemorydError, message
from memoryd.v1 import memory_service_pb2 as wire

# Longer than the tests take.
SECONDS = 60.0


@pytest.fixture
def name() -> str:
    return f"s-{uuid.uuid4().hex}"


def calls_of(client: AsyncClient) -> list[Any]:
    """The calls that its Puts make from now on."""
    made: list[Any] = []
    puts = client._puts
    send = puts._send

    async def noted(call: Any) -> Any:
        made.append(call)
        return await send(call)

    puts._send = puts._gatherer._send = noted
    return made


def ungathered(client: AsyncClient) -> AsyncClient:
    client._puts.call = client._call  # type: ignore[method-assign]
    return client


def said(text: str) -> list[Any]:
    return [message("user", text)]


def test_puts_at_the_same_time_are_two_calls(guarded, name):
    async def use() -> None:
        async with AsyncClient(guarded.target, token="ann", timeout=SECONDS) as client:
            made = calls_of(client)
            replies = await asyncio.gather(*(
                client.put(f"{name}-{at}", said(str(at))) for at in range(64)))
            assert [call.rpc.name for call in made] == ["Put", "PutBatch"]
            assert [reply.revision for reply in replies] == [1] * 64
            ids = [put.request_id for put in made[1].request.puts]
            assert len(set(ids)) == 63 and all(ids)
            assert not any(client._puts._gatherer._loops.values())
            made.clear()
            await client.put(f"{name}-0", said("alone"))
            await client.put(f"{name}-0", said("alone again"), wait=1)
            assert [call.rpc.name for call in made] == ["Put", "Put"]
            shown = [m.text async for m in client.get_all(f"{name}-0")]
            assert shown == ["0", "alone", "alone again"]

    asyncio.run(use())


def test_puts_of_one_session_keep_the_order_of_their_calls(guarded, name):
    async def use() -> None:
        async with AsyncClient(guarded.target, token="ann", timeout=SECONDS) as client:
            await asyncio.gather(*(client.put(name, said(str(at))) for at in range(50)))
            shown = [m.text async for m in client.get_all(name)]
            # The first one is a call of its own.
            assert [text for text in shown if text != "0"] == [str(at) for at in range(1, 50)]

    asyncio.run(use())


async def result(call: Any) -> Any:
    try:
        reply = await call
    except MemorydError as error:
        return error.code, error.reason, error.field, error.message, error.details
    return reply.revision, list(reply.positions), reply.archived_count, reply.replayed


@pytest.mark.parametrize("seed", range(4))
def test_results_are_those_of_puts_alone(guarded, name, seed):
    """Calls at random; each session has one at a time, so that what becomes of it is determined."""
    def call(client: AsyncClient, prefix: str, session: int, chance: random.Random) -> Any:
        texts = [str(chance.random()) for _ in range(chance.randrange(3))]
        fields: dict[str, Any] = {}
        if chance.random() < 0.2:
            fields["expected_revision"] = chance.randrange(-1, 4)
        if chance.random() < 0.2:
            fields["request_id"] = f"id-{chance.randrange(4)}"
        if chance.random() < 0.05:
            fields["wait"] = 0.1
        role = "user" if chance.random() < 0.9 else "poet"
        return client.put(f"{prefix}-{session}", [message(role, text) for text in texts], **fields)

    async def run(client: AsyncClient, prefix: str) -> list[Any]:
        chance, found = random.Random(seed), []
        for _ in range(15):
            sessions = chance.sample(range(12), chance.randrange(12))
            calls = [result(call(client, prefix, session, chance)) for session in sessions]
            found += await asyncio.gather(*calls)
        for session in range(12):
            found.append([m.text async for m in client.get_all(f"{prefix}-{session}")])
        return found

    async def use() -> None:
        async with (AsyncClient(guarded.target, token="ann", timeout=SECONDS) as gathering,
                    AsyncClient(guarded.target, token="ann", timeout=SECONDS) as plain):
            made = calls_of(gathering)
            assert await run(gathering, f"{name}-1") == await run(ungathered(plain), f"{name}-2")
            assert "PutBatch" in {call.rpc.name for call in made}

    asyncio.run(use())


def test_each_put_goes_with_the_token_of_its_caller(guarded, name):
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    async def put(client: AsyncClient, token: str) -> list[Any]:
        user.set(token)
        return await asyncio.gather(*(
            client.put(f"{name}-{at}", said(token)) for at in range(10)), return_exceptions=True)

    async def use() -> None:
        async with AsyncClient(guarded.target, token=user.get, timeout=SECONDS) as client:
            *done, refused = await asyncio.gather(*(
                put(client, token) for token in ("ann", "bob", "reader")))
            assert all(reply.revision for replies in done for reply in replies)
            assert [error.reason for error in refused] == ["RIGHT_MISSING"] * 10
            assert len({id(error) for error in refused}) == 10

    asyncio.run(use())
    for token in ("ann", "bob"):
        with Client(guarded.target, token=token) as client:
            assert [m.text for at in range(10) for m in client.get_all(f"{name}-{at}")] == [
                token] * 10


def test_a_put_whose_outcome_is_unknown_is_made_again_with_its_id(guarded, name):
    async def use() -> None:
        async with AsyncClient(guarded.target, token="ann", timeout=SECONDS) as client:
            made = calls_of(client)
            send = client._puts._gatherer._send

            async def loses(call: Any) -> Any:
                reply = await send(call)
                if call.rpc.name == "PutBatch" and len(made) == 2:
                    for outcome in reply.outcomes[5:]:
                        outcome.error.code = grpc.StatusCode.UNAVAILABLE.value[0]
                        outcome.error.reason = "OUTCOME_UNKNOWN"
                return reply

            client._puts._gatherer._send = loses
            replies = await asyncio.gather(*(
                client.put(f"{name}-{at}", said(str(at))) for at in range(20)))
            assert [reply.revision for reply in replies] == [1] * 20
            assert [reply.replayed for reply in replies] == [False] * 6 + [True] * 14

    asyncio.run(use())


def test_a_server_without_put_batch_gets_puts():
    seen: list[str] = []

    class Old(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            seen.append(details.method.rpartition("/")[2])
            if seen[-1] != "Put":
                return None
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: wire.PutResponse(revision=1),
                wire.PutRequest.FromString, wire.PutResponse.SerializeToString)

    async def use(target: str) -> None:
        async with AsyncClient(target, timeout=SECONDS) as client:
            for _ in range(2):
                replies = await asyncio.gather(*(
                    client.put(f"s{at}", said("x")) for at in range(10)))
                assert [reply.revision for reply in replies] == [1] * 10

    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([Old()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        asyncio.run(use(f"127.0.0.1:{port}"))
    finally:
        server.stop(None).wait()
    assert seen.count("PutBatch") == 1 and seen.count("Put") == 20


def test_puts_wait_no_longer_than_a_moment_for_slow_ones(guarded, name):
    async def use() -> None:
        async with AsyncClient(guarded.target, token="ann", timeout=SECONDS) as client:
            held = asyncio.Event()
            send = client._puts._send

            async def waits(call: Any) -> Any:
                puts = getattr(call.request, "puts", [call.request])
                if any(put.session_id.endswith("slow") for put in puts):
                    await held.wait()
                return await send(call)

            client._puts._send = client._puts._gatherer._send = waits
            slow = []
            for _ in range(5):
                slow.append(asyncio.create_task(client.put(f"{name}-slow", said("x"))))
                await asyncio.sleep(0.05)
            assert (await client.put(f"{name}-quick", said("x"))).revision == 1
            held.set()
            await asyncio.gather(*slow)

    asyncio.run(use())


def test_a_kill_loses_none_and_doubles_none(store_kind, tmp_path):
    """All Puts are acknowledged in the end, each stored once."""
    listen = f"unix:{tmp_path}/memoryd.sock"
    stopped = threading.Event()
    sent: dict[str, list[str]] = {f"s{at}": [] for at in range(30)}

    async def write() -> None:
        async with AsyncClient(listen, timeout=SECONDS) as client:
            async def one(session: str) -> None:
                while not stopped.is_set():
                    text = f"{session}/{len(sent[session])}"
                    assert (await client.put(session, said(text))).revision > 0
                    sent[session].append(text)

            await asyncio.gather(*map(one, sent))

    with fresh_store(store_kind) as store, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: asyncio.run(write()))
        try:
            for _ in range(4):
                with Server(store, listen=listen) as server:
                    stopped.wait(0.7)
                    server.kill()
            with Server(store, listen=listen):
                stopped.wait(0.7)
                stopped.set()
                writing.result(SECONDS)
                with Client(listen, timeout=SECONDS) as client:
                    for session, texts in sent.items():
                        assert [m.text for m in client.get_all(session)] == texts
        finally:
            stopped.set()
    assert sum(map(len, sent.values())) > 100
