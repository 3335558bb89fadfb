"""ImportSession, and memoryd import: a session as it was elsewhere, whole or not at all."""

from __future__ import annotations

import json
import subprocess
import threading

import grpc
import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import block, field_of
from support.calls import Calls, assistant, memory, note, reason, refusal, session_wire, user
from support.paths import BINARY
from support.server import Server
from support.stores import OTHER, fresh_store

ALREADY_EXISTS = grpc.StatusCode.ALREADY_EXISTS
INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
SMALL = memory.SessionConfig(token_limit=100, token_flush_size=1, tokenizer="whitespace",
                             chat_history_token_ratio=0.3)
ARCHIVED = memory.MESSAGE_STATUS_ARCHIVED


def command(target: str, *arguments: str, code: int = 0, given: str | None = None) -> str:
    done = subprocess.run([str(BINARY), *arguments, "--target", target], capture_output=True,
                          text=True, timeout=120, check=False, input=given)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def fill(calls: Calls) -> None:
    """Sessions of every kind."""
    calls.Put(session_id="full", config=SMALL, contents=[
        note("tea", content_id="c1", metadata_json='{"b":1.0,"a":1}'), note("derived"),
        memory.Content(mime_type="application/octet-stream", bytes_value=b"\0\xff"),
        memory.Content(mime_type="application/json", json='{"z":1,"a":2}')], messages=[
        memory.Message(role="system", text="be kind"),
        user("one", message_id="a", metadata_json='{"b":1.0,"a":1}', thread_id="t", name="Ann"),
        user("nul \0 \u4e2d\u6587 \U0001f600", untrusted=True),
        memory.Message(role="assistant", parts=[
            memory.Part(tool_call=memory.ToolCall(call_id="k", name="f",
                                                  arguments_json='{"z":1,"a":2}')),
            memory.Part(image=memory.Media(data=b"\0\1", mime_type="image/png", fps=0.1))]),
        memory.Message(role="tool", parts=[memory.Part(tool_result=memory.ToolResult(
            call_id="k", name="f", text="done"))]),
        *(user(f"m{i}", message_id=f"m{i}") for i in range(20))])
    calls.UpdateMessage(session_id="full", message_id="m3", text="edited")
    calls.DeleteMessage(session_id="full", message_id="m4")
    calls.DeleteMessage(session_id="full", message_id="m19")
    calls.Put(session_id="full", messages=[assistant("last " + "long " * 2000)])
    calls.CreateSession(session_id="empty", config=memory.SessionConfig(
        profile="autogen-list", blocks=[block("b", "static", 2, content=["always"])]))
    calls.Put(session_id="contents", contents=[note("alone")])
    calls.Put(session_id="llama", config=memory.SessionConfig(
        profile="llama-index", token_limit=50, token_flush_size=10, tokenizer="whitespace"),
        messages=[user("one two three") if i % 2 else assistant("four five") for i in range(50)])
    calls.Put(session_id="active", messages=[memory.Message(role="system", text="a"),
                                             memory.Message(role="developer", text="b"), user("c")])
    calls.Put(session_id="reset", messages=[user("gone")])
    calls.Reset(session_id="reset")
    calls.Put(session_id="reset", messages=[user("second life")])
    # From another session.
    calls.Put(session_id="talk", config=memory.SessionConfig(blocks=[
        block("user", "session", session_id="active")]), messages=[user("handed on")],
        wait={"seconds": 25})


