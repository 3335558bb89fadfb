#!/usr/bin/env python3
"""Kills the server with SIGKILL under concurrent Puts, over and over, and counts what is missing.

usage: kill.py [--store sqlite|postgresql|both] [--kills N] [--writers N] [--sessions N] [--seed N]

Writers repeat a Put by its request_id until it is acknowledged, and one thread sets and resets a
session of its own. After N kills, each followed by a start on the same store, every session is read
back and held against what was acknowledged. The last line of a store is
`kill: store S, kills N, acked N, lost N, doubled N, reordered N`. Exits 1 when anything was lost,
doubled, out of a writer's order, or stored without having been sent.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls  # noqa: E402
from support.server import Server  # noqa: E402
from support.stores import STORES, fresh_store  # noqa: E402
from support.writers import Replacer, Writers, audit  # noqa: E402

# How many acknowledged messages a server lives for.
MOST_MESSAGES_BETWEEN_KILLS = 600
# Some servers are killed while they start.
SHARE_KILLED_AT_START = 0.1


def run(kind: str, kills: int, writers: int, sessions: int, seed: int) -> bool:
    chance = random.Random(f"{seed}/{kind}")
    names = [f"session-{number}" for number in range(sessions)]
    # A UNIX socket: its address is the next server's too, and nobody else takes it meanwhile.
    with fresh_store(kind) as store, tempfile.TemporaryDirectory(prefix="memoryd-kill-") as folder:
        listen = f"unix:{folder}/memoryd.sock"
        server = Server(store, listen=listen)
        at_start = 0
        try:
            with Writers(lambda _: listen, names, writers) as load, Replacer(listen) as replacer:
                for _ in range(kills):
                    if chance.random() < SHARE_KILLED_AT_START:
                        at_start += 1
                        server.kill()
                        server = Server(store, listen=listen, wait=False)
                    else:
                        load.progress.wait_for_more(
                            chance.randint(1, MOST_MESSAGES_BETWEEN_KILLS))
                    server.kill()
                    server = Server(store, listen=listen)
                load.progress.wait_for_more(1)
            load.progress.check()
            # Read by a server that has nothing cached.
            server.kill()
            server = Server(store, listen=listen)
            with server.channel() as channel:
                calls = Calls(channel)
                found = audit(calls, load.acknowledged)
                replacer.check([m.text for m in calls.all_messages(Replacer.SESSION)])
        finally:
            server.kill()
    if found.unknown:
        print(f"{found.unknown} messages stored that nobody was told of")
    print(
        f"kill: store {kind}, kills {kills + at_start}, acked {found.acknowledged}, "
        f"lost {found.lost}, doubled {found.doubled}, reordered {found.reordered}",
        flush=True,
    )
    return found.clean and found.acknowledged > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    kinds = STORES if options.store == "both" else (options.store,)
    results = [run(kind, options.kills, options.writers, options.sessions, options.seed)
               for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
