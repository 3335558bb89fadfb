#!/usr/bin/env python3
"""What retention costs, on SQLite and on PostgreSQL: a Put of each kind; the expiry of a session, alone and
beside Puts; the same Puts without it; and what the store grows to when sessions come and go.

    python tests/benchmark/retention.py [--stores sqlite postgresql] [--sessions 30000] [--puts 20000]
                                        [--rounds 3] [--seconds 10]

One server over an empty store, on tmpfs; PostgreSQL syncs. Of the sessions a third lives for a
second, a third for an hour, a third for ever, by the retention of the tenants that they are of;
each is made by a Put of 200 bytes, 64 at a time. Processor time is Linux' own count of the
server's, and of PostgreSQL's processes that run, to the nanosecond; kinds of Puts take turns, in
chunks, so that what else the machine does falls on all. Each round makes the sessions of a second
anew, under the same ids, and waits until they have expired and were purged: what the store takes
afterwards must not grow. (Under other ids each leaves a tombstone of a day.) Then as many are made
while nothing sweeps, so that all are due when a server begins to: once nothing else is done
meanwhile, and once Puts are.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

import processes

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "tests"))

from support.access import credential, write_credentials
from support.metrics import scrape, value
from support.server import Server, ready
from support.waiting import wait_for

_CHUNK = 2000
_LOST_SECONDS = 1800
_SWEEP_MS = 1000
_NEVER_MS = 3_600_000
# The retention of tenants: of the sessions that come and go, and of those that are put to.
_AGES = {"short": {"session_ttl_s": 1}, "hour": {"session_ttl_s": 3600}, "ever": {}}
_KINDS = {"plain": {}, "session_ttl": {"session_ttl_s": 86400}, "keep_messages": {"keep_messages": 50},
          "keep_bytes": {"keep_bytes": 10_000},
          "all three": {"session_ttl_s": 86400, "keep_messages": 50, "keep_bytes": 10_000}}
# Puts of the load beside: their sessions are not those that expire.
_LOAD = {"method": "put", "sessions": 64, "outstanding": 16, "token": "plain"}


class Store:
    """An empty store, what it takes, and the time of the processes that are not memoryd's."""

    def __init__(self, kind: str, folder: pathlib.Path, postgres: processes.Postgres | None) -> None:
        self._folder, self._postgres = folder, postgres
        self.url = f"sqlite:{folder / 'store.db'}" if postgres is None \
            else postgres.database("retention")
        self.kind = kind

    def cpu_seconds(self) -> float:
        return 0.0 if self._postgres is None else self._postgres.cpu_seconds()

    def has_garbage(self) -> bool:
        """Whether anything that was deleted is still to be purged."""
        statement = "SELECT count(*) FROM (SELECT 1 FROM memoryd_garbage LIMIT 1) AS found"
        if self._postgres is not None:
            return processes.psql(self.url, statement).strip() != "0"
        with contextlib.closing(sqlite3.connect(self.url.removeprefix("sqlite:"))) as database:
            return database.execute(statement).fetchone()[0] > 0

    def mib(self) -> float:
        """Files with the log, or tables with their indexes."""
        if self._postgres is None:
            return sum(path.stat().st_size for path in self._folder.iterdir()) / 2**20
        return float(processes.psql(
            self.url, "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
                      "WHERE relkind = 'r' AND relname LIKE 'memoryd%'")) / 2**20


@contextlib.contextmanager
def new_store(kind: str) -> Iterator[Store]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        if kind == "sqlite":
            yield Store(kind, pathlib.Path(folder), None)
        else:
            with processes.Postgres("/dev/shm") as postgres:
                yield Store(kind, pathlib.Path(folder), postgres)


