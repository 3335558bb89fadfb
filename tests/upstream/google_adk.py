#!/usr/bin/env python3
"""ADK's own tests of its session services, with memoryd.google_adk's in their place.

usage: google_adk.py CHECKOUT [PYTEST ARGUMENT...]

CHECKOUT is a folder of google/adk-python at about the version of tests/frameworks/google_adk.txt,
since no package ships the tests. Those are run that every service of ADK passes, as the services in
memory and in a database, and those of stale sessions. Left out are tests that look into these two:
their tables, engines and dictionaries. Exits 1 when one fails.
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

TESTS = "tests/unittests/sessions/test_session_service.py"
# In the names of the tests that are run, with one of CHOSEN, and of those that are left out.
CHOSEN = ("IN_MEMORY and not LIGHT", "in_memory and not light", "DATABASE", "database-",
          "-database", "stale", "drift", "markerless")
LEFT_OUT = ("database_session_service", "row_missing", "rollback", "same_ref", "per_agent",
            "prepare_tables", "get_or_create", "locks_only", "padded")


def main() -> int:
    checkout, *arguments = sys.argv[1:]
    if not (pathlib.Path(checkout) / TESTS).exists():
        print(f"{checkout}: has no {TESTS}. Give a checkout of google/adk-python", file=sys.stderr)
        return 1
    python = run.environment_of("google_adk")
    search_path = [
        upstream.packages(HERE / "google_adk.txt"), HERE, HERE.parent,
        paths.REPOSITORY / "clients/python/src"]
    chosen = " or ".join(f"({one})" for one in CHOSEN)
    command = [
        str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_asyncio",
        "-p", "google_adk_classes",
        "-k", f"({chosen}) and " + " and ".join(f"not {word}" for word in LEFT_OUT),
        TESTS, *arguments]
    return subprocess.run(
        command, cwd=checkout, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, search_path))}).returncode


if __name__ == "__main__":
    sys.exit(main())