def test_export_import_export_is_byte_equal_in_another_store(store_kind, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with fresh_store(store_kind) as store, Server(store) as server, \
            fresh_store(OTHER[store_kind]) as other, Server(other) as beyond, \
            server.channel() as channel, beyond.channel() as to:
        calls, there = Calls(channel), Calls(to)
        fill(calls)
        command(server.target, "export", "--all", "--output", str(first))
        told = command(beyond.target, "import", str(first), "--json")
        counts = json.loads(first.read_text().splitlines()[-1])["end"]
        assert json.loads(told) == {**counts, "skipped": 0}
        command(beyond.target, "export", "--all", "--output", str(second))
        assert second.read_bytes() == first.read_bytes()
        # It lives on as the first does.
        for session_id in ("full", "llama", "active", "reset"):
            for one in (calls, there):
                one.Put(session_id=session_id, messages=[user(f"more {i}") for i in range(9)])
            a, b = (one.Get(session_id=session_id) for one in (calls, there))
            assert [m.text for m in a.messages] == [m.text for m in b.messages]
            assert a.token_count == b.token_count
            states = [[(m.text, m.status, m.position) for m in one.all_messages(session_id)]
                      for one in (calls, there)]
            assert states[0] == states[1]
        found = there.Query(session_id="full", query="edited", top_k=1).results
        assert found[0].message.message_id == "m3"
        there.UpdateMessage(session_id="full", message_id="m5", text="changed")


def test_an_id_of_before_characters_had_to_show_is_imported_and_lives_on(store_kind, tmp_path):
    with fresh_store(store_kind) as store, Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="plain", messages=[user("hi")],
                  config=memory.SessionConfig(subject="plain"))
        file = tmp_path / "file"
        file.write_text(command(server.target, "export", "plain").replace("plain", "old\ufe0f"))
        command(server.target, "import", str(file))
        old = "old\ufe0f"
        assert calls.GetSession(session_id=old).session.config.subject == old
        calls.Put(session_id=old, messages=[user("more")])
        calls.Put(session_id=old, messages=[user("and more")],
                  config=calls.GetSession(session_id=old).session.config)
        calls.UpdateSession(session_id=old, config=memory.SessionConfig(token_limit=50_000))
        assert len(calls.Get(session_id=old).messages) == 3
        assert old in command(server.target, "export", "--all")
        calls.Reset(session_id=old)
        assert calls.EraseSubject(subject=old).session_count == 1
        error = refusal(calls.Put, session_id=old, messages=[user("anew")])
        assert error.code() == INVALID and "session_id" in error.details()


def test_what_is_there_is_refused_or_skipped(store_kind, tmp_path):
    with fresh_store(store_kind) as store, Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        for name in ("a", "b"):
            calls.Put(session_id=name, messages=[user(name)])
        text = command(server.target, "export", "--all")
        file = tmp_path / "file"
        file.write_text(text)
        assert "a: ALREADY_EXISTS SESSION_EXISTS" in command(
            server.target, "import", str(file), code=1)
        calls.DeleteSession(session_id="b")
        told = json.loads(command(server.target, "import", str(file), "--skip-existing", "--json"))
        assert told == {"sessions": 1, "messages": 1, "contents": 0, "skipped": 1}
        calls.DeleteSession(session_id="a")
        told = command(server.target, "import", "-", "--skip-existing", given=text)
        assert told == "1 sessions, 1 messages, 0 contents, 1 sessions skipped\n"
        assert command(server.target, "export", "--all") == text


def test_a_file_that_is_not_whole_makes_nothing(store_kind, tmp_path):
    with fresh_store(store_kind) as store, Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="a", messages=[user("x")])
        lines = command(server.target, "export", "--all").splitlines(keepends=True)
        calls.DeleteSession(session_id="a")
        file = tmp_path / "file"
        for wrong, said in ((lines[:-1], "line 3: the export ends without its `end`"),
                            (lines[1:], "line 1: is no export"),
                            ([*lines[:2], lines[-1]], "there were"),
                            (['{"memoryd_export":3}\n', *lines[1:]], "format 3")):
            file.write_text("".join(wrong))
            assert said in command(server.target, "import", str(file), code=2)
            assert not calls.ListSessions().sessions
        file.write_text("".join(lines))
        command(server.target, "import", str(file), "--dry-run")
        assert not calls.ListSessions().sessions
        assert "can't be read" in command(server.target, "import", str(tmp_path / "no"), code=2)


@pytest.mark.large
def test_large_messages_among_small_ones(store_kind, tmp_path):
    with fresh_store(store_kind) as store, Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="s", messages=[user("x" * 20_000) for _ in range(20)])
        parts = [memory.Part(text="y" * 1_000_000) for _ in range(4)]
        calls.Put(session_id="s", messages=[memory.Message(role="user", parts=parts)])
        held = calls.all_messages("s", page_size=5)
        text = command(server.target, "export", "s")
        calls.DeleteSession(session_id="s")
        command(server.target, "import", "-", given=text)
        assert calls.all_messages("s", page_size=5) == held
        assert "something follows" in command(server.target, "import", "-", "--skip-existing",
                                              given=text + text, code=2)


def place(position: int, **fields) -> memory.Message:
    return memory.Message(**{"role": "user", "text": "x", "message_id": f"m{position}",
                             "position": position, **fields})


