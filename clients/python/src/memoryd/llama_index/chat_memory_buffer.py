"""The deprecated ChatMemoryBuffer, with its messages in memoryd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr, model_validator
from llama_index.core.llms.llm import LLM
from llama_index.core.memory import ChatMemoryBuffer as LibraryBuffer
from llama_index.core.storage.chat_store import BaseChatStore

from memoryd._ids import Id, id_text
from memoryd.llama_index._stored import NO_KEY, StoredMessages, place_of, placed


class ChatMemoryBuffer(StoredMessages, LibraryBuffer):
    """The library's class, with any chat store. Without one it uses the ChatStore of MEMORYD_TARGET
    if that is set, with a key of its own unless `chat_store_key` is given. A dump keeps the key.

    It counts the joined text of the messages, which a session of memoryd does not. So this class
    decides which messages a `get` leaves out.
    """

    _object: str = PrivateAttr(default="")
    _needs_llm: bool = PrivateAttr(default=False)

    @model_validator(mode="before")
    @classmethod
    def _choose_place(cls, values: Any) -> Any:
        return placed(values)

    @classmethod
    def from_defaults(
        cls,
        chat_history: list[ChatMessage] | None = None,
        llm: LLM | None = None,
        chat_store: BaseChatStore | None = None,
        chat_store_key: Id = NO_KEY,
        token_limit: int | None = None,
        tokenizer_fn: Callable[[str], list[Any]] | None = None,
        **kwargs: Any,
    ) -> ChatMemoryBuffer:
        chat_store, key = place_of(chat_store, id_text(chat_store_key))
        made = super().from_defaults(
            llm=llm,
            chat_store=chat_store,
            chat_store_key=key,
            token_limit=token_limit,
            tokenizer_fn=tokenizer_fn,
            **kwargs,
        )
        assert isinstance(made, cls)
        if chat_history is not None:
            made.set(chat_history)
        return made
