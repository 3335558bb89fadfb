"""What a Put and a Get cost the server as a session grows, and as the number of sessions grows, and
what so many sessions take of memory."""

from __future__ import annotations

import functools
import pathlib
import sys

import processes
from bench import MESSAGE_BYTES, Bench, Leg, Sample

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import metrics

MESSAGES = (1_000, 1_000_000)
SESSIONS = (100, 100_000)
_MESSAGES_PER_SESSION = 20
# Both sessions keep as much in short-term memory, so only their length differs.
_WINDOW = {"profile": "llama-index", "token_limit": 2000, "token_flush_size": 200}


def legs(bench: Bench) -> list[Leg]:
    scale = 50 if bench.short else 1
    made = []
    for kind in ("postgresql", "sqlite"):
        made += _sessions(bench, kind, SESSIONS[0], SESSIONS[1] // scale)
        made += _messages(bench, kind, MESSAGES[0], MESSAGES[1] // scale)
    return made


def _server(bench: Bench, kind: str, name: str) -> processes.Server:
    name = f"growth_{kind}_{name}"
    store = bench.postgres.database(name) if kind == "postgresql" else bench.sqlite(name)
    return bench.memoryd(store, "--cache-mib=8192", "--metrics-listen=127.0.0.1:0")


def _cost(bench: Bench, server: processes.Server, method: str, **flags: object) -> Sample:
    # Few Puts: a short session has to stay one.
    count = 500 if bench.short else 2000
    return bench.measure(server, method, outstanding=8, warmup_calls=200,
                         count=count if method == "put" else 4 * count, **flags)


def _messages(bench: Bench, kind: str, few: int, many: int) -> list[Leg]:
    """A session of many messages beside one of few, on the same server."""
    server = _server(bench, kind, "messages")
    bench.load(server, "get", count=1, fill=many, sessions=1, session_prefix="many", **_WINDOW)
    bench.notes.append(f"growth on {kind}: {few:,} to {many:,} messages")

    def short(number: int, method: str) -> Sample:
        # A new one in every round: the Puts make it longer.
        prefix = f"few {method} {number}"
        bench.load(server, "get", count=1, fill=few, sessions=1, session_prefix=prefix, **_WINDOW)
        return _cost(bench, server, method, sessions=1, session_prefix=prefix)

    def long(_: int, method: str) -> Sample:
        return _cost(bench, server, method, sessions=1, session_prefix="many")

    return [Leg(f"growth {kind} messages {name} {method}", functools.partial(run, method=method))
            for method in ("put", "get") for name, run in (("few", short), ("many", long))]


def _sessions(bench: Bench, kind: str, few: int, many: int) -> list[Leg]:
    """A server with many sessions beside one with few; calls go over them in turn."""
    counts, servers, made = {"few": few, "many": many}, {}, []
    for name, count in counts.items():
        server = servers[name] = _server(bench, kind, name)
        begin = server.resident_bytes()
        bench.load(server, "get", count=1, fill=_MESSAGES_PER_SESSION, sessions=count)
        if name == "many":
            sample = _warm(server, begin, count)
            made.append(Leg(f"warm {kind}", lambda _, sample=sample: sample, once=True))
    bench.notes.append(f"growth on {kind}: {few:,} to {many:,} sessions")

    def run(_: int, name: str, method: str) -> Sample:
        # Gets go over one half and Puts over the other, so that Gets meet equal lengths.
        half = counts[name] // 2
        return _cost(bench, servers[name], method, sessions=half,
                     first_session=half if method == "put" else 0)

    return made + [Leg(f"growth {kind} sessions {name} {method}",
                       functools.partial(run, name=name, method=method))
                   for method in ("get", "put") for name in counts]


def _warm(server: processes.Server, begin: int, sessions: int) -> Sample:
    """Memory that the sessions take, all of them in the cache, beside the bytes of their texts."""
    series = metrics.scrape(server.metrics)
    warm = metrics.value(series, "memoryd_cache_sessions")
    if warm < sessions:
        raise RuntimeError(f"{warm:.0f} of {sessions} sessions are in memory")
    taken = server.resident_bytes() - begin - metrics.value(series, "memoryd_index_bytes")
    texts = sessions * _MESSAGES_PER_SESSION * MESSAGE_BYTES
    return {"taken_mib": taken / 2**20, "texts_mib": texts / 2**20, "ratio": taken / texts,
            "cache_ratio": metrics.value(series, "memoryd_cache_bytes") / texts}
