"""Client for memoryd, the memory server for LLM agents.

    from memoryd import Client, message

    with Client("localhost:50051") as memory:
        memory.put("s1", [message("user", "Hello, world!")])
        context = memory.get("s1").messages
"""

from memoryd.client import Client, message
from memoryd.errors import MemorydError

__all__ = ["Client", "MemorydError", "message"]
