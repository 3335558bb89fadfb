#!/usr/bin/env python3
"""Runs the tests of an adapter whose framework does not go with the packages of build/venv.

usage: run.py NAME [PYTEST ARGUMENT...]     --full: all random operations, all moments of kills

NAME.txt has the framework's version and what it brings along, and says what it does not go with.
The environment is build/frameworks/NAME, made anew when the requirements change. The adapter's
types are checked against the framework's, then test_NAME.py is run. Exits 1 when one of them fails.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
FOLDER = REPOSITORY / "build" / "frameworks"
PACKAGE = REPOSITORY / "clients" / "python"


def environment_of(name: str) -> pathlib.Path:
    """The Python of an environment with a framework and what its tests need."""
    files = [HERE / "requirements.txt", HERE / f"{name}.txt"]
    stamp = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    made = FOLDER / name
    python = made / "bin" / "python"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamped = made / ".stamp"
        if not stamped.exists() or stamped.read_text() != stamp:
            begun = time.monotonic()
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(made)], check=True)
            # All that is wanted is named there: nothing is to be resolved.
            subprocess.run(
                [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 "--no-deps", *(argument for file in files for argument in ("-r", str(file)))],
                check=True)
            stamped.write_text(stamp)
            print(f"made {made.relative_to(REPOSITORY)} in {time.monotonic() - begun:.0f} s",
                  flush=True)
    return python


def main() -> int:
    name, *arguments = sys.argv[1:]
    python = environment_of(name)
    # The stubs have the types of requests and replies.
    subprocess.run([sys.executable, str(PACKAGE / "tools" / "generate_stubs.py")], check=True)
    types = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(PACKAGE / "pyproject.toml"),
         "--cache-dir", str(REPOSITORY / "build" / "frameworks" / "mypy"),
         "--python-executable", str(python),
         *map(str, sorted((PACKAGE / "src" / "memoryd" / name).glob("*.py")))],
        cwd=REPOSITORY, check=False)
    tests = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider",
         str(HERE / f"test_{name}.py"), *arguments],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(PACKAGE / "src")}, check=False)
    return 1 if types.returncode or tests.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
