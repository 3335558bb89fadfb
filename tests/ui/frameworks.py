"""Conversations of frameworks' own agents, told to a server through the classes that memoryd has for each."""

from __future__ import annotations

import os
import subprocess

from support.paths import REPOSITORY

# The frameworks are in the environment of the other tests.
PYTHON = REPOSITORY / "build" / "venv" / "bin" / "python"
ONE = REPOSITORY / "tests" / "frameworks" / "crossing" / "one.py"
# The same chat, by session: a question with an image, two calls of tools of which one fails, an answer.
CHATS = {"chat-openai-agents": "openai_agents", "chat-langchain": "langchain",
         "chat-llama-index": "llama_index", "chat-pydantic-ai": "pydantic_ai"}
# A graph of LangGraph's keeps its checkpoints as items.
GRAPH = REPOSITORY / "examples" / "langgraph_agent.py"
THREAD = ("langgraph", "threads", "tea")


def tell(target: str) -> None:
    """Has every framework talk to the server at `target`."""
    commands = [[ONE, name, "tell", target, session_id] for session_id, name in CHATS.items()]
    commands.append([GRAPH, target])
    path = {"PYTHONPATH": str(REPOSITORY / "clients" / "python" / "src")}
    running = [subprocess.Popen([PYTHON, *command], env=os.environ | path, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for command in commands]
    for command, process in zip(commands, running, strict=True):
        output, _ = process.communicate()
        assert process.returncode == 0, f"{command}\n{output}"
