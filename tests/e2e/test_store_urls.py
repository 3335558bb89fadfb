"""How the URL of a store may be spelt, and what happens to a file that another spelling meant."""

from __future__ import annotations

import pathlib

import pytest

from support.calls import Calls, user
from support.server import Server, failed_start
from support.stores import fresh_store


def in_folder(folder: pathlib.Path) -> dict:
    """Options of a server whose working folder this is."""
    return {"before": ("env", "-C", str(folder))}


def put(server: Server, text: str) -> None:
    with server.channel() as channel:
        Calls(channel).Put(session_id="s", messages=[user(text)])


def stored(server: Server) -> list[str]:
    with server.channel() as channel:
        return [message.text for message in Calls(channel).GetAll(session_id="s").messages]


@pytest.mark.parametrize("spelling", ("sqlite:///{relative}", "sqlite:{relative}",
                                      "sqlite:///./{relative}", "sqlite+aiosqlite:///{relative}",
                                      "sqlite+pysqlite:///{relative}", "sqlite:////{absolute}",
                                      "sqlite:/{absolute}", "sqlite+aiosqlite:////{absolute}"))
def test_a_file_is_where_sqlalchemy_would_look_for_it(tmp_path, spelling):
    file = tmp_path / "folder" / "memory.db"
    store = spelling.format(relative="folder/memory.db", absolute=str(file).lstrip("/"))
    with Server(store, **in_folder(tmp_path)) as server:
        put(server, "hello")
    assert file.is_file()
    with Server(f"sqlite:{file}") as server:
        assert stored(server) == ["hello"]


@pytest.mark.parametrize("command", ((), ("migrate",)))
def test_a_file_that_earlier_versions_meant_is_not_left_behind(tmp_path, command):
    former, folder = tmp_path / "memory.db", tmp_path / "folder"
    folder.mkdir()
    with Server(f"sqlite:{former}") as server:
        put(server, "hello")
    relative = str(former).lstrip("/")
    store = f"sqlite:///{relative}"
    code, output = failed_start(store, arguments=command, **in_folder(folder))
    assert code == 1
    assert f"sqlite:///{former}" in output and f"sqlite:{relative}" in output
    assert str(folder) in output and not list(folder.iterdir())
    with Server(f"sqlite:///{former}", **in_folder(folder)) as server:
        assert stored(server) == ["hello"]
    with Server(f"sqlite:{relative}", **in_folder(folder)) as server:
        put(server, "anew")
    # Now the file that it means is there, whatever else is.
    with Server(store, **in_folder(folder)) as server:
        assert stored(server) == ["anew"]


def test_a_folder_of_that_name_was_never_a_store(tmp_path):
    named, folder = tmp_path / "memory", tmp_path / "folder"
    named.mkdir()
    folder.mkdir()
    relative = str(named).lstrip("/")
    with Server(f"sqlite:///{relative}", **in_folder(folder)) as server:
        put(server, "hello")
    assert (folder / relative).is_file() and not list(named.iterdir())


def test_a_database_in_memory_leaves_no_file(tmp_path):
    for store in ("sqlite:///:memory:", "sqlite+aiosqlite:///:memory:", "sqlite::memory:"):
        with Server(store, **in_folder(tmp_path)) as server:
            put(server, "hello")
            assert stored(server) == ["hello"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("store, words", (
    ("sqlite://", "sqlite:///memory.db"),
    ("sqlite:///", "sqlite:///memory.db"),
    ("sqlite+aiosqlite://", "sqlite::memory:"),
    ("sqlite://memory.db", "sqlite:///memory.db"),
    ("sqlite:///memory.db?mode=ro", "parameters"),
    ("memory.db", "sqlite:memory.db"),
    ("/var/lib/memory.db", "sqlite:/var/lib/memory.db"),
    ("127.0.0.1:5432/memory", "has no scheme"),
    ("localhost:5432/memory", "a scheme of no store"),
    ("mysql://h/d", "postgresql://USER@HOST/DATABASE"),
    ("postgresql:h/d", "two slashes"),
    ("postgresql+jdbc://h/d", "no driver"),
))
def test_a_url_of_no_store_says_what_to_write(tmp_path, store, words):
    code, output = failed_start(store, **in_folder(tmp_path))
    assert code == 2 and words in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scheme", ("postgres", "postgresql+psycopg", "postgresql+psycopg2",
                                    "postgresql+asyncpg"))
def test_postgresql_is_known_by_its_other_names(scheme):
    with fresh_store("postgresql") as url, \
            Server(url.replace("postgresql://", f"{scheme}://")) as server:
        put(server, "hello")
        with Server(url) as other:  # Shared, as PostgreSQL is by its own name.
            assert stored(other) == ["hello"]
