"""Strands Agents' sessions and memories in memoryd.

    from strands import Agent
    from memoryd.strands import MemorydSessionManager

    agent = Agent(session_manager=MemorydSessionManager("monday"))

The messages of an agent are a session of memoryd, and an agent goes on with a conversation of
another framework. MemorydMemoryStore is for what agents remember beyond a session.
"""

from memoryd._connection import Connection
from memoryd.strands.memory_store import MemorydMemoryStore
from memoryd.strands.repository import MemorydSessionManager, MemorydSessionRepository

__all__ = [
    "Connection", "MemorydMemoryStore", "MemorydSessionManager", "MemorydSessionRepository"]
