"""AutoGen's memory in memoryd: what autogen_core.memory names, kept by the server.

    from memoryd.autogen import ListMemory

    agent = AssistantAgent("assistant", model, memory=[ListMemory(session_id="logan")])

ListMemory does what autogen_core's does, message for message; SearchMemory puts into the model's
context only what answers to the user's message, and tells scores. Both are components: what
dump_component writes has the server's address and the session, never a token.
"""

from memoryd.autogen.list_memory import ListMemory, ListMemoryConfig
from memoryd.autogen.search_memory import SearchMemory, SearchMemoryConfig

__all__ = ["ListMemory", "ListMemoryConfig", "SearchMemory", "SearchMemoryConfig"]
