"""The model of docs/SCALE.md."""

from __future__ import annotations

import pytest

import report
import scale

PAGE = """
| leg | calls/s | server | PostgreSQL |
| --- | ---: | ---: | ---: |
| postgresql put 1 | 100 | 200 | 120 |
| postgresql put 128 | 100 | 40 | 30 |
| postgresql get 32 | 100 | 60 | 20 |
| sqlite put 128 | 100 | 70 |  |
| sqlite get 32 | 100 | 30 |  |
| disk sqlite put 128 | 1,000 | 60 |  |

| leg | measured | median (lowest to highest) |
| --- | --- | ---: |
| disk postgresql put 128 | batch writes | 10.00 (9.00 to 11.00) |
"""
KNOWN = scale.costs(PAGE)


def test_costs_come_from_the_tables():
    assert KNOWN.turn("server") == 100 and KNOWN.turn("PostgreSQL") == 50
    assert KNOWN.batch == pytest.approx(100) and KNOWN.batched_put == pytest.approx(20)


def test_a_step_carries_what_its_busiest_part_can():
    found = {step.what: step.least() for step in scale.steps(KNOWN, 10, 0.5, 4, 4)}
    assert found["SQLite, one server"].turns == 500
    assert found["PostgreSQL, one server, one committer"].turns == pytest.approx(0.5e6 / 30)
    assert found["… 4 committers"].turns == pytest.approx(0.5e6 * 10 / 100)
    assert found["… 4 committers"].part == "processors of the server"
    together = found["4 servers, each session on one of them"]
    assert together.turns == pytest.approx(0.5e6 * 10 / 50)
    assert together.arithmetic == "10 × 0.5 / 50 µs"


def test_a_put_that_comes_alone_waits_for_itself():
    waits = scale.simulate(KNOWN, rate=1, committers=1, commit_us=100)
    assert waits.batch == pytest.approx(1, abs=0.01)
    assert waits.half_us == pytest.approx(220)


def test_the_more_comes_the_fuller_batches_are_and_all_is_carried():
    few, many = (scale.simulate(KNOWN, rate, 1, 100) for rate in (5_000, 45_000))
    assert few.batch < many.batch and few.nearly_all_us < many.nearly_all_us < 100_000
    halves = scale.simulate(KNOWN, 45_000, 2, 100)
    assert halves.batch < many.batch and halves.half_us < many.half_us


def test_the_page_has_what_the_program_prints():
    """Else run tests/benchmark/scale.py --write."""
    text = scale.PAGE.read_text(encoding="utf-8")
    figures = scale.FIGURES.read_text(encoding="utf-8")
    assert report._replaced(text, "scale.py", scale.lines(figures)) == text
