"""The context provider of Microsoft's Agent Framework that remembers a user."""

from __future__ import annotations

import datetime
from typing import Any

from agent_framework import (
    AgentSession,
    ContextProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
)

from memoryd import users
from memoryd._adapters.connections import connection_of
from memoryd._adapters.outcomes import ended
from memoryd._connection import Connection
from memoryd.v1 import memory_pb2 as memory

_REMEMBERED = ("user", "assistant")


class MemorydContextProvider(ContextProvider):
    """Remembers what is said in the sessions of a user, and tells the model what matches the next
    input, from whichever session. See `memoryd.users`: `remember` and `recall` of any client share
    this memory.

    It keeps no history: a MemorydHistoryProvider beside it does.
    """

    def __init__(
        self,
        user: str,
        target: str | Connection | None = None,
        *,
        source_id: str = "memoryd_memory",
        limit: int = 5,
        memory_template: str = "",
        **options: Any,
    ) -> None:
        """`user` names whose memory it is. `target` and `options` are as for memoryd.Client;
        without `target` the address comes from the environment. At most `limit` messages and facts
        are told. `memory_template` names a configuration on the server for the user's memory, such
        as one with a block of facts, if this object creates it.

        Raises TypeError if the user is no str, and ValueError for one that is empty or longer than
        256 bytes."""
        super().__init__(source_id)
        users.session_of(user)
        self._user = user
        self._limit = limit
        self._memory_template = memory_template
        self._connection = connection_of(target, options)

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Adds a message with what is known of the user and matches the input. What the context
        contains already is left out."""
        query = "\n".join(message.text for message in context.input_messages)
        if not query.strip():
            return
        known = {message.text for message in context.get_messages(include_input=True)}
        found = await self._connection.async_client.recall(
            self._user, query, top_k=self._limit, passages=True)
        hits = [hit for hit in found if hit.text.strip() and hit.text not in known]
        if hits:
            told = users._recall_text(hits, datetime.timezone.utc)
            context.extend_messages(self, [Message("user", [told])])

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Remembers the texts of the input and of the answer, all or none. A caller that is
        cancelled learns it after the write has ended."""
        answer = context.response.messages if context.response else []
        said = [memory.Message(role=message.role, text=message.text)
                for message in (*context.input_messages, *answer)
                if message.role in _REMEMBERED and message.text.strip()]
        if said:
            await ended(self._connection.async_client.remember(
                self._user, said, memory_template=self._memory_template))
