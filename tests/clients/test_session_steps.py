"""The messages of a session as a list, which the adapters of frameworks are made of."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
from collections.abc import Iterator

import pytest

import memoryd
from memoryd import AsyncClient, Client, MemorydError, message
from memoryd._adapters import outcomes, session_steps
from memoryd._adapters.connections import connection_of
from memoryd._connection import Connection
from memoryd._steps import together
from memoryd.v1 import memory_pb2 as proto

THREADS = 4
MESSAGES = 120


@pytest.fixture(scope="module")
def client(server) -> Iterator[Client]:
    with Client(server.target, timeout=60) as made:
        yield made


def call(call_id: str) -> proto.Message:
    return message("assistant", parts=[proto.Part(tool_call=proto.ToolCall(
        call_id=call_id, name="t", arguments_json='{"a": 1}'))])


def result(call_id: str, text: str = "r") -> proto.Message:
    return message("tool", parts=[proto.Part(tool_result=proto.ToolResult(
        call_id=call_id, name="t", text=text))])


def add(client: Client, session_id: str, *messages: proto.Message) -> list[str]:
    return client._steps(session_steps.appended(session_id, messages))


def ones(messages) -> list[int]:
    return [1 for _ in messages]


def pop(client: Client, session_id: str) -> str | None:
    """The id of the message that was popped."""
    found = client._steps(session_steps.popped(session_id, ones))
    return found and found[0].message_id


def shown(client: Client, session_id: str) -> list[str]:
    found = client._steps(session_steps.every(session_id))
    return [one.message_id for one, count in zip(
        found, session_steps.left(found, ones(found)), strict=True) if count]


def test_messages_are_popped_one_by_one_and_calls_go_with_their_results(client, session_id):
    ids = add(client, session_id, message("user", "q"), call("1"), call("2"), result("1"),
              result("2"), message("assistant", "a"))
    for count in range(len(ids) - 1, -1, -1):
        assert pop(client, session_id) == ids[count]
        assert shown(client, session_id) == ids[:count]
    assert pop(client, session_id) is None
    assert list(client.get_all(session_id)) == []


def test_a_popped_result_says_nothing_until_it_goes_with_its_call(client, session_id):
    ids = add(client, session_id, call("1"), result("1", "secret"))
    assert pop(client, session_id) == ids[1]
    stored = list(client.get_all(session_id))
    assert [one.message_id for one in stored] == ids and "secret" not in str(stored)
    others = add(client, session_id, message("user", "on"))
    assert shown(client, session_id) == [ids[0], *others]
    assert [pop(client, session_id) for _ in range(3)] == [*others, ids[0], None]
    assert list(client.get_all(session_id)) == []


def test_a_call_whose_result_came_before_it_does_not_take_that_along(client, session_id):
    ids = add(client, session_id, result("1"), message("user", "q"), call("1"))
    assert pop(client, session_id) == ids[2]
    assert shown(client, session_id) == ids[:2]
    assert [pop(client, session_id) for _ in range(3)] == [ids[1], ids[0], None]


def test_no_two_callers_pop_the_same(client, session_id):
    messages = [one for at in range(MESSAGES // 3)
                for one in (call(f"{at}"), message("user", "q"), result(f"{at}"))]
    ids = add(client, session_id, *messages)
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        popped = list(threads.map(lambda _: pop(client, session_id), range(MESSAGES)))
    assert collections.Counter(popped) == collections.Counter(ids)
    assert pop(client, session_id) is None


def test_two_reads_together_return_both_or_the_error_of_one(server, client, session_id):
    first, second = add(client, session_id, message("user", "a"), message("user", "b"))

    def run(asked: str) -> list[str]:
        async def run() -> list[list[str]]:
            async with AsyncClient(server.target) as async_client:
                return await async_client._steps(read(asked))

        found = client._steps(read(asked))
        assert found == asyncio.run(run())
        return found

    def read(asked: str):
        try:
            newest, every = yield from together(
                session_steps.newest(session_id, 1), session_steps.every(asked))
        except MemorydError as error:
            return [error.field]
        return [one.message_id for one in (*newest, *every)]

    assert run(session_id) == [second, first, second]
    assert run("") == ["session_id"]


def test_the_newest_are_read_from_the_end(client, session_id):
    ids = add(client, session_id, *(message("user", str(at)) for at in range(30)))
    for count in (0, 1, 7, 30, 31):
        found = client._steps(session_steps.newest(session_id, count))
        assert [one.message_id for one in found] == ids[len(ids) - min(count, 30):]
    assert client._steps(session_steps.newest("nobody's", 5)) == []


def test_a_list_that_is_refused_in_the_middle_leaves_nothing_behind(client, session_id):
    before = add(client, session_id, message("user", "q"), call("old"))
    many = [result("old"), *(message("user", str(at)) for at in range(999))]
    with pytest.raises(MemorydError) as refused:
        add(client, session_id, *many, message("r" * 65, "no such role"))
    assert refused.value.code.name == "INVALID_ARGUMENT"
    assert shown(client, session_id) == before
    assert [pop(client, session_id) for _ in range(3)] == [before[1], before[0], None]


def test_tokens_are_estimated_where_the_caller_counts_them(client, session_id):
    client.create_session(session_id, config=memoryd.config(tokenizer="caller"))
    ids = add(client, session_id, message("user", "x" * 400), call("1"), result("1"))
    assert 100 <= next(iter(client.get_all(session_id))).token_count < 120
    assert [pop(client, session_id) for _ in range(4)] == [*ids[::-1], None]


def test_an_existing_session_keeps_its_configuration(client, session_id):
    config = memoryd.config(subject="ann")
    client._steps(session_steps.begun(session_id, config=config))
    client._steps(session_steps.begun(session_id, config=memoryd.config(subject="bob")))
    assert client.get_session(session_id).config.subject == "ann"


def test_objects_with_the_same_address_and_options_share_a_connection():
    one = connection_of("localhost:1", {"timeout": 3.0})
    assert connection_of("memoryd://localhost:1", {"timeout": 3.0}) is one
    assert connection_of("localhost:1", {"timeout": 4.0}) is not one
    given = Connection("localhost:1")
    assert connection_of(given, {}) is given
    with pytest.raises(TypeError, match="timeout: give these to the Connection"):
        connection_of(given, {"timeout": 3.0})


def test_a_write_ends_before_its_cancelled_caller_learns_it():
    async def run() -> None:
        may_end = asyncio.Event()
        done = []

        async def write() -> None:
            await may_end.wait()
            done.append(True)

        caller = asyncio.ensure_future(outcomes.ended(write()))
        for _ in range(3):
            await asyncio.sleep(0)
            caller.cancel()
        await asyncio.sleep(0)
        assert not caller.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert done == [True]

    asyncio.run(run())
