"""Sessions and memories of Strands in memoryd, beside its own in files."""

from __future__ import annotations

import asyncio
import copy
import datetime
import random
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.memory import MemoryManager
from strands.session import FileSessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from strands.vended_memory_stores.test_memory_store import TestMemoryStore

import programs
from support import paths
from support.agents.rules import anthropic_violations, converse_violations, openai_violations
from support.agents.strands_messages import MessageTeller
from support.agents.strands_model import Scripted, use
from support.conversations import PNG, encoded
from support.documents import code_of
from support.odd_values import canonical
from support.server import Server, restarted

from memoryd import Client, MemorydError, from_anthropic, from_openai
from memoryd.strands import (
    Connection,
    MemorydMemoryStore,
    MemorydSessionManager,
    MemorydSessionRepository,
)

SEED = 29
TURNS = 4
EXAMPLE = paths.REPOSITORY / "examples/strands_agent.py"
SAID = [
    "My name is Ann. -> Hello!",
    "Tea, please. -> Here: one pot of tea.",
    "What was my name, and what did I drink? -> You said 'My name is Ann.', and had one pot of tea.",
]
Dict = dict[str, Any]


@pytest.fixture(scope="module")
def client(server) -> Iterator[Client]:
    with Client(server.target, timeout=60) as made:
        yield made


@pytest.fixture
def repository(server) -> MemorydSessionRepository:
    return MemorydSessionRepository(server.target, timeout=60.0)


@pytest.fixture
def begun(repository, session_id) -> MemorydSessionRepository:
    """A repository with the session and an agent."""
    repository.create_session(Session(session_id, SessionType.AGENT))
    repository.create_agent(session_id, SessionAgent("default", {}, {}))
    return repository


def shown(value: Any) -> Any:
    """What both are to have, as text: 1, 1.0 and True differ, and so does another order of keys."""
    if isinstance(value, list):
        return [shown(one) for one in value]
    return canonical(value.to_dict()) if hasattr(value, "to_dict") else value


class Group:
    """A graph or a swarm, as far as a repository sees it."""

    def __init__(self, id: str, state: Dict) -> None:
        self.id = id
        self._state = state

    def serialize_state(self) -> Dict:
        return self._state


