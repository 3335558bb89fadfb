#!/usr/bin/env python3
"""Measures Put and Get beside a bare gRPC echo and pgbench, all in one run on one machine.

Every round runs every leg once, so that whatever else the machine does falls on all of them.
Everything durable lies on tmpfs, with PostgreSQL's fsync on: disks differ, and one that swings
would drown what memoryd itself costs. The tables go to docs/BENCHMARKS.md, unless --short.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import tempfile
import time

import processes
import report

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_STORES = ("sqlite", "postgresql shared", "postgresql exclusive")
_SESSIONS = 1000
_MESSAGES_PER_SESSION = 20  # Of the sessions that Gets read.


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5, help="counted length of a leg")
    parser.add_argument("--outstanding", type=int, nargs="+", default=[1, 32, 128])
    parser.add_argument("--stores", nargs="+", default=_STORES, choices=_STORES)
    parser.add_argument("--short", action="store_true", help="1 round of 1 s; writes no page")
    parser.add_argument("--page", type=pathlib.Path, default=_ROOT / "docs" / "BENCHMARKS.md")
    parser.add_argument("--json", type=pathlib.Path, help="file for every single figure")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.rounds, arguments.seconds = 1, 1
    for binary in ("memoryd", "memoryd_echo", "memoryd_load"):
        if not (arguments.build / "bin" / binary).exists():
            parser.error(f"no {binary} in {arguments.build}/bin: run `make build` first")
    return arguments


def fdatasync_us(folder):
    """Median and 99th percentile of a fdatasync after a write of 8 KiB, in microseconds."""
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(300):
            os.write(file.fileno(), bytes(8192))
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1e6)
    times.sort()
    return f"{times[len(times) // 2]:,.1f} µs (99 % below {times[len(times) * 99 // 100]:,.1f} µs)"


class Bench:
    """The servers, and the legs that can be run against them."""

    def __init__(self, arguments, folder, stack):
        self._arguments = arguments
        self._bin = arguments.build / "bin"
        self._folder = folder
        self._stack = stack
        self._url = os.environ["MEMORYD_TEST_POSTGRES"]
        if processes.psql(self._url, "SHOW fsync") != "on":
            raise RuntimeError("PostgreSQL must run with fsync on")
        pid_file = pathlib.Path(os.environ["MEMORYD_TEST_POSTGRES_DATA"]) / "postmaster.pid"
        self._postmaster = int(pid_file.read_text().splitlines()[0])
        self.servers = {store: self._start_memoryd(store) for store in arguments.stores}
        self._start_echoes()
        bin_dir = pathlib.Path(f"/proc/{self._postmaster}/exe").resolve().parent
        self._pgbench = processes.Pgbench(bin_dir, self._database("pgbench"), folder / "pgbench")
        self.pgbench_clients = {
            script: self._best_client_count(script) for script in ("insert", "select")
        }

    def _database(self, name):
        processes.psql(self._url, f"CREATE DATABASE {name}")
        return self._url.rsplit("/", 1)[0] + f"/{name}"

    def _start(self, name, *command):
        server = processes.Server(command, self._folder / f"{name.replace(' ', '-')}.log")
        self._stack.callback(server.stop)
        return server

    def _start_memoryd(self, store):
        if store == "sqlite":
            flags = [f"--store=sqlite:{self._folder}/memoryd.db"]
        else:
            coherence = store.split()[1]
            flags = [
                f"--store={self._database(f'memoryd_{coherence}')}",
                f"--coherence={coherence}",
            ]
        return self._start(store, self._bin / "memoryd", "--listen=127.0.0.1:0", *flags)

    def _start_echoes(self):
        """One echo for each of Put and Get, with replies as long as memoryd's."""
        model = self.servers[self._arguments.stores[0]]
        for store, server in self.servers.items():
            print(f"filling {store}", flush=True)
            self._load(server, "get", count=1, fill=_MESSAGES_PER_SESSION)
        for method in ("put", "get"):
            probe = self._load(model, method, count=_SESSIONS, session_prefix=self._prefix(method))
            size = round(probe["reply_bytes"])
            echo = self._start(
                f"echo {method}", self._bin / "memoryd_echo", f"--reply_bytes={size}"
            )
            self.servers[f"echo {method}"] = echo
            print(f"a reply to {method} has {size} bytes", flush=True)

    def _prefix(self, method, part="probe"):
        # Gets read what was filled; each Put leg makes sessions of its own, so that the first
        # round and the last meet sessions of equal length.
        return "load" if method == "get" else f"put-{part}"

    def _load(self, server, method, **flags):
        return processes.load(
            self._bin / "memoryd_load", server.target, method=method, sessions=_SESSIONS, **flags
        )

    def _best_client_count(self, script):
        counts = (1, 8, 32) if self._arguments.short else (1, 4, 8, 16, 32, 64)
        seconds = 1 if self._arguments.short else 2
        speeds = {
            count: self._pgbench.run(script, count, seconds)["ops_per_second"] for count in counts
        }
        best = max(speeds, key=speeds.get)
        print(f"pgbench {script}: best with {best} clients", flush=True)
        return best

    def legs(self):
        """(name, outstanding, function of the round that runs it once)."""
        legs = []
        for outstanding in self._arguments.outstanding:
            for method in ("put", "get"):
                for name in ("echo", *self._arguments.stores):
                    leg = self._leg(name, method, outstanding)
                    legs.append((f"{name} {method}", outstanding, leg))
        for script, best in self.pgbench_clients.items():
            for clients in sorted({1, best}):
                legs.append((f"pgbench {script}", clients, self._pgbench_leg(script, clients)))
        return legs

    def _leg(self, name, method, outstanding):
        server = self.servers[f"echo {method}" if name == "echo" else name]

        def run(round_number):
            flags = {
                "outstanding": outstanding,
                "session_prefix": self._prefix(method, f"{round_number}-{outstanding}"),
            }
            # A run of its own rather than --warmup: the servers' CPU time is read from outside
            # and must cover exactly the calls that are counted.
            self._load(server, method, count=2 * _SESSIONS, **flags)
            before = server.cpu_seconds(), processes.tree_cpu_seconds(self._postmaster)
            result = self._load(
                server, method, seconds=self._arguments.seconds, warmup=0, **flags
            )
            result["server_cpu_seconds"] = server.cpu_seconds() - before[0]
            if name.startswith("postgresql"):
                used = processes.tree_cpu_seconds(self._postmaster) - before[1]
                result["postgres_cpu_seconds"] = used
            return result

        return run

    def _pgbench_leg(self, script, clients):
        return lambda _: self._pgbench.run(script, clients, self._arguments.seconds)


