"""The history of Microsoft's Agent Framework in memoryd, beside its own in files."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import random
import uuid
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FileHistoryProvider,
    Message,
    SessionContext,
)

import programs
from support import paths
from support.server import Server

from memoryd import Client, MemorydError
from memoryd.agent_framework import (
    Connection,
    MemorydContextProvider,
    MemorydHistoryProvider,
)

SEED = 29
SESSIONS = 6
ROLES = ("user", "assistant", "system", "tool", "developer")
EXAMPLE = paths.REPOSITORY / "examples/agent_framework_agent.py"
SAID = ["My name is Ann. -> You said 1 things: My name is Ann.",
        "Tea, please. -> You said 2 things: My name is Ann.",
        "What was my name? -> You said 3 things: My name is Ann."]
PNG = b"\x89PNG\r\n\x1a\n\xfb\xff"


@pytest.fixture
def provider(server) -> MemorydHistoryProvider:
    return MemorydHistoryProvider(server.target)


class Teller:
    """Messages with contents of every kind; a seed makes them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def message(self) -> Message:
        pick = self._random.choice
        self._count += 1
        contents = [getattr(self, f"_{pick(KINDS)}")() for _ in range(self._random.randrange(4))]
        return Message(
            pick(ROLES), contents, author_name=pick((None, "ann", "", "日本 x")),
            message_id=pick((None, f"m{self._count}")),
            additional_properties=pick(({}, {"_excluded": True}, {"k": [1, None, {"a": 1.5}]})))

    def _text(self) -> Content:
        return Content.from_text(self._random.choice(
            ("tea", "", "日本 🙂\u2028", "nul\0", "x" * 3000)),
            additional_properties=self._random.choice((None, {"a": 1})))

    def _thought(self) -> Content:
        return Content.from_text_reasoning(
            text="hm", protected_data=self._random.choice((None, "signed")))

    def _data(self) -> Content:
        return Content.from_data(PNG, self._random.choice(("image/png", "audio/wav", "application/pdf")))

    def _uri(self) -> Content:
        return Content.from_uri("https://a.example/a.png", media_type="image/png")

    def _call(self) -> Content:
        return Content.from_function_call(
            f"c{self._random.randrange(9)}", "brew",
            arguments=self._random.choice((None, {}, {"n": [1.5]}, '{"drink": "tea"}', "{cut")))

    def _result(self) -> Content:
        return Content.from_function_result(
            f"c{self._random.randrange(9)}", result=self._random.choice(("pot", "", {"pots": 1}, [1])),
            exception=self._random.choice((None, "no water")))

    def _file(self) -> Content:
        return Content.from_hosted_file("file-1")

    def _usage(self) -> Content:
        return Content("usage", usage_details={"input_token_count": 3})

    def _error(self) -> Content:
        return Content.from_error(message="no", error_code="500")


KINDS = ("text", "text", "thought", "data", "uri", "call", "result", "file", "usage", "error")


def shown(messages: list[Message]) -> list[Any]:
    return [json.loads(json.dumps(message.to_dict())) for message in messages]


