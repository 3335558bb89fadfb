"""Memory of the entities that a conversation names."""

from __future__ import annotations

from typing import Any

from langchain_classic.memory import entity as library

from memoryd._ids import Id
from memoryd.langchain.base import BaseChatMemory
from memoryd.langchain.chat_history import ChatMessageHistory
from memoryd.langchain.connection import Connection
from memoryd.langchain.entity_stores import EntityStore


class ConversationEntityMemory(BaseChatMemory, library.ConversationEntityMemory):
    """LangChain's class in memoryd. Entities are in the session `<session_id>/entities` unless it
    is given an `entity_store`; `entity_cache` is in `<session_id>/entity-cache`.

    As in the library, `asave_context` writes no entities, and `aclear` leaves entities and cache.
    """

    _kept = frozenset({"entity_cache"})
    _kept_in = "entity-cache"

    def __init__(
        self,
        *,
        session_id: Id | None = None,
        target: str | Connection | None = None,
        template: str = "",
        **fields: Any,
    ) -> None:
        history = fields.get("chat_memory")
        if history is None:
            history = fields["chat_memory"] = ChatMessageHistory(
                session_id, target=target, template=template)
            template = ""
        if isinstance(history, ChatMessageHistory):
            session_id = history.session_id if session_id is None else session_id
            target = history.target if target is None else target
        if session_id is not None and fields.get("entity_store") is None:
            fields["entity_store"] = EntityStore(f"{session_id}/entities", target=target)
        super().__init__(session_id=session_id, target=target, template=template, **fields)

    def clear(self) -> None:
        self.chat_memory.clear()
        self.entity_cache = []
        self.entity_store.clear()
