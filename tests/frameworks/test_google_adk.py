"""Sessions and memory of Google's Agent Development Kit in memoryd, beside its own in memory."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import datetime
import enum
import json
import os
import random
import uuid
from typing import Any

import grpc
import pydantic
import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

import programs
from support import paths
from support.server import Server

from memoryd import AsyncClient, Client, MemorydError
from memoryd.google_adk import (
    Connection,
    MemorydMemoryService,
    MemorydSessionService,
    session_name,
)

SEED = 29
EXAMPLE = paths.REPOSITORY / "examples/google_adk_agent.py"
SAID = ["My name is Ann. -> Hello!", "Tea, please. -> Here: one pot of tea.",
        "What was my name? -> You said 'My name is Ann.'"]
APPS = ("tea", "coffee/2")
USERS = ("ann", "bob smith", "日本")
STATES: tuple[dict[str, Any], ...] = (
    {}, {"a": 1}, {"a": None, "b": [1, {"c": "日本"}]}, {"app:x": 1}, {"user:y": "z"},
    {"app:x": {"deep": [1]}, "user:y": 2, "temp:t": 3, "a": "4"}, {"temp:t": 1}, {"user:": 1, "app:": 2})


@pytest.fixture
def app() -> str:
    return f"app-{uuid.uuid4().hex}"


@pytest.fixture
def service(server) -> MemorydSessionService:
    return MemorydSessionService(server.target)


def text(said: str, author: str = "user", **more: Any) -> Event:
    role = "user" if author == "user" else "model"
    return Event(author=author, content=types.Content(role=role, parts=[types.Part(text=said)]), **more)


class Teller:
    """Events of every kind; a seed makes them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def event(self) -> Event:
        pick = self._random
        self._count += 1
        parts = [getattr(self, f"_{pick.choice(KINDS)}")() for _ in range(pick.randrange(4))]
        content = types.Content(
            role=pick.choice(("user", "model", None)), parts=pick.choice((parts, parts, parts, None)))
        return Event(
            id=f"event-{self._count}", timestamp=1_800_000_000.0 + self._count / 8,
            author=pick.choice(("user", "agent", "")), invocation_id=pick.choice(("", "i-1")),
            content=pick.choice((content, content, content, None)),
            branch=pick.choice((None, "a.b")), turn_complete=pick.choice((None, True)),
            error_code=pick.choice((None, None, "500")),
            custom_metadata=pick.choice((None, {"k": [1, None]})),
            long_running_tool_ids=pick.choice((None, {"b", "a"})),
            usage_metadata=pick.choice((None, types.GenerateContentResponseUsageMetadata(
                prompt_token_count=3))),
            actions=EventActions(
                state_delta=copy.deepcopy(pick.choice(STATES)),
                artifact_delta=pick.choice(({}, {"f.txt": 1})),
                escalate=pick.choice((None, True)), transfer_to_agent=pick.choice((None, "other"))))

    def _text(self) -> types.Part:
        return types.Part(text=self._random.choice(("tea", "", "日本 🙂\u2028", "nul\0", "x" * 3000)))

    def _thought(self) -> types.Part:
        return types.Part(text="hm", thought=True,
                          thought_signature=self._random.choice((None, b"\xff\x00sig")))

    def _call(self) -> types.Part:
        self._count += 1
        return types.Part(function_call=types.FunctionCall(
            id=self._random.choice((None, f"call-{self._count}")), name="brew",
            args=self._random.choice((None, {}, {"drink": "tea", "n": [1.5, None]}))))

    def _response(self) -> types.Part:
        return types.Part(function_response=types.FunctionResponse(
            id=self._random.choice((None, f"call-{self._count}")), name="brew",
            response=self._random.choice((
                None, {}, {"result": "one pot"}, {"error": "no water"}, {"result": {"pots": 1}},
                {"output": "a", "more": 1}))))

    def _inline(self) -> types.Part:
        return types.Part(inline_data=types.Blob(
            mime_type=self._random.choice(("image/png", "audio/wav", "application/pdf")),
            data=b"\x89PNG\xfb\xff" * self._random.randrange(3), display_name="a.png"))

    def _file(self) -> types.Part:
        return types.Part(file_data=types.FileData(
            mime_type="video/mp4", file_uri="gs://bucket/a.mp4"))

    def _code(self) -> types.Part:
        return types.Part(executable_code=types.ExecutableCode(
            code="print(1)", language=types.Language.PYTHON))

    def _ran(self) -> types.Part:
        return types.Part(code_execution_result=types.CodeExecutionResult(
            outcome=types.Outcome.OUTCOME_OK, output="1"))