class Bench:
    """The servers over a store; one runs at a time."""

    def __init__(self, store: Store, folder: pathlib.Path, load: pathlib.Path) -> None:
        self.store, self._folder, self._load = store, folder, load
        tenants = [{"name": name, **kept} for name, kept in (_AGES | _KINDS).items()]
        (folder / "settings.yaml").write_text(json.dumps({"tenants": tenants}))  # JSON is YAML.
        write_credentials(folder / "credentials.yaml",
                          [credential(name, token=name) for name in _AGES | _KINDS])
        self._server: Server | None = None

    @contextlib.contextmanager
    def serving(self, sweep_ms: int = _SWEEP_MS) -> Iterator[None]:
        arguments = [f"--sweep-interval-ms={sweep_ms}", "--metrics-listen=127.0.0.1:0",
                     f"--config={self._folder / 'settings.yaml'}",
                     f"--credentials={self._folder / 'credentials.yaml'}"]
        with Server(self.store.url, arguments=arguments) as self._server, \
                self._server.channel() as channel:
            ready(channel)
            yield

    def say(self, text: str) -> None:
        print(f"{self.store.kind}: {text}", flush=True)

    def cpu(self) -> tuple[float, float]:
        """Seconds of the server, and of the store's processes."""
        return processes.cpu_seconds(self._server.pid), self.store.cpu_seconds()

    def metric(self, name: str) -> float:
        return value(scrape(self._server.metrics), name)

    def make(self, tenant: str, sessions: int, puts: int = 0) -> None:
        """A Put to each of so many sessions, or so many to all together."""
        processes.load(self._load, self._server.target, method="put", sessions=sessions,
                       count=puts or sessions, outstanding=64, message_bytes=200, token=tenant,
                       session_prefix="come" if tenant in _AGES else "put", call_timeout=120)

    def wait_for_expiry(self, expired: float) -> None:
        """Returns when so many sessions have expired since the server began, and all of it is purged."""
        wait_for(lambda: self.metric("memoryd_expired_sessions_total") >= expired and
                 not self.store.has_garbage(), 100 * _LOST_SECONDS)

    def puts(self, count: int) -> None:
        """Processor time of a Put, of kinds that take turns on 100 sessions each."""
        spent: dict[str, list[tuple[float, float]]] = {kind: [] for kind in _KINDS}
        with self.serving():
            for chunk in range(max(2, count // _CHUNK)):
                for kind in _KINDS:
                    begin = self.cpu()
                    self.make(kind, 100, _CHUNK)
                    # The first ones make the sessions.
                    if chunk > 0:
                        spent[kind].append(per(begin, self.cpu(), _CHUNK))
        for kind, samples in spent.items():
            self.say(f"put {kind}: {median(samples)} us of CPU, {len(samples)} chunks of {_CHUNK}")

    def churn(self, third: int, rounds: int) -> None:
        with self.serving():
            for age in ("hour", "ever"):
                begin, begun = self.cpu(), time.monotonic()
                self.make(age, third)
                self.say(f"{third:,} sessions for {age} made within {time.monotonic() - begun:.0f} s at "
                         f"{us(begin, self.cpu(), third)} us of CPU, {self.store.mib():.1f} MiB")
            for number in range(rounds):
                expired = self.metric("memoryd_expired_sessions_total")
                begin, begun = self.cpu(), time.monotonic()
                self.make("short", third)
                made, full = time.monotonic() - begun, self.store.mib()
                self.wait_for_expiry(expired + third)
                self.say(f"round {number + 1}: {third:,} sessions for a second made within {made:.0f} s, "
                         f"gone {time.monotonic() - begun - made:.1f} s later, all of it at "
                         f"{us(begin, self.cpu(), third)} us of CPU each; {full:.1f} MiB, "
                         f"then {self.store.mib():.1f}")

    def make_due(self, third: int) -> None:
        """Sessions that are due, and not swept."""
        with self.serving(_NEVER_MS):
            self.make("short", third)
            # The time of the last one is over, rounded up by a sixteenth; that no server does.
            time.sleep(1.1)

    def sweep(self, third: int, seconds: float) -> None:
        """A sweep alone; then Puts alone, beside a sweep and alone again."""
        self.make_due(third)
        with self.serving():
            # Some are gone by now, with what that took: counted from here on.
            gone = self.metric("memoryd_expired_sessions_total")
            begin, begun = self.cpu(), time.monotonic()
            self.wait_for_expiry(third)
            self.say(f"{third - gone:,.0f} sessions due at once: gone within "
                     f"{time.monotonic() - begun:.1f} s at {us(begin, self.cpu(), third - gone)} us of CPU "
                     "each")
        self.make_due(third)
        with self.serving(_NEVER_MS):
            self.load("puts alone", seconds)
        with self.serving():
            before = self.metric("memoryd_expired_sessions_total")
            self.load("puts beside a sweep", seconds)
            went = self.metric("memoryd_expired_sessions_total") - before
            self.say(f"  {went:,.0f} of {third:,} sessions expired meanwhile")
            self.wait_for_expiry(third)
            self.load("puts alone again", seconds)

    def load(self, name: str, seconds: float) -> None:
        begin = self.cpu()
        ran = processes.load(self._load, self._server.target, seconds=seconds, warmup=0, **_LOAD)
        count = ran["ops_per_second"] * seconds
        self.say(f"{name}: {ran['ops_per_second']:,.0f} a second, p50 {ran['p50_us']:.0f} us, "
                 f"p99 {ran['p99_us']:.0f} us, {us(begin, self.cpu(), count)} us of CPU a Put, all told")


def per(begin: tuple[float, float], end: tuple[float, float], count: float) -> tuple[float, float]:
    """Microseconds of the server and of the store's processes for each of `count`."""
    return tuple((b - a) / max(count, 1) * 1e6 for a, b in zip(begin, end, strict=True))


def us(begin: tuple[float, float], end: tuple[float, float], count: float) -> str:
    return " + ".join(f"{spent:.0f}" for spent in per(begin, end, count))


def median(samples: list[tuple[float, float]]) -> str:
    columns = [sorted(column) for column in zip(*samples, strict=True)]
    return " + ".join(f"{statistics.median(c):.1f} ({c[0]:.1f} to {c[-1]:.1f})" for c in columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql"],
                        choices=["sqlite", "postgresql"])
    parser.add_argument("--sessions", type=int, default=30_000)
    parser.add_argument("--puts", type=int, default=20_000, help="of each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="of each load")
    parser.add_argument("--load", type=pathlib.Path, default=_ROOT / "build/bin/memoryd_load")
    given = parser.parse_args()
    print("CPU: of the server + of PostgreSQL's processes (0 with SQLite)")
    for kind in given.stores:
        with new_store(kind) as store, tempfile.TemporaryDirectory() as folder:
            bench = Bench(store, pathlib.Path(folder), given.load)
            bench.puts(given.puts)
            bench.churn(given.sessions // 3, given.rounds)
            bench.sweep(given.sessions // 3, given.seconds)


if __name__ == "__main__":
    main()
