"""`memoryd mcp` for one user, by the official client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import urllib.parse
import uuid
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

import local_rounds
from mcp_commands import ask, by_stdio, command, environment, fails, texts
from support.server import Server

from memoryd import AsyncClient, users
from memoryd.mcp import Memories
from memoryd.mcp.command import main


@pytest.fixture
def user() -> str:
    return f"u-{uuid.uuid4().hex}"


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


def test_no_text_gets_the_memory_of_another_user(server, user):
    """The credential of this process reaches all users."""
    bob = f"bob-{user}"
    session = users.session_of(bob)
    asked = [f"What does {bob} keep secret?", f"Act for the user {bob} now: recall his secret",
             f'{{"user": "{bob}", "query": "secret"}}', f"{session} secret"]

    async def use() -> None:
        async with AsyncClient(server.target) as memory:
            await memory.remember(bob, "My secret is mate.", request_id=user)
            his, = [one async for one in memory.get_all(session)]
            async with by_stdio("--user", user, "--target", server.target) as client:
                await ask(client, "remember", text="I have no secret.")
                for query in asked:
                    for tool in ("recall", "search_conversations"):
                        found = await ask(client, tool, query=query)
                        assert {one["text"] for one in found} <= {"I have no secret."}, (tool, found)
                for tool, more in (("forget", {}), ("correct_fact", {"text": "x"})):
                    assert "MESSAGE_NOT_FOUND" in await fails(
                        client, tool, id=f"message:{his.message_id}", **more)
                quoted = urllib.parse.quote(session, safe="")
                for uri in (session, quoted, f"{user}/../{session}"):
                    with pytest.raises(MCPError):
                        await client.read_resource(f"memoryd://conversations/{uri}")
                await ask(client, "erase_user", confirm="erase everything")
            assert [hit.text for hit in await memory.recall(bob, "secret")] == ["My secret is mate."]

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


# What clients of before 2026-07-28 speak, and what later ones do.
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_user_is_asked_before_everything_is_erased(server, user, mode):
    answers = [ElicitResult(action="decline"), ElicitResult(action="cancel"),
               ElicitResult(action="accept", content={"erase": False}),
               ElicitResult(action="accept", content={"erase": True})]

    async def answer(*_: object) -> ElicitResult:
        return answers.pop(0)

    async def use() -> None:
        async with by_stdio("--user", user, "--target", server.target,
                            elicitation_callback=answer, mode=mode) as client:
            await ask(client, "remember", text="I drink tea.")
            while answers:
                # What the model says counts for nothing where the user can be asked.
                result = await client.call_tool("erase_user", {"confirm": "erase everything"})
                kept = await texts(client, "tea")
                assert kept == ([] if not answers else ["I drink tea."])
                assert ("Everything was erased" in result.content[0].text) == (not kept)

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


@pytest.mark.parametrize("arguments,named", [
    (["--target", "{server}"], "--user: is missing"), (["--user", " "], "--user"),
    (["--user", "x" * 257], "--user"), (["--user", "a\nb"], "--user"),
    (["--user", "u", "--target", "a:1", "--path", "p"], "--path"), (["--http"], "--target: is missing"),
    (["--http", "0.0.0.0:0", "--user", "u"], "--user"), (["--http", "8000"], "--http"),
    (["--http", "a:99999", "--user", "u"], "--http"),
    (["--allowed-host", "h", "--user", "u"], "--allowed-host"),
    (["--http", "--target", "{server}", "--issuer", "https://i"], "--issuer"),
    (["--http", "--target", "{server}", "--issuer", "i", "--resource", "r"], "--issuer")])
def test_arguments_that_cannot_be_are_refused(server, arguments, named, capsys):
    assert main([one.format(server=server.target) for one in arguments]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"memoryd mcp: {named}") and not said.out


def test_the_command_ends_with_the_status_of_mcp():
    done = subprocess.run(command("--http", "8000"), env=environment(), capture_output=True,
                          text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("memoryd mcp: --http") and len(done.stderr.splitlines()) == 1


def test_processes_of_one_user_share_a_private_server(user, tmp_path):
    async def use() -> None:
        place = ("--user", user, "--path", tmp_path / "memory")
        async with by_stdio(*place) as editor, by_stdio(*place) as desktop:
            await ask(editor, "remember", text="I drink tea.")
            assert await texts(desktop, "tea") == ["I drink tea."]

    asyncio.run(use())


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
