#!/usr/bin/env python3
"""Writes the head of docs/BENCHMARKS.md, its main figures, as a table and as a picture.

usage: summary.py

Both are made of the page's other tables and add nothing to them. Programs that write a table write
the head too; run this one after a table was changed by hand.
"""

from __future__ import annotations

import html
import math
import pathlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "BENCHMARKS.md"
PICTURE = "benchmarks/summary.svg"
RATE = "calls/s"
_MEDIAN = "median (lowest to highest)"
_NOTHING = "a server that stores nothing"
_LLAMA, _LANGCHAIN = "LlamaIndex `Memory`", "langchain-postgres"

_OURS, _BESIDE = "#2a7f62", "#9aa5b1"
_WIDTH, _LEFT, _RIGHT, _TOP, _STEP, _BAR = 860, 350, 70, 70, 36, 12


@dataclass(frozen=True)
class Cell:
    """A figure of the page: its table's column and its row's first cell. Of several, the best."""

    column: str
    rows: tuple[str, ...]


def leg(*names: str, column: str = RATE) -> Cell:
    return Cell(column, names)


@dataclass(frozen=True)
class Row:
    what: str
    ours: Cell
    unit: str = RATE
    beside: Cell | None = None
    name: str = ""  # Of what stands beside.


ROWS = [
    Row("Put, SQLite, 32 in flight", leg("sqlite put 32"), beside=leg("echo put 32"),
        name=_NOTHING),
    Row("Put, PostgreSQL, 32 in flight", leg("postgresql put 32"), beside=leg("echo put 32"),
        name=_NOTHING),
    Row("Put, PostgreSQL on a disk, 128 in flight", leg("disk postgresql put 128"),
        beside=leg("disk pgbench insert best"), name="pgbench, an INSERT a commit"),
    Row("Get of 20 messages, SQLite, 32 in flight", leg("sqlite get 32"), beside=leg("echo get 32"),
        name=_NOTHING),
    Row("Get of 20 messages, PostgreSQL, 32 in flight", leg("postgresql get 32"),
        beside=leg("echo get 32"), name=_NOTHING),
    Row("Put, profile `llama-index`, 8 callers", leg("memoryd llama put"),
        beside=leg("library llama put"), name=_LLAMA),
    Row("the same, through the Python adapter", leg("python llama put"),
        beside=leg("library llama put"), name=_LLAMA),
    Row("Get of 100 messages, 8 callers", leg("memoryd llama get 100"),
        beside=leg("library llama get 100"), name=_LLAMA),
    Row("the same, through the Python adapter", leg("python llama get 100"),
        beside=leg("library llama get 100"), name=_LLAMA),
    Row("Put, 32 in flight", leg("memoryd langchain put"), beside=leg(*(
        f"library langchain put, {how}"
        for how in ("one connection", "threads", "coroutines", "processes"))),
        name=f"{_LANGCHAIN}, at its best"),
    Row("Put through the Python adapter, 8 coroutines", leg("python langchain put, coroutines"),
        beside=leg("library langchain put, coroutines"), name=_LANGCHAIN),
    Row("Put, PostgreSQL, 8 callers", leg("memoryd put 8"), beside=leg("library langgraph put"),
        name="LangGraph's Postgres store"),
    Row("Put, SQLite, one caller", leg("memoryd sqlite put 1"), beside=leg("library mem0 put"),
        name="mem0, embedded, without its model"),
    Row("Put, SQLite, one in flight: p50", leg("sqlite put 1", column="p50 µs"), "µs",
        leg("echo put 1", column="p50 µs"), _NOTHING),
    Row("Put, PostgreSQL, one in flight: p50", leg("postgresql put 1", column="p50 µs"), "µs",
        leg("echo put 1", column="p50 µs"), _NOTHING),
    Row("Query in 100,000 messages, SQLite: p50", Cell("Query p50, ms", ("100,000",)), "ms"),
    Row("evidence found among ten results, LoCoMo", Cell("recall at 10, %", ("LoCoMo",)), "%",
        Cell("of Python", ("LoCoMo",)), "the same ranking, plain"),
    Row("resident memory when idle, SQLite",
        Cell(_MEDIAN, ("idle resident memory, SQLite, without word vectors",)), "MiB"),
    Row("start to ready, SQLite", Cell(_MEDIAN, ("start to ready, SQLite",)), "ms"),
]


