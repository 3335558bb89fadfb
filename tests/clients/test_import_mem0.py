"""The importer of mem0's history database, which its own class writes."""

from __future__ import annotations

import datetime
import itertools
import json

import pytest

from support.importing import module_alone, run

from memoryd import Client

SQLiteManager = module_alone("mem0ai", "mem0/memory/storage.py").SQLiteManager
MADE, CHANGED = "2026-01-02T03:04:05.678901+00:00", "2026-02-03T04:05:06-08:00"


@pytest.fixture
def history(tmp_path):
    manager = SQLiteManager(str(tmp_path / "history.db"))
    yield manager
    manager.close()


@pytest.fixture
def client(server):
    with Client(server.target) as connected:
        yield connected


def micros(text: str) -> int:
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1_000_000)


def test_the_last_messages_of_a_scope_are_its_session(server, client, history, session_id):
    scopes = {f"run_id={session_id}&user_id=ann": 7, f"agent_id=é%26&user_id={session_id}": 14}
    for scope, count in scopes.items():
        for number in range(count):
            history.save_messages([
                {"role": "user", "content": f"m{number} 🙂", "name": "ann" if number % 2 else None},
                {"role": "assistant", "content": None}], scope)
    done = run("mem0", "--database", history.db_path, "--target", server.target)
    assert (done.code, done.summary) == (0, "2 sessions imported, 0 there before, 0 failed")
    for scope in scopes:
        read = history.get_last_messages(scope, 100)
        stored = list(client.get_all(scope))
        assert [(m.role, m.text if m.HasField("text") else None, m.name or None,
                 m.create_time.ToMicroseconds()) for m in stored] == [
            (row["role"], row["content"], row["name"], micros(row["created_at"])) for row in read]


def test_memories_are_contents_as_their_last_event_left_them(server, client, history, session_id):
    history.add_history("kept", None, "Likes tea.", "ADD", created_at=MADE, actor_id="ann",
                        role="user")
    history.add_history("changed", None, "Lives in Oslo.", "ADD", created_at=MADE)
    history.add_history("deleted", None, "A secret.", "ADD", created_at=MADE)
    history.add_history("changed", "Lives in Oslo.", "Lives in Lyon.", "UPDATE", created_at=MADE,
                        updated_at=CHANGED)
    history.add_history("deleted", "A secret.", None, "DELETE", is_deleted=1)
    history.add_history("changed", "Lives in Lyon.", "Lives in Bergen. 🙂", "UPDATE",
                        created_at=MADE, updated_at=CHANGED)
    history.batch_add_history([
        {"memory_id": f"many{i}", "new_memory": f"Fact {i}.", "event": "ADD", "created_at": MADE}
        for i in range(1500)])
    done = run("mem0", "--database", history.db_path, "--target", server.target,
               "--session-prefix", f"{session_id}/", "--memories", "facts")
    assert done.code == 0
    assert done.line("facts") == (
        "imported  facts: 1502 contents; not carried: 1 memories that were deleted")
    kept, changed, *many = client.get_all_contents(f"{session_id}/facts")
    assert (kept.content_id, kept.text, kept.mime_type) == ("kept", "Likes tea.", "text/plain")
    assert json.loads(kept.metadata_json) == {
        "mem0": {"created_at": MADE, "actor_id": "ann", "role": "user"}}
    assert kept.ingest_time.ToMicroseconds() == micros(MADE)
    assert (changed.content_id, changed.text) == ("changed", "Lives in Bergen. 🙂")
    assert changed.ingest_time.ToMicroseconds() == micros(CHANGED)
    assert json.loads(changed.metadata_json)["mem0"]["former"] == [
        {"memory": "Lives in Oslo.", "until": CHANGED},
        {"memory": "Lives in Lyon.", "until": CHANGED}]
    assert [content.text for content in many] == [f"Fact {i}." for i in range(1500)]
    found = client.query(f"{session_id}/facts", "Bergen", top_k=1).results
    assert found[0].content.content_id == "changed"
    with pytest.raises(StopIteration):  # What was deleted is nowhere.
        next(c for c in (kept, changed, *many) if "secret" in c.text + c.metadata_json)


def test_former_texts_are_as_many_as_metadata_holds(server, client, history, session_id):
    texts = [f"{number} " + "x" * 50_000 for number in range(12)]
    history.add_history("m", None, texts[0], "ADD", created_at=MADE)
    for old, new in itertools.pairwise(texts):
        history.add_history("m", old, new, "UPDATE", created_at=MADE, updated_at=CHANGED)
    done = run("mem0", "--database", history.db_path, "--target", server.target,
               "--memories", session_id)
    assert done.code == 0
    (content,) = client.get_all_contents(session_id)
    former = json.loads(content.metadata_json)["mem0"]["former"]
    left = len(texts) - 1 - len(former)
    assert 0 < left < len(texts) - 1
    assert [before["memory"] for before in former] == texts[left:-1]
    assert f"{left} former texts of memories that have too many" in done.line(session_id)


def test_rows_that_nothing_can_be_made_of_are_named(server, client, history, session_id):
    history.add_history("m", None, "Likes tea.", "ADD", created_at=MADE)
    history.add_history("m", "Likes tea.", None, "UPDATE", created_at=MADE)
    history.save_messages([{"role": None, "content": "x"}], f"user_id={session_id}")
    rows = {table: history.connection.execute(f"SELECT id FROM {table} ORDER BY rowid").fetchall()
            for table in ("history", "messages")}
    done = run("mem0", "--database", history.db_path, "--target", server.target,
               "--memories", session_id)
    assert (done.code, done.summary) == (1, "0 sessions imported, 0 there before, 2 failed")
    assert f"row {rows['history'][1][0]}: " in done.line(session_id)
    assert f"row {rows['messages'][0][0]}: its role is None" in done.line(f"user_id={session_id}")
    assert not [s for s in client.list_sessions() if session_id in s.session_id]


def test_a_row_that_the_server_refuses_is_found_among_many(server, history, session_id):
    history.connection.executemany(
        "INSERT INTO messages (id, session_scope, role, content, created_at) VALUES (?, ?, ?, ?, ?)",
        [(f"m{number}", session_id, "r" * (65 if number == 700 else 64), "x", MADE)
         for number in range(900)])
    history.connection.commit()
    history.batch_add_history([
        {"memory_id": f"c{number}", "new_memory": "x" * ((1 << 20) + (number == 700)),
         "event": "ADD", "created_at": MADE} for number in (*range(690, 705), 900)])
    done = run("mem0", "--database", history.db_path, "--target", server.target,
               "--memories", f"{session_id} facts")
    assert done.code == 1
    assert "row m700: messages[" in done.line(session_id)
    assert "row c700: contents[" in done.line(f"{session_id} facts")


def test_a_database_of_before_there_were_messages(server, client, history, session_id):
    history.add_history("m", None, "Likes tea.", "ADD", created_at=MADE)
    history.connection.execute("DROP TABLE messages")
    done = run("mem0", "--database", f"sqlite:///{history.db_path}", "--target", server.target,
               "--memories", session_id)
    assert done.code == 0
    assert [c.text for c in client.get_all_contents(session_id)] == ["Likes tea."]
