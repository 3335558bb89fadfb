"""Subjects: sessions found by whom they are about, and EraseSubject."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
import subprocess
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import WAIT, drained, models_file
from support.calls import Calls, memory, note, reason, refusal, session_wire, user
from support.erasure import (
    COUNTS,
    Round,
    add,
    config_of,
    erase,
    new_marker,
    say,
    sessions_with_rows,
    stored_text,
)
from support.model_server import ModelServer
from support.paths import BINARY
from support.server import Server, ready
from support.stores import fresh_store
from support.waiting import wait_for

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture(scope="module")
def place(store_kind, tmp_path_factory):
    """Calls of a server with models, its store, and the models."""
    with ModelServer() as models, fresh_store(store_kind) as store, \
            Server(store, arguments=[models_file(tmp_path_factory.mktemp("models"), models),
                                     "--job-retry-ms=20", "--job-attempts=5",
                                     "--sweep-interval-ms=300"]) as server, \
            server.channel() as channel:
        yield Calls(ready(channel)), store, models


def about(subject: str) -> memory.SessionConfig:
    return memory.SessionConfig(subject=subject)


def sessions_of(calls: Calls, subject: str, page_size: int = 100) -> list[str]:
    found, token = [], ""
    while True:
        page = calls.ListSessions(subject=subject, page_size=page_size, page_token=token)
        found += [session.session_id for session in page.sessions]
        token = page.next_page_token
        if not token:
            return found


def test_sessions_are_listed_by_their_subject(calls, session_id):
    ada, bob = f"ada {session_id}", f"bob {session_id}"
    names = sorted(f"{session_id} {number}" for number in range(7))
    for name in names:
        calls.Put(session_id=name, config=about(ada), messages=[user("a")])
    calls.CreateSession(session_id=session_id, config=about(bob))
    for size in (1, 2, 3, 7, 100):
        assert sessions_of(calls, ada, size) == names
    assert sessions_of(calls, bob) == [session_id]
    assert sessions_of(calls, ada.upper()) == []
    # A page goes on among the same subject's sessions alone.
    token = calls.ListSessions(subject=ada, page_size=1).next_page_token
    for subject in (bob, ""):
        error = refusal(calls.ListSessions, subject=subject, page_token=token)
        assert error.code() == INVALID and "page_token" in error.details()


def test_a_session_can_be_given_to_another_subject(calls, session_id):
    ada, bob = f"ada {session_id}", f"bob {session_id}"
    created = calls.CreateSession(session_id=session_id, config=about(ada)).session
    assert created.config.subject == ada
    assert calls.UpdateSession(session_id=session_id,
                               config=memory.SessionConfig(token_limit=50)
                               ).session.config.subject == ada
    calls.UpdateSession(session_id=session_id, config=about(bob))
    assert (sessions_of(calls, ada), sessions_of(calls, bob)) == ([], [session_id])
    assert not erase(calls, ada).total()
    updated = calls.UpdateSession(session_id=session_id, config=about("")).session
    assert not updated.config.HasField("subject")
    assert not erase(calls, bob).total()
    assert calls.GetSession(session_id=session_id).session.config.token_limit == 50


def test_a_copy_is_of_the_same_subject(calls, session_id):
    calls.Put(session_id=session_id, config=about(session_id), messages=[user("a")])
    copy = session_id + " copy"
    calls.ForkSession(session_id=session_id, new_session_id=copy)
    assert sessions_of(calls, session_id) == [session_id, copy]
    assert erase(calls, session_id)["session_count"] == 2


def test_a_subject_is_checked(calls, session_id):
    for subject in ("x" * 257, "a\nb", "\x00"):
        for call, fields in ((calls.CreateSession, {"config": about(subject)}),
                             (calls.Put, {"config": about(subject), "messages": [user("a")]})):
            error = refusal(call, session_id=session_id, **fields)
            assert error.code() == INVALID and "config.subject" in error.details(), error
        for call in (calls.EraseSubject, calls.ListSessions):
            error = refusal(call, subject=subject)
            assert error.code() == INVALID and "subject" in error.details(), error
    assert refusal(calls.EraseSubject).code() == INVALID
    assert refusal(calls.EraseSubject, dry_run=True).code() == INVALID
    calls.CreateSession(session_id=session_id, config=about("x" * 256))
    assert erase(calls, "x" * 256)["session_count"] == 1


def test_what_is_counted_goes_and_nothing_else(place):
    calls, store, _ = place
    marker, others = new_marker(), new_marker()
    sessions = [uuid.uuid4().hex for _ in range(3)]
    for session in sessions:
        for number in range(3):
            calls.Put(session_id=session, config=config_of(marker), request_id=f"r{number}",
                      wait=WAIT, **say(marker, f"m{number}"))
        calls.UpdateSession(session_id=session, config=memory.SessionConfig(token_limit=99),
                            request_id="u")
        drained(calls, session)
    # One of them was deleted earlier: its replies are kept.
    calls.DeleteSession(session_id=sessions[0], request_id="d")
    calls.Put(session_id=f"of {others}", config=config_of(others), wait=WAIT,
              request_id="r", **say(others, "m"))
    calls.Put(session_id=others, messages=[user(f"of nobody {others}")])
    assert marker in stored_text(store)

    found = calls.EraseSubject(subject=marker, dry_run=True)
    assert (found.session_count, found.message_count, found.content_count) == (2, 12, 6)
    assert found.entry_count > 0 and found.block_count == 4
    assert found.job_count == sum(len(drained(calls, session)) for session in sessions) > 0
    # Three Puts and an UpdateSession each, and the DeleteSession.
    assert found.reply_count == 13
    assert marker in stored_text(store)

    receipt = calls.EraseSubject(subject=marker)
    assert receipt.purged and receipt.left_reason == "" and not receipt.dry_run
    assert {name: getattr(receipt, name) for name in COUNTS} == \
        {name: getattr(found, name) for name in COUNTS}
    assert marker not in stored_text(store)
    again = calls.EraseSubject(subject=marker)
    assert again.purged and not add([again]).total()

    assert len(calls.all_messages(f"of {others}")) == 2
    assert calls.Get(session_id=f"of {others}").messages
    assert len(calls.all_messages(others)) == 1


def test_a_reply_that_another_server_remembers_is_erased_too():
    with fresh_store("postgresql") as store, Server(store) as one, Server(store) as two, \
            one.channel() as channel_one, two.channel() as channel_two:
        here, there = Calls(channel_one), Calls(channel_two)
        put = {"session_id": "s", "config": about("ada"), "request_id": "r",
               "messages": [user("once", message_id="what ada calls it")]}
        first = here.Put(**put)
        # Not read since by the server that remembers the reply.
        assert there.Put(**put).replayed
        again = here.Put(**put)
        assert again.replayed and again.revision == first.revision
        erase(there, "ada")
        error = refusal(here.Put, **put)
        assert reason(error) == "REQUEST_FORGOTTEN" and "calls it" not in error.details()
        assert here.all_messages("s") == [] == there.all_messages("s")


def test_a_call_repeated_after_the_erasure_stores_nothing(calls, session_id):
    put = {"session_id": session_id, "config": about(session_id), "request_id": "r",
           "messages": [user("once")]}
    calls.Put(**put)
    calls.DeleteSession(session_id=session_id)
    # After a DeleteSession it gets its reply.
    assert calls.Put(**put).replayed
    assert calls.all_messages(session_id) == []
    erase(calls, session_id)
    error = refusal(calls.Put, **put)
    assert (error.code(), reason(error)) == (grpc.StatusCode.FAILED_PRECONDITION,
                                             "REQUEST_FORGOTTEN")
    assert calls.all_messages(session_id) == []
    put["request_id"] = "another"
    assert list(calls.Put(**put).positions)
    assert len(calls.all_messages(session_id)) == 1


def test_anothers_session_of_the_id_keeps_nothing_of_the_subject(place):
    calls, store, _ = place
    marker, session = new_marker(), uuid.uuid4().hex
    calls.Put(session_id=session, config=config_of(marker), request_id="r", **say(marker, "m"))
    calls.CreateSession(session_id=session + "2", config=config_of(marker), request_id="r")
    for each in (session, session + "2"):
        calls.DeleteSession(session_id=each)
        calls.Put(session_id=each, messages=[user("of nobody")], request_id="r2")
    assert not add([calls.EraseSubject(subject=marker)]).total()
    assert marker not in stored_text(store)
    for each in (session, session + "2"):
        assert len(calls.all_messages(each)) == 1
        assert calls.Put(session_id=each, messages=[user("of nobody")], request_id="r2").replayed


def test_an_answer_that_comes_after_the_erasure_brings_nothing_back(place):
    calls, store, models = place
    marker, session = new_marker(), uuid.uuid4().hex
    with models.hanging():
        before = len(models.requests)
        for number in range(3):
            calls.Put(session_id=session, config=config_of(marker), **say(marker, f"m{number}"))
        models.wait_for_requests(before + 1)
        receipt = calls.EraseSubject(subject=marker)
        assert receipt.purged and receipt.job_count > 0
        assert marker not in stored_text(store)
    # The id is used again, and what was asked for the subject is answered by then.
    other = new_marker()
    calls.Put(session_id=session, config=config_of(other), wait=WAIT, **say(other, "m"))
    calls.Put(session_id=session, wait=WAIT, **say(other, "n"))
    drained(calls, session)
    assert marker not in stored_text(store)
    assert marker not in str(calls.Get(session_id=session))
    erase(calls, other)


def test_a_fork_under_way_makes_no_copy_of_what_is_erased(place):
    calls, store, _ = place
    marker, session = new_marker(), uuid.uuid4().hex
    for first in range(0, 3000, 500):
        calls.Put(session_id=session, config=memory.SessionConfig(subject=marker,
                                                                  policy="buffer"),
                  messages=[user(f"{marker} {first + n}") for n in range(500)])
    outcome = []

    def fork() -> None:
        try:
            outcome.append(calls.ForkSession(session_id=session, new_session_id=session + "2"))
        except grpc.RpcError as error:
            outcome.append(reason(error))

    thread = threading.Thread(target=fork)
    thread.start()
    erase(calls, marker)
    thread.join()
    erase(calls, marker)
    assert outcome[0] in ("SESSION_REPLACED", "SESSION_NOT_FOUND") or outcome[0].session.session_id
    assert marker not in stored_text(store)
    assert sessions_of(calls, marker) == []


def test_rounds_of_erasure_under_writes(place):
    calls, store, _ = place
    rounds = [Round([calls], seed) for seed in range(6)]
    with ThreadPoolExecutor(len(rounds)) as pool:
        for _ in pool.map(Round.run, rounds):
            pass
    stored, with_rows = stored_text(store), sessions_with_rows(store)
    for each in rounds:
        assert each.marker not in stored
        assert not with_rows.intersection(each.sessions)
        each.check()


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_after_a_kill_in_the_middle_the_call_is_repeated(store, at):
    marker, others = new_marker(), new_marker()
    count = 60
    server = Server(store)
    try:
        address = server.target
        with server.channel() as channel:
            calls = Calls(ready(channel))
            for number in range(count):
                calls.Put(session_id=f"s{number:03}", config=about(marker), request_id="r",
                          messages=[user(f"{marker} {n}") for n in range(20)])
            calls.Put(session_id="other", config=about(others), messages=[user(others)])
            under_way = channel.unary_unary(
                "/memoryd.v1.SessionService/EraseSubject",
                request_serializer=session_wire.EraseSubjectRequest.SerializeToString,
                response_deserializer=session_wire.EraseSubjectResponse.FromString,
            ).future(session_wire.EraseSubjectRequest(subject=marker), timeout=30)
            wait_for(lambda: under_way.done() or
                     len(calls.ListSessions(subject=marker).sessions) <= count * (1 - at))
            server.kill()
        server = Server(store, listen=address)
        with server.channel() as channel:
            calls = Calls(ready(channel))
            rest = erase(calls, marker)
            assert rest["session_count"] <= count
            assert marker not in stored_text(store)
            assert [m.text for m in calls.all_messages("other")] == [others]
            assert calls.EraseSubject(subject=others, dry_run=True).session_count == 1
    finally:
        server.kill()


def bytes_of(file: pathlib.Path) -> bytes:
    """What stands in the database and in its log."""
    log = file.with_name(file.name + "-wal")
    return file.read_bytes() + (log.read_bytes() if log.exists() else b"")


def test_once_it_is_purged_file_and_log_have_nothing_of_it(tmp_path):
    file, marker = tmp_path / "memory.db", new_marker()
    with Server(f"sqlite:{file}") as server, server.channel() as channel:
        calls = Calls(ready(channel))
        calls.Put(session_id="other", messages=[user("kept by somebody else")])
        calls.Put(session_id="s", config=about(marker), request_id="r",
                  messages=[user(f"small {marker}"), user(f"large {marker} " + marker * 500)],
                  contents=[note(f"note {marker}")])
        calls.Put(session_id="s", messages=[user(f"again {marker}")], request_id="r2")
        assert marker.encode() in bytes_of(file)
        last = calls.EraseSubject(subject=marker)
        assert last.purged and "VACUUM" in last.left_elsewhere
        # While the server runs, and goes on writing.
        assert marker.encode() not in bytes_of(file)
        calls.Put(session_id="other", messages=[user("and so is this")])
        assert marker.encode() not in bytes_of(file)
        assert b"and so is this" in bytes_of(file)
        assert [m.text for m in calls.all_messages("other")] == [
            "kept by somebody else", "and so is this"]


def test_it_is_not_purged_while_another_program_reads_the_log(tmp_path):
    file, marker = tmp_path / "memory.db", new_marker()
    with Server(f"sqlite:{file}") as server, server.channel() as channel:
        calls = Calls(ready(channel))
        calls.Put(session_id="s", config=about(marker), messages=[user(marker)])
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as backup:
            backup.execute("BEGIN")
            assert backup.execute("SELECT count(*) FROM memoryd_messages").fetchone() == (1,)
            receipt = calls.EraseSubject(subject=marker)
            assert (receipt.purged, receipt.left_reason) == (False, "LOG_READ")
            assert receipt.session_count == 1 and not receipt.left_elsewhere
            # Others are served meanwhile.
            calls.Put(session_id="other", messages=[user("kept")])
            done = subprocess.run(
                [BINARY, "erase", "--subject", marker, "--yes", "--target", server.target],
                capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 1 and "reads the log" in done.stderr
        assert calls.EraseSubject(subject=marker).purged
        assert marker.encode() not in bytes_of(file)
        assert [m.text for m in calls.all_messages("other")] == ["kept"]


def test_it_is_purged_while_many_read(tmp_path):
    file, marker = tmp_path / "memory.db", new_marker()
    with Server(f"sqlite:{file}", arguments=["--cache-mib=1"]) as server, \
            server.channel() as channel:
        calls = Calls(ready(channel))
        for number in range(20):
            calls.Put(session_id=f"other{number}", messages=[user("kept " * 400)] * 50)
        calls.Put(session_id="s", config=about(marker), messages=[user(marker)])
        ended = threading.Event()

        def read(first: int) -> None:
            while not ended.is_set():
                for number in range(first, 20, 4):
                    assert len(calls.all_messages(f"other{number}")) == 50

        with ThreadPoolExecutor(4) as pool:
            readers = [pool.submit(read, first) for first in range(4)]
            try:
                erase(calls, marker)
            finally:
                ended.set()
            for reader in readers:
                reader.result()
        assert marker.encode() not in bytes_of(file)


def test_the_receipt_says_what_is_left_to_the_operator_of_the_store(place, session_id):
    calls, store, _ = place
    calls.Put(session_id=session_id, config=about(session_id), messages=[user("x")])
    counted = calls.EraseSubject(subject=session_id, dry_run=True)
    assert counted.session_count == 1 and not counted.left_elsewhere
    left = calls.EraseSubject(subject=session_id).left_elsewhere
    words = ("SQLite",) if store.startswith("sqlite:") else ("PostgreSQL", "WAL", "dead rows")
    assert all(word in left for word in (*words, "VACUUM", "backups"))


def test_a_file_that_was_vacuumed_has_no_byte_of_it(tmp_path):
    file, marker = tmp_path / "memory.db", new_marker()
    with Server(f"sqlite:{file}") as server, server.channel() as channel:
        calls = Calls(ready(channel))
        for number in range(40):
            # Rows of many sizes beside those of others, so that pages are split and merged.
            calls.Put(session_id=f"s{number}", config=about(marker), request_id="r",
                      messages=[user(f"{marker} {'x' * (37 * (n % 40))}") for n in range(40)])
            calls.Put(session_id="other", messages=[user("kept " * 50)] * 5)
        erase(calls, marker)
        assert server.stop() == 0
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db-wal"] == []
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("VACUUM")
    stored = file.read_bytes()
    assert marker.encode() not in stored and b"kept kept" in stored


def test_tenants_and_rights(store, tmp_path):
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential("a", ("read", "write"), token="a"), credential("b", ("read", "write"), token="b"),
        credential("a", ("read",), token="reader")])
    with Server(store, arguments=[f"--credentials={file}"]) as server, server.channel() as channel:
        ready(channel)
        a, b, reader = (Caller(channel, token) for token in ("a", "b", "reader"))
        for caller in (a, b):
            caller("Put", session_id="s", config=about("ada"), messages=[user("a")])
        for dry_run in (True, False):
            assert reader.code("EraseSubject", subject="ada", dry_run=dry_run) == \
                grpc.StatusCode.PERMISSION_DENIED
        assert a("EraseSubject", subject="ada").session_count == 1
        assert len(b("GetAll", session_id="s").messages) == 1
