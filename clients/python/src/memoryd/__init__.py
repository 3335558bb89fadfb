"""Client for memoryd, the memory server for LLM agents.

    from memoryd import Client

    with Client("localhost:50051") as memory:
        memory.put("s1", [{"role": "user", "content": "Hello, world!"}])
        messages = memory.get("s1").to_openai()
"""

import os
import sys
import warnings

# gRPC reads it when it is imported. Without it nothing works in a child of a process that forks.
if "grpc" not in sys.modules:
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")

# Which versions go together is said in pyproject.toml. Before the first stub is imported.
warnings.filterwarnings("ignore", r"Protobuf gencode version .* one major version .* memoryd/v1/")

from memoryd import blocks, items, users
from memoryd._local import AsyncLocalClient, LocalClient, local, local_async
from memoryd.aio import AsyncClient
from memoryd.client import Client, content, message
from memoryd.configs import config, retention, retrieval
from memoryd.contexts import Context, UpdatedContext, UserContext
from memoryd.errors import MemorydError
from memoryd.forms import AnthropicMessages, from_anthropic, from_openai, to_anthropic, to_openai
from memoryd.results import (
    Fact,
    FactChange,
    Hit,
    Hits,
    Job,
    KnownBlock,
    KnownFacts,
    PastFact,
    Session,
    UndoneChange,
)
from memoryd.worker import Answer, Block, Worker, current_call

__all__ = ["Answer", "AnthropicMessages", "AsyncClient", "AsyncLocalClient", "Block", "Client",
           "Context", "Fact", "FactChange", "Hit", "Hits", "Job", "KnownBlock", "KnownFacts",
           "LocalClient", "MemorydError", "PastFact", "Session", "UndoneChange", "UpdatedContext",
           "UserContext", "Worker", "blocks", "config", "content", "current_call", "from_anthropic",
           "from_openai", "items", "local", "local_async", "message", "retention", "retrieval",
           "to_anthropic", "to_openai", "users"]
