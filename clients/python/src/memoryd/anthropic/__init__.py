"""Claude's memory tool in memoryd.

    from memoryd.anthropic import MemorydMemoryTool

    runner = anthropic.Anthropic().beta.messages.tool_runner(
        tools=[MemorydMemoryTool("ada")], ...)

The files below `/memories` are items, see `memoryd.items`. There is a synchronous and an
asynchronous tool, each for any number of threads or event loops and processes.
"""

from memoryd._connection import Connection
from memoryd.anthropic.memory_tool import AsyncMemorydMemoryTool, MemorydMemoryTool

__all__ = ["AsyncMemorydMemoryTool", "Connection", "MemorydMemoryTool"]
