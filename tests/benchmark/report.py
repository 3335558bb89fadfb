"""Turns measurements into the tables of docs/BENCHMARKS.md."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import pathlib
import platform
import re
import statistics
import subprocess
from collections.abc import Sequence

import scale
import summary
import targets
from bench import Samples

_BEGIN = "<!-- results: written by tests/benchmark/{script} -->"
_END = "<!-- end of results -->"
_HEAD = "summary.py"
_SCALE = "scale.py"
_PACKAGES = {"gRPC": "libgrpc++-dev", "libpqxx": "libpqxx-dev", "SQLite": "libsqlite3-0",
             "PostgreSQL": "postgresql-15"}
_PEERS = ("llama-index-core", "langchain-postgres", "langgraph-checkpoint-postgres", "mem0ai",
          "tiktoken")
# Of a leg that makes calls; what else a sample has is in a table of its own.
_CALLS = {"ops", "seconds", "ops_per_second", "p50_us", "p99_us", "p999_us", "max_us",
          "reply_bytes", "cpu_seconds", "server_cpu_seconds", "postgres_cpu_seconds", "errors"}


def with_spread(values, digits=0):
    """`median (lowest to highest)`; the spread is what a single figure would hide."""
    median, low, high = (
        f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return f"{median} ({low} to {high})" if len(values) > 1 else median


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def page(record: dict, charts: bool = True) -> list[str]:
    """The generated part of docs/BENCHMARKS.md."""
    lines = _preamble(record)
    lines += ["### Targets", "", *target_table(record["figures"], targets.ROWS), ""]
    if charts:
        lines += ["![Every figure as a share of its target](benchmarks/targets.svg)", "",
                  "![Calls a second beside the echo](benchmarks/echo.svg)", ""]
    lines += ["### From Python, beside what it replaces", "",
              "Calls a second through memoryd's Python adapters over the library's own, both in one"
              " interpreter.", "",
              *target_table(record["figures"], targets.PYTHON_ROWS, with_targets=False), ""]
    if charts:
        lines += ["![Times as fast as the libraries](benchmarks/libraries.svg)", ""]
    lines += _steady(record["samples"])
    if charts and record["samples"].get("steady put", [None])[0]:
        lines += ["![Resident memory under a steady load](benchmarks/steady.svg)", ""]
    lines += ["### Every leg", "", *measurements(record["samples"]), "",
              *others(record["samples"])]
    return lines


def _preamble(record: dict) -> list[str]:
    before, after = record["load_average"]
    lines = [
        f"- {record['date']}, {record['rounds']} rounds of {record['seconds']:g} s a leg, "
        f"{record['minutes']:.0f} minutes, {record['revision']}",
        f"- {record['machine']}; load average {before:.1f} before the run, {after:.1f} at its end",
        *_doubts(record),
        f"- {_listed(record['versions'])}; beside {_listed(record['peers'])}",
    ]
    for where, name in (("tmpfs", "tmpfs"), ("disk", "this machine's disk")):
        found = [sample for sample in record["samples"].get(f"fdatasync {where}", []) if sample]
        if found:
            lines.append(f"- fdatasync after 8 KiB on {name}: "
                         f"{with_spread([sample['p50_us'] for sample in found], 1)} µs, 99 % below "
                         f"{with_spread([sample['p99_us'] for sample in found], 1)} µs")
    lines += [f"- {note}" for note in record["notes"]]
    lines += [f"- **failed**: {failure}" for failure in record["failures"]]
    return [*lines, ""]


def _doubts(record: dict) -> list[str]:
    """What a reader has to know before he believes a figure."""
    found = []
    if record["reduced"]:
        found.append("- **A reduced run**, with fewer or shorter legs than `make bench` has")
    if record["load_average"][0] > 1:
        found.append("- **The machine was busy with other work**: latencies are not to be "
                     "believed, and ratios hardly")
    return found


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def target_table(figures: dict[str, list[float]], rows: Sequence[targets.Row],
                 with_targets: bool = True) -> list[str]:
    head = ["what", "median (lowest to highest)"]
    if with_targets:
        head += ["target", "reach for", "", "rounds"]
    lines = [row(*head), row("---", "---:", *(["---:", "---:", "---", "---:"] * with_targets))]
    for each in rows:
        values = figures.get(each.what, [])
        cells = [each.what, f"{with_spread(values, each.digits)} {each.unit}" if values
                 else "not measured"]
        if with_targets:
            sign = "≤" if each.at_most else "≥"
            cells += [f"{sign} {each.target:g}" if each.target is not None else "",
                      f"{each.reach:g}" if each.reach is not None else "",
                      {True: "reached", False: "**missed**", None: ""}[each.reached(values)],
                      len(values)]
        lines.append(row(*cells))
    return lines


def verdict(record: dict) -> str:
    """One line: how many of the targets are reached."""
    found = [each.reached(record["figures"].get(each.what, [])) for each in targets.ROWS]
    return f"{found.count(True)} targets reached, {found.count(False)} missed"


def _steady(samples: Samples) -> list[str]:
    found = [sample for sample in samples.get("steady put", []) if sample]
    if not found:
        return []
    (sample,) = found
    return [
        "### A steady load", "",
        f"Puts on PostgreSQL that arrive as a Poisson process, half of "
        f"{sample['peak_per_second']:,.0f} a second, for {sample['seconds']:,.0f} s: "
        f"p50 {sample['p50_us']:,.0f} µs, p99 {sample['p99_us']:,.0f} µs, "
        f"p99.9 {sample['p999_us']:,.0f} µs, longest {sample['max_us'] / 1e3:,.0f} ms.", "",
    ]


def _per_op(sample, field):
    return sample[field] / sample["ops"] * 1e6


def measurements(samples: Samples) -> list[str]:
    """Of the legs that make calls."""
    lines = [
        row("leg", "calls/s", "p50 µs", "p99 µs", "p99.9 µs", "CPU µs a call: client", "server",
            "PostgreSQL"),
        row("---", *["---:"] * 7),
    ]
    for leg, all_rounds in samples.items():
        found = [sample for sample in all_rounds if sample and "ops_per_second" in sample]
        if not found:
            continue
        latencies = [
            with_spread(values) if name == "p50_us" else f"{statistics.median(values):,.0f}"
            for name in ("p50_us", "p99_us", "p999_us")
            if (values := [sample[name] for sample in found if name in sample])]
        cpu = []
        for field in ("cpu_seconds", "server_cpu_seconds", "postgres_cpu_seconds"):
            values = [_per_op(sample, field) for sample in found if field in sample]
            cpu.append(f"{statistics.median(values):.0f}" if values else "")
        lines.append(row(leg, with_spread([sample["ops_per_second"] for sample in found]),
                         *(latencies or ["", "", ""]), *cpu))
    return lines


def others(samples: Samples) -> list[str]:
    """What legs found besides calls and their latencies."""
    lines = [row("leg", "measured", "median (lowest to highest)"), row("---", "---", "---:")]
    for leg, all_rounds in samples.items():
        found = [sample for sample in all_rounds if sample]
        for name in found[0] if found else ():
            values = [sample[name] for sample in found]
            if name not in _CALLS and all(isinstance(value, (int, float)) for value in values):
                lines.append(row(leg, name.replace("_", " "),
                                 with_spread(values, 0 if min(values) >= 1000 else 2)))
    return lines


def circumstances(build: pathlib.Path) -> dict:
    """When, where, and what of which version."""
    today = datetime.date.today()
    return {
        "date": f"{today.day} {today:%B %Y}",
        "revision": revision(build),
        "machine": machine(),
        "versions": {name: package_version(package) for name, package in _PACKAGES.items()},
        "peers": {name: importlib.metadata.version(name) for name in _PEERS},
    }


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    release = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())
    kernel = platform.release().split("-")[0]
    return (
        f"{os.cpu_count()} × {cpu.group(1) if cpu else platform.machine()}, {memory:.0f} GiB, "
        f"{release.group(1) if release else platform.system()}, kernel {kernel}"
    )


def package_version(name):
    run = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Version}", name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.stdout or "unknown"


def revision(build):
    """Version and commit of what is measured."""
    here = str(pathlib.Path(__file__).parent)
    commands = ([str(build / "bin" / "memoryd"), "--version"],
                ["git", "-C", here, "describe", "--always", "--dirty"])
    version, commit = (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        for command in commands
    )
    return f"{version} at {commit or 'no commit'}"


def replace_results(page, script, lines):
    """Puts `lines` between the page's markers of this script, and refreshes the page's head."""
    page.write_text(_replaced(page.read_text(), script, lines))
    refresh_head(page)
    refresh_scale(page)


def refresh_head(page):
    """Makes the main figures, where the page has them, those of its tables."""
    text = page.read_text()
    if _BEGIN.format(script=_HEAD) in text:
        page.write_text(_replaced(text, _HEAD, summary.lines(text)))
        (page.parent / summary.PICTURE).write_text(summary.picture(text))


def refresh_scale(page):
    """Makes the model of the page about scale beside it that of the page's tables."""
    scaled = page.with_name(scale.PAGE.name)
    if scaled.exists():
        scaled.write_text(_replaced(scaled.read_text(), _SCALE, scale.lines(page.read_text())))


def _replaced(text, script, lines):
    begin = _BEGIN.format(script=script)
    before, rest = text.split(begin)
    after = rest.split(_END, 1)[1]
    return "\n".join([before + begin, "", *lines, "", _END]) + after
