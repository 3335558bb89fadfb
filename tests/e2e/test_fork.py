"""ForkSession: what a copy has, what it has not, and what it does to others."""

from __future__ import annotations

import contextlib
import random
import threading
import time

import grpc
import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import WAIT, block, every_turn, models_file, section, turn
from support.calls import Calls, assistant, memory, note, reason, refusal, session_wire, user
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store

ALREADY_EXISTS = grpc.StatusCode.ALREADY_EXISTS
INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
# Four words stay active.
SMALL = memory.SessionConfig(token_limit=100, token_flush_size=1, tokenizer="whitespace",
                             chat_history_token_ratio=0.3)


def fill(calls: Calls, session_id: str) -> list[memory.Message]:
    """A session of pinned, archived and active messages, an edited and a deleted one, contents."""
    calls.Put(session_id=session_id, config=SMALL, contents=[
        note("tea", content_id="c1"), note("derived"),
        memory.Content(mime_type="application/octet-stream", bytes_value=b"\0\xff")], messages=[
        memory.Message(role="system", text="be kind"),
        user("one", message_id="a", metadata_json='{"b":1.0,"a":1}', thread_id="t", name="Ann"),
        user("nul \0 byte"),
        memory.Message(role="assistant", parts=[memory.Part(tool_call=memory.ToolCall(
            call_id="k", name="f", arguments_json='{"z":1,"a":2}'))]),
        memory.Message(role="tool", parts=[memory.Part(tool_result=memory.ToolResult(
            call_id="k", name="f", text="done"))]),
        *(user(f"m{i}", message_id=f"m{i}") for i in range(20))])
    calls.UpdateMessage(session_id=session_id, message_id="m3", text="edited")
    calls.DeleteMessage(session_id=session_id, message_id="m4")
    calls.Put(session_id=session_id, messages=[assistant("last")])
    return calls.all_messages(session_id)


def check(calls: Calls, session_id: str, wanted: list[memory.Message]) -> session_wire.Session:
    assert calls.all_messages(session_id) == wanted
    session = calls.GetSession(session_id=session_id).session
    active = [m for m in wanted if m.status == memory.MESSAGE_STATUS_ACTIVE]
    assert session.active_count == len(active)
    assert session.archived_count == len(wanted) - len(active)
    assert session.active_token_count == sum(m.token_count for m in active)
    return session


def test_a_whole_copy_reads_as_its_source_does(calls, session_id):
    wanted = fill(calls, session_id)
    copy = session_id + " copy"
    reply = calls.ForkSession(session_id=session_id, new_session_id=copy)
    source = calls.GetSession(session_id=session_id).session
    session = check(calls, copy, wanted)
    assert reply.session == session and session.session_id == copy
    assert session.config == source.config
    assert session.generation != source.generation
    assert calls.all_contents(copy) == calls.all_contents(session_id)
    assert calls.Get(session_id=copy).messages == calls.Get(session_id=session_id).messages
    assert copy in [s.session_id for s in calls.ListSessions(page_size=1000).sessions]
    # The words of what is archived are found in it too.
    found = calls.Query(session_id=copy, query="edited", top_k=1).results
    assert found[0].message.message_id == "m3"
    # An id that was derived from its place names the message in the copy.
    derived = next(m for m in wanted if "nul" in m.text)
    calls.UpdateMessage(session_id=copy, message_id=derived.message_id, text="changed")
    assert calls.all_messages(session_id) == wanted


def test_the_two_have_nothing_to_do_with_each_other_from_then_on(calls, session_id):
    wanted = fill(calls, session_id)
    copy = session_id + " copy"
    calls.ForkSession(session_id=session_id, new_session_id=copy)
    put = calls.Put(session_id=copy, messages=[user("only here")])
    assert list(put.positions) == [wanted[-1].position + 1]
    assert calls.all_messages(session_id) == wanted
    calls.DeleteSession(session_id=session_id)
    assert [m.text for m in calls.all_messages(copy)] == [m.text for m in wanted] + ["only here"]
    calls.Reset(session_id=copy)
    assert calls.all_messages(copy) == []


@pytest.mark.parametrize("count", [1, 3, 10, -3, -1])
def test_a_copy_up_to_a_message_has_those_before_it_as_they_were(calls, session_id, count):
    wanted = fill(calls, session_id)[:count] if count != -1 else fill(calls, session_id)
    last = wanted[-1]
    by_position, by_id = session_id + " position", session_id + " id"
    calls.ForkSession(session_id=session_id, new_session_id=by_position,
                      up_to_position=last.position)
    calls.ForkSession(session_id=session_id, new_session_id=by_id,
                      up_to_message_id=last.message_id)
    for copy in (by_position, by_id):
        check(calls, copy, wanted)
        assert calls.all_contents(copy) == calls.all_contents(session_id)
        put = calls.Put(session_id=copy, messages=[user("next")])
        assert list(put.positions) == [last.position + 1]


