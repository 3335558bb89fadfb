"""`memoryd mcp` as a process, and the official client on it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from support import paths
from support.paths import server_environment

_SAYS = "memoryd mcp serves "


def environment(**more: str) -> dict[str, str]:
    return server_environment(PYTHONPATH=str(paths.REPOSITORY / "clients/python/src"),
                              MEMORYD_BINARY=str(paths.BINARY), **more)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "memoryd", "mcp", *map(str, arguments)]


@contextlib.asynccontextmanager
async def by_stdio(*arguments: object, **options: Any) -> AsyncIterator[Client]:
    first, *rest = command(*arguments)
    parameters = StdioServerParameters(command=first, args=rest, env=environment())
    async with Client(parameters, **options) as client:
        yield client


class Http:
    """`memoryd mcp --http`, at `url`."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            command("--http", "127.0.0.1:0", *arguments), env=environment(),
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        assert said.startswith(_SAYS), said + self.process.stderr.read()
        self.url = said.removeprefix(_SAYS).strip()

    def stop(self) -> str:
        """Returns what it has logged."""
        self.process.terminate()
        return self.process.communicate(timeout=60)[1]


@contextlib.asynccontextmanager
async def by_http(url: str, token: str | None, **options: Any) -> AsyncIterator[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (httpx2.AsyncClient(headers=headers) as sent,
                Client(streamable_http_client(url, http_client=sent), **options) as client):
        yield client


async def ask(client: Client, tool: str, **arguments: object) -> Any:
    """What the tool returns."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found = result.structured_content
    return found["result"] if set(found) == {"result"} else found


async def fails(client: Client, tool: str, **arguments: object) -> str:
    """What the model reads of a call that fails."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    return result.content[0].text


async def texts(client: Client, query: str) -> list[str]:
    return [one["text"] for one in await ask(client, "recall", query=query)]


INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def answer(url: str, body: object, **headers: str) -> tuple[int, dict[str, str]]:
    """The status and the headers of the answer to a POST of the body, as JSON unless it is
    bytes."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               **{name.replace("_", "-"): value for name, value in headers.items()}}
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, sent, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, dict(reply.headers)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers)