@pytest.mark.parametrize("skip_excluded", [False, True])
def test_the_provider_is_as_the_librarys_own(server, tmp_path: Path, skip_excluded, operations):
    ours = MemorydHistoryProvider(server.target, skip_excluded=skip_excluded)
    theirs = FileHistoryProvider(tmp_path, skip_excluded=skip_excluded)
    teller, picked = Teller(SEED), random.Random(SEED)
    names = [f"{at}-{uuid.uuid4().hex}" for at in range(SESSIONS)]

    async def use() -> int:
        saved = 0
        for at in range(operations // 2):
            name = picked.choice(names)
            if picked.random() < 0.7:
                messages = [teller.message() for _ in range(picked.randrange(4))]
                saved += len(messages)
                for provider in (theirs, ours):
                    await provider.save_messages(name, messages)
            if at % 4 == 0:
                assert shown(await ours.get_messages(name)) == shown(await theirs.get_messages(name))
        for name in names:
            assert shown(await ours.get_messages(name)) == shown(await theirs.get_messages(name))
        return saved

    assert asyncio.run(use()) > operations // 2


def test_a_run_is_loaded_and_stored(provider, session_id):
    async def use() -> list[Any]:
        session = AgentSession(session_id=session_id)
        await provider.save_messages(session_id, [Message("user", ["Hi"])])
        context = SessionContext(session_id=session_id, input_messages=[Message("user", ["Tea, please."])])
        await provider.before_run(agent=None, session=session, context=context, state={})
        await provider.after_run(agent=None, session=session, context=context, state={})
        assert [one.text for one in context.get_messages()] == ["Hi"]
        return await provider.get_messages(session_id)

    assert [one.text for one in asyncio.run(use())] == ["Hi", "Tea, please."]


def test_the_newest_are_read_with_a_limit(server, provider, session_id):
    asyncio.run(provider.save_messages(session_id, [Message("user", [f"{at}"]) for at in range(20)]))
    some = MemorydHistoryProvider(server.target, limit=3)
    assert [one.text for one in asyncio.run(some.get_messages(session_id))] == ["17", "18", "19"]


def test_other_clients_read_the_session_and_it_reads_theirs(server, provider, session_id):
    call = Content.from_function_call("c1", "brew", arguments={"drink": "tea"})
    asyncio.run(provider.save_messages(session_id, [
        Message("user", ["Tea, please.", Content.from_data(PNG, "image/png")]),
        Message("assistant", [Content.from_text_reasoning(text="hm"), call]),
        Message("tool", [Content.from_function_result("c1", result="no water", exception="x")])]))
    with Client(server.target) as client:
        given = client.get(session_id).to_openai()
        assert [one["role"] for one in given] == ["user", "assistant", "tool"]
        assert given[1]["tool_calls"][0]["id"] == "c1" and given[2]["content"] == "no water"
        client.put(session_id, [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c2", "content": "done"},
            {"role": "assistant", "content": "Here."}])
    found = asyncio.run(provider.get_messages(session_id))
    assert [(one.role, [content.type for content in one.contents]) for one in found[3:]] == [
        ("assistant", ["function_call"]), ("tool", ["function_result"]), ("assistant", ["text"])]
    assert found[4].contents[0].call_id == "c2" and found[4].contents[0].result == "done"


def test_messages_of_a_subject_are_erased_with_it(server, session_id):
    subject = f"ann-{uuid.uuid4().hex}"
    provider = MemorydHistoryProvider(server.target, subject=subject)
    for _ in range(2):
        asyncio.run(provider.save_messages(session_id, [Message("user", ["Hi"])]))
    with Client(server.target) as client:
        client.erase_subject(subject)
    assert asyncio.run(provider.get_messages(session_id)) == []


# The memory of a user.


class Told(BaseChatClient):
    """A model that says the same always, and keeps what it was told last."""

    async def _inner_get_response(self, *, messages, stream, options, **kwargs):
        self.told = [message.text for message in messages]
        return ChatResponse(messages=[Message("assistant", ["Noted."])])


def test_what_a_user_said_is_told_in_the_next_session_and_to_nobody_else(server):
    user, model = f"ann-{uuid.uuid4().hex}", Told()

    async def ask(user: str, session: str, *inputs: str) -> list[str]:
        agent = Agent(model, context_providers=[
            MemorydHistoryProvider(server.target), MemorydContextProvider(user, server.target)])
        for said in inputs:
            await agent.run(said, session=agent.create_session(session_id=f"{user}-{session}"))
        return model.told

    async def use() -> None:
        said = await ask(user, "monday", "I drink green tea.", "Is there green tea?")
        # The history has it: it is not told twice.
        assert said == ["I drink green tea.", "Noted.", "Is there green tea?"]
        recalled, asked = await ask(user, "tuesday", "Which tea do I drink?")
        assert "I drink green tea." in recalled and recalled.startswith("<memoryd_recall>")
        assert asked == "Which tea do I drink?"
        assert await ask(f"bob-{user}", "monday", "Which tea?") == ["Which tea?"]
        with Client(server.target) as client:
            assert "I drink green tea." in [hit.text for hit in client.recall(user, "green tea")]
            client.erase_subject(user)
        assert await ask(user, "friday", "Which tea do I drink?") == ["Which tea do I drink?"]

    asyncio.run(use())


def test_only_words_of_the_user_and_the_agent_are_remembered(server):
    user = f"ann-{uuid.uuid4().hex}"
    provider = MemorydContextProvider(user, server.target)
    context = SessionContext(session_id="s", input_messages=[
        Message("user", [Content.from_data(PNG, "image/png")]), Message("tool", ["green tea"])])
    named: dict[str, Any] = {"agent": None, "session": None, "context": context, "state": {}}

    async def use() -> None:
        await provider.before_run(**named)
        await provider.after_run(**named)

    asyncio.run(use())
    assert context.get_messages() == []
    with Client(server.target) as client:
        assert list(client.recall(user, "green tea")) == []


@pytest.mark.parametrize(("user", "error"), [("", ValueError), ("a\nb", ValueError), (7, TypeError)])
def test_a_memory_needs_a_user(user, error):
    with pytest.raises(error, match="user"):
        MemorydContextProvider(user)


# Bad input.


@pytest.mark.parametrize("bad", [None, ""])
def test_a_session_needs_an_id(provider, bad):
    for call in (provider.get_messages(bad), provider.save_messages(bad, [])):
        with pytest.raises(ValueError, match="session_id"):
            asyncio.run(call)


@pytest.mark.parametrize("odd", [{1}, b"x", datetime.datetime(2026, 1, 2), object()])
def test_what_json_does_not_have_is_as_the_library_writes_it(provider, session_id, tmp_path, odd):
    message = Message(
        "assistant", [Content.from_text("Hi", additional_properties={"odd": odd}),
                      Content.from_function_call("c", "f", arguments={"odd": odd})],
        additional_properties={"odd": odd})

    async def use(one: Any) -> Any:
        await one.save_messages(session_id, [message])
        return shown(await one.get_messages(session_id))

    assert asyncio.run(use(provider)) == asyncio.run(use(FileHistoryProvider(tmp_path)))


def test_halves_of_characters_large_parts_and_a_thousand_calls_come_back(provider, session_id):
    calls = [Content.from_function_call(f"c{at}", "f", arguments={}) for at in range(1000)]
    messages = [Message("user", ["half \ud800"]), Message("assistant", calls),
                Message("user", [Content.from_data(os.urandom(5_000_000), "image/png")])]
    asyncio.run(provider.save_messages(session_id, messages))
    assert shown(asyncio.run(provider.get_messages(session_id))) == shown(messages)


def test_a_server_that_goes_away_is_an_error(store, session_id):
    with Server(store) as server:
        provider = MemorydHistoryProvider(Connection(server.target, timeout=0.5))
        asyncio.run(provider.save_messages(session_id, [Message("user", ["Hi"])]))
    with pytest.raises(MemorydError) as error:
        asyncio.run(provider.save_messages(session_id, [Message("user", ["Hi"])]))
    assert error.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


# The agent.


def test_the_example_goes_on_after_it_was_killed(store):
    with Server(store) as server:
        assert programs.run(server.target, str(EXAMPLE), server.target) == SAID


def test_the_example_goes_on_wherever_it_is_killed(store, killed_and_again):
    """Nothing is lost, doubled or orphaned before one and after the next of its calls."""
    with Server(store) as server, Client(server.target) as client:
        for first, second in killed_and_again(EXAMPLE, server.target):
            assert [one.role for one in client.get_all("waiter")] == ["user", "assistant"] * 3
            # An answer that was stored right before the kill is not told again.
            told = first + second
            assert told == sorted({*told}, key=SAID.index) and len(told) >= len(SAID) - 1
            client.delete_session("waiter")


def test_the_page():
    assert programs.page("AGENT_FRAMEWORK.md") == ["['I drink tea.', 'Noted.']"]
