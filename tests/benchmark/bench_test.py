"""Rounds over legs that do nothing but say when they ran."""

from __future__ import annotations

import processes
import steady
from bench import Leg, rounds


def test_every_second_round_goes_backwards_and_once_is_once():
    ran = []

    def leg(name, once=False):
        return Leg(name, lambda number: ran.append((number, name)) or {"x": number}, once)

    samples = {}
    rounds([leg("a"), leg("once", once=True), leg("b")], 3, samples, None)
    assert ran == [(0, "once"), (0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
    assert samples["a"] == [{"x": 0}, {"x": 1}, {"x": 2}]


def test_a_leg_that_fails_is_named_and_the_rest_goes_on():
    failed, samples = [], {}

    def breaks(number):
        if number == 0:
            raise RuntimeError("gone")
        return {"x": 1}

    rounds([Leg("breaks", breaks), Leg("works", lambda _: {"x": 2})], 2, samples,
               lambda name, error: failed.append((name, str(error))))
    assert failed == [("breaks", "gone")]
    assert samples == {"breaks": [None, {"x": 1}], "works": [{"x": 2}, {"x": 2}]}


def test_percentiles():
    assert processes.percentiles(range(1000, 0, -1)) == {
        "p50_us": 501, "p99_us": 991, "p999_us": 1000}
    assert processes.percentiles([]) == {"p50_us": 0, "p99_us": 0, "p999_us": 0}


def test_drift_leaves_out_the_time_in_which_memory_fills():
    assert steady.drift([1, 5, 10, 10, 10, 10, 11, 11]) == 1.1
    assert steady.drift([10, 20]) == 1
