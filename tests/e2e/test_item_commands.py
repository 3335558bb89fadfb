"""memoryd items put, get, list, search, delete and namespaces."""

from __future__ import annotations

import json
import uuid

import pytest

from support.calls import item_wire as wire
from support.commands import Commands, on_terminal


@pytest.fixture
def commands(server) -> Commands:
    return Commands(server.target)


@pytest.fixture
def name() -> str:
    """The first name of namespaces that nobody else uses."""
    return f"n-{uuid.uuid4().hex}"


def test_what_is_put_is_got(calls, commands, name):
    place = f"{name}/notes"
    written, = commands.json("items", "put", place, "tea", '{"text": "green tea"}', "--ttl", 60,
                             "--field", "text")
    stored = calls.GetItem(namespace=[name, "notes"], get=wire.ItemGet(key="tea")).item
    assert stored.json == '{"text": "green tea"}' and stored.ttl.seconds == 60
    assert list(stored.search.fields) == ["text"]
    assert int(written["write"]["version"]) == stored.version
    got, = commands.json("items", "get", place, "tea")
    assert got["item"]["namespace"] == [name, "notes"] and got["item"]["key"] == "tea"
    assert commands.text("items", "get", place, "tea", "--value") == '{"text": "green tea"}\n'
    assert "key: tea\n" in commands.text("items", "get", place, "tea")
    assert "has no item coffee" in commands.fails(3, "items", "get", place, "coffee")


def test_a_namespace_gets_its_subject_from_its_first_item(calls, commands, name):
    commands.text("items", "put", f"{name}/notes", "tea", "1", "--subject", name)
    assert calls.GetNamespace(namespace=[name, "notes"]).namespace.config.subject == name
    commands.text("items", "put", f"{name}/notes", "coffee", "1")
    commands.text("items", "put", f"{name}/others", "tea", "1")
    assert "CONFIG_MISMATCH" in commands.fails(
        1, "items", "put", f"{name}/others", "coffee", "1", "--subject", name)
    commands.text("erase", "--subject", name, "--yes")
    assert "tea" not in commands.text("items", "list", f"{name}/notes")
    assert "tea" in commands.text("items", "list", f"{name}/others")


def test_looking_at_an_item_does_not_keep_it(calls, commands, name):
    commands.text("items", "put", name, "k", "1", "--ttl", 60)
    before = calls.GetItem(namespace=[name], get=wire.ItemGet(key="k", refresh_ttl=False)).item
    commands.text("items", "get", name, "k")
    commands.text("items", "search", name)
    after = calls.GetItem(namespace=[name], get=wire.ItemGet(key="k", refresh_ttl=False)).item
    assert after.expire_time == before.expire_time


def test_a_value_may_be_a_file_and_bytes(calls, commands, name, tmp_path):
    (tmp_path / "value").write_text('{"a": 1}')
    commands.text("items", "put", name, "json", f"@{tmp_path}/value")
    commands.text("items", "put", name, "bytes", f"@{tmp_path}/value", "--mime-type", "text/plain")
    item = calls.GetItem(namespace=[name], get=wire.ItemGet(key="bytes")).item
    assert item.bytes_value == b'{"a": 1}' and item.mime_type == "text/plain"
    # Bytes come as they are, without a line feed.
    assert commands.text("items", "get", name, "bytes", "--value") == '{"a": 1}'
    assert "[text/plain, 8 bytes]" in commands.text("items", "list", name)
    assert "VALUE" in commands.fails(2, "items", "put", name, "k", f"@{tmp_path}/none")
    assert "json" in commands.fails(2, "items", "put", name, "k", "{")


def test_a_condition_is_kept(commands, name):
    commands.text("items", "put", name, "k", "1", "--version", 0)
    assert "VERSION_MISMATCH" in commands.fails(1, "items", "put", name, "k", "2", "--version", 0)
    assert "VERSION_MISMATCH" in commands.fails(1, "items", "delete", name, "k", "--version", 7,
                                                "--yes")
    assert commands.text("items", "get", name, "k", "--value") == "1\n"


