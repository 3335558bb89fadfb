"""The rows of the table of targets: what each is computed from, round by round, and what it should
reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import Sample, Samples

# The figure of each round in which all that it is made of was measured.
Figure = Callable[[Samples], list[float]]

RATE, P50 = "ops_per_second", "p50_us"


@dataclass(frozen=True)
class Row:
    what: str
    figure: Figure
    target: float | None = None
    at_most: bool = False  # Else at least.
    reach: float | None = None
    digits: int = 2
    unit: str = "×"

    def reached(self, values: Sequence[float]) -> bool | None:
        """By the median; None without a target or a measurement."""
        if self.target is None or not values:
            return None
        median = statistics.median(values)
        return median <= self.target if self.at_most else median >= self.target

    def share(self, values: Sequence[float]) -> float | None:
        """How far the median gets: 1 is the target, and more is better."""
        if self.target is None or not values:
            return None
        median = statistics.median(values)
        return self.target / median if self.at_most else median / self.target


def by_round(samples: Samples, legs: Sequence[str], compute: Callable[..., float]) -> list[float]:
    """`compute` of the legs' samples of a round, for each round that has them all."""
    rounds = zip(*(samples.get(leg, []) for leg in legs), strict=False)
    return [compute(*found) for found in rounds if all(sample is not None for sample in found)]


def value(leg: str, name: str) -> Figure:
    return lambda samples: by_round(samples, [leg], lambda sample: sample[name])


def quotient(leg: str, beside: str, name: str = RATE, times: float = 1) -> Figure:
    return lambda samples: by_round(
        samples, [leg, beside], lambda a, b: times * a[name] / b[name])


def beside_sum(leg: str, *parts: str, name: str = P50) -> Figure:
    return lambda samples: by_round(
        samples, [leg, *parts], lambda a, *rest: a[name] / sum(part[name] for part in rest))


def beside_best(leg: str, *others: str, name: str = RATE) -> Figure:
    """Beside the one of the others that is fastest by the median of all rounds."""

    def compute(samples: Samples) -> list[float]:
        medians = {other: statistics.median(found) for other in others
                   if (found := value(other, name)(samples))}
        return quotient(leg, max(medians, key=medians.get), name)(samples) if medians else []

    return compute


def cpu_growth(many: str, few: str) -> Figure:
    def each(sample: Sample) -> float:
        return sample["server_cpu_seconds"] / sample["ops"]

    return lambda samples: by_round(samples, [many, few], lambda a, b: each(a) / each(b))


def cpu_us(leg: str, name: str) -> Figure:
    return lambda samples: by_round(
        samples, [leg], lambda sample: sample[name] / sample["ops"] * 1e6)


def disk_limit(leg: str, sync: str, on_tmpfs: str) -> Figure:
    """Beside what the disk allows with batches of this size, or the CPU, which tmpfs shows."""

    def share(disk: Sample, fdatasync: Sample, tmpfs: Sample) -> float:
        return disk[RATE] / min(disk["batch_writes"] * fdatasync[RATE], tmpfs[RATE])

    return lambda samples: by_round(samples, [leg, sync, on_tmpfs], share)


def headroom(leg: str, echo: str) -> Figure:
    """Calls a second that the load generator's one core could make by its CPU time beside the echo,
    over those that the server took."""

    def share(loaded: Sample, free: Sample) -> float:
        return free["ops"] / free["cpu_seconds"] / loaded[RATE]

    return lambda samples: by_round(samples, [leg, echo], share)


def _stores() -> list[Row]:
    rows = []
    targets = {("postgresql", 32): ((0.60, 0.70), (0.50, 0.60)),
               ("postgresql", 128): ((0.65, 0.80), (0.65, 0.80)),
               ("sqlite", 32): ((0.60, 0.75), (None, None)),
               ("sqlite", 128): ((None, None), (None, None))}
    names = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
    for (store, outstanding), both in targets.items():
        for kind, (target, reach) in zip(("put", "put id"), both, strict=True):
            title = "with request_id" if kind == "put id" else "without request_id"
            rows.append(Row(
                f"Put, {names[store]}, {outstanding} outstanding, {title} / echo, calls/s",
                quotient(f"{store} {kind} {outstanding}", f"echo {kind} {outstanding}"),
                target, reach=reach))
    return rows


