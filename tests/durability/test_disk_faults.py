"""Some of the system calls on SQLite's file fail; `make faults` has them all."""

from __future__ import annotations

import pytest

from disk_faults import FAILURES, Sweep


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.name)
def test_a_failing_disk_loses_nothing_acknowledged_and_keeps_nothing_refused(failure):
    sweep = Sweep(None, seed=1)
    tried, _ = sweep.run(failure, first=1, every=4.0)
    assert tried > 0
    assert sweep.totals.violations == 0
