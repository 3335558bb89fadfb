"""The session of OpenAI's Agents SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from agents import SessionSettings, TResponseInputItem
from agents.memory import SessionABC
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from memoryd._adapters import own_forms, session_steps
from memoryd._adapters.connections import connection_of
from memoryd._adapters.outcomes import ended
from memoryd._connection import Connection
from memoryd._ids import Id, id_text
from memoryd._steps import Steps
from memoryd.openai_agents._items import FORM
from memoryd.v1 import memory_pb2 as memory

_Items = list[TResponseInputItem]


class MemorydSession(SessionABC):
    """Keeps the items of a conversation in a session of memoryd. Any number of objects and
    processes may share it.

    Items come back as they were added, as JSON. Texts, calls, results, reasoning and images are
    parts of memoryd's messages, so other clients of the session read them and Query finds them.
    Messages that another framework put into the session are read as items.
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: Id,
        target: str | Connection | None = None,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        template: str = "",
        subject: str = "",
        **options: Any,
    ) -> None:
        """`session_id` is memoryd's; a UUID or an int is taken as its text. `target` and `options`
        are as for memoryd.Client; without `target` the address comes from the environment. Objects
        with the same ones share a connection.

        `session_settings` has the most items to read, as for the SDK's other sessions. `template`
        names a configuration on the server, and `subject` the user whose data the items are, for a
        session that this object creates. An existing session keeps its own."""
        self.session_id = id_text(session_id)
        self.session_settings = coerce_session_settings(session_settings or {})
        self._connection = connection_of(target, options)
        self._template = template
        self._subject = subject
        self._is_begun = not template and not subject

    async def get_items(self, limit: int | None = None) -> _Items:
        """Returns all items, oldest first, or the newest `limit`; without one the limit of
        `session_settings` holds. A negative limit is none, as in the SDK's own session."""
        limit = resolve_session_limit(limit, self.session_settings)
        return await self._connection.async_client._steps(
            self._items(None if limit is None or limit < 0 else limit))

    async def add_items(self, items: _Items) -> None:
        """Appends the items, all or none; more than 1,000 at once by several calls. Raises
        TypeError for what JSON does not have. A caller that is cancelled learns it once the write
        has ended."""
        messages = [own_forms.stored(FORM, own_forms.json_value(item)) for item in items]
        if messages:
            await ended(self._connection.async_client._steps(self._appended(messages)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the last item and returns it; None if there is none. Of several callers each gets
        another item."""
        return await ended(self._connection.async_client._steps(self._popped()))

    async def clear_session(self) -> None:
        """Removes all items. The session's configuration, and what its blocks know, stay."""
        await ended(self._connection.async_client._steps(session_steps.cleared(self.session_id)))

    def _items(self, limit: int | None) -> Steps[_Items]:
        if limit is None:
            return cast("_Items", _values((yield from session_steps.every(self.session_id))))
        if limit == 0:
            return []
        back = session_steps.Backwards(self.session_id, limit)
        found: list[Any] = []
        least = limit
        while len(found) < limit and not back.is_over:
            yield from back.page()
            if back.count >= least or back.is_over:
                found = _values(back.messages)
                least = back.count + limit - len(found)
        return cast("_Items", found[-limit:])

    def _appended(self, messages: Sequence[memory.Message]) -> Steps[None]:
        if not self._is_begun:
            config = memory.SessionConfig(subject=self._subject) if self._subject else None
            yield from session_steps.begun(
                self.session_id, template=self._template, config=config)
            self._is_begun = True
        yield from session_steps.appended(self.session_id, messages)

    def _popped(self) -> Steps[TResponseInputItem | None]:
        found = yield from session_steps.popped(self.session_id, _counts)
        if found is None:
            return None
        message, index = found
        (one,) = own_forms.read(FORM, [message])
        return cast("TResponseInputItem", one.values[index])


def _values(messages: Sequence[memory.Message]) -> list[Any]:
    read = own_forms.read(FORM, messages)
    left = session_steps.left(messages, [len(one.values) for one in read])
    return [value for one, count in zip(read, left, strict=True) for value in one.values[:count]]


def _counts(messages: Sequence[memory.Message]) -> list[int]:
    return [len(one.values) for one in own_forms.read(FORM, messages)]
