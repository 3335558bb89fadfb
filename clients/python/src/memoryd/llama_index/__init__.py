"""LlamaIndex' memory classes, with memoryd as their store.

    from memoryd.llama_index import Memory

    memory = Memory.from_defaults(session_id="s1", async_database_uri="memoryd://localhost:50051")

All names of llama_index.core.memory are here; the classes that store something are memoryd's own.
"""

from llama_index.core.memory import (
    BaseMemory,
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    InsertMethod,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from memoryd.llama_index import _contexts as _contexts
from memoryd.llama_index._feeding import DetachedBlock
from memoryd.llama_index.chat_memory_buffer import ChatMemoryBuffer
from memoryd.llama_index.chat_store import ChatStore
from memoryd.llama_index.chat_summary_memory_buffer import ChatSummaryMemoryBuffer
from memoryd.llama_index.memory import Memory
from memoryd.llama_index.simple_composable_memory import SimpleComposableMemory
from memoryd.llama_index.vector_memory import VectorMemory

__all__ = [
    "AsyncDBChatStore",
    "BaseMemory",
    "BaseMemoryBlock",
    "ChatMemoryBuffer",
    "ChatStore",
    "ChatSummaryMemoryBuffer",
    "DetachedBlock",
    "FactExtractionMemoryBlock",
    "InsertMethod",
    "Memory",
    "MessageStatus",
    "SimpleComposableMemory",
    "StaticMemoryBlock",
    "VectorMemory",
    "VectorMemoryBlock",
]
