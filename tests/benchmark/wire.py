"""Put and Get over the wire beside an echo that answers the same requests with as many bytes, with
every store on tmpfs; and what they could cost at the least: a row per commit, a row by its key."""

from __future__ import annotations

import pathlib
import sqlite3
import time

import numpy
import processes
from bench import MESSAGE_BYTES, SESSIONS, Bench, Leg, Sample

OUTSTANDING = (1, 32, 128)
_SHORT, _LONG = 20, 1000  # Messages of the sessions that are read.
_LONG_SESSIONS = 8
_CLIENT_COUNTS = (1, 4, 8, 16, 32, 64)


def legs(bench: Bench) -> list[Leg]:
    postgres = bench.postgres
    stores = {
        "postgresql": bench.memoryd(postgres.database("shared"), "--coherence=shared"),
        "exclusive": bench.memoryd(postgres.database("exclusive"), "--coherence=exclusive"),
        "sqlite": bench.memoryd(bench.sqlite("wire")),
    }
    made = [*_puts(bench, stores), *_gets(bench, stores), *_sockets(bench)]
    pgbench = processes.Pgbench(postgres.bin_dir, postgres.database("pgbench"),
                                bench.folder / "pgbench")
    for script, title in (("insert", "INSERT a commit"), ("select", "indexed SELECT")):
        best = pgbench.best_client_count(script, (8, 32) if bench.short else _CLIENT_COUNTS, 1)
        bench.notes.append(f"pgbench, {title}: fastest with {best} clients on tmpfs")
        for name, clients in ((f"pgbench {script} 1", 1), (f"pgbench {script} best", best)):
            made.append(Leg(name, lambda _, script=script, clients=clients:
                            pgbench.run(script, clients, bench.seconds)))
    made += [
        Leg("sqlite batched insert", lambda number: _sqlite_batches(
            bench.folder / f"insert-{number}.db", bench.seconds)),
        Leg("memory bandwidth", lambda _: _copies(bench.seconds / 4)),
    ]
    return made


def _puts(bench: Bench, stores: dict[str, processes.Server]) -> list[Leg]:
    """One message, with and without request_id, and ten messages."""
    kinds = {"put": {}, "put id": {"request_id": "true"}, "put 10": {"messages_per_put": 10}}
    made = []
    for kind, flags in kinds.items():
        size = bench.reply_bytes(stores["sqlite"], "put", session_prefix=f"probe {kind}", **flags)
        bench.notes.append(f"a reply to `{kind}` has {size} bytes")
        servers = {"echo": bench.echo(size), **stores}
        servers.pop("exclusive")
        for outstanding in {"put": OUTSTANDING, "put id": (32, 128), "put 10": (32,)}[kind]:
            for store, server in servers.items():
                made.append(Leg(f"{store} {kind} {outstanding}", lambda number, server=server,
                                store=store, kind=kind, outstanding=outstanding, flags=flags:
                                bench.measure(
                                    server, "put", outstanding=outstanding,
                                    postgres=bench.postgres if store == "postgresql" else None,
                                    # Sessions of its own: every round meets equally long ones.
                                    session_prefix=f"{kind} {outstanding} {number}", **flags)))
    return made


def _gets(bench: Bench, stores: dict[str, processes.Server]) -> list[Leg]:
    """A short session at one and at 32 calls in flight, and one of a thousand messages."""
    made = []
    for kind, messages, sessions, outstandings in (
            ("get", _SHORT, SESSIONS, (1, 32)), ("get 1000", _LONG, _LONG_SESSIONS, (8,))):
        for server in stores.values():
            # So much that nothing of the session leaves short-term memory.
            bench.load(server, "get", count=1, fill=messages, sessions=sessions,
                       session_prefix=kind, token_limit=10**7)
        size = bench.reply_bytes(stores["sqlite"], "get", session_prefix=kind, sessions=sessions)
        if size < messages * MESSAGE_BYTES:
            raise RuntimeError(f"{size} bytes are not {messages} messages")
        bench.notes.append(f"a reply to `{kind}` has {size:,} bytes")
        servers = {"echo": bench.echo(size), **stores}
        for outstanding in outstandings:
            for store, server in servers.items():
                made.append(Leg(f"{store} {kind} {outstanding}", lambda _, server=server,
                                store=store, kind=kind, outstanding=outstanding,
                                sessions=sessions: bench.measure(
                                    server, "get", outstanding=outstanding, sessions=sessions,
                                    session_prefix=kind,
                                    postgres=bench.postgres if store == "postgresql" else None)))
    return made


def _sockets(bench: Bench) -> list[Leg]:
    """The echo over a UNIX socket; the others go over TCP."""
    unix = bench.echo(20, listen=f"unix:{bench.folder}/echo.socket")
    return [
        Leg(f"echo unix {outstanding}", lambda _, outstanding=outstanding:
            bench.measure(unix, "put", outstanding=outstanding))
        for outstanding in (1, 32)
    ]


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
    """Bytes a second that one core copies from memory to memory, far from its caches."""
    source = numpy.ones(2**28, dtype=numpy.uint8)
    target = numpy.zeros_like(source)
    count, begin = 0, time.perf_counter()
    while count == 0 or time.perf_counter() - begin < seconds:
        numpy.copyto(target, source)
        count += 1
    return {"bytes_per_second": count * source.nbytes / (time.perf_counter() - begin)}
