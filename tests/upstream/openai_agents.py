#!/usr/bin/env python3
"""The tests of sessions of OpenAI's Agents SDK, with memoryd.openai_agents' session in their place.

usage: openai_agents.py [PYTEST ARGUMENT...]

The tests are those of the sessions in SQLite and over SQLAlchemy, and those of runs that use one,
from the source distribution of the version that is installed. Left out are tests that look into
the library's database, its connections and locks, which ours has not. The server is a memoryd of
this build. Exits 1 when one fails.
"""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import upstream

TESTS = (
    "memory/test_session.py",
    "memory/test_session_limit.py",
    "extensions/memory/test_async_sqlite_session.py",
    "extensions/memory/test_sqlalchemy_session.py",
)
# In the names of the tests that are left out. Corrupt rows, times of rows and texts are written by
# their SQL; connections, locks, engines and transactions are the libraries' own.
LEFT_OUT = (
    "corrupt", "same_timestamp", "for_ties", "ascii", "close", "connection", "lock", "engine",
    "registry", "first_access", "transaction", "initialization", "cancellation", "rolls_back",
    "claim", "rowcount",
)


def main() -> int:
    return upstream.run(
        "openai-agents", "openai_agents_classes", "-k",
        " and ".join(f"not {word}" for word in LEFT_OUT), *(f"tests/{test}" for test in TESTS),
        *sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
