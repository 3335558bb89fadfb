"""Calls of items that are sent as one: none of them changes what becomes of another."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from support.waiting import wait_for

from memoryd import AsyncClient, Client, MemorydError, _channels, _waiting, items

PATH = ("tests", "gathered")
# Four of them are more than a reply holds.
LARGE = b"x" * (20 << 20)
# Longer than the tests take.
SECONDS = 60.0


def calls_of(client: AsyncClient) -> list[Any]:
    """The calls that it sends from now on."""
    made: list[Any] = []
    send = client._gatherer._send

    async def noted(call: Any) -> Any:
        made.append(call)
        return await send(call)

    client._gatherer._send = noted
    return made


@pytest.mark.parametrize("is_async", [False, True])
def test_each_call_goes_with_the_token_of_its_caller(guarded, is_async):
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    async def token() -> str:
        return user.get()

    async def put(client: AsyncClient, name: str) -> None:
        user.set(name)
        await asyncio.gather(*(client.put_item((*PATH, "own"), f"{name}{at}", at)
                               for at in range(10)))

    async def use() -> int:
        async with AsyncClient(guarded.target, token=token if is_async else user.get) as client:
            made = calls_of(client)
            # More than are under way at once, so that some wait for calls of others.
            await asyncio.gather(*(put(client, name) for name in ("ann", "bob") * 3))
            assert not any(client._gatherer._loops.values())
            return len(made)

    assert asyncio.run(use()) < 20
    for name in ("ann", "bob"):
        with Client(guarded.target, token=name) as client:
            assert {one.key for one in client.list_items((*PATH, "own"))} == {
                f"{name}{at}" for at in range(10)}


def test_a_call_is_sent_in_the_context_of_one_that_it_holds(guarded):
    at: contextvars.ContextVar[int] = contextvars.ContextVar("at")
    seen: list[tuple[int, list[str]]] = []

    async def get(client: AsyncClient, number: int) -> None:
        at.set(number)
        # Of another timeout each, and so a call of its own, behind those under way.
        await client.get_item(PATH, str(number), timeout=SECONDS + number)

    async def use() -> None:
        async with AsyncClient(guarded.target, token="ann") as client:
            send = client._gatherer._send

            async def noted(call: Any) -> Any:
                seen.append((at.get(), [one.operations[0].get.key for one in call.request.batches]))
                return await send(call)

            client._gatherer._send = noted
            await asyncio.gather(*(get(client, number) for number in range(6)))

    asyncio.run(use())
    assert sorted(seen) == [(number, [str(number)]) for number in range(6)]


@pytest.mark.parametrize("token", ["writer", "reader"])
def test_a_call_without_its_right_fails_alone(guarded, token):
    async def use() -> None:
        async with AsyncClient(guarded.target, token=token) as client:
            calls = [client.put_item(PATH, "right", 1), client.get_item(PATH, "right"),
                     client.put_item(PATH, "right too", 1)]
            put, got, other = await asyncio.gather(*calls, return_exceptions=True)
            refused, done = ([got], [put, other]) if token == "writer" else ([put, other], [got])
            assert [one.reason for one in refused] == ["RIGHT_MISSING"] * len(refused)
            assert not any(isinstance(one, BaseException) for one in done)

    asyncio.run(use())


def test_values_that_no_reply_holds_together_are_read(guarded):
    async def use() -> None:
        async with AsyncClient(guarded.target, token="ann", timeout=SECONDS) as client:
            for at in range(4):
                await client.put_item((*PATH, "large"), str(at), LARGE)
            await client.put_item((*PATH, "large"), "small", 1)
            made = calls_of(client)
            found = await asyncio.gather(
                *(client.get_item((*PATH, "large"), key) for key in ("0", "1", "small", "2", "3")))
            assert [len(one.value) if one.key != "small" else one.value for one in found] == [
                len(LARGE), len(LARGE), 1, len(LARGE), len(LARGE)]
            assert len(made) == 3
            # One caller's own reads are his to divide.
            whole = items.batch((*PATH, "large"), [items.get(str(at)) for at in range(4)])
            outcomes = await client.batch_items([whole])
            with pytest.raises(MemorydError, match="REPLY_TOO_LARGE"):
                items.results(outcomes[0])

    asyncio.run(use())


def test_a_call_that_waits_for_others_ends_at_its_own_time(guarded):
    async def use() -> None:
        async with AsyncClient(guarded.target, token="ann", timeout=SECONDS) as client:
            made = calls_of(client)
            held = asyncio.Event()
            send = client._gatherer._send

            async def waits(call: Any) -> Any:
                await held.wait()
                return await send(call)

            client._gatherer._send = waits
            calls = []
            for at in range(2):
                calls.append(asyncio.create_task(
                    client.put_item(PATH, f"slow{at}", 1, timeout=SECONDS + at)))
            await asyncio.sleep(0)
            with pytest.raises(MemorydError) as late:
                await client.put_item(PATH, "late", 1, timeout=0.05)
            assert late.value.code.name == "DEADLINE_EXCEEDED"
            held.set()
            assert all(one.version > 0 for one in await asyncio.gather(*calls))
            # It is not sent any more.
            assert await client.get_item(PATH, "late") is None
            assert len(made) == 3

    asyncio.run(use())


def test_each_caller_has_an_error_of_his_own(guarded):
    async def use() -> None:
        async with AsyncClient(guarded.target, token="nobody") as client:
            errors = await asyncio.gather(*(client.get_item(PATH, str(at)) for at in range(3)),
                                          return_exceptions=True)
            assert [one.code.name for one in errors] == ["UNAUTHENTICATED"] * 3
            assert len({id(one) for one in errors}) == 3

    asyncio.run(use())


def test_a_call_without_a_thread_to_wait_for_it_holds_up_no_fork(guarded, monkeypatch):
    """As at the end of an interpreter, where none can be started."""
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        async with AsyncClient(guarded.target, token="ann") as client:
            await client.put_item(PATH, "thread", 1)
            with monkeypatch.context() as patched:
                patched.setattr(_waiting, "_threads", _waiting._Threads())
                patched.setattr(threading.Thread, "start", refuse)
                with pytest.raises(RuntimeError, match="thread"):
                    await client.get_item(PATH, "thread")
            # The thread that waited for the put may still be leaving.
            wait_for(lambda: _channels.process().is_quiet(threading.get_ident()))
            found = await client.get_item(PATH, "thread")
            assert found is not None and found.value == 1

    asyncio.run(main())
