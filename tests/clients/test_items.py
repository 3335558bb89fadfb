"""The clients' items: single calls, calls that are gathered, cancelled, and repeated."""

from __future__ import annotations

import asyncio
import datetime
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from support.server import Server, restarted
from support.writers import Progress

from memoryd import AsyncClient, Client, MemorydError, items
from memoryd.v1 import item_service_pb2 as wire

WRITERS = 4
WRITES = 60
RESTARTS = 3
# Longer than any server takes to come back.
SECONDS = 120.0


@pytest.fixture
def base() -> tuple[str, ...]:
    return ("tests", uuid.uuid4().hex)


class Either:
    """The methods of one of the clients, called one after the other."""

    def __init__(self, target: str, kind: str) -> None:
        self._client: Any = Client(target) if kind == "sync" else AsyncClient(target)
        self._loop = asyncio.new_event_loop() if kind == "async" else None

    def __getattr__(self, name: str) -> Any:
        def method(*given: Any, **named: Any) -> Any:
            made = getattr(self._client, name)(*given, **named)
            if self._loop is None:
                return made
            return self._loop.run_until_complete(_all_of(made) if hasattr(made, "__aiter__")
                                                 else made)

        return method

    def end(self) -> None:
        self.close()
        if self._loop is not None:
            self._loop.close()


async def _all_of(found: Any) -> list[Any]:
    return [one async for one in found]


@pytest.fixture(params=["sync", "async"])
def client(server, request) -> Iterator[Any]:
    made = Either(server.target, request.param)
    yield made
    made.end()


def test_an_item_is_put_read_replaced_and_deleted(client, base):
    first = client.put_item(base, "k", {"drinks": ["tea", 1, None, True, 0.5]})
    read = client.get_item(base, "k")
    assert (read.value, read.path, read.key) == ({"drinks": ["tea", 1, None, True, 0.5]}, base, "k")
    assert (read.version, read.expires) == (first.version, None)
    assert read.created == read.updated <= datetime.datetime.now(datetime.timezone.utc)
    second = client.put_item(base, "k", "text", ttl=datetime.timedelta(hours=1))
    again = client.get_item(base, "k", refresh_ttl=False)
    assert again.value == "text" and again.created == read.created and again.updated > read.updated
    assert again.expires == again.updated + datetime.timedelta(hours=1)
    assert second.version == again.version > first.version
    assert client.delete_item(base, "k") is True
    assert client.delete_item(base, "k") is False
    assert client.get_item(base, "k") is None


@pytest.mark.parametrize("value", [None, 0, "", [], {}, b"", b"\0\xff", "ü\n", 2**60, 1.5, False])
def test_a_value_comes_back_as_it_was(client, base, value):
    client.put_item(base, "k", value)
    read = client.get_item(base, "k").value
    assert read == value and type(read) is type(value)


def test_a_put_or_delete_of_another_version_is_refused(client, base):
    version = client.put_item(base, "k", 1, expected_version=0).version
    for call in (lambda: client.put_item(base, "k", 2, expected_version=0),
                 lambda: client.put_item(base, "k", 2, expected_version=version + 1),
                 lambda: client.delete_item(base, "k", expected_version=version + 1)):
        with pytest.raises(MemorydError) as refused:
            call()
        assert refused.value.reason == "VERSION_MISMATCH"
        assert refused.value.details["version"] == str(version)
    assert client.delete_item(base, "k", expected_version=version)
    with pytest.raises(MemorydError) as refused:
        client.put_item(base, "k", 2, expected_version=version)
    assert refused.value.details["version"] == "0"


def test_a_repeated_request_is_done_once(client, base):
    first = client.put_item(base, "k", 1, request_id="r")
    assert client.put_item(base, "k", 1, request_id="r") == first
    with pytest.raises(MemorydError) as refused:
        client.put_item(base, "k", 2, request_id="r")
    assert refused.value.reason == "REQUEST_ID_REUSED"


def test_a_batch_has_an_outcome_for_each_namespace(client, base):
    there = client.put_item((*base, "b"), "k", 1).version
    outcomes = client.batch_items([
        items.batch((*base, "a"), [items.put("k", 1), items.get("k"), items.delete("other")]),
        items.batch((*base, "b"), [items.put("x", 1), items.put("k", 2, expected_version=0)])])
    put, get, delete = items.results(outcomes[0])
    assert put.put.version > 0 and items.item_of(get.get) is None and not delete.delete.existed
    with pytest.raises(MemorydError) as refused:
        items.results(outcomes[1])
    assert refused.value.details == {"operation": "1", "version": str(there)}
    assert client.get_item((*base, "b"), "x") is None


def test_items_are_listed_searched_copied_and_deleted(client, base):
    client.update_namespace((*base, "a"), subject="ada", default_ttl=3600, search=["text"])
    for number, text in enumerate(["green tea", "red car", "tea pot"]):
        client.put_item((*base, "a"), f"k{number}", {"text": text, "n": number})
    assert [one.key for one in client.list_items((*base, "a"), order="newest-first", page_size=1)] \
        == ["k2", "k1", "k0"]
    assert [one.key for one in client.list_items((*base, "a"), filter={"n": {"$gte": 1}})] == [
        "k1", "k2"]
    assert {one.key for one in client.search_items(base, query="tea", limit=2)} == {"k0", "k2"}
    assert [one.key for one in client.search_items(base, filter={"text": "red car"})] == ["k1"]
    about = client.get_namespace((*base, "a"))
    assert (about.item_count, about.config.subject) == (3, "ada")
    client.copy_namespace((*base, "a"), (*base, "copy"))
    assert list(client.list_namespaces(prefix=base)) == [(*base, "a"), (*base, "copy")]
    assert client.delete_namespace(base, recursive=True).item_count == 6
    assert list(client.list_namespaces(prefix=base)) == []