def measure(bench, rounds):
    legs = bench.legs()
    samples = {(name, outstanding): [] for name, outstanding, _ in legs}
    for round_number in range(rounds):
        print(f"round {round_number + 1} of {rounds}", flush=True)
        # The other way round every second time: what builds up falls on both ends.
        for name, outstanding, run in legs if round_number % 2 == 0 else reversed(legs):
            sample = run(round_number)
            samples[name, outstanding].append(sample)
            print(
                f"  {name:<26} {outstanding:>4}  {sample['ops_per_second']:>9,.0f} /s"
                f"  p50 {sample['p50_us']:>8,.0f} µs  p99 {sample['p99_us']:>8,.0f} µs",
                flush=True,
            )
    return samples


def preamble(arguments, sync, load_average):
    postgres = processes.psql(os.environ["MEMORYD_TEST_POSTGRES"], "SHOW server_version")
    return [
        f"- {datetime.date.today():%d %B %Y}, `tests/benchmark/run.py --rounds "
        f"{arguments.rounds} --seconds {arguments.seconds:g}`, {report.revision(arguments.build)}",
        f"- {report.machine()}; load average before the run {load_average:.1f}",
        f"- gRPC {report.package_version('libgrpc++-dev')}, libpqxx "
        f"{report.package_version('libpqxx-dev')}, SQLite "
        f"{report.package_version('libsqlite3-0')}, PostgreSQL {postgres}",
        f"- fdatasync after 8 KiB: tmpfs {sync['tmpfs']}; this machine's disk {sync['disk']}",
        "",
    ]


def main():
    arguments = parse_arguments()
    # A PostgreSQL that somebody else started for tests does not sync.
    if os.environ.get("MEMORYD_TEST_POSTGRES_PARENT") != "/dev/shm":
        processes.run_with_postgres()
    load_average = os.getloadavg()[0]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="memoryd-bench.", dir="/dev/shm"))
    try:
        sync = {"tmpfs": fdatasync_us(folder), "disk": fdatasync_us(_ROOT)}
        with contextlib.ExitStack() as stack:
            bench = Bench(arguments, folder, stack)
            samples = measure(bench, arguments.rounds)
            clients = bench.pgbench_clients
            lines = preamble(arguments, sync, load_average)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines += report.ratios(samples, arguments.stores, arguments.outstanding, clients)
    lines += ["", *report.measurements(samples)]
    print("\n".join(["", *lines]))
    if arguments.json:
        rows = [
            {"leg": leg, "outstanding": outstanding, "rounds": rounds}
            for (leg, outstanding), rounds in samples.items()
        ]
        arguments.json.write_text(json.dumps(rows, indent=1))
    if not arguments.short:
        report.replace_results(arguments.page, "run.py", lines)
    for outstanding in arguments.outstanding:
        print(report.summary(samples, arguments.stores, outstanding))


if __name__ == "__main__":
    main()
