"""Legs: what is measured, where they run (PostgreSQL, servers, load), and the rounds over them."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import processes

# What one run of a leg found, by name: rates in calls a second, `_us` microseconds.
Sample = dict[str, Any]
# By leg, a sample for each round; None where the leg failed.
Samples = dict[str, list[Sample | None]]

MEMORY = "/dev/shm"
SESSIONS = 64
MESSAGE_BYTES = 88


@dataclass(frozen=True)
class Leg:
    """What every round runs once; `run` gets the number of the round."""

    name: str
    run: Callable[[int], Sample]
    once: bool = False  # In the first round only, before the others.


@dataclass
class Bench:
    """Of one family: all that it starts ends with `stack`."""

    build: pathlib.Path
    folder: pathlib.Path  # On tmpfs.
    disk: pathlib.Path  # On the disk that is measured.
    seconds: float  # Counted length of a leg.
    short: bool
    stack: contextlib.ExitStack
    notes: list[str] = field(default_factory=list)  # What the page has to say of this run.
    _postgres: processes.Postgres | None = None
    _servers: int = 0

    @property
    def postgres(self) -> processes.Postgres:
        """On tmpfs, with fsync on."""
        if self._postgres is None:
            self._postgres = self.stack.enter_context(processes.Postgres(MEMORY))
        return self._postgres

    def memoryd(self, store: str, *flags: str) -> processes.Server:
        return self._start("memoryd", f"--store={store}", *flags)

    def sqlite(self, name: str) -> str:
        return f"sqlite:{self.folder / name}.db"

    def echo(self, reply_bytes: int, *flags: str,
             listen: str = "127.0.0.1:0") -> processes.Server:
        return self._start("memoryd_echo", f"--reply_bytes={reply_bytes}", *flags, listen=listen)

    def _start(self, program: str, *flags: str, listen: str = "127.0.0.1:0") -> processes.Server:
        self._servers += 1
        log = self.folder / f"{self._servers}-{program}.log"
        command = [self.build / "bin" / program, f"--listen={listen}", *flags]
        server = processes.Server(command, log)
        self.stack.callback(server.stop)
        return server

    def load(self, server: processes.Server, method: str, **flags: Any) -> Sample:
        binary = self.build / "bin" / "memoryd_load"
        return processes.load(binary, server.target, method=method, **flags)

    def reply_bytes(self, server: processes.Server, method: str, *, sessions: int = SESSIONS,
                    **flags: Any) -> int:
        """Of a call such as these, so that an echo can answer as much."""
        return round(self.load(server, method, count=sessions, sessions=sessions,
                               **flags)["reply_bytes"])

    def measure(self, server: processes.Server, method: str, *,
                postgres: processes.Postgres | None = None, sessions: int = SESSIONS,
                seconds: float | None = None, warmup_calls: int | None = None,
                **flags: Any) -> Sample:
        """A closed loop for `seconds`, or for `count` calls, and what it cost the processes."""
        # A run of its own rather than --warmup: the servers' CPU time is read from outside and
        # must cover exactly the calls that are counted.
        warmup_calls = 2 * sessions if warmup_calls is None else warmup_calls
        if warmup_calls > 0:
            self.load(server, method, **{**flags, "count": warmup_calls}, sessions=sessions)
        if "count" not in flags:
            flags["seconds"] = seconds or self.seconds
        before = server.cpu_seconds(), postgres.cpu_seconds() if postgres else 0
        sample = self.load(server, method, warmup=0, sessions=sessions, **flags)
        sample["server_cpu_seconds"] = server.cpu_seconds() - before[0]
        if postgres:
            sample["postgres_cpu_seconds"] = postgres.cpu_seconds() - before[1]
        return sample


def rounds(legs: Sequence[Leg], count: int, samples: Samples,
           failed: Callable[[str, Exception], None]) -> None:
    """Runs each leg once a round, every second round backwards. One that raises has None there."""
    for number in range(count):
        once = [leg for leg in legs if leg.once and number == 0]
        always = [leg for leg in legs if not leg.once]
        for leg in [*once, *(always if number % 2 == 0 else reversed(always))]:
            try:
                sample = leg.run(number)
            except Exception as error:
                failed(leg.name, error)
                sample = None
            samples.setdefault(leg.name, []).append(sample)
            print(f"  {number + 1}/{count} {leg.name}: {brief(sample)}", flush=True)


def brief(sample: dict | None) -> str:
    """A line of progress."""
    if sample is None:
        return "failed"
    if "ops_per_second" not in sample:
        return ", ".join(f"{name} {value:,.1f}" for name, value in sample.items())
    latency = "".join(f", {name[:-3]} {sample[name]:,.0f} µs"
                      for name in ("p50_us", "p99_us") if name in sample)
    return f"{sample['ops_per_second']:,.0f} /s{latency}"
