"""CrewAI's memory in memoryd.

    from crewai.memory import Memory
    from memoryd.crewai import MemorydStorage

    memory = Memory(storage=MemorydStorage("research-crew"))

Records are items, see `memoryd.items`, and their embeddings the items' vectors.
"""

from memoryd._connection import Connection
from memoryd.crewai.storage import MemorydStorage

__all__ = ["Connection", "MemorydStorage"]
