"""Figures out of samples, and what they are held against."""

from __future__ import annotations

import pytest

import targets
from targets import Row


def rates(*values):
    return [None if value is None else {"ops_per_second": value, "p50_us": 10 * value}
            for value in values]


def test_quotients_are_taken_within_a_round():
    samples = {"a": rates(10, 20, 30), "b": rates(20, 20, 10)}
    assert targets.quotient("a", "b")(samples) == [0.5, 1, 3]
    assert targets.quotient("a", "b", times=10)(samples) == [5, 10, 30]


def test_a_round_in_which_one_of_both_failed_is_left_out():
    samples = {"a": rates(10, None, 30), "b": rates(20, 20, None)}
    assert targets.quotient("a", "b")(samples) == [0.5]
    assert targets.quotient("a", "never run")(samples) == []


def test_beside_a_sum():
    samples = {"put": rates(30), "echo": rates(10), "commit": rates(10)}
    assert targets.beside_sum("put", "echo", "commit")(samples) == [1.5]


def test_the_best_of_others_is_one_leg_for_all_rounds():
    samples = {"ours": rates(100, 100), "slow": rates(10, 50), "fast": rates(40, 40),
               "failed": rates(None, None)}
    # The fastest of a single round would be another one each time.
    assert targets.beside_best("ours", "slow", "fast", "failed")(samples) == [2.5, 2.5]
    assert targets.beside_best("ours", "failed")(samples) == []


def test_growth_is_by_cpu_per_call():
    samples = {"many": [{"server_cpu_seconds": 3.0, "ops": 100}],
               "few": [{"server_cpu_seconds": 4.0, "ops": 200}]}
    assert targets.cpu_growth("many", "few")(samples) == [1.5]


@pytest.mark.parametrize("tmpfs, expected", [(10_000, 0.5), (1_000, 0.8)])
def test_a_disk_is_not_asked_for_more_than_the_cpu_can_do(tmpfs, expected):
    samples = {"disk": [{"ops_per_second": 800, "batch_writes": 16}], "sync": rates(100),
               "tmpfs": rates(tmpfs)}
    assert targets.disk_limit("disk", "sync", "tmpfs")(samples) == [expected]


def test_headroom_is_what_the_generator_could_do_on_a_core():
    samples = {"put": [{"ops_per_second": 10_000}], "echo": [{"ops": 5_000, "cpu_seconds": 0.1}]}
    assert targets.headroom("put", "echo")(samples) == [5]


def test_a_target_is_reached_by_the_median():
    least, most = Row("", targets.value("", ""), 0.6), Row("", targets.value("", ""), 300, True)
    assert least.reached([0.5, 0.6, 0.9]) is True
    assert least.reached([0.5, 0.59, 0.9]) is False
    assert most.reached([100, 301, 500]) is False
    assert most.reached([300]) is True
    assert least.share([0.3]) == 0.5
    assert most.share([600]) == 0.5
    assert least.reached([]) is None
    assert Row("", targets.value("", "")).reached([1]) is None


def test_every_row_has_a_name_of_its_own():
    names = [row.what for row in (*targets.ROWS, *targets.PYTHON_ROWS)]
    assert len(names) == len(set(names))
