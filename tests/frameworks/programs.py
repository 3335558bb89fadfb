"""Runs examples and the code of pages, in the environment of the tests, and kills examples."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator

from support import killed, paths
from support.documents import code_of
from support.server import Server

# Each example makes as many, so each kill in CI is one.
_LEAST_CALLS = 7


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


def killed_and_again(
    example: pathlib.Path, target: str, calls: Iterable[int]
) -> Iterator[tuple[list[str], list[str]]]:
    """Runs an example that is killed at one of its calls, and again. Yields the lines of both, for
    one call after the other until the example makes fewer."""
    for call in calls:
        moment = "before" if call % 2 else "after"
        first = killed.run(call, moment, example, target, "again")
        second = killed.run(0, moment, example, target, "again")
        assert second.returncode == 0, second.stderr
        yield first.stdout.splitlines(), second.stdout.splitlines()
        if first.returncode != killed.KILLED:
            assert first.returncode == 0 and call > _LEAST_CALLS, first.stderr
            break
