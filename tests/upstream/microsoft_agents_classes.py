"""pytest plugin that puts memoryd.agent_framework's providers in the place of those in Redis.

The tests' Redis is a mock. What they have it answer is stored in memoryd before the first read, and
what memoryd has more after a write is told to the mock.
"""

from __future__ import annotations

import json
import sys
import types
import uuid
from collections.abc import Sequence
from typing import Any

from agent_framework import Message

from memoryd.agent_framework import MemorydContextProvider, MemorydHistoryProvider
from memoryd.users import session_of


class History(MemorydHistoryProvider):
    """A history in memoryd in the place of one in Redis."""

    def __init__(
        self, source_id: str, redis_url: str, *, max_messages: int | None = None, **named: Any
    ) -> None:
        super().__init__(source_id=source_id, limit=max_messages, **named)
        self._redis = _histories.redis.from_url(redis_url)
        self._run = uuid.uuid4().hex

    async def get_messages(self, session_id: str | None, **named: Any) -> list[Message]:
        name = f"{self._run}/{session_id}"
        told = await self._redis.lrange(name, 0, -1)
        await super().save_messages(name, [Message.from_dict(json.loads(one)) for one in told])
        return await super().get_messages(name, **named)

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], **named: Any
    ) -> None:
        name = f"{self._run}/{session_id}"
        before = await super().get_messages(name)
        await super().save_messages(name, messages, **named)
        more = (await super().get_messages(name))[len(before):]
        assert [one.to_dict() for one in more] == [one.to_dict() for one in messages]
        if more:
            async with self._redis.pipeline() as pipeline:
                for one in more:
                    await pipeline.rpush(name, json.dumps(one.to_dict()))
                await pipeline.execute()


class Memory(MemorydContextProvider):
    """A memory in memoryd in the place of an index of Redis."""

    def __init__(self, source_id: str, *, user_id: str, **_: Any) -> None:
        super().__init__(f"{user_id} {uuid.uuid4()}", source_id=source_id)
        self._index = _contexts.AsyncSearchIndex.from_dict({})

    async def before_run(self, **named: Any) -> None:
        told = [one["content"] for one in self._index.query.return_value]
        if told:
            await self._connection.async_client.remember(self._user, told)
        await super().before_run(**named)

    async def after_run(self, **named: Any) -> None:
        await super().after_run(**named)
        found = [one async for one in self._connection.async_client.get_all(
            session_of(self._user))]
        if found:
            await self._index.load([{"role": one.role, "content": one.text} for one in found])


def _module(name: str, **values: Any) -> Any:
    made = types.ModuleType(name)
    vars(made).update(values)
    sys.modules[name] = made
    return made


# The tests put mocks in the place of what these hold.
_histories = _module("agent_framework_redis._history_provider", RedisHistoryProvider=History,
                     redis=types.SimpleNamespace(from_url=None))
_contexts = _module("agent_framework_redis._context_provider", RedisContextProvider=Memory,
                    AsyncSearchIndex=None)
_module("agent_framework_redis", _history_provider=_histories, _context_provider=_contexts)
_module("agent_framework_redis._feature_usage", FeatureIndex=None)


def pytest_report_header() -> str:
    return "memoryd: providers in Redis are memoryd.agent_framework's"
