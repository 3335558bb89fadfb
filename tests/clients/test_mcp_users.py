"""`memoryd mcp` for many users: credentials of one subject, by HTTP and by standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import http.client as http_client
import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import cast

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

from memoryd import AsyncClient, MemorydError
from memoryd.mcp import Memories, Verifier
from memoryd.v1.server_service_pb2 import GetServerInfoResponse

_TOKENS = {"ann": "anns-token", "bob": "bobs-token"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a credential for each of two users, and one of nobody. The matrix of access
    goes over both stores."""
    folder = tmp_path_factory.mktemp("mcp")
    file = write_credentials(folder / "credentials.yaml", [
        *(credential("t", token=token, subject=name) for name, token in _TOKENS.items()),
        credential("t", token="all")])
    with Server("sqlite::memory:", arguments=[f"--credentials={file}"]) as server:
        yield server


@pytest.fixture(scope="module")
def http(guarded: Server) -> Iterator[Http]:
    served = Http("--target", guarded.target)
    yield served
    served.stop()


async def forget_all(*clients: Client) -> None:
    for client in clients:
        await ask(client, "erase_user", confirm="erase everything")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_each_token_has_its_own_users_memory(http, mode):
    async def use() -> None:
        async with (by_http(http.url, _TOKENS["ann"], mode=mode) as ann,
                    by_http(http.url, _TOKENS["bob"], mode=mode) as bob):
            await forget_all(ann, bob)
            mine, his = await asyncio.gather(ask(ann, "remember", text="Ann's secret: tea."),
                                             ask(bob, "remember", text="Bob's secret: mate."))
            for _ in range(5):
                found = await asyncio.gather(texts(ann, "secret"), texts(bob, "secret"))
                assert found == [["Ann's secret: tea."], ["Bob's secret: mate."]]
            assert "NOT_FOUND" in await fails(ann, "forget", id=his["id"])
            assert "NOT_FOUND" in await fails(bob, "correct_fact", id=mine["id"], text="x")
            with pytest.raises(MCPError, match="no such"):
                await bob.read_resource("memoryd://conversations/memoryd.user%2Fann")
            await forget_all(ann)
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


@pytest.mark.parametrize("token", [None, "", "wrong", "all", "x" * 20_000, "anns token",
                                   "anns-token\u00e9", "anns-token,bobs-token"])
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


def test_one_user_on_loopback_needs_no_token(tmp_path):
    async def use() -> None:
        async with by_http(served.url, None) as client:
            await ask(client, "remember", text="I drink tea.")
            assert await texts(client, "tea") == ["I drink tea."]

    served = Http("--user", "ann", "--path", tmp_path / "memory")
    try:
        asyncio.run(use())
    finally:
        served.stop()


# Half of JSON, JSON of another kind, and no JSON.
@pytest.mark.parametrize("body", [b'{"jsonrpc":"2.0","id":1,"meth', b"[]", b"7", b"\xff\xfe"])
def test_bodies_that_are_no_requests_are_refused(http, body):
    ann = {"Authorization": f"Bearer {_TOKENS['ann']}"}
    assert answer(http.url, body, **ann)[0] == 400
    assert answer(http.url, INITIALIZE, **ann)[0] == 200


def test_a_body_too_large_is_refused_before_it_is_sent(http):
    at = urllib.parse.urlsplit(http.url)
    with contextlib.closing(http_client.HTTPConnection(at.netloc, timeout=30)) as connection:
        connection.putrequest("POST", at.path)
        for name, value in (("Authorization", f"Bearer {_TOKENS['ann']}"),
                            ("Content-Type", "application/json"), ("Content-Length", "5000000")):
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 413


def test_clients_learn_where_to_get_a_token_for_a_public_name(guarded):
    served = Http("--target", guarded.target, "--allowed-host", "mcp.example.org",
                  "--issuer", "https://id.example.org", "--resource", "https://mcp.example.org/mcp")
    ann = {"Authorization": f"Bearer {_TOKENS['ann']}"}
    about = "/.well-known/oauth-protected-resource/mcp"
    try:
        status, said = answer(served.url, INITIALIZE, Host="mcp.example.org")
        assert status == 401
        assert f'resource_metadata="https://mcp.example.org{about}"' in said["www-authenticate"]
        with urllib.request.urlopen(served.url.removesuffix("/mcp") + about, timeout=30) as reply:
            told = json.load(reply)
        assert told["resource"] == "https://mcp.example.org/mcp"
        assert [one.rstrip("/") for one in told["authorization_servers"]] == [
            "https://id.example.org"]
        for host, status in (("mcp.example.org", 200), ("mcp.example.org:443", 200),
                             ("mcp.example.org.evil.example", 421), ("evil.example", 421)):
            assert answer(served.url, INITIALIZE, Host=host, **ann)[0] == status, host
    finally:
        served.stop()


def test_it_says_503_while_memoryd_is_away(tmp_path):
    ann = {"Authorization": f"Bearer {_TOKENS['ann']}"}
    address = f"unix:{tmp_path}/socket"
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential("t", token=_TOKENS["ann"], subject="ann")])
    served = Http("--target", address)
    try:
        status, said = answer(served.url, INITIALIZE, **ann)
        assert status == 503 and said["retry-after"] == "1"
        with Server("sqlite::memory:", listen=address, arguments=[f"--credentials={file}"]):
            assert answer(served.url, INITIALIZE, **ann)[0] == 200
    finally:
        served.stop()


def test_it_ends_though_a_client_listens_and_logs_nothing_of_users(guarded):
    ann = {"Authorization": f"Bearer {_TOKENS['ann']}"}

    async def use() -> None:
        async with by_http(served.url, _TOKENS["ann"]) as client:
            await ask(client, "remember", text="A secret of ann.")
            await fails(client, "forget", id="A secret of ann.")
            await fails(client, "remember", text=["A secret of ann."])

    served = Http("--target", guarded.target)
    asyncio.run(use())
    _, said = answer(served.url, INITIALIZE, **ann)
    listens = urllib.request.Request(served.url, headers={
        **ann, "Accept": "text/event-stream", "Mcp-Session-Id": said["mcp-session-id"]})
    with urllib.request.urlopen(listens, timeout=60) as stream:
        assert stream.status == 200
        logged = served.stop()
    assert "secret" not in logged and _TOKENS["ann"] not in logged


def test_a_server_that_does_not_tell_who_calls_is_named():
    class Older:
        async def server_info(self) -> GetServerInfoResponse:
            return GetServerInfoResponse(version="0.1")

    with pytest.raises(MemorydError, match=r"version 0\.1"):
        asyncio.run(Verifier(cast("AsyncClient", Older())).verify_token("token"))
