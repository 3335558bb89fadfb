#!/usr/bin/env python3
"""What retention costs, on SQLite and on PostgreSQL: a Put of each kind; the same Put while sessions expire
beside it; the expiry of a session; and what the store grows to when sessions come and go.

    python tests/benchmark/retention.py [--stores sqlite postgresql] [--sessions 30000] [--puts 20000]
                                        [--rounds 5] [--seconds 10]

One server over an empty store, on tmpfs; PostgreSQL syncs. Of the sessions a third lives for a few seconds, a third for
an hour, a third for ever. Processor time is Linux' own count of the server's, and of PostgreSQL's processes that
run, to the nanosecond; kinds of Puts take turns, in chunks, so that what else the machine does falls on all. Each
round makes the sessions of a few seconds anew, under the same ids, and waits until they have expired and were
purged: what the store takes afterwards must not grow. (Under other ids each leaves a tombstone of a day.)
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

import processes

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "tests"))

from google.protobuf.duration_pb2 import Duration  # noqa: E402

from support.calls import memory, user  # noqa: E402
from support.metrics import scrape, value  # noqa: E402
from support.server import Server, ready  # noqa: E402

_CHUNK = 500
_SHORT_SECONDS = 3
_LONG_SECONDS = 3600
_LOST_SECONDS = 1800
# Puts of the load beside: their sessions are not those that expire.
_LOAD = {"method": "put", "sessions": 64, "outstanding": 16}


class Store:
    """An empty store, what it takes, and the time of the processes that are not memoryd's."""

    def __init__(self, kind: str, folder: pathlib.Path, postgres: processes.Postgres | None) -> None:
        self._folder, self._postgres = folder, postgres
        self.url = f"sqlite:{folder / 'store.db'}" if postgres is None \
            else postgres.database("retention")
        self.kind = kind

    def cpu_seconds(self) -> float:
        return 0.0 if self._postgres is None else self._postgres.cpu_seconds()

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
    def __init__(self, store: Store, server: Server, channel, load: pathlib.Path) -> None:
        from memoryd.v1 import memory_service_pb2 as wire, memory_service_pb2_grpc
        self.store, self.server, self._load = store, server, load
        self._put = memory_service_pb2_grpc.MemoryServiceStub(channel).Put
        self._request = wire.PutRequest

    def say(self, text: str) -> None:
        print(f"{self.store.kind}: {text}", flush=True)

    def cpu(self) -> tuple[float, float]:
        """Seconds of the server, and of the store's processes."""
        return processes.cpu_seconds(self.server.pid), self.store.cpu_seconds()

    def metric(self, name: str) -> float:
        return value(scrape(self.server.metrics), name)

    def put_all(self, sessions: Iterator[tuple[str, memory.SessionConfig]]) -> None:
        """Puts with up to 64 under way."""
        waiting = []
        for name, wanted in sessions:
            waiting.append(self._put.future(self._request(
                session_id=name, config=wanted, messages=[user("x" * 200)]), timeout=120))
            if len(waiting) == 64:
                for call in waiting:
                    call.result()
                waiting.clear()
        for call in waiting:
            call.result()

    def wait_for_expiry(self, expired: float) -> None:
        """Returns when so many sessions have expired, ever, and nothing is purged any more."""
        begun, purged = time.monotonic(), -1.0
        while True:
            now = self.metric("memoryd_purged_rows_total")
            if self.metric("memoryd_expired_sessions_total") >= expired and now == purged:
                return
            if time.monotonic() - begun > _LOST_SECONDS:
                raise RuntimeError("sessions did not expire")
            purged = now
            time.sleep(2.5)  # More than two sweeps.

    def puts(self, count: int) -> None:
        """Processor time of a Put, of kinds that take turns on 100 sessions each."""
        kinds = {"plain": config(), "session_ttl": config(ttl=86400),
                 "keep_messages": config(keep_messages=50), "keep_bytes": config(keep_bytes=10_000),
                 "all three": config(ttl=86400, keep_messages=50, keep_bytes=10_000)}
        spent: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for chunk in range(max(2, count // _CHUNK)):
            for kind, wanted in kinds.items():
                begin = self.cpu()
                self.put_all((f"{kind} {number % 100}", wanted) for number in range(_CHUNK))
                # The first ones make the sessions.
                if chunk > 0:
                    spent[kind].append(per(begin, self.cpu(), _CHUNK))
        for kind, samples in spent.items():
            self.say(f"put {kind}: {median(samples)} us of CPU, {len(samples)} chunks of {_CHUNK}")

    def churn(self, sessions: int, rounds: int) -> None:
        third = sessions // 3
        for kind, ttl in (("an hour", _LONG_SECONDS), ("ever", 0)):
            begin = self.cpu()
            self.put_all((f"{kind} {i}", config(ttl=ttl)) for i in range(third))
            self.say(f"{third:,} sessions for {kind} made at {us(begin, self.cpu(), third)} us of CPU, "
                     f"{self.store.mib():.1f} MiB")
        for number in range(rounds):
            expired = self.metric("memoryd_expired_sessions_total")
            begin = self.cpu()
            self.put_all((f"short {i}", config(ttl=_SHORT_SECONDS)) for i in range(third))
            made, begun = self.cpu(), time.monotonic()
            full = self.store.mib()
            self.wait_for_expiry(expired + third)
            self.say(f"round {number + 1}: {third:,} sessions for {_SHORT_SECONDS} s made at "
                     f"{us(begin, made, third)} us of CPU, gone {time.monotonic() - begun:.0f} s later "
                     f"at {us(made, self.cpu(), third)}; {full:.1f} MiB, then {self.store.mib():.1f}")

    def beside(self, sessions: int, seconds: float) -> None:
        """A load of Puts alone, and while sessions that were made before expire beside it."""
        third = sessions // 3
        for turn in range(2):
            self.load(f"puts alone, turn {turn + 1}", seconds)
            begun = time.monotonic()
            self.put_all((f"probe {turn} {i}", config(ttl=_SHORT_SECONDS))
                         for i in range(256))
            a_session = (time.monotonic() - begun) / 256
            # All are due when the load begins, at about the same time.
            ttl = max(16, int(2 * a_session * third) + 16)
            begun, expired = time.monotonic(), self.metric("memoryd_expired_sessions_total")
            self.put_all((f"due {turn} {i}", config(ttl=ttl)) for i in range(third))
            while self.metric("memoryd_expired_sessions_total") < expired + 256 + 1:
                if time.monotonic() - begun > _LOST_SECONDS:
                    raise RuntimeError("sessions did not expire")
                time.sleep(0.05)
            before = self.metric("memoryd_expired_sessions_total")
            self.load(f"puts beside a sweep, turn {turn + 1}", seconds)
            went = self.metric("memoryd_expired_sessions_total") - before
            self.say(f"  {went:,.0f} sessions expired meanwhile")
            self.wait_for_expiry(expired + third)

    def load(self, name: str, seconds: float) -> None:
        begin = self.cpu()
        ran = processes.load(self._load, self.server.target, seconds=seconds, warmup=0, **_LOAD)
        count = ran["ops_per_second"] * seconds
        self.say(f"{name}: {ran['ops_per_second']:,.0f} a second, p50 {ran['p50_us']:.0f} us, "
                 f"p99 {ran['p99_us']:.0f} us, {us(begin, self.cpu(), count)} us of CPU a Put, all told")


def config(ttl: int = 0, **kept: int) -> memory.SessionConfig:
    retention = memory.Retention(**kept)
    if ttl:
        retention.session_ttl.CopyFrom(Duration(seconds=ttl))
    return memory.SessionConfig(tokenizer="whitespace", retention=retention)


def per(begin: tuple[float, float], end: tuple[float, float], count: float) -> tuple[float, float]:
    """Microseconds of the server and of the store's processes for each of `count`."""
    return tuple((b - a) / max(count, 1) * 1e6 for a, b in zip(begin, end))


def us(begin: tuple[float, float], end: tuple[float, float], count: float) -> str:
    return " + ".join(f"{spent:.0f}" for spent in per(begin, end, count))


def median(samples: list[tuple[float, float]]) -> str:
    columns = [sorted(column) for column in zip(*samples)]
    return " + ".join(f"{statistics.median(c):.1f} ({c[0]:.1f} to {c[-1]:.1f})" for c in columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql"],
                        choices=["sqlite", "postgresql"])
    parser.add_argument("--sessions", type=int, default=30_000)
    parser.add_argument("--puts", type=int, default=20_000, help="of each kind")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="of each load")
    parser.add_argument("--load", type=pathlib.Path, default=_ROOT / "build/bin/memoryd_load")
    given = parser.parse_args()
    print("CPU: of the server + of PostgreSQL's processes (0 with SQLite)")
    for kind in given.stores:
        with new_store(kind) as store, \
                Server(store.url, arguments=["--sweep-interval-ms=1000",
                                             "--metrics-listen=127.0.0.1:0"]) as server, \
                server.channel() as channel:
            ready(channel)
            bench = Bench(store, server, channel, given.load)
            bench.puts(given.puts)
            bench.churn(given.sessions, given.rounds)
            bench.beside(given.sessions, given.seconds)


if __name__ == "__main__":
    main()
