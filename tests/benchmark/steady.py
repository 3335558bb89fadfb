"""Latency and memory under calls that arrive as a Poisson process, at half of what the server can
take, for minutes."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Sequence

from bench import Bench, Leg, Sample

# Of the resident memory while the calls arrive.
SERIES = "resident_mib"


def legs(bench: Bench, seconds: float) -> list[Leg]:
    server = bench.memoryd(bench.postgres.database("steady"))

    def run(_: int) -> Sample:
        # Longer than a leg: half of a moment's rate could be more than can be held.
        peak = bench.measure(server, "put", outstanding=128,
                             seconds=min(seconds / 10, 10))["ops_per_second"]
        residents: list[float] = []
        over = threading.Event()

        def watch() -> None:
            while not over.wait(seconds / 600):
                residents.append(server.resident_bytes() / 2**20)

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            sample = bench.load(server, "put", rate=round(peak / 2), outstanding=1000, sessions=64,
                                warmup=1, seconds=seconds)
        finally:
            over.set()
            watching.join()
        return {**sample, "peak_per_second": peak, "drift": drift(residents), SERIES: residents}

    return [Leg("steady put", run, once=True)]


def drift(residents: Sequence[float]) -> float:
    """Of the last quarter beside the second one: the first may still fill what is bounded."""
    quarter = len(residents) // 4
    if quarter == 0:
        return 1.0
    return statistics.median(residents[-quarter:]) / statistics.median(
        residents[quarter:2 * quarter])