KINDS = ("text", "text", "thought", "call", "response", "inline", "file", "code", "ran")


def shown(session: Session | None) -> Any:
    """A session as both services are to show it, but for the time of one without events."""
    if session is None:
        return None
    made = json.loads(session.model_dump_json(exclude_none=True))
    if session.last_update_time < 1_800_000_000:
        made.pop("last_update_time")
    return made


async def outcome(call: Any) -> Any:
    try:
        return await call
    except (AlreadyExistsError, SessionNotFoundError) as error:
        return type(error).__name__


class Both:
    """Random calls of ADK's service and of ours."""

    def __init__(self, ours: MemorydSessionService, apps: list[str], seed: int) -> None:
        self._random = random.Random(seed)
        self._teller = Teller(seed)
        self._services = (InMemorySessionService(), ours)
        self._apps = apps
        self._ids = [f"s {at}" for at in range(4)]

    def _named(self) -> dict[str, str]:
        pick = self._random.choice
        return {"app_name": pick(self._apps), "user_id": pick(USERS), "session_id": pick(self._ids)}

    async def step(self) -> str:
        name = self._random.choices(
            ["append", "get", "create", "list", "delete", "user"], [10, 6, 2, 2, 0.5, 1])[0]
        await getattr(self, f"_{name}")()
        return name

    async def _compare(self, call: Any) -> None:
        theirs, ours = [await outcome(call(service)) for service in self._services]
        assert ours == theirs

    async def _create(self) -> None:
        named, state = self._named(), self._random.choice((None, *STATES))

        async def create(service: Any) -> Any:
            return shown(await service.create_session(**named, state=copy.deepcopy(state)))

        await self._compare(create)

    def _config(self) -> GetSessionConfig | None:
        pick = self._random
        return pick.choice((None, GetSessionConfig(
            num_recent_events=pick.choice((None, 0, 1, 3, 100)),
            after_timestamp=pick.choice((None, 1_800_000_000.0 + pick.randrange(400))))))

    async def _get(self) -> None:
        named, config = self._named(), self._config()

        async def get(service: Any) -> Any:
            return shown(await service.get_session(**named, config=config))

        await self._compare(get)

    async def _append(self) -> None:
        named, config = self._named(), self._config()
        events = [self._teller.event() for _ in range(self._random.randint(1, 2))]

        async def append(service: Any) -> Any:
            session = await service.get_session(**named, config=config)
            if session is None:
                return None
            given = [await service.append_event(session, event.model_copy(deep=True))
                     for event in events]
            return [json.loads(event.model_dump_json()) for event in given], shown(session)

        await self._compare(append)

    async def _list(self) -> None:
        named = {**self._named(), "user_id": self._random.choice((None, *USERS))}
        del named["session_id"]

        async def listed(service: Any) -> Any:
            found = (await service.list_sessions(**named)).sessions
            return sorted((shown(one) for one in found), key=json.dumps)

        await self._compare(listed)

    async def _delete(self) -> None:
        named = self._named()
        await self._compare(lambda service: service.delete_session(**named))

    async def _user(self) -> None:
        named = self._named()
        del named["session_id"]
        await self._compare(lambda service: service.get_user_state(**named))


def test_the_service_is_as_the_librarys_own(service, operations):
    async def compare() -> list[str]:
        both = Both(service, [f"{app} {uuid.uuid4().hex}" for app in APPS], SEED)
        return [await both.step() for _ in range(operations)]

    assert len(set(asyncio.run(compare()))) == 6


def run(call: Any) -> Any:
    return asyncio.run(call)


