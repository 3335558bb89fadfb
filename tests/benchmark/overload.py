#!/usr/bin/env python3
"""Offers more than the store can take, and lets one tenant ask for too much beside another.

The store is a PostgreSQL whose inserts wait, just so long that a closed loop gets 2,000 Puts a second
through, its peak; then five times as much arrives, with deadlines of 10 s, 1 s and 0.5 s;
then half of the peak at once, to see whether anything is left over. Then a tenant arrives with ten
times its quota beside one that asks for a quarter of the peak, and the latter alone, in turns. The
tables go to docs/BENCHMARKS.md, unless --short.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import processes
import report

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "tests"))

from support.access import credential, write_credentials
from support.postgres import Cluster, run_sql
from support.process_memory import PeakMemory

_TIMES_OFFERED = 5
_TIMEOUTS = (10, 1, 0.5)
_SESSIONS = 64
# gRPC lets a connection have a hundred calls under way; the others would wait in the client.
_CONNECTIONS = 150
_NOISY_QUOTA = 200
_PEAK = 2000
_SLOW = """CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep({seconds:.6f}); RETURN NEW; END $$"""
_TRIGGER = "CREATE TRIGGER slow BEFORE INSERT ON memoryd_messages FOR EACH ROW EXECUTE FUNCTION slow()"


class Load:
    """Runs of memoryd_load, of one tenant."""

    def __init__(self, binary: pathlib.Path, target: str, tenant: str) -> None:
        self._binary, self._target, self._tenant = binary, target, tenant

    def beside(self, tenant: str) -> Load:
        return Load(self._binary, self._target, tenant)

    def start(self, **flags: float) -> subprocess.Popen:
        fixed = {"target": self._target, "token": self._tenant, "method": "put",
                 "sessions": _SESSIONS}
        options = [f"--{name}={value}" for name, value in {**fixed, **flags}.items()]
        return subprocess.Popen([str(self._binary), *options], stdout=subprocess.PIPE, text=True)

    def run(self, **flags: float) -> dict:
        return result(self.start(**flags))


def result(running: subprocess.Popen) -> dict:
    said, _ = running.communicate()
    if running.returncode != 0:
        raise RuntimeError(f"memoryd_load ended with {running.returncode}")
    return json.loads(said)


def errors(sample: dict, *codes: int) -> int:
    return sum(sample["errors"].get(str(code), 0) for code in codes)


def slow_down(load: Load, url: str) -> None:
    """Makes inserts wait until the store takes about _PEAK Puts a second."""
    wait = 0.0004
    run_sql(url, _SLOW.format(seconds=wait))
    run_sql(url, _TRIGGER)
    for _ in range(5):
        peak = load.run(seconds=2, outstanding=128)["ops_per_second"]
        if abs(peak / _PEAK - 1) < 0.05:
            break
        wait *= peak / _PEAK
        run_sql(url, _SLOW.format(seconds=wait))


def overload(load: Load, server: processes.Server, seconds: float) -> list[str]:
    """A line per deadline: what was answered in time, what was refused and how fast."""
    peak = load.run(seconds=seconds, outstanding=128)["ops_per_second"]
    lines = [
        f"- peak {peak:,.0f} Puts/s at 128 outstanding, {_TIMES_OFFERED} × that offered", "",
        report.row("deadline", "answered OK, of the peak", "p99 of these", "refused",
                   "p50 / p99 of refusals", "other errors", "memory grew", "then half the peak: errors, p99"),
        report.row("---", *["---:"] * 7),
    ]  # fmt: skip
    memory = PeakMemory(server.pid)
    for timeout in _TIMEOUTS:
        sample = load.run(seconds=seconds, warmup=2 * timeout, rate=_TIMES_OFFERED * peak,
                          outstanding=100 * _CONNECTIONS, connections=_CONNECTIONS,
                          call_timeout=timeout)
        grown = memory.grown_mib()
        after = load.run(seconds=2, warmup=0, rate=peak / 2, outstanding=1000, call_timeout=timeout)
        refused = errors(sample, 8)
        lines.append(report.row(
            f"{timeout:g} s", f"{sample['ops'] / seconds / peak:.2f}",
            f"{sample['p99_us'] / 1e3:,.0f} ms", f"{refused:,}",
            f"{sample['refused_p50_us'] / 1e3:.1f} / {sample['refused_p99_us'] / 1e3:.0f} ms",
            f"{sum(sample['errors'].values()) - refused:,}", f"{grown:.0f} MiB",
            f"{sum(after['errors'].values())}, {after['p99_us'] / 1e3:.0f} ms"))
        print(lines[-1], flush=True)
    return [*lines, "", noisy_line(load, peak, seconds)]


def noisy_line(quiet: Load, peak: float, seconds: float, rounds: int = 3) -> str:
    """The quiet tenant beside a noisy one and alone, in turns."""
    noisy = quiet.beside("noisy")
    share = {"rate": peak / 4, "outstanding": 1000, "seconds": seconds, "call_timeout": 2}
    alone, beside, refused = [], [], 0
    for _ in range(rounds):
        alone.append(quiet.run(**share))
        other = noisy.start(rate=10 * _NOISY_QUOTA, outstanding=5000, connections=50,
                            seconds=seconds + 1, warmup=0, call_timeout=2)
        beside.append(quiet.run(**share))
        refused += errors(result(other), 8)
    goodput = [b["ops"] / a["ops"] for a, b in zip(alone, beside, strict=True)]
    p99 = [b["p99_us"] / a["p99_us"] for a, b in zip(alone, beside, strict=True)]
    return (f"- a tenant at 10 × its quota of {_NOISY_QUOTA} calls a second ({refused:,} refused)"
            f" beside one that asks for a quarter of the peak: the quiet one's goodput ×"
            f" {report.with_spread(goodput, 2)}, its p99 × {report.with_spread(p99, 2)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--seconds", type=float, default=8, help="length of a leg")
    parser.add_argument("--short", action="store_true", help="legs of 2 s; writes no page")
    parser.add_argument("--page", type=pathlib.Path, default=_ROOT / "docs" / "BENCHMARKS.md")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.seconds = 2
    with tempfile.TemporaryDirectory(prefix="memoryd-bench.") as name, Cluster() as cluster:
        folder = pathlib.Path(name)
        credentials = write_credentials(folder / "credentials.yaml", [
            credential(tenant, token=tenant) for tenant in ("quiet", "noisy")])
        settings = folder / "settings.yaml"
        settings.write_text(json.dumps({"tenants": [
            {"name": "noisy", "calls_per_second": _NOISY_QUOTA}]}))
        server = processes.Server(
            [arguments.build / "bin" / "memoryd", "--listen=127.0.0.1:0", f"--config={settings}",
             f"--store={cluster.url}", f"--credentials={credentials}"], folder / "log")
        try:
            load = Load(arguments.build / "bin" / "memoryd_load", server.target, "quiet")
            slow_down(load, cluster.url)
            lines = overload(load, server, arguments.seconds)
        finally:
            server.stop()
    lines = [
        f"- {datetime.date.today():%d %B %Y}, `tests/benchmark/overload.py --seconds"
        f" {arguments.seconds:g}`, {report.revision(arguments.build)}",
        f"- {report.machine()}",
        *lines,
    ]
    print("\n".join(["", *lines]))
    if not arguments.short:
        report.replace_results(arguments.page, "overload.py", lines)


if __name__ == "__main__":
    main()
