#!/usr/bin/env python3
"""What metrics, logs and audit cost: instructions of the server a Put, beside a server without.

usage: instructions.py [--stores sqlite postgresql] [--puts N] [--rounds N] [--beside BINARY]

Each kind of server runs under valgrind's callgrind over a store of its own; one client makes Puts,
one after the other, to sessions that are in memory. All kinds run at once and take turns. What
servers do by the clock, such as pings, adds to a round whatever its Puts take, the more so the
slower the machine: so the lowest round counts. What the counts behind the metrics take, which no
setting turns off, is told by the source lines that callgrind blames. Prints tables; fails when the
default configuration costs more than two percent.

With --beside both binaries serve as they come, and what a Put and a Get take is told of each; fails
when --binary takes over one percent more.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request

import processes
import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.calls import memory, user, wire
from support.server import open_channel, ready

from memoryd.v1 import memory_service_pb2_grpc

SESSIONS = 50
MOST_OF_DEFAULT = 1.02
MOST_BESIDE = 1.01
TRACEPARENT = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
NOTHING = "nothing"
DEFAULT = "as it comes"
SCRAPED = "`metrics_listen`, a scrape a round"
# Where counts are kept that metrics are made of, and where their clock is read.
COUNTING = {"call_stats.h", "histogram.h", "observed_store.h", "observed_store.cc", "engine_stats.h"}
TIMING = COUNTING | {"unary_call.h", "unary_call.cc"}


def kinds(folder: pathlib.Path) -> dict[str, list[str]]:
    """The settings of each kind of server."""
    return {
        NOTHING: ["--log-requests=none"],
        DEFAULT: [],
        SCRAPED: ["--log-requests=none", "--metrics-listen=127.0.0.1:0"],
        "`log_requests: all`": ["--log-requests=all"],
        "`audit_log`": ["--log-requests=none", f"--audit-log={folder}/audit.log"],
        "`traceparent` sent": ["--log-requests=none"],
    }


class Observed:
    """A server under callgrind, and its client."""

    def __init__(self, kind: str, settings: list[str], binary: pathlib.Path, store: str,
                 folder: pathlib.Path) -> None:
        self._kind = kind
        self._counts = folder / "callgrind"
        self._parts = 0
        # Positions and names in full, for by_file().
        self._server = processes.Server(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self._counts}",
             "--compress-strings=no", "--compress-pos=no",
             binary, "--listen=127.0.0.1:0", f"--store={store}", "--word-vectors=off", *settings],
            folder / "log")
        self._channel = ready(open_channel(self._server.target))
        stub = memory_service_pb2_grpc.MemoryServiceStub(self._channel)
        self._put, self._get = stub.Put, stub.Get
        self._metadata = [TRACEPARENT] if "traceparent" in kind else None

    def stop(self) -> None:
        self._channel.close()
        self._server.stop()

    def put(self, count: int) -> None:
        config = memory.SessionConfig(tokenizer="whitespace")
        for number in range(count):
            self._put(wire.PutRequest(session_id=f"s{number % SESSIONS}", config=config,
                                      messages=[user("x" * 88)]),
                      timeout=600, metadata=self._metadata)

    def get(self, count: int) -> None:
        for number in range(count):
            self._get(wire.GetRequest(session_id=f"s{number % SESSIONS}"), timeout=600)

    def scrape(self) -> None:
        with urllib.request.urlopen(f"http://{self._server.metrics}/metrics", timeout=600) as reply:
            reply.read()

    def counted(self, work) -> pathlib.Path:
        """Where callgrind has written what `work` took."""
        self._control("--zero")
        work()
        self._control("--dump")
        self._parts += 1
        return self._counts.with_name(f"{self._counts.name}.{self._parts}")

    def _control(self, what: str) -> None:
        done = subprocess.run(["callgrind_control", what, str(self._server.pid)],
                              capture_output=True, text=True, check=False)
        if "OK." not in done.stdout:
            raise RuntimeError(f"callgrind_control {what}: {done.stdout}{done.stderr}")

    def round(self, puts: int) -> pathlib.Path:
        def work() -> None:
            self.put(puts)
            if self._kind == SCRAPED:
                self.scrape()

        return self.counted(work)


def instructions(part: pathlib.Path) -> int:
    return int(re.search(r"^(?:summary|totals): (\d+)", part.read_text(), re.MULTILINE)[1])


def counting(part: pathlib.Path) -> int:
    """Instructions of the lines that count, and of the clock they read."""
    own: collections.Counter[str] = collections.Counter()
    file = callee = ""
    calls = False
    for line in part.read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and key in ("fl", "fi", "fe"):
            file = pathlib.PurePath(value).name
        elif equals and key == "cfn":
            callee = value
        elif equals and key == "calls":
            calls = True
        elif line[:1].isdigit():
            cost = int(line.split()[1])
            if not calls and file in COUNTING:
                own["lines"] += cost
            elif calls and file in TIMING and ("clock" in callee or "now" in callee):
                own["clock"] += cost
            calls = False
    return sum(own.values())


def measure(arguments: argparse.Namespace, store: str) -> None:
    with tempfile.TemporaryDirectory(prefix="memoryd-bench.", dir="/dev/shm") as name, \
            contextlib.ExitStack() as stack:
        servers: dict[str, Observed] = {}
        for number, (kind, settings) in enumerate(kinds(pathlib.Path(name)).items()):
            folder = pathlib.Path(name) / str(number)
            folder.mkdir()
            url = processes.new_store(store, folder, f"instructions{number}")
            servers[kind] = Observed(kind, settings, arguments.binary, url, folder)
            stack.callback(servers[kind].stop)
        for server in servers.values():
            server.put(SESSIONS * 2)
        samples: dict[str, list[float]] = {kind: [] for kind in servers}
        counts: list[float] = []
        for _ in range(arguments.rounds):
            for kind, server in servers.items():
                part = server.round(arguments.puts)
                samples[kind].append(instructions(part) / arguments.puts)
                if kind == DEFAULT:
                    counts.append(counting(part) / arguments.puts)
        scrape = instructions(servers[SCRAPED].counted(servers[SCRAPED].scrape))
        show(arguments, store, samples, counts, scrape)


def compare(arguments: argparse.Namespace, store: str) -> bool:
    """Whether --binary takes no more than --beside, as far as may be."""
    binaries = {"before": arguments.beside, "now": arguments.binary}
    with tempfile.TemporaryDirectory(prefix="memoryd-bench.", dir="/dev/shm") as name, \
            contextlib.ExitStack() as stack:
        servers: dict[str, Observed] = {}
        for build, binary in binaries.items():
            folder = pathlib.Path(name) / build
            folder.mkdir()
            url = processes.new_store(store, folder, f"instructions_{build}")
            servers[build] = Observed(build, [], binary, url, folder)
            stack.callback(servers[build].stop)
        for server in servers.values():
            server.put(SESSIONS * 2)
            server.get(SESSIONS)
        lowest: dict[tuple[str, str], float] = {}
        for _ in range(arguments.rounds):
            for build, server in servers.items():
                for call, work in (("Put", server.put), ("Get", server.get)):
                    part = server.counted(functools.partial(work, arguments.puts))
                    taken = instructions(part) / arguments.puts
                    lowest[call, build] = min(taken, lowest.get((call, build), taken))
    print(f"\n{store}, the lowest of {arguments.rounds} rounds of {arguments.puts} calls\n")
    print(report.row("instructions", "before", "now", "ratio"))
    print(report.row("---", "---:", "---:", "---:"))
    ratios = {call: lowest[call, "now"] / lowest[call, "before"] for call in ("Put", "Get")}
    for call, ratio in ratios.items():
        print(report.row(call, f"{lowest[call, 'before']:,.0f}", f"{lowest[call, 'now']:,.0f}",
                         f"{ratio:.3f}"))
    return max(ratios.values()) <= MOST_BESIDE


def show(arguments: argparse.Namespace, store: str, samples: dict[str, list[float]],
         counts: list[float], scrape: int) -> None:
    lowest = {kind: min(values) for kind, values in samples.items()}
    print(f"\n{store}, {arguments.rounds} rounds of {arguments.puts} Puts\n")
    print(report.row("", "instructions a Put", "highest round", "beside nothing"))
    print(report.row("---", "---:", "---:", "---:"))
    for kind, values in samples.items():
        print(report.row(kind, f"{lowest[kind]:,.0f}", f"{max(values):,.0f}",
                         f"{lowest[kind] / lowest[NOTHING]:.3f}"))
    usual = lowest[DEFAULT]
    own = statistics.median(counts)
    print(report.row("of which counts, always", f"{own:,.0f}", "", f"{own / usual:.3f}"))
    print(report.row("a scrape", f"{scrape:,}", "", f"{scrape / usual:.0f} Puts"))
    if usual > MOST_OF_DEFAULT * lowest[NOTHING]:
        sys.exit(f"the default configuration costs more than {MOST_OF_DEFAULT}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build" / "bin" / "memoryd")
    parser.add_argument("--beside", type=pathlib.Path)
    parser.add_argument("--stores", nargs="+", default=("sqlite", "postgresql"))
    parser.add_argument("--puts", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if "postgresql" in arguments.stores and (
            os.environ.get("MEMORYD_TEST_POSTGRES_PARENT") != "/dev/shm"):
        processes.run_with_postgres()
    if arguments.beside is not None:
        dearer = [store for store in arguments.stores if not compare(arguments, store)]
        if dearer:
            sys.exit(f"{', '.join(dearer)}: takes more than {MOST_BESIDE} of {arguments.beside}")
        return
    for store in arguments.stores:
        measure(arguments, store)


if __name__ == "__main__":
    main()
