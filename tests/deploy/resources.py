#!/usr/bin/env python3
"""What memoryd takes of memory and processor time with the chart's settings, idle and under load.

usage: tools/with_postgres.sh build/venv/bin/python tests/deploy/resources.py [--turns N] [--rate N]
           [--idle SECONDS]

For each store a line for the idle server, and one for N turns of eight agents, each a Put of two
messages of 200 bytes and a Get, at no more than the rate, in sessions with a token limit of 3,000.
Resident memory is that at the end; `own` is what of it is no page of a file, `peak` the largest
since the start. Processor time is memoryd's own, in thousandths of a processor; what a turn takes
of it hardly depends on what else runs here.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import sys
import threading
import time

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.background import Background
from support.paths import REPOSITORY
from support.server import Server
from support.stores import STORES, fresh_store

import memoryd
from memoryd.v1.memory_pb2 import SessionConfig

AGENTS = 8
TEXT = "what an agent says or hears "


def chart_settings(kind: str) -> dict[str, str]:
    """The chart's environment of memoryd, less what says where it listens and stores."""
    manifest = REPOSITORY / f"deploy/kubernetes/sidecar-{kind}.yaml"
    for document in yaml.safe_load_all(manifest.read_text(encoding="utf-8")):
        if document["kind"] == "Deployment":
            (container,) = document["spec"]["template"]["spec"]["initContainers"]
            return {e["name"]: e["value"] for e in container["env"] if e["name"].endswith("_MIB")}
    raise RuntimeError(f"{manifest} has no Deployment")


def processor_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> list[float]:
    """The resident memory, what of it is no page of a file, and the largest so far."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return [int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) / 1024
            for name in ("VmRSS", "RssAnon", "VmHWM")]


class Agents(Background):
    def __init__(self, target: str, turns: int, rate: float) -> None:
        self._target, self._turns, self._interval = target, turns // AGENTS, AGENTS / rate
        super().__init__([lambda n=number: self._run(n) for number in range(AGENTS)])

    def _run(self, number: int) -> None:
        text = (TEXT * 8)[:200]
        with memoryd.Client(self._target, timeout=60) as memory:
            session = f"agent-{number}"
            memory.create_session(session, config=SessionConfig(token_limit=3000))
            due = time.monotonic()
            for _ in range(self._turns):
                memory.put(session, [memoryd.message("user", text), memoryd.message("assistant", text)])
                memory.get(session)
                due += self._interval
                threading.Event().wait(max(0.0, due - time.monotonic()))


def measure(kind: str, options: argparse.Namespace) -> None:
    with fresh_store(kind) as store, Server(store, environment=chart_settings(kind)) as server:
        def report(what: str, begin: float, used: float, turns: int = 0) -> None:
            took, used = time.monotonic() - begin, processor_seconds(server.pid) - used
            resident, own, peak = memory_mib(server.pid)
            line = (f"{kind}, {what}: {resident:.0f} MiB resident, {own:.0f} own, peak {peak:.0f}, "
                    f"{used / took * 1e3:.0f} m")
            if turns:
                line += f", {turns / took:.0f} turns a second of {used / turns * 1e3:.2f} ms"
            print(line, flush=True)

        begin, used = time.monotonic(), processor_seconds(server.pid)
        threading.Event().wait(options.idle)
        report("idle", begin, used)
        turns = options.turns // AGENTS * AGENTS
        begin, used = time.monotonic(), processor_seconds(server.pid)
        with Agents(server.target, turns, options.rate):
            pass
        report(f"{AGENTS} agents", begin, used, turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=6000)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--idle", type=float, default=20)
    options = parser.parse_args()
    for kind in STORES:
        measure(kind, options)


if __name__ == "__main__":
    main()
