"""memoryd's class for an interface beside the library's own, both over one PostgreSQL.

Both keep their data in one PostgreSQL, each in a database of its own, with fsync and
synchronous_commit on; `--folder` is where it lies. Server, PostgreSQL and callers share the machine.
Callers are coroutines of one event loop, each with data of its own, and share what was opened.
Every round runs each leg once, memoryd's right beside the other's, and every second round backwards.
A ratio is memoryd's calls a second over the other's in the same round; shown are its median, the
lowest and the highest. Beside it stands the CPU time a call: of the callers, and of what serves
them, which is PostgreSQL, and memoryd on one side.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import callers
import processes
from bench import Sample

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import paths  # (makes the adapters importable)

# Opens what the callers of one leg share.
Open = Callable[[contextlib.AsyncExitStack], Awaitable[Any]]
# From what is shared, what one caller repeats, once it has made what it needs. The other argument
# is how many messages its data has.
Caller = Callable[[Any, int], Awaitable[Callable[[], Awaitable[object]]]]


@dataclasses.dataclass(frozen=True)
class Leg:
    """`theirs` opens from the database's URL and the number of callers, `ours` from the server's
    address. `calls` is how many calls of the interface the caller makes each time."""

    theirs: Callable[[str, int], Open]
    ours: Callable[[str], Open]
    caller: Caller
    calls: int = 1


_Samples = dict[tuple[str, int, str], list[Sample]]


def _run(open_one: Open, leg: Leg, count: int, given: argparse.Namespace,
         served: Callable[[], float]) -> Sample:
    opened: list[Any] = []

    async def user(stack: contextlib.AsyncExitStack) -> Callable[[], Awaitable[object]]:
        if not opened:
            opened.append(await open_one(stack))
        return await leg.caller(opened[0], given.messages)

    sample = callers.coroutines(
        user, count, given.seconds, lambda: (time.process_time(), served()))
    return {**sample, "ops_per_second": leg.calls * sample["ops_per_second"],
            "cpu": [1e6 * spent / leg.calls for spent in sample["spent"]]}


def _shown(found: Sequence[float], digits: int) -> str:
    return (f"{statistics.median(found):,.{digits}f} "
            f"({min(found):,.{digits}f} to {max(found):,.{digits}f})")


def _report(samples: _Samples, given: argparse.Namespace, other: str) -> None:
    print(f"\n| calls/s | callers | memoryd | {other} | memoryd / {other} |"
          " CPU µs of the callers + the servers |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name in given.only:
        for count in given.callers:
            mine, theirs = ([one["ops_per_second"] for one in samples[name, count, side]]
                            for side in ("memoryd", other))
            ratios = [one / two for one, two in zip(mine, theirs, strict=True)]
            cpu = [" + ".join(f"{statistics.median(part):.0f}" for part in
                              zip(*(one["cpu"] for one in samples[name, count, side]), strict=True))
                   for side in ("memoryd", other)]
            print(f"| {name} | {count} | {_shown(mine, 0)} | {_shown(theirs, 0)} "
                  f"| {_shown(ratios, 2)} × | {cpu[0]}, beside {cpu[1]} |")


def _measure(legs: Mapping[str, Leg], other: str, given: argparse.Namespace,
             folder: pathlib.Path) -> None:
    with processes.Postgres(given.folder) as postgres:
        database = postgres.database("theirs")
        server = processes.Server(
            [given.binary, "--listen=127.0.0.1:0", f"--store={postgres.database('memoryd')}"],
            folder / "memoryd.log")

        def served() -> float:
            return server.cpu_seconds() + postgres.cpu_seconds()

        try:
            order = [(name, count, side) for name in given.only for count in given.callers
                     for side in ("memoryd", other)]
            samples: _Samples = {one: [] for one in order}
            for number in range(given.rounds):
                for name, count, side in order if number % 2 == 0 else reversed(order):
                    leg = legs[name]
                    opened = (leg.ours(server.target) if side == "memoryd"
                              else leg.theirs(database, count))
                    sample = _run(opened, leg, count, given, served)
                    samples[name, count, side].append(sample)
                    print(f"  {number + 1}/{given.rounds} {name} {count} {side}: "
                          f"{sample['ops_per_second']:,.0f} /s, p50 {sample['p50_us']:,.0f} µs, "
                          f"CPU {sample['cpu'][0]:.0f} + {sample['cpu'][1]:.0f} µs", flush=True)
            _report(samples, given, other)
        finally:
            server.stop()


def main(description: str, other: str, legs: Mapping[str, Leg]) -> None:
    """Measures as the command line says, and prints a table. `other` is the library's side."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each leg")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--messages", type=int, default=20, help="that a caller's data has")
    parser.add_argument("--only", nargs="+", choices=legs, default=[*legs])
    parser.add_argument("--folder", default="/dev/shm", help="of PostgreSQL's data")
    parser.add_argument("--binary", default=paths.BINARY, type=pathlib.Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memoryd-beside-") as folder:
        _measure(legs, other, given, pathlib.Path(folder))
