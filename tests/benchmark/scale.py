#!/usr/bin/env python3
"""How far each step of docs/SCALE.md carries: a model of processor time, and a simulation of batches.

usage: scale.py [--cores N] [--busy SHARE] [--servers N] [--committers N] [--write]

A turn is a Put of one message and a Get. What either costs comes from the legs of docs/BENCHMARKS.md;
a step carries as many turns a second as keep its busiest part at SHARE (0.7) of N (16) cores. The
simulation sends Puts as a Poisson process to committers, each of which writes all that wait in one
batch. `--write` puts the tables into docs/SCALE.md, as all programs do that write BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import collections
import heapq
import pathlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import summary

_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PAGE, FIGURES = _DOCS / "SCALE.md", _DOCS / "BENCHMARKS.md"
_SERVER, _POSTGRESQL = "server", "PostgreSQL"

# Measured on 29 November 2026, PostgreSQL 15, messages of 88 bytes; docs/SCALE.md says how.
#
# PostgreSQL's processor time of a turn whose Get comes to another server than its Put, over that of
# one on the same server, with so many active messages.
_ELSEWHERE = {20: 2.6, 800: 10.4}
# Bytes that a Put adds to PostgreSQL's log, and to its tables and indexes.
_LOGGED, _STORED = 695, 283

_SIMULATED_PUTS = 100_000
_LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Costs:
    """Processor time in µs."""

    put: Mapping[str, float]  # By part: under load, in batches.
    get: Mapping[str, float]
    sqlite_put: float
    sqlite_get: float
    sqlite_rate: float  # The most Puts a second that SQLite's one writer was seen to carry, on a disk.
    # PostgreSQL's of a batch with so many Puts, at least.
    batch: float
    batched_put: float

    def turn(self, part: str) -> float:
        return self.put[part] + self.get[part]


def costs(page: str) -> Costs:
    """From the text of BENCHMARKS.md."""
    tables = list(summary._tables(page))

    def of(leg: str, column: str) -> float:
        return summary._number(summary._figure(tables, summary.leg(leg, column=column)))

    def by_part(leg: str) -> dict[str, float]:
        return {part: of(leg, part) for part in (_SERVER, _POSTGRESQL)}

    in_batch, = (float(row[2].split()[0]) for _, rows in tables for row in rows
                 if row[:2] == ["disk postgresql put 128", "batch writes"])
    alone = of("postgresql put 1", _POSTGRESQL)
    together = of("postgresql put 128", _POSTGRESQL)
    # alone = batch + put, and together = batch / in_batch + put.
    batch = (alone - together) / (1 - 1 / in_batch)
    return Costs(by_part("postgresql put 128"), by_part("postgresql get 32"),
                 of("sqlite put 128", _SERVER), of("sqlite get 32", _SERVER),
                 of("disk sqlite put 128", summary.RATE), batch, alone - batch)


@dataclass(frozen=True)
class Bound:
    part: str
    turns: float  # A second.
    arithmetic: str


@dataclass(frozen=True)
class Step:
    what: str
    bounds: Sequence[Bound]

    def least(self) -> Bound:
        return min(self.bounds, key=lambda bound: bound.turns)


def steps(known: Costs, cores: int, busy: float, servers: int, committers: int) -> list[Step]:
    def processors(part: str, machines: int, microseconds: float) -> Bound:
        count = f"{machines} × " if machines > 1 else ""
        return Bound(f"processors of {part}", machines * cores * busy * 1e6 / microseconds,
                     f"{count}{cores} × {busy:g} / {microseconds:.0f} µs")

    def writers(count: int, each: int = 1) -> Bound:
        microseconds = known.put[_POSTGRESQL]
        times = " × ".join(str(n) for n in (count, each) if n > 1)
        return Bound("committers" if count * each > 1 else "the one committer",
                     count * each * busy * 1e6 / microseconds,
                     f"{times + ' × ' if times else ''}{busy:g} / {microseconds:.0f} µs")

    server = known.turn(_SERVER)
    store = known.turn(_POSTGRESQL)

    def shared(what: str, microseconds: float) -> Step:
        return Step(what, [processors("the servers", servers, server),
                           processors(_POSTGRESQL, 1, microseconds), writers(servers, committers)])

    return [
        Step("SQLite, one server", [
            processors("the server", 1, known.sqlite_put + known.sqlite_get),
            Bound("SQLite's one writer", busy * known.sqlite_rate,
                  f"{busy:g} × {known.sqlite_rate:,.0f} Puts/s")]),
        Step("PostgreSQL, one server, one committer", [
            processors("the server", 1, server), processors(_POSTGRESQL, 1, store), writers(1)]),
        Step(f"… {committers} committers", [
            processors("the server", 1, server), processors(_POSTGRESQL, 1, store),
            writers(1, committers)]),
        shared(f"{servers} servers, each session on one of them", store),
        *(shared(f"{servers} servers, sessions on any, {messages} active messages", store * factor)
          for messages, factor in _ELSEWHERE.items()),
        Step(f"{servers} deployments of one server each, tenants spread", [
            processors("the servers", servers, server),
            processors(_POSTGRESQL, servers, store), writers(servers, committers)]),
    ]


@dataclass(frozen=True)
class Waits:
    rate: float  # Puts a second.
    batch: float  # Puts, on average.
    half_us: float
    nearly_all_us: float  # 99 of 100.


def simulate(known: Costs, rate: float, committers: int, commit_us: float, seed: int = 1) -> Waits:
    """Puts that arrive at `rate` and are answered when their batch is stored, which takes
    PostgreSQL's processor time for it and `commit_us`, the disk's or a standby's."""
    source = random.Random(seed)
    free = [0.0] * committers
    waits: list[float] = []
    batches = 0
    arrivals = _arrivals(source, rate)
    waiting: collections.deque[float] = collections.deque([next(arrivals)])
    coming = next(arrivals)
    while len(waits) < _SIMULATED_PUTS:
        begin = max(heapq.heappop(free), waiting[0])
        while coming <= begin:
            waiting.append(coming)
            coming = next(arrivals)
        end = begin + known.batch + known.batched_put * len(waiting) + commit_us
        waits.extend(end - arrival for arrival in waiting)
        batches += 1
        waiting.clear()
        waiting.append(coming)
        coming = next(arrivals)
        heapq.heappush(free, end)
    waits.sort()
    return Waits(rate, len(waits) / batches, waits[len(waits) // 2], waits[len(waits) * 99 // 100])


def _arrivals(source: random.Random, rate: float) -> Iterator[float]:
    """Times in µs."""
    time = 0.0
    while True:
        time += source.expovariate(rate / 1e6)
        yield time


def lines(page: str, cores: int = 16, busy: float = 0.7, servers: int = 4,
          committers: int = 4) -> list[str]:
    """The tables, of the text of BENCHMARKS.md."""
    known = costs(page)
    found = [f"| machines of {cores} cores, {100 * busy:.0f} % busy | turns/s | bounded by "
             "| arithmetic | bytes of log a second, of store a day |",
             "| --- | ---: | --- | --- | ---: |"]
    for step in steps(known, cores, busy, servers, committers):
        least = step.least()
        size = "" if step.what.startswith("SQLite") else (
            f"{least.turns * _LOGGED / 1e6:.0f} MB, {least.turns * _STORED * 86_400 / 1e12:.1f} TB")
        found.append(f"| {step.what} | {_rounded(least.turns)} | {least.part} "
                     f"| {least.arithmetic} | {size} |")
    found += ["", "A batch takes PostgreSQL "
              f"{known.batch:.0f} µs and {known.batched_put:.0f} µs a Put. Puts of one server with one "
              f"committer, simulated ({_SIMULATED_PUTS:,} Puts each):", "",
              "| Puts/s, as a share of what the committer can carry | Puts a batch | p50, p99 with a "
              "commit of 0.1 ms | p50, p99 with one of 1 ms |",
              "| --- | ---: | ---: | ---: |"]
    for load in _LOADS:
        rate = load * 1e6 / known.batched_put
        near, far = (simulate(known, rate, 1, commit_us) for commit_us in (100, 1_000))
        found.append(f"| {_rounded(rate)} ({100 * load:.0f} %) | {near.batch:.1f}, {far.batch:.1f} "
                     f"| {_milliseconds(near)} | {_milliseconds(far)} |")
    return found


def _rounded(rate: float) -> str:
    """With two digits that count."""
    step = 10 ** max(len(str(round(rate))) - 2, 0)
    return f"{round(rate / step) * step:,}"


def _milliseconds(waits: Waits) -> str:
    return f"{waits.half_us / 1e3:.1f}, {waits.nearly_all_us / 1e3:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--busy", type=float, default=0.7)
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--committers", type=int, default=4)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write:
        import report  # Which imports this module.

        report.refresh_scale(FIGURES)
    else:
        print("\n".join(lines(FIGURES.read_text(encoding="utf-8"), options.cores, options.busy,
                              options.servers, options.committers)))


if __name__ == "__main__":
    main()
