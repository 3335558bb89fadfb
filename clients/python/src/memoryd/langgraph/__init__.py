"""LangGraph's store and checkpointer in memoryd.

    from memoryd.langgraph import MemorydSaver, MemorydStore

    graph = builder.compile(checkpointer=MemorydSaver(), store=MemorydStore())

Both keep what they store as items, see `memoryd.items`. Each has synchronous and asynchronous
methods, for any number of threads and event loops.
"""

from memoryd._connection import Connection
from memoryd.langgraph.saver import MemorydSaver
from memoryd.langgraph.store import MemorydStore

__all__ = ["Connection", "MemorydSaver", "MemorydStore"]