class Both:
    """Random calls of the library's own repository and of ours."""

    def __init__(self, theirs: FileSessionManager, ours: MemorydSessionRepository, seed: int) -> None:
        self._both = (theirs, ours)
        self._random = random.Random(seed)
        self._teller = MessageTeller(seed)
        run = uuid.uuid4().hex
        self._sessions = [f"{run} {number}" for number in range(3)]
        self._agents = ("default", "writer", "日本 .x")
        # The next number of each agent's messages: the library numbers them in order.
        self._next: dict[tuple[str, str], int] = {}

    def step(self) -> str:
        names = ["session", "agent", "update_agent", "message", "update", "read", "list", "group",
                 "delete"]
        name = self._random.choices(names, [3, 3, 3, 14, 5, 5, 8, 2, 0.2])[0]
        getattr(self, f"_{name}")()
        return name

    def _same(self, call: Any) -> None:
        """Calls both, and compares what they return or whether they refuse."""
        done: list[Any] = []
        for repository in self._both:
            try:
                done.append(shown(call(repository)))
            except SessionException:
                done.append(SessionException)
        assert done[1] == done[0]

    def _place(self) -> tuple[str, str]:
        return self._random.choice(self._sessions), self._random.choice(self._agents)

    def _session(self) -> None:
        session_id, _ = self._place()
        made = Session(session_id, SessionType.AGENT)
        self._same(lambda one: one.create_session(made))
        self._same(lambda one: one.read_session(session_id))

    def _new_agent(self, agent_id: str) -> SessionAgent:
        return SessionAgent(agent_id, self._teller.state(), {"removed": 1.0}, {"raw": PNG})

    def _agent(self) -> None:
        session_id, agent_id = self._place()
        if self._both[0].read_session(session_id) is None:
            return  # Whose folder the library would make, and then refuse the session.
        made = self._new_agent(agent_id)
        self._same(lambda one: one.create_agent(session_id, made))
        self._next.setdefault((session_id, agent_id), 0)

    def _update_agent(self) -> None:
        session_id, agent_id = self._place()
        made = self._new_agent(agent_id)
        self._same(lambda one: one.update_agent(session_id, copy.deepcopy(made)))
        self._same(lambda one: one.read_agent(session_id, agent_id))

    def _message(self) -> None:
        if not self._next:
            return
        place = self._random.choice(sorted(self._next))
        made = SessionMessage.from_message(self._teller.message(), self._next[place])
        if self._random.random() < 0.05:
            made.redact_message = self._teller.message()
        self._next[place] += 1
        self._same(lambda one: one.create_message(*place, made))

    def _number(self, place: tuple[str, str]) -> int:
        return self._random.randrange(self._next.get(place, 0) + 2)

    def _update(self) -> None:
        place = self._place()
        made = SessionMessage.from_message(self._teller.message(), self._number(place))
        kind = self._random.randrange(3)
        if kind:
            made.redact_message = self._teller.message() if kind == 1 else made.message
        self._same(lambda one: one.update_message(*place, copy.deepcopy(made)))
        self._same(lambda one: one.read_message(*place, made.message_id))

    def _read(self) -> None:
        place = self._place()
        number = self._number(place)
        self._same(lambda one: one.read_message(*place, number))

    def _list(self) -> None:
        place = self._place()
        limit = self._random.choice((None, None, 0, 1, 3, 100))
        offset = self._random.choice((0, 0, 1, self._number(place), -2))
        self._same(lambda one: one.list_messages(*place, limit, offset))

    def _group(self) -> None:
        session_id, group_id = self._place()
        made = Group(group_id, self._teller.state())
        create = self._random.random() < 0.5 and self._both[0].read_session(session_id) is not None
        self._same(lambda one: (one.create_multi_agent if create else one.update_multi_agent)(
            session_id, made))
        self._same(lambda one: canonical(one.read_multi_agent(session_id, group_id)))

    def _delete(self) -> None:
        session_id, _ = self._place()
        if self._both[0].read_session(session_id) is None:
            return
        self._same(lambda one: one.delete_session(session_id))
        for place in [place for place in self._next if place[0] == session_id]:
            del self._next[place]


def test_the_repository_is_as_the_librarys_own(server, tmp_path, operations):
    both = Both(FileSessionManager("unused", str(tmp_path)),
                MemorydSessionRepository(server.target, timeout=60.0), SEED)
    done = {both.step() for _ in range(operations)}
    assert len(done) >= 8


def test_the_librarys_own_tests():
    """Those that its source distribution has, with ours in place of its stores."""
    program = paths.REPOSITORY / "tests/upstream/strands_agents.py"
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    print(done.stdout.splitlines()[-1])


# Agents.


@tool
def weather(city: str) -> str:
    """Says the weather."""
    return f"sun in {city}"


@tool
def fail(city: str) -> str:
    """Fails."""
    raise RuntimeError(f"no {city}")


def agent_of(manager: Any, *said: list[Dict], **named: Any) -> Agent:
    named.setdefault("tools", [weather, fail])
    return Agent(model=Scripted(*said), callback_handler=None, session_manager=manager, **named)


IMAGE = [{"text": "What is this?"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "signed"}}}
LOOK = [THOUGHT, {"text": "Let me look."}, use("c1"), use("c2", "fail", city="Rome")]


def test_other_clients_read_what_an_agent_stored(server, client, session_id):
    agent = agent_of(MemorydSessionManager(session_id, server.target), LOOK, [{"text": "Sun."}])
    agent(IMAGE)
    context = client.get(session_id)
    assert not list(openai_violations(context.to_openai()))
    assert not list(anthropic_violations(context.to_anthropic().messages))
    stored = list(client.get_all(session_id))
    assert [one.role for one in stored] == ["user", "assistant", "tool", "assistant"]
    assert stored[0].parts[1].image.data == PNG and stored[1].parts[0].thinking.text == "hm"
    assert [part.tool_result.is_error for part in stored[2].parts] == [False, True]
    again = agent_of(MemorydSessionManager(session_id, server.target), [{"text": "Yes."}])
    assert again.messages == agent.messages
    again("Sure?")
    assert not list(converse_violations(again.model.asked[0]))
    assert len(again.messages) == 6


