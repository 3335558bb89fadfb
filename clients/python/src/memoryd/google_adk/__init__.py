"""Sessions and memory of Google's Agent Development Kit in memoryd.

    from memoryd.google_adk import MemorydMemoryService, MemorydSessionService

    runner = Runner(app_name="tea", agent=agent, session_service=MemorydSessionService(),
                    memory_service=MemorydMemoryService())

Events are messages, which other clients of the session read; state and memories are items.
"""

from memoryd._connection import Connection
from memoryd.google_adk.memory_service import MemorydMemoryService
from memoryd.google_adk.session_service import MemorydSessionService, session_name

__all__ = ["Connection", "MemorydMemoryService", "MemorydSessionService", "session_name"]
