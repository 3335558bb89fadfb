#!/usr/bin/env python3
"""Each framework goes on with a chat that each other one has had.

usage: matrix.py [--store sqlite::memory:] [FRAMEWORK...]     default: all

The chat has an image, reasoning, two calls at once, one of which fails, and an answer. Then the second
framework's agent is asked something more, and its request is looked at: what a provider would
refuse, and what of the chat it lacks. Frameworks that do not go together have environments of their
own, see run.py, and share a server. Prints the pairs that were tried and those that are right;
exits 1 when one is not.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import run
from support import paths
from support.server import Server

# Each with the environment that it needs; None: build/venv.
FRAMEWORKS = {
    "llama_index": None, "langchain": None, "openai_agents": None, "google_adk": "google_adk",
    "agent_framework": "agent_framework", "pydantic_ai": None, "strands": "strands", "client": None,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", default="sqlite::memory:")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK")
    arguments = parser.parse_args()
    names = arguments.frameworks or list(FRAMEWORKS)
    with Server(arguments.store) as server:
        for first in names:
            side(first, "tell", server.target, [session_of(first, second) for second in names])
        wrong = {}
        for second in names:
            told = side(second, "ask", server.target, [session_of(first, second) for first in names])
            wrong.update(zip(((first, second) for first in names), map(json.loads, told), strict=True))
    for (first, second), what in wrong.items():
        for one in what:
            print(f"{first} -> {second}: {one}")
    print(f"{len(wrong)} pairs tried, {sum(not what for what in wrong.values())} right")
    return 1 if any(wrong.values()) else 0


def session_of(first: str, second: str) -> str:
    """An id as ADK gives its sessions, of an app and a user."""
    return f"matrix/ann/{first}-{second}"


def side(name: str, what: str, target: str, sessions: list[str]) -> list[str]:
    """What one framework prints."""
    needed = FRAMEWORKS[name]
    python = sys.executable if needed is None else str(run.environment_of(needed))
    source = str(paths.REPOSITORY / "clients/python/src")
    done = subprocess.run(
        [python, str(HERE / "crossing/one.py"), name, what, target, *sessions],
        capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": source, "OTEL_SDK_DISABLED": "true",
             "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode:
        raise RuntimeError(f"{name} did not {what}: {done.stderr}")
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
