"""The deprecated ChatSummaryMemoryBuffer, with its messages in memoryd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr, model_validator
from llama_index.core.llms.llm import LLM
from llama_index.core.memory import ChatSummaryMemoryBuffer as LibraryBuffer
from llama_index.core.storage.chat_store import BaseChatStore

from memoryd._ids import Id, id_text
from memoryd.llama_index._stored import NO_KEY, StoredMessages, place_of, placed


class ChatSummaryMemoryBuffer(StoredMessages, LibraryBuffer):
    """The library's class, with any chat store. Without one it uses the ChatStore of MEMORYD_TARGET
    if that is set, with a key of its own unless `chat_store_key` is given. A dump keeps the key.

    As in the library, a `get` asks the model and replaces the history by its result. The history is
    replaced at once, so a failing model loses nothing.
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
        summarize_prompt: str | None = None,
        count_initial_tokens: bool = False,
        **kwargs: Any,
    ) -> ChatSummaryMemoryBuffer:
        chat_store, key = place_of(chat_store, id_text(chat_store_key))
        made = super().from_defaults(
            llm=llm,
            chat_store=chat_store,
            chat_store_key=key,
            token_limit=token_limit,
            tokenizer_fn=tokenizer_fn,
            summarize_prompt=summarize_prompt,
            count_initial_tokens=count_initial_tokens,
            **kwargs,
        )
        assert isinstance(made, cls)
        if chat_history is not None:
            made.set(chat_history)
        return made

    def get(
        self, input: str | None = None, initial_token_count: int = 0, **kwargs: Any
    ) -> list[ChatMessage]:
        history = list(self.get_all())
        if not history:
            return []
        if self.count_initial_tokens and initial_token_count > self.token_limit:
            raise ValueError("Initial token count exceeds token limit")
        self._token_count = initial_token_count if self.count_initial_tokens else 0
        try:
            kept, old = self._split_messages_summary_or_full_text(history)
            if old and self.llm is None and self._needs_llm:
                raise LookupError(
                    "llm: the memory was loaded from a dump, which has not its model; give it to "
                    "from_dict, or assign it")
            if old and self.llm is not None:
                kept = [self._summarize_oldest_chat_history(old), *kept]
        finally:
            self._token_count = 0
        if old:
            self.set(kept)
        return kept
