#!/usr/bin/env python3
"""The tests of sessions of Strands, with memoryd.strands' classes in the place of its own.

usage: strands_agents.py [PYTEST ARGUMENT...]     in an environment that has strands-agents

The tests are those of the session manager in files, of the one over a repository, and of agents,
graphs and swarms that use one, from the source distribution of the version that is installed. Left
out are tests that look into the library's files or copy them. The server is a memoryd of this
build. Exits 1 when one fails.
"""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import upstream

FILES = "tests/strands/session/test_file_session_manager.py"
TESTS = (
    FILES,
    "tests/strands/session/test_repository_session_manager.py",
    "tests/strands/test_tracking_id_history_invariant.py",
    "tests/strands/agent/test_agent.py",
    "tests/strands/agent/test_agent_as_tool.py",
    "tests/strands/multiagent/test_graph.py",
    "tests/strands/multiagent/test_swarm.py",
)
# How the names of tests begin that look into the library's files.
LEFT_OUT = (
    "create_session", "delete_session", "create_agent", "create_message", "message_durable_id",
    "corrupted_json", "permission_error", "_get_", "create_multi_agent",
)


def main() -> int:
    return upstream.run(
        "strands-agents", "strands_agents_classes",
        *(f"--deselect={FILES}::test_{name}" for name in LEFT_OUT),
        "-k", "(session or tracking_id) and not on_disk", *TESTS, *sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
