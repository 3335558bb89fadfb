#!/usr/bin/env python3
"""Server CPU per Put and Get of one memoryd beside another, and of the second over TLS.

usage: paired.py --before BINARY [--after BINARY] [--stores sqlite postgresql] [--rounds N] [--seconds S]

For a change that must not cost the plain path anything: `git worktree add ../before REVISION`, build
it, and give its binary. Every round runs every leg once; quotients are taken within a round. Legs:
`before` and `after` as they are, `TLS`, and `TLS, token`: `after` with a certificate, and with
credentials too. Prints tables.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import sys
import tempfile

import processes
import report

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "tests"))

from support.access import credential, write_credentials
from support.tls import SERVER_NAMES, Authority

_METHODS = ("put", "get")
_OUTSTANDING = 32
_SESSIONS = 200
_TOKEN = "token"


class Leg:
    """A server, and how it is loaded."""

    def __init__(self, arguments, binary, options, load, store, folder):
        self._arguments = arguments
        self._load = load
        self.server = processes.Server(
            [binary, "--listen=127.0.0.1:0", f"--store={store}", *options], folder / "log")

    def run(self, method: str, round_number: int) -> float:
        """Microseconds of the server's CPU per call."""
        flags = {"method": method, "outstanding": _OUTSTANDING, "sessions": _SESSIONS,
                 "session_prefix": f"{method}{round_number}", "warmup": 0, **self._load}
        load = self._arguments.build / "bin" / "memoryd_load"
        if method == "get":  # Puts the messages and reads some, so that sessions are cached.
            processes.load(load, self.server.target, fill=20, count=_SESSIONS, **flags)
        else:
            processes.load(load, self.server.target, count=_SESSIONS, **flags)
        before = self.server.cpu_seconds()
        sample = processes.load(load, self.server.target, seconds=self._arguments.seconds, **flags)
        return (self.server.cpu_seconds() - before) / sample["ops"] * 1e6


def start_legs(arguments, store: str, folder: pathlib.Path,
               stack: contextlib.ExitStack) -> dict[str, Leg]:
    authority = Authority(folder / "tls")
    identity = authority.issue(SERVER_NAMES)
    credentials = write_credentials(folder / "credentials.yaml", [credential("t", token=_TOKEN)])
    tls = [f"--tls-cert={identity.certificate}", f"--tls-key={identity.key}"]
    over_tls = {"ca_file": authority.certificate}
    kinds = {
        "before": (arguments.before, [], {}),
        "after": (arguments.after, [], {}),
        "TLS": (arguments.after, tls, over_tls),
        "TLS, token": (arguments.after, [*tls, f"--credentials={credentials}"],
                       {**over_tls, "token": _TOKEN}),
    }
    legs = {}
    for number, (name, (binary, options, load)) in enumerate(kinds.items()):
        own = folder / f"leg{number}"
        own.mkdir()
        url = processes.new_store(store, own, f"paired{number}")
        legs[name] = Leg(arguments, binary, options, load, url, own)
        stack.callback(legs[name].server.stop)
    return legs


def measure(arguments, store: str) -> dict[tuple[str, str], list[float]]:
    samples: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="memoryd-bench.", dir="/dev/shm") as name, \
            contextlib.ExitStack() as stack:
        legs = start_legs(arguments, store, pathlib.Path(name), stack)
        for round_number in range(arguments.rounds):
            order = list(legs) if round_number % 2 == 0 else list(reversed(legs))
            for method in _METHODS:
                for leg in order:
                    used = legs[leg].run(method, round_number)
                    samples.setdefault((leg, method), []).append(used)
                    print(f"{store} {method} {leg:<10} {used:7.1f} µs", flush=True)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--after", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--stores", nargs="+", default=("sqlite", "postgresql"))
    arguments = parser.parse_args()
    arguments.after = arguments.after or arguments.build / "bin" / "memoryd"
    if os.environ.get("MEMORYD_TEST_POSTGRES_PARENT") != "/dev/shm":
        processes.run_with_postgres()
    rows = [report.row("store", "call", "after / before", "TLS / after", "TLS, token / after",
                       "µs: before", "after", "TLS", "TLS, token"),
            report.row("---", "---", *["---:"] * 7)]
    for store in arguments.stores:
        samples = measure(arguments, store)
        for method in _METHODS:
            of = {leg: samples[leg, method] for leg, kind in samples if kind == method}
            quotients = [
                report.with_spread([a / b for a, b in zip(of[leg], of[beside], strict=True)], 2)
                for leg, beside in (("after", "before"), ("TLS", "after"), ("TLS, token", "after"))]
            rows.append(report.row(store, method.capitalize(), *quotients,
                                   *(report.with_spread(values, 1) for values in of.values())))
    print("\n".join(["", *rows]))


if __name__ == "__main__":
    main()
