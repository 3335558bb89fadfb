"""Memory of the latest messages, and of earlier ones that resemble the question."""

from __future__ import annotations

import datetime
from typing import Any

from langchain_classic.memory import chat_memory
from langchain_classic.memory import vectorstore_token_buffer_memory as library
from langchain_core.messages import BaseMessage

from memoryd.langchain.base import BaseChatMemory

_KEPT = "timestamps"


class ConversationVectorStoreTokenBufferMemory(
    BaseChatMemory, library.ConversationVectorStoreTokenBufferMemory
):
    """LangChain's class in memoryd. The times of turns are in the session
    `<session_id>/vector-store-buffer`. Messages that leave go to the caller's vector store, as in
    the library.

    A turn that the vector store refuses stays here, while the library loses it. As in the library,
    `clear` leaves the times of deleted turns, and `asave_context` records none, so the next
    deletion misses them. The session's blocks lose their knowledge when a message is deleted.
    """

    _kept_in = "vector-store-buffer"

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, str]) -> None:
        if self._history is None or self._state is None:
            super().save_context(inputs, outputs)
            return
        chat_memory.BaseChatMemory.save_context(self, inputs, outputs)
        clock = library.datetime  # type: ignore[attr-defined]  # That of the library, whatever it is.
        now = _dump(clock.now().astimezone())
        self._state.change(lambda values: values.setdefault(_KEPT, []).append(now))
        self._leave(self._over_limit)

    def save_remainder(self) -> None:
        if self._history is None or self._state is None:
            super().save_remainder()
            return
        self._leave(bool)

    def _over_limit(self, messages: list[BaseMessage]) -> bool:
        tokens: int = self.llm.get_num_tokens_from_messages(messages)
        return tokens > self.max_token_limit

    def _leave(self, must: Any) -> None:
        """Moves turns into the vector store, the oldest first, while `must(messages)`."""
        assert self._history is not None and self._state is not None
        left = 0

        def change(messages: list[BaseMessage]) -> None:
            nonlocal left
            values, _ = state.read()
            self._timestamps = [_load(dump) for dump in values.get(_KEPT, [])]
            known = len(self._timestamps)
            try:
                while must(messages):
                    self._pop_and_store_interaction(messages)
            finally:
                left = known - len(self._timestamps)

        state = self._state
        try:
            self._history.edit(change)
        finally:
            if left:
                state.change(lambda values: values.update({_KEPT: values[_KEPT][left:]}))

    def _pop_and_store_interaction(self, buffer: list[BaseMessage]) -> None:
        messages, times = list(buffer), list(self._timestamps)
        try:
            super()._pop_and_store_interaction(buffer)
        except IndexError:
            raise  # There was no turn, or no time of it.
        except Exception:
            buffer[:], self._timestamps[:] = messages, times
            raise


def _dump(time: datetime.datetime) -> list[str | None]:
    return [time.isoformat(), time.tzname()]


def _load(dump: list[str]) -> datetime.datetime:
    """With the name of its zone, which is part of what is said."""
    time = datetime.datetime.fromisoformat(dump[0])
    offset = time.utcoffset()
    if offset is None or dump[1] is None:
        return time
    return time.replace(tzinfo=datetime.timezone(offset, dump[1]))