WRONG = (
    ([place(2), place(1)], "messages[1].position"),
    ([place(0)], "messages[0].position"),
    ([place(1), place(2**63 - 1)], "messages[1].position"),
    ([place(1, message_id="")], "messages[0].message_id"),
    ([place(1, role="")], "messages[0].role"),
    ([place(1), place(2, metadata_json="[]")], "messages[1].metadata_json"),
    ([place(1, status=7)], "messages[0].status"),
    ([place(1, status=ARCHIVED), place(2), place(3, status=ARCHIVED)], "messages[2].status"),
    ([*(place(i) for i in range(1, 10)), place(10, status=ARCHIVED)], "messages[9].status"),
    ([place(1, ingest_time={"seconds": -1})], "messages[0].ingest_time"),
)


@pytest.mark.parametrize("messages, field", WRONG)
def test_bad_messages_are_named_and_nothing_is_made(calls, session_id, messages, field):
    error = refusal(calls.import_session, session_id, messages)
    assert (error.code(), field_of(error)) == (INVALID, field)
    assert refusal(calls.GetSession, session_id=session_id).code() == NOT_FOUND
    # The id is free.
    calls.import_session(session_id, [place(1)])


def test_bad_beginnings_and_ends_are_named(calls, session_id):
    Request, Begin = session_wire.ImportSessionRequest, session_wire.ImportBegin
    begin = Request(begin=Begin(session_id=session_id))
    items = Request(items=session_wire.ImportItems(messages=[place(1)]))
    end = Request(end=session_wire.ImportEnd(message_count=1))
    for steps, field in (
            ([items], "begin"), ([end], "begin"), ([begin, begin], "begin"), ([Request()], "begin"),
            ([begin, Request()], "step"),
            ([Request(begin=Begin(session_id=""))], "begin.session_id"),
            ([Request(begin=Begin(session_id=session_id, config={"profile": "x"}))],
             "config.profile"),
            ([Request(begin=Begin(session_id=session_id, config={"token_limit": -1}))],
             "config.token_limit"),
            ([Request(begin=Begin(session_id=session_id, create_time={"seconds": -5}))],
             "begin.create_time"),
            ([begin, items, Request(end=session_wire.ImportEnd(message_count=2))], "end"),
            ([begin, items, Request(end=session_wire.ImportEnd(message_count=1,
                                                               content_count=1))], "end")):
        error = refusal(calls.import_stream, iter(steps))
        assert (error.code(), field_of(error)) == (INVALID, field), steps
    for steps in ([], [begin], [begin, items]):
        error = refusal(calls.import_stream, iter(steps))
        assert (error.code(), reason(error)) == (INVALID, "IMPORT_CUT_SHORT")
    assert refusal(calls.GetSession, session_id=session_id).code() == NOT_FOUND
    twice = [place(1, message_id="m"), place(2, message_id="m")]
    assert reason(refusal(calls.import_session, session_id, twice)) == "MESSAGE_ID_EXISTS"
    calls.import_session(session_id)
    assert reason(refusal(calls.import_session, session_id)) == "SESSION_EXISTS"


def test_nobody_sees_a_part_and_who_comes_between_wins(calls, session_id):
    going_on, stored = threading.Event(), threading.Event()

    def steps():
        yield session_wire.ImportSessionRequest(
            begin=session_wire.ImportBegin(session_id=session_id))
        yield session_wire.ImportSessionRequest(
            items=session_wire.ImportItems(messages=[place(i) for i in range(1, 900)]))
        # Each is read when what came before it is stored, and asked for one ahead of that.
        yield session_wire.ImportSessionRequest(items=session_wire.ImportItems())
        yield session_wire.ImportSessionRequest(items=session_wire.ImportItems())
        stored.set()
        assert going_on.wait(60)
        yield session_wire.ImportSessionRequest(end=session_wire.ImportEnd(message_count=899))

    under_way = calls.import_stream.future(steps(), timeout=60)
    assert stored.wait(60)
    assert refusal(calls.GetSession, session_id=session_id).code() == NOT_FOUND
    assert not calls.all_messages(session_id)
    calls.Put(session_id=session_id, messages=[user("first")])
    going_on.set()
    assert reason(under_way.exception()) == "SESSION_EXISTS"
    assert [m.text for m in calls.all_messages(session_id)] == ["first"]


