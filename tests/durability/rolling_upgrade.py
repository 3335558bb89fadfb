#!/usr/bin/env python3
"""Replaces servers of an older memoryd by this one, one after the other, while agents go on.

usage: rolling_upgrade.py OLD_BINARY [--store sqlite|postgresql|both] [--servers N] [--writers N]

OLD_BINARY is of a version with an older schema. On PostgreSQL N servers (2) serve, each is ended by SIGTERM
and replaced by a new one, the first of which migrates while the others, old ones, go on; on SQLite one is
ended and another started. Agents are the Python client, which knows every address: each error that it
shows counts. At the end every session is read back and held against what was acknowledged, and a server
of the old version must refuse the new schema.

The last line of a store is `upgrade: store S, schema N to N, acked N, errors N, longest call s, lost N,
doubled N, reordered N`. Exits 1 when an agent saw an error, anything was lost, doubled or out of order, or
the schema is the same.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import os
import pathlib
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.background import Background  # noqa: E402
from support.calls import Calls  # noqa: E402
from support.paths import BINARY  # noqa: E402
from support.postgres import free_port  # noqa: E402
from support.server import Server, failed_start  # noqa: E402
from support.stores import STORES, fresh_store  # noqa: E402
from support.writers import Progress, audit  # noqa: E402

import memoryd  # noqa: E402  (made importable by support)

# Between two replacements.
MESSAGES = 300
SESSIONS = 6
CALL_SECONDS = 30.0


class Agents(Background):
    """Put and get; `errors` is what their clients showed."""

    def __init__(self, target: str, writers: int) -> None:
        self.progress = Progress()
        self.errors: list[str] = []
        self.acknowledged: dict[str, list[str]] = collections.defaultdict(list)
        self.longest = 0.0
        self._guard = threading.Lock()
        super().__init__([functools.partial(self._run, target, writer)
                          for writer in range(writers)])

    def _run(self, target: str, writer: int) -> None:
        number = 0
        with memoryd.Client(target, timeout=CALL_SECONDS) as memory:
            while not self.ending.is_set():
                session, text = f"s{(writer + number) % SESSIONS}", f"{writer}/{number}/x"
                begin = time.monotonic()
                try:
                    memory.put(session, [memoryd.message("user", text)])
                    memory.get(session)
                except Exception as error:  # Any: they are counted, and shown.
                    self.errors.append(f"{writer}/{number}: {error}")
                    self.progress.fail(error)
                    return
                with self._guard:
                    self.longest = max(self.longest, time.monotonic() - begin)
                    self.acknowledged[session].append(text)
                number += 1
                self.progress.add(1)


def schema_of(server: Server) -> int:
    with server.channel() as channel:
        return Calls(channel).GetServerInfo().store.schema_version


def upgrade(kind: str, old: pathlib.Path, servers: int, writers: int) -> bool:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-upgrade-"))
        store = stack.enter_context(fresh_store(kind))
        if kind == "sqlite":
            listens, target = [f"unix:{folder}/memoryd.sock"], f"unix:{folder}/memoryd.sock"
        else:
            listens = [f"127.0.0.1:{free_port()}" for _ in range(servers)]
            target = "ipv4:" + ",".join(listens)

        def start(listen: str, binary: os.PathLike) -> Server:
            server = Server(store, listen=listen, binary=binary)
            stack.callback(server.kill)
            return server

        running = [start(listen, old) for listen in listens]
        before = schema_of(running[0])
        with Agents(target, writers) as agents:
            for number, listen in enumerate(listens):
                agents.progress.wait_for_more(MESSAGES)
                if running[number].stop() != 0:
                    raise RuntimeError(running[number].output())
                running[number] = start(listen, BINARY)
            agents.progress.wait_for_more(MESSAGES)
        after = schema_of(running[0])
        for server in running:
            server.stop()
        code, said = failed_start(store, binary=old)
        with Server(store) as fresh, fresh.channel() as channel:
            found = audit(Calls(channel), agents.acknowledged)
    for error in agents.errors:
        print(error)
    refused = code != 0 and f"schema {after}" in said or "upgrade memoryd" in said
    if not refused:
        print(f"the old one on the new schema: {code}\n{said}")
    print(f"upgrade: store {kind}, schema {before} to {after}, acked {found.acknowledged}, "
          f"errors {len(agents.errors)}, longest call {agents.longest:.1f} s, lost {found.lost}, "
          f"doubled {found.doubled}, reordered {found.reordered}", flush=True)
    return found.clean and not agents.errors and before < after and refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--writers", type=int, default=8)
    options = parser.parse_args()
    kinds = STORES if options.store == "both" else (options.store,)
    results = [upgrade(kind, options.old, options.servers, options.writers) for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
