"""pytest plugin that puts memoryd.openai_agents' session in the place of the SDK's own.

What the tests name a database is part of the session's id; each database in memory is a new one.
"""

from __future__ import annotations

import hashlib
import sys
import uuid
from typing import Any

import agents
import agents.extensions.memory
import agents.extensions.memory.async_sqlite_session
import agents.extensions.memory.redis_session
import agents.extensions.memory.sqlalchemy_session
import agents.memory.sqlite_session

from memoryd.openai_agents import MemorydSession

_RUN = uuid.uuid4().hex


def _id(session_id: str, *place: Any) -> str:
    return hashlib.sha256(repr((_RUN, *place, session_id)).encode()).hexdigest()


class Session(MemorydSession):
    """A session of memoryd in the place of one in SQLite."""

    def __init__(
        self, session_id: str, db_path: Any = ":memory:", *tables: str, session_settings: Any = None,
        sessions_table: str = "", messages_table: str = "",
    ) -> None:
        place = uuid.uuid4().hex if str(db_path) == ":memory:" else str(db_path)
        super().__init__(_id(session_id, place, *tables, sessions_table, messages_table),
                         session_settings=session_settings)

    def close(self) -> None:
        """Connections are shared, and stay."""


class AsyncSession(Session):
    """The same in the place of the one that is closed by a coroutine."""

    async def close(self) -> None:  # type: ignore[override]
        """Connections are shared, and stay."""


class EngineSession(MemorydSession):
    """A session of memoryd in the place of one of SQLAlchemy."""

    def __init__(
        self, session_id: str, *, engine: Any = None, session_settings: Any = None, **_: Any
    ) -> None:
        self.engine = engine  # Lives as long, so that no other has its identity.
        place = uuid.uuid4().hex if engine is None else id(engine)
        super().__init__(_id(session_id, place), session_settings=session_settings)

    @classmethod
    def from_url(cls, session_id: str, *, url: str, **named: Any) -> EngineSession:
        named.pop("engine_kwargs", None)
        made = cls(session_id, **named)
        if ":memory:" not in url:
            made.session_id = _id(session_id, url)
        return made


class RedisSession(MemorydSession):
    """A session of memoryd in the place of one in Redis."""

    def __init__(
        self, session_id: str, *, redis_client: Any, key_prefix: str = "", ttl: int | None = None,
        session_settings: Any = None,
    ) -> None:
        self.client = redis_client  # Lives as long, so that no other has its identity.
        super().__init__(_id(session_id, id(redis_client), key_prefix),
                         session_settings=session_settings)

    async def close(self) -> None:
        """The client is the test's, and stays."""


_REPLACED = {
    agents.memory.sqlite_session.SQLiteSession: Session,
    agents.extensions.memory.async_sqlite_session.AsyncSQLiteSession: AsyncSession,
    agents.extensions.memory.sqlalchemy_session.SQLAlchemySession: EngineSession,
    agents.extensions.memory.redis_session.RedisSession: RedisSession,
}


def _put_in_place() -> int:
    """Wherever a module of the SDK holds one of these, it then holds ours."""
    names = {theirs.__name__: ours for theirs, ours in _REPLACED.items()}
    count = 0
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "agents":
            continue
        for attribute, ours in names.items():
            if vars(module).get(attribute) in _REPLACED:
                setattr(module, attribute, ours)
                count += 1
    agents.SQLiteSession = Session
    agents.memory.SQLiteSession = Session
    return count


_count = _put_in_place()
assert _count >= len(_REPLACED)


def pytest_report_header() -> str:
    return f"memoryd: {_count} names of the SDK's modules are memoryd.openai_agents'"
