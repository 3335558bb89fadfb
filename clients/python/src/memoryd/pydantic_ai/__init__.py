"""Pydantic AI's conversation store in memoryd.

    from memoryd.pydantic_ai import MemorydConversationStore

    store = MemorydConversationStore()
    conversation = await store.load("monday") or Conversation(conversation_id="monday")
    await store.save(await agent.run("What is 6 x 7?", conversation=conversation))
"""

from memoryd._connection import Connection
from memoryd.pydantic_ai.store import MemorydConversationStore

__all__ = ["Connection", "MemorydConversationStore"]
