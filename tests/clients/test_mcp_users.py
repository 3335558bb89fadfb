"""`memoryd mcp` for many users: credentials of one subject, by HTTP and by standard input and output."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from mcp_commands import (
    INITIALIZE,
    LIST,
    Http,
    answer,
    ask,
    by_http,
    command,
    environment,
    fails,
    texts,
)
from support.access import credential, write_credentials
from support.server import Server
from support.stores import fresh_store

from memoryd import AsyncClient, MemorydError
from memoryd.mcp import Memories

_TOKENS = {"ann": "anns-token", "bob": "bobs-token"}


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


@pytest.mark.parametrize("token", [None, "wrong", "all", "x" * 20_000])
def test_a_request_without_a_users_token_is_refused(http, token):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    status, said = answer(http.url, INITIALIZE, **headers)
    assert status == 401 and said["www-authenticate"].startswith("Bearer ")


def test_an_mcp_session_is_its_users(http):
    ann, bob = ({"Authorization": f"Bearer {token}"} for token in _TOKENS.values())
    status, said = answer(http.url, INITIALIZE, **ann)
    assert status == 200
    session = {"Mcp_Session_Id": said["mcp-session-id"]}
    assert answer(http.url, LIST, **ann, **session)[0] == 200
    assert answer(http.url, LIST, **bob, **session)[0] == 404


@pytest.mark.parametrize("headers,status", [
    ({"Host": "evil.example"}, 421), ({"Host": "127.0.0.1.evil.example:80"}, 421),
    ({"Origin": "http://evil.example"}, 403), ({"Origin": "http://localhost:3000"}, 200),
    ({"Content_Type": "text/plain"}, 400)])
def test_pages_of_other_sites_do_not_reach_it(http, headers, status):
    ann = {"Authorization": f"Bearer {_TOKENS['ann']}"}
    assert answer(http.url, INITIALIZE, **ann, **headers)[0] == status


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
