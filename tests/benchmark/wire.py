"""Put and Get over the wire beside an echo that answers the same requests with as many bytes, with
every store on tmpfs; and what they could cost at the least: a row per commit, a row by its key."""

from __future__ import annotations

import pathlib
import sqlite3
import time

import numpy

import processes
from bench import MESSAGE_BYTES, SESSIONS, Bench, Leg, Sample

_OUTSTANDING = (1, 32, 128)
_CLIENT_COUNTS = (1, 4, 8, 16, 32, 64)


def legs(bench: Bench) -> list[Leg]:
    postgres = bench.postgres
    stores = {
        "postgresql": bench.memoryd(postgres.database("shared"), "--coherence=shared"),
        "exclusive": bench.memoryd(postgres.database("exclusive"), "--coherence=exclusive"),
        "sqlite": bench.memoryd(bench.sqlite("wire")),
    }
    return [
        *_puts(bench, stores, "put", _OUTSTANDING),
        *_puts(bench, stores, "put id", _OUTSTANDING[1:], request_id="true"),
        *_puts(bench, stores, "put 10", (32,), messages_per_put=10),
        *_batches(bench, stores),
        *_gets(bench, stores, "get", (1, 32), messages=20, sessions=SESSIONS),
        *_gets(bench, stores, "get 1000", (8,), messages=1000, sessions=8),
        *_sockets(bench, stores["sqlite"]),
        *_rows(bench),
        Leg("sqlite batched insert", lambda number: _sqlite_batches(
            bench.folder / f"insert-{number}.db", bench.seconds)),
        Leg("memory bandwidth", lambda _: _copies(bench.seconds / 4)),
    ]


def _puts(bench: Bench, stores: dict[str, processes.Server], kind: str,
          outstandings: tuple[int, ...], **flags: object) -> list[Leg]:
    size = bench.reply_bytes(stores["sqlite"], "put", session_prefix=f"probe {kind}", **flags)
    bench.notes.append(f"a reply to `{kind}` has {size} bytes")
    servers = {**_echoes(bench, size), "postgresql": stores["postgresql"],
               "sqlite": stores["sqlite"]}

    def leg(name: str, outstanding: int) -> Leg:
        # Sessions of its own: every round meets equally long ones.
        return Leg(f"{name} {kind} {outstanding}", lambda number: bench.measure(
            servers[name], "put", outstanding=outstanding,
            session_prefix=f"{kind} {outstanding} {number}", postgres=_postgres(bench, name),
            **flags))

    return [leg(name, outstanding) for outstanding in outstandings for name in servers]


def _batches(bench: Bench, stores: dict[str, processes.Server]) -> list[Leg]:
    """PutBatch with 32 Puts a call, several in flight."""
    def leg(name: str) -> Leg:
        return Leg(f"{name} put batch", lambda number: bench.measure(
            stores[name], "put_batch", outstanding=4, puts_per_call=32,
            session_prefix=f"batch {number}", postgres=_postgres(bench, name)))

    return [leg("postgresql"), leg("sqlite")]


def _gets(bench: Bench, stores: dict[str, processes.Server], kind: str,
          outstandings: tuple[int, ...], messages: int, sessions: int) -> list[Leg]:
    for server in stores.values():
        # So much that nothing of the session leaves short-term memory.
        bench.load(server, "get", count=1, fill=messages, sessions=sessions, session_prefix=kind,
                   token_limit=10**7)
    size = bench.reply_bytes(stores["sqlite"], "get", session_prefix=kind, sessions=sessions)
    if size < messages * MESSAGE_BYTES:
        raise RuntimeError(f"{size} bytes are not {messages} messages")
    bench.notes.append(f"a reply to `{kind}` has {size:,} bytes")
    servers = {**_echoes(bench, size), **stores}

    def leg(name: str, outstanding: int) -> Leg:
        return Leg(f"{name} {kind} {outstanding}", lambda _: bench.measure(
            servers[name], "get", outstanding=outstanding, sessions=sessions,
            session_prefix=kind, postgres=_postgres(bench, name)))

    return [leg(name, outstanding) for outstanding in outstandings for name in servers]


def _echoes(bench: Bench, size: int) -> dict[str, processes.Server]:
    """By gRPC's callback server, and by memoryd's own front."""
    return {"echo": bench.echo(size), "front": bench.echo(size, "--own_front")}


def _postgres(bench: Bench, name: str) -> processes.Postgres | None:
    """Whose CPU time belongs to the calls."""
    return bench.postgres if name in ("postgresql", "exclusive") else None


def _sockets(bench: Bench, model: processes.Server) -> list[Leg]:
    """The echo over a UNIX socket; the others go over TCP."""
    size = bench.reply_bytes(model, "put", session_prefix="probe socket")
    unix = bench.echo(size, listen=f"unix:{bench.folder}/echo.socket")

    def leg(outstanding: int) -> Leg:
        return Leg(f"echo unix {outstanding}",
                   lambda _: bench.measure(unix, "put", outstanding=outstanding))

    return [leg(1), leg(32)]


def _rows(bench: Bench) -> list[Leg]:
    """PostgreSQL alone: a row a commit, a row by its key; one client, the best number."""
    postgres = bench.postgres
    pgbench = processes.Pgbench(postgres.bin_dir, postgres.database("pgbench"),
                                bench.folder / "pgbench")

    def leg(name: str, script: str, clients: int) -> Leg:
        return Leg(name, lambda _: pgbench.run(script, clients, bench.seconds))

    made = []
    for script, title in (("insert", "INSERT a commit"), ("select", "indexed SELECT")):
        best = pgbench.best_client_count(script, (8, 32) if bench.short else _CLIENT_COUNTS, 1)
        bench.notes.append(f"pgbench, {title}: fastest with {best} clients on tmpfs")
        made += [leg(f"pgbench {script} 1", script, 1), leg(f"pgbench {script} best", script, best)]
    return made


def _sqlite_batches(file: pathlib.Path, seconds: float, rows: int = 32) -> Sample:
    """Rows a second that SQLite takes, as durable as memoryd's, so many a commit."""
    text = "x" * 88
    with sqlite3.connect(file, isolation_level=None) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE message (session TEXT, position INTEGER, body TEXT,"
                         " PRIMARY KEY (session, position)) WITHOUT ROWID")
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO message VALUES (?, ?, ?)", [
                (f"session-{n % 64}", n, text) for n in range(count, count + rows)])
            database.execute("COMMIT")
            count += rows
        rate = count / (time.perf_counter() - begin)
    database.close()
    file.unlink()
    return {"ops_per_second": rate}


def _copies(seconds: float) -> Sample:
    """What one core copies from memory to memory, far from its caches."""
    source = numpy.ones(2**28, dtype=numpy.uint8)
    target = numpy.zeros_like(source)
    count, begin = 0, time.perf_counter()
    while count == 0 or time.perf_counter() - begin < seconds:
        numpy.copyto(target, source)
        count += 1
    return {"copied_gib_per_second": count * source.nbytes / 2**30 / (time.perf_counter() - begin)}
