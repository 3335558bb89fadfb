#!/usr/bin/env python3
"""Kills the server with SIGKILL in the middle of jobs, over and over, and looks what blocks hold.

usage: kill_jobs.py [--store sqlite|postgresql|both] [--kills N] [--sessions N] [--turns N]
                    [--seed N]

Two writers put turns into sessions with a block of each kind that keeps what it is fed; a worker
answers for their models. After N kills, each followed by a start on the same store, and when no job
is open any more, what each block holds is compared with the messages that left short-term memory.
The last line of a store is `kill_jobs: store S, kills N, jobs N, lost N, doubled N, reordered N,
not done N`. Exits 1 when any but the first two is not 0.
"""

from __future__ import annotations

import argparse
import logging
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.job_load import kill_amid_jobs
from support.stores import STORES, fresh_store


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--turns", type=int, default=13)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    # A worker says whenever its server is gone.
    logging.getLogger("memoryd.worker").setLevel(logging.ERROR)
    print(f"seed {options.seed}", flush=True)
    clean = True
    for kind in STORES if options.store == "both" else (options.store,):
        with fresh_store(kind) as store:
            found = kill_amid_jobs(store, options.kills, options.sessions, options.turns,
                                   options.seed)
        print(f"kill_jobs: store {kind}, kills {options.kills}, jobs {found.jobs}, "
              f"lost {found.lost}, doubled {found.doubled}, reordered {found.reordered}, "
              f"not done {found.ended_otherwise}", flush=True)
        clean = clean and found.clean
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
