"""`memoryd mcp` by the official client, by standard input and output and by HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

import local_rounds
from support import paths
from support.access import credential, write_credentials
from support.paths import server_environment
from support.server import Server
from support.stores import fresh_store

from memoryd import AsyncClient, MemorydError, users
from memoryd.mcp import Memories

_SAYS = "memoryd mcp serves "
_TOKENS = {"ann": "anns-token", "bob": "bobs-token"}


def environment(**more: str) -> dict[str, str]:
    return server_environment(PYTHONPATH=str(paths.REPOSITORY / "clients/python/src"),
                              MEMORYD_BINARY=str(paths.BINARY), **more)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "memoryd", "mcp", *map(str, arguments)]


def refused(*arguments: object, **more: str) -> str:
    """The one line that says why the command does not begin."""
    done = subprocess.run(command(*arguments), env=environment(**more), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and not done.stdout, done
    line, = done.stderr.splitlines()
    return line.removeprefix("memoryd mcp: ")


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

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)


@contextlib.asynccontextmanager
async def by_http(url: str, token: str | None) -> AsyncIterator[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (httpx2.AsyncClient(headers=headers) as sent,
                Client(streamable_http_client(url, http_client=sent)) as client):
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


@pytest.fixture
def user() -> str:
    return f"u-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def guarded(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a credential for each of two users, and one of nobody."""
    folder = tmp_path_factory.mktemp("mcp")
    file = write_credentials(folder / "credentials.yaml", [
        *(credential("t", token=token, subject=name) for name, token in _TOKENS.items()),
        credential("t", token="all")])
    with fresh_store(store_kind) as store, Server(
            store, arguments=[f"--credentials={file}"]) as server:
        yield server


@pytest.fixture
def http(guarded: Server) -> Iterator[Http]:
    served = Http("--target", guarded.target)
    yield served
    served.stop()


def test_what_is_remembered_is_recalled_corrected_and_forgotten(server, user):
    async def use() -> None:
        async with by_stdio("--user", user, "--target", server.target) as client:
            assert await ask(client, "list_facts") == []
            assert (await ask(client, "get_context")) == {"knowledge": "", "newest": []}
            tea = await ask(client, "remember", text="I drink tea, never coffee.")
            await ask(client, "remember", text="My cat is called Momo.")
            assert (await texts(client, "tea"))[0] == "I drink tea, never coffee."
            assert (await ask(client, "search_conversations", query="cat"))[0]["speaker"] == "user"
            newest = (await ask(client, "get_context"))["newest"]
            assert [one["text"][:5] for one in newest] == ["My ca", "I dri"]
            assert [one["id"] for one in await ask(client, "list_facts")][1] == tea["id"]

            await ask(client, "correct_fact", id=tea["id"], text="I drink mate.")
            assert (await texts(client, "mate"))[0] == "I drink mate."
            await ask(client, "forget", id=tea["id"])
            assert "I drink mate." not in await texts(client, "mate")
            assert "MESSAGE_NOT_FOUND" in await fails(client, "forget", id=tea["id"])

    asyncio.run(use())


def test_times_bound_a_search(server, user):
    async def use() -> None:
        async with by_stdio("--user", user, "--target", server.target) as client:
            await ask(client, "remember", text="I moved to Oslo.")
            search = "search_conversations"
            assert await ask(client, search, query="Oslo", since="2020-01-01T00:00:00Z")
            assert not await ask(client, search, query="Oslo", until="2020-01-01T00:00:00")
            assert "until" in await fails(client, search, query="Oslo", since="2020-01-02",
                                          until="2020-01-01")

    asyncio.run(use())


def test_resources_and_prompts(server, user):
    async def use() -> None:
        async with AsyncClient(server.target) as memory:
            await memory.context(user, f"{user}-monday", "I like chess.", wait=5)
            await memory.put("another", [])
        async with by_stdio("--user", user, "--target", server.target) as client:
            async def read(uri: str) -> Any:
                return json.loads((await client.read_resource(uri)).contents[0].text)

            assert [one["id"] for one in await read("memoryd://conversations")] == [f"{user}-monday"]
            said, = await read(f"memoryd://conversations/{user}-monday")
            assert said["text"] == "I like chess."
            assert [one["text"] for one in await read("memoryd://facts")] == ["I like chess."]
            for other in ("another", "nothing"):
                with pytest.raises(MCPError, match="no such"):
                    await read(f"memoryd://conversations/{other}")
            prompt = await client.get_prompt("recall_topic", {"topic": "chess"})
            assert "chess" in prompt.messages[0].content.text
            assert (await client.get_prompt("remember_conversation")).messages

    asyncio.run(use())


