#!/usr/bin/env python3
"""Measures memoryd beside what it could cost at the least and beside what it replaces, in one run
on one machine, and holds the ratios against the targets of targets.py.

Legs come in families. A family starts its servers, then every round runs each of its legs once,
every second round backwards, so that whatever else the machine does falls on all of them; ratios
are taken within a round. Stores lie on tmpfs, with PostgreSQL's fsync on, but for the family
`disk`. A leg that fails is named, the others go on, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import report
import targets
from bench import MEMORY, Bench, Samples, rounds

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# In this order; each is a module with a function `legs`.
_FAMILIES = ("wire", "disk", "peers", "growth", "footprint", "tokens", "steady")
_ROUNDS, _SECONDS, _STEADY_SECONDS = 3, 2, 600
_PAGE = _ROOT / "docs" / "BENCHMARKS.md"
# With the charts, beside the page.
_FOLDER = _ROOT / "docs" / "benchmarks"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--seconds", type=float, default=_SECONDS,
                        help="counted length of a leg")
    parser.add_argument("--steady-seconds", type=float, default=_STEADY_SECONDS,
                        help="length of the open loop")
    parser.add_argument("--disk", type=pathlib.Path, default="/var/tmp",
                        help="a folder on the disk that is measured")
    parser.add_argument("--only", nargs="+", choices=_FAMILIES, metavar="FAMILY",
                        help=f"some of {', '.join(_FAMILIES)}; prints only")
    parser.add_argument("--short", action="store_true",
                        help="one round of short legs, small fillings; prints only")
    parser.add_argument("--render", type=pathlib.Path, metavar="FILE",
                        help="measures nothing: writes page and charts out of a bench.json, such "
                        "as the one in the build folder that a run was broken off at")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.rounds, arguments.seconds, arguments.steady_seconds = 1, 0.5, 10
    for binary in ("memoryd", "memoryd_echo", "memoryd_load", "token_count"):
        if not (arguments.build / "bin" / binary).exists():
            parser.error(f"no {binary} in {arguments.build}/bin: run `make build` first")
    return arguments


class Run:
    """What was measured so far."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._load_average = os.getloadavg()[0]
        self._begin = time.monotonic()
        self._samples: Samples = {}
        self._notes: list[str] = []
        self._failures: list[str] = []

    def family(self, name: str) -> None:
        """Runs one family's legs, as far as they can be run."""
        print(f"{name}: after {(time.monotonic() - self._begin) / 60:.1f} minutes", flush=True)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="memoryd-bench.", dir=MEMORY))
        arguments = self._arguments
        try:
            with contextlib.ExitStack() as stack:
                bench = Bench(arguments.build, folder, arguments.disk, arguments.seconds,
                              arguments.short, stack, self._notes)
                legs = importlib.import_module(name).legs
                if name == "steady":
                    legs = functools.partial(legs, seconds=arguments.steady_seconds)
                rounds(legs(bench), arguments.rounds, self._samples, self._failed)
        except Exception as error:
            self._failed(name, error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _failed(self, what: str, error: Exception) -> None:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        self._failures.append(f"{what}: {said[:300]}")
        print(f"FAILED {what}: {said}", file=sys.stderr, flush=True)

    def record(self) -> dict:
        """All that the page says, as bench.json keeps it."""
        return {
            **report.circumstances(self._arguments.build),
            "rounds": self._arguments.rounds,
            "seconds": self._arguments.seconds,
            "reduced": (self._arguments.rounds < _ROUNDS or self._arguments.seconds < _SECONDS
                        or self._arguments.steady_seconds < _STEADY_SECONDS),
            "minutes": (time.monotonic() - self._begin) / 60,
            "load_average": [self._load_average, os.getloadavg()[0]],
            "notes": self._notes,
            "failures": self._failures,
            "figures": {row.what: row.figure(self._samples)
                        for row in (*targets.ROWS, *targets.PYTHON_ROWS)},
            "samples": self._samples,
        }


def measure(arguments: argparse.Namespace) -> dict:
    run = Run(arguments)
    for name in arguments.only or _FAMILIES:
        run.family(name)
        # For --render, should the run be broken off.
        (arguments.build / "bench.json").write_text(json.dumps(run.record()))
    return run.record()


def write(record: dict) -> None:
    import charts

    _FOLDER.mkdir(exist_ok=True)
    (_FOLDER / "bench.json").write_text(json.dumps(record, indent=1) + "\n")
    charts.write(record, _FOLDER)
    report.replace_results(_PAGE, "run.py", report.page(record))


def main() -> int:
    arguments = parse_arguments()
    # As an exception, so that what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments.render:
        record = json.loads(arguments.render.read_text())
        write(record)
    else:
        record = measure(arguments)
        print("\n".join(["", *report.page(record, charts=False)]))
        if not arguments.short and not arguments.only:
            write(record)
    for failure in record["failures"]:
        print(f"bench: failed: {failure}", file=sys.stderr)
    print(f"bench: {report.verdict(record)}")
    return 1 if record["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
