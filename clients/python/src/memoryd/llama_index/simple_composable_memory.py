"""The deprecated SimpleComposableMemory over memories in memoryd."""

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import model_validator
from llama_index.core.memory import BaseMemory
from llama_index.core.memory import SimpleComposableMemory as LibraryComposable

from memoryd.llama_index.chat_memory_buffer import ChatMemoryBuffer
from memoryd.llama_index.chat_summary_memory_buffer import ChatSummaryMemoryBuffer
from memoryd.llama_index.memory import Memory
from memoryd.llama_index.vector_memory import VectorMemory

_LOADED = {made.class_name(): made
           for made in (ChatMemoryBuffer, ChatSummaryMemoryBuffer, Memory, VectorMemory)}


class SimpleComposableMemory(LibraryComposable):
    """The library's class; it stores nothing itself. Its primary memory is memoryd's
    ChatMemoryBuffer with a key of its own, unless another is given. A dump can be loaded."""

    @classmethod
    def from_defaults(
        cls,
        primary_memory: BaseMemory | None = None,
        secondary_memory_sources: list[BaseMemory] | None = None,
        **kwargs: Any,
    ) -> SimpleComposableMemory:
        made = super().from_defaults(
            primary_memory=primary_memory or ChatMemoryBuffer.from_defaults(),
            secondary_memory_sources=secondary_memory_sources,
            **kwargs,
        )
        assert isinstance(made, cls)
        return made

    @model_validator(mode="before")
    @classmethod
    def _load_memories(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if "primary_memory" in values:
            values["primary_memory"] = _loaded(values["primary_memory"])
        if values.get("secondary_memory_sources"):
            values["secondary_memory_sources"] = [
                _loaded(source) for source in values["secondary_memory_sources"]]
        return values


def _loaded(source: Any) -> Any:
    made = _LOADED.get(source.get("class_name", "")) if isinstance(source, dict) else None
    return source if made is None else made.from_dict(dict(source))
