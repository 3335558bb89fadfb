#!/usr/bin/env python3
"""Kills the server with SIGKILL under concurrent Puts, over and over, and counts what is missing.

usage: kill.py [--store sqlite|postgresql|both] [--kills N] [--writers N] [--sessions N] [--seed N]
               [--messages N] [--power-loss]

Writers repeat a Put by its request_id until it is acknowledged, and one thread sets and resets a
session of its own. Each server lives for some messages, 600 at most unless told otherwise. After N
kills, each followed by a start on the same store, every session is read back and held against what
was acknowledged. The last line of a store is
`kill: store S, kills N, acked N, lost N, doubled N, reordered N`. Exits 1 when anything was lost,
doubled, out of a writer's order, or stored without having been sent.

With --power-loss, which is for SQLite, the next server finds what a loss of power at the kill would
have left: what was synced, and of all else some sectors. SQLite's integrity_check is asked then.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls
from support.disk import Disk
from support.server import Server
from support.stores import STORES, fresh_store
from support.writers import Replacer, Writers, audit

# Some servers are killed while they start.
SHARE_KILLED_AT_START = 0.1


class Restarts:
    """Servers on one store and one address, each after the sudden end of the one before."""

    def __init__(self, store: str, listen: str, disk: Disk | None) -> None:
        self.target = listen
        self._store = store
        self._disk = disk
        self.server = self._start()

    def _start(self, wait: bool = True) -> Server:
        environment = self._disk.environment() if self._disk else None
        return Server(self._store, listen=self.target, environment=environment, wait=wait)

    def kill(self, wait: bool = True) -> None:
        """Kills the server and starts the next one; `wait` until that serves."""
        self.server.kill()
        if self._disk:
            self._disk.lose_power()
            damage = self._disk.damage()
            if damage:
                raise RuntimeError(f"after {self._disk.losses} losses of power: {damage}")
        self.server = self._start(wait)

    def __enter__(self) -> Restarts:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()


def run(kind: str, kills: int, writers: int, sessions: int, seed: int, most_messages: int,
        power_loss: bool) -> bool:
    chance = random.Random(f"{seed}/{kind}")
    names = [f"session-{number}" for number in range(sessions)]
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-kill-")))
        disk = Disk(folder, seed) if power_loss else None
        store = disk.store if disk else stack.enter_context(fresh_store(kind))
        # A UNIX socket: its address is the next server's too, and nobody else takes it meanwhile.
        servers = stack.enter_context(Restarts(store, f"unix:{folder}/memoryd.sock", disk))
        at_start = 0
        with Writers(lambda _: servers.target, names, writers) as load, \
                Replacer(servers.target) as replacer:
            for _ in range(kills):
                if chance.random() < SHARE_KILLED_AT_START:
                    at_start += 1
                    servers.kill(wait=False)
                else:
                    load.progress.wait_for_more(chance.randint(1, most_messages))
                servers.kill()
            load.progress.wait_for_more(1)
        load.progress.check()
        # Read by a server that has nothing cached.
        servers.kill()
        with servers.server.channel() as channel:
            calls = Calls(channel)
            found = audit(calls, load.acknowledged)
            replacer.check([m.text for m in calls.all_messages(Replacer.SESSION)])
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
    parser.add_argument("--messages", type=int, default=600)
    parser.add_argument("--power-loss", action="store_true")
    options = parser.parse_args()
    if options.power_loss and options.store != "sqlite":
        parser.error("--power-loss is for --store sqlite")
    print(f"seed {options.seed}", flush=True)
    kinds = STORES if options.store == "both" else (options.store,)
    results = [run(kind, options.kills, options.writers, options.sessions, options.seed,
                   options.messages, options.power_loss) for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
