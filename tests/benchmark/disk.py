"""Put on this machine's disk beside what that disk can do: fdatasync, and pgbench on it."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import time

import processes
from bench import Bench, Leg, Sample

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import metrics

_OUTSTANDING = 128
_CLIENT_COUNTS = (1, 16, 32, 64, 128)


def legs(bench: Bench) -> list[Leg]:
    postgres = bench.stack.enter_context(processes.Postgres(bench.disk))
    measured = ("--metrics-listen=127.0.0.1:0",)
    memoryd = bench.memoryd(postgres.database("memoryd"), *measured)
    on_tmpfs = bench.memoryd(bench.postgres.database("memoryd"))
    file = pathlib.Path(bench.stack.enter_context(
        tempfile.TemporaryDirectory(dir=bench.disk, prefix="memoryd-bench."))) / "memoryd.db"
    sqlite = bench.memoryd(f"sqlite:{file}", *measured)
    pgbench = processes.Pgbench(postgres.bin_dir, postgres.database("pgbench"),
                                bench.folder / "pgbench-disk")
    best = pgbench.best_client_count("insert", (32, 64) if bench.short else _CLIENT_COUNTS, 2)
    bench.notes.append(f"pgbench, INSERT a commit: fastest with {best} clients on the disk")

    def put(server: processes.Server, number: int, **flags: object) -> Sample:
        return bench.measure(server, "put", outstanding=_OUTSTANDING,
                             session_prefix=f"put {number}", **flags)

    def counted(server: processes.Server, number: int, **flags: object) -> Sample:
        before = _batches(server)
        sample = put(server, number, **flags)
        writes, batches = (b - a for a, b in zip(before, _batches(server), strict=True))
        return {**sample, "batch_writes": writes / batches}

    return [
        Leg("fdatasync disk", lambda _: fdatasyncs(bench.disk, bench.seconds / 2)),
        Leg("disk postgresql put 128", lambda n: counted(memoryd, n, postgres=postgres)),
        Leg("disk sqlite put 128", lambda n: counted(sqlite, n)),
        Leg("disk pgbench insert best", lambda _: pgbench.run("insert", best, bench.seconds)),
        Leg("disk tmpfs put 128", lambda n: put(on_tmpfs, n, postgres=bench.postgres)),
        Leg("fdatasync tmpfs", lambda _: fdatasyncs(bench.folder, bench.seconds / 4)),
    ]


def _batches(server: processes.Server) -> tuple[float, float]:
    """Writes that went to the store so far, and the batches they went in."""
    series = metrics.scrape(server.metrics)
    return tuple(metrics.value(series, f"memoryd_commit_batch_writes_{part}")
                 for part in ("sum", "count"))


def fdatasyncs(folder: os.PathLike | str, seconds: float) -> Sample:
    """One after the other, each after 8 KiB into a file that is there already, as in PostgreSQL's
    log."""
    page, pages = bytes(8192), 2048
    latencies = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(page * pages)
        file.flush()
        os.fsync(file.fileno())
        begin = time.perf_counter()
        while not latencies or time.perf_counter() - begin < seconds:
            os.pwrite(file.fileno(), page, len(latencies) % pages * len(page))
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            latencies.append((time.perf_counter() - start) * 1e6)
        rate = len(latencies) / (time.perf_counter() - begin)
    return {"ops_per_second": rate, **processes.percentiles(latencies)}
