"""What the deprecated memories with a chat store have in common."""

from __future__ import annotations

import inspect
import uuid
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore

from memoryd.llama_index import _background
from memoryd.llama_index._target import default_uri
from memoryd.llama_index.chat_store import ChatStore


class _NotGiven(str):
    """The library's default for a key, to be told from the same key that a caller gives."""


NO_KEY = _NotGiven(DEFAULT_CHAT_STORE_KEY)


def own_key() -> str:
    """A key that no other object has, and that nobody can guess."""
    return f"{DEFAULT_CHAT_STORE_KEY}-{uuid.uuid4().hex}"


def place_of(chat_store: BaseChatStore | None, chat_store_key: str) -> tuple[BaseChatStore, str]:
    """The store and the key of a memory that was given these. Without a store it is the memoryd of
    MEMORYD_URI, else the library's. A memoryd that was not named is everybody's, so that a memory
    without a key has one of its own there."""
    if chat_store is None and default_uri() is not None:
        return ChatStore(), own_key() if chat_store_key is NO_KEY else chat_store_key
    store = SimpleChatStore() if chat_store is None else chat_store
    return store, str(chat_store_key)


def placed(values: Any) -> Any:
    """The values that a memory is made or loaded from, with its store and its key."""
    if not isinstance(values, dict):
        return values
    values = dict(values)
    store = loaded_store(values.get("chat_store"))
    if store is None:
        store, values["chat_store_key"] = place_of(None, values.get("chat_store_key", NO_KEY))
    values["chat_store"] = store
    return values


def loaded_store(store: Any) -> Any:
    """The store of a dump, if it is ours; anything else as it is."""
    if isinstance(store, dict) and store.get("class_name") == ChatStore.class_name():
        return ChatStore.from_dict(dict(store))
    return store


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
        if isinstance(loaded_store(store), ChatStore):
            further = {name: value for name, value in data.items()
                       if name not in ("class_name", "llm")}
            return cls(**{**further, **kwargs})
        return super().from_dict(data, **kwargs)  # type: ignore[misc]