def _growth() -> list[Row]:
    names = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}
    titles = {"messages": "10³ → 10⁶ messages", "sessions": "10² → 10⁵ sessions"}
    return [
        Row(f"growth, {title}, {names[kind]}: server CPU a {method.capitalize()}",
            cpu_growth(f"growth {kind} {what} many {method}", f"growth {kind} {what} few {method}"),
            1.25, at_most=True, reach=1.1)
        for what, title in titles.items() for kind in names for method in ("put", "get")
    ]


ROWS = [
    *_stores(),
    Row("Put, PostgreSQL, 128 outstanding: PostgreSQL's CPU a Put",
        cpu_us("postgresql put 128", "postgres_cpu_seconds"), 12, at_most=True, reach=9, digits=1,
        unit="µs"),
    Row("Put, PostgreSQL, 32 outstanding / the echo of memoryd's own front, calls/s",
        quotient("postgresql put 32", "front put 32")),
    Row("Put, SQLite, 32 outstanding / the echo of memoryd's own front, calls/s",
        quotient("sqlite put 32", "front put 32")),
    Row("Put, PostgreSQL, one outstanding: p50 / (echo's p50 + a one-row commit's p50)",
        beside_sum("postgresql put 1", "echo put 1", "pgbench insert 1"),
        1.15, at_most=True, reach=1.0),
    Row("Put, PostgreSQL on the disk, 128 outstanding / pgbench's best one-row rate",
        quotient("disk postgresql put 128", "disk pgbench insert best"), 1.4),
    Row("the same / (batch size × fdatasyncs a second), or the rate on tmpfs if that is less",
        disk_limit("disk postgresql put 128", "fdatasync disk", "disk tmpfs put 128"), 0.8),
    Row("Put, SQLite, 128 outstanding / rows a second of SQLite's own batched insert",
        quotient("sqlite put 128", "sqlite batched insert")),
    Row("Put of 10 messages, PostgreSQL, 32 outstanding: messages/s / the echo's calls/s",
        quotient("postgresql put 10 32", "echo put 10 32", times=10), 2.4, reach=3.2),
    Row("Put of 10 messages, SQLite, 32 outstanding: messages/s / the echo's calls/s",
        quotient("sqlite put 10 32", "echo put 10 32", times=10)),
    Row("PutBatch of 32, PostgreSQL, 4 outstanding: messages/s / the echo's calls/s at 32",
        quotient("postgresql put batch", "echo put 32", times=32), 3),
    Row("PutBatch of 32, SQLite, 4 outstanding: messages/s / the echo's calls/s at 32",
        quotient("sqlite put batch", "echo put 32", times=32), 3),
    Row("Get of 20 messages, exclusive, one outstanding: p50 / echo's p50",
        quotient("exclusive get 1", "echo get 1", P50), 1.25, at_most=True, reach=1.1),
    Row("Get of 20 messages, SQLite, one outstanding: p50 / echo's p50",
        quotient("sqlite get 1", "echo get 1", P50)),
    Row("Get of 20 messages, shared, one outstanding: p50 / (echo's p50 + an indexed SELECT's p50)",
        beside_sum("postgresql get 1", "echo get 1", "pgbench select 1"), 1.0, at_most=True),
    Row("Get of 1,000 messages, shared, 8 outstanding / echo, calls/s",
        quotient("postgresql get 1000 8", "echo get 1000 8"), 0.6, reach=0.8),
    Row("Get of 1,000 messages, exclusive, 8 outstanding / echo, calls/s",
        quotient("exclusive get 1000 8", "echo get 1000 8"), 0.6, reach=0.8),
    Row("LlamaIndex Memory: one message a Put, 8 callers each, calls/s",
        quotient("memoryd llama put", "library llama put"), 20, reach=40, digits=1),
    Row("LlamaIndex Memory: put_messages(10), 8 callers each, calls/s",
        quotient("memoryd llama put 10", "library llama put 10"), 25, reach=40, digits=1),
    Row("LlamaIndex Memory: Put with a full queue of 30,000 tokens, one caller, calls/s",
        quotient("memoryd llama put full", "library llama put full"), 25, reach=40, digits=1),
    *(row for active in (100, 800) for row in (
        Row(f"LlamaIndex Memory: Get of {active} active messages, 8 callers, calls/s",
            quotient(f"memoryd llama get {active}", f"library llama get {active}"), 20, digits=1),
        Row(f"LlamaIndex Memory: Get of {active}, its p50 / memoryd's",
            quotient(f"library llama get {active}", f"memoryd llama get {active}", P50), 8,
            digits=1))),
    Row("langchain-postgres: Put, one connection each, calls/s",
        quotient("memoryd langchain put", "library langchain put, one connection"), 5, digits=1),
    Row("langchain-postgres: Put, beside its best, calls/s",
        beside_best("memoryd langchain put", *(
            f"library langchain put, {how}"
            for how in ("one connection", "threads", "coroutines", "processes"))), 3, digits=1),
    Row("langchain-postgres: Get of 500 messages, beside its best, calls/s",
        beside_best("memoryd langchain get 500", "library langchain get 500, coroutines",
                    "library langchain get 500, processes"), 8, digits=1),
    Row("LangGraph's Postgres store: an item a message, 8 callers each, calls/s",
        quotient("memoryd put 8", "library langgraph put"), digits=1),
    Row("LangGraph's Postgres store: 20 items read, 8 callers each, calls/s",
        quotient("memoryd get 20 8", "library langgraph get 20"), digits=1),
    Row("mem0, infer=False, on its embedded store, memoryd on SQLite: one caller, add, calls/s",
        quotient("memoryd sqlite put 1", "library mem0 put"), digits=1),
    Row("mem0, the same: get_all of 20, calls/s",
        quotient("memoryd sqlite get 20 1", "library mem0 get 20"), digits=1),
    *_growth(),
    *(Row(f"tokens, {length}, {vocabulary}: tiktoken's CPU / memoryd's",
          lambda samples, leg=f"tokens {vocabulary} {kind}": by_round(
              samples, [leg], lambda sample: sample["tiktoken_us"] / sample["memoryd_us"]),
          4, reach=8, digits=1)
      for kind, length in (("short", "messages of 88 bytes"), ("1 MB", "texts of 1 MB"))
      for vocabulary in ("cl100k_base", "o200k_base")),
    *(row for kind, name in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL")) for row in (
        Row(f"idle resident memory, {name}, without word vectors",
            value(f"start {kind}", "resident_mib"), 40, at_most=True, digits=1, unit="MiB"),
        Row(f"idle resident memory, {name}, with them",
            value(f"start {kind}", "with_vectors_mib"), digits=1, unit="MiB"),
        Row(f"start to ready, {name}", value(f"start {kind}", "start_ms"), 300, at_most=True,
            digits=0, unit="ms"),
        Row(f"10⁵ warm sessions of 20 messages, {name}: memory / bytes of their texts",
            value(f"warm {kind}", "ratio"), 3, at_most=True, reach=2))),
    Row("steady load, half of the peak: resident memory of the last quarter / of the second",
        value("steady put", "drift"), digits=3),
    Row("load generator: calls/s by its CPU time beside the echo / memoryd's at 128, SQLite",
        headroom("sqlite put 128", "echo put 128")),
    Row("load generator: the same, Get of 20 messages at 32",
        headroom("exclusive get 32", "echo get 32")),
]