def lines(page: str) -> list[str]:
    """The head, of a page's text."""
    found = ["| what | memoryd | beside it | which is |", "| --- | ---: | ---: | --- |"]
    tables = list(_tables(page))
    for row in ROWS:
        cells = [row.what, _with_unit(_figure(tables, row.ours), row.unit),
                 _with_unit(_figure(tables, row.beside), row.unit), row.name]
        found.append("| " + " | ".join(cells) + " |")
    return [*found, "", f"![Calls a second, memoryd and what stands beside it]({PICTURE})"]


def picture(page: str) -> str:
    """The rates of the table as bars, with a logarithmic scale."""
    tables = list(_tables(page))
    bars = [(row, ours, beside) for row in ROWS if row.unit == RATE
            and (ours := _figure(tables, row.ours)) and (beside := _figure(tables, row.beside))]
    values = [_number(text) for _, *both in bars for text in both] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    per_decade = (_WIDTH - _LEFT - _RIGHT) / max(high - low, 1)
    height = _TOP + _STEP * len(bars) + 10

    def x(value: float) -> float:
        return _LEFT + (math.log10(value) - low) * per_decade

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        "  <title>Calls a second, memoryd and what stands beside it</title>",
        f'  <rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        '  <text x="15" y="24" font-size="14" font-weight="600" fill="#222">Calls a second, with a '
        "logarithmic scale</text>",
        f'  <rect x="15" y="36" width="12" height="12" fill="{_OURS}"/>',
        '  <text x="32" y="46" fill="#222">memoryd</text>',
        f'  <rect x="100" y="36" width="12" height="12" fill="{_BESIDE}"/>',
        '  <text x="117" y="46" fill="#222">beside it</text>',
    ]
    for decade in range(low, high + 1):
        at = x(10.0**decade)
        drawn += [f'  <path d="M{at:.1f} {_TOP - 8} V{height - 8}" stroke="#ddd"/>',
                  f'  <text x="{at:.1f}" y="{_TOP - 14}" text-anchor="middle" fill="#666">'
                  f"{10**decade:,}</text>"]
    for number, (row, ours, beside) in enumerate(bars):
        top = _TOP + _STEP * number
        drawn += [_text(_LEFT - 10, top + 11, row.what, "#222", "end"),
                  _text(_LEFT - 10, top + 24, row.name, "#666", "end")]
        for place, (text, color) in enumerate(((ours, _OURS), (beside, _BESIDE))):
            y, end = top + (_BAR + 1) * place + 1, x(_number(text))
            drawn += [f'  <rect x="{_LEFT}" y="{y}" width="{end - _LEFT:.1f}" height="{_BAR}" '
                      f'fill="{color}"/>', _text(end + 5, y + 10, text, "#222", "start")]
    return "\n".join([*drawn, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, color: str, anchor: str) -> str:
    return (f'  <text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="{color}">'
            f"{html.escape(text.replace('`', ''), quote=False)}</text>")


_Table = tuple[list[str], list[list[str]]]


def _tables(page: str) -> Iterator[_Table]:
    """The head and the rows of each table."""
    for table in re.findall(r"^\|.*\n\|[ :|-]+\|\n(?:\|.*\n)*", page, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")]
                          for line in table.splitlines())
        yield head, rows


def _figure(tables: Sequence[_Table], cell: Cell | None) -> str:
    """As the page has it, without its spread; empty where it was not measured."""
    if cell is None:
        return ""
    cells = [row[head.index(cell.column)] for head, rows in tables if cell.column in head
             for row in rows if row[0] in cell.rows]
    found = [number[0] for text in cells if (number := re.match(r"[\d,.]+", text))]
    return max(found, key=_number, default="")


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _with_unit(figure: str, unit: str) -> str:
    return f"{figure} {unit}" if figure else ""


def main() -> None:
    import report  # Which imports this module.

    report.refresh_head(_PAGE)


if __name__ == "__main__":
    main()
