"""memoryd's commands where the server answers late, oddly or not at all, or nobody reads them."""

from __future__ import annotations

import json
import subprocess
import threading

import grpc
import pytest

from support.calls import job_service_pb2_grpc as job_grpc
from support.calls import job_wire, memory, session_wire, user, wire
from support.calls import memory_service_pb2_grpc as memory_grpc
from support.calls import session_service_pb2_grpc as session_grpc
from support.commands import SECONDS, on_terminal, serving

HOSTILE = "a\x1b[2Jb"
SHOWN = "a\\u{1B}[2Jb"


class Putting(memory_grpc.MemoryServiceServicer):
    """Answers each Put with `reply`."""

    def __init__(self, reply: wire.PutResponse) -> None:
        self.reply = reply
        self.request: wire.PutRequest | None = None
        self.seconds = 0.0  # That the call had.

    def Put(self, request, context):
        self.request, self.seconds = request, context.time_remaining()
        return self.reply


STORED = wire.PutResponse(revision=1, message_ids=["m"], positions=[1])


@pytest.mark.parametrize("wait, milliseconds", (
    ("0", 0), ("0.0001", 1), ("0.25", 250), ("3600", 3_600_000)))
def test_a_call_lasts_as_long_as_it_waits_and_its_timeout(wait, milliseconds):
    service = Putting(STORED)
    with serving(service) as commands:
        commands.text("put", "s", "x", "--wait", wait, "--timeout", 50)
    assert service.request.HasField("wait") and service.request.wait.ToMilliseconds() == milliseconds
    # gRPC rounds up what it sends.
    assert milliseconds / 1000 < service.seconds <= milliseconds / 1000 + 51


def test_what_a_server_says_can_not_drive_a_terminal():
    job = wire.OpenJob(job_id=HOSTILE, block=HOSTILE, state=HOSTILE, error=HOSTILE)
    with serving(Putting(wire.PutResponse(message_ids=[HOSTILE], positions=[1],
                                          open_jobs=[job]))) as commands:
        assert commands.text("put", "s", "x") == (
            f"stored {SHOWN} at position 1 of session s\n"
            f"job {SHOWN} of block {SHOWN}: {SHOWN} {SHOWN}\n")

    class Getting(memory_grpc.MemoryServiceServicer):
        def Get(self, request, context):
            return wire.GetResponse(revision=1, missing_blocks=[
                wire.MissingBlock(block=HOSTILE, reason=HOSTILE)])

    with serving(Getting()) as commands:
        assert f"missing block: {SHOWN} ({SHOWN})\n" in commands.text("get", "s")


def test_a_reply_that_names_nothing_is_an_error():
    with serving(Putting(wire.PutResponse(revision=1))) as commands:
        assert "does not say" in commands.fails(1, "put", "s", "x")


class Listing(session_grpc.SessionServiceServicer, memory_grpc.MemoryServiceServicer):
    """Has as many pages as are read."""

    def __init__(self) -> None:
        self.pages = 0

    def ListSessions(self, request, context):
        self.pages += 1
        # Too much for a pipe, so that somebody has to read it.
        sessions = [memory.Session(session_id=f"{self.pages} {'x' * 200}")] * 1000
        return session_wire.ListSessionsResponse(sessions=sessions, next_page_token="more")

    def GetAll(self, request, context):
        self.pages += 1
        return wire.GetAllResponse(messages=[user("x" * 200)] * 1000, next_page_token="more")


@pytest.mark.parametrize("command", (("sessions", "list"), ("messages", "list", "s")))
@pytest.mark.parametrize("form", ((), ("--json",)))
@pytest.mark.parametrize("heeds_signal", (True, False))
def test_a_list_ends_where_nobody_reads_it(command, form, heeds_signal):
    service = Listing()
    with serving(service) as commands:
        process = commands.start(*command, *form, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 restore_signals=heeds_signal)
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
        process.stderr.close()
        # Without the signal, as in services, by an error.
        assert process.wait(SECONDS) == (-13 if heeds_signal else 1)
        assert ("standard output: Broken pipe" in said) != heeds_signal


