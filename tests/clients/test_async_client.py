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
from support.calls import memory
from support.server import Server

import memoryd
from memoryd import AsyncClient, Client, MemorydError, _calls, _item_calls, content, message
from memoryd.v1 import (
    block_service_pb2,
    item_service_pb2,
    job_service_pb2,
    memory_service_pb2,
    server_service_pb2,
    session_service_pb2,
    worker_service_pb2,
)
from memoryd.v1 import filter_pb2 as filter_wire

SERVICES = [module.DESCRIPTOR for module in (
    block_service_pb2, item_service_pb2, job_service_pb2, memory_service_pb2, server_service_pb2,
    session_service_pb2, worker_service_pb2)]

NOBODY = "unix:/nonexistent/memoryd.sock"


def calls_of(client: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(call) for name, call in vars(client).items()
            if not name.startswith("_") and name != "close"}


def test_both_clients_have_the_same_methods():
    assert calls_of(Client) == calls_of(AsyncClient)
    assert len(calls_of(Client)) > 35
    for name in calls_of(Client):
        assert getattr(Client, name).__doc__ == getattr(AsyncClient, name).__doc__ is not None
    arguments = [list(inspect.signature(c).parameters) for c in (Client, AsyncClient)]
    assert arguments[0] == arguments[1]


def test_every_rpc_has_a_method():
    made = {rpc.path for module in (_calls, _item_calls) for rpc in vars(module).values()
            if isinstance(rpc, _calls.Rpc)}
    # Operations on one item are sent as a batch, with others that are made at the same time.
    made |= {f"/memoryd.v1.ItemService/{name}Item" for name in ("Put", "Get", "Delete")}
    # Workers attach by their own class.
    assert made == {f"/{service.full_name}/{method.name}" for file in SERVICES
                    for service in file.services_by_name.values()
                    for method in service.methods} - {"/memoryd.v1.WorkerService/Attach"}


FACTS = block("facts", "fact-extraction", model="chat")


def test_facts_and_contents_one_by_one(server, session_id):
    with Client(server.target) as client:
        client.create_session(session_id, every_turn(FACTS))
        client.put(session_id, [message("user", "x", message_id="m")],
                   contents=[content("a", content_id="c")])
        added = client.add_fact(session_id, "facts", "one", trust=0.5, message_ids=["m"])
        assert (added.fact.trust, list(added.fact.message_ids)) == (0.5, ["m"])
        client.update_fact(session_id, "facts", 1, "two")
        client.delete_fact(session_id, "facts", 1)
        assert client.undo_block_change(session_id, "facts", 3).facts[0].text == "two"
        assert client.get_block(session_id, "facts").facts.facts[0].text == "two"
        with pytest.raises(MemorydError) as caught:
            list(client.list_block_entries(session_id, "facts"))
        assert caught.value.reason == "BLOCK_HAS_NO_ENTRIES"
        assert client.get_usage().HasField("start_time")
        client.update_content(session_id, "c", json="[1]", mime_type="application/json")
        assert client.get_content(session_id, "c").json == "[1]"
        assert client.delete_content(session_id, "c").position == 1
        with pytest.raises(ValueError, match="text and json"):
            client.update_content(session_id, "c", "b", json="[1]")
        with pytest.raises(MemorydError) as caught:
            client.get_content(session_id, "c")
        assert caught.value.reason == "CONTENT_NOT_FOUND"


def test_facts_and_contents_one_by_one_with_asyncio(server, session_id):
    async def main():
        async with AsyncClient(server.target) as client:
            await client.create_session(session_id, every_turn(
                FACTS, block("vectors", "vector", embedder="embed")))
            await client.put(session_id, contents=[content("a", content_id="c")])
            added = await client.add_fact(session_id, "facts", "one", request_id="r")
            assert (await client.add_fact(session_id, "facts", "one", request_id="r")).replayed
            await client.update_fact(session_id, "facts", added.fact.fact_id, "two")
            deleted = await client.delete_fact(session_id, "facts", added.fact.fact_id)
            undone = await client.undo_block_change(session_id, "facts", deleted.change)
            known = await client.get_block(session_id, "facts")
            assert list(known.facts.facts) == list(undone.facts) == [deleted.fact]
            assert [e async for e in client.list_block_entries(session_id, "vectors")] == []
            assert (await client.get_usage()).HasField("start_time")
            await client.update_content(session_id, "c", "b")
            assert (await client.get_content(session_id, "c")).text == "b"
            await client.delete_content(session_id, "c", expected_revision=known.revision + 1)
            assert [c async for c in client.get_all_contents(session_id)] == []

    asyncio.run(main())


def test_both_clients_read_the_newest_first(server, session_id):
    with Client(server.target) as client:
        client.put(session_id, [message("user", text) for text in "abcde"],
                   contents=[content("x"), content("y")])
        newest = client.get_all(session_id, newest_first=True, page_size=2)
        assert [next(newest).text for _ in range(3)] == ["e", "d", "c"]
        assert [m.text for m in client.stream_all(session_id, newest_first=True)] == [*"edcba"]
        contents = client.get_all_contents(session_id, newest_first=True, page_size=3)
        assert [c.text for c in contents] == ["y", "x"]
        nobody = filter_wire.Filter(roles=["nobody"])
        assert not list(client.get_all(session_id, filter=nobody, newest_first=True))

    async def main():
        async with AsyncClient(server.target) as client:
            pages = client.get_all(session_id, newest_first=True, page_size=2)
            assert [m.text async for m in pages] == [*"edcba"]
            stream = client.stream_all(session_id, newest_first=True)
            assert [m.text async for m in stream] == [*"edcba"]
            contents = client.get_all_contents(session_id, newest_first=True, page_size=3)
            assert [c.text async for c in contents] == ["y", "x"]

    asyncio.run(main())


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
