"""memoryd export and import of namespaces: their items are elsewhere as they were here."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import psycopg
import pytest

from support.calls import item_wire as wire
from support.clock import moved_clock
from support.commands import Commands
from support.server import Server
from support.stores import OTHER, fresh_store
from support.waiting import wait_for

from memoryd import Client, MemorydError, message

ADA, ODD = ("users", "ada"), ("a/b", "[c]", "\u00e4")
HOUR = 3600


def fill(client: Client) -> None:
    """A session, 1,000 items in two namespaces with all that an item may have, and a namespace that
    has none."""
    client.put("talk", [message("user", "hello")])
    client.update_namespace(ADA, subject="ada", default_ttl=30 * 24 * HOUR, refresh_ttl=False,
                            search=["text", "more[*].text"])
    client.update_namespace(ODD, subject="bob")
    client.update_namespace(("users", "empty"), subject="carol", search=[])
    for number in range(700):
        client.put_item(ADA, f"k{number}", {"text": f"tea {number}", "n": 1.0},
                        vector=[float(number), -0.0, 1e-45, 1 / 3],
                        **({"ttl": HOUR + number} if number % 3 == 0 else {}))
    for number in range(298):
        client.put_item(ODD, f"\u4e2d/{number}", bytes([number % 256, 0, 255]),
                        mime_type="image/png" if number % 2 else "application/octet-stream")
    client.put_item(ODD, "unsearched", ["x" * 20_000, "\n\x7f", "\U0001f600"], search=[])
    client.put_item(ODD, "last", [], search=["a", "b"])
    # Replaced: it keeps its first time, and stands behind all others.
    client.put_item(ADA, "k0", {"text": "mate"})
    client.delete_item(ADA, "k1")
    client.put_item(ADA, "k1", {"text": "anew"})


def lines_of(text: str) -> list[tuple[str, dict]]:
    return [next(iter(json.loads(line).items())) for line in text.splitlines()]


def test_export_import_export_is_equal_in_another_store(store_kind, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with fresh_store(store_kind) as store, Server(store) as server, \
            fresh_store(OTHER[store_kind]) as other, Server(other) as beyond, \
            Client(server.target) as here, Client(beyond.target) as there:
        fill(here)
        counts = {"sessions": 1, "messages": 1, "contents": 0, "namespaces": 3, "items": 1000}
        assert Commands(server.target).json("export", "--all", "--output", first) == [counts]
        held = lines_of(first.read_text(encoding="utf-8"))
        assert held[0] == ("memoryd_export", 2) and held[-1] == ("end", counts)
        assert [tuple(fields["namespace"]) for kind, fields in held if kind == "namespace"] == [
            ODD, ADA, ("users", "empty")]
        assert [kind for kind, _ in held].count("item") == 1000
        told, = Commands(beyond.target).json("import", first)
        assert told == {**counts, "skipped": 0}
        Commands(beyond.target).text("export", "--all", "--output", second)
        assert second.read_bytes() == first.read_bytes()
        for path in (ADA, ODD):
            a, b = (one.get_namespace(path) for one in (here, there))
            assert (a.item_count, a.vector_size, a.config) == (
                b.item_count, b.vector_size, b.config)
            # A default type that was given is shown as one that was not, and is not kept.
            assert path == ODD or a.item_bytes == b.item_bytes
        # It lives on as the first does.
        assert [item.key for item in there.search_items(ADA, query="mate", limit=1)] == ["k0"]
        newest = there.get_namespace(ADA).version
        assert there.put_item(ADA, "k0", 1).version > newest


def test_a_namespace_is_exported_with_those_below_it(store_kind):
    with fresh_store(store_kind) as store, Server(store) as server, \
            Client(server.target) as client:
        commands = Commands(server.target)
        client.put("talk", [message("user", "hello")])
        for path in (("a",), ("a", "b"), ("ab",), ("c", "b")):
            client.put_item(path, "k", "/".join(path))

        def exported(*arguments: str) -> list[str]:
            lines = lines_of(commands.text("export", *arguments))
            return [fields.get("session_id") or fields.get("json") or "/".join(fields["namespace"])
                    for kind, fields in lines if kind in ("session", "namespace", "item")]

        assert exported("--namespace", "a") == ["a", '"a"', "a/b", '"a/b"']
        assert exported("talk", "--namespace", '["c","b"]') == ["talk", "c/b", '"c/b"']
        assert exported("--namespace", "*/b") == ["a/b", '"a/b"', "c/b", '"c/b"']
        assert lines_of(commands.text("export", "talk"))[0] == ("memoryd_export", 1)
        assert "--namespace: there is no d" in commands.fails(3, "export", "--namespace", "d")


def test_without_namespaces_it_is_the_format_of_sessions(store_kind):
    with fresh_store(store_kind) as store, Server(store) as server, \
            Client(server.target) as client:
        client.put("talk", [message("user", "hello")])
        lines = lines_of(Commands(server.target).text("export", "--all"))
        assert lines[0] == ("memoryd_export", 1)
        assert lines[-1] == ("end", {"sessions": 1, "messages": 1, "contents": 0})


def test_what_is_there_is_refused_or_skipped(store_kind, tmp_path):
    file = tmp_path / "file"
    with fresh_store(store_kind) as store, Server(store) as server, \
            Client(server.target) as client:
        commands = Commands(server.target)
        for path in (("a",), ("b",)):
            client.put_item(path, "k", 1)
        text = commands.text("export", "--all")
        file.write_text(text)
        assert commands.fails(1, "import", file).startswith("a: ALREADY_EXISTS NAMESPACE_EXISTS")
        client.delete_namespace(("b",))
        assert commands.text("import", file, "--dry-run") == (
            "0 sessions, 0 messages, 0 contents, 2 namespaces, 2 items, 0 sessions skipped\n")
        assert list(client.list_namespaces()) == [("a",)]
        assert commands.json("import", file, "--skip-existing") == [
            {"sessions": 0, "messages": 0, "contents": 0, "namespaces": 1, "items": 1, "skipped": 1}]
        assert commands.text("export", "--all") == text
        assert commands.text("import", file, "--skip-existing") == (
            "0 sessions, 0 messages, 0 contents, 0 sessions skipped, 2 namespaces skipped\n")


def test_a_file_that_is_not_whole_makes_nothing(store_kind, tmp_path):
    file = tmp_path / "file"
    with fresh_store(store_kind) as store, Server(store) as server, \
            Client(server.target) as client:
        commands = Commands(server.target)
        client.put_item(("a",), "k", 1)
        lines = commands.text("export", "--all").splitlines(keepends=True)
        client.delete_namespace(("a",))
        for wrong, said in ((lines[:-1], "line 3: the export ends without its `end`"),
                            ([*lines[:2], lines[-1]], "there were"),
                            ([lines[0], *lines[2:]], "line 2: stands below no namespace"),
                            (['{"memoryd_export":1}\n', *lines[1:]], "has no place in format 1")):
            file.write_text("".join(wrong))
            assert said in commands.fails(2, "import", file)
            assert not list(client.list_namespaces(include_empty=True))


def stored_items(store: str, condition: str = "true") -> int:
    """How many items the store itself has, whatever they belong to."""
    count = f"SELECT count(*) FROM memoryd_items WHERE {condition}"
    if store.startswith("sqlite:"):
        path = store.removeprefix("sqlite:")
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return database.execute(count).fetchone()[0]
    with psycopg.connect(store) as database:
        return database.execute(count).fetchone()[0]


def assert_nothing_is_there(client: Client) -> None:
    with pytest.raises(MemorydError) as caught:
        client.get_namespace(ADA)
    assert caught.value.reason == "NAMESPACE_NOT_FOUND"
    assert not list(client.list_namespaces(include_empty=True))
    assert not list(client.list_items(ADA))
    assert not client.search_items((), query="tea")
    assert client.get_item(ADA, "k0") is None


def test_what_a_killed_server_had_of_an_import_is_purged(store_kind):
    with fresh_store(store_kind) as store, moved_clock() as clock:
        with Server(store) as server, Client(server.target) as client:
            def until_killed():
                for number in range(5000):
                    yield wire.Item(key=f"k{number}", json='"tea"')
                # The server reads a request when the one before is stored.
                assert wait_for(lambda: stored_items(store) > 1000)
                server.kill()
                yield wire.Item(key="last", json="1")

            with pytest.raises(MemorydError):
                client.import_namespace(ADA, until_killed())
        assert stored_items(store) > 1000
        with Server(store, arguments=["--sweep-interval-ms=100"],
                    environment=clock.environment) as server, Client(server.target) as client:
            assert_nothing_is_there(client)
            # Somebody could still go on with it.
            clock.advance(HOUR / 2)
            client.put_item(("other",), "gone", 1, ttl=0.001)
            wait_for(lambda: stored_items(store, "key = 'gone'") == 0)
            assert stored_items(store) > 1000
            client.delete_namespace(("other",))
            assert_nothing_is_there(client)
            clock.advance(HOUR)
            wait_for(lambda: stored_items(store) == 0)
            assert_nothing_is_there(client)
            assert client.import_namespace(ADA, [wire.Item(key="k", json="1")]).item_count == 1
