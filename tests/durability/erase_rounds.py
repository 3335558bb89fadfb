#!/usr/bin/env python3
"""Erases subjects while they are written, read and fed to models, over and over.

usage: erase_rounds.py [--rounds N] [--store KIND] [--seed N]

A round is a subject with two sessions and their two writers, a reader, models behind two blocks, and
sessions of others beside it. Ten at a time; once their writers have stopped and EraseSubject has said
that all is purged, no column of any table may hold anything of them, no reply either, others' sessions
must be as they were put, and the receipts must add up to what was written. The last line is
`erase STORE: rounds N, left N, wrong N`. Exits 1 when anything was left or wrong.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.blocks import models_file  # noqa: E402
from support.calls import Calls  # noqa: E402
from support.erasure import Round, stored_text  # noqa: E402
from support.model_server import ModelServer  # noqa: E402
from support.server import Server, ready  # noqa: E402
from support.stores import STORES, fresh_store  # noqa: E402

AT_ONCE = 10


def run(kind: str, rounds: int, seed: int) -> tuple[int, int]:
    """How many subjects were left in the store, and how many rounds went wrong in another way."""
    left, wrong = 0, 0
    with tempfile.TemporaryDirectory() as folder, ModelServer() as models, \
            fresh_store(kind) as store, \
            Server(store, arguments=[models_file(pathlib.Path(folder), models)]) as server, \
            server.channel() as channel, ThreadPoolExecutor(AT_ONCE) as pool:
        calls = Calls(ready(channel))

        def attempt(step) -> int:
            try:
                step()
            except Exception:  # Counted, and shown.
                traceback.print_exc()
                return 1
            return 0

        for first in range(0, rounds, AT_ONCE):
            batch = [Round(calls, seed + number)
                     for number in range(first, min(rounds, first + AT_ONCE))]
            wrong += sum(pool.map(attempt, [each.run for each in batch]))
            stored = stored_text(store)
            for each in batch:
                if each.marker in stored:
                    at = stored.index(each.marker)
                    print(f"left: {stored[max(0, at - 200):at + 200]!r}")
                    left += 1
            wrong += sum(pool.map(attempt, [each.check for each in batch]))
    return left, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500, help="on each store")
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = False
    for kind in options.store or STORES:
        left, wrong = run(kind, options.rounds, options.seed)
        failed = failed or left + wrong > 0
        print(f"erase {kind}: rounds {options.rounds}, left {left}, wrong {wrong}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
