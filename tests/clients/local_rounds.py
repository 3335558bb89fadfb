#!/usr/bin/env python3
"""Starts, uses and ends memoryd.local() in two processes at random, and counts what is missing.

usage: local_rounds.py [--rounds N] [--seed N] [FOLDER]

In each round two processes open the same folder, a random time apart, and put one message after the
other. Each ends in one of the ways of ENDS, the killed ones at a random time, also while they
start; in some rounds the server is killed under them, or its supervisor, and another user comes. A
round is over when no process of the server's is left. At the end every message is read back. The
last line is `local rounds: rounds N, users N, of these killed N, servers killed N, supervisors
killed N, acked N, lost N, doubled N, reordered N, failed N, left behind N`. Exits 1 when a message
that was acknowledged is missing, one is there twice or out of its user's order, a user failed, or
something was left behind.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.paths import BINARY
from support.waiting import wait_for

import memoryd

SOURCE = str(pathlib.Path(memoryd.__file__).parents[1])
ENDS = ("close", "exit", "kill", "kill while it starts")
SESSION = "s"
PUTS = 6
# Files of a store whose server has ended in order; those of a killed one are taken over.
SOCKETS = ("local.sock", "memoryd.sock")
_WAIT_ATTEMPTS = 6000
_PUT_SECONDS = 30.0


def running(folder: pathlib.Path) -> dict[str, int]:
    """The ids of the processes that work in the folder: the `supervisor` and its `server`."""
    found = {}
    for process in pathlib.Path("/proc").iterdir():
        # Processes end meanwhile, and of others nothing is told.
        with contextlib.suppress(OSError):
            if process.name.isdigit() and os.readlink(process / "cwd") == str(folder):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if any(word.endswith(b"_supervisor.py") for word in words):
                    found["supervisor"] = int(process.name)
                elif any(word.startswith(b"--listen=") for word in words):
                    found["server"] = int(process.name)
    return found


def wait_until_nobody_runs(folder: pathlib.Path) -> None:
    wait_for(lambda: not running(folder), _WAIT_ATTEMPTS)


def use(folder: str, name: str, end: str) -> None:
    """What a user does; each line says what is stored."""
    memory = memoryd.local(folder)
    print("open", flush=True)
    for number in range(PUTS):
        text = f"{name} {number}"
        memory.put(SESSION, [memoryd.message("user", text)], timeout=_PUT_SECONDS)
        print(text, flush=True)
    if end == "exit":
        os._exit(0)
    if end == "close":
        memory.close()
        return
    sys.stdin.read()  # To be killed.


@dataclasses.dataclass
class Tally:
    acknowledged: list[str] = dataclasses.field(default_factory=list)
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    guard: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def add(self, text: str) -> None:
        with self.guard:
            self.acknowledged.append(text)

    def count(self, what: str) -> None:
        with self.guard:
            self.counts[what] += 1


class User:
    """A process that does use(), and its random end, drawn beforehand."""

    def __init__(self, folder: pathlib.Path, name: str, chance: random.Random,
                 tally: Tally) -> None:
        self._end = chance.choice(ENDS)
        self._delay = chance.uniform(0.0, 0.5)
        self._kill_seconds = chance.uniform(0.1, 1.0)
        self._kill_behind = chance.randrange(PUTS + 1)
        self._command = [sys.executable, __file__, "--use", str(folder), name, self._end]
        self._tally = tally
        self.is_open = threading.Event()
        self.has_failed = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        threading.Event().wait(self._delay)
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": SOURCE, "MEMORYD_BINARY": str(BINARY)})
        killing = None
        if self._end == "kill while it starts":
            killing = threading.Timer(self._kill_seconds, process.kill)
            killing.start()
        acknowledged = 0
        for line in process.stdout:
            if line == "open\n":
                self.is_open.set()
            else:
                self._tally.add(line.rstrip("\n"))
                acknowledged += 1
            if self._end == "kill" and acknowledged == self._kill_behind:
                process.kill()
        errors = process.communicate()[1]
        if killing is not None:
            killing.cancel()
            killing.join()
        self.is_open.set()
        self._tally.count("users")
        if process.returncode == -signal.SIGKILL:
            self._tally.count("killed")
        elif process.returncode != 0:
            self.has_failed = True
            print(errors, file=sys.stderr)


def _kill(folder: pathlib.Path, whom: str, tally: Tally) -> bool:
    pid = running(folder).get(whom)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        tally.count(whom)
        return True
    return False


def run(folder: pathlib.Path, *, rounds: int, seed: int) -> bool:
    """Whether nothing was lost and nothing left behind; prints the line."""
    chance, tally = random.Random(seed), Tally()
    failed = left_behind = 0
    for number in range(rounds):
        whom = chance.choice([None, None, "server", "supervisor"])
        users = [User(folder, f"{number}-{name}", chance, tally) for name in "ab"]
        with contextlib.ExitStack() as staying:
            if whom is not None:
                users[0].is_open.wait()
                if _kill(folder, whom, tally) and whom == "supervisor":
                    # Starts the server again also for those who are there.
                    staying.enter_context(memoryd.local(folder, binary=BINARY))
            for user in users:
                user.join()
        failed += sum(user.has_failed for user in users)
        try:
            wait_until_nobody_runs(folder)
        except AssertionError:
            left_behind += 1
            print(f"round {number}: {running(folder)}", file=sys.stderr)
    with memoryd.local(folder, binary=BINARY) as memory:
        stored = [m.text for m in memory.get_all(SESSION)]
    left_behind += sum((folder / name).exists() for name in SOCKETS) + len(running(folder))
    times = collections.Counter(stored)
    lost = [text for text in tally.acknowledged if text not in times]
    doubled = [text for text, count in times.items() if count > 1]
    latest: dict[str, int] = {}
    reordered = 0
    for text in stored:
        name, put = text.split(" ")
        reordered += int(put) <= latest.get(name, -1)
        latest[name] = int(put)
    print(f"local rounds: rounds {rounds}, users {tally.counts['users']}, of these killed "
          f"{tally.counts['killed']}, servers killed {tally.counts['server']}, supervisors killed "
          f"{tally.counts['supervisor']}, acked {len(tally.acknowledged)}, lost {len(lost)}, "
          f"doubled {len(doubled)}, reordered {reordered}, failed {failed}, left behind "
          f"{left_behind}")
    return (len(tally.acknowledged) > 0 and not lost and not doubled and not reordered
            and not failed and not left_behind)


def main() -> int:
    if sys.argv[1:2] == ["--use"]:
        use(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryd-rounds-") as temporary:
        folder = (arguments.folder or pathlib.Path(temporary) / "store").resolve()
        return 0 if run(folder, rounds=arguments.rounds, seed=arguments.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
