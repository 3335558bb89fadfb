#!/usr/bin/env python3
"""Sessions of the OpenAI Agents SDK and of Google ADK in memoryd beside those that the two have.

    build/bench-venv/bin/python tests/benchmark/sessions.py [--rounds 5] [--seconds 3]
        [--callers 1 8] [--messages 20] [--only add append] [--folder /dev/shm] [--binary PATH]

How it measures is said in beside.py. The others are SQLAlchemySession and DatabaseSessionService
over asyncpg, with a connection for each caller. Each caller has a session of its own.

  add      Agents SDK: add_items of one item
  items    Agents SDK: get_items of a session of 20
  turn     Agents SDK: what Runner asks for in one turn: get_items of the 20 newest, then add_items
           of the user's and of the assistant's item; the figure counts each call
  append   ADK: append_event of one event
  load     ADK: get_session of a session of 20 events
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import beside
import callers

APP, USER = "sessions", "user"


def item(role: str) -> Any:
    return {"role": role, "content": callers.TEXT}


def their_agents(database: str, count: int) -> beside.Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from agents.extensions.memory.sqlalchemy_session import SQLAlchemySession

        engine = asyncpg_engine(database, count)
        stack.push_async_callback(engine.dispose)

        def session() -> Any:
            return SQLAlchemySession(uuid.uuid4().hex, engine=engine, create_tables=True)

        return session

    return open_one


def asyncpg_engine(database: str, count: int) -> Any:
    from sqlalchemy.ext.asyncio import create_async_engine

    return create_async_engine(asyncpg(database), pool_size=count)


def asyncpg(database: str) -> str:
    return database.replace("postgresql://", "postgresql+asyncpg://")


def our_agents(target: str) -> beside.Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from memoryd.openai_agents import Connection, MemorydSession

        connection = Connection(target)
        stack.push_async_callback(connection.async_client.close)
        return lambda: MemorydSession(uuid.uuid4().hex, connection)

    return open_one


async def adds(session: Any, _: int) -> Callable[[], Awaitable[object]]:
    made = session()
    return lambda: made.add_items([item("user")])


async def filled(session: Any, messages: int) -> Any:
    made = session()
    await made.add_items([item("user"), item("assistant")] * (messages // 2))
    return made


async def reads(session: Any, messages: int) -> Callable[[], Awaitable[object]]:
    made = await filled(session, messages)

    async def read() -> None:
        callers.expect(messages, await made.get_items())

    return read


async def turns(session: Any, messages: int) -> Callable[[], Awaitable[object]]:
    made = await filled(session, messages)

    async def turn() -> None:
        callers.expect(messages, await made.get_items(limit=messages))
        await made.add_items([item("user")])
        await made.add_items([item("assistant")])

    return turn


def their_adk(database: str, count: int) -> beside.Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from google.adk.sessions import DatabaseSessionService

        return await stack.enter_async_context(
            DatabaseSessionService(asyncpg(database), pool_size=count))

    return open_one


def our_adk(target: str) -> beside.Open:
    async def open_one(stack: contextlib.AsyncExitStack) -> Any:
        from memoryd.google_adk import Connection, MemorydSessionService

        connection = Connection(target)
        stack.push_async_callback(connection.async_client.close)
        return MemorydSessionService(connection)

    return open_one


def event() -> Any:
    from google.adk.events import Event
    from google.genai import types

    return Event(author="user", invocation_id=uuid.uuid4().hex,
                 content=types.Content(role="user", parts=[types.Part(text=callers.TEXT)]))


async def appends(service: Any, _: int) -> Callable[[], Awaitable[object]]:
    session = await service.create_session(app_name=APP, user_id=USER)

    async def append() -> None:
        await service.append_event(session, event())
        session.events.clear()  # A session that grows is not what is measured.

    return append


async def loads(service: Any, messages: int) -> Callable[[], Awaitable[object]]:
    session = await service.create_session(app_name=APP, user_id=USER)
    for _ in range(messages):
        await service.append_event(session, event())

    async def load() -> None:
        found = await service.get_session(app_name=APP, user_id=USER, session_id=session.id)
        callers.expect(messages, found.events)

    return load


LEGS = {
    "add": beside.Leg(their_agents, our_agents, adds),
    "items": beside.Leg(their_agents, our_agents, reads),
    "turn": beside.Leg(their_agents, our_agents, turns, 3),
    "append": beside.Leg(their_adk, our_adk, appends),
    "load": beside.Leg(their_adk, our_adk, loads)}

if __name__ == "__main__":
    beside.main(__doc__, "the library's", LEGS)