# The rows of libraries once more, through memoryd's Python adapters; no targets.
PYTHON_ROWS = [
    Row("LlamaIndex Memory: aput, 8 callers", quotient("python llama put", "library llama put")),
    Row("LlamaIndex Memory: aput_messages(10), 8 callers",
        quotient("python llama put 10", "library llama put 10")),
    Row("LlamaIndex Memory: aput with a full queue of 30,000 tokens, one caller",
        quotient("python llama put full", "library llama put full")),
    Row("LlamaIndex Memory: aget of 100 active messages, 8 callers",
        quotient("python llama get 100", "library llama get 100")),
    Row("LlamaIndex Memory: aget of 800 active messages, 8 callers",
        quotient("python llama get 800", "library llama get 800")),
    Row("langchain-postgres: add_messages, one caller",
        quotient("python langchain put, one connection", "library langchain put, one connection")),
    Row("langchain-postgres: add_messages, 8 threads",
        quotient("python langchain put, threads", "library langchain put, threads")),
    Row("langchain-postgres: aadd_messages, 8 coroutines",
        quotient("python langchain put, coroutines", "library langchain put, coroutines")),
    Row("langchain-postgres: aget_messages of 500, 8 coroutines",
        quotient("python langchain get 500, coroutines", "library langchain get 500, coroutines")),
]
