"""The charts of docs/BENCHMARKS.md, as SVG."""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Sequence

from matplotlib import pyplot

import steady
import targets
from bench import Samples

pyplot.switch_backend("svg")
# Equal figures give equal files.
pyplot.rcParams.update({
    "svg.hashsalt": "memoryd", "svg.fonttype": "none", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "figure.constrained_layout.use": True})

_REACHED, _MISSED, _OTHER, _THIRD = "#2a7f62", "#c0504d", "#9aa5b1", "#3b6ea5"


def write(record: dict, folder: pathlib.Path) -> None:
    figures, samples = record["figures"], record["samples"]
    for name, figure in (("targets", _targets(figures)), ("echo", _echo(samples)),
                         ("libraries", _libraries(figures)), ("steady", _steady(samples))):
        if figure is not None:
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            pyplot.close(figure)


def _horizontal(labels: Sequence[str], values: Sequence[float], colors: Sequence[str],
                title: str):
    """Bars to both sides of 1, the first at the top."""
    figure, axes = pyplot.subplots(figsize=(11, 0.8 + 0.24 * len(labels)))
    axes.set_xscale("log")
    axes.barh(labels[::-1], [value - 1 for value in values[::-1]], left=1, color=colors[::-1])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(1, color="black", linewidth=0.8)
    figure.suptitle(title, x=0.01, horizontalalignment="left")
    axes.margins(y=0.01)
    return figure


def _targets(figures: dict[str, list[float]]):
    rows = [row for row in targets.ROWS if row.share(figures.get(row.what, [])) is not None]
    if not rows:
        return None
    return _horizontal(
        [row.what for row in rows], [row.share(figures[row.what]) for row in rows],
        [_REACHED if row.reached(figures[row.what]) else _MISSED for row in rows],
        "Median as a share of the target: 1 reaches it, more is better")


def _libraries(figures: dict[str, list[float]]):
    rows = [(row, color) for some, color in ((targets.ROWS, _REACHED),
                                             (targets.PYTHON_ROWS, _THIRD)) for row in some
            if row.what.startswith(("LlamaIndex", "langchain", "LangGraph", "mem0"))
            and "p50" not in row.what and figures.get(row.what)]
    if not rows:
        return None
    return _horizontal([row.what for row, _ in rows],
                       [statistics.median(figures[row.what]) for row, _ in rows],
                       [color for _, color in rows],
                       "Times as fast as the library (green: C++ load, blue: Python adapters)")


def _echo(samples: Samples):
    legs = ["put 1", "put 32", "put id 32", "put 128", "put id 128", "put 10 32", "get 1", "get 32"]
    names = {"echo": _OTHER, "sqlite": _THIRD, "postgresql": _REACHED, "exclusive": "#d9a441"}
    figure, axes = pyplot.subplots(figsize=(10, 3.6))
    drawn = False
    for place, (store, color) in enumerate(names.items()):
        rates = {leg: targets.value(f"{store} {leg}", targets.RATE)(samples) for leg in legs}
        positions = [number for number, leg in enumerate(legs) if rates[leg]]
        if not positions:
            continue
        drawn = True
        found = [rates[legs[number]] for number in positions]
        medians = [statistics.median(values) for values in found]
        spread = [[median - min(values) for median, values in zip(medians, found, strict=True)],
                  [max(values) - median for median, values in zip(medians, found, strict=True)]]
        axes.bar([number + 0.2 * place - 0.3 for number in positions], medians, 0.2, color=color,
                 label=store, yerr=spread, error_kw={"linewidth": 0.8})
    axes.set_xticks(range(len(legs)), legs)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("Calls a second, by calls in flight; lines from lowest to highest", loc="left")
    axes.legend(frameon=False, ncols=4)
    if drawn:
        return figure
    pyplot.close(figure)
    return None


def _steady(samples: Samples):
    found = [sample for sample in samples.get("steady put", []) if sample]
    if not found:
        return None
    series = found[0][steady.SERIES]
    seconds = [number * found[0]["seconds"] / len(series) for number in range(len(series))]
    figure, axes = pyplot.subplots(figsize=(10, 2.4))
    axes.plot(seconds, series, color=_THIRD)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_title("Resident memory under a steady load, MiB", loc="left")
    return figure