def test_a_copy_of_a_copy_has_the_same_ids(calls, session_id):
    wanted = fill(calls, session_id)
    first, second = session_id + " 1", session_id + " 2"
    calls.ForkSession(session_id=session_id, new_session_id=first)
    calls.ForkSession(session_id=first, new_session_id=second)
    check(calls, second, wanted)
    # Under an id that was used before, with its garbage not purged yet.
    calls.DeleteSession(session_id=first)
    calls.ForkSession(session_id=second, new_session_id=first)
    check(calls, first, wanted)


def test_refusals_name_the_field_and_make_nothing(calls, session_id):
    last = fill(calls, session_id)[-1].position
    copy = session_id + " copy"
    revision = calls.GetSession(session_id=session_id).session.revision

    def refused(code, why, field="", **fields):
        error = refusal(calls.ForkSession, **{"session_id": session_id, "new_session_id": copy,
                                              **fields})
        assert (error.code(), reason(error)) == (code, why), error
        assert field in error.details()
        assert reason(refusal(calls.GetSession, session_id=copy)) == "SESSION_NOT_FOUND"

    refused(INVALID, "INVALID_FIELD", "new_session_id", new_session_id="")
    refused(INVALID, "INVALID_FIELD", "up_to_position", up_to_position=0)
    refused(INVALID, "INVALID_FIELD", "up_to_message_id", up_to_message_id="")
    refused(INVALID, "INVALID_FIELD", "expected_revision", expected_revision=-1)
    refused(NOT_FOUND, "SESSION_NOT_FOUND", session_id=session_id + " none")
    refused(NOT_FOUND, "MESSAGE_NOT_FOUND", "up_to_message_id", up_to_message_id="m4")
    refused(grpc.StatusCode.OUT_OF_RANGE, "POSITION_OUT_OF_RANGE", "up_to_position",
            up_to_position=last + 1)
    refused(grpc.StatusCode.ABORTED, "REVISION_MISMATCH", "expected_revision",
            expected_revision=revision - 1)
    refused(ALREADY_EXISTS, "SESSION_EXISTS", "new_session_id", new_session_id=session_id)
    calls.ForkSession(session_id=session_id, new_session_id=copy, expected_revision=revision)
    error = refusal(calls.ForkSession, session_id=session_id, new_session_id=copy)
    assert (error.code(), reason(error)) == (ALREADY_EXISTS, "SESSION_EXISTS")


def test_a_retry_is_answered_alike(calls, session_id):
    fill(calls, session_id)
    copy = session_id + " copy"
    asked = {"session_id": session_id, "new_session_id": copy, "request_id": "r"}
    first = calls.ForkSession(**asked)
    calls.Put(session_id=copy, messages=[user("more")])
    again = calls.ForkSession(**asked)
    assert again.replayed and not first.replayed
    again.replayed = False
    assert again == first
    error = refusal(calls.ForkSession, up_to_position=1, **asked)
    assert (error.code(), reason(error)) == (ALREADY_EXISTS, "REQUEST_ID_REUSED")
    for session in (copy, session_id):
        calls.DeleteSession(session_id=session)
    assert calls.ForkSession(**asked).replayed
    assert reason(refusal(calls.GetSession, session_id=copy)) == "SESSION_NOT_FOUND"


