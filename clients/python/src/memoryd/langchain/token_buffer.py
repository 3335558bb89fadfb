"""Memory of as many messages as fit into a number of tokens."""

from __future__ import annotations

from typing import Any

from langchain_classic.memory import chat_memory, token_buffer
from langchain_core.messages import BaseMessage

from memoryd.langchain.base import BaseChatMemory


class ConversationTokenBufferMemory(BaseChatMemory, token_buffer.ConversationTokenBufferMemory):
    """LangChain's class in memoryd: messages beyond the limit are deleted, the oldest first.

    As in the library, `asave_context` deletes nothing. The session's blocks lose their knowledge
    when a message is deleted; its contents stay.
    """

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, str]) -> None:
        if self._history is None:
            super().save_context(inputs, outputs)
            return
        chat_memory.BaseChatMemory.save_context(self, inputs, outputs)
        self._history.edit(self._prune)

    def _prune(self, messages: list[BaseMessage]) -> None:
        while self.llm.get_num_tokens_from_messages(messages) > self.max_token_limit:
            messages.pop(0)