def test_names_with_a_slash_are_written_in_json(calls, commands, name):
    path = [f"{name}/x", "[y"]
    commands.text("items", "put", json.dumps(path), "k", "1")
    assert calls.GetItem(namespace=path, get=wire.ItemGet(key="k")).item.json == "1"
    shown = commands.text("items", "namespaces", json.dumps(path[:1]))
    assert json.dumps(path, separators=(",", ":")) in shown
    assert "NAMESPACE" in commands.fails(2, "items", "get", "[1]", "k")
    assert "namespace[1]" in commands.fails(2, "items", "get", f"{name}/", "k")


def keys(lines: list[dict], kind: str) -> list[str]:
    return [line[kind]["key"] for line in lines]


def test_items_are_listed_and_found(commands, name):
    for key, age in (("ada", 36), ("alan", 41), ("bob", 7)):
        commands.text("items", "put", f"{name}/people", key,
                      json.dumps({"name": key, "age": age}))
    place = f"{name}/people"
    assert keys(commands.json("items", "list", place), "item") == ["ada", "alan", "bob"]
    assert keys(commands.json("items", "list", place, "--prefix", "a"), "item") == ["ada", "alan"]
    assert keys(commands.json("items", "list", place, "--newest-first", "--limit", 1), "item") == \
        ["bob"]
    assert keys(commands.json("items", "list", place, "--filter", '{"age": {"$gt": 30}}'),
                "item") == ["ada", "alan"]
    assert "json" not in commands.json("items", "list", place, "--keys-only")[0]["item"]
    assert commands.text("items", "list", place).split()[:2] == ["KEY", "VERSION"]
    found = commands.json("items", "search", name, "--query", "alan")
    assert found[0]["result"]["item"]["key"] == "alan" and found[0]["result"]["score"] > 0
    assert [one["result"]["item"]["key"] for one in commands.json(
        "items", "search", name, "--filter", '{"age": 7}')] == ["bob"]
    assert place in commands.text("items", "search", name, "--limit", 1)


def test_namespaces_are_listed_and_deleted(commands, name):
    for path in ("a", "a/b", "a/b/c", "d"):
        commands.text("items", "put", f"{name}/{path}", "k", "1")

    def listed(*arguments: object) -> list[str]:
        return ["/".join(line["namespace"]["namespace"]) for line in commands.json(
            "items", "namespaces", *arguments)]

    assert listed(name) == [f"{name}/{path}" for path in ("a", "a/b", "a/b/c", "d")]
    assert listed(name, "--depth", 3) == [f"{name}/{path}" for path in ("a", "a/b", "d")]
    assert listed(f"{name}/*/b") == [f"{name}/a/b", f"{name}/a/b/c"]
    assert commands.text("items", "namespaces", name).split()[:2] == ["NAMESPACE", "ITEMS"]
    assert commands.text("items", "delete", f"{name}/d", "k", "--yes") == "deleted 1 item\n"
    assert commands.text("items", "delete", f"{name}/d", "k", "--yes") == "there was no such item\n"
    assert commands.text("items", "delete", f"{name}/a", "--recursive", "--yes") == \
        "deleted 3 namespaces and 3 items\n"
    assert listed(name) == []


def test_deleting_asks_first(commands, name):
    commands.text("items", "put", name, "k", "1")
    for arguments in ((name, "k"), (name,)):
        assert "--yes" in commands.fails(2, "items", "delete", *arguments)
        code, screen = on_terminal(commands, "n\n", "items", "delete", *arguments)
        assert code != 0 and f"namespace {name}" in screen
    assert commands.text("items", "get", name, "k", "--value") == "1\n"
    assert "--recursive" in commands.fails(2, "items", "delete", name, "k", "--recursive", "--yes")
    assert "--version" in commands.fails(2, "items", "delete", name, "--version", 1, "--yes")
    # A key that is empty by mistake means no whole namespace.
    for more in ((), ("--recursive",)):
        assert "KEY" in commands.fails(2, "items", "delete", name, "", "--yes", *more)
    assert commands.text("items", "get", name, "k", "--value") == "1\n"
    code, _ = on_terminal(commands, "y\n", "items", "delete", name)
    assert code == 0
