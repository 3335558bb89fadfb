"""The deprecated VectorMemory, with its messages in memoryd."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import (
    Field,
    PrivateAttr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from llama_index.core.embeddings.utils import EmbedType
from llama_index.core.memory import VectorMemory as LibraryVectorMemory
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from memoryd._ids import Id, id_text
from memoryd.llama_index._stored import NO_KEY, loaded_store, own_key, settled
from memoryd.llama_index._target import default_uri
from memoryd.llama_index.chat_store import ChatStore


class VectorMemory(LibraryVectorMemory):
    """The library's class, with its messages in a chat store. A new process makes the index from
    them: each turn is embedded once, at the first use.

    Without a chat store it uses the ChatStore of MEMORYD_TARGET, if that is set. If it is not set,
    or with a vector store, which keeps its own texts, only the index contains the messages. Without
    a `chat_store_key` the memory has a key of its own in any store. A dump keeps both.
    """

    chat_store: BaseChatStore | None = Field(default=None, exclude=True)
    chat_store_key: str = Field(default_factory=own_key)

    _filled: bool = PrivateAttr(default=False)
    _commits: bool = PrivateAttr(default=True)

    @classmethod
    def from_defaults(
        cls,
        vector_store: BasePydanticVectorStore | None = None,
        embed_model: EmbedType | None = None,
        index_kwargs: dict[str, Any] | None = None,
        retriever_kwargs: dict[str, Any] | None = None,
        chat_store: BaseChatStore | None = None,
        chat_store_key: Id = NO_KEY,
        **kwargs: Any,
    ) -> VectorMemory:
        if chat_store is not None and vector_store is not None:
            raise ValueError("chat_store: a vector_store keeps the messages itself")
        made = super().from_defaults(
            vector_store=vector_store,
            embed_model=embed_model,
            index_kwargs=index_kwargs,
            retriever_kwargs=retriever_kwargs,
            **kwargs,
        )
        assert isinstance(made, cls)
        if chat_store is None and vector_store is None and default_uri() is not None:
            chat_store = ChatStore()
        made.chat_store = chat_store
        if chat_store_key is not NO_KEY:
            made.chat_store_key = id_text(chat_store_key)
        return made

    @model_validator(mode="before")
    @classmethod
    def _load_store(cls, values: Any) -> Any:
        if isinstance(values, dict) and "chat_store" in values:
            return {**values, "chat_store": loaded_store(values["chat_store"])}
        return values

    @model_serializer(mode="wrap")
    def custom_model_dump(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        data["class_name"] = self.class_name()
        if self.chat_store is not None:
            store = self.chat_store
            data["chat_store"] = {**store.model_dump(), "class_name": store.class_name()}
        return data

    def get(
        self, input: str | None = None, initial_token_count: int = 0, **kwargs: Any
    ) -> list[ChatMessage]:
        self._fill()
        messages: list[ChatMessage] = super().get(input, initial_token_count, **kwargs)
        return messages

    def put(self, message: ChatMessage) -> None:
        self._fill()
        if self.chat_store is not None:
            settled(self.chat_store.add_message(self.chat_store_key, message))
        super().put(message)

    def set(self, messages: list[ChatMessage]) -> None:
        self._filled = True
        if self.chat_store is not None:
            settled(self.chat_store.set_messages(self.chat_store_key, messages))
        self.vector_index.vector_store.clear()
        for message in messages:
            super().put(message)

    def reset(self) -> None:
        self._filled = True
        if self.chat_store is not None:
            settled(self.chat_store.delete_messages(self.chat_store_key))
        super().reset()

    def _fill(self) -> None:
        """Puts what the chat store has into the index, once."""
        if self._filled or self.chat_store is None:
            return
        if self.vector_index.index_struct.nodes_dict:
            # A copy of a memory, or what was loaded from its dump, has the same index.
            self._filled = True
            return
        stored = settled(self.chat_store.get_messages(self.chat_store_key))
        self._filled = True
        for message, later in zip(stored, [*stored[1:], None], strict=False):
            # A batch is embedded when it is whole.
            self._commits = later is None or self._begins(later)
            super().put(message)
        self._commits = True

    def _commit_node(self, override_last: bool = False) -> None:
        if self._commits:
            super()._commit_node(override_last)

    def _begins(self, message: ChatMessage) -> bool:
        """Whether a message begins a batch."""
        return not self.batch_by_user_message or message.role in (
            MessageRole.USER, MessageRole.SYSTEM)
