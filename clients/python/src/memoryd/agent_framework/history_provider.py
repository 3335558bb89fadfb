"""The history provider of Microsoft's Agent Framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_framework import HistoryProvider, Message

from memoryd._adapters import own_forms, session_steps, turns
from memoryd._adapters.connections import connection_of
from memoryd._adapters.outcomes import ended
from memoryd._connection import Connection
from memoryd._ids import id_text
from memoryd._steps import Steps
from memoryd.agent_framework._messages import FORM
from memoryd.v1 import memory_pb2 as memory


class MemorydHistoryProvider(HistoryProvider):
    """Keeps the messages of agents' sessions in sessions of memoryd. Any number of objects, event
    loops and processes may share one.

    Messages come back as they were saved. Texts, calls, results, reasoning and media are parts of
    memoryd's messages, so other clients of the session read them and Query finds them. Messages
    that another framework put into the session are read as messages.
    """

    def __init__(
        self,
        target: str | Connection | None = None,
        *,
        source_id: str = "memoryd_history",
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
        limit: int | None = None,
        template: str = "",
        subject: str = "",
        **options: Any,
    ) -> None:
        """`target` and `options` are as for memoryd.Client; without `target` the address comes from
        the environment. The session's id in memoryd is that of the AgentSession.

        `limit` is the most messages that are read, the newest; None: all. With `skip_excluded`
        messages that a compaction has excluded are left out. `template` names a configuration on
        the server, and `subject` the user whose data the messages are, for sessions that this
        object creates. The other arguments are the framework's."""
        super().__init__(
            source_id, load_messages=load_messages, store_inputs=store_inputs,
            store_context_messages=store_context_messages, store_context_from=store_context_from,
            store_outputs=store_outputs)
        self.skip_excluded = skip_excluded
        self._connection = connection_of(target, options)
        self._limit = limit
        self._template = template
        self._subject = subject

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Returns the messages of a session, oldest first."""
        name = _session_of(session_id)
        found = await self._connection.async_client._steps(
            session_steps.newest(name, self._limit))
        messages = [
            Message.from_dict(value)
            for one in own_forms.read(FORM, turns.whole(found)) for value in one.values]
        if self.skip_excluded:
            messages = [one for one in messages
                        if not one.additional_properties.get("_excluded", False)]
        return messages

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Appends messages, all or none. A caller that is cancelled learns it after the write has
        ended."""
        name = _session_of(session_id)
        made = [own_forms.stored(FORM, own_forms.json_value(one.to_dict())) for one in messages]
        if made:
            await ended(self._connection.async_client._steps(self._saved(name, made)))

    def _saved(self, name: str, messages: list[memory.Message]) -> Steps[None]:
        if self._template or self._subject:
            config = memory.SessionConfig(subject=self._subject) if self._subject else None
            yield from session_steps.begun(name, template=self._template, config=config)
        yield from session_steps.appended(name, messages)


def _session_of(session_id: str | None) -> str:
    if not session_id:
        raise ValueError("session_id: memoryd needs one, since without it all conversations would "
                         "share a session. Run the agent with session=agent.create_session()")
    return id_text(session_id)
