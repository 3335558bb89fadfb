"""What retention costs: the sweep, for each session that expires; a Put, with and without it; and what the
store's files grow to when sessions come and go.

    python tests/benchmark/retention.py [--sessions 100000] [--puts 20000] [--rounds 3] [--store URL]

One server, over a SQLite file of its own unless a store is given. Processor time is that of the server, of
users and system, from /proc; kinds of Puts take turns, in chunks, so that what else the machine does falls on all.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from google.protobuf.duration_pb2 import Duration  # noqa: E402

from support.calls import Calls, memory, user  # noqa: E402
from support.metrics import scrape, value  # noqa: E402
from support.server import Server, ready  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
CHUNK = 500
# Sessions whose time is over at once, later, and never.
MIXED = (2, 3600, 0)
LOST_SECONDS = 600


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def file_mib(folder: pathlib.Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 2**20


def config(ttl: int = 0, keep: int = 0) -> memory.SessionConfig:
    kept = memory.Retention()
    if ttl:
        kept.session_ttl.CopyFrom(Duration(seconds=ttl))
    if keep:
        kept.keep_messages = keep
    return memory.SessionConfig(tokenizer="whitespace", retention=kept)


def pipelined(calls: Calls, names: Iterator[tuple[str, memory.SessionConfig]]) -> None:
    """Puts with up to 64 under way."""
    waiting = []
    for name, wanted in names:
        waiting.append(calls.put_later(session_id=name, config=wanted,
                                       messages=[user("x" * 200)]))
        if len(waiting) == 64:
            for call in waiting:
                call.result()
            waiting.clear()
    for call in waiting:
        call.result()


def cost_of_puts(server: Server, calls: Calls, puts: int) -> None:
    """Microseconds of processor time a Put, of kinds that take turns on 100 sessions each."""
    kinds = {"plain": config(), "session_ttl": config(ttl=86400), "keep_messages": config(keep=50),
             "both": config(ttl=86400, keep=50)}
    spent: dict[str, list[float]] = {kind: [] for kind in kinds}
    for chunk in range(max(2, puts // CHUNK)):
        for kind, wanted in kinds.items():
            begin = cpu_seconds(server.pid)
            pipelined(calls, ((f"{kind} {number % 100}", wanted) for number in range(CHUNK)))
            # The first ones make the sessions.
            if chunk > 0:
                spent[kind].append((cpu_seconds(server.pid) - begin) / CHUNK * 1e6)
    for kind, samples in spent.items():
        print(f"put {kind}: {statistics.median(samples):.1f} us of CPU, median of "
              f"{len(samples)} chunks, {min(samples):.1f} to {max(samples):.1f}")


def cost_of_sweeps(server: Server, calls: Calls, sessions: int, rounds: int,
                   folder: pathlib.Path) -> None:
    for number in range(rounds):
        run = uuid.uuid4().hex
        before = value(scrape(server.metrics), "memoryd_expired_sessions_total")
        begin = cpu_seconds(server.pid)
        pipelined(calls, ((f"{run} {i}", config(ttl=MIXED[i % len(MIXED)]))
                          for i in range(sessions)))
        made = cpu_seconds(server.pid)
        due = len(range(0, sessions, len(MIXED)))
        begun = time.monotonic()
        while value(scrape(server.metrics), "memoryd_expired_sessions_total") < before + due:
            if time.monotonic() - begun > LOST_SECONDS:
                raise RuntimeError("sessions did not expire")
            time.sleep(0.2)
        spent = cpu_seconds(server.pid) - made
        print(f"round {number}: {sessions:,} sessions made at {(made - begin) / sessions * 1e6:.0f} "
              f"us of CPU, {due:,} expired within {time.monotonic() - begun:.1f} s, at most "
              f"{spent / due * 1e6:.0f} us of CPU each; files {file_mib(folder):.1f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--puts", type=int, default=20_000, help="of each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        store = given.store or f"sqlite:{folder / 'store.db'}"
        with Server(store, arguments=["--sweep-interval-ms=1000",
                                      "--metrics-listen=127.0.0.1:0"]) as server, \
                server.channel() as channel:
            calls = Calls(ready(channel))
            calls.put_later = put_later(channel)
            cost_of_puts(server, calls, given.puts)
            cost_of_sweeps(server, calls, given.sessions, given.rounds, folder)


def put_later(channel):
    from memoryd.v1 import memory_service_pb2 as wire, memory_service_pb2_grpc
    stub = memory_service_pb2_grpc.MemoryServiceStub(channel)
    return lambda **fields: stub.Put.future(wire.PutRequest(**fields), timeout=60)


if __name__ == "__main__":
    main()
