"""WatchSession: what changes in a session, as it changes, whichever server made it change."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess

import grpc
import pytest

from support.access import Caller, credential, write_credentials, write_subjects
from support.blocks import WAIT, block, every_turn, turn
from support.calls import Calls, memory, note, reason, refusal, session_wire, user
from support.commands import Commands
from support.http import LINES, LISTEN, HttpCaller, path_of
from support.metrics import Watch
from support.server import Server
from support.stores import fresh_store

from memoryd import AsyncClient, Client

RELOAD = session_wire.SESSION_CHANGE_RELOAD
PUT = session_wire.SESSION_CHANGE_MESSAGES_PUT
ARCHIVED = session_wire.SESSION_CHANGE_MESSAGES_ARCHIVED
REMOVED = session_wire.SESSION_CHANGE_MESSAGES_REMOVED
REPLACED = session_wire.SESSION_CHANGE_MESSAGES_REPLACED
EDITED = session_wire.SESSION_CHANGE_ITEMS_EDITED
CONTENTS = session_wire.SESSION_CHANGE_CONTENTS_PUT
CONTENTS_REPLACED = session_wire.SESSION_CHANGE_CONTENTS_REPLACED
BLOCKS = session_wire.SESSION_CHANGE_BLOCKS
JOBS = session_wire.SESSION_CHANGE_JOBS
CONFIG = session_wire.SESSION_CHANGE_CONFIG
DELETED = session_wire.SESSION_CHANGE_DELETED
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def until(stream, revision: int) -> tuple[set[int], session_wire.WatchSessionResponse]:
    """What is told until the session is at `revision`, and the last reply. Several changes may come
    in one reply, or in several."""
    changes: set[int] = set()
    for news in stream:
        changes |= set(news.changes)
        if news.revision >= revision:
            return changes, news
    raise AssertionError(f"the stream ended before revision {revision}")


def stream_error(stream) -> grpc.RpcError:
    return refusal(lambda: list(stream))


def test_the_first_reply_is_the_state(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("Hi")])
    news = next(calls.WatchSession(session_id=session_id))
    session = calls.GetSession(session_id=session_id).session
    assert (list(news.changes), news.revision, news.next_position) == ([], session.revision, 2)
    session.ClearField("config")
    assert news.session == session


def test_each_kind_of_change_is_told(calls, session_id):
    put = calls.Put(session_id=session_id, messages=[user("a"), user("b")])
    stream = calls.WatchSession(session_id=session_id, after_revision=put.revision)
    assert not next(stream).changes
    at = {"session_id": session_id}

    def told(reply) -> tuple[set[int], session_wire.WatchSessionResponse]:
        return until(stream, getattr(reply, "revision", 0) or reply.session.revision)

    changes, news = told(calls.Put(messages=[user("c"), user("d")], **at))
    assert (changes, news.first_new_position, news.next_position) == ({PUT}, 3, 5)
    assert told(calls.Put(contents=[note("n")], **at))[0] == {CONTENTS}
    changed = calls.UpdateMessage(message_id=put.message_ids[0], text="A", **at)
    assert told(changed)[0] == {EDITED}
    assert told(calls.DeleteMessage(message_id=put.message_ids[0], **at))[0] == {EDITED}
    assert told(calls.UpdateSession(config=memory.SessionConfig(token_limit=999), **at))[0] == {
        CONFIG}
    assert REMOVED in told(calls.Reset(scope=2, **at))[0]  # The active ones.
    assert told(calls.Set(messages=[user("new")], **at))[0] == {REPLACED, CONTENTS_REPLACED}
    calls.DeleteSession(**at)
    *_, last = stream
    assert list(last.changes) == [DELETED] and last.session.session_id == session_id


def test_what_leaves_short_term_memory_and_its_jobs_are_told(calls, session_id):
    config = every_turn(block("b", "worker", worker="away"))
    first = calls.Put(session_id=session_id, messages=turn("one"), config=config)
    stream = calls.WatchSession(session_id=session_id)
    assert next(stream).revision == first.revision
    second = calls.Put(session_id=session_id, messages=turn("two"))
    changes, news = until(stream, second.revision)
    assert changes == {PUT, ARCHIVED, JOBS}
    assert news.watermark == 2 and news.session.archived_count == 2
    job, = calls.ListJobs(session_id=session_id).jobs
    calls.CancelJob(session_id=session_id, job_id=job.job_id)
    revision = calls.GetSession(session_id=session_id).session.revision
    assert JOBS in until(stream, revision)[0]


def test_a_fact_by_hand_is_a_change_of_its_block(calls, session_id):
    config = memory.SessionConfig(blocks=[block("facts", "fact-extraction", model="m")])
    calls.CreateSession(session_id=session_id, config=config)
    stream = calls.WatchSession(session_id=session_id)
    next(stream)
    added = calls.AddFact(session_id=session_id, block="facts", text="Ada likes tea.")
    changes, news = until(stream, added.revision)
    assert changes == {BLOCKS} and list(news.blocks) == ["facts"]


def test_a_watch_is_taken_up_again_by_its_revision(calls, session_id):
    put = calls.Put(session_id=session_id, messages=[user("a")])
    at = {"session_id": session_id, "after_revision": put.revision}
    stream = calls.WatchSession(**at)
    assert not next(stream).changes
    stream.cancel()
    assert not next(calls.WatchSession(**at)).changes
    later = calls.Put(session_id=session_id, messages=[user("b")])
    again = next(calls.WatchSession(**at))
    assert (list(again.changes), again.revision) == ([RELOAD], later.revision)


def test_what_can_not_be_watched_is_refused(calls, session_id):
    error = stream_error(calls.WatchSession(session_id=session_id))
    assert (error.code(), reason(error)) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
    for fields in ({"session_id": ""}, {"session_id": session_id, "after_revision": -1}):
        error = stream_error(calls.WatchSession(**fields))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert dict(error.trailing_metadata())["x-request-id"]


def test_a_session_that_is_made_again_is_another_one(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("a")])
    stream = calls.WatchSession(session_id=session_id)
    next(stream)
    calls.DeleteSession(session_id=session_id)
    calls.Put(session_id=session_id, messages=[user("b")])
    *_, last = stream
    assert list(last.changes) == [DELETED]


def test_a_reader_that_takes_nothing_gets_all_in_one(calls, session_id):
    """Of a hundred Puts few replies are made; the last says where the session is."""
    calls.Put(session_id=session_id, messages=[user("first")])
    stream = calls.WatchSession(session_id=session_id)
    next(stream)
    for number in range(100):
        last = calls.Put(session_id=session_id, messages=[user(str(number))])
    replies, positions = 0, set()
    for news in stream:
        replies += 1
        if PUT in news.changes:
            positions |= set(range(news.first_new_position, news.next_position))
        if news.revision == last.revision:
            break
    assert positions == set(range(2, 102))
    assert replies < 100


def test_another_server_of_the_store_is_seen():
    with fresh_store("postgresql") as store, contextlib.ExitStack() as stack:
        one, other = (Calls(stack.enter_context(stack.enter_context(Server(store)).channel()))
                      for _ in range(2))
        one.Put(session_id="s", messages=[user("a")])
        stream = one.WatchSession(session_id="s")
        next(stream)
        for _ in range(3):
            put = other.Put(session_id="s", messages=[user("b")])
            assert until(stream, put.revision)[0] == {PUT}
        other.DeleteSession(session_id="s")
        *_, last = stream
        assert list(last.changes) == [DELETED]


def test_a_drain_ends_watches(store):
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="s", messages=[user("a")])
        stream = calls.WatchSession(session_id="s")
        next(stream)
        server.terminate()
        error = stream_error(stream)
        assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert server.wait() == 0


def test_the_watches_of_a_tenant_are_bounded(tmp_path):
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential(name, token=name) for name in ("few", "many")])
    settings = tmp_path / "memoryd.yaml"
    settings.write_text(json.dumps({"tenants": [{"name": "many", "watches": 0}]}))
    with Server("sqlite::memory:", arguments=[
            f"--credentials={file}", f"--config={settings}", "--tenant-watches=2",
            "--metrics-listen=127.0.0.1:0"]) as server, server.channel() as channel:
        stub = channel.unary_stream(
            "/memoryd.v1.SessionService/WatchSession",
            request_serializer=session_wire.WatchSessionRequest.SerializeToString,
            response_deserializer=session_wire.WatchSessionResponse.FromString)

        def watch(name: str):
            stream = stub(session_wire.WatchSessionRequest(session_id="s"), timeout=60,
                          metadata=(("authorization", f"Bearer {name}"),))
            next(stream)
            return stream

        counted = Watch(server.metrics)
        for name in ("few", "many"):
            Caller(channel, name)("Put", session_id="s", messages=[user("a")])
        held = [watch("few") for _ in range(2)]
        error = refusal(watch, "few")
        assert (error.code(), reason(error)) == (EXHAUSTED, "TENANT_WATCHES")
        assert "tenant_watches" in error.details()
        assert len([watch("many") for _ in range(5)]) == 5
        held[0].cancel()
        # Its place is free once the server has seen that.
        while refusal_or_none(watch, "few") is not None:
            pass
        assert counted.moved("memoryd_admission_rejected_total", reason="tenant_watches") >= 1


def refusal_or_none(call, *arguments) -> grpc.RpcError | None:
    try:
        call(*arguments)
    except grpc.RpcError as error:
        assert reason(error) == "TENANT_WATCHES"
        return error
    return None


def watched_with(channel, token):
    """A watch of the session `s`."""
    stub = channel.unary_stream(
        "/memoryd.v1.SessionService/WatchSession",
        request_serializer=session_wire.WatchSessionRequest.SerializeToString,
        response_deserializer=session_wire.WatchSessionResponse.FromString)
    return stub(session_wire.WatchSessionRequest(session_id="s"), timeout=60,
                metadata=(("authorization", f"Bearer {token}"),))


def test_a_subjects_watch_ends_when_its_session_is_given_away(store, tmp_path):
    file = write_subjects(tmp_path)
    with Server(store, arguments=[f"--credentials={file}"]) as server, \
            server.channel() as channel:
        everybody = Caller(channel, "all")
        everybody("Put", session_id="s", messages=[user("a")],
                  config=memory.SessionConfig(subject="ann"))
        stream = watched_with(channel, "ann")
        next(stream)
        everybody("UpdateSession", session_id="s", config=memory.SessionConfig(subject="bob"))
        error = stream_error(stream)
        assert (error.code(), reason(error)) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")


def test_a_watch_ends_with_its_credential(store, tmp_path):
    entries = [credential("t", token="a"), credential("t", token="b")]
    file = write_credentials(tmp_path / "credentials.yaml", entries)
    with Server(store, arguments=[f"--credentials={file}"]) as server, \
            server.channel() as channel:
        other = Caller(channel, "b")
        other("Put", session_id="s", messages=[user("a")])
        stream = watched_with(channel, "a")
        next(stream)
        write_credentials(file, entries[1:])
        while Caller(channel, "a").code("Get", session_id="s") == grpc.StatusCode.OK:
            pass
        other("Put", session_id="s", messages=[user("b")])
        error = stream_error(stream)
        assert error.code() == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("asynchronous", (False, True))
def test_the_client_goes_on_over_a_restart(store, tmp_path, asynchronous):
    address = f"unix:{tmp_path}/socket"
    with contextlib.ExitStack() as servers, Client(address, timeout=60) as client:
        first = servers.enter_context(Server(store, listen=address))
        client.put("s", [user("a")])

        def again() -> int:
            first.kill()
            servers.enter_context(Server(store, listen=address))
            return client.put("s", [user("b")]).revision

        if asynchronous:
            import asyncio
            asyncio.run(watch_over(address, again))
            return
        stream = client.watch_session("s")
        assert not next(stream).changes
        revision = again()
        changes, _ = until(stream, revision)
        assert changes <= {RELOAD, PUT} and changes
        client.delete_session("s")
        *_, last = stream
        assert list(last.changes) == [DELETED]


async def watch_over(address: str, again) -> None:
    async with AsyncClient(address, timeout=60) as client:
        stream = client.watch_session("s")
        assert not (await anext(stream)).changes
        import asyncio
        revision = await asyncio.to_thread(again)
        seen = set()
        async for news in stream:
            seen |= set(news.changes)
            if news.revision >= revision:
                break
        assert seen and seen <= {RELOAD, PUT}
        await stream.aclose()


def test_it_streams_over_http(store):
    with Server(store, arguments=[LISTEN]) as server, server.channel() as channel:
        calls, caller = Calls(channel), HttpCaller(server.http)
        calls.Put(session_id="s", messages=[user("a")])
        stream = caller.watch("WatchSession", sessionId="s")
        assert next(stream)["session"]["sessionId"] == "s"
        put = calls.Put(session_id="s", messages=[user("b")])
        news = next(one for one in stream if one["revision"] == str(put.revision))
        assert news["changes"] == ["SESSION_CHANGE_MESSAGES_PUT"]
        calls.DeleteSession(session_id="s")
        *_, last, end = stream
        assert last["changes"] == ["SESSION_CHANGE_DELETED"] and "error" not in end


def test_it_comes_as_lines_of_json(store):
    with Server(store, arguments=[LISTEN]) as server, server.channel() as channel:
        calls, caller = Calls(channel), HttpCaller(server.http)
        calls.Put(session_id="s", messages=[user("a")])
        caller.connection.request(
            "POST", path_of("WatchSession"), json.dumps({"sessionId": "s"}).encode(),
            {"Content-Type": "application/json", "Accept": LINES})
        answer = caller.connection.getresponse()
        assert answer.status == 200
        assert json.loads(answer.readline())["revision"] == "1"
        calls.Put(session_id="s", messages=[user("b")])
        assert json.loads(answer.readline())["firstNewPosition"] == "2"
        calls.DeleteSession(session_id="s")
        assert json.loads(answer.readline())["changes"] == ["SESSION_CHANGE_DELETED"]
        assert answer.readline() == b""


def test_the_command_shows_changes(calls, server, session_id):
    commands = Commands(server.target)
    assert "SESSION_NOT_FOUND" in commands.fails(3, "watch", session_id)
    calls.Put(session_id=session_id, messages=[user("a")])
    with commands.start("watch", session_id, stdout=subprocess.PIPE, text=True) as watch, \
            commands.start("watch", session_id, "--json", stdout=subprocess.PIPE,
                           text=True) as in_json:
        assert watch.stdout.readline().endswith("revision 1: watching\n")
        assert json.loads(in_json.stdout.readline())["revision"] == "1"
        calls.Put(session_id=session_id, messages=[user("b"), user("c")])
        assert watch.stdout.readline().endswith(": messages 2 to 3 put\n")
        assert json.loads(in_json.stdout.readline())["changes"] == ["SESSION_CHANGE_MESSAGES_PUT"]
        calls.DeleteSession(session_id=session_id)
        assert watch.stdout.readline() == "deleted\n"
        assert watch.wait() == in_json.wait() == 0


def test_a_command_that_watches_ends_by_a_signal(calls, server, session_id):
    calls.Put(session_id=session_id, messages=[user("a")])
    with Commands(server.target).start("watch", session_id, stdout=subprocess.PIPE,
                                       text=True) as watch:
        watch.stdout.readline()
        watch.send_signal(signal.SIGTERM)
        assert watch.wait() != 0


def test_a_put_that_waits_is_told_with_its_jobs(calls, session_id):
    """What a job adds comes with its end, which is a change of its own."""
    config = every_turn(block("b", "static", content=["x"]))
    put = calls.Put(session_id=session_id, messages=turn("one"), config=config, wait=WAIT)
    assert next(calls.WatchSession(session_id=session_id)).revision == put.revision
