#!/usr/bin/env python3
"""Runs the catalogue of hostile inputs; the last line is `hostile: N right, N library limits`.

usage: run.py [PYTEST ARGUMENT...]      under tools/with_postgres.sh

A row is right when all of its cases passed. Exits with 1 when one failed or none was run.
"""

from __future__ import annotations

import collections
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))


class Outcomes:
    """What became of each row's cases."""

    def __init__(self) -> None:
        self.passed: collections.Counter[int] = collections.Counter()
        self.failed: set[int] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        if not name.startswith("test_is_answered_as_it_must_be["):
            return
        number = int(name.partition("[")[2].partition("-")[0])
        if report.failed or report.skipped:
            self.failed.add(number)
        elif report.when == "call":
            self.passed[number] += 1


def main(arguments: list[str]) -> int:
    outcomes = Outcomes()
    status = pytest.main(["-q", str(FOLDER), *arguments], plugins=[outcomes])

    import support.paths  # noqa: F401  (the table imports memoryd, which is found through it)
    from hostile.table import TABLE

    good = [row for row in TABLE
            if outcomes.passed[row.number] and row.number not in outcomes.failed]
    limits = [row for row in good if row.limit]
    for row in limits:
        print(f"{row.number:3} library limit: {row.limit}; contained: {row.contained}")
    for number in sorted(outcomes.failed):
        print(f"{number:3} FAILED")
    print(f"hostile: {len(good) - len(limits)} right, {len(limits)} library limits")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