def test_many_at_once_under_one_id_make_one(calls, session_id):
    fill(calls, session_id)
    copy = session_id + " copy"
    outcomes = []

    def fork() -> None:
        try:
            outcomes.append(calls.ForkSession(session_id=session_id, new_session_id=copy))
        except grpc.RpcError as error:
            outcomes.append(reason(error))

    threads = [threading.Thread(target=fork) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [o for o in outcomes if not isinstance(o, str)]
    assert len(outcomes) == 8 and len(made) == 1, outcomes
    assert {o for o in outcomes if isinstance(o, str)} <= {"SESSION_EXISTS", "SESSION_REPLACED"}
    check(calls, copy, calls.all_messages(session_id))


def test_what_blocks_know_is_copied_with_all_messages_and_not_with_some(store_kind, tmp_path):
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(fresh_store(store_kind))
        models = stack.enter_context(ModelServer(["They spoke of tea."]))
        config = models_file(tmp_path, models)
        server = stack.enter_context(Server(store, arguments=[config]))
        calls = Calls(stack.enter_context(server.channel()))
        calls.CreateSession(session_id="s", config=every_turn(
            block("summary", "summary", model="chat"),
            block("vectors", "vector", embedder="embed")))
        for i in range(3):
            calls.Put(session_id="s", messages=turn(f"Ann likes tea {i}"), wait=WAIT)
        entries = calls.all_entries("s", "vectors")
        assert entries
        whole = calls.ForkSession(session_id="s", new_session_id="whole")
        part = calls.ForkSession(session_id="s", new_session_id="part", up_to_position=3)
        assert (whole.blocks_copied, part.blocks_copied) == (True, False)
        assert calls.all_entries("whole", "vectors") == entries
        assert calls.all_entries("part", "vectors") == []
        assert section(calls.Get(session_id="whole"), "summary") == ["They spoke of tea."]
        assert section(calls.Get(session_id="part"), "summary") == []
        assert calls.Get(session_id="whole").messages == calls.Get(session_id="s").messages
        # Each goes on by itself.
        calls.Put(session_id="whole", messages=turn("Bob likes milk"), wait=WAIT)
        assert len(calls.all_entries("whole", "vectors")) > len(entries)
        assert calls.all_entries("s", "vectors") == entries
        for _ in range(2):
            calls.Put(session_id="part", messages=turn("Bob likes milk"), wait=WAIT)
        assert calls.all_entries("part", "vectors")


def test_quotas_hold(store_kind, tmp_path):
    credentials = write_credentials(tmp_path / "credentials.yaml", [credential("t", token="t")])
    arguments = [f"--credentials={credentials}", "--tenant-messages=25", "--tenant-sessions=3"]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server, \
            server.channel() as channel:
        caller = Caller(channel, "t")
        caller("Put", session_id="s", messages=[user(f"m{i}") for i in range(10)])
        caller("ForkSession", session_id="s", new_session_id="one")
        error = caller.error("ForkSession", session_id="s", new_session_id="two")
        assert reason(error) == "QUOTA_EXCEEDED"
        assert caller.error("GetSession", session_id="two").code() == NOT_FOUND
        caller("ForkSession", session_id="s", new_session_id="two", up_to_position=5)
        error = caller.error("ForkSession", session_id="two", new_session_id="three",
                             up_to_position=1)
        assert reason(error) == "QUOTA_EXCEEDED"


def test_a_copy_is_whole_or_not_there_when_the_server_is_killed(store_kind, tmp_path):
    count = 20_000
    with fresh_store(store_kind) as store:
        address = f"unix:{tmp_path}/memoryd.sock"
        server = Server(store, listen=address)
        try:
            with server.channel() as channel:
                calls = Calls(channel)
                for at in range(0, count, 1000):
                    calls.Put(session_id="s", messages=[user(f"m{at + i}") for i in range(1000)])
                calls.Put(session_id="copy", messages=[user("before")])
                calls.DeleteSession(session_id="copy")
            for delay in (0.02, 0.1, 0.2, 0.3):
                with server.channel() as channel:
                    fork = channel.unary_unary(
                        "/memoryd.v1.SessionService/ForkSession",
                        request_serializer=session_wire.ForkSessionRequest.SerializeToString,
                        response_deserializer=session_wire.ForkSessionResponse.FromString)
                    under_way = fork.future(session_wire.ForkSessionRequest(
                        session_id="s", new_session_id="copy"), timeout=30)
                    # Nothing is seen of it until it is there.
                    calls = Calls(channel)
                    until = time.monotonic() + delay
                    while time.monotonic() < until and not under_way.done():
                        seen = calls.GetAll(session_id="copy", include_total=True)
                        assert seen.total_count in (0, count)
                    server.kill()
                server = Server(store, listen=address)
                with server.channel() as channel:
                    calls = Calls(channel)
                    seen = calls.all_messages("copy")
                    assert len(seen) in (0, count)
                    if seen:
                        calls.DeleteSession(session_id="copy")
            with server.channel() as channel:
                calls = Calls(channel)
                calls.ForkSession(session_id="s", new_session_id="copy", timeout=30)
                assert calls.all_messages("copy") == calls.all_messages("s")
        finally:
            server.kill()


def test_a_copy_is_of_one_moment_whatever_is_put_and_deleted_meanwhile(calls, session_id):
    count = 5000
    for at in range(0, count, 1000):
        calls.Put(session_id=session_id, config=SMALL,
                  messages=[user(f"m{at + i}", message_id=f"m{at + i}") for i in range(1000)])
    order = [f"m{i}" for i in range(count)]
    random.Random(1).shuffle(order)
    stop = threading.Event()

    def disturb() -> None:
        for number, name in enumerate(order):
            for more in range(20):
                if stop.is_set():
                    return
                calls.Put(session_id=session_id, messages=[user(f"new {number} {more}")])
            calls.DeleteMessage(session_id=session_id, message_id=name)

    def fork(number: int) -> bool:
        copy = f"{session_id} {number}"
        try:
            calls.ForkSession(session_id=session_id, new_session_id=copy)
        except grpc.RpcError as error:
            assert reason(error) == "SESSION_REPLACED", error
            assert calls.all_messages(copy) == []
            return False
        found = calls.all_messages(copy)
        check(calls, copy, found)
        kept = {m.message_id for m in found}
        missing = [name for name in order if name not in kept]
        assert missing == order[:len(missing)]
        news = [m.position for m in found if m.text.startswith("new")]
        assert news == list(range(count + 1, count + 1 + len(news)))
        return True

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for number in range(5):
            fork(number)
    finally:
        stop.set()
        thread.join()
    assert fork(5)
