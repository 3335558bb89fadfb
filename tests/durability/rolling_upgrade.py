#!/usr/bin/env python3
"""Replaces servers of one version by those of another, one after the other, while agents go on, and back.

usage: rolling_upgrade.py [OLD_BINARY] [--store sqlite|postgresql|both] [--servers N] [--writers N]

The way leads from OLD_BINARY, of a version with an older schema, to this one, to one whose schema
is newer by a version on which this one can work (memoryd_later_schema), and back to this one;
without OLD_BINARY it begins with this one. On PostgreSQL N servers (2) serve, each is ended by
SIGTERM and replaced, and the first of a newer version migrates while the others go on; on SQLite
one is ended and another started. Agents are the Python client, which knows every address: each
error that it shows counts. At the end every session is read back and held against what was
acknowledged, and OLD_BINARY must refuse the store, unless it can work on it.

The last lines of a store are `upgrade: store S, schema N to N, binary B, acked N, longest call s`
for each part of the way, and `upgrade: store S, acked N, errors N, lost N, doubled N, reordered N`.
Exits 1 when an agent saw an error, anything was lost, doubled or out of order, or schemas are not
as they should be.
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

from support.background import Background
from support.calls import Calls
from support.paths import BINARY, LATER_BINARY
from support.postgres import free_port
from support.server import Server, failed_start
from support.stores import STORES, fresh_store
from support.writers import Progress, audit

import memoryd

# Between two replacements.
MESSAGES = 300
SESSIONS = 6
CALL_SECONDS = 30.0
THERE_AND_BACK = (BINARY, LATER_BINARY, BINARY)


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


def refuses(store: str, binary: pathlib.Path) -> bool:
    """Whether servers of a version end on the store, saying that they are too old for its schema."""
    with contextlib.suppress(RuntimeError), Server(store, binary=binary):
        return False
    code, said = failed_start(store, binary=binary)
    if code != 1 or "schema" not in said:
        raise RuntimeError(f"{binary} ended with {code}:\n{said}")
    return True


def upgrade(kind: str, way: list[pathlib.Path], servers: int, writers: int) -> bool:
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

        running = [start(listen, way[0]) for listen in listens]
        schemas = [schema_of(running[0])]
        with Agents(target, writers) as agents:
            for binary in way[1:]:
                acknowledged, agents.longest = agents.progress.count, 0.0
                for number, listen in enumerate(listens):
                    agents.progress.wait_for_more(MESSAGES)
                    if running[number].stop() != 0:
                        raise RuntimeError(running[number].output())
                    running[number] = start(listen, binary)
                agents.progress.wait_for_more(MESSAGES)
                schemas.append(schema_of(running[0]))
                print(f"upgrade: store {kind}, schema {schemas[-2]} to {schemas[-1]}, binary "
                      f"{binary.name}, acked {agents.progress.count - acknowledged}, longest call "
                      f"{agents.longest:.1f} s", flush=True)
        for server in running:
            server.stop()
        with Server(store) as fresh, fresh.channel() as channel:
            found = audit(Calls(channel), agents.acknowledged)
        # A schema goes up by each newer version, and never down.
        right = schemas == sorted(schemas) and schemas[-1] == schemas[-2] == schemas[-3] + 1
        if len(way) > len(THERE_AND_BACK):
            right &= schemas[0] < schemas[1]
            print(f"upgrade: {way[0]} {'refuses' if refuses(store, way[0]) else 'takes'} schema "
                  f"{schemas[-1]}")
    for error in agents.errors:
        print(error)
    print(f"upgrade: store {kind}, acked {found.acknowledged}, errors {len(agents.errors)}, lost "
          f"{found.lost}, doubled {found.doubled}, reordered {found.reordered}", flush=True)
    return found.clean and not agents.errors and right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path, nargs="?")
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--writers", type=int, default=8)
    options = parser.parse_args()
    kinds = STORES if options.store == "both" else (options.store,)
    way = [*([options.old] if options.old else []), *THERE_AND_BACK]
    results = [upgrade(kind, way, options.servers, options.writers) for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
