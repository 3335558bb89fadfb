#!/usr/bin/env python3
"""What a put, a get and a page of items cost as a namespace grows, and the number of namespaces.

    python tests/benchmark/items_scale.py [--stores sqlite postgresql] [--items 1000000]
        [--namespaces 100000] [--rounds 5] [--calls 300] [--only KIND ...] [--folder /dev/shm]

Two servers of a kind: one has a namespace of 1,000 items and 1,000 namespaces of one, the other as
many as are asked for. Values have 100 bytes. Every round makes each kind of call so many times on
either, one after the other, every second round the other way around. Shown is the CPU time a call,
of memoryd and, where there is one, of PostgreSQL: the median over the rounds, and the median of the
ratios within them. PostgreSQL syncs; its data and SQLite's file lie in `--folder`. It vacuums once
the items are there, and not by itself afterwards.

  replace, put, get   an item of the large namespace: anywhere in it, and under a new key
  of many ...         the only item of one of the namespaces, in turn anywhere
  page ...            100 items of the large namespace: from either end, by key and by time, and
                      behind the middle of its keys
  namespaces ...      a page of 100 of the namespaces: from the begin, and behind the middle
  search ...          the 10 newest items of the large namespace, and of all of the many
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import pathlib
import random
import statistics
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import processes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import paths
from support.calls import Calls
from support.calls import item_wire as items
from support.server import open_channel

FEW = 1000
AT_ONCE = 1000
PAGE = 100
FOUND = 10
LARGE = ("scale", "large")
MANY = ("scale", "many")
VALUE = '{"text":"' + "x" * 89 + '"}'


def key(number: int) -> str:
    return f"k{number:08}"


def one_of_many(number: int) -> tuple[str, ...]:
    return (*MANY, f"n{number:06}")


def put(name: str) -> items.ItemPut:
    return items.ItemPut(key=name, json=VALUE)


def batch(namespace: tuple[str, ...], puts: Iterable[items.ItemPut]) -> items.ItemBatch:
    return items.ItemBatch(
        namespace=namespace, operations=[items.ItemOperation(put=one) for one in puts],
        request_id=uuid.uuid4().hex)


def full(found: Sequence[Any], count: int) -> None:
    if len(found) != count:
        raise AssertionError(f"{len(found)} of {count} were found")


class Scale:
    """A server with so many items in one namespace, and so many namespaces of one item."""

    def __init__(self, server: processes.Server, postgres: processes.Postgres | None,
                 sizes: tuple[int, int]) -> None:
        self._server, self._postgres = server, postgres
        self._items, self._namespaces = sizes
        self._channel = open_channel(server.target)
        self._calls = Calls(self._channel)
        self._random = random.Random(28)
        self._new = itertools.count(self._items)

    def fill(self) -> None:
        for first in range(0, self._items, AT_ONCE):
            last = min(first + AT_ONCE, self._items)
            self._store([batch(LARGE, [put(key(number)) for number in range(first, last)])])
        for first in range(0, self._namespaces, AT_ONCE):
            last = min(first + AT_ONCE, self._namespaces)
            self._store([batch(one_of_many(number), [put("k")]) for number in range(first, last)])

    def _store(self, batches: list[items.ItemBatch]) -> None:
        """Again and again, since a store may take longer than a call."""
        while batches:
            outcomes = self._calls.BatchItems(batches=batches, timeout=120.0).outcomes
            for outcome in outcomes:
                if outcome.HasField("error") and outcome.error.reason != "OUTCOME_UNKNOWN":
                    raise RuntimeError(outcome.error)
            batches = [one for one, outcome in zip(batches, outcomes, strict=True)
                       if outcome.HasField("error")]

    def cpu_seconds(self) -> float:
        served = self._server.cpu_seconds()
        return served if self._postgres is None else served + self._postgres.cpu_seconds()

    def close(self) -> None:
        self._channel.close()

    def kinds(self) -> dict[str, Callable[[], object]]:
        """Each kind of call."""
        calls = self._calls

        def some_key() -> str:
            return key(self._random.randrange(self._items))

        def some_namespace() -> tuple[str, ...]:
            return one_of_many(self._random.randrange(self._namespaces))

        def page(order: int, **asked: str) -> Callable[[], object]:
            return lambda: full(calls.ListItems(
                namespace=LARGE, order=order, page_size=PAGE, **asked).items, PAGE)

        def namespaces(token: str) -> Callable[[], object]:
            return lambda: full(calls.ListNamespaces(
                matches=[_begins_with(MANY)], page_size=PAGE, page_token=token).namespaces, PAGE)

        def search(prefix: tuple[str, ...]) -> Callable[[], object]:
            return lambda: full(
                calls.SearchItems(namespace_prefix=prefix, limit=FOUND).results, FOUND)

        middle = key(self._items // 2)
        return {
            "replace": lambda: calls.PutItem(namespace=LARGE, put=put(some_key())),
            "put": lambda: calls.PutItem(namespace=LARGE, put=put(key(next(self._new)))),
            "get": lambda: calls.GetItem(
                namespace=LARGE, get=items.ItemGet(key=some_key())),
            "of many, replace": lambda: calls.PutItem(namespace=some_namespace(), put=put("k")),
            "of many, get": lambda: calls.GetItem(
                namespace=some_namespace(), get=items.ItemGet(key="k")),
            "page by key": page(items.ITEM_ORDER_KEY),
            "page by key, from the end": page(items.ITEM_ORDER_KEY_DESCENDING),
            "page behind the middle": page(items.ITEM_ORDER_KEY, start_key=middle),
            "page before the middle": page(items.ITEM_ORDER_KEY_DESCENDING, end_key=middle),
            "page of the oldest": page(items.ITEM_ORDER_OLDEST_FIRST),
            "page of the newest": page(items.ITEM_ORDER_NEWEST_FIRST),
            "namespaces": namespaces(""),
            "namespaces behind the middle": namespaces(self._middle_token()),
            "search": search(LARGE),
            "search of many": search(MANY)}

    def _middle_token(self) -> str:
        token = ""
        for _ in range(max(1, self._namespaces // 2 // PAGE)):
            token = self._calls.ListNamespaces(
                matches=[_begins_with(MANY)], page_size=PAGE, page_token=token).next_page_token
        return token


def _begins_with(path: tuple[str, ...]) -> items.NamespaceMatch:
    return items.NamespaceMatch(end=items.NamespaceMatch.END_PREFIX, names=path)


@contextlib.contextmanager
def scales(kind: str, given: argparse.Namespace) -> Iterator[list[Scale]]:
    """The server with few, and that with as many as are asked for."""
    with contextlib.ExitStack() as stack:
        postgres = (stack.enter_context(processes.Postgres(given.folder))
                    if kind == "postgresql" else None)
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(
            prefix="memoryd-items-", dir=given.folder)))
        made = []
        for name, sizes in (("few", (FEW, FEW)), ("many", (given.items, given.namespaces))):
            store = postgres.database(name) if postgres else f"sqlite:{folder / name}.db"
            server = processes.Server(
                [given.binary, "--listen=127.0.0.1:0", f"--store={store}"], folder / f"{name}.log")
            stack.callback(server.stop)
            scale = Scale(server, postgres, sizes)
            stack.callback(scale.close)
            scale.fill()
            if postgres:
                processes.psql(store, "VACUUM ANALYZE")
            made.append(scale)
        if postgres:
            processes.psql(postgres.url, "ALTER SYSTEM SET autovacuum = off",
                           "SELECT pg_reload_conf()", "CHECKPOINT")
        yield made


def measure(kind: str, given: argparse.Namespace) -> None:
    with scales(kind, given) as made:
        few, many = made
        kinds = {scale: scale.kinds() for scale in made}
        names = [name for name in kinds[few] if not given.only or name in given.only]
        samples: dict[tuple[str, Scale], list[float]] = {}
        for number in range(given.rounds):
            for name in names:
                for scale in made if number % 2 == 0 else reversed(made):
                    call = kinds[scale][name]
                    call()
                    begin = scale.cpu_seconds()
                    for _ in range(given.calls):
                        call()
                    spent = 1e6 * (scale.cpu_seconds() - begin) / given.calls
                    samples.setdefault((name, scale), []).append(spent)
        print(f"\n| {kind}, CPU µs a call | 1,000 | {given.items:,} items, {given.namespaces:,} "
              "namespaces | ratio |\n| --- | ---: | ---: | ---: |")
        for name in names:
            one, other = samples[name, few], samples[name, many]
            ratios = [after / before for before, after in zip(one, other, strict=True)]
            print(f"| {name} | {statistics.median(one):,.0f} | {statistics.median(other):,.0f} | "
                  f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) × |",
                  flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql"],
                        choices=["sqlite", "postgresql"])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--namespaces", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=300, help="of each kind, a round")
    parser.add_argument("--only", nargs="+", help="kinds of calls")
    parser.add_argument("--folder", default="/dev/shm", help="of the stores")
    parser.add_argument("--binary", default=paths.BINARY, type=pathlib.Path)
    given = parser.parse_args()
    for kind in given.stores:
        measure(kind, given)


if __name__ == "__main__":
    main()
