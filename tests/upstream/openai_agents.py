#!/usr/bin/env python3
"""The tests of sessions of OpenAI's Agents SDK, with memoryd.openai_agents' session in their place.

usage: openai_agents.py [PYTEST ARGUMENT...]

The tests are those of the sessions in SQLite, over SQLAlchemy and in Redis, and those of runs that
use one, from the source distribution of the version that is installed. Left out are tests that look
into the library's database, its connections and locks, which ours has not. Most tests of the session
in Redis are such: of keys, TTLs, pipelines, pools and closed clients. The server is a memoryd of this
build. Exits 1 when one fails.
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
REDIS = "extensions/memory/test_redis_session.py"
OF_REDIS = (
    "redis_session_direct_ops", "runner_integration", "session_isolation", "get_items_with_limit",
    "pop_from_empty_session", "add_empty_items_list", "unicode_content",
    "special_characters_and_json_safety", "data_integrity_with_problematic_strings",
    "concurrent_access", "key_prefix_isolation", "get_items_limit_returns_fewer_when_history_exhausted",
    "session_settings_default", "session_settings_constructor",
    "get_items_uses_session_settings_limit", "get_items_explicit_limit_overrides_session_settings",
    "session_settings_resolve", "runner_with_session_settings_override",
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
        *(f"tests/{REDIS}::test_{name}" for name in OF_REDIS), *sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
