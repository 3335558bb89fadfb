"""memoryd.local(http_port=…): the server of a folder speaks HTTP too."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from support.paths import BINARY

import memoryd
from memoryd import MemorydError

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import local_rounds


@pytest.fixture
def folder(monkeypatch) -> Iterator[pathlib.Path]:
    """A store's folder, not made yet, whose path leaves room for that of a socket in it."""
    for name in [name for name in os.environ if name.startswith("MEMORYD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMORYD_BINARY", str(BINARY))
    base = pathlib.Path(os.path.realpath("/tmp")) / f"memoryd-test-{os.urandom(4).hex()}"
    base.mkdir(mode=0o700)
    yield base / "store"
    local_rounds.wait_until_nobody_runs(base / "store")
    shutil.rmtree(base)


def texts_over_http(address: str) -> list[str]:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", "/memoryd.v1.MemoryService/Get", b'{"sessionId": "s"}',
                       {"Content-Type": "application/json"})
    reply: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return [message["text"] for message in reply["messages"]]


def put(memory: memoryd.LocalClient, text: str) -> None:
    memory.put("s", [memoryd.message("user", text)], timeout=60)


def refused(**options: Any) -> str:
    with pytest.raises(MemorydError) as failure:
        memoryd.local(**options)
    assert failure.value.code == grpc.StatusCode.FAILED_PRECONDITION
    return failure.value.message


def test_a_folder_is_read_over_http(folder):
    with memoryd.local(folder, http_port=0) as memory:
        put(memory, "Tea")
        assert memory.http.startswith("127.0.0.1:") and texts_over_http(memory.http) == ["Tea"]
        # Another user finds it, whether it asks for it or not.
        port = int(memory.http.rpartition(":")[2])
        for asked in (None, 0, port):
            with memoryd.local(folder, http_port=asked) as other:
                assert (other.http, other.target) == (memory.http, memory.target)
        said = refused(path=folder, http_port=port - 1)
        assert memory.http in said and str(port - 1) in said
        assert texts_over_http(memory.http) == ["Tea"]


def test_nothing_speaks_http_unasked(folder):
    with memoryd.local(folder) as memory:
        assert memory.http is None
        assert "pass http_port" in refused(path=folder, http_port=0)
        put(memory, "Tea")


def test_each_of_two_servers_has_its_own_port(folder):
    with (memoryd.local(folder, http_port=0) as kept,
          memoryd.local(ephemeral=True, http_port=0) as ephemeral):
        assert kept.http != ephemeral.http
        put(ephemeral, "Milk")
        put(kept, "Tea")
        assert (texts_over_http(kept.http), texts_over_http(ephemeral.http)) == (["Tea"], ["Milk"])


def test_a_port_that_somebody_has_is_an_error_that_names_it(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(path=folder, http_port=port)
    assert "http_listen" in said and str(port) in said


@pytest.mark.parametrize("port", (-1, 65536))
def test_what_is_no_port_is_an_error(folder, port):
    with pytest.raises(ValueError, match="http_port must be a port"):
        memoryd.local(folder, http_port=port)
    assert not folder.exists()


@pytest.mark.parametrize("whom", ("server", "supervisor"))
def test_the_port_stays_when_the_server_begins_again(folder, whom):
    with memoryd.local(folder, http_port=0) as memory:
        put(memory, "Tea")
        address = memory.http
        os.kill(local_rounds.running(folder)[whom], signal.SIGKILL)
        if whom == "supervisor":
            local_rounds.wait_until_nobody_runs(folder)
        put(memory, "Milk")
        assert memory.http == address
        assert texts_over_http(address) == ["Tea", "Milk"]


def test_the_asynchronous_twin_has_it_too(folder):
    async def use() -> None:
        async with await memoryd.local_async(folder, http_port=0) as memory:
            await memory.put("s", [memoryd.message("user", "Tea")], timeout=60)
            assert await asyncio.to_thread(texts_over_http, memory.http) == ["Tea"]

    asyncio.run(use())