class Jobs(session_grpc.SessionServiceServicer, job_grpc.JobServiceServicer):
    """Sessions with jobs, by revision and states, as they are one round after the other; a round may
    be a code instead, and the last one stays."""

    def __init__(self, *rounds: dict[str, tuple[int, str]] | grpc.StatusCode) -> None:
        self.rounds = list(rounds)
        self.now: dict[str, tuple[int, str]] = {}
        self.asked: list[str] = []

    def ListSessions(self, request, context):
        now = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        if isinstance(now, grpc.StatusCode):
            context.abort(now, "away")
        self.now = now
        config = memory.SessionConfig(blocks=[memory.Block(name="b", kind="worker")])
        return session_wire.ListSessionsResponse(sessions=[
            memory.Session(session_id=name, generation=1, revision=revision, config=config)
            for name, (revision, _) in now.items()])

    def ListJobs(self, request, context):
        self.asked.append(request.session_id)
        states = self.now[request.session_id][1].split()
        return job_wire.ListJobsResponse(jobs=[
            job_wire.Job(job_id=f"{request.session_id}{number}", state=f"JOB_STATE_{state}")
            for number, state in enumerate(states)])


WATCH = ("jobs", "list", "--watch", "--every", "0.01", "--json")


def told(lines: str) -> list[tuple[str, str]]:
    jobs = [json.loads(line)["job"] for line in lines.splitlines()]
    return [(job["job_id"], job["state"].removeprefix("JOB_STATE_")) for job in jobs]


def test_a_watch_asks_sessions_that_may_have_news():
    service = Jobs(
        {"a": (1, "OPEN"), "b": (1, "DONE"), "c": (1, "")},
        {"a": (1, "OPEN"), "b": (1, "DONE"), "c": (2, "OPEN")},
        {"a": (2, "DONE"), "b": (1, "DONE"), "c": (3, "DONE")})
    with serving(service) as commands:
        lines = commands.text(*WATCH)
    assert told(lines) == [("a0", "OPEN"), ("b0", "DONE"), ("c0", "OPEN"), ("a0", "DONE"), ("c0", "DONE")]
    assert service.asked == ["a", "b", "c", "a", "c", "a", "c"]


def test_a_watch_goes_on_while_the_server_is_away():
    away, busy = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED
    with serving(Jobs({"a": (1, "OPEN")}, away, away, busy, {"a": (2, "DONE")})) as commands:
        done = commands.run(*WATCH)
        assert done.returncode == 0 and told(done.stdout) == [("a0", "OPEN"), ("a0", "DONE")]
        assert [json.loads(line) for line in done.stderr.splitlines()] == [
            {"warning": {"message": f"{code.name}: away; looking again"}} for code in (away, busy)]
    with serving(Jobs({"a": (1, "OPEN")}, away, {})) as commands:
        done = commands.run(*WATCH[:-1])
        assert done.stderr == "memoryd: warning: UNAVAILABLE: away; looking again\n"
    # What has never worked is no watch, and what is refused goes on being refused.
    for rounds, code in (([away], 4), ([{"a": (1, "OPEN")}, grpc.StatusCode.PERMISSION_DENIED], 1)):
        with serving(Jobs(*rounds)) as commands:
            assert commands.run(*WATCH).returncode == code


def test_a_watch_ends_where_nobody_reads_it():
    with serving(Jobs({"a": (1, "OPEN")})) as commands:
        process = commands.start(*WATCH, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout.readline()
        process.stdout.close()
        # Although it has nothing to print any more.
        assert b"Broken pipe" in process.stderr.read()
        process.stderr.close()
        assert process.wait(SECONDS) == 1


class Slow(session_grpc.SessionServiceServicer, memory_grpc.MemoryServiceServicer):
    """Answers when a person has been told that it takes its time."""

    def __init__(self) -> None:
        self.seen = threading.Event()

    def EraseSubject(self, request, context):
        if not request.dry_run:
            self.seen.wait(SECONDS)
        return session_wire.EraseSubjectResponse(session_count=1, purged=True)

    def GetSession(self, request, context):
        return session_wire.GetSessionResponse(session=memory.Session(session_id=request.session_id))

    def StreamAll(self, request, context):
        yield wire.StreamAllResponse(messages=[user("a")], next_page_token="b")
        self.seen.wait(SECONDS)
        yield wire.StreamAllResponse(messages=[user("b")])


@pytest.mark.parametrize("command, work", (
    (("erase", "--subject", "s", "--yes"), "erased 0 of 1 sessions, 0 of 0 messages"),
    (("export", "s"), "1 sessions, 1 messages, 0 contents"),
))
def test_one_line_tells_of_the_work_and_of_what_is_waited_for(command, work):
    service = Slow()
    with serving(service) as commands:
        code, screen = on_terminal(commands, "", *command, seen=": 1 s", then=service.seen.set,
                                   columns=200)
    assert code == 0
    lines = screen.split("\r\x1b[K")
    line = next(line for line in lines if ": 1 s" in line)
    assert line.startswith(work) and "; waiting for 127.0.0.1:" in line
    assert lines[-1] == ""
