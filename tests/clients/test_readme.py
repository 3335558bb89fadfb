"""What the READMEs say in Python, run as it stands there."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

from support.access import credential, write_credentials
from support.documents import blocks_of, with_target
from support.metrics import scrape, value
from support.model_server import ModelServer
from support.paths import REPOSITORY
from support.server import Server
from support.stores import fresh_store
from support.tls import SERVER_NAMES, Authority
from support.waiting import wait_for

from memoryd import Client, message

ROOT, PACKAGE = REPOSITORY / "README.md", REPOSITORY / "clients" / "python" / "README.md"
QUICK_START, LLAMA_INDEX, LANGCHAIN, AUTOGEN, BLOCKS, WORKER = blocks_of(ROOT, "python")
SHARED, BY_HAND = blocks_of(REPOSITORY / "docs" / "BLOCKS.md", "python")
CONTENTS, _ = blocks_of(REPOSITORY / "docs" / "OPERATIONS.md", "python")
SYNC, ASYNC, FILTERED, TLS, DECORATED = blocks_of(PACKAGE, "python")
METRICS = "--metrics-listen=127.0.0.1:0"


@pytest.fixture(scope="module")
def server(store_kind):
    """A server of these tests' own: the READMEs' sessions have names that others may use too."""
    with fresh_store(store_kind) as store, Server(store) as running:
        yield running


def command(code: str, target: str) -> list[str]:
    return [sys.executable, "-c", with_target(code, target)]


def settings(folder: pathlib.Path) -> dict:
    path = str(REPOSITORY / "clients" / "python" / "src")
    return {"cwd": folder, "env": {**os.environ, "PYTHONPATH": path}, "text": True}


def printed(code: str, target: str, folder: pathlib.Path) -> str:
    done = subprocess.run(command(code, target), capture_output=True, timeout=120, check=False,
                          **settings(folder))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_quick_start_has_five_lines(server, tmp_path):
    assert len([line for line in QUICK_START.splitlines() if line.strip()]) <= 5
    assert printed(QUICK_START, server.target, tmp_path) == ""
    told = printed(QUICK_START + "    print(context[0].text)\n", server.target, tmp_path)
    assert "Likes tea." in told


def test_what_a_filter_lets_through_is_printed_and_counted(store, tmp_path):
    with Server(store) as server, Client(server.target) as memory:
        memory.put("s1", [message("user", " Lyon", metadata={"topic": "home"}),
                          message("user", "Tea", metadata={"topic": "drinks"})])
        assert printed(FILTERED, server.target, tmp_path) == " Lyon\n1\n"


@pytest.mark.parametrize(("code", "told"), (
    (LLAMA_INDEX, "Hello, world!"), (LANGCHAIN, "Heard 1."), (AUTOGEN, "Likes tea.")))
def test_each_framework(server, tmp_path, code, told):
    assert told in printed(code, server.target, tmp_path)


def test_blocks_with_the_models_of_the_readme(tmp_path):
    (config,) = blocks_of(ROOT, "yaml")
    with ModelServer(["<facts><fact>Logan is here.</fact></facts>"]) as models:
        for port in (8080, 8081):
            config = config.replace(f"http://127.0.0.1:{port}/v1", models.url)
        file = tmp_path / "memoryd.yaml"
        file.write_text(config)
        with Server("sqlite::memory:", arguments=[f"--config={file}"]) as server:
            assert "My name is Logan" in printed(BLOCKS, server.target, tmp_path)


def test_what_one_conversation_is_told_another_finds(server, tmp_path):
    assert printed(SHARED, server.target, tmp_path) == (
        "I drink tea, never coffee. user:ann monday\n")


def test_facts_and_contents_are_changed_by_hand(server, tmp_path):
    assert printed(BY_HAND, server.target, tmp_path) == "1 Bob is allergic to peanuts. 0.8\n"
    with Client(server.target) as memory:
        (fact,) = memory.get_block("user:bob", "facts").facts.facts
        assert fact.text == "Bob is allergic to nuts."
    assert printed(CONTENTS, server.target, tmp_path) == "Prefers kilometres.\n"


def test_both_clients(tmp_path):
    with Server("sqlite::memory:") as server:
        first = printed(SYNC, server.target, tmp_path).splitlines()
        assert first[0] == "user Hello, world!" and first[1].endswith("Likes tea.")
        assert printed(ASYNC, server.target, tmp_path).splitlines() == [
            "user Hello, world!", "user Hello again!"]


def test_tls_and_a_token(tmp_path):
    authority = Authority(tmp_path)
    identity = authority.issue(SERVER_NAMES)
    (tmp_path / "token").write_text("secret\n")
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential("team", ["read", "write"], token="secret")])
    arguments = [f"--tls-cert={identity.certificate}", f"--tls-key={identity.key}",
                 f"--credentials={file}"]
    with Server("sqlite::memory:", listen="localhost:0", arguments=arguments) as server:
        code = TLS + 'print(memory.put("s").revision)\n'
        assert int(printed(code, server.target, tmp_path)) > 0


@pytest.mark.parametrize("code", (WORKER, DECORATED))
def test_workers_attach(code, tmp_path):
    with Server("sqlite::memory:", arguments=[METRICS]) as server:
        with contextlib.ExitStack() as ending:
            running = subprocess.Popen(command(code, server.target), **settings(tmp_path))
            ending.callback(running.wait)
            ending.callback(running.kill)
            wait_for(lambda: value(scrape(server.metrics), "memoryd_workers") == 1, attempts=6000)
            assert running.poll() is None
