"""An MCP server for the memory of users, see the command `memoryd mcp`. It needs the extra `mcp`.

A program that has an MCP server of its own can take the tools from here:

    callers = Callers(AsyncClient("localhost:50051"), user="ann")
    make_server(callers).run("stdio")
"""

try:
    import mcp as _mcp
except ImportError as missing:
    raise ImportError("memoryd.mcp needs the MCP SDK: pip install 'memoryd[mcp]'") from missing

from memoryd.mcp.callers import Callers, Verifier, token_of_call
from memoryd.mcp.memories import Conversation, Known, Memories, Memory
from memoryd.mcp.server import make_server

del _mcp

__all__ = ["Callers", "Conversation", "Known", "Memories", "Memory", "Verifier", "make_server",
           "token_of_call"]
