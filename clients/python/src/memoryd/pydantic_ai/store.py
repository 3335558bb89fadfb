"""Pydantic AI's conversation store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.conversation_store import (
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from memoryd._adapters.connections import connection_of
from memoryd._adapters.outcomes import ended
from memoryd._connection import Connection
from memoryd.pydantic_ai._conversation_steps import ConversationSteps


class MemorydConversationStore(ConversationStore):
    """Keeps conversations in memoryd. Any number of objects and processes may share them.

    A conversation is a session of memoryd with the conversation's id, and its messages are the
    session's. So other clients read them and Query finds them, and a conversation that another
    framework began, or went on with, can be loaded here.

    Deleting a conversation deletes its messages. A fork has messages of its own, and keeps them.
    """

    def __init__(
        self,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("pydantic-ai",),
        template: str = "",
        **options: Any,
    ) -> None:
        """`target` and `options` are as for memoryd.Client; without `target` the address comes from
        the environment. `namespace` is the path of the items that the records are. `template` names
        a configuration on the server for the sessions of new conversations."""
        self._connection = connection_of(target, options)
        self._steps = ConversationSteps(namespace, template)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        found = await self._connection.async_client._steps(self._steps.read(conversation_id))
        return found.record

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Returns the stored records, the last saved first. What another framework has put into a
        conversation since is in no record of this list."""
        return await self._connection.async_client._steps(self._steps.listed(scope, limit))

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        await ended(self._connection.async_client._steps(
            self._steps.write(record, new_entries, expected_revision)))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Deletes a conversation's record, and its messages, also those of branches that it has
        left."""
        await ended(self._connection.async_client._steps(
            self._steps.delete(conversation_id, expected_revision)))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        (entry,) = await self.read_history(entry_id, limit=1)
        return entry

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Returns the entries up to `head_id`, oldest first, or the last `limit` of them. Those
        that retention or DeleteMessage has removed are not among them."""
        if head_id is None:
            return []
        return await self._connection.async_client._steps(self._steps.history(head_id, limit))
