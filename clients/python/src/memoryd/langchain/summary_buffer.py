"""Memory of the latest messages, and of a summary of those before."""

from __future__ import annotations

from typing import Any

from langchain_classic.memory import summary_buffer as library
from langchain_core.messages import BaseMessage, get_buffer_string

from memoryd.langchain.base import BaseChatMemory
from memoryd.langchain.chat_history import Snapshot
from memoryd.langchain.messages import from_message
from memoryd.langchain.state import Values
from memoryd.v1 import memory_pb2 as memory

_SUMMARY = "moving_summary_buffer"
# Id of the last message that is in the summary. Those up to it are no longer said: they are deleted
# after the summary is stored, and a crash between the two must not show them twice.
_SUMMARISED = "summarised_to"


class ConversationSummaryBufferMemory(BaseChatMemory, library.ConversationSummaryBufferMemory):
    """LangChain's class in memoryd: `moving_summary_buffer` is in the session
    `<session_id>/summary-buffer`.

    Messages are deleted once the summary of them is stored. If the model fails, the messages stay
    here, while the library loses them. The session's blocks lose their knowledge when a message is
    deleted; its contents stay.
    """

    _kept = frozenset({_SUMMARY})
    _kept_in = "summary-buffer"

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self._history is None or self._state is None:
            return super().load_memory_variables(inputs)
        values, _ = self._state.read()
        stored = self._history.messages_as_stored()
        return self._variables(values, stored, self._history.shown(stored, headless=False))

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self._history is None or self._state is None:
            return await super().aload_memory_variables(inputs)
        values, _ = await self._state.aread()
        stored = await self._history.amessages_as_stored()
        # What a summary goes before may begin with an answer, as in the library.
        shown = await self._history.ashown(stored, headless=False)
        return self._variables(values, stored, shown)

    def prune(self) -> None:
        history, state = self._history, self._state
        if history is None or state is None:
            super().prune()
            return
        while True:
            values, revision = state.read()
            snapshot = history.snapshot()
            leaving, staying = self._divide(values, snapshot)
            if leaving:
                summary = self.predict_new_summary(leaving, values.get(_SUMMARY, ""))
                if not state.write(_summarised(values, summary, snapshot, staying), revision):
                    continue
            if history.keep_newest(snapshot, staying):
                return

    async def aprune(self) -> None:
        history, state = self._history, self._state
        if history is None or state is None:
            await super().aprune()
            return
        while True:
            values, revision = await state.aread()
            snapshot = await history.asnapshot()
            leaving, staying = self._divide(values, snapshot)
            if leaving:
                summary = await self.apredict_new_summary(leaving, values.get(_SUMMARY, ""))
                changed = _summarised(values, summary, snapshot, staying)
                if not await state.awrite(changed, revision):
                    continue
            if await history.akeep_newest(snapshot, staying):
                return

    async def aclear(self) -> None:
        if self._state is None:
            await super().aclear()
            return
        await self.chat_memory.aclear()
        await self._state.achange(lambda values: values.update({_SUMMARY: ""}))

    def _divide(self, values: Values, snapshot: Snapshot) -> tuple[list[BaseMessage], int]:
        """The messages that must leave, and how many of the newest stay."""
        messages = [from_message(found) for found in _unsummarised(values, snapshot.messages)]
        leaving: list[BaseMessage] = []
        while self.llm.get_num_tokens_from_messages(messages) > self.max_token_limit:
            leaving.append(messages.pop(0))
        return leaving, len(messages)

    def _variables(
        self, values: Values, stored: list[memory.Message], shown: list[memory.Message]
    ) -> dict[str, Any]:
        ids = {found.message_id for found in shown}
        messages = [from_message(found) for found in _unsummarised(values, stored)
                    if found.message_id in ids]
        summary = values.get(_SUMMARY, "")
        if summary:
            messages.insert(0, self.summary_message_cls(content=summary))
        if self.return_messages:
            return {self.memory_key: messages}
        return {self.memory_key: get_buffer_string(
            messages, human_prefix=self.human_prefix, ai_prefix=self.ai_prefix)}


def _unsummarised(values: Values, stored: list[memory.Message]) -> list[memory.Message]:
    ids = [found.message_id for found in stored]
    last = values.get(_SUMMARISED)
    return stored[ids.index(last) + 1:] if last in ids else stored


def _summarised(values: Values, summary: str, snapshot: Snapshot, staying: int) -> Values:
    last = snapshot.messages[len(snapshot.messages) - staying - 1]
    return {**values, _SUMMARY: summary, _SUMMARISED: last.message_id}