def test_no_tool_lets_the_model_name_a_user(server, user):
    async def use() -> None:
        async with by_stdio("--user", user, "--target", server.target) as client:
            for tool in (await client.list_tools()).tools:
                assert not {"user", "subject", "session", "tenant"} & set(
                    tool.input_schema.get("properties", {})), tool.name
            # A further argument changes nothing.
            await client.call_tool("remember", {"text": "For bob.", "user": "bob"})
            assert await texts(client, "bob") == ["For bob."]
        async with AsyncClient(server.target) as memory:
            assert not list(await memory.recall("bob", "bob"))

    asyncio.run(use())


WRONG = [
    ("recall", {}, "query"), ("recall", {"query": ""}, "query"),
    ("recall", {"query": "x", "limit": 0}, "limit"),
    ("recall", {"query": "x", "limit": "many"}, "limit"), ("remember", {"text": " \n"}, "text"),
    ("remember", {"text": "x" * 100_001}, "text"), ("remember", {"text": 7}, "text"),
    ("forget", {"id": "tea"}, "id"), ("forget", {"id": "fact:x:facts"}, "id"),
    ("correct_fact", {"id": "message:none", "text": "x"}, "no such message"),
    ("correct_fact", {"id": "fact:1:none", "text": "x"}, "NOT_FOUND"),
    ("search_conversations", {"query": "x", "since": "monday"}, "since"),
    ("guess", {}, "Unknown tool")]


def test_wrong_arguments_are_named(server, user):
    async def use() -> None:
        async with by_stdio("--user", user, "--target", server.target) as client:
            await ask(client, "remember", text="I am here.")
            for tool, arguments, named in WRONG:
                assert named in await fails(client, tool, **arguments), (tool, arguments)

    asyncio.run(use())


@pytest.mark.parametrize("action,content,erases", [
    ("accept", {"erase": True}, True), ("accept", {"erase": False}, False), ("decline", None, False),
    ("cancel", None, False)])
def test_the_user_is_asked_before_everything_is_erased(server, user, action, content, erases):
    async def answer(*_: object) -> ElicitResult:
        return ElicitResult(action=action, content=content)

    async def use() -> None:
        async with by_stdio("--user", user, "--target", server.target,
                            elicitation_callback=answer) as client:
            await ask(client, "remember", text="I drink tea.")
            # What the model says counts for nothing where the user can be asked.
            result = await client.call_tool("erase_user", {"confirm": "erase everything"})
            assert not await texts(client, "tea") if erases else await texts(client, "tea")
            assert erases == ("Everything was erased" in result.content[0].text)

    asyncio.run(use())


def test_without_elicitation_the_model_confirms(server, user):
    async def use() -> None:
        async with by_stdio("--user", user, "--target", server.target) as client:
            await ask(client, "remember", text="I drink tea.")
            assert "ask the user" in await fails(client, "erase_user")
            assert await texts(client, "tea")
            await ask(client, "erase_user", confirm="erase everything")
            assert not await texts(client, "tea")

    asyncio.run(use())


def killed(words: str) -> None:
    """Kills the process with these words in its command line."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if words in (process / "cmdline").read_bytes().decode().replace("\0", " "):
                os.kill(int(process.name), signal.SIGKILL)


def test_memory_outlives_the_server_and_the_process(user, tmp_path):
    async def use() -> None:
        folder = tmp_path / "memory"
        async with by_stdio("--user", user, "--path", folder) as client:
            await ask(client, "remember", text="I drink tea.")
            os.kill(local_rounds.running(folder)["server"], signal.SIGKILL)
            assert await texts(client, "tea") == ["I drink tea."]
            killed(f"mcp --user {user}")
        async with by_stdio("--user", user, "--path", folder) as client:
            assert await texts(client, "tea") == ["I drink tea."]

    asyncio.run(use())


def test_each_token_has_its_own_users_memory(http, guarded):
    async def use() -> None:
        async with (by_http(http.url, _TOKENS["ann"]) as ann,
                    by_http(http.url, _TOKENS["bob"]) as bob):
            mine, his = await asyncio.gather(ask(ann, "remember", text="Ann's secret: tea."),
                                             ask(bob, "remember", text="Bob's secret: mate."))
            for _ in range(5):
                found = await asyncio.gather(texts(ann, "secret"), texts(bob, "secret"))
                assert found == [["Ann's secret: tea."], ["Bob's secret: mate."]]
            assert "NOT_FOUND" in await fails(ann, "forget", id=his["id"])
            assert "NOT_FOUND" in await fails(bob, "correct_fact", id=mine["id"], text="x")
            with pytest.raises(MCPError, match="no such"):
                await bob.read_resource("memoryd://conversations/memoryd.user%2Fann")
            await ask(ann, "erase_user", confirm="erase everything")
            assert await texts(ann, "secret") == []
            assert await texts(bob, "secret") == ["Bob's secret: mate."]

    asyncio.run(use())


def test_memoryd_refuses_what_this_process_would_do_for_another(guarded):
    async def use() -> None:
        async with AsyncClient(guarded.target, token=_TOKENS["ann"]) as client:
            bobs = Memories(client, "bob")
            with pytest.raises(MemorydError, match="SUBJECT_NOT_GRANTED"):
                await bobs.remember("I am bob.")
            assert await bobs.recall("bob", 10) == []
            with pytest.raises(MemorydError, match="SUBJECT_NOT_GRANTED"):
                await bobs.erase()

    asyncio.run(use())


def test_a_credential_of_one_subject_says_whose_memory_it_is(guarded, tmp_path):
    async def use() -> None:
        token = tmp_path / "token"
        token.write_text(_TOKENS["ann"])
        token.chmod(0o600)
        first, *rest = command("--target", guarded.target)
        parameters = StdioServerParameters(
            command=first, args=rest, env=environment(MEMORYD_TOKEN_FILE=str(token)))
        async with Client(parameters) as client:
            await ask(client, "remember", text="I am ann.")
        async with AsyncClient(guarded.target, token="all") as memory:
            assert [hit.text for hit in await memory.recall("ann", "ann")] == ["I am ann."]

    asyncio.run(use())


def answer(url: str, body: object, **headers: str) -> tuple[int, dict[str, str]]:
    """The status and the headers of the answer to a POST."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, dict(reply.headers)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers)


_INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
_LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@pytest.mark.parametrize("token", [None, "wrong", "all", "x" * 20_000])
def test_a_request_without_a_users_token_is_refused(http, token):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    status, said = answer(http.url, _INITIALIZE, **headers)
    assert status == 401 and said["www-authenticate"].startswith("Bearer ")


def test_an_mcp_session_is_its_users(http):
    ann, bob = ({"Authorization": f"Bearer {token}"} for token in _TOKENS.values())
    status, said = answer(http.url, _INITIALIZE, **ann)
    assert status == 200
    session = {"Mcp_Session_Id": said["mcp-session-id"]}
    assert answer(http.url, _LIST, **ann, **session)[0] == 200
    assert answer(http.url, _LIST, **bob, **session)[0] == 404


@pytest.mark.parametrize("headers,status", [
    ({"Host": "evil.example"}, 421), ({"Host": "127.0.0.1.evil.example:80"}, 421),
    ({"Origin": "http://evil.example"}, 403), ({"Origin": "http://localhost:3000"}, 200),
    ({"Content_Type": "text/plain"}, 400)])
def test_pages_of_other_sites_do_not_reach_it(http, headers, status):
    ann = {"Authorization": f"Bearer {_TOKENS['ann']}"}
    assert answer(http.url, _INITIALIZE, **ann, **headers)[0] == status


def test_one_user_on_loopback_needs_no_token(server, user):
    async def use() -> None:
        async with by_http(served.url, None) as client:
            await ask(client, "remember", text="I drink tea.")
            assert await texts(client, "tea") == ["I drink tea."]

    served = Http("--user", user, "--target", server.target)
    try:
        asyncio.run(use())
    finally:
        served.stop()


@pytest.mark.parametrize("arguments,named", [
    (["--target", "{server}"], "--user: is missing"), (["--user", " "], "--user"),
    (["--user", "x" * 257], "--user"), (["--user", "a\nb"], "--user"),
    (["--user", "u", "--target", "a:1", "--path", "p"], "--path"), (["--http"], "--target: is missing"),
    (["--http", "0.0.0.0:0", "--user", "u"], "--user"), (["--http", "8000"], "--http"),
    (["--http", "a:99999", "--user", "u"], "--http"),
    (["--allowed-host", "h", "--user", "u"], "--allowed-host"),
    (["--http", "--target", "{server}", "--issuer", "https://i"], "--issuer"),
    (["--http", "--target", "{server}", "--issuer", "i", "--resource", "r"], "--issuer")])
def test_arguments_that_cannot_be_are_refused(server, arguments, named):
    assert refused(*(one.format(server=server.target) for one in arguments)).startswith(named)


def test_the_server_may_come_later(user, tmp_path):
    async def use() -> None:
        async with by_stdio("--user", user, "--target", f"unix:{tmp_path}/socket") as client:
            assert len((await client.list_tools()).tools) == 8
            listens = f"unix:{tmp_path}/socket"
            with Server("sqlite::memory:", listen=listens):
                await ask(client, "remember", text="I drink tea.")

    asyncio.run(use())


def test_users_session_is_the_one_of_remember(server, user):
    async def use() -> None:
        async with AsyncClient(server.target) as memory:
            await memory.remember(user, "I drink tea.")
            facts = await Memories(memory, user).facts(10)
            assert [one.text for one in facts] == ["I drink tea."]
            assert (await memory.get_session(users.session_of(user))).config.subject == user

    asyncio.run(use())