def test_an_import_needs_the_right_to_say_who_wrote_what(store_kind, tmp_path):
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        credential("t", token="app"),
        credential("t", ["admin", "read", "write"], token="operator"),
        credential("t", ["admin"], token="reflection"),
        {**credential("t", ["admin", "write"], token="web"), "untrusted": True},
        {**credential("t", ["admin", "write"], token="user"), "roles": ["user"]},
        credential("other", ["read"], token="other")])
    audit = tmp_path / "audit"
    arguments = [f"--credentials={credentials}", f"--audit-log={audit}", "--tenant-messages=10"]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server, \
            server.channel() as channel:
        begin = session_wire.ImportSessionRequest(begin=session_wire.ImportBegin(session_id="s"))
        for token, why in (("app", "RIGHT_MISSING"), ("reflection", "RIGHT_MISSING"),
                           ("web", "IMPORT_NOT_GRANTED"), ("user", "IMPORT_NOT_GRANTED")):
            error = Caller(channel, token).error("ImportSession", begin)
            assert (error.code(), reason(error)) == (grpc.StatusCode.PERMISSION_DENIED, why)

        def imported(session_id: str, messages):
            steps = [session_wire.ImportSessionRequest(begin=session_wire.ImportBegin(
                session_id=session_id)),
                session_wire.ImportSessionRequest(items=session_wire.ImportItems(
                    messages=messages)),
                session_wire.ImportSessionRequest(end=session_wire.ImportEnd(
                    message_count=len(messages)))]
            Calls(channel).import_stream(iter(steps), metadata=(
                ("authorization", "Bearer operator"),))

        sent = [place(3, writer="token:ann", untrusted=True, ingest_time={"seconds": 5},
                      source_session_id="x", source_message_id="y", status=ARCHIVED)]
        imported("s", sent)
        message, = Caller(channel, "operator")("GetAll", session_id="s").messages
        for name in ("writer", "untrusted", "ingest_time", "source_session_id",
                     "source_message_id", "status", "position", "message_id"):
            assert getattr(message, name) == getattr(sent[0], name)
        assert not Caller(channel, "other")("GetAll", session_id="s").messages
        error = refusal(imported, "many", [place(i) for i in range(1, 20)])
        assert reason(error) == "QUOTA_EXCEEDED"

        def without_end():
            yield session_wire.ImportSessionRequest(
                begin=session_wire.ImportBegin(session_id="more"))
            for i in range(1, 20):
                yield session_wire.ImportSessionRequest(
                    items=session_wire.ImportItems(messages=[place(i)]))
        # Long before the end.
        error = refusal(Calls(channel).import_stream, without_end(), metadata=(
            ("authorization", "Bearer operator"),))
        assert reason(error) == "QUOTA_EXCEEDED"
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["method"], line["code"]) for line in lines if line["method"] == "ImportSession"][
        -2:] == [("ImportSession", "RESOURCE_EXHAUSTED")] * 2


def test_an_import_is_whole_or_not_there_when_the_server_is_killed(store_kind, tmp_path):
    count = 5000
    messages = [place(i, status=ARCHIVED if i < 4000 else 1) for i in range(1, count + 1)]
    with fresh_store(store_kind) as store:
        address = f"unix:{tmp_path}/memoryd.sock"
        server = Server(store, listen=address)
        try:
            for kill_at in (1, 9, 30):
                with server.channel() as channel:
                    calls = Calls(channel)

                    def steps(at=kill_at, server=server):
                        yield session_wire.ImportSessionRequest(
                            begin=session_wire.ImportBegin(session_id="s"))
                        for number, begin in enumerate(range(0, count, 100)):
                            if number == at:
                                server.kill()
                            yield session_wire.ImportSessionRequest(
                                items=session_wire.ImportItems(messages=messages[begin:begin + 100]))

                    assert refusal(calls.import_stream, steps()).code() == \
                        grpc.StatusCode.UNAVAILABLE
                server = Server(store, listen=address)
                with server.channel() as channel:
                    calls = Calls(channel)
                    assert not calls.ListSessions().sessions
                    assert not calls.all_messages("s")
            with server.channel() as channel:
                calls = Calls(channel)
                session = calls.import_session("s", messages)
                assert (session.active_count, session.archived_count) == (1001, 3999)
                assert len(calls.all_messages("s")) == count
        finally:
            server.kill()
