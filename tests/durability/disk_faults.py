#!/usr/bin/env python3
"""Fails the k-th system call of a server on its SQLite file, for k = 1, 2, 3 and on.

usage: disk_faults.py [--every SHARE] [--first N] [--seed N] [--start new|full-log|both]

For each kind of call and of failure: a server is started, gets some writes and is told to end,
while its k-th such call fails, or that and all that follow; until a k beyond the last call leaves
it untouched. The server may wait for its store, refuse to start with a line that says why, and
answer errors; it must end well when it is told to. The next server, on a disk that is well and in
half of the cases has lost power, must start; what was acknowledged must be there, what was refused
must not, and SQLite finds nothing wrong. A server that goes on must take writes again as soon as
the disk is well.

The first N of the k are all tried (20), then each that is a share larger than the one before (0.1).
A line for each kind says how many k that were, and which left all untouched; the last line is
`disk faults: k N, calls failed N, acked N, refused N, unknown N, violations N`. Exits 1 when there
is a violation, or a kind of failure that never came.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import errno
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]),
                str(pathlib.Path(__file__).resolve().parent)]

from history_client import HistoryClient
from support.calls import Calls
from support.disk import FOREVER, Call, Disk
from support.server import Server
from support.waiting import wait_for
from torture import checker

_SESSIONS = ("a", "b")
# Of SQLite's log, in pages; at 1000 it is written back into the database.
_ALMOST_FULL_BYTES = 3_700_000
# What a server says that can't open its store: it goes on asking for it, or ends.
_WAITS, _REFUSES = "waiting for the store: ", "memoryd: "
# How often a write is repeated on a disk that is well again.
_ATTEMPTS = 5


@dataclasses.dataclass(frozen=True)
class Failure:
    """How calls fail: `bad` of them; with `short_first` the first is a write of half the bytes."""

    name: str
    calls: Call
    error: int
    bad: int = 1
    short_first: bool = False


FAILURES = (
    Failure("write EIO", Call.WRITE, errno.EIO),
    Failure("write EIO for ever", Call.WRITE, errno.EIO, FOREVER),
    Failure("write short, then ENOSPC", Call.WRITE, errno.ENOSPC, 2, True),
    Failure("write ENOSPC for ever", Call.WRITE, errno.ENOSPC, FOREVER, True),
    Failure("sync EIO", Call.SYNC, errno.EIO),
    Failure("sync EIO for ever", Call.SYNC, errno.EIO, FOREVER),
    Failure("truncate EIO", Call.TRUNCATE, errno.EIO),
    Failure("open EIO", Call.OPEN, errno.EIO),
    Failure("open EMFILE for ever", Call.OPEN, errno.EMFILE, FOREVER),
    Failure("all EIO for ever", Call.OPEN | Call.WRITE | Call.SYNC | Call.TRUNCATE, errno.EIO,
            FOREVER),
)


@dataclasses.dataclass
class Totals:
    k: int = 0
    failed: int = 0
    acked: int = 0
    refused: int = 0
    unknown: int = 0
    violations: int = 0
    codes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


@contextlib.contextmanager
def full_log() -> Iterator[Disk]:
    """A store whose server was killed when its log was about to be written back."""
    with tempfile.TemporaryDirectory(prefix="memoryd-disk-") as folder:
        disk = Disk(pathlib.Path(folder))
        log = pathlib.Path(disk.store.removeprefix("sqlite:") + "-wal")
        with Server(disk.store, environment=disk.environment()) as server, \
                server.channel() as channel:
            calls, client = Calls(channel), HistoryClient()
            while log.stat().st_size < _ALMOST_FULL_BYTES:
                client.set(calls, "filler", [40_000])
            server.kill()
        yield disk


def write_some(client: HistoryClient, calls: Calls) -> None:
    for attempts in (1, 3):
        client.put(calls, "a", [100, 3000], attempts)
        client.put(calls, "b", [20_000], attempts)
        client.set(calls, "b", [10, 5000, 10], attempts)
        client.put(calls, "a", [70_000], attempts)
        client.reset(calls, "b", attempts)
        client.put(calls, "b", [500], attempts)


class Sweep:
    """The cases of one beginning of a store; `like` is None for a new one."""

    def __init__(self, like: Disk | None, seed: int) -> None:
        self.totals = Totals()
        self._like = like
        self._chance = random.Random(f"sweep {seed}")

    def run(self, failure: Failure, first: int, every: float) -> tuple[int, int]:
        """How many k were tried, and the least k that left all untouched."""
        tried, k = 0, 1
        while self._case(failure, k):
            tried += 1
            k += 1 if k < first else max(1, int(every * k))
        self.totals.k += tried
        return tried, k

    def _case(self, failure: Failure, k: int) -> bool:
        """False when the server had ended before its k-th call."""
        name = f"{failure.name}, k {k}"
        with tempfile.TemporaryDirectory(prefix="memoryd-disk-") as folder:
            disk = Disk(pathlib.Path(folder), self._chance.random(), self._like)
            client = HistoryClient()
            disk.fail(failure.calls, failure.error, good=k - 1, bad=failure.bad,
                      short_first=failure.short_first)
            self._serve(name, failure, disk, client)
            failed = disk.failed()
            disk.heal()
            if self._chance.random() < 0.5:
                name += ", power lost"
                disk.lose_power()
            self._check(name, disk, client)
        self.totals.failed += failed
        return failed > 0

    def _serve(self, name: str, failure: Failure, disk: Disk, client: HistoryClient) -> None:
        server = Server(disk.store, environment=disk.environment(), wait=False)
        try:
            wait_for(lambda: server.target or server.process.poll() is not None
                     or _WAITS in server.output())
            if server.process.poll() is not None:
                if server.wait() != 1 or _REFUSES not in server.output():
                    self._violation(f"{name}: no start, and no word why", server)
                return
            if not server.target and disk.failed() and self._chance.random() < 0.5:
                disk.heal()
                server.wait_until_ready()
            if server.target or failure.bad < FOREVER:
                server.wait_until_ready()
                self._use(name, disk, client, server)
            code = server.stop()
            if code != 0:
                self._violation(f"{name}: ended with {code}", server)
        except (RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
            self._violation(f"{name}: {error!r}", server)
        finally:
            server.kill()

    def _use(self, name: str, disk: Disk, client: HistoryClient, server: Server) -> None:
        with server.channel() as channel:
            calls = Calls(channel)
            write_some(client, calls)
            if disk.failed() and self._chance.random() < 0.5:
                disk.heal()
                outcome = client.put(calls, "a", [10], _ATTEMPTS)
                if outcome != "ok":
                    self._violation(f"{name}: {outcome} on a disk that is well again", server)

    def _check(self, name: str, disk: Disk, client: HistoryClient) -> None:
        for damage in disk.damage():
            self._violation(f"{name}: {damage}")
        try:
            with Server(disk.store, environment=disk.environment()) as server, \
                    server.channel() as channel:
                calls = Calls(channel)
                if client.put(calls, "a", [10]) != "ok":
                    self._violation(f"{name}: no Put after it", server)
                for session in _SESSIONS:
                    client.read_all(calls, session)
        except RuntimeError as error:
            self._violation(f"{name}: no start after it: {error}")
            return
        report = checker.check(client.records)
        for example in report.examples:
            print(f"{name}: {example}")
        self.totals.violations += report.violations
        self.totals.acked += report.acked
        self.totals.refused += report.refused
        self.totals.unknown += report.unknown
        self.totals.codes.update(client.codes)

    def _violation(self, text: str, server: Server | None = None) -> None:
        print(text, *(server.output().splitlines()[-3:] if server else ()), sep="\n", flush=True)
        self.totals.violations += 1


def run(start: str, first: int, every: float, seed: int) -> tuple[Totals, bool]:
    """What came of it, and whether each failure came at least once."""
    with contextlib.ExitStack() as stack:
        like = stack.enter_context(full_log()) if start == "full-log" else None
        sweep = Sweep(like, seed)
        all_came = True
        for failure in FAILURES:
            tried, last = sweep.run(failure, first, every)
            print(f"{start}: {failure.name}: {tried} k, untouched at {last}", flush=True)
            all_came = all_came and tried > 0
    return sweep.totals, all_came


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=20)
    parser.add_argument("--every", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--start", choices=("new", "full-log", "both"), default="both")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    starts = ("new", "full-log") if options.start == "both" else (options.start,)
    results = [run(start, options.first, options.every, options.seed) for start in starts]
    figures = {field: sum(getattr(totals, field) for totals, _ in results)
               for field in ("k", "failed", "acked", "refused", "unknown", "violations")}
    codes = sum((totals.codes for totals, _ in results), collections.Counter())
    print("cases with an error of: "
          + ", ".join(f"{code} {count}" for code, count in sorted(codes.items())))
    print("disk faults: k {k}, calls failed {failed}, acked {acked}, refused {refused}, "
          "unknown {unknown}, violations {violations}".format(**figures), flush=True)
    return 0 if not figures["violations"] and all(came for _, came in results) else 1


if __name__ == "__main__":
    sys.exit(main())
