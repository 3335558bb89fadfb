"""Why the store fails stands in the log, and nowhere else."""

from __future__ import annotations

import contextlib
import json
import pathlib
import urllib.parse
from collections.abc import Iterator

import grpc
import pytest

from support.calls import Calls, refusal, user
from support.metrics import Watch
from support.postgres import Cluster, free_port, run_sql, temporary_database
from support.server import Server, failed_start
from support.waiting import wait_for

PASSWORD = "not-the-Passw0rd"
WAITS = "waiting for the store: "


@contextlib.contextmanager
def wrong_password() -> Iterator[tuple[str, str]]:
    with Cluster() as cluster:
        hba = pathlib.Path(run_sql(cluster.url, "SHOW hba_file").strip())
        hba.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        run_sql(cluster.url, "SELECT pg_reload_conf()")
        yield (cluster.url.replace("postgres@", f"postgres:{PASSWORD}@"),
               'password authentication failed for user "postgres"')


@contextlib.contextmanager
def missing_database() -> Iterator[tuple[str, str]]:
    with temporary_database() as url:
        yield (urllib.parse.urlsplit(url)._replace(path="/not_there").geturl(),
               'database "not_there" does not exist')


@contextlib.contextmanager
def refused_port() -> Iterator[tuple[str, str]]:
    yield f"postgresql://u:{PASSWORD}@127.0.0.1:{free_port()}/x", "Connection refused"


@contextlib.contextmanager
def unknown_host() -> Iterator[tuple[str, str]]:
    yield f"postgresql://u:{PASSWORD}@store.invalid/x", 'host name "store.invalid"'


@pytest.mark.parametrize("fault", (wrong_password, missing_database, refused_port, unknown_host))
def test_who_waits_for_the_store_says_why(fault):
    with fault() as (url, cause), Server(url, wait=False) as server:
        wait_for(lambda: WAITS in server.output())
        assert cause in server.output().replace('\\"', '"')
        assert PASSWORD not in server.output()
        server.stop()


def test_a_password_that_is_taken_for_a_host_is_not_printed():
    code, output = failed_start("postgresql://u:half@Passw0rd@127.0.0.1/x")
    assert code == 2 and "%40" in output
    assert "Passw0rd" not in output


def test_a_file_that_is_no_store_is_refused_with_its_cause(tmp_path):
    path = tmp_path / "memory.db"
    path.write_bytes(b"no database at all " * 1000)
    code, output = failed_start(f"sqlite:{path}")
    assert code == 1 and "(SQLITE_NOTADB)" in output


@pytest.fixture
def limited(session_id) -> Iterator[tuple[str, str]]:
    """A database by its owner, and by a role that may do anything there but with messages."""
    role = session_id.replace("-", "_")
    with temporary_database() as url:
        with Server(url):
            pass  # The tables are there.
        run_sql(url, f"CREATE ROLE {role} LOGIN")
        try:
            run_sql(url, f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
            run_sql(url, f"REVOKE ALL ON memoryd_messages FROM {role}")
            yield url, url.replace("postgres@", f"{role}@")
        finally:
            run_sql(url, f"DROP OWNED BY {role}")
            run_sql(url, f"DROP ROLE {role}")


def test_a_missing_privilege_is_logged_and_counted_and_told_to_no_caller(
        limited, tmp_path, session_id):
    owner, other = limited
    log = tmp_path / "log"
    with Server(owner) as server, server.channel() as channel:
        Calls(channel).Put(session_id=session_id, messages=[user("secret text")])
    with log.open("wb") as file, \
            Server(other, arguments=["--metrics-listen=127.0.0.1:0"], log=file) as server, \
            server.channel() as channel:
        watch = Watch(server.metrics)
        calls = Calls(channel)
        for call, fields in ((calls.GetAll, {"session_id": session_id}),
                             (calls.Put, {"session_id": "new", "messages": [user("a")]})):
            error = refusal(call, **fields)
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
            told = error.details() + str(error.trailing_metadata())
            assert "42501" not in told and "memoryd_messages" not in told
        assert watch.moved("memoryd_store_error_classes_total", **{"class": "42"}) >= 2
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    line = next(line for line in lines if line["msg"] == "store")
    assert line["operation"] == "load_session" and line["cause_code"] == "42501"
    assert "permission denied for table memoryd_messages" in line["cause"]
    assert "secret text" not in log.read_text()