def test_a_chat_in_anthropics_form_goes_on(server, client, session_id):
    client.put(session_id, [from_anthropic(one) for one in (
        {"role": "user", "content": [
            {"type": "text", "text": "Look."},
            {"type": "image", "source": {
                "type": "base64", "media_type": "image/png", "data": encoded(PNG)}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "signed"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Lyon"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "sun", "is_error": True},
            {"type": "text", "text": "And?"}]},
        {"role": "assistant", "content": "Sun."})])
    manager = MemorydSessionManager(session_id, server.target)
    assert manager.session.created_at == client.get_session(session_id).created.isoformat()
    agent = agent_of(manager, [{"text": "Yes."}])
    assert agent.messages == [
        {"role": "user", "content": [
            {"text": "Look."}, {"image": {"format": "png", "source": {"bytes": PNG}}}]},
        {"role": "assistant", "content": [THOUGHT, {"text": "I look."}, use("t1")]},
        {"role": "user", "content": [
            {"toolResult": {"toolUseId": "t1", "content": [{"text": "sun"}], "status": "error"}},
            {"text": "And?"}]},
        {"role": "assistant", "content": [{"text": "Sun."}]}]
    agent("Sure?")
    assert not list(converse_violations(agent.model.asked[0]))
    numbers = [one.message_id for one in MemorydSessionRepository(server.target).list_messages(
        session_id, "default")]
    assert numbers == list(range(6))
    assert [one.message_id for one in client.get_all(session_id)][4:] == ["strands-4", "strands-5"]


def test_answers_of_several_calls_are_one_message(server, client, session_id):
    client.put(session_id, [from_openai(one) for one in (
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Weather?"},
        {"role": "user", "content": "Please."},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": name, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
            for name in ("c1", "c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "sun"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "user", "content": "Well?"})])
    agent = agent_of(MemorydSessionManager(session_id, server.target), [{"text": "Yes."}])
    assert [one["role"] for one in agent.messages] == ["user", "assistant", "user"]
    assert agent.messages[0]["content"] == [{"text": "Weather?"}, {"text": "Please."}]
    agent()
    assert not list(converse_violations(agent.model.asked[0]))
    # What another framework says in between has a number too, and no other gets that.
    client.put(session_id, [from_openai({"role": "user", "content": "And Rome?"})])
    agent = agent_of(MemorydSessionManager(session_id, server.target), [{"text": "Rain."}])
    agent()
    found = MemorydSessionRepository(server.target).list_messages(session_id, "default")
    assert [one.message_id for one in found] == list(range(6))
    assert [one.message["role"] for one in found] == ["user", "assistant"] * 3
    assert not list(converse_violations([one.to_message() for one in found]))


def test_an_agent_with_an_id_has_messages_of_its_own(server, client, session_id):
    for name in ("default", "writer"):
        agent_of(MemorydSessionManager(session_id, server.target), [{"text": name}], agent_id=name)("Hi")
    for name, place in (("default", session_id), ("writer", f"{session_id}/writer")):
        assert [one.text for one in client.get_all(place)] == ["Hi", name]
    repository = MemorydSessionRepository(server.target)
    repository.delete_session(session_id)
    assert not list(client.get_all(f"{session_id}/writer")) and not list(client.get_all(session_id))
    assert repository.read_session(session_id) is None


def test_an_agent_goes_on_with_a_session_of_any_name(server, client, session_id):
    client.put(f"shop/ann/{session_id}", [from_openai({"role": "user", "content": "Tea?"})])
    agent = agent_of(MemorydSessionManager(
        session_id, server.target, conversation=lambda name, agent_id: f"shop/ann/{name}"),
        [{"text": "Yes."}])
    agent()
    assert [one.text for one in client.get_all(f"shop/ann/{session_id}")] == ["Tea?", "Yes."]


def test_a_window_is_restored_after_its_beginning_was_removed(server, client, session_id, tmp_path):
    def managed(manager: Any) -> Agent:
        return agent_of(manager, *([{"text": f"a{at}"}] for at in range(30)),
                        conversation_manager=SlidingWindowConversationManager(window_size=6))

    managers = (lambda: MemorydSessionManager(session_id, server.target),
                lambda: FileSessionManager(session_id, str(tmp_path)))
    for manager in managers:
        agent = managed(manager())
        for turn in range(30):
            agent(f"q{turn}")
    for stored in list(client.get_all(session_id))[:40]:  # As retention does.
        client.delete_message(session_id, stored.message_id)
    ours, theirs = (managed(manager()) for manager in managers)
    assert [one["content"] for one in ours.messages] == [one["content"] for one in theirs.messages]
    assert len(ours.messages) == 6
    ours("on")
    assert next(iter(client.get_all(session_id, newest_first=True))).message_id == "strands-61"


def test_what_was_redacted_is_read_by_nobody(server, client, session_id):
    manager = MemorydSessionManager(session_id, server.target)
    agent = agent_of(manager, [{"text": "Hello."}])
    agent("my secret")
    repository = manager.session_repository
    told = repository.read_message(session_id, "default", 0)
    told.redact_message = {**told.message, "content": [{"text": "[redacted]"}]}
    told.message["content"] = told.redact_message["content"]
    repository.update_message(session_id, "default", told)
    assert shown(repository.read_message(session_id, "default", 0)) == shown(told)
    stored = list(client.get_all(session_id))
    assert stored[0].text == "[redacted]" and "secret" not in str(stored)


def test_a_session_that_was_forked_goes_on(server, client, session_id):
    agent_of(MemorydSessionManager(session_id, server.target), [{"text": "Noted."}])("I drink tea.")
    client.fork_session(session_id, f"{session_id}-2")
    agent = agent_of(MemorydSessionManager(f"{session_id}-2", server.target), [{"text": "Tea."}])
    agent("What do I drink?")
    assert [one["content"][0]["text"] for one in agent.messages] == [
        "I drink tea.", "Noted.", "What do I drink?", "Tea."]
    assert len(list(client.get_all(session_id))) == 2


def test_an_agent_that_is_behind_is_refused(server, client, session_id):
    ours, theirs = (agent_of(MemorydSessionManager(session_id, server.target), *(
        [[{"text": "Hi."}]] * 2)) for _ in range(2))
    ours("first")
    with pytest.raises(SessionException, match=r"Message 0 .* already exists: another object"):
        theirs("second")
    assert [one.text for one in client.get_all(session_id)] == ["first", "Hi."]


def test_callers_that_race_lose_no_message(begun, session_id):
    stored: list[int] = []

    def store(first: int) -> None:
        for number in range(first, first + 40):
            try:
                begun.create_message(session_id, "default", SessionMessage.from_message(
                    {"role": "user", "content": [{"text": f"{first}"}]}, number))
            except SessionException:
                continue
            stored.append(number)

    threads = [threading.Thread(target=store, args=(first,)) for first in (0, 0, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = begun.list_messages(session_id, "default")
    assert [one.message_id for one in found] == sorted(stored) == list(range(70))


def test_the_data_of_a_subject_are_erased(server, client, session_id):
    subject = f"ann-{uuid.uuid4().hex}"
    agent_of(MemorydSessionManager(session_id, server.target, subject=subject), [{"text": "Hi."}])("Hi")
    store = MemorydMemoryStore(session_id, server.target, subject=subject)
    asyncio.run(store.add("Ann drinks tea."))
    client.erase_subject(subject)
    assert MemorydSessionRepository(server.target).read_session(session_id) is None
    assert not list(client.get_all(session_id)) and asyncio.run(store.search("tea")) == []


# Memories.


def test_a_store_finds_all_that_the_librarys_own_finds(server, operations):
    theirs = TestMemoryStore(name="theirs", persist=False)
    ours = MemorydMemoryStore(uuid.uuid4(), server.target, timeout=60.0)
    picked = random.Random(SEED)
    words = ("tea", "coffee", "日本語", "Lyon", "runs", "green", "morning", "été")

    async def use() -> None:
        for _ in range(operations):
            text = " ".join(picked.choices(words, k=picked.randint(1, 3)))
            if picked.random() < 0.4:
                metadata = picked.choice((None, {}, {"k": [1, None, {"a": 1.5}]}))
                await theirs.add(text + picked.choice(("", " ", "\n")), metadata)
                await ours.add(text + picked.choice(("", " ", "\n")), metadata)
            limit = {"max_search_results": picked.choice((1, 3, 1000))}
            found, known = [await store.search(text, limit) for store in (ours, theirs)]
            assert len(known) <= len(found) <= limit["max_search_results"]
            scores = [entry.metadata["_relevance_score"] for entry in found]
            assert scores == sorted(scores, reverse=True)
            if limit["max_search_results"] == 1000:  # Their ranks differ, and what else is found.
                assert {*map(remembered, known)} <= {*map(remembered, found)}
                assert len({entry.content.strip() for entry in found}) == len(found)

    asyncio.run(use())


def remembered(entry: Any) -> str:
    metadata = {key: value for key, value in entry.metadata.items() if "elevance" not in key}
    return canonical([entry.content.strip(), metadata])


def test_agents_remember(server):
    store = MemorydMemoryStore(uuid.uuid4(), server.target, name="notes")
    manager = MemoryManager(stores=[store], add_tool_config=True)
    agent = Agent(model=Scripted(
        [use("m1", "add_memory", entries=["Ann drinks green tea."])], [{"text": "Noted."}],
        [use("m2", "search_memory", query="tea")], [{"text": "Tea."}]),
        callback_handler=None, memory_manager=manager)
    agent("I drink green tea.")
    agent("What do I drink?")
    assert "Ann drinks green tea." in canonical(agent.messages)
    found = asyncio.run(manager.search("tea"))
    assert [(one.content, one.store_name) for one in found] == [("Ann drinks green tea.", "notes")]


def test_a_store_refuses_as_the_librarys_own(server):
    ours = MemorydMemoryStore(uuid.uuid4(), server.target, writable=False)
    theirs = TestMemoryStore(name="theirs", persist=False, writable=False)
    for store in (ours, theirs):
        with pytest.raises(ValueError, match="not writable"):
            asyncio.run(store.add("tea"))
        store.writable = True
        for text in ("", " \n"):
            with pytest.raises(ValueError, match="content must not be empty"):
                asyncio.run(store.add(text))
        with pytest.raises(ValueError, match="max_search_results must be at least 1"):
            asyncio.run(store.search("tea", {"max_search_results": 0}))
        assert asyncio.run(store.search("...")) == asyncio.run(store.search(" ")) == []
    with pytest.raises(ValueError, match="max_search_results must be at least 1"):
        MemorydMemoryStore("m", server.target, max_search_results=0)
    for metadata in ({"when": datetime.datetime(2026, 1, 1)}, {"bytes": b"x"}, {"set": {1}}):
        with pytest.raises(TypeError):
            asyncio.run(ours.add("tea", metadata))
    assert asyncio.run(ours.search("tea")) == []


# What is odd.


@pytest.mark.parametrize("value", [datetime.datetime(2026, 1, 1), {1}, object()],
                         ids=["date", "set", "object"])
def test_what_json_does_not_have_is_refused_and_nothing_is_stored(begun, session_id, value):
    with pytest.raises(TypeError):
        begun.create_agent(session_id, SessionAgent("writer", {"a": value}, {}))
    with pytest.raises(TypeError):
        begun.create_message(session_id, "default", SessionMessage.from_message(
            {"role": "user", "content": [{"text": "a"}], "metadata": {"custom": {"a": value}}}, 0))
    assert begun.read_agent(session_id, "writer") is None
    assert begun.list_messages(session_id, "default") == []


def test_what_is_large_or_no_text_comes_back(begun, session_id):
    odd = [
        {"role": "user", "content": [{"text": "é" * (5 << 19)}]},
        {"role": "user", "content": [{"image": {
            "format": "png", "source": {"bytes": bytes(range(256)) * (5 << 12)}}}]},
        {"role": "user", "content": [{"toolResult": {
            "toolUseId": "c", "status": "success", "content": [{"json": "no JSON {" * 300_000}]}}]},
        {"role": "user", "content": [{"text": "nul \0 and half \ud83d"}]},
        {"role": "user", "content": []}, {"role": "user", "content": [{"text": ""}]},
        {"role": "user", "content": [{"future": {"deep": [["x" * (5 << 20)]]}}]}]
    made = [SessionMessage.from_message(one, at) for at, one in enumerate(odd)]
    for one in made:
        begun.create_message(session_id, "default", one)
    assert [shown(one) for one in begun.list_messages(session_id, "default")] == list(map(shown, made))
    for one in made:  # Each in the place of another.
        one.message = odd[(one.message_id + 1) % len(odd)]
        begun.update_message(session_id, "default", copy.deepcopy(one))
    assert [shown(one) for one in begun.list_messages(session_id, "default")] == list(map(shown, made))


def test_a_thousand_calls_in_one_turn(server, client, session_id):
    agent = agent_of(MemorydSessionManager(session_id, server.target, timeout=60.0),
                     [use(f"c{at}") for at in range(1000)], [{"text": "Sun."}])
    agent("Everywhere?")
    again = agent_of(MemorydSessionManager(session_id, server.target, timeout=60.0))
    assert again.messages == agent.messages and len(again.messages) == 4
    assert not list(openai_violations(client.get(session_id).to_openai()))


@pytest.mark.parametrize("name", ["a/b", "a/../b", ""])
def test_ids_are_checked_as_the_librarys_own_are(repository, begun, session_id, name):
    for call in (
        lambda: repository.read_session(name), lambda: repository.read_agent(session_id, name),
        lambda: repository.create_session(Session(name, SessionType.AGENT)),
        lambda: repository.list_messages(session_id, name)):
        with pytest.raises(ValueError, match="id="):
            call()
    with pytest.raises(ValueError, match="message id must be an integer"):
        repository.read_message(session_id, "default", "0")


@pytest.mark.parametrize("name", ["a\nb", "x" * 257], ids=["newline", "long"])
def test_an_id_that_the_server_refuses_is_named(server, name):
    with pytest.raises(MemorydError, match="session_id"):
        MemorydSessionManager(name, server.target)
    with pytest.raises(TypeError, match="an id is a str, a UUID or an int, not NoneType"):
        MemorydSessionManager(None, server.target)


def test_what_is_not_there(repository, session_id):
    assert repository.read_session(session_id) is None
    assert repository.read_agent(session_id, "default") is None
    assert repository.read_message(session_id, "default", 0) is None
    for _ in range(2):
        with pytest.raises(SessionException, match="does not exist"):
            repository.delete_session(session_id)
    with pytest.raises(SessionException, match="neither exists"):
        repository.list_messages(session_id, "default")


def test_a_server_that_is_gone_is_an_error_that_says_so(store, session_id):
    with Server(store) as server:
        repository = MemorydSessionRepository(Connection(server.target, timeout=0.5))
        repository.read_session(session_id)
    with pytest.raises(MemorydError) as error:
        repository.read_session(session_id)
    assert error.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def test_a_server_that_goes_away_between_two_calls_of_a_turn(store):
    with restarted(store) as (listen, restart):
        @tool
        def away() -> str:
            """Restarts the server."""
            restart()
            return "back"

        manager = MemorydSessionManager("s", listen, timeout=120.0)
        said = [block for turn in range(TURNS) for block in (
            [{"toolUse": {"toolUseId": f"c{turn}", "name": "away", "input": {}}}],
            [{"text": f"{turn}"}])]
        agent = agent_of(manager, *said, tools=[away])
        for turn in range(TURNS):
            agent(f"q{turn}")
        again = agent_of(MemorydSessionManager("s", listen, timeout=120.0))
        assert again.messages == agent.messages and len(again.messages) == 4 * TURNS


# The example and the page.


def test_the_example_goes_on_after_it_was_killed(store):
    with Server(store) as server:
        assert programs.run(server.target, str(EXAMPLE), server.target) == SAID


def test_the_example_goes_on_wherever_it_is_killed(store, killed_and_again):
    """Nothing is lost, doubled or orphaned before one and after the next of its calls."""
    with Server(store) as server, Client(server.target) as client:
        for first, second in killed_and_again(EXAMPLE, server.target):
            assert [one.role for one in client.get_all("waiter")] == [
                "user", "assistant", "user", "assistant", "tool", "assistant", "user", "assistant"]
            # An answer that was stored right before the kill is not told again.
            told = first + second
            assert told == sorted({*told}, key=SAID.index) and len(told) >= len(SAID) - 1
            MemorydSessionRepository(server.target).delete_session("waiter")


def test_the_page():
    codes = code_of(paths.REPOSITORY / "clients/python/STRANDS.md", "python", "")
    with Server("sqlite::memory:") as server:
        said = [programs.run(server.target, "-c", code) for code in codes]
    assert said == [["['I drink tea.', 'Noted.']"], ["Ann drinks green tea. chat"]]
