"""The generated part of the page."""

from __future__ import annotations

import report
import targets
from targets import Row

ROWS = [Row("fast", targets.value("", ""), 0.6, reach=0.7),
        Row("slow", targets.value("", ""), 300, True, digits=0, unit="ms"),
        Row("open", targets.value("", "")), Row("absent", targets.value("", ""), 1)]


def test_a_row_says_what_was_reached_and_what_was_not():
    table = report.target_table({"fast": [0.7, 0.61, 0.8], "slow": [301], "open": [2]}, ROWS)
    assert table[2:] == [
        "| fast | 0.70 (0.61 to 0.80) × | ≥ 0.6 | 0.7 | reached | 3 |",
        "| slow | 301 ms | ≤ 300 |  | **missed** | 1 |",
        "| open | 2.00 × |  |  |  | 1 |",
        "| absent | not measured | ≥ 1 |  |  | 0 |",
    ]


def test_a_table_without_targets_has_two_columns():
    assert report.target_table({"open": [2]}, ROWS[2:3], with_targets=False) == [
        "| what | median (lowest to highest) |", "| --- | ---: |", "| open | 2.00 × |"]


def test_legs_have_their_medians_and_failed_rounds_are_left_out():
    sample = {"ops_per_second": 1000.0, "ops": 2000, "p50_us": 10.0, "p99_us": 20.0,
              "p999_us": 30.0, "cpu_seconds": 0.1, "server_cpu_seconds": 0.2}
    table = report.measurements({"put": [sample, None, {**sample, "ops_per_second": 3000.0}],
                                 "failed": [None], "start": [{"start_ms": 5}]})
    assert table[2:] == [
        "| put | 2,000 (1,000 to 3,000) | 10 (10 to 10) | 20 | 30 | 50 | 100 |  |"]


def test_what_is_no_latency_has_a_table_of_its_own():
    table = report.others({"start": [{"start_ms": 5}, None, {"start_ms": 7}],
                           "steady": [{"ops_per_second": 1.0, "drift": 1.01, "list": [1, 2]}]})
    assert table[2:] == ["| start | start ms | 6.00 (5.00 to 7.00) |", "| steady | drift | 1.01 |"]


def test_a_reduced_run_on_a_busy_machine_says_so():
    full = {"reduced": False, "load_average": [0.2, 3.0]}
    assert report._doubts(full) == []
    assert len(report._doubts({"reduced": True, "load_average": [8.0, 9.0]})) == 2


def test_only_what_is_between_its_markers_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    before = report._BEGIN.format(script="run.py")
    other = report._BEGIN.format(script="other.py")
    page.write_text(f"a\n{before}\nold\n{report._END}\nb\n{other}\nkept\n{report._END}\n")
    report.replace_results(page, "run.py", ["new"])
    assert page.read_text() == (
        f"a\n{before}\n\nnew\n\n{report._END}\nb\n{other}\nkept\n{report._END}\n")
