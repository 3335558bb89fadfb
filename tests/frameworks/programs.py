"""Runs examples and the code of pages, in the environment of the tests."""

from __future__ import annotations

import os
import subprocess
import sys

from support import paths
from support.documents import code_of
from support.server import Server


def run(target: str, *command: str) -> list[str]:
    """The lines that a Python program, or what `-c` is given, prints with the server at `target`."""
    source = str(paths.REPOSITORY / "clients/python/src")
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": source, "MEMORYD_TARGET": target}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def page(name: str) -> list[str]:
    """What the code of a page of clients/python prints."""
    code, = code_of(paths.REPOSITORY / "clients/python" / name, "python", "")
    with Server("sqlite::memory:") as server:
        return run(server.target, "-c", code)
