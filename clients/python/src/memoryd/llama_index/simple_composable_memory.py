"""The deprecated SimpleComposableMemory over memories that are in memoryd."""

from __future__ import annotations

from typing import Any

from llama_index.core.memory import BaseMemory
from llama_index.core.memory import SimpleComposableMemory as LibraryComposable

from memoryd.llama_index.chat_memory_buffer import ChatMemoryBuffer


class SimpleComposableMemory(LibraryComposable):
    """The library's: it stores nothing itself. Its primary memory is our ChatMemoryBuffer unless
    another is given."""

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
