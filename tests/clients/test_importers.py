"""python -m memoryd.importers: rows that nothing can be made of, second runs, and what it tells."""

from __future__ import annotations

import hashlib
import json
import pathlib
import shlex
import sqlite3
import subprocess
import sys
import tracemalloc

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock

from support.access import credential, write_credentials
from support.documents import code_of
from support.importing import module_alone, run, source_database
from support.paths import REPOSITORY
from support.postgres import run_sql
from support.server import Server
from support.tls import SERVER_NAMES, Authority

from memoryd import Client
from memoryd.importers import _database
from memoryd.llama_index import ChatStore
from memoryd.llama_index._messages import to_chat

SOURCE = str(REPOSITORY / "clients" / "python" / "src")
TABLE = """CREATE TABLE llama_index_memory (
    id INTEGER PRIMARY KEY, "key" VARCHAR, timestamp BIGINT, role VARCHAR, status VARCHAR, data JSON)
"""


def dump(text: str, **fields) -> str:
    return json.dumps({**ChatMessage(role="user", content=text).model_dump(mode="json"), **fields})


class Table:
    """A table of LlamaIndex' without its constraints, in a file."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file = folder / "chat.db"
        self._time = 1_700_000_000_000_000_000
        with sqlite3.connect(self.file) as connection:
            connection.execute(TABLE)

    def add(self, key: str | None, *documents, status="active", timestamp="") -> list[int]:
        """Rows with these documents; their ids."""
        ids = []
        with sqlite3.connect(self.file) as connection:
            for document in documents:
                self._time += 1_000_000_000
                ids.append(connection.execute(
                    "INSERT INTO llama_index_memory (key, timestamp, role, status, data) "
                    "VALUES (?, ?, 'user', ?, ?)",
                    (key, self._time if timestamp == "" else timestamp, status, document)).lastrowid)
        return ids

    def digest(self) -> str:
        return hashlib.sha256(self.file.read_bytes()).hexdigest()


@pytest.fixture
def table(tmp_path) -> Table:
    return Table(tmp_path)


@pytest.fixture
def client(server):
    with Client(server.target) as connected:
        yield connected


def imported(table: Table, server: Server, *options: str):
    return run("llama-index", "--database", f"sqlite:///{table.file}", "--target", server.target,
               *options)


GOOD = dump("good")
# Over the server's limits of a text, of metadata, of its depth, and of the number of parts.
OVER_LIMITS = (
    dump("word " * 300_000),
    dump("x", additional_kwargs={"k": "y" * 300_000}),
    dump("x", additional_kwargs={"k": json.loads("[" * 100 + "]" * 100)}),
    dump("x", blocks=[TextBlock(text="y").model_dump(mode="json")] * 1001),
)
# What a row holds besides good ones, and what is said of it.
BAD = (
    (("{\"role\": \"user\"",), {}, "it is no JSON: Expecting"),
    (("",), {}, "it is no JSON: Expecting value"),
    ((b"\xff\xfe{\x00",), {}, "it is no JSON: "),
    ((b"{\"role\": \"\xff\"}",), {}, "it is no JSON: 'utf-8' codec"),
    (("[" * 100_000,), {}, "it is no JSON: "),
    (("[1]",), {}, "it is no JSON object but list"),
    (("null",), {}, "it is no JSON object but NoneType"),
    ((None,), {}, "it is NULL"),
    ((dump("x", role="wizard"),), {}, "LlamaIndex does not read it: role: Input should be"),
    ((dump("x", blocks=[{"block_type": "hologram"}]),), {}, "LlamaIndex does not read it: blocks"),
    ((dump("word " * 8_000_000),), {}, "it makes 4000"),
    ((json.dumps({"x": "y" * _database.MAX_DOCUMENT_BYTES}),), {}, "bytes, and no message more"),
    ((dump("x"),), {"status": "lost"}, "its status 'lost' is neither active nor archived"),
    ((dump("x"),), {"status": None}, "its status None is neither"),
    ((dump("x"),), {"timestamp": None}, "its timestamp None is no time"),
    ((dump("x"),), {"timestamp": -5}, "its timestamp -5 is no time"),
)


def test_what_nothing_can_be_made_of_is_named_and_the_rest_goes_on(
        server, client, table, session_id):
    expected = {}
    for number, (documents, fields, said) in enumerate(BAD):
        key = f"{session_id} bad {number:02}"
        table.add(key, *[GOOD] * 3)
        (row,) = table.add(key, *documents, **fields)
        table.add(key, *[GOOD] * 3)
        # One that has no time, or one before all others, comes first.
        expected[key] = f"failed    {key}: row {row}: ", said
        table.add(f"{session_id} good {number:02}", GOOD, GOOD)
    before = table.digest()
    done = imported(table, server)
    assert (done.code, done.error) == (1, "")
    assert done.summary == f"{len(BAD)} sessions imported, 0 there before, {len(BAD)} failed"
    for key, (begin, said) in expected.items():
        line = done.line(key)
        assert line.startswith(begin) and said in line, (begin, said, line[:300])
        assert len(line) < 400
    stored = {session.session_id: session.active_count for session in client.list_sessions()
              if session.session_id.startswith(session_id)}
    assert stored == {f"{session_id} good {number:02}": 2 for number in range(len(BAD))}
    assert table.digest() == before


def test_rows_that_pass_the_servers_limits_go_in_as_the_adapter_writes_them(
        server, client, table, session_id):
    table.add(session_id, *OVER_LIMITS)
    done = imported(table, server)
    assert done.code == 0, done.lines
    stored = [to_chat(message) for message in client.get_all(session_id)]
    assert stored == [ChatMessage.model_validate_json(document) for document in OVER_LIMITS]


def test_a_second_run_leaves_what_is_there(server, client, table, session_id):
    table.add(f"{session_id} a", dump("a1"), dump("a2"))
    table.add(f"{session_id} b", dump("b1"), "no json")
    first = imported(table, server)
    assert (first.code, first.summary) == (1, "1 sessions imported, 0 there before, 1 failed")
    before = client.get_session(f"{session_id} a")
    table.add(f"{session_id} a", dump("a3"))
    with sqlite3.connect(table.file) as connection:
        connection.execute("DELETE FROM llama_index_memory WHERE data = 'no json'")
    second = imported(table, server)
    assert (second.code, second.summary) == (3, "1 sessions imported, 1 there before, 0 failed")
    assert second.line(f"{session_id} a").startswith("there     ")
    assert client.get_session(f"{session_id} a") == before
    assert [m.text for m in client.get_all(f"{session_id} b")] == ["b1"]


def test_some_sessions_alone_under_a_prefix(server, client, table, session_id):
    for key in "abc":
        table.add(f"{session_id} {key}", dump(key))
    done = imported(table, server, "--session-prefix", "old/", "--only", f"{session_id} b",
                    "--only", f"{session_id} x")
    assert (done.code, done.summary) == (1, "1 sessions imported, 0 there before, 1 failed")
    assert done.line(f"{session_id} x").endswith("there is no such session")
    assert [m.text for m in client.get_all(f"old/{session_id} b")] == ["b"]
    assert not list(client.get_all(f"old/{session_id} a"))


def test_a_dry_run_reads_all_and_asks_nobody(table):
    table.add("a", dump("a"), dump("b"))
    table.add("b\n\x1b[1m", dump("a"), "no json")
    done = run("llama-index", "--database", str(table.file), "--target", "localhost:1", "--dry-run")
    assert done.code == 1
    assert done.lines[0] == "read      a: 2 messages"
    assert done.lines[1].startswith("failed    'b\\n\\x1b[1m': row 4: it is no JSON")
    assert done.summary == "1 sessions read, 0 there before, 1 failed"


def test_a_session_id_that_memoryd_does_not_take_is_said(server, table):
    table.add("k" * 257, dump("a"))
    table.add("", dump("a"))
    table.add("bell\x07", dump("a"))
    done = imported(table, server)
    assert (done.code, done.summary) == (1, "0 sessions imported, 0 there before, 3 failed")
    assert all("begin.session_id: " in line for line in done.lines[:-1]), done.lines


def test_rows_of_no_session_are_counted(server, tmp_path, session_id):
    file = tmp_path / "store.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, "
                           "message TEXT, created_at TEXT)")
        for number, (key, kind) in enumerate(((None, "human"), (session_id, "human"),
                                              (f"{session_id} bad", "wizard"))):
            connection.execute(
                "INSERT INTO message_store VALUES (?, ?, ?, ?)",
                (number + 1, key, json.dumps({"type": kind, "data": {"content": "x"}}),
                 "2026-01-02 03:04:05"))
    done = run("langchain", "--database", str(file), "--table", "message_store", "--target",
               server.target)
    assert (done.code, done.summary) == (1, "1 sessions imported, 0 there before, 1 failed")
    assert "left      1 rows without a session_id" in done.lines
    assert "row 3: LangChain does not read it: " in done.line(f"{session_id} bad")
    with Client(server.target) as client:
        (message,) = client.get_all(session_id)
        assert message.create_time.ToJsonString() == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(("url", "said"), (
    ("sqlite:///no/such/file.db", "there is no file 'no/such/file.db'"),
    ("sqlite:/no/such/file.db", "there is no file '/no/such/file.db'"),
    ("sqlite+aiosqlite:///:memory:", "there is no file ':memory:'"),
    ("sqlite://", "write sqlite:///chat.db"),
    ("sqlite+aiosqlite:///", "write sqlite+aiosqlite:///chat.db"),
    ("mysql+pymysql://root@localhost/x", "mysql is neither sqlite nor postgresql"),
    ("postgresql+asyncpg://nobody:secret@127.0.0.1:1/x", "onnection refused"),
    ("postgresql://127.0.0.1/x?ssl=require", 'invalid URI query parameter: "ssl"'),
))
def test_a_database_that_can_not_be_read_begins_nothing(url, said):
    done = run("llama-index", "--database", url)
    assert (done.code, done.lines) == (2, [])
    assert said in done.error and "secret" not in done.error


def test_a_table_that_is_none_of_the_librarys_begins_nothing(tmp_path):
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE llama_index_memory (id, key, timestamp, data)")
        connection.execute("INSERT INTO llama_index_memory VALUES (1, 'k', 1, '{}')")
    done = run("llama-index", "--database", str(file))
    assert done.code == 2 and "no such column: status" in done.error
    file.write_text("no database " * 1000)
    done = run("mem0", "--database", str(file))
    assert done.code == 2 and "file is not a database" in done.error


@pytest.mark.parametrize("kind", ("sqlite", "postgresql"))
def test_nothing_can_be_written_to_what_is_read(kind, tmp_path):
    with source_database(kind, tmp_path) as url:
        if kind == "sqlite":
            with sqlite3.connect(tmp_path / "source.db") as connection:
                connection.execute("CREATE TABLE t (x)")
        else:
            run_sql(url, "CREATE TABLE t (x int)")
        database = _database.open_database(url)
        with pytest.raises(_database.DatabaseError, match=r"read-?only"):
            list(database.rows("DELETE FROM t RETURNING x"))
        assert list(database.rows("SELECT * FROM t")) == []
        database.close()


def test_a_server_that_is_away_ends_the_run(table):
    for key in "abc":
        table.add(key, dump(key))
    done = run("llama-index", "--database", str(table.file), "--target", "localhost:1")
    assert (done.code, done.summary) == (1, "0 sessions imported, 0 there before, 0 failed")
    assert "UNAVAILABLE" in done.error and "run it again" in done.error


def test_a_connection_to_the_source_that_breaks_ends_the_run(server, session_id):
    with source_database("postgresql", None) as url:
        run_sql(url, TABLE)
        for key in "abc":
            run_sql(url, f"INSERT INTO llama_index_memory VALUES ({ord(key)}, '{session_id} {key}', "
                         f"1, 'user', 'active', '{GOOD}')")
        # A view with rows that end the connection which reads them.
        run_sql(url, "ALTER TABLE llama_index_memory RENAME TO rows")
        run_sql(url, "CREATE VIEW llama_index_memory AS SELECT id, key, timestamp, role, status, "
                     "CASE WHEN id < 98 OR current_query() NOT LIKE '%octet_length%' OR "
                     "pg_terminate_backend(pg_backend_pid()) THEN data END AS data FROM rows")
        done = run("llama-index", "--database", url, "--target", server.target)
    assert (done.code, done.summary) == (1, "1 sessions imported, 0 there before, 0 failed"), done
    assert "run it again" in done.error


def test_a_tenant_with_tls_and_a_token(table, tmp_path, store):
    authority = Authority(tmp_path)
    identity = authority.issue(SERVER_NAMES)
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        credential("mine", ["admin", "read", "write"], token="operator"),
        credential("mine", ["read", "write"], token="app")])
    for key in "ab":
        table.add(key, dump(key))
    for name in ("operator", "app"):
        (tmp_path / name).write_text(f"{name}\n")
    with Server(store, listen="localhost:0", arguments=[
            f"--tls-cert={identity.certificate}", f"--tls-key={identity.key}",
            f"--credentials={credentials}"]) as server:
        def at(token: str):
            return imported(table, server, "--ca-file", str(authority.certificate),
                            "--token-file", str(tmp_path / token))

        refused = at("app")
        assert (refused.code, len(refused.lines)) == (1, 1)
        assert "PERMISSION_DENIED (RIGHT_MISSING)" in refused.error
        assert at("operator").code == 0
        assert at("operator").code == 3


def test_memory_does_not_grow_with_a_session(server, table, session_id):
    # Images, whose tokens are not counted one by one.
    image = ImageBlock(image=bytes(300_000), image_mimetype="image/png").model_dump(mode="json")
    table.add(session_id, *[dump("x", blocks=[image]) for _ in range(100)])
    table.add(f"{session_id} small", GOOD)
    imported(table, server, "--only", f"{session_id} small")  # Loads what a run needs.
    tracemalloc.start()
    try:
        assert imported(table, server, "--only", session_id).code == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20  # Of 40 MB.


def test_the_commands_of_the_documentation(server, table, session_id):
    table.add(session_id, dump("a"))
    folder = table.file.parent
    with sqlite3.connect(folder / "store.db") as connection:
        connection.execute("CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, "
                           "message TEXT)")
        connection.execute("INSERT INTO message_store VALUES (1, ?, ?)", (
            f"{session_id} 2", json.dumps({"type": "human", "data": {"content": "x"}})))
    history = module_alone("mem0ai", "mem0/memory/storage.py").SQLiteManager(
        str(folder / "history.db"))
    history.save_messages([{"role": "user", "content": "x"}], f"user_id={session_id}")
    history.close()
    _, block = code_of(REPOSITORY / "clients" / "python" / "IMPORTERS.md", "sh", server.target)
    commands = block.splitlines()
    assert len(commands) == 3
    for command in commands:
        python, *arguments = shlex.split(command)
        assert python == "python"
        done = subprocess.run([sys.executable, *arguments], cwd=folder, text=True,
                              env={"PYTHONPATH": SOURCE}, capture_output=True, timeout=120,
                              check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "1 sessions imported, 0 there before, 0 failed"


def test_as_a_command(server, table, session_id):
    table.add(session_id, dump("a"), dump("b"))
    done = subprocess.run(
        [sys.executable, "-m", "memoryd.importers", "llama-index", "--database", str(table.file)],
        env={"PYTHONPATH": SOURCE, "MEMORYD_TARGET": server.target}, capture_output=True, text=True,
        timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (f"imported  {session_id}: 2 messages\n"
                           "1 sessions imported, 0 there before, 0 failed\n")
    store = ChatStore(async_database_uri=f"memoryd://{server.target}")
    assert [m.content for m in store.get_messages(session_id)] == ["a", "b"]
