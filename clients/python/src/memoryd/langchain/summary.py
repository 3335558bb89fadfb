"""Memory that is a summary, rewritten with each turn."""

from __future__ import annotations

from typing import Any

from langchain_classic.memory import summary as library
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AIMessage, HumanMessage

from memoryd.langchain.base import BaseChatMemory

SummarizerMixin = library.SummarizerMixin


class ConversationSummaryMemory(BaseChatMemory, library.ConversationSummaryMemory):
    """LangChain's class in memoryd: `buffer` is in the session `<session_id>/summary`.

    As in the library, `asave_context` does not summarise, and `aclear` leaves the summary.
    """

    _kept = frozenset({"buffer"})
    _kept_in = "summary"

    @classmethod
    def from_messages(
        cls,
        llm: BaseLanguageModel[Any],
        chat_memory: BaseChatMessageHistory,
        *,
        summarize_step: int = 2,
        **kwargs: Any,
    ) -> ConversationSummaryMemory:
        made = cls(llm=llm, chat_memory=chat_memory, **kwargs)
        messages = chat_memory.messages
        summary = kwargs.get("buffer", "")
        for start in range(0, len(messages), summarize_step):
            summary = made.predict_new_summary(messages[start:start + summarize_step], summary)
        made.buffer = summary
        return made

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, str]) -> None:
        if self._state is None:
            super().save_context(inputs, outputs)
            return
        said, answered = self._get_input_output(inputs, outputs)
        turn = [HumanMessage(content=said), AIMessage(content=answered)]
        self.chat_memory.add_messages(turn)
        while True:
            values, revision = self._state.read()
            values["buffer"] = self.predict_new_summary(turn, values.get("buffer", ""))
            if self._state.write(values, revision):
                return
