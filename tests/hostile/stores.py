"""Rows 81 to 86: a store that is away, full, unwilling, or from the future."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc

from hostile.fields import Step
from hostile.frames import METRICS
from hostile.place import Place, own_server
from support.calls import reason, refusal, user
from support.metrics import Watch
from support.postgres import Cluster, run_sql, temporary_database
from support.server import failed_start
from support.waiting import wait_for

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
DATA_LOSS = grpc.StatusCode.DATA_LOSS


@contextlib.contextmanager
def failing_inserts(url: str, sqlstate: str) -> Iterator[None]:
    """While in it, every message that is stored fails with this SQLSTATE."""
    run_sql(url, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE"
                 f" EXCEPTION 'secret of the store' USING ERRCODE = '{sqlstate}'; END $$")
    run_sql(url, "CREATE TRIGGER refuse BEFORE INSERT ON memoryd_messages FOR EACH ROW"
                 " EXECUTE FUNCTION refuse()")
    try:
        yield
    finally:
        run_sql(url, "DROP FUNCTION refuse CASCADE")


def sqlstates(code: grpc.StatusCode, *states: str) -> Step:
    """A Put that the store refuses so ends with `code`, is counted and logged, stores nothing, and
    says nothing of the store's own words. Others, and it itself, go on when the store does."""
    def step(_: Place) -> None:
        with temporary_database() as url, own_server(METRICS, store=url) as place:
            for sqlstate in states:
                session_id = place.session()
                place.calls.Put(session_id=session_id, messages=[user("before")])
                watch = Watch(place.server.metrics)
                with failing_inserts(url, sqlstate):
                    error = refusal(place.calls.Put, session_id=session_id,
                                    messages=[user("refused")], timeout=30)
                    assert error.code() == code, (sqlstate, error)
                    for word in ("secret", "memoryd_messages", "INSERT", "127.0.0.1", "refuse()"):
                        assert word not in error.details(), error
                    # A session without messages to store is not held up by it, for longer than a
                    # new connection takes.
                    wait_for(lambda: place.caller.code(
                        "CreateSession", session_id=place.session()) == grpc.StatusCode.OK)
                    assert watch.moved("memoryd_store_errors_total", operation="commit") > 0
                wait_for(lambda session_id=session_id: place.caller.code(
                    "GetAll", session_id=session_id) == grpc.StatusCode.OK)
                assert place.texts(session_id) == ["before"]
                wait_for(lambda session_id=session_id: place.caller.code(
                    "Put", session_id=session_id) == grpc.StatusCode.OK)
    return step


def logged_alarm(sqlstate: str) -> Step:
    """A full store leaves a line that an operator can be woken by."""
    def step(_: Place) -> None:
        with temporary_database() as url, own_server(store=url) as place:
            with failing_inserts(url, sqlstate):
                refusal(place.calls.Put, session_id="s", messages=[user("refused")], timeout=30)

            def found() -> bool:
                for line in place.server.output().splitlines():
                    with contextlib.suppress(ValueError):
                        said = json.loads(line)
                        if said.get("code") == "RESOURCE_EXHAUSTED":
                            return said["level"] == "warning"
                return False
            wait_for(found)
    return step


def a_store_that_is_away(_: Place) -> None:
    with Cluster() as cluster, own_server(METRICS, store=cluster.url) as place:
        session_id = place.session()
        place.calls.Put(session_id=session_id, messages=[user("before")])

        def served() -> bool:
            return place.caller.code("Put", session_id=place.session()) == grpc.StatusCode.OK

        cluster.stop()
        for call, fields in ((place.calls.Put, {"messages": [user("lost")]}),
                             (place.calls.Get, {}), (place.calls.GetSession, {})):
            error = refusal(call, session_id=session_id, timeout=30, **fields)
            assert error.code() == UNAVAILABLE, error
            assert "127.0.0.1" not in error.details(), error
        cluster.start()
        wait_for(served, attempts=3000)
        # 25006, as a standby says.
        run_sql(cluster.url, "ALTER SYSTEM SET default_transaction_read_only = on")
        run_sql(cluster.url, "SELECT pg_reload_conf()")
        wait_for(lambda: place.caller.code("Put", session_id=place.session()) == UNAVAILABLE)
        run_sql(cluster.url, "ALTER SYSTEM RESET default_transaction_read_only")
        run_sql(cluster.url, "SELECT pg_reload_conf()")
        wait_for(served, attempts=3000)
        # 57P01: what a caller hears is that, or nothing, when the call was done over.
        run_sql(cluster.url, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE"
                             " pid <> pg_backend_pid() AND backend_type = 'client backend'")
        for _number in range(10):
            assert place.caller.code("Put", session_id=place.session()) in (
                UNAVAILABLE, grpc.StatusCode.OK)
        wait_for(served, attempts=3000)
        assert place.texts(session_id)[:1] == ["before"]


def damaged_rows(_: Place) -> None:
    """A changed column of a stored message ends every read of it, and no other session's."""
    damaged = ("body", "role", "tokens")
    with tempfile.TemporaryDirectory() as folder, temporary_database() as url:
        file = Path(folder) / "memory.db"

        def run_sqlite(statement: str) -> None:
            with contextlib.closing(sqlite3.connect(file)) as database, database:
                database.execute(statement)

        for store, run, byte in ((f"sqlite:{file}", run_sqlite, "x'00'"),
                                 (url, partial(run_sql, url), r"'\x00'")):
            with own_server(store=store) as place:
                for session_id in (*damaged, "old", "whole"):
                    place.calls.Put(session_id=session_id, messages=[user("a"), user("b")])
            update = "UPDATE memoryd_messages SET {} WHERE session = '{}' AND position = {}"
            run(update.format(f"body = {byte}", "body", 1))
            run(update.format("role = 3", "role", 1))
            run(update.format("token_count = token_count + 1", "tokens", 2))
            run(update.format("checksum = 0", "old", 1))
            with own_server(METRICS, store=store) as place:
                watch = Watch(place.server.metrics)
                for session_id in damaged:
                    for method in ("Get", "GetAll", "Put", "Query"):
                        error = place.caller.error(method, session_id=session_id)
                        assert error is not None, (store, session_id, method)
                        assert error.code() == DATA_LOSS, (store, session_id, method, error)
                        assert reason(error) == "CHECKSUM_MISMATCH"
                assert watch.moved("memoryd_checksum_failures_total") >= len(damaged)
                for session_id in ("old", "whole"):
                    assert place.texts(session_id) == ["a", "b"]
                    place.calls.Put(session_id=session_id, messages=[user("c")])


def a_newer_schema(_: Place) -> None:
    with tempfile.TemporaryDirectory() as folder, temporary_database() as url:
        file = Path(folder) / "memory.db"
        for store in (f"sqlite:{file}", url):
            with own_server(store=store):
                pass
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA user_version = 9999")
        run_sql(url, "INSERT INTO memoryd_schema (version) VALUES (9999)")
        for store in (f"sqlite:{file}", url):
            code, output = failed_start(store)
            assert code not in (0, None) and "9999" in output, output
            assert "listening" not in output and "schema" in output