def test_a_stale_session_is_refused_and_stores_nothing(service, app):
    async def use() -> None:
        first = await service.create_session(app_name=app, user_id="ann", session_id="s")
        second = await service.get_session(app_name=app, user_id="ann", session_id="s")
        await service.append_event(first, text("one", actions=EventActions(state_delta={"a": 1})))
        late = text("two", actions=EventActions(state_delta={"a": 2, "user:b": 1}))
        with pytest.raises(StaleSessionError):
            await service.append_event(second, late)
        await service.append_event(first, text("three"))
        found = await service.get_session(app_name=app, user_id="ann", session_id="s")
        assert [one.content.parts[0].text for one in found.events] == ["one", "three"]
        assert found.state == {"a": 1}
        await service.append_event(found, late)

    run(use())


def test_a_session_that_was_not_loaded_here_is_checked_by_its_last_event(service, app):
    async def use() -> None:
        session = await service.create_session(app_name=app, user_id="ann", session_id="s")
        event = await service.append_event(session, text("one"))
        bare = Session(id="s", app_name=app, user_id="ann", events=[event])
        await service.append_event(bare, text("two"))
        with pytest.raises(StaleSessionError):
            await service.append_event(
                Session(id="s", app_name=app, user_id="ann", events=[event]), text("three"))
        with pytest.raises(SessionNotFoundError):
            await service.append_event(Session(id="none", app_name=app, user_id="ann"), text("x"))

    run(use())


def test_a_deleted_session_takes_no_events(service, app):
    async def use() -> None:
        for count in (0, 1):
            session = await service.create_session(app_name=app, user_id="ann", session_id="s")
            for _ in range(count):
                await service.append_event(session, text("one"))
            for _ in range(2):
                await service.delete_session(app_name=app, user_id="ann", session_id="s")
            with pytest.raises(SessionNotFoundError):
                await service.append_event(session, text("two"))
            assert await service.get_session(app_name=app, user_id="ann", session_id="s") is None

    run(use())


def test_an_event_that_comes_again_is_stored_once(service, app):
    async def use() -> None:
        session = await service.create_session(app_name=app, user_id="ann", session_id="s")
        event = text("one", actions=EventActions(state_delta={"a": 1}))
        await service.append_event(session, event)
        await service.append_event(session, event)
        assert len(session.events) == 1
        with pytest.raises(AlreadyExistsError):
            await service.append_event(session, text("other", id=event.id))
        found = await service.get_session(app_name=app, user_id="ann", session_id="s")
        assert len(found.events) == 1

    run(use())


@pytest.mark.parametrize("writes", range(3))
def test_state_that_a_crash_left_behind_is_caught_up(server, app, writes, monkeypatch):
    """The process ends between an event and what it changes."""
    from memoryd.google_adk import _state

    whole = _state.write
    service = MemorydSessionService(server.target)
    delta = {"a": 1, "user:b": 2, "app:c": 3}

    def lost(stored: Any, touched: set[str]) -> Any:
        if writes == 2:  # Only the app's is stored.
            _ = yield from _state._batch(
                stored.place.base, [_state._put(_state.STATE, stored.app, stored.versions.app)], None)
        raise RuntimeError("the end")
        yield

    async def use() -> None:
        session = await service.create_session(app_name=app, user_id="ann", session_id="s")
        if writes:
            await service.append_event(session, text("zero"))
        monkeypatch.setattr(_state, "write", lost)
        with pytest.raises(RuntimeError, match="the end"):
            await service.append_event(session, text("one", actions=EventActions(state_delta=delta)))
        monkeypatch.setattr(_state, "write", whole)
        for config in (GetSessionConfig(num_recent_events=0), None):
            found = await service.get_session(
                app_name=app, user_id="ann", session_id="s", config=config)
            assert found.state == delta
        assert await service.get_user_state(app_name=app, user_id="ann") == {"b": 2}
        await service.append_event(found, text("two"))

    run(use())


