"""AutoGen's memory in memoryd: the classes of autogen_core.memory, with the server as their store.

    from memoryd.autogen import ListMemory

    agent = AssistantAgent("assistant", model, memory=[ListMemory(session_id="logan")])

ListMemory behaves as autogen_core's, message for message. SearchMemory inserts only contents that
match the user's message, and returns scores. Both are components. Their dump_component contains the
server's address and the session, never a token.
"""

from memoryd.autogen.list_memory import ListMemory, ListMemoryConfig
from memoryd.autogen.search_memory import SearchMemory, SearchMemoryConfig

__all__ = ["ListMemory", "ListMemoryConfig", "SearchMemory", "SearchMemoryConfig"]
