"""import_session of both clients: what one session gave makes another."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import threading

import grpc
import pytest

from support.waiting import wait_for

from memoryd import AsyncClient, Client, MemorydError, _calls, content, message

CREATED = datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)


def fill(client: Client, session_id: str) -> None:
    client.put(session_id, [message("user", f"m{i} " + "x" * 10_000) for i in range(120)],
               contents=[content("tea"), content("milk")])


def test_a_session_is_made_anew(server, session_id):
    with Client(server.target) as client:
        fill(client, session_id)
        copy = session_id + " copy"
        held = list(client.stream_all(session_id)), list(client.get_all_contents(session_id))
        made = client.import_session(copy, *held, create_time=CREATED)
        assert made.session_id == copy
        assert made.create_time.ToDatetime(datetime.timezone.utc) == CREATED
        assert (list(client.stream_all(copy)), list(client.get_all_contents(copy))) == held
        with pytest.raises(MemorydError) as error:
            client.import_session(copy)
        assert error.value.reason == "SESSION_EXISTS"


def test_a_session_is_made_anew_by_a_coroutine(server, session_id):
    async def main() -> None:
        async with AsyncClient(server.target) as client:
            held = [m async for m in client.stream_all(session_id)]
            copy = session_id + " copy"
            made = await client.import_session(copy, held)
            assert made.active_count + made.archived_count == 120
            assert [m async for m in client.stream_all(copy)] == held
            with pytest.raises(MemorydError) as error:
                await client.import_session(copy)
            assert error.value.reason == "SESSION_EXISTS"

    with Client(server.target) as client:
        fill(client, session_id)
    asyncio.run(main())


def test_a_coroutine_is_told_why_whatever_is_on_its_way(server, session_id):
    # The server ends the call while requests are sent.
    messages = [message("user", "x" * 10_000, message_id=f"m{number}", position=number)
                for number in range(1, 121)]

    async def main() -> None:
        async with AsyncClient(server.target) as client:
            await client.import_session(session_id)
            for _ in range(50):
                with pytest.raises(MemorydError) as error:
                    await client.import_session(session_id, messages)
                assert error.value.reason == "SESSION_EXISTS"

    asyncio.run(main())


def test_a_coroutine_that_is_cancelled_or_closed_makes_nothing(server, session_id):
    async def main() -> None:
        async with AsyncClient(server.target) as client:
            reading, loop = asyncio.Event(), asyncio.get_running_loop()
            going_on = threading.Event()

            def slow():
                yield message("user", "a", message_id="m", position=1)
                loop.call_soon_threadsafe(reading.set)
                assert going_on.wait(60)

            async def ended(end):
                upload = asyncio.ensure_future(client.import_session(session_id, slow()))
                await reading.wait()
                reading.clear()
                await end(upload)
                # After the cancelled coroutine, which has its turn before, ended the call.
                loop.call_soon(going_on.set)
                with pytest.raises((asyncio.CancelledError, MemorydError)) as error:
                    await upload
                going_on.clear()
                return error.value

            async def cancel(upload):
                upload.cancel()

            async def close(_):
                await client.close()

            assert isinstance(await ended(cancel), asyncio.CancelledError)
            assert (await ended(close)).code == grpc.StatusCode.CANCELLED

    asyncio.run(main())
    with Client(server.target) as client:
        assert made(client, session_id).active_count == 0


def made(client, session_id):
    """The session, of no messages, once the server knows that no call of before makes it."""
    def imported():
        try:
            return client.import_session(session_id)
        except MemorydError as error:
            if error.reason != "SESSION_REPLACED":
                raise
            return None

    return wait_for(imported)


def broken():
    for number in range(1, 1000):
        yield message("user", "a", message_id=f"m{number}", position=number)
    raise ValueError("the source broke")


def test_what_fails_while_it_is_read_is_raised_and_makes_nothing(server, session_id, caplog):
    async def main() -> None:
        async with AsyncClient(server.target) as client:
            with pytest.raises(ValueError, match="the source broke"):
                await client.import_session(session_id, broken())

    with Client(server.target) as client:
        with pytest.raises(ValueError, match="the source broke"):
            client.import_session(session_id, broken())
        asyncio.run(main())
        assert made(client, session_id).active_count == 0
    assert not caplog.records


def test_nothing_is_read_once_the_call_has_ended():
    ended = []

    def endless():
        try:
            yield from itertools.count()
        finally:
            ended.append(True)

    requests = _calls.Requests(endless())
    assert [next(requests), next(requests)] == [0, 1]
    requests.close()
    assert ended and list(requests) == []


def test_who_reads_no_more_has_the_iterable_for_himself(server, session_id):
    def endless():
        for number in itertools.count(1):
            yield message("user", "x" * 1000, message_id=f"m{number}", position=number)

    with Client(server.target) as client:
        client.import_session(session_id)
        messages = endless()
        with pytest.raises(MemorydError) as error:
            client.import_session(session_id, messages)
        assert error.value.reason == "SESSION_EXISTS"
        next(messages)  # Which fails while another thread is at it.
