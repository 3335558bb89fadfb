#!/usr/bin/env python3
"""LangChain's own tests, with the classes of memoryd.langchain in the place of the library's.

usage: langchain.py [PYTEST ARGUMENT...]

The tests are those of langchain-classic's memories and of the chains that use one, and those of
langchain-core's chat histories, from the source distributions of the versions that are installed.
The server is a memoryd of this build. Exits 1 when one fails.
"""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import upstream

TESTS = {
    "langchain-classic": [
        "memory",
        "schema/test_memory.py",
        "chains/test_memory.py",
        "chains/test_summary_buffer_memory.py",
        "chains/test_conversation.py",
        "chains/test_conversation_retrieval.py",
        "chains/test_sequential.py",
        "chains/test_base.py",
    ],
    "langchain-core": ["chat_history", "runnables/test_history.py"],
}
# Of the library's docstrings, which ours are not.
LEFT_OUT = "test_chat_history_deprecated[ChatMessageHistory]"


def main() -> int:
    failed = [name for name, tests in TESTS.items() if upstream.run(
        name, "langchain_classes",
        # Theirs ask for plugins that these tests do without.
        "-o", "addopts=",
        "--deselect", f"tests/unit_tests/chat_history/test_chat_history.py::{LEFT_OUT}",
        *(f"tests/unit_tests/{test}" for test in tests), *sys.argv[1:]) != 0]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
