"""The history and memory of Microsoft's Agent Framework in memoryd.

    from memoryd.agent_framework import MemorydContextProvider, MemorydHistoryProvider

    agent = Agent(client, context_providers=[
        MemorydHistoryProvider(), MemorydContextProvider("ann")])
    session = agent.create_session(session_id="monday")

Messages are memoryd's, which other clients of the session read. The user is remembered in all of
her sessions.
"""

from memoryd._connection import Connection
from memoryd.agent_framework.context_provider import MemorydContextProvider
from memoryd.agent_framework.history_provider import MemorydHistoryProvider

__all__ = ["Connection", "MemorydContextProvider", "MemorydHistoryProvider"]
