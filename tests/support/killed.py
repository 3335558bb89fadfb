"""Programs that end at one moment of their work with memoryd, as a machine that loses its power.

usage: killed.py PROGRAM [ARGUMENT...]

Reads a line `CALL MOMENT` and runs the program, whose process is killed at its call number CALL:
`before` the call is sent, `after` the server has answered it, be it with an error, or MOMENT
microseconds after it was begun, which is before, while or after the server works on it. A program
that makes fewer calls ends by itself. Writes a line of JSON: how it ended, and what it printed. Then
the next line. Each run is a fork of a process that has imported what the program imports, since that
takes much longer than the program does.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import os
import pathlib
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

KILLED = -signal.SIGKILL
# Each example makes as many.
_LEAST_CALLS = 7
# As long as most calls take.
_MOST_MICROSECONDS = 2000
_MOST_SECONDS = 120

# Runs a program that is killed at a moment of a call, and returns how it ended.
Run = Callable[[int, str], "subprocess.CompletedProcess[str]"]
# What the killed program printed, and the one after it.
Lines = tuple[list[str], list[str]]


@contextlib.contextmanager
def program(path: pathlib.Path, *arguments: str) -> Iterator[Run]:
    """Yields what runs the program. Its return code is KILLED unless it made fewer calls."""
    source = str(pathlib.Path(__file__).resolve().parents[2] / "clients/python/src")
    with subprocess.Popen(
            [sys.executable, __file__, str(path), *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": source}) as starter:

        def run(call: int, moment: str) -> subprocess.CompletedProcess[str]:
            print(call, moment, file=starter.stdin, flush=True)
            ended = json.loads(starter.stdout.readline())
            return subprocess.CompletedProcess([path, *arguments], **ended)

        yield run


def and_again(example: pathlib.Path, target: str, calls: Iterable[int]) -> Iterator[Lines]:
    """Runs an example that is killed before or after one of its calls, and again. Yields the lines
    of both, for one call after the other until the example makes fewer."""
    with program(example, target, "again") as run:
        for call in calls:
            was_killed, lines = _twice(run, call, "before" if call % 2 else "after")
            yield lines
            if not was_killed:
                break


def at_random(example: pathlib.Path, target: str, seed: str, kills: int) -> Iterator[Lines]:
    """The same at a random moment of each of its calls, and then of the first ones once more until
    it was killed so many times."""
    choices = random.Random(seed)
    killed = call = last = 0
    with program(example, target, "again") as run:
        while last == 0 or killed < kills:
            call = call + 1 if call != last or last == 0 else 1
            moment = choices.choice(
                ("before", "after", str(choices.randrange(_MOST_MICROSECONDS))))
            was_killed, lines = _twice(run, call, moment)
            yield lines
            killed += was_killed
            if not was_killed:
                call = last = call - 1
    print(f"{example.stem}: {killed} kills, at each of {last} calls")


def _twice(run: Run, call: int, moment: str) -> tuple[bool, Lines]:
    print(f"killed at call {call}, {moment}")  # Shown when a test fails.
    first, second = run(call, moment), run(0, "before")
    assert second.returncode == 0, second.stderr
    was_killed = first.returncode == KILLED
    assert was_killed or (first.returncode == 0 and call > _LEAST_CALLS), first.stderr
    return was_killed, (first.stdout.splitlines(), second.stdout.splitlines())


def _main(path: str, *arguments: str) -> None:
    # This folder's names are not the program's.
    sys.path[0] = str(pathlib.Path(path).parent)
    _import(pathlib.Path(path))
    for line in sys.stdin:
        call, moment = line.split()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = os.fork()
            if child == 0:
                for file, number in ((out, 1), (err, 2)):
                    os.dup2(file.fileno(), number)
                signal.alarm(_MOST_SECONDS)
                break
            _, status = os.waitpid(child, 0)
            texts = {}
            for name, file in (("stdout", out), ("stderr", err)):
                file.seek(0)
                texts[name] = file.read()
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"returncode": code, **texts}), flush=True)
    else:
        return
    _count_calls(int(call), moment)
    sys.argv = [path, *arguments]
    runpy.run_path(path, run_name="__main__")


def _import(path: pathlib.Path) -> None:
    """Imports what the program does, and starts no thread, which a fork would lack."""
    imports = [one for one in ast.parse(path.read_text(encoding="utf-8")).body
               if isinstance(one, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), str(path), "exec"), {})
    assert threading.active_count() == 1, threading.enumerate()


def _count_calls(call: int, moment: str) -> None:
    """Ends the process at this moment of the call with this number."""
    from memoryd import AsyncClient, Client

    numbers = itertools.count(1)

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def kill_later() -> None:
        time.sleep(int(moment) / 1e6)
        kill()

    def before() -> int:
        """The number of the call."""
        number = next(numbers)
        if number == call and moment == "before":
            kill()
        elif number == call and moment != "after":
            threading.Thread(target=kill_later).start()
        return number

    def after(number: int) -> None:
        if number == call and moment == "after":
            kill()
        elif number == call:
            signal.pause()  # The answer came sooner.

    attempt, attempt_async = Client._attempt, AsyncClient._attempt

    def counted(self: Client, sent: Any) -> Any:
        number = before()
        try:
            return attempt(self, sent)
        finally:
            after(number)

    async def counted_async(self: AsyncClient, sent: Any) -> Any:
        number = before()
        try:
            return await attempt_async(self, sent)
        finally:
            after(number)

    Client._attempt, AsyncClient._attempt = counted, counted_async  # type: ignore[method-assign]


if __name__ == "__main__":
    _main(*sys.argv[1:])
