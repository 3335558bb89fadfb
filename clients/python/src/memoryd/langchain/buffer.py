"""Memories that return their messages unchanged."""

from __future__ import annotations

import uuid
from typing import Any

from langchain_classic.memory import buffer as library
from langchain_classic.memory import buffer_window
from langchain_classic.memory.utils import get_prompt_input_key
from pydantic import PrivateAttr

from memoryd._ids import Id, id_text
from memoryd._made import amake, make
from memoryd.langchain.base import BaseChatMemory
from memoryd.langchain.connection import Connection, connection_of
from memoryd.langchain.messages import text_message, text_of
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire


class ConversationBufferMemory(BaseChatMemory, library.ConversationBufferMemory):
    """LangChain's class in memoryd: all messages."""


class ConversationBufferWindowMemory(
    BaseChatMemory, buffer_window.ConversationBufferWindowMemory
):
    """LangChain's class in memoryd: the last `2k` messages."""


class ConversationStringBufferMemory(library.ConversationStringBufferMemory):
    """LangChain's class in memoryd: the text of all turns, each with the prefixes it was saved
    with.

    A turn is two messages of the session, with the prefixes as names. `buffer` is made from them;
    assigning to it replaces them. It has three arguments more than the library's: `session_id`, by
    default a new one, `target`, the address of memoryd or a Connection, and `template`, as of
    ChatMessageHistory.
    """

    session_id: str

    _target: str | Connection | None = PrivateAttr(default=None)
    _template: str = PrivateAttr(default="")

    def __init__(
        self,
        *,
        session_id: Id | None = None,
        target: str | Connection | None = None,
        template: str = "",
        **fields: Any,
    ) -> None:
        fields["session_id"] = uuid.uuid4().hex if session_id is None else id_text(session_id)
        super().__init__(**fields)
        self._target = target
        self._template = template
        if "buffer" in fields:
            self.buffer = fields["buffer"]

    def __getattribute__(self, name: str) -> Any:
        # Pydantic keeps a field's value in the object; a property would hide the field.
        if name == "buffer" and self.__pydantic_private__:
            client = connection_of(self._target).client
            return "".join(map(_line, client.get_all(self.session_id)))
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "buffer":
            # In one piece, whoever said what in it.
            lines = [text_message("transcript", value)] if value else []
            client = connection_of(self._target).client
            make(client, self.session_id, self._template)
            client.set(self.session_id, lines)

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, str]) -> None:
        said = self._turn(inputs, outputs)
        client = connection_of(self._target).client
        make(client, self.session_id, self._template)
        client.put(self.session_id, said)

    async def asave_context(self, inputs: dict[str, Any], outputs: dict[str, str]) -> None:
        said = self._turn(inputs, outputs)
        client = connection_of(self._target).async_client
        await amake(client, self.session_id, self._template)
        await client.put(self.session_id, said)

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, str]:
        client = connection_of(self._target).async_client
        lines = [_line(found) async for found in client.get_all(self.session_id)]
        return {self.memory_key: "".join(lines)}

    def clear(self) -> None:
        connection_of(self._target).client.reset(self.session_id, wire.RESET_SCOPE_MESSAGES)

    async def aclear(self) -> None:
        client = connection_of(self._target).async_client
        await client.reset(self.session_id, wire.RESET_SCOPE_MESSAGES)

    def _turn(self, inputs: dict[str, Any], outputs: dict[str, str]) -> list[memory.Message]:
        input_key, output_key = self.input_key, self.output_key
        if input_key is None:
            input_key = get_prompt_input_key(inputs, self.memory_variables)
        if output_key is None:
            if len(outputs) != 1:
                raise ValueError(f"One output key expected, got {outputs.keys()}")
            output_key = next(iter(outputs))
        said = (("user", self.human_prefix, inputs[input_key]),
                ("assistant", self.ai_prefix, outputs[output_key]))
        for _, prefix, text in said:
            _ = f"{prefix}: " + text  # What is no text is refused as the library refuses it.
        return [text_message(role, text, prefix) for role, prefix, text in said]


def _line(found: memory.Message) -> str:
    text = text_of(found)
    return text if found.role == "transcript" else f"\n{found.name}: {text}"
