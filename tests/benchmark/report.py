"""Turns measurements into the tables of docs/BENCHMARKS.md."""

import os
import pathlib
import platform
import re
import statistics
import subprocess

_BEGIN = "<!-- results: written by tests/benchmark/{script} -->"
_END = "<!-- end of results -->"


def _median(values):
    return statistics.median(values)


def with_spread(values, digits=0):
    """`median (lowest to highest)`; the spread is what a single figure would hide."""
    median, low, high = (
        f"{value:,.{digits}f}" for value in (_median(values), min(values), max(values))
    )
    return f"{median} ({low} to {high})" if len(values) > 1 else median


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _ratios(samples, numerator, denominator, field):
    """Quotients round by round, so that what slows a whole round cancels out."""
    below = samples[denominator]
    return [a[field] / b[field] for a, b in zip(samples[numerator], below, strict=True)]


def _per_op(sample, field):
    return sample[field] / sample["ops"] * 1e6 if sample.get(field) is not None else None


def measurements(samples):
    """`samples` maps (leg, outstanding) to one dict per round."""
    lines = [
        row("leg", "outstanding", "ops/s", "p50 µs", "p99 µs", "p99.9 µs",
            "CPU µs/op: client", "server", "PostgreSQL"),
        row("---", *["---:"] * 8),
    ]  # fmt: skip
    for (leg, outstanding), rounds in samples.items():
        cpu = []
        for field in ("cpu_seconds", "server_cpu_seconds", "postgres_cpu_seconds"):
            values = [_per_op(sample, field) for sample in rounds if sample.get(field) is not None]
            cpu.append(f"{_median(values):.0f}" if values else "")
        lines.append(
            row(
                leg,
                outstanding,
                with_spread([sample["ops_per_second"] for sample in rounds]),
                with_spread([sample["p50_us"] for sample in rounds]),
                f"{_median([sample['p99_us'] for sample in rounds]):,.0f}",
                f"{_median([sample['p999_us'] for sample in rounds]):,.0f}",
                *cpu,
            )
        )
    return lines


def ratios(samples, stores, outstandings, pgbench_clients):
    """Tables beside the echo and beside pgbench."""
    lines = [
        row("store", "outstanding", "Put / echo, ops/s", "Get / echo, ops/s",
            "Put / echo, p50", "Get / echo, p50", "Put / pgbench INSERT, ops/s",
            "Get / pgbench SELECT, ops/s"),
        row("---", *["---:"] * 7),
    ]  # fmt: skip
    for store in stores:
        for outstanding in outstandings:
            put, get = (f"{store} put", outstanding), (f"{store} get", outstanding)
            cells = []
            for field in ("ops_per_second", "p50_us"):
                for leg, echo in ((put, "echo put"), (get, "echo get")):
                    quotients = _ratios(samples, leg, (echo, outstanding), field)
                    cells.append(with_spread(quotients, 2))
            for leg, script in ((put, "insert"), (get, "select")):
                # One call in flight is compared with one client, more with the best number.
                clients = 1 if outstanding == 1 else pgbench_clients[script]
                below = (f"pgbench {script}", clients)
                cells.append(with_spread(_ratios(samples, leg, below, "ops_per_second"), 2))
            lines.append(row(store, outstanding, *cells))
    return lines


def summary(samples, stores, outstanding):
    """One line with what decides whether the write path is right."""
    parts = []
    for store in stores:
        quotients = _ratios(
            samples, (f"{store} put", outstanding), ("echo put", outstanding), "ops_per_second"
        )
        parts.append(f"{store} {_median(quotients):.2f}")
    return f"bench: put/echo at {outstanding} outstanding: {', '.join(parts)}"


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
    """Puts `lines` between the page's markers of this script."""
    begin = _BEGIN.format(script=script)
    before, rest = page.read_text().split(begin)
    after = rest.split(_END, 1)[1]
    page.write_text("\n".join([before + begin, "", *lines, "", _END]) + after)
