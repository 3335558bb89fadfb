"""memoryd put, get, query, context, sessions create and fork, --watch, dev, help and completion."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2

from support.background import Background
from support.calls import Calls, assistant, memory, user
from support.commands import SECONDS, Commands, on_terminal
from support.embedders import BLOCK, LINES, config, embed, put, settled
from support.model_server import ModelServer
from support.paths import BINARY, REPOSITORY, server_environment
from support.server import Server, open_channel, wait_for_health
from support.waiting import wait_for

# With which a mistyped, or any other, command may not end up.
NOWHERE = Commands("127.0.0.1:1")


@pytest.fixture
def commands(server) -> Commands:
    return Commands(server.target)


# A conversation.


def test_what_is_put_is_got(calls, commands, session_id):
    stored = commands.text("put", session_id, "My dog is called Bella.")
    message, = calls.all_messages(session_id)
    assert message.role == "user" and message.text == "My dog is called Bella."
    assert stored == f"stored {message.message_id} at position 1 of session {session_id}\n"
    reply, = commands.json("put", session_id, "Noted.", "--role", "assistant", "--name", "Bo",
                           "--id", "m2", "--metadata", '{"a": 1}', "--thread", "t", "--wait", "0")
    assert reply["message_ids"] == ["m2"] and reply["positions"] == ["2"]
    second = calls.all_messages(session_id)[1]
    assert (second.role, second.name, second.metadata_json, second.thread_id) == (
        "assistant", "Bo", '{"a": 1}', "t")
    text = commands.text("get", session_id)
    assert text.startswith("user: My dog is called Bella.\nassistant Bo: Noted.\n\n2 messages, ")
    got, = commands.json("get", session_id)
    assert [m["text"] for m in got["messages"]] == ["My dog is called Bella.", "Noted."]
    assert "token_count" in got and "limit" in got


def test_a_text_may_come_from_standard_input(calls, commands, session_id):
    done = commands.run("put", session_id, "-", input="one\ntwo\n")
    assert done.returncode == 0, done
    assert [m.text for m in calls.all_messages(session_id)] == ["one\ntwo"]
    assert "user:\n  | one\n  | two\n\n1 message, " in commands.text("get", session_id)
    commands.text("put", session_id, "--", "--not an option")
    commands.text("put", session_id, "- buy milk")
    assert [m.text for m in calls.all_messages(session_id)][1:] == ["--not an option", "- buy milk"]


def test_a_text_is_utf8(calls, commands, session_id):
    wrong = os.fsdecode(b"a\xff")
    assert commands.fails(2, "put", session_id, wrong) == "TEXT: is not UTF-8"
    assert commands.fails(2, "put", session_id, "x", "--role", wrong) == "--role: is not UTF-8"
    assert commands.fails(2, "query", wrong, "x") == "SESSION: is not UTF-8"
    assert "\\xFF" in commands.fails(2, wrong)
    done = subprocess.run([BINARY, "put", session_id, "-"], input=b"a\xff", capture_output=True,
                          env=commands.environment, timeout=SECONDS, check=False)
    assert done.returncode == 2 and done.stderr == b"memoryd: standard input: is not UTF-8\n"
    assert not calls.all_messages(session_id)
    # Names of files are any bytes.
    assert commands.fails(2, "import", wrong) == "a\\xFF: can't be read"


def test_a_session_that_is_not_there_is_not_found(calls, commands, session_id):
    said = "NOT_FOUND SESSION_NOT_FOUND: there is no such session"
    for command in (("get",), ("query", "dog"), ("context", "dog"), ("messages list",),
                    ("messages list", "--role", "user"), ("jobs list",)):
        name, *rest = command
        for form in ((), ("--json",)):
            done = commands.run(*name.split(), session_id, *rest, *form)
            assert done.returncode == 3 and not done.stdout and said in done.stderr, done
    # One without messages is there.
    calls.CreateSession(session_id=session_id)
    for command in ("get", "messages list", "jobs list"):
        commands.text(*command.split(), session_id)
    assert "nothing found\n" in commands.text("query", session_id, "dog")
    assert "user: dog\n\n1 message, 0 inserted by memory\n" in commands.text("context", session_id, "dog")


@pytest.mark.parametrize("seconds", ("1e18", "3601", "-1", "nan", "inf", "soon"))
def test_seconds_are_within_bounds(seconds):
    assert NOWHERE.fails(2, "put", "s", "x", "--wait", seconds) == "--wait: must be 0 to 3600"
    assert NOWHERE.fails(2, "info", "--timeout", seconds) == "--timeout: must be 0.001 to 3600"
    assert NOWHERE.fails(2, "jobs", "list", "--watch", "--every", seconds) == (
        "--every: must be 0.01 to 3600")


def test_an_option_that_repeats_leaves_the_arguments_alone(calls, commands, session_id):
    calls.CreateSession(session_id=session_id, config=memory.SessionConfig(blocks=[
        memory.Block(name="facts", kind="fact-extraction", options_json='{"model": "m"}')]))
    calls.Put(session_id=session_id, messages=[
        user("My dog is called Bella.", message_id="m1", name="Ann"),
        assistant("A dog!", message_id="m2")])
    roles = ("--role", "user", "--role", "system")
    found, = commands.json("query", *roles, session_id, "dog")
    assert [result["message"]["message_id"] for result in found["results"]] == ["m1"]
    for options in (roles, ("--name", "Ann", *roles)):
        line, = commands.json("messages", "list", *options, session_id)
        assert line["message"]["message_id"] == "m1"
    added, = commands.json("facts", "add", "--message", "m1", "--message=m2", session_id, "facts",
                           "Bella is a dog.")
    assert added["fact"]["message_ids"] == ["m1", "m2"]


def test_what_blocks_say_is_got(calls, commands, session_id):
    calls.CreateSession(session_id=session_id, config=memory.SessionConfig(blocks=[
        memory.Block(name="rules", kind="static", content=[memory.Part(text="Be kind.")])]))
    commands.text("put", session_id, "hello")
    text = commands.text("get", session_id, "--input", "what now?")
    assert "Be kind." in text and "\nblocks used: rules\n" in text
    text = commands.text("context", session_id, "what now?")
    assert "Be kind." in text and "user: hello\n" in text and "user: what now?\n" in text
    assert "\n3 messages, 1 inserted by memory\nblocks used: rules\n" in text
    reply, = commands.json("context", session_id, "what now?", "--alternate-roles")
    assert reply["messages"][-1]["role"] == "user"
    assert len(calls.all_messages(session_id)) == 1


def test_what_was_put_is_found(calls, commands, session_id):
    calls.Put(session_id=session_id, messages=[
        user("My dog is called Bella.", message_id="m1"), assistant("What a name!", message_id="m2"),
        user("I live in Lyon.", message_id="m3")])
    names, first, *_ = commands.text("query", session_id, "What is the dog called?").splitlines()
    assert names.split() == ["SCORE", "FROM", "ID", "STORED", "TEXT"]
    assert first.split()[:3] == ["1.00", "user", "m1"] and first.endswith("My dog is called Bella.")
    reply, = commands.json("query", session_id, "dog", "--top", 1, "--role", "user", "--neighbours",
                           1, "--parts-of-score")
    result, = reply["results"]
    assert result["message"]["message_id"] == "m1" and "words" in result["parts_of_score"]
    assert [m["message_id"] for m in result["neighbours"]] == ["m2"]
    assert "nothing found\n" in commands.text("query", session_id, "dog", "--role", "system")
    commands.fails(2, "query", session_id, "dog", "--top", "-1")


# Sessions.


def test_sessions_are_created_changed_and_forked(calls, commands, session_id, tmp_path):
    created, = commands.json("sessions", "create", session_id, "--subject", "ada", "--token-limit",
                             1000, "--config", '{"time_zone": "Europe/Paris", "token_limit": 5}')
    config = calls.GetSession(session_id=session_id).session.config
    assert (config.subject, config.token_limit, config.time_zone) == ("ada", 1000, "Europe/Paris")
    assert created["session"]["session_id"] == session_id
    file = tmp_path / "config.json"
    file.write_text('{"user_roles": ["pilot"]}')
    assert "pilot" in commands.text("sessions", "update", session_id, "--config", f"@{file}")
    changed = calls.GetSession(session_id=session_id).session.config
    assert list(changed.user_roles) == ["pilot"] and changed.token_limit == 1000
    calls.Put(session_id=session_id, messages=[user("1", message_id="m1"), user("2", message_id="m2")])
    for name, arguments, count in (("all", (), 2), ("id", ("--up-to", "m1"), 1),
                                   ("position", ("--up-to-position", 1), 1)):
        commands.text("sessions", "fork", session_id, f"{session_id}-{name}", *arguments)
        assert len(calls.all_messages(f"{session_id}-{name}")) == count
    assert "SESSION_EXISTS" in commands.fails(1, "sessions", "create", session_id)
    for wrong in ("{", '{"colour": 1}', f"@{tmp_path}/missing"):
        assert commands.fails(2, "sessions", "create", "x", "--config", wrong).startswith("--config: ")


def test_sessions_are_made_by_templates(tmp_path):
    file = tmp_path / "memoryd.yaml"
    file.write_text(json.dumps({"templates": {"chat": {"token_limit": 777}, "usual": {"token_limit": 888}},
                                "tenant_default_template": "usual"}))
    with Server("sqlite::memory:", arguments=[f"--config={file}"]) as server:
        commands = Commands(server.target)
        for command, template, limit in (
                (("put", "s1", "hello", "--template", "chat"), "chat", "777"),
                (("sessions", "create", "s2", "--template", "chat", "--subject", "ada"), "chat", "777"),
                # Of which nothing is said.
                (("sessions", "create", "s3"), "usual", "888")):
            commands.text(*command)
            name, = {"s1", "s2", "s3"} & set(command)
            shown, = commands.json("sessions", "show", name)
            assert shown["session"]["template"] == template
            assert shown["session"]["config"]["token_limit"] == limit
        assert "CONFIG_MISMATCH" in commands.fails(1, "put", "s1", "x", "--template", "usual")
        assert "chat" in commands.fails(2, "put", "s4", "x", "--template", "chta")


# Watching.


@contextlib.contextmanager
def watching(commands: Commands, *arguments: object) -> Iterator[subprocess.Popen]:
    process = commands.start(*arguments, "--watch", "--every", "0.02", "--json", text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_jobs_are_watched_until_none_is_open(calls, commands, session_id):
    calls.CreateSession(session_id=session_id, config=memory.SessionConfig(
        token_limit=20, token_flush_size=1, chat_history_token_ratio=0.5,
        blocks=[memory.Block(name="facts", kind="worker", worker="nobody")]))
    for number in range(12):
        calls.Put(session_id=session_id, messages=[user(f"number {number} of many")])
    ids = [job.job_id for job in calls.ListJobs(session_id=session_id).jobs]
    assert len(ids) > 1
    with watching(commands, "jobs", "list", session_id) as watch:
        def states() -> dict[str, str]:
            """Of the next lines, one for each job."""
            jobs = [json.loads(watch.stdout.readline())["job"] for _ in ids]
            return {job["job_id"]: job["state"] for job in jobs}

        assert states() == dict.fromkeys(ids, "JOB_STATE_OPEN")
        for job in ids:
            commands.text("jobs", "cancel", session_id, job)
        # Those that are waiting for the first may change in the meantime, such as by an error.
        last = {}
        for line in watch.stdout:
            job = json.loads(line)["job"]
            last[job["job_id"]] = job["state"]
        assert watch.wait(SECONDS) == 0
        assert last == dict.fromkeys(ids, "JOB_STATE_CANCELLED")


def test_embeddings_are_watched_until_nothing_is_made_anew(tmp_path):
    with ModelServer(embed=embed) as first, ModelServer(embed=lambda text: embed(text)[::-1]) as second:
        file = tmp_path / "models.yaml"
        file.write_text(json.dumps({"models": [
            {"name": name, "kind": "embedding", "url": server.url, "model": model,
             "allow_private": True, "retries": 0}
            for name, server, model in (("embed", first, "m"), ("other", second, "n"))]}))
        with Server("sqlite::memory:", arguments=[f"--config={file}"]) as server, \
                server.channel() as channel:
            calls, commands = Calls(channel), Commands(server.target)
            calls.CreateSession(session_id="s", config=config())
            put(calls, "s", *LINES)
            settled(calls, "s")
            assert commands.text("embeddings", "s", "--watch") == "m (embed)\n"
            changed = config()
            changed.retrieval.embedder = "other"
            calls.UpdateSession(session_id="s", config=changed)
            with watching(commands, "embeddings", "s", BLOCK) as watch:
                lines = [json.loads(line)["embeddings"] for line in watch.stdout]
                assert watch.wait(SECONDS) == 0
            assert lines[-1]["source"]["model"] == "n" and "next" not in lines[-1]
            calls.CreateSession(session_id="t", config=memory.SessionConfig(blocks=[
                memory.Block(name="rules", kind="static", content=[memory.Part(text="Be kind.")])]))
            assert "rules has none" in commands.fails(2, "embeddings", "t", "rules")
            assert "BLOCK_NOT_FOUND" in commands.fails(3, "embeddings", "t", "gone")


# How to reach a server.


def test_a_server_that_is_not_there_is_told_in_words():
    said = "nothing listens on 127.0.0.1:1: is memoryd running? (memoryd dev)"
    for command in (("info",), ("put", "s", "text"), ("sessions", "list")):
        assert NOWHERE.fails(4, *command) == said
    assert NOWHERE.fails(4, "export", "s") == f"s: {said}"


def test_an_error_is_json_where_that_is_asked_for(commands, session_id):
    def error(code: int, *arguments: object) -> dict:
        done = commands.run(*arguments, "--json")
        assert done.returncode == code and not done.stdout
        line, = done.stderr.splitlines()
        return json.loads(line)["error"]

    assert error(3, "sessions", "show", session_id) == {
        "code": "NOT_FOUND", "reason": "SESSION_NOT_FOUND",
        "message": "NOT_FOUND SESSION_NOT_FOUND: there is no such session"}
    refused = error(2, "messages", "show", "x" * 257, "m")
    assert refused["reason"] == "INVALID_FIELD" and refused["details"]["field"] == "session_id"
    assert error(4, "info", "--target", "127.0.0.1:1")["code"] == "UNAVAILABLE"
    for wrong in (("sesions",), ("info", "--timeout", "0"), ("info", "--colour"), ("sessions",)):
        assert error(2, *wrong)["code"] == "INVALID_ARGUMENT"
    done = commands.run("put", session_id, "--", "--json", "--json")
    assert done.returncode == 2 and done.stderr.startswith("memoryd: ")


def test_older_names_of_the_address_go_on_with_a_warning(calls, server, session_id):
    calls.CreateSession(session_id=session_id)
    for name, value in (("MEMORYD_ADDRESS", server.target), ("MEMORYD_URI", f"memoryd://{server.target}")):
        commands = Commands("")
        commands.environment = server_environment(**{name: value})
        done = commands.run("sessions", "show", session_id)
        assert done.returncode == 0
        assert done.stderr == (f"memoryd: warning: {name} is an old name: "
                               f"set MEMORYD_TARGET={server.target}\n")
        done = commands.run("sessions", "show", session_id, "--json")
        assert name in json.loads(done.stderr)["warning"]["message"]
        commands.environment["MEMORYD_TARGET"] = server.target
        assert commands.text("sessions", "show", session_id)


# A server to try things out.


class Dev:
    """memoryd dev, once it has said all that it says: its address and its lines."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process
        self.lines: list[str] = []
        for line in process.stdout:
            self.lines.append(line)
            if line == "Ctrl+C ends it.\n":
                break
        self.address, = (line.removeprefix("listening on ").strip() for line in self.lines
                         if line.startswith("listening on "))

    def ends(self, number: int) -> int:
        """The exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


@contextlib.contextmanager
def started_dev(*arguments: str, before: tuple[str, ...] = (), **environment: str) -> Iterator[Dev]:
    process = subprocess.Popen([*before, str(BINARY), "dev", *arguments], text=True,
                               stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                               env=server_environment(**environment))
    try:
        yield Dev(process)
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def dev(*arguments: str, **environment: str) -> Iterator[tuple[str, list[str]]]:
    """The address of memoryd dev, and what it says."""
    with started_dev(*arguments, **environment) as server:
        yield server.address, server.lines
        assert server.ends(signal.SIGINT) == 0


def test_dev_serves_what_it_says_to_try():
    # Nothing of a server that stays, nor what would keep one from starting.
    with dev("--port", "0", MEMORYD_STORE="oracle://x", MEMORYD_NO_SUCH_KEY="1") as (address, lines):
        assert any(line.startswith("metrics on 127.0.0.1:") for line in lines)
        assert any(line.startswith("http on 127.0.0.1:") for line in lines)
        assert "All is in memory" in "".join(lines)
        commands = [line.strip() for line in lines if line.startswith("  ")]
        assert commands[0] == f"export MEMORYD_TARGET={address}"
        script = "; ".join([f'memoryd() {{ "{BINARY}" "$@"; }}', "set -e", *commands])
        done = subprocess.run(["bash", "-c", script], text=True, capture_output=True,
                              env=server_environment(), timeout=SECONDS, check=True)
        # By get, query and curl.
        assert done.stdout.count("My dog is called Bella.") >= 3
        assert '"text":"My dog is called Bella."' in done.stdout


def test_dev_keeps_what_is_put_into_a_path(tmp_path):
    for count, path in enumerate((tmp_path / "a.db", tmp_path / "a.db", tmp_path), 1):
        with dev("--port=0", str(path)) as (address, lines), open_channel(address) as channel:
            assert "kept" in "".join(lines)
            calls = Calls(channel)
            calls.Put(session_id="s", messages=[user("a")])
            assert len(calls.all_messages("s")) == (count if path != tmp_path else 1)
    assert (tmp_path / "memoryd.db").exists()


def test_dev_makes_no_file_of_a_commands_name(tmp_path):
    for word in ("migrate", "sessions", "serve", "mcp"):
        done = subprocess.run([str(BINARY), "dev", word], cwd=tmp_path, text=True,
                              env=server_environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=SECONDS, check=False)
        assert done.returncode == 2 and f"memoryd {word}" in done.stderr, done
        assert not list(tmp_path.iterdir())


def test_dev_names_its_socket_as_a_shell_takes_it(tmp_path):
    with dev(f"--listen=unix:{tmp_path}/it's a.sock", "--metrics-listen=off") as (_, lines):
        export = next(line.strip() for line in lines if line.startswith("  export "))
        done = subprocess.run(["bash", "-c", f'{export}; "{BINARY}" put s1 text'], text=True,
                              capture_output=True, env=server_environment(), timeout=SECONDS,
                              check=True)
        assert done.stdout.startswith("stored ")


def test_dev_takes_the_next_port_that_is_free():
    with dev("--metrics-listen=off") as (first, _), dev("--metrics-listen=off") as (second, lines):
        assert first != second and second.startswith("127.0.0.1:")
        assert f"  export MEMORYD_TARGET={second}\n" in lines


def test_dev_ends_with_its_terminal():
    # The tests themselves may run under nohup.
    with started_dev("--port=0", before=("env", "--default-signal=HUP")) as server:
        assert server.ends(signal.SIGHUP) == 0


def test_dev_outlives_its_terminal_under_nohup():
    with started_dev("--port=0", before=("nohup",)) as server:
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
        ignored, blocked = (int(re.search(rf"^{name}:\s*(\w+)$", status, re.MULTILINE)[1], 16)
                            for name in ("SigIgn", "SigBlk"))
        bit = 1 << (signal.SIGHUP - 1)
        assert ignored & bit and not blocked & bit
        assert server.ends(signal.SIGTERM) == 0


def test_a_second_interrupt_ends_dev_at_once():
    with started_dev("--port=0", "--drain-seconds=600") as server, \
            open_channel(server.address) as channel:
        calls = Calls(channel)
        calls.CreateSession(session_id="s", config=memory.SessionConfig(
            token_limit=20, token_flush_size=1, chat_history_token_ratio=0.5,
            blocks=[memory.Block(name="facts", kind="worker", worker="nobody")]))

        def put() -> None:
            with contextlib.suppress(grpc.RpcError):
                for number in range(20):
                    calls.Put(session_id="s", messages=[user(f"number {number} of many")],
                              wait={"seconds": 30})

        with Background([put]):
            # It is stored, so its Put waits for it.
            wait_for(lambda: calls.ListJobs(session_id="s").jobs)
            server.process.send_signal(signal.SIGINT)
            wait_for_health(channel, health_pb2.HealthCheckResponse.NOT_SERVING, SECONDS)
            assert server.ends(signal.SIGINT) == -signal.SIGINT


# What the program says of itself.


def test_version_and_revision():
    line, = Commands("").text("version").splitlines()
    told, = Commands("").json("version")
    assert line == f"memoryd {told['version']}, revision {told['revision']}"
    assert Commands("").text("--version") == f"memoryd {told['version']}\n"


def test_the_help_names_the_commands():
    commands = Commands("")
    overview = commands.text("--help")
    assert overview == commands.text("help") == commands.text("-h")
    assert "\x1b" not in overview
    # A page, not the settings.
    assert len(overview.splitlines()) <= 50
    names = re.findall(r"^  (\w+) ", overview.partition("To begin with")[0], re.MULTILINE)
    assert {"serve", "dev", "put", "get", "query", "context", "sessions", "facts", "jobs", "export",
            "version", "help"} <= set(names)
    for name in names:
        text = commands.text(name, "--help")
        assert f"\nUsage: memoryd {name}" in text and text == commands.text("help", name)
    assert "\nUsage: memoryd sessions fork SESSION NEW_SESSION " in commands.text("help", "sessions", "fork")
    assert commands.text("sessions", "fork", "--help") == commands.text("help", "sessions", "fork")


@pytest.mark.parametrize("variables, bold", (
    ({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": ""}, True),
    ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)))
def test_colour_is_where_a_terminal_wants_it(variables, bold):
    own, theirs = pty.openpty()
    environment = {key: value for key, value in server_environment().items() if key != "NO_COLOR"}
    with contextlib.closing(os.fdopen(own, "rb", buffering=0)) as terminal:
        process = subprocess.Popen([str(BINARY), "help"], env={**environment, **variables},
                                   stdin=subprocess.DEVNULL, stdout=theirs)
        os.close(theirs)
        screen = b""
        with contextlib.suppress(OSError):  # EIO when the last one has closed it.
            while piece := terminal.read(4096):
                screen += piece
        assert process.wait(SECONDS) == 0
    assert (b"\x1b[1mStart a server\x1b[0m" in screen) == bold
    assert (b"\x1b" in screen) == bold
    commands = Commands("127.0.0.1:1")
    commands.environment = {**environment, **variables}
    _, screen = on_terminal(commands, "", "sesions")
    assert screen.startswith("\x1b[1;31mmemoryd:\x1b[0m " if bold else "memoryd: ")
    assert ("\x1b" in screen) == bold


def test_what_is_mistyped_is_asked_about():
    for arguments, said in (
            (("sesions", "list"), "unknown command sesions: did you mean sessions?"),
            (("sessions", "lits"), "unknown command sessions lits: did you mean list?"),
            (("help", "qurey"), "unknown command qurey: did you mean query?"),
            (("frobnicate",), "unknown command frobnicate: see memoryd help"),
            (("sesions", "--help"), "unknown command sesions: did you mean sessions?"),
            (("sessions", "lits", "-h"), "unknown command sessions lits: did you mean list?"),
            (("jobs", "list", "--every", "1"), "--every requires --watch"),
            (("jobs", "list", "--state", "lost"),
             "--state: must be one of open, done, failed, cancelled"),
            (("sessions", "list", "--limti=3"), "unknown option --limti: did you mean --limit?")):
        assert NOWHERE.fails(2, *arguments) == said


def test_help_behind_arguments_is_that_of_the_command():
    text = Commands("").text("help", "put")
    assert text == Commands("").text("put", "s1", "sesions", "--help")


def test_what_needs_python_is_said_to():
    assert "pip install 'memoryd[mcp]'" in NOWHERE.fails(1, "mcp", "--http")


@pytest.mark.parametrize("words, completed, others", (
    (("sess",), {"sessions"}, {"put"}),
    (("sessions", ""), {"list", "show", "create", "fork"}, {"put"}),
    (("jobs", "list", "--wa"), {"--watch"}, {"--json"}),
    (("put", "s", "--ro"), {"--role"}, set()),
    (("serve", "--sto"), {"--store", "--store-timeout-ms"}, set()),
    (("help", "--"), {"--help"}, {"--markdown", "--json"}),
    (("help", "se"), {"serve", "sessions"}, {"put"}),
    (("help", "sessions", ""), {"list", "fork"}, {"put", "--json"}),
    (("completion", ""), {"bash", "zsh", "fish"}, {"put"}),
    (("jobs", "list", "--state", ""), {"open", "done", "failed", "cancelled"}, {"--json", "a file"}),
    (("jobs", "list", "--state", "=", "o"), {"open"}, {"done"}),
    (("jobs", "list", "--state", "="), {"open", "done"}, {"--json"}),
    (("messages", "list", "s", "--status", ""), {"active", "archived"}, {"--json"}),
    (("sessions", "create", "s", "--profile", ""), {"default", "autogen-list"}, {"--json"}),
    (("put", "s", "x", "--role", ""), {"user", "assistant"}, {"--json"}),
    (("info", "--token-file", ""), {"a file"}, {"--json"}),
    (("serve", "--config", "="), {"a file"}, {"--store"}),
    (("import", ""), {"a file", "--dry-run"}, set()),
    (("export", "--output", "a"), {"a file"}, set()),
    (("sessions", "list", "--limit", ""), set(), {"a file", "--json"}),
))
def test_bash_completes(words, completed, others, tmp_path):
    (tmp_path / "a file").touch()
    script = Commands("").text("completion", "bash") + """
COMP_WORDS=(memoryd "$@"); COMP_CWORD=$#; _memoryd; printf '%s\\n' "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", script, "bash", *words], text=True, capture_output=True,
                          cwd=tmp_path, timeout=SECONDS, check=True)
    assert not done.stderr
    found = set(done.stdout.splitlines())
    assert completed <= found and not others & found, found


def test_other_shells_have_scripts_too():
    assert Commands("").text("completion", "zsh").startswith("#compdef memoryd\n")
    assert "complete -c memoryd " in Commands("").text("completion", "fish")
    Commands("").fails(2, "completion", "tcsh")


def test_the_page_of_the_commands_is_what_the_binary_says():
    subprocess.run([REPOSITORY / "tools/write_reference.py", "--check", BINARY], check=True)
