#!/usr/bin/env python3
"""Tests of Agent Framework's providers in Redis, with memoryd.agent_framework's in their place.

usage: microsoft_agents.py CHECKOUT [PYTEST ARGUMENT...]

CHECKOUT is a folder of microsoft/agent-framework at about the version of
tests/frameworks/agent_framework.txt, since no package ships the tests. Those are run that say what
a history or a memory does in a run of an agent. Left out are those that look at Redis: at URLs and
credentials, keys, schemas, queries, partitions and the trimming of lists. Exits 1 when one fails.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE.parent / "frameworks")]

import run
import upstream
from support import paths
from support.server import Server

TESTS = "python/packages/redis/tests/test_providers.py"
CHOSEN = (
    "TestRedisHistoryProviderGetMessages::test_returns_deserialized_messages",
    "TestRedisHistoryProviderGetMessages::test_empty_returns_empty",
    "TestRedisHistoryProviderSaveMessages::test_saves_serialized_messages",
    "TestRedisHistoryProviderSaveMessages::test_empty_messages_noop",
    "TestRedisHistoryProviderBeforeAfterRun",
    "TestRedisContextProviderBeforeRun::test_search_results_added_to_context",
    "TestRedisContextProviderBeforeRun::test_empty_results_no_messages",
    "TestRedisContextProviderAfterRun::test_stores_messages",
    "TestRedisContextProviderAfterRun::test_skips_empty_conversations",
)


def main() -> int:
    checkout, *arguments = sys.argv[1:]
    if not (pathlib.Path(checkout) / TESTS).exists():
        print(f"{checkout}: has no {TESTS}. Give a checkout of microsoft/agent-framework",
              file=sys.stderr)
        return 1
    python = run.environment_of("agent_framework")
    search_path = [
        upstream.packages(HERE / "microsoft_agents.txt"), HERE, HERE.parent,
        paths.REPOSITORY / "clients/python/src"]
    # Not under the checkout's own settings, which ask for more plugins.
    command = [
        str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_asyncio",
        "-p", "microsoft_agents_classes", "-c", os.devnull, f"--rootdir={checkout}",
        "-o", "asyncio_mode=auto", *(f"{TESTS}::{one}" for one in CHOSEN), *arguments]
    with Server("sqlite::memory:") as server:
        return subprocess.run(
            command, cwd=checkout, check=False,
            env={**os.environ, "MEMORYD_TARGET": server.target,
                 "PYTHONPATH": os.pathsep.join(map(str, search_path))}).returncode


if __name__ == "__main__":
    sys.exit(main())
