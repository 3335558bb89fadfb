"""Memory of as many messages as a number of tokens allows."""

from __future__ import annotations

from typing import Any

from langchain_classic.memory import chat_memory, token_buffer
from langchain_core.messages import BaseMessage

from memoryd.langchain.base import BaseChatMemory


class ConversationTokenBufferMemory(BaseChatMemory, token_buffer.ConversationTokenBufferMemory):
    """LangChain's, in memoryd: what is over the limit is deleted, the oldest first.

    As there, `asave_context` deletes nothing. The session's blocks forget what they know when
    something is deleted; its contents stay.
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
