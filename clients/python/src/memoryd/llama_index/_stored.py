"""What the deprecated memories with a chat store have in common."""

from __future__ import annotations

import inspect
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore

from memoryd.llama_index import _background
from memoryd.llama_index._target import default_uri
from memoryd.llama_index.chat_store import ChatStore


def default_store() -> BaseChatStore:
    """Where messages go when no store is given: the memoryd of MEMORYD_URI, else the library's."""
    return ChatStore() if default_uri() is not None else SimpleChatStore()


def settled(answer: Any) -> Any:
    """What a method of a chat store returned, also when called on an event loop."""
    return _background.wait(answer) if inspect.iscoroutine(answer) else answer


class StoredMessages:
    """The messages of a memory in its `chat_store`, under its `chat_store_key`. Synchronous methods
    work on an event loop too, where a ChatStore's are coroutines."""

    chat_store: BaseChatStore
    chat_store_key: str

    def get_all(self) -> list[ChatMessage]:
        messages: list[ChatMessage] = settled(self.chat_store.get_messages(self.chat_store_key))
        return messages

    def put(self, message: ChatMessage) -> None:
        settled(self.chat_store.add_message(self.chat_store_key, message))

    def set(self, messages: list[ChatMessage]) -> None:
        settled(self.chat_store.set_messages(self.chat_store_key, messages))

    def reset(self) -> None:
        settled(self.chat_store.delete_messages(self.chat_store_key))

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Any:
        """The memory of a dump. The library knows its own store only; ours is made here."""
        store = data.get("chat_store")
        if isinstance(store, dict) and store.get("class_name") == ChatStore.class_name():
            further = {name: value for name, value in data.items()
                       if name not in ("chat_store", "class_name", "llm")}
            chat_store = ChatStore.from_dict(dict(store))
            return cls(chat_store=chat_store, **further, **kwargs)  # type: ignore[call-arg]
        return super().from_dict(data, **kwargs)  # type: ignore[misc]
