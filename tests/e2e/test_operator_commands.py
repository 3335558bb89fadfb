"""memoryd sessions, messages, jobs, facts, export, health and info against a running server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf import json_format
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from support.access import credential, write_credentials
from support.blocks import block
from support.calls import Calls, assistant, memory, note, session_wire, user, wire
from support.calls import memory_service_pb2_grpc as memory_grpc
from support.calls import session_service_pb2_grpc as session_grpc
from support.commands import SECONDS, Commands, on_terminal, serving
from support.paths import BINARY, REPOSITORY
from support.server import Server
from support.tls import SERVER_NAMES, Authority, server_arguments

HOSTILE = "a\x1b[2Jb\nc\x07\u202ed\u009be\\n"
SHOWN = "a\\u{1B}[2Jb\\nc\\u{7}\\u{202E}d\\u{9B}e\\\\n"


@pytest.fixture
def commands(server) -> Commands:
    return Commands(server.target)


def rows(table: str) -> list[list[str]]:
    """The cells of a table without blanks in its cells; of short rows those that are there."""
    return [line.split() for line in table.splitlines()]


def parsed(kind: type, fields: dict):
    return json_format.ParseDict(fields, kind())


# Sessions.


def test_sessions_are_listed_shown_and_deleted(calls, commands, session_id):
    calls.Put(session_id=session_id, messages=[user("one"), assistant("two")], contents=[note("c")])
    names, *table = rows(commands.text("sessions", "list"))
    assert names == ["SESSION", "PROFILE", "ACTIVE", "TOKENS", "ARCHIVED", "CONTENTS", "BYTES",
                     "UPDATED"]
    row, = (row for row in table if row[0] == session_id)
    assert row[1:3] == ["default", "2"] and row[4:6] == ["0", "1"]
    session = calls.GetSession(session_id=session_id).session
    assert row[6] == str(session.stored_bytes)
    listed = [parsed(memory.Session, line["session"]) for line in commands.json("sessions", "list")]
    assert session in listed
    shown, = commands.json("sessions", "show", session_id)
    assert parsed(memory.Session, shown["session"]) == session
    assert "active_count: 2\n" in commands.text("sessions", "show", session_id)
    assert len(commands.json("sessions", "list", "--limit", 1)) == 1
    found, = commands.json("sessions", "list", "--prefix", session_id)
    assert found["session"]["session_id"] == session_id
    assert "--subject" in commands.fails(2, "sessions", "list", "--latest-first")

    assert "--yes" in commands.fails(2, "sessions", "delete", session_id)
    assert calls.GetSession(session_id=session_id).session == session
    done = commands.text("sessions", "delete", session_id, "--yes")
    assert done == "deleted 2 messages and 1 contents\n"
    assert "SESSION_NOT_FOUND" in commands.fails(3, "sessions", "show", session_id)


def test_deleting_asks_on_a_terminal(calls, commands, session_id):
    calls.Put(session_id=session_id, messages=[user("one")])
    code, screen = on_terminal(commands, "n\n", "sessions", "delete", session_id)
    assert code == 1 and f"Delete session {session_id} with 1 messages" in screen
    assert calls.all_messages(session_id)
    code, _ = on_terminal(commands, "y\n", "sessions", "delete", session_id)
    assert code == 0 and not calls.all_messages(session_id)


# Subjects.


def test_a_subject_is_counted_and_erased(calls, commands, session_id):
    for number in range(2):
        calls.Put(session_id=f"{session_id} {number}", messages=[user("one")], request_id="r",
                  config=memory.SessionConfig(subject=session_id))
    counts = "2 sessions, 2 messages, 0 contents, 0 blocks, 0 entries, 0 jobs, 2 replies"
    subject = ("erase", "--subject", session_id)
    assert commands.text(*subject, "--dry-run") == f"would erase {counts}\n"
    counted, = commands.json(*subject, "--dry-run")
    assert parsed(session_wire.EraseSubjectResponse, counted).reply_count == 2
    assert "--yes" in commands.fails(2, *subject)
    code, screen = on_terminal(commands, "n\n", *subject)
    assert code == 1 and f"Erase subject {session_id} with {counts}?" in screen
    assert len(calls.ListSessions(subject=session_id).sessions) == 2
    listed = commands.json("sessions", "list", "--subject", session_id)
    assert [line["session"]["session_id"] for line in listed] == [
        f"{session_id} 0", f"{session_id} 1"]
    code, screen = on_terminal(commands, "y\n", *subject)
    assert code == 0 and not calls.ListSessions(subject=session_id).sessions
    assert "erased 0 of 2 sessions, 0 of 2 messages" in screen
    calls.Put(session_id=f"{session_id} 2", config=memory.SessionConfig(subject=session_id))
    code, screen = on_terminal(commands, "", *subject, "--yes")
    assert code == 0 and "erased 0 of 1 sessions, 0 of 0 messages" in screen
    erased, = commands.json(*subject, "--yes")
    assert erased.pop("left_elsewhere") and erased == {"purged": True}
    assert "subject" in commands.fails(2, "erase", "--yes")
    assert "subject" in commands.fails(2, "erase", "--yes", "--subject", "")


# Messages.


def test_messages_are_filtered(calls, commands, session_id):
    calls.Put(session_id=session_id, messages=[
        user("one", message_id="m1", name="Ann", metadata_json='{"topic":"home"}'),
        assistant("two", message_id="m2", thread_id="t"),
        user("three", message_id="m3", create_time={"seconds": 1_800_000_000}),
    ], contents=[note("c", content_id="c1")])

    def ids(*arguments: object) -> list[str]:
        lines = commands.json("messages", "list", session_id, *arguments)
        return [line.get("message", {}).get("message_id") or line["content"]["content_id"]
                for line in lines]

    assert ids() == ["m1", "m2", "m3"]
    assert ids("--contents") == ["m1", "m2", "m3", "c1"]
    assert ids("--contents", "--newest-first") == ["m3", "m2", "m1", "c1"]
    assert ids("--newest-first", "--limit", 2) == ["m3", "m2"]
    assert ids("--newest-first", "--role", "user") == ["m3", "m1"]
    assert ids("--role", "user") == ["m1", "m3"]
    assert ids("--role", "user", "--role", "assistant") == ["m1", "m2", "m3"]
    assert ids("--role", "user", "--name", "Ann") == ["m1"]
    assert ids("--thread", "t") == ["m2"]
    assert ids("--thread", "") == ["m1", "m3"]
    assert ids("--status", "archived") == []
    assert ids("--status", "active", "--limit", 2) == ["m1", "m2"]
    assert ids("--since", "2020-01-01") == ["m1", "m2", "m3"]
    assert ids("--until", "2020-01-01T00:00:00Z") == []
    assert ids("--created-since", "2027-01-15T08:00:00Z", "--created-until", "2027-01-16") == ["m3"]
    home = json.dumps({"metadata": [{"key": "topic", "string_value": "home"}]})
    assert ids("--filter", home) == ["m1"]
    assert ids("--filter", home, "--role", "assistant") == []
    for arguments in (("--since", "soon"), ("--status", "gone"), ("--filter", "{"),
                      ("--filter", '{"colour":1}'), ("--role", ""), ("--limit", "-1")):
        commands.fails(2, "messages", "list", session_id, *arguments)


def test_messages_are_shown_and_deleted(calls, commands, session_id):
    calls.Put(session_id=session_id, messages=[user("one\ntwo", message_id="m1"), user("", message_id="m2")])
    first, second = calls.all_messages(session_id)
    assert "text:\n  | one\n  | two\n" in commands.text("messages", "show", session_id, "m1")
    for message in (first, second):
        shown, = commands.json("messages", "show", session_id, message.message_id)
        assert parsed(memory.Message, shown["message"]) == message
    commands.fails(3, "messages", "show", session_id, "m3")
    assert "--yes" in commands.fails(2, "messages", "delete", session_id, "m1")
    reply, = commands.json("messages", "delete", session_id, "m1", "--yes")
    assert reply["message_ids"] == ["m1"]
    assert calls.all_messages(session_id) == [second]
    assert "MESSAGE_NOT_FOUND" in commands.fails(3, "messages", "delete", session_id, "m1", "--yes")


def test_a_stored_text_can_not_drive_a_terminal(calls, commands, session_id):
    calls.Put(session_id=session_id, messages=[user(HOSTILE, message_id="m1", name=HOSTILE.strip())])
    table = commands.text("messages", "list", session_id)
    assert table.count(SHOWN) == 2 and len(table.splitlines()) == 2
    for output in (table, commands.text("messages", "show", session_id, "m1"),
                   commands.text("messages", "list", session_id, "--json")):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", output)
    line, = commands.json("messages", "list", session_id)
    assert line["message"]["text"] == HOSTILE


# Facts.


def test_facts_are_listed_added_corrected_deleted_and_undone(calls, commands, session_id):
    calls.CreateSession(session_id=session_id, config=memory.SessionConfig(blocks=[
        block("facts", "fact-extraction", model="m"), block("rules", "static")]))
    calls.Put(session_id=session_id, messages=[user("x", message_id="m1")])
    place = (session_id, "facts")
    added, = commands.json("facts", "add", *place, "Ann has a cat.", "--trust", "0.5",
                           "--message", "m1")
    assert added["fact"]["trust"] == 0.5 and added["fact"]["message_ids"] == ["m1"]
    assert "Ann has two cats." in commands.text("facts", "update", *place, 1, "Ann has two cats.")
    names, row = rows(commands.text("facts", "list", *place))
    assert names == ["FACT", "TRUST", "SEEN", "LAST", "WRITER", "TEXT"]
    assert row[:3] == ["1", "0.50", "0"] and row[-4:] == ["Ann", "has", "two", "cats."]
    assert "--yes" in commands.fails(2, "facts", "delete", *place, 1)
    deleted, = commands.json("facts", "delete", *place, 1, "--yes")
    assert commands.json("facts", "list", *place) == []
    past = commands.json("facts", "list", *place, "--history")
    assert [line["past_fact"]["end"] for line in past] == ["FACT_END_CORRECTED", "FACT_END_DELETED"]
    assert "FACT_END_DELETED" in commands.text("facts", "list", *place, "--history")
    fact, = commands.json("facts", "undo", *place, deleted["change"])
    assert fact["fact"]["text"] == "Ann has two cats."
    assert "FACT_NOT_FOUND" in commands.fails(3, "facts", "update", *place, 2, "x")
    assert "of kind static" in commands.fails(2, "facts", "list", session_id, "rules")


# Jobs.


def test_jobs_are_listed_cancelled_and_retried(calls, commands, session_id):
    config = memory.SessionConfig(
        token_limit=20, token_flush_size=1, chat_history_token_ratio=0.5,
        blocks=[memory.Block(name="facts", kind="worker", worker="nobody")])
    calls.CreateSession(session_id=session_id, config=config)
    for number in range(20):
        calls.Put(session_id=session_id, messages=[user(f"number {number} of many")])
    jobs = commands.json("jobs", "list", session_id)
    assert {line["session_id"] for line in jobs} == {session_id}
    ids = [line["job"]["job_id"] for line in jobs]
    assert ids == [job.job_id for job in calls.ListJobs(session_id=session_id).jobs] and len(ids) > 1
    of_all = [line["job"]["job_id"] for line in commands.json("jobs", "list")]
    assert set(ids) <= set(of_all)
    names, *table = rows(commands.text("jobs", "list", session_id, "--state", "open"))
    assert names[:4] == ["SESSION", "JOB", "BLOCK", "STATE"]
    assert [row[:4] for row in table] == [[session_id, job, "facts", "open"] for job in ids]
    assert commands.json("jobs", "list", session_id, "--state", "failed") == []

    assert "JOB_NOT_FIRST" in commands.fails(1, "jobs", "cancel", session_id, ids[1])
    assert "JOB_NOT_FAILED" in commands.fails(1, "jobs", "retry", session_id, ids[0])
    cancelled, = commands.json("jobs", "cancel", session_id, ids[0])
    assert cancelled["job"]["state"] == "JOB_STATE_CANCELLED"
    assert "state: JOB_STATE_CANCELLED\n" in commands.text("jobs", "show", session_id, ids[0])
    retried, = commands.json("jobs", "retry", session_id, ids[0])
    assert retried["job"]["state"] == "JOB_STATE_OPEN" and retried["job"]["job_id"] not in ids
    assert "job_id" in commands.fails(2, "jobs", "show", session_id, "no-such-job")
    commands.fails(2, "jobs", "list", session_id, "--state", "lost")


# How to reach a server, and what goes wrong.


def test_an_option_stands_before_its_variable(calls, commands, session_id):
    calls.CreateSession(session_id=session_id)
    elsewhere = Commands("127.0.0.1:1")
    for command in (("info",), ("sessions", "show", session_id), ("jobs", "list", session_id)):
        elsewhere.text(*command, "--target", commands.environment["MEMORYD_TARGET"])
        elsewhere.fails(4, *command, "--timeout", 1)


def test_info_is_what_the_server_says(calls, commands):
    shown, = commands.json("info")
    assert shown["version"] == calls.GetServerInfo().version
    assert "store:\n  kind: " in commands.text("info")


def test_health_says_whether_the_server_serves(tmp_path):
    listen = f"unix:{tmp_path}/health"
    with Server("sqlite::memory:", arguments=[f"--health-listen={listen}"]) as server:
        for commands in (Commands(server.target), Commands(listen)):
            assert commands.text("health") == "status: SERVING\n"
            assert commands.json("health", "--service", "liveness") == [{"status": "SERVING"}]
            commands.fails(3, "health", "--service", "nobody")
        assert commands.fails(1, "info").startswith("UNIMPLEMENTED: ")
    assert commands.fails(4, "health").startswith("nothing listens on ")


def test_health_fails_where_the_server_does_not_serve(tmp_path):
    servicer = health.HealthServicer()
    servicer.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    target = f"unix:{tmp_path}/socket"
    with ThreadPoolExecutor() as pool:
        server = grpc.server(pool)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        server.add_insecure_port(target)
        server.start()
        assert Commands(target).fails(4, "health") == "NOT_SERVING"
        server.stop(None).wait()


def test_what_goes_wrong_is_one_line(commands, session_id, tmp_path):
    assert commands.fails(3, "sessions", "show", session_id).startswith("NOT_FOUND SESSION_NOT_FOUND: ")
    assert commands.fails(2, "sessions", "show", "a\nb").startswith("INVALID_ARGUMENT INVALID_FIELD: ")
    for arguments in (("sessions",), ("sessions", "burn"), ("sessions", "show"),
                      ("sessions", "list", "--colour"), ("info", "--timeout", "0"), ("export",),
                      ("export", "a", "--all"), ("export", "a", "a"),
                      ("export", "--namespace", "a", "--all"),
                      ("export", "--namespace", "[1]")):
        commands.fails(2, *arguments)
    nowhere = f"unix:{tmp_path}/nobody"
    assert commands.fails(4, "info", "--target", nowhere) == (
        f"nothing listens on {nowhere}: is memoryd running? (memoryd dev)")
    missing = tmp_path / "missing"
    for option in ("--token-file", "--ca-file"):
        assert commands.fails(2, "info", option, missing).startswith(f"{option}: ")
    open_token = tmp_path / "token"
    open_token.write_text("t")
    open_token.chmod(0o644)
    assert commands.fails(2, "info", "--token-file", open_token).startswith("--token-file: ")


def test_full_standard_output_is_an_error(commands):
    with open("/dev/full", "wb") as full:
        process = commands.start("info", stdout=full, stderr=subprocess.PIPE)
        assert b"standard output" in process.communicate(timeout=SECONDS)[1]
        assert process.returncode == 1


def test_a_server_that_hangs_is_waited_for_as_long_as_was_asked(store, tmp_path):
    with Server(store, listen=f"unix:{tmp_path}/socket") as server:
        server.pause()
        line = Commands(server.target).fails(4, "info", "--timeout", "0.2")
        assert line.startswith("DEADLINE_EXCEEDED: ")


def test_tokens_and_certificates(tmp_path):
    authority = Authority(tmp_path / "authority")
    client = authority.issue("DNS:operator")
    credentials = write_credentials(tmp_path / "credentials.yaml", [credential("a", token="secret")])
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    with Server("sqlite::memory:", arguments=[
            *server_arguments(authority.issue(SERVER_NAMES), authority.certificate),
            f"--credentials={credentials}"]) as server:
        commands = Commands(server.target)
        tls = ("--ca-file", authority.certificate, "--client-cert-file", client.certificate,
               "--client-key-file", client.key)
        assert commands.text("sessions", "list", *tls, "--token-file", token)
        assert commands.fails(1, "sessions", "list", *tls).startswith("UNAUTHENTICATED")
        commands.fails(4, "sessions", "list", "--timeout", "2")
        commands.fails(2, "sessions", "list", *tls[:4])
        commands.environment |= {
            "MEMORYD_CA_FILE": str(authority.certificate), "MEMORYD_TOKEN_FILE": str(token),
            "MEMORYD_CLIENT_CERT_FILE": str(client.certificate),
            "MEMORYD_CLIENT_KEY_FILE": str(client.key)}
        assert commands.text("sessions", "list")


def test_the_commands_of_the_documentation_run(calls, commands, tmp_path):
    text = (REPOSITORY / "docs/COMMAND_LINE.md").read_text(encoding="utf-8")
    section = text[text.index("## From the command line"):]
    block = section.split("```")[1].strip().splitlines()
    calls.Put(session_id="s3", messages=[user("I live in Lyon.")])
    calls.ForkSession(session_id="s3", new_session_id="s3-fork")
    assert len(block) > 5
    for line in block:
        done = subprocess.run(f'memoryd() {{ "{BINARY}" "$@"; }}; {line}', shell=True, cwd=tmp_path,
                              env=commands.environment, stdin=subprocess.DEVNULL, timeout=SECONDS,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
    assert (tmp_path / "memory.jsonl").exists()


# Export.


def lines_of(text: str) -> list[tuple[str, dict]]:
    return [next(iter(json.loads(line).items())) for line in text.splitlines()]


def assert_exported(calls, session_id: str, text: str) -> None:
    """That `text` is a whole export of one session."""
    first, session, *held, end = lines_of(text)
    assert first == ("memoryd_export", 1)
    now = calls.GetSession(session_id=session_id).session
    assert session[0] == "session"
    assert parsed(memory.Session, session[1]) == memory.Session(
        session_id=session_id, config=now.config, create_time=now.create_time)
    messages = [parsed(memory.Message, fields) for kind, fields in held if kind == "message"]
    contents = [parsed(memory.Content, fields) for kind, fields in held if kind == "content"]
    assert messages == calls.all_messages(session_id)
    assert contents == calls.all_contents(session_id)
    assert [kind for kind, _ in held] == ["message"] * len(messages) + ["content"] * len(contents)
    assert end == ("end", {"sessions": 1, "messages": len(messages), "contents": len(contents)})


def fill(calls, session_id: str) -> None:
    """All kinds of parts, and more than a page."""
    parts = [memory.Part(text=HOSTILE), memory.Part(image=memory.Media(data=b"\x00\xff", fps=0.1)),
             memory.Part(tool_call=memory.ToolCall(call_id="1", name="t", arguments_json="{\"a\": 1.0}")),
             memory.Part(thinking=memory.Thinking(text="", token_count=0)), memory.Part(json="[1, 1.0]"),
             memory.Part(opaque=memory.Opaque(type="x", data=b"<&>"))]
    calls.Put(session_id=session_id, messages=[
        memory.Message(role="assistant", parts=parts, metadata_json='{"b": 1,  "a": 1.0}', thread_id="t",
                       create_time={"seconds": 1, "nanos": 1000}, untrusted=True),
        user(""), memory.Message(role="user")], contents=[
            note("text"), memory.Content(mime_type="application/json", json="{ }"),
            memory.Content(mime_type="image/png", bytes_value=b"\x89")])
    for _ in range(2):
        calls.Put(session_id=session_id, messages=[user(f"{number}") for number in range(1000)])


def test_an_export_holds_what_get_all_holds(calls, commands, session_id, tmp_path):
    fill(calls, session_id)
    text = commands.text("export", session_id)
    assert_exported(calls, session_id, text)
    path = tmp_path / "out.jsonl"
    path.write_text("before")
    counts, = commands.json("export", session_id, "--output", path)
    assert counts == {"sessions": 1, "messages": 2003, "contents": 3}
    assert path.read_text(encoding="utf-8") == text
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_all_sessions_are_exported_by_id(store):
    with Server(store) as server, server.channel() as channel:
        calls, commands = Calls(channel), Commands(server.target)
        for name in ("b", "a", "\u00e4"):
            calls.Put(session_id=name, messages=[user(name)])
        held = lines_of(commands.text("export", "--all"))
        assert [fields["session_id"] for kind, fields in held if kind == "session"] == ["a", "b", "\u00e4"]
        assert [fields["text"] for kind, fields in held if kind == "message"] == ["a", "b", "\u00e4"]
        assert held[-1] == ("end", {"sessions": 3, "messages": 3, "contents": 0})
        assert "s: NOT_FOUND" in commands.fails(3, "export", "a", "s")


@pytest.mark.large
def test_an_export_goes_on_over_a_restart(store, tmp_path):
    address = f"unix:{tmp_path}/socket"
    picture = memory.Part(image=memory.Media(data=bytes(100_000), mime_type="image/png"))
    with contextlib.ExitStack() as servers:
        first = servers.enter_context(Server(store, listen=address))
        with first.channel() as channel:
            for _ in range(20):
                Calls(channel).Put(session_id="s", messages=[
                    memory.Message(role="user", parts=[picture])] * 20)
        # What nobody reads stays in the pipe, then in the stream.
        export = Commands(address).start("export", "s", stdout=subprocess.PIPE, text=True)
        begun = "".join(export.stdout.readline() for _ in range(5))
        first.kill()
        second = servers.enter_context(Server(store, listen=address))
        text = begun + export.stdout.read()
        assert export.wait(SECONDS) == 0
        with second.channel() as channel:
            assert_exported(Calls(channel), "s", text)


class BreakingServer(memory_grpc.MemoryServiceServicer, session_grpc.SessionServiceServicer):
    """Has a session whose stream is a page of one message for each of `pages`, and breaks off where
    one is a code."""

    def __init__(self, pages: list[str | grpc.StatusCode]) -> None:
        self.pages = pages
        self.begun: list[str] = []
        self.stuck = threading.Event()
        self.ending = threading.Event()

    def GetSession(self, request, context):
        return session_wire.GetSessionResponse(session=memory.Session(session_id=request.session_id))

    def StreamAll(self, request, context):
        self.begun.append(request.page_token)
        while self.pages:
            page = self.pages.pop(0)
            if page == "stuck":
                self.stuck.set()
                self.ending.wait(SECONDS)
                return
            if isinstance(page, grpc.StatusCode):
                context.abort(page, "broken \x1b[2J\nhere")
            yield wire.StreamAllResponse(
                messages=[user(page)], next_page_token=f"behind {page}" if self.pages else "")

    def texts(self, output: str) -> list[str]:
        return [fields["text"] for kind, fields in lines_of(output) if kind == "message"]


@contextlib.contextmanager
def breaking(pages: list[str | grpc.StatusCode]) -> Iterator[tuple[BreakingServer, Commands]]:
    service = BreakingServer(pages)
    with serving(service) as commands:
        try:
            yield service, commands
        finally:
            service.ending.set()


def test_a_broken_stream_goes_on_behind_its_last_page(tmp_path):
    broken, late = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED
    with breaking(["a", broken, "b", "c", broken, late, "d"]) as (service, commands):
        path = tmp_path / "out"
        commands.text("export", "s", "--output", path)
        assert service.texts(path.read_text()) == ["a", "b", "c", "d"]
        assert service.begun == ["", "behind a", "behind c", "behind c"]


@pytest.mark.parametrize("pages, code, attempts", (
    (["a", *[grpc.StatusCode.UNAVAILABLE] * 20], 4, 6),
    (["a", grpc.StatusCode.ABORTED, "b"], 1, 1),
), ids=("gone for good", "replaced"))
def test_an_export_that_is_not_whole_leaves_no_file(tmp_path, pages, code, attempts):
    with breaking(pages) as (service, commands):
        path = tmp_path / "out"
        path.write_text("before")
        line = commands.fails(code, "export", "s", "--output", path)
        assert line.startswith("s: ") and "\\u{1B}[2J\\nhere" in line
        assert len(service.begun) == attempts
        assert path.read_text() == "before"
        assert os.listdir(tmp_path) == ["out"]


def test_an_export_that_is_ended_leaves_no_file(tmp_path):
    with breaking(["a", "stuck"]) as (service, commands):
        process = commands.start("export", "s", "--output", tmp_path / "out")
        assert service.stuck.wait(SECONDS)
        assert len(os.listdir(tmp_path)) == 1
        process.terminate()
        assert process.wait(SECONDS) == -signal.SIGTERM
        assert os.listdir(tmp_path) == []


def test_an_export_shows_its_progress_on_a_terminal(tmp_path):
    with breaking(["a", "b"]) as (_, commands):
        code, screen = on_terminal(commands, "", "export", "s", "--output", str(tmp_path / "out"))
        assert code == 0 and "1 sessions, 1 messages" in screen
        assert screen.endswith("\r\x1b[K")


def test_an_export_to_what_is_no_file_is_refused(commands, tmp_path):
    for path in ("/dev/null", tmp_path):
        assert "no regular file" in commands.fails(2, "export", "--all", "--output", path)
