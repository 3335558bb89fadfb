"""How soon memoryd serves, and what it takes of memory while nobody calls."""

from __future__ import annotations

import processes
from bench import Bench, Leg, Sample


def legs(bench: Bench) -> list[Leg]:
    return [_leg(bench, "sqlite", bench.sqlite("start")),
            _leg(bench, "postgresql", bench.postgres.database("starts"))]


def _leg(bench: Bench, kind: str, store: str) -> Leg:
    # The first one makes the schema.
    first = _started(bench, store)
    bench.load(first, "get", count=1, fill=1, sessions=100)
    first.stop()
    return Leg(f"start {kind}", lambda _: _start(bench, store))


def _started(bench: Bench, store: str, *options: str) -> processes.Server:
    command = [bench.build / "bin" / "memoryd", "--listen=127.0.0.1:0", f"--store={store}", *options]
    return processes.Server(command, bench.folder / "start.log")


def _start(bench: Bench, store: str) -> Sample:
    sample = {}
    for name, options in (("resident_mib", ["--word-vectors=off"]), ("with_vectors_mib", [])):
        server = _started(bench, store, *options)
        try:
            sample |= {"start_ms": server.start_seconds * 1e3,
                       name: server.resident_bytes() / 2**20}
        finally:
            server.stop()
    return sample
