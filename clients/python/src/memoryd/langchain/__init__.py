"""LangChain's memory classes, with memoryd as their store.

    from memoryd.langchain import ConversationBufferMemory  # was: langchain_classic.memory

    memory = ConversationBufferMemory(session_id="alice")

Each class is a subclass of the library's with the same arguments and two more, `session_id` and
`target`. Its memory is in memoryd, so any process finds it. `connect()` sets the address of memoryd
once for all. Classes without a memory of their own are the library's.
"""

from langchain_classic.memory import (
    CombinedMemory,
    ReadOnlySharedMemory,
    SimpleMemory,
    VectorStoreRetrieverMemory,
)
from langchain_classic.memory.utils import get_prompt_input_key

from memoryd.langchain.base import BaseChatMemory
from memoryd.langchain.buffer import (
    ConversationBufferMemory,
    ConversationBufferWindowMemory,
    ConversationStringBufferMemory,
)
from memoryd.langchain.chat_history import ChatMessageHistory
from memoryd.langchain.connection import Connection, connect
from memoryd.langchain.entity import ConversationEntityMemory
from memoryd.langchain.entity_stores import (
    BaseEntityStore,
    EntityStore,
    InMemoryEntityStore,
    RedisEntityStore,
    SQLiteEntityStore,
    UpstashRedisEntityStore,
)
from memoryd.langchain.summary import ConversationSummaryMemory, SummarizerMixin
from memoryd.langchain.summary_buffer import ConversationSummaryBufferMemory
from memoryd.langchain.token_buffer import ConversationTokenBufferMemory
from memoryd.langchain.vectorstore_token_buffer import ConversationVectorStoreTokenBufferMemory

__all__ = [
    "BaseChatMemory",
    "BaseEntityStore",
    "ChatMessageHistory",
    "CombinedMemory",
    "Connection",
    "ConversationBufferMemory",
    "ConversationBufferWindowMemory",
    "ConversationEntityMemory",
    "ConversationStringBufferMemory",
    "ConversationSummaryBufferMemory",
    "ConversationSummaryMemory",
    "ConversationTokenBufferMemory",
    "ConversationVectorStoreTokenBufferMemory",
    "EntityStore",
    "InMemoryEntityStore",
    "ReadOnlySharedMemory",
    "RedisEntityStore",
    "SQLiteEntityStore",
    "SimpleMemory",
    "SummarizerMixin",
    "UpstashRedisEntityStore",
    "VectorStoreRetrieverMemory",
    "connect",
    "get_prompt_input_key",
]
