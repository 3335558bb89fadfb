"""Programs that end at one moment of their work with memoryd, as a machine that loses its power.

usage: killed.py CALL before|after PROGRAM [ARGUMENT...]

Runs the program, whose process is killed right before its call number CALL is sent, or right after
the server has answered it, be it with an error. A program that makes fewer calls ends by itself.
"""

from __future__ import annotations

import os
import pathlib
import runpy
import signal
import subprocess
import sys
from typing import Any

KILLED = -signal.SIGKILL


def run(call: int, moment: str, program: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    """The ended process. Its return code is KILLED unless it made fewer calls."""
    source = str(pathlib.Path(__file__).resolve().parents[2] / "clients/python/src")
    return subprocess.run(
        [sys.executable, __file__, str(call), moment, str(program), *arguments], timeout=120,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": source}, check=False)


def _main(call: int, moment: str, program: str, *arguments: str) -> None:
    # This folder's names are not the program's.
    sys.path[0] = str(pathlib.Path(program).parent)
    from memoryd import AsyncClient, Client

    made = 0

    def count(now: str) -> None:
        nonlocal made
        made += now == "before"
        if made == call and now == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    attempt, attempt_async = Client._attempt, AsyncClient._attempt

    def counted(self: Client, sent: Any) -> Any:
        count("before")
        try:
            return attempt(self, sent)
        finally:
            count("after")

    async def counted_async(self: AsyncClient, sent: Any) -> Any:
        count("before")
        try:
            return await attempt_async(self, sent)
        finally:
            count("after")

    Client._attempt, AsyncClient._attempt = counted, counted_async  # type: ignore[method-assign]
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    _main(int(sys.argv[1]), *sys.argv[2:])
