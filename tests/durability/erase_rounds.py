#!/usr/bin/env python3
"""Erases subjects while they are written, read and fed to models, over and over.

usage: erase_rounds.py [--rounds N] [--store KIND] [--seed N]

A round is a subject with two sessions and their two writers, a reader, models behind two blocks, and
sessions of others beside it; by chance a session of the subject's own that the others hand messages
on to, embeddings, forks, and sessions or items that expire. On PostgreSQL two servers share the store,
and each call goes to one of them. Ten at a time; once their writers have stopped and EraseSubject has
said that all is purged, no column of any table may hold anything of them, no reply either, others'
sessions must be as they were put, and the receipts must add up to what was written. A round in which a
call had no time on a busy machine is broken off: nobody knows what it wrote, so the next one takes its
place, until as many were. The last line is `erase STORE: rounds N, left N, wrong N, broken off N`.
Exits 1 when anything was left or wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
import tempfile
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.blocks import models_file
from support.calls import Calls
from support.erasure import Round, sessions_with_rows, stored_text
from support.model_server import ModelServer
from support.server import Server, ready
from support.stores import STORES, fresh_store

AT_ONCE = 10
# How many servers there are on a store.
SERVERS = {"sqlite": 1, "postgresql": 2}
# How a call ends that a busy machine left no time.
NO_TIME = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
# Sessions and items expire, and jobs that can't do their work end, within a round.
ARGUMENTS = ("--sweep-interval-ms=300", "--job-retry-ms=20", "--job-attempts=5")


class Tally:
    """What became of the rounds on a store."""

    def __init__(self) -> None:
        self.done, self.left, self.wrong, self.broken_off = 0, 0, 0, 0
        self.kinds: Counter = Counter()

    def run(self, pool: ThreadPoolExecutor, store: str, batch: list[Round]) -> None:
        ran = self._all(pool, Round.run, batch)
        stored, with_rows = stored_text(store), sessions_with_rows(store)
        for each in ran:
            rows = with_rows.intersection(each.sessions)
            at = stored.find(each.marker)
            if at >= 0 or rows:
                print(f"left: {each.kinds}, rows of {sorted(rows)}, "
                      f"{stored[max(0, at - 200):at + 200] if at >= 0 else ''!r}")
                self.left += 1
        for each in self._all(pool, Round.check, ran):
            self.done += 1
            self.kinds.update(each.kinds)

    def _all(self, pool: ThreadPoolExecutor, step, rounds: list[Round]) -> list[Round]:
        """Those whose step was as it must be; the others are counted, and shown."""
        passed = []
        failures = pool.map(lambda each: failure(step, each), rounds)
        for each, error in zip(rounds, failures, strict=True):
            if error is None:
                passed.append(each)
            elif isinstance(error, grpc.RpcError) and error.code() in NO_TIME:
                self.broken_off += 1
            else:
                print(f"wrong: {each.kinds}")
                traceback.print_exception(error)
                self.wrong += 1
                self.done += 1
        return passed


def failure(step, each: Round) -> Exception | None:
    """What the step of a round raised, if anything."""
    try:
        step(each)
    except Exception as error:  # Counted, and shown.
        return error
    return None


def run(kind: str, rounds: int, seed: int) -> Tally:
    """As many rounds, those aside that were broken off."""
    tally = Tally()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        models = stack.enter_context(ModelServer())
        store = stack.enter_context(fresh_store(kind))
        arguments = [models_file(pathlib.Path(folder), models), *ARGUMENTS]
        servers = [stack.enter_context(Server(store, arguments=arguments))
                   for _ in range(SERVERS[kind])]
        calls = [Calls(ready(stack.enter_context(server.channel()))) for server in servers]
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        while tally.done < rounds and tally.broken_off <= rounds + AT_ONCE:
            count = min(AT_ONCE, rounds - tally.done)
            tally.run(pool, store, [Round(calls, seed + number) for number in range(count)])
            seed += count
    print(f"{kind}, servers: {SERVERS[kind]}; rounds: " +
          ", ".join(f"{count} {name}" for name, count in sorted(tally.kinds.items())), flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500, help="on each store")
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = False
    for kind in options.store or STORES:
        found = run(kind, options.rounds, options.seed)
        failed = failed or found.left + found.wrong > 0 or found.done < options.rounds
        print(f"erase {kind}: rounds {found.done}, left {found.left}, wrong {found.wrong}, "
              f"broken off {found.broken_off}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