def test_an_event_that_a_crash_left_unseen_is_caught_up(server, app, monkeypatch):
    """The process ends between an event and what says that it was seen."""
    from memoryd.google_adk import _state

    service = MemorydSessionService(server.target)

    def lost(*_: Any) -> Any:
        raise RuntimeError("the end")
        yield

    async def use() -> None:
        session = await service.create_session(app_name=app, user_id="ann", session_id="s")
        with monkeypatch.context() as patched:
            patched.setattr(_state, "saw", lost)
            with pytest.raises(RuntimeError, match="the end"):
                await service.append_event(session, text("one"))
        listed = (await service.list_sessions(app_name=app)).sessions
        assert listed[0].last_update_time == session.last_update_time
        found = await service.get_session(app_name=app, user_id="ann", session_id="s")
        assert [event.author for event in found.events] == ["user"]
        listed = (await service.list_sessions(app_name=app)).sessions
        assert listed[0].last_update_time == found.events[-1].timestamp == found.last_update_time
        await service.append_event(found, text("two"))

    run(use())


def test_two_services_see_each_others_events(server, app):
    """One reads between the other's event and what says that it was seen."""
    from memoryd.google_adk import _state

    first, second = (MemorydSessionService(server.target) for _ in range(2))
    saw = _state.saw

    def read_first(*given: Any) -> Any:
        found = yield from second._loaded(
            second._place(app, "ann", "s"), app, GetSessionConfig())
        seen.append(found)
        return (yield from saw(*given))

    seen: list[Any] = []

    async def use() -> None:
        session = await first.create_session(app_name=app, user_id="ann", session_id="s")
        _state.saw = read_first
        try:
            await first.append_event(session, text("one"))
        finally:
            _state.saw = saw
        assert len(seen[0].events) == 1
        await first.append_event(session, text("two"))
        found = await second.get_session(app_name=app, user_id="ann", session_id="s")
        assert len(found.events) == 2

    run(use())


@pytest.mark.parametrize("first", ("state", "events"))
def test_an_event_that_comes_between_the_two_reads_of_a_load_is_seen(server, app, first, monkeypatch):
    names = {"app_name": app, "user_id": "ann", "session_id": "s"}
    service, other = (MemorydSessionService(server.target) for _ in range(2))

    def event(said: str) -> Event:
        return text(said, actions=EventActions(state_delta={"last": said}))

    async def use() -> None:
        session = await other.create_session(**names)
        await other.append_event(session, event("one"))

        def apart(*reads: Any) -> Any:
            found = [None, None]
            for at in (0, 1) if first == "state" else (1, 0):
                found[at] = yield from reads[at]
                if not later:
                    later.append(pool.submit(asyncio.run, other.append_event(session, event("two"))))
                    later[0].result()
            return tuple(found)

        later: list[Any] = []
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            monkeypatch.setattr("memoryd.google_adk.session_service.together", apart)
            found = await service.get_session(**names)
        assert [one.content.parts[0].text for one in found.events] == ["one", "two"]
        assert found.state == {"last": "two"}
        await service.append_event(found, event("three"))
        with pytest.raises(StaleSessionError):
            await other.append_event(session, event("four"))

    run(use())


def test_a_load_of_a_session_that_only_adk_writes_is_two_calls(server, app, monkeypatch):
    names = {"app_name": app, "user_id": "ann", "session_id": "s"}
    service = MemorydSessionService(server.target)
    attempt = AsyncClient._attempt
    paths: list[str] = []

    async def counted(self: AsyncClient, call: Any) -> Any:
        paths.append(call.rpc.path.rpartition("/")[2])
        return await attempt(self, call)

    async def load() -> Session:
        paths.clear()
        found = await service.get_session(**names)
        assert found.state == {"a": 1}
        return found

    async def use() -> None:
        session = await service.create_session(**names)
        await service.append_event(session, text("one", actions=EventActions(state_delta={"a": 1})))
        monkeypatch.setattr(AsyncClient, "_attempt", counted)
        await load()
        assert sorted(paths) == ["BatchItems", "GetAll"]
        with Client(server.target) as client:  # The session's revision rises.
            added, = client.put(
                session_name(app, "ann", "s"), [{"role": "user", "content": "hi"}]).message_ids
            client.delete_message(session_name(app, "ann", "s"), added)
            found = await load()
            assert len(paths) == 2
            await service.append_event(found, text("two"))
            client.put(session_name(app, "ann", "s"), [{"role": "user", "content": "hi"}])
        assert len((await load()).events) == 3 and len(paths) > 2
        await service.append_event(await load(), text("three"))
        assert len((await load()).events) == 4 and len(paths) == 2

    run(use())


