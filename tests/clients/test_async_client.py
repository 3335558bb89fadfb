"""The asyncio client against the server, and what both clients share."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import threading

import grpc
import pytest

from support.access import credential, write_credentials
from support.blocks import DONE, OPEN, block, every_turn, turn
from support.calls import memory, wire
from support.server import Server

import memoryd
from memoryd import AsyncClient, Client, MemorydError, content, message
from memoryd.v1 import filter_pb2 as filter_wire

NOBODY = "unix:/nonexistent/memoryd.sock"


def calls_of(client: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(call) for name, call in vars(client).items()
            if not name.startswith("_") and name != "close"}


def test_both_clients_have_the_same_methods():
    assert calls_of(Client) == calls_of(AsyncClient)
    assert len(calls_of(Client)) == 25
    for name in calls_of(Client):
        assert getattr(Client, name).__doc__ == getattr(AsyncClient, name).__doc__ != None
    arguments = [list(inspect.signature(c).parameters) for c in (Client, AsyncClient)]
    assert arguments[0] == arguments[1]


def test_the_round_of_a_session(server, session_id):
    async def main():
        async with AsyncClient(server.target) as client:
            config = memory.SessionConfig(token_limit=500)
            assert (await client.create_session(session_id, config)).config.token_limit == 500
            await client.put(session_id, [message("user", "Tea in France?"),
                                          message("assistant", "Yes.")],
                             contents=[content("Likes tea."), content(b"\0")])
            pages = [m.text async for m in client.get_all(session_id, page_size=1)]
            assert pages == ["Tea in France?", "Yes."]
            contents = [c async for c in client.get_all_contents(session_id, page_size=1)]
            assert (contents[0].text, contents[1].bytes_value) == ("Likes tea.", b"\0")
            got = await client.get(session_id, input="x")
            assert [m.role for m in got.messages] == ["user", "assistant"]
            found = await client.query(session_id, "tea", top_k=1,
                                       filter=filter_wire.Filter(roles=["user"]))
            assert [r.message.text for r in found.results] == ["Tea in France?"]
            context = await client.update_context(session_id, [message("user", "And Spain?")])
            assert "Likes tea." in context.messages[0].text
            assert (await client.set(session_id, [message("user", "c")])).removed_count == 2
            assert (await client.reset(session_id)).active_count == 1
            updated = await client.update_session(session_id, memory.SessionConfig(token_limit=600))
            assert await client.get_session(session_id) == updated
            listed = [s.session_id async for s in client.list_sessions(page_size=2)]
            assert session_id in listed
            await client.update_session(session_id, memory.SessionConfig(subject=session_id))
            of_subject = [s.session_id async for s in client.list_sessions(subject=session_id)]
            assert of_subject == [session_id]
            assert (await client.erase_subject(session_id, dry_run=True)).session_count == 1
            assert (await client.erase_subject(session_id)).purged
            assert (await client.delete_session(session_id)).message_count == 0
            assert (await client.server_info()).store.kind

    asyncio.run(main())


def test_an_error_has_code_reason_and_field(server, session_id):
    async def main():
        async with AsyncClient(server.target) as client:
            with pytest.raises(MemorydError) as caught:
                await client.put(session_id, [message("user", "x"), message("", "y")])
            assert caught.value.code == grpc.StatusCode.INVALID_ARGUMENT
            assert caught.value.field == "messages[1].role" and caught.value.reason
            with pytest.raises(MemorydError) as caught:
                await client.put(session_id, [message("user", "x")], expected_revision=7)
            assert caught.value.reason == "REVISION_MISMATCH"

    asyncio.run(main())


def test_a_client_is_made_anywhere_and_used_from_any_loop(server, session_id):
    client = AsyncClient(server.target)

    async def put(text):
        await client.put(session_id, [message("user", text)])
        return asyncio.get_running_loop()

    loops = [asyncio.run(put("first")), asyncio.run(put("second"))]
    others = [threading.Thread(target=lambda n=n: loops.append(asyncio.run(put(str(n)))))
              for n in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert len(set(map(id, loops))) == 6

    async def last():
        found = [m.text async for m in client.get_all(session_id)]
        await client.close()
        with pytest.raises(ValueError, match="closed"):
            await client.get(session_id)
        return found

    found = asyncio.run(last())
    assert found[:2] == ["first", "second"] and sorted(found[2:]) == ["0", "1", "2", "3"]


def test_many_calls_share_a_client(server, session_id):
    async def main():
        async with AsyncClient(server.target) as client:
            await asyncio.gather(*(client.put(session_id, [message("user", str(i))])
                                   for i in range(100)))
            return sorted([int(m.text) async for m in client.get_all(session_id)])

    assert asyncio.run(main()) == list(range(100))


@pytest.mark.parametrize("options, codes", (
    ({"wait_for_ready": True}, {"UNAVAILABLE", "DEADLINE_EXCEEDED"}),
    ({"wait_for_ready": False}, {"UNAVAILABLE"}),
))
def test_nobody_there(options, codes):
    async def main():
        async with AsyncClient(NOBODY, timeout=0.5, **options) as client:
            await client.get("s")

    with pytest.raises(MemorydError) as caught:
        asyncio.run(main())
    assert caught.value.code.name in codes
    with pytest.raises(MemorydError) as caught, Client(NOBODY, timeout=0.5, **options) as client:
        client.put("s")
    assert caught.value.code.name in codes


def test_calls_wait_for_a_server_that_is_not_there_yet(tmp_path):
    """Also those that are not repeated."""
    listen = f"unix:{tmp_path}/memoryd.sock"
    answers = []

    def ask():
        with Client(listen, timeout=60) as client:
            with pytest.raises(MemorydError) as caught:
                client.retry_job("s", "1")
            answers.append(caught.value.field)

    async def ask_in_a_loop():
        async with AsyncClient(listen, timeout=60) as client:
            answers.append((await client.server_info()).store.kind)

    asking = [threading.Thread(target=ask),
              threading.Thread(target=lambda: asyncio.run(ask_in_a_loop()))]
    for thread in asking:
        thread.start()
    with Server("sqlite::memory:", listen=listen):
        for thread in asking:
            thread.join()
    assert sorted(answers) == ["job_id", "sqlite"]


def test_a_token_may_be_rotated_and_asked_for_asynchronously(tmp_path):
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential("team", ["read", "write"], token=token) for token in ("one", "two")])
    tokens = ["one", "two", "three"]

    async def next_token():
        await asyncio.sleep(0)
        return tokens.pop(0)

    async def main(target):
        async with AsyncClient(target, token=next_token) as client:
            await client.put("s")
            await client.get("s")
            with pytest.raises(MemorydError) as caught:
                await client.get("s")
            assert caught.value.reason == "UNAUTHENTICATED"
        async with AsyncClient(target, token=lambda: "one") as client:
            await client.get("s")

    with Server("sqlite::memory:", arguments=[f"--credentials={file}"]) as server:
        asyncio.run(main(server.target))


class Turns(memoryd.Block):
    """Counts messages; `failing` fails."""

    name = "turns"
    failing = False

    async def put(self, messages, state):
        if self.failing:
            raise RuntimeError("not now")
        return (state or 0) + len(messages)

    def get(self, messages, state):
        return str(state or 0)


def test_put_waits_for_its_jobs_whose_block_is_on_the_same_loop(server, session_id):
    config = every_turn(block("turns", "worker", worker=session_id))

    async def main():
        async with AsyncClient(server.target) as client, memoryd.Worker(
                server.target, name=session_id, blocks=[Turns()]):
            await client.create_session(session_id, config)
            for wait in (20, datetime.timedelta(seconds=20), 20.0):
                reply = await client.put(session_id, turn("a"), wait=wait)
                assert not reply.open_jobs
            # The event loop is held up, and the block is asked all the same.
            with Client(server.target) as blocking:
                assert not blocking.put(session_id, turn("b"), wait=20).open_jobs
            jobs = [job async for job in client.list_jobs(session_id, page_size=1)]
            assert [job.state for job in jobs] == [DONE] * 3
            assert await client.get_job(session_id, jobs[0].job_id) == jobs[0]

    asyncio.run(main())


def test_jobs_are_listed_cancelled_and_retried(server, session_id):
    config = every_turn(block("turns", "worker", worker=session_id))
    with Client(server.target) as client:
        client.create_session(session_id, config)
        client.put(session_id, turn("a"))
        assert [j.job_id for j in client.put(session_id, turn("b"), wait=0).open_jobs]
        (job,) = client.list_jobs(session_id, state=OPEN)
        assert client.get_job(session_id, job.job_id).block == "turns"
        cancelled = client.cancel_job(session_id, job.job_id)
        assert cancelled.job_id == job.job_id and list(client.list_jobs(session_id, state=OPEN)) == []
        again = client.retry_job(session_id, job.job_id)
        assert again.job_id != job.job_id and again.state == OPEN
        with pytest.raises(MemorydError) as caught:
            client.get_job(session_id, "")
        assert caught.value.field == "job_id"


def test_the_deadline_lies_behind_the_wait(server, session_id):
    with Client(server.target, timeout=5) as client:
        with pytest.raises(ValueError, match="timeout"):
            client.put(session_id, wait=datetime.timedelta(seconds=3), timeout=3)
        assert not client.put(session_id, turn("a"), wait=20).open_jobs
        with pytest.raises(MemorydError) as caught:
            client.put(session_id, wait=-1)
        assert caught.value.field == "wait"
