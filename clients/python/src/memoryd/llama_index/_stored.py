"""What the deprecated memories with a chat store have in common."""

from __future__ import annotations

import inspect
import uuid
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore

from memoryd.llama_index import _background
from memoryd.llama_index._live import (
    LIVE,
    LostTokenizer,
    is_unchanged,
    name_of,
    named,
    needs_tokenizer_fn,
    signed,
)
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
    MEMORYD_TARGET, else the library's. A memoryd that was not named is everybody's, so that a
    memory without a key has one of its own there."""
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
    _object: str
    _needs_llm: bool

    def get_all(self) -> list[ChatMessage]:
        messages: list[ChatMessage] = settled(self.chat_store.get_messages(self.chat_store_key))
        return messages

    def put(self, message: ChatMessage) -> None:
        settled(self.chat_store.add_message(self.chat_store_key, message))

    def set(self, messages: list[ChatMessage]) -> None:
        settled(self.chat_store.set_messages(self.chat_store_key, messages))

    def reset(self) -> None:
        settled(self.chat_store.delete_messages(self.chat_store_key))

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The configuration, with memoryd as JSON has it; see from_dict."""
        store = self.chat_store
        if not isinstance(store, ChatStore) or store.client is None:
            data: dict[str, Any] = super().to_dict(**kwargs)  # type: ignore[misc]
            return data
        self._object = name_of(self, self._object)
        live = {
            "object": self._object,
            "needs_tokenizer_fn": needs_tokenizer_fn(self),
            "needs_llm": getattr(self, "llm", None) is not None,
        }
        dump = self.model_dump(**{"mode": "json", **kwargs})  # type: ignore[attr-defined]
        return signed({**dump, LIVE: live})

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Any:
        """The memory of a dump. With memoryd it is the object that was dumped where that is in this
        process, unless the dump was changed or `kwargs` are given. Else a `tokenizer_fn`, a model
        and credentials given in code are asked for, by a LookupError, when they are first needed.
        """
        store = loaded_store(data.get("chat_store"))
        if not isinstance(store, ChatStore):
            return super().from_dict(data, **kwargs)  # type: ignore[misc]
        live = data.get(LIVE, {})
        here = named(live)
        if isinstance(here, cls) and not kwargs and is_unchanged(data):
            return here
        values = {name: value for name, value in data.items()
                  if name not in ("class_name", "llm", LIVE)}
        values["chat_store"] = store
        if live.get("needs_tokenizer_fn"):
            values["tokenizer_fn"] = (
                here.tokenizer_fn  # type: ignore[attr-defined]
                if isinstance(here, cls) else LostTokenizer())
        if live.get("needs_llm") and isinstance(here, cls):
            values["llm"] = here.llm  # type: ignore[attr-defined]
        made = cls(**{**values, **kwargs})
        made._needs_llm = bool(live.get("needs_llm"))
        return made