def test_many_sessions_of_one_user_lose_no_state(server, app):
    async def write(at: int) -> None:
        service = MemorydSessionService(server.target)
        session = await service.create_session(app_name=app, user_id="ann", session_id=f"s{at}")
        for step in range(4):
            delta = {f"user:{at}-{step}": 1, f"app:{at}-{step}": 2, "own": step}
            await service.append_event(session, text("x", actions=EventActions(state_delta=delta)))

    async def use() -> None:
        await asyncio.gather(*(write(at) for at in range(5)))
        service = MemorydSessionService(server.target)
        found = await service.get_session(app_name=app, user_id="ann", session_id="s0")
        assert found.state == {"own": 3, **{
            f"{scope}:{at}-{step}": value for scope, value in (("user", 1), ("app", 2))
            for at in range(5) for step in range(4)}}

    run(use())


def test_other_clients_read_the_session_and_it_reads_theirs(server, service, app):
    name = session_name(app, "ann", "s")
    call = types.FunctionCall(id="c1", name="brew", args={"drink": "tea"})

    async def talk() -> None:
        session = await service.create_session(app_name=app, user_id="ann", session_id="s")
        await service.append_event(session, text("Tea, please."))
        await service.append_event(session, Event(author="agent", content=types.Content(
            role="model", parts=[types.Part(function_call=call)])))
        await service.append_event(session, Event(author="agent", content=types.Content(
            role="user", parts=[types.Part(function_response=types.FunctionResponse(
                id="c1", name="brew", response={"result": "one pot"}))])))

    run(talk())
    with Client(server.target) as client:
        given = client.get(name).to_openai()
        assert [one["role"] for one in given] == ["user", "assistant", "tool"]
        assert given[1]["tool_calls"][0]["function"]["name"] == "brew"
        assert given[2]["content"] == "one pot"
        client.put(name, [{"role": "assistant", "content": "Here."}, {"role": "user", "content": "Thanks."}])
    own = MemorydSessionService(server.target, agent_name="waiter")
    found = run(own.get_session(app_name=app, user_id="ann", session_id="s"))
    assert [(one.author, one.content.role) for one in found.events] == [
        ("user", "user"), ("agent", "model"), ("agent", "user"), ("waiter", "model"), ("user", "user")]
    run(own.append_event(found, text("You're welcome.", "waiter")))


def test_sessions_of_a_subject_are_erased_with_it(server, app):
    user = f"ann-{uuid.uuid4().hex}"
    service = MemorydSessionService(server.target, subjects=True)
    session = run(service.create_session(app_name=app, user_id=user, session_id="s"))
    run(service.append_event(session, text("x", actions=EventActions(state_delta={"user:a": 1}))))
    memory = MemorydMemoryService(server.target, subjects=True)
    run(memory.add_session_to_memory(session))
    with Client(server.target) as client:
        client.erase_subject(user)
    assert run(service.get_session(app_name=app, user_id=user, session_id="s")) is None
    assert run(service.get_user_state(app_name=app, user_id=user)) == {}
    assert run(memory.search_memory(app_name=app, user_id=user, query="x")).memories == []


# Bad input.