def test_a_text_is_no_path(client):
    with pytest.raises(TypeError, match="namespace"):
        client.put_item("users", "k", 1)


# Calls of one event loop.


class Sent:
    """The calls that a client sends, which wait where a test holds them."""

    def __init__(self, client: AsyncClient) -> None:
        self.names: list[str] = []
        self.begun = asyncio.Event()
        self.may_go = asyncio.Event()
        self.may_go.set()
        send = client._gatherer._send

        async def counted(call: Any) -> Any:
            self.names.append(call.rpc.name)
            self.begun.set()
            await self.may_go.wait()
            return await send(call)

        client._gatherer._send = counted


def test_calls_of_one_loop_are_gathered(server, base):
    async def use() -> list[str]:
        async with AsyncClient(server.target) as client:
            sent = Sent(client)
            await asyncio.gather(*(client.put_item((*base, str(at)), "k", at) for at in range(100)))
            found = await asyncio.gather(
                *(client.get_item((*base, str(at)), "k") for at in range(100)))
            assert [one.value for one in found] == list(range(100))
            answers = await asyncio.gather(
                client.put_item(base, "new", 1, expected_version=0),
                client.put_item((*base, "0"), "k", 1, expected_version=0),
                client.delete_item((*base, "1"), "k"), return_exceptions=True)
            assert answers[0].version > 0
            assert answers[1].reason == "VERSION_MISMATCH"
            assert answers[1].details["version"] == str(found[0].version)
            assert answers[2] is True
            return sent.names

    assert asyncio.run(use()) == ["BatchItems"] * 3


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_cancelled_call_leaves_those_beside_it(server, base, is_sent):
    async def use() -> None:
        async with AsyncClient(server.target) as client:
            sent = Sent(client)
            if is_sent:
                sent.may_go.clear()
            calls = [asyncio.ensure_future(client.put_item(base, f"k{at:02}", at))
                     for at in range(20)]
            await asyncio.sleep(0)
            if is_sent:
                await sent.begun.wait()
            for call in calls[::2]:
                call.cancel()
            sent.may_go.set()
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in done[::2])
            assert all(one.version > 0 for one in done[1::2])
            stored = [one.value async for one in client.list_items(base)]
            assert stored == [*range(20)] if is_sent else stored == [*range(1, 20, 2)]
            assert (await client.get_item(base, "k01")).value == 1

    asyncio.run(use())


def test_calls_that_are_all_cancelled_are_not_sent(server, base):
    async def use() -> None:
        async with AsyncClient(server.target) as client:
            sent = Sent(client)
            calls = [asyncio.ensure_future(client.put_item(base, "k", at)) for at in range(3)]
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            assert await client.get_item(base, "k") is None
            assert sent.names == ["BatchItems"]

    asyncio.run(use())


def test_an_error_of_a_gathered_call_reaches_all_and_ends_there(server, base):
    async def use() -> None:
        async with AsyncClient(server.target) as client:
            server.pause()
            other = asyncio.create_task(client.put_item(base, "other", 1))
            done = await asyncio.gather(
                *(client.put_item(base, "k", 1, timeout=0.01) for _ in range(3)),
                return_exceptions=True)
            server.resume()
            assert [one.code.name for one in done] == ["DEADLINE_EXCEEDED"] * 3
            assert (await other).version > 0
            assert (await client.get_item(base, "other")).value == 1

    asyncio.run(use())


def test_many_loops_use_one_client(server, base):
    client = AsyncClient(server.target)

    async def use(number: int) -> list[wire.ItemWrite]:
        return await asyncio.gather(
            *(client.put_item(base, f"{number}/{at}", at) for at in range(20)))

    threads = [threading.Thread(target=lambda number=number: asyncio.run(use(number)))
               for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    with Client(server.target) as reader:
        assert sum(1 for _ in reader.list_items(base)) == 80
    asyncio.run(client.close())


# Restarts of the server.


def count_up(target: str, kind: str, progress: Progress) -> None:
    """Each writer counts in an item of its own, from version to version."""
    def count_synchronously(client: Client, key: str) -> None:
        version = 0
        for number in range(WRITES):
            version = client.put_item(("count",), key, number, expected_version=version).version
            progress.add(1)

    async def count(client: AsyncClient, key: str) -> None:
        version = 0
        for number in range(WRITES):
            written = await client.put_item(("count",), key, number, expected_version=version)
            version = written.version
            progress.add(1)

    async def count_all() -> None:
        async with AsyncClient(target, timeout=SECONDS) as client:
            await asyncio.gather(*(count(client, str(at)) for at in range(WRITERS)))

    try:
        if kind == "async":
            asyncio.run(count_all())
            return
        with Client(target, timeout=SECONDS) as client:
            for at in range(WRITERS):
                count_synchronously(client, str(at))
    except BaseException as error:
        progress.fail(error)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_count_goes_on_over_restarts(store, kind):
    progress = Progress()
    with restarted(store) as (listen, restart):
        counting = threading.Thread(target=count_up, args=(listen, kind, progress))
        counting.start()
        for number in range(RESTARTS):
            progress.wait_for(WRITERS * WRITES * (number + 1) // (RESTARTS + 1))
            restart(Server.stop if number % 2 else Server.kill)
        counting.join()
        progress.check()
        with Client(listen) as client:
            assert [one.value for one in client.list_items(("count",))] == [WRITES - 1] * WRITERS
