"""The base of the memory classes of this package."""

from __future__ import annotations

from typing import Any, ClassVar

from langchain_classic.memory import chat_memory as library
from langchain_core.chat_history import BaseChatMessageHistory
from pydantic import PrivateAttr, field_serializer

from memoryd._ids import Id, id_text
from memoryd.langchain.chat_history import ChatMessageHistory
from memoryd.langchain.connection import Connection
from memoryd.langchain.state import State


class BaseChatMemory(library.BaseChatMemory):
    """LangChain's class, with its messages in a session of memoryd unless it is given a
    `chat_memory`.

    It has three arguments more than the library's. `session_id`: by default that of a
    ChatMessageHistory given as `chat_memory`, else a new one. `target`: the address of memoryd, or
    a Connection. `template`: as of ChatMessageHistory, for the session of the messages; a
    ChatMessageHistory that is given has its own.

    Other knowledge of a memory is in memoryd under its `session_id` too. Only a memory with another
    history and no `session_id` keeps it in the object, as the library does.
    """

    # Fields whose values are in memoryd, and what the session that holds them is called after the
    # one of the messages.
    _kept: ClassVar[frozenset[str]] = frozenset()
    _kept_in: ClassVar[str] = ""

    session_id: str | None = None

    _state: State | None = PrivateAttr(default=None)

    def __init__(
        self,
        *,
        session_id: Id | None = None,
        target: str | Connection | None = None,
        template: str = "",
        chat_memory: BaseChatMessageHistory | None = None,
        **fields: Any,
    ) -> None:
        if chat_memory is None:
            chat_memory = ChatMessageHistory(session_id, target=target, template=template)
        elif template:
            raise ValueError("template: is that of a history which this makes. Give it to the "
                             "chat_memory: ChatMessageHistory(…, template=…)")
        if isinstance(chat_memory, ChatMessageHistory):
            session_id = chat_memory.session_id if session_id is None else session_id
            target = chat_memory.target if target is None else target
        session_id = None if session_id is None else id_text(session_id)
        super().__init__(**{**fields, "session_id": session_id, "chat_memory": chat_memory})
        if session_id is not None and self._kept_in:
            self._state = State(f"{session_id}/{self._kept_in}", target)
        for name in self._kept & fields.keys():
            setattr(self, name, fields[name])

    def __getattribute__(self, name: str) -> Any:
        # Pydantic keeps a field's value in the object; a property would hide the field.
        if not name.startswith("_") and name in type(self)._kept:
            private = self.__pydantic_private__
            state = private and private.get("_state")
            if state:
                values, _ = state.read()
                if name in values:
                    return values[name]
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in type(self)._kept and self._state is not None:
            self._state.change(lambda values: values.update({name: value}))

    @property
    def _history(self) -> ChatMessageHistory | None:
        """The messages if they are in memoryd. Those of another history are treated as the library
        does."""
        history = self.chat_memory
        return history if isinstance(history, ChatMessageHistory) else None

    @field_serializer("chat_memory", when_used="json")
    def _dump_chat_memory(self, history: BaseChatMessageHistory) -> Any:
        if isinstance(history, ChatMessageHistory):
            return {"session_id": history.session_id}
        return history