class Colour(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    size: int = 1


def test_state_that_is_not_json_is_stored_as_adk_writes_it(service, app):
    delta = {"when": datetime.datetime(2026, 1, 2), "colour": Colour.RED, "model": Model(), "call": print}

    async def use() -> Any:
        session = await service.create_session(app_name=app, user_id="ann", session_id="s")
        await service.append_event(session, text("x", actions=EventActions(state_delta=delta)))
        return await service.get_session(app_name=app, user_id="ann", session_id="s")

    state = run(use()).state
    assert state["when"] == "2026-01-02T00:00:00" and state["colour"] == "red"
    assert state["model"] == {"size": 1} and "print" in state["call"]


@pytest.mark.parametrize("value", ["nul\0", "half \ud800", float("nan")])
def test_state_that_json_does_not_hold_is_refused_and_nothing_is_stored(service, app, value):
    async def use() -> Any:
        session = await service.create_session(app_name=app, user_id="ann", session_id="s")
        with pytest.raises(ValueError, match="state"):
            await service.append_event(
                session, text("x", actions=EventActions(state_delta={"user:a": value})))
        return await service.get_session(app_name=app, user_id="ann", session_id="s")

    assert run(use()).events == []


def test_a_part_of_5_mb_and_a_thousand_calls_come_back(service, app):
    blob = types.Part(inline_data=types.Blob(mime_type="image/png", data=os.urandom(5_000_000)))
    calls = [types.Part(function_call=types.FunctionCall(id=f"c{at}", name="f", args={}))
             for at in range(1000)]

    async def use() -> Any:
        session = await service.create_session(app_name=app, user_id="ann", session_id="s")
        for parts in ([blob], calls):
            await service.append_event(session, Event(
                author="agent", content=types.Content(role="model", parts=parts)))
        return session, await service.get_session(app_name=app, user_id="ann", session_id="s")

    session, found = run(use())
    assert found.events == session.events


def test_a_server_that_goes_away_within_a_turn_is_an_error_and_stores_nothing(store, app):
    async def use() -> None:
        with Server(store) as server:
            service = MemorydSessionService(Connection(server.target, timeout=0.5))
            session = await service.create_session(app_name=app, user_id="ann", session_id="s")
            await service.append_event(session, text("one"))
        with pytest.raises(MemorydError) as error:
            await service.append_event(session, text("two"))
        assert error.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        assert len(session.events) == 1

    run(use())


# Memory.


def test_memories_are_found_once_and_forgotten(server, app):
    memory = MemorydMemoryService(server.target)
    session = Session(id="s", app_name=app, user_id="ann", events=[
        text("I drink green tea.", id="a"), text("I live in Lisbon.", id="b"), Event(author="agent")])

    async def found(query: str, user: str = "ann") -> list[Any]:
        reply = await memory.search_memory(app_name=app, user_id=user, query=query)
        return [(one.id, one.content.parts[0].text, one.author) for one in reply.memories]

    async def use() -> None:
        for _ in range(2):
            await memory.add_session_to_memory(session)
        first, *others = await found("which tea?")
        assert first == ("a", "I drink green tea.", "user") and len(others) <= 1
        assert await found("which tea?", "bob") == [] == await found("  ")
        await memory.add_events_to_memory(
            app_name=app, user_id="ann", events=[text("Tea at five.", id="c")], session_id="s")
        await memory.add_memory(app_name=app, user_id="ann", memories=[
            MemoryEntry(content=types.Content(parts=[types.Part(text="Tea from Assam.")]))])
        # One that has none of the words may follow, since it resembles the query.
        assert {one[1] for one in (await found("tea"))[:3]} == {
            "I drink green tea.", "Tea at five.", "Tea from Assam."}
        await memory.delete_memory(app_name=app, user_id="ann", memory_id="a")
        await memory.add_session_to_memory(session)
        assert "a" not in [one[0] for one in await found("tea")]

    run(use())


# In ADK.


def test_the_example_goes_on_after_it_was_killed(store):
    with Server(store) as server:
        assert programs.run(server.target, str(EXAMPLE), server.target) == SAID


def test_the_example_goes_on_wherever_it_is_killed(store, killed_and_again):
    """Nothing is lost, doubled or orphaned before one and after the next of its calls."""
    with Server(store) as server:
        service = MemorydSessionService(server.target)
        for first, second in killed_and_again(EXAMPLE, server.target):
            session = run(service.get_session(app_name="shop", user_id="ann", session_id="tea"))
            # A turn that was cut is taken back: its events stay, and are told to no model.
            turns = [event for event in session.events if event.is_final_response()]
            assert [event.content.parts[0].text for event in turns if event.author != "user"] == [
                said.partition(" -> ")[2] for said in SAID]
            # An answer that was stored right before the kill is not told again.
            told = first + second
            assert told == sorted({*told}, key=SAID.index) and len(told) >= len(SAID) - 1
            run(service.delete_session(app_name="shop", user_id="ann", session_id="tea"))


def test_the_page():
    assert programs.page("GOOGLE_ADK.md") == ["1 {'likes': 'tea'}", "I drink tea."]
