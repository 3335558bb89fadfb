"""import_namespace of both clients: what one namespace gave makes another."""

from __future__ import annotations

import asyncio
import datetime

import pytest

from support.calls import item_wire as wire

from memoryd import AsyncClient, Client, MemorydError

CREATED = datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)


def fill(client: Client, path: tuple[str, ...]) -> None:
    """More than a request holds, by count and by bytes."""
    client.update_namespace(path, search=["text"], default_ttl=3600)
    for number in range(300):
        client.put_item(path, f"k{number}", {"text": "x" * (4000 if number % 2 else 1)},
                        vector=[number, 1])


def shown(items) -> list[wire.Item]:
    found = []
    for item in items:
        one = wire.Item()
        one.CopyFrom(item.wire)
        del one.namespace[:]
        one.ClearField("version")
        found.append(one)
    return found


def test_a_namespace_is_made_anew(server, session_id):
    path, copy = ("of", session_id), ("copy", session_id)
    with Client(server.target) as client:
        fill(client, path)
        held = list(client.list_items(path, order="oldest-first", with_vectors=True))
        made = client.import_namespace(copy, held, config=client.get_namespace(path).config,
                                       create_time=CREATED)
        assert tuple(made.namespace) == copy and made.item_count == 300
        assert made.create_time.ToDatetime(datetime.timezone.utc) == CREATED
        assert made.config == client.get_namespace(path).config
        copied = list(client.list_items(copy, order="oldest-first", with_vectors=True))
        assert shown(copied) == shown(held)
        with pytest.raises(MemorydError) as error:
            client.import_namespace(copy)
        assert error.value.reason == "NAMESPACE_EXISTS"


def test_a_namespace_is_made_anew_by_a_coroutine(server, session_id):
    path, copy = ("of", session_id), ("copy", session_id)

    async def main() -> None:
        async with AsyncClient(server.target) as client:
            held = [item async for item in client.list_items(path, order="oldest-first",
                                                             with_vectors=True)]
            made = await client.import_namespace(copy, [item.wire for item in held])
            assert made.item_count == 300
            copied = [item async for item in client.list_items(copy, order="oldest-first",
                                                               with_vectors=True)]
            assert shown(copied) == shown(held)
            with pytest.raises(MemorydError) as error:
                await client.import_namespace(copy)
            assert error.value.reason == "NAMESPACE_EXISTS"

    with Client(server.target) as client:
        fill(client, path)
    asyncio.run(main())


def broken():
    for number in range(1000):
        yield wire.Item(key=str(number), json="1")
    raise ValueError("the source broke")


def test_what_fails_while_it_is_read_is_raised_and_makes_nothing(server, session_id, caplog):
    path = ("broken", session_id)

    async def main() -> None:
        async with AsyncClient(server.target) as client:
            with pytest.raises(ValueError, match="the source broke"):
                await client.import_namespace(path, broken())

    with Client(server.target) as client:
        with pytest.raises(ValueError, match="the source broke"):
            client.import_namespace(path, broken())
        asyncio.run(main())
        with pytest.raises(MemorydError) as error:
            client.get_namespace(path)
        assert error.value.reason == "NAMESPACE_NOT_FOUND"
        assert client.import_namespace(path).item_count == 0
    assert not caplog.records
