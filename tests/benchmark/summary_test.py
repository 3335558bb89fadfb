"""The head of the page."""

from __future__ import annotations

import pathlib

import report
import summary

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "BENCHMARKS.md"
LEGS = """
| leg | calls/s | p50 µs |
| --- | ---: | ---: |
| sqlite put 32 | 2,000 (1,000 to 3,000) | 10 |
| echo put 32 | 40,000 | 5 |
| memoryd langchain put | 900 | 5 |
| library langchain put, threads | 100 | 5 |
| library langchain put, processes | 300 | 5 |
"""


def row_of(page: str, what: str) -> str:
    row, = (line for line in summary.lines(page) if line.startswith(f"| {what} |"))
    return row


def test_figures_come_from_the_tables():
    assert row_of(LEGS, "Put, SQLite, 32 in flight") == (
        "| Put, SQLite, 32 in flight | 2,000 calls/s | 40,000 calls/s "
        "| a server that stores nothing |")


def test_the_best_of_several_stands_beside():
    assert "| 900 calls/s | 300 calls/s |" in row_of(LEGS, "Put, 32 in flight")


def test_what_was_not_measured_is_left_empty():
    assert row_of(LEGS, "start to ready, SQLite") == "| start to ready, SQLite |  |  |  |"


def test_the_picture_has_the_rates_that_were_measured():
    picture = summary.picture(LEGS)
    assert "2,000" in picture and "40,000" in picture
    assert picture.count("Put, 32 in flight") == 1
    assert "one caller" not in picture
    assert summary.picture("").startswith("<svg")


def test_the_head_of_the_page_is_that_of_its_tables():
    """Else run tests/benchmark/summary.py."""
    text = PAGE.read_text(encoding="utf-8")
    assert all(row.split("|")[2].strip() for row in summary.lines(text)[2:-2])
    assert report._replaced(text, "summary.py", summary.lines(text)) == text
    assert (PAGE.parent / summary.PICTURE).read_text(encoding="utf-8") == summary.picture(text)


def test_a_program_that_writes_a_table_refreshes_the_head(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    page = tmp_path / "page.md"
    head, legs = (report._BEGIN.format(script=script) for script in ("summary.py", "run.py"))
    page.write_text(f"{head}\n{report._END}\n\n{legs}\n{report._END}\n")
    report.replace_results(page, "run.py", LEGS.splitlines())
    assert "| 2,000 calls/s | 40,000 calls/s |" in page.read_text()
    assert "2,000" in (tmp_path / summary.PICTURE).read_text()
