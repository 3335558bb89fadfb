#!/usr/bin/env python3
"""Replaces servers of one version by those of another, one after the other, while agents go on, and back.

usage: rolling_upgrade.py [OLD_BINARY] [--and-back] [--store sqlite|postgresql|both] [--servers N]
           [--writers N]

The way leads from OLD_BINARY, of a version with an older schema, to this one, to one whose schema
is newer by a version on which this one can work (memoryd_later_schema), and back to this one;
without OLD_BINARY it begins with this one. With --and-back it first leads from this one back to
OLD_BINARY, and to this one again. On PostgreSQL N servers (2) serve, each is ended by SIGTERM and
replaced, and the first of a newer version migrates while the others go on; on SQLite one is ended
and another started. Agents are the Python client, which knows every address: each error that it
shows counts. Others store items while all servers know items. At the end every session and item is
read back and held against what was acknowledged, and OLD_BINARY must refuse the store, unless it
can work on it.

The last lines of a store are `upgrade: store S, schema N to N, binary B, acked N, longest call s`
for each part of the way, and `upgrade: store S, acked N, errors N, lost N, doubled N, reordered N`
and the same of items. Exits 1 when an agent saw an error, anything was lost, doubled or out of
order, or schemas are not as they should be.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import pathlib
import sys
import tempfile
import threading
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import item_agents
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
ITEM_AGENTS = 4
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


def know_items(servers: list[Server]) -> bool:
    for server in servers:
        with memoryd.Client(server.target) as memory:
            try:
                memory.get_item(("upgrade",), "key")
            except memoryd.MemorydError as error:
                if error.code is not grpc.StatusCode.UNIMPLEMENTED:
                    raise
                return False
    return True


def refuses(store: str, binary: pathlib.Path) -> bool:
    """Whether servers of a version end on the store, saying that they are too old for its schema."""
    with contextlib.suppress(RuntimeError), Server(store, binary=binary):
        return False
    code, said = failed_start(store, binary=binary)
    if code != 1 or "schema" not in said:
        raise RuntimeError(f"{binary} ended with {code}:\n{said}")
    return True


class Fleet:
    """The servers of a store, and the agents of its items, which are there while all know items."""

    def __init__(self, kind: str, store: str, servers: int, folder: str,
                 stack: contextlib.ExitStack) -> None:
        self._store, self._stack = store, stack
        if kind == "sqlite":
            self._listens = [f"unix:{folder}/memoryd.sock"]
            self.target = self._listens[0]
        else:
            self._listens = [f"127.0.0.1:{free_port()}" for _ in range(servers)]
            self.target = "ipv4:" + ",".join(self._listens)
        self.running: list[Server] = []
        self.ledger = item_agents.Ledger()
        self.errors: list[str] = []
        self._agents: item_agents.ItemAgents | None = None
        stack.callback(self.end_items)

    def start(self, binary: pathlib.Path) -> None:
        self.running = [self._started(listen, binary) for listen in self._listens]
        self.begin_items()

    def begin_items(self) -> None:
        if self._agents is None and know_items(self.running):
            self._agents = item_agents.ItemAgents(
                self.target, ITEM_AGENTS, CALL_SECONDS, self.ledger).__enter__()

    def end_items(self) -> None:
        agents, self._agents = self._agents, None
        if agents is not None:
            agents.__exit__()
            self.errors += agents.errors

    def wait_for_more(self, agents: Agents) -> None:
        agents.progress.wait_for_more(MESSAGES)
        if self._agents is not None:
            self._agents.progress.wait_for_more(MESSAGES)

    def replace(self, binary: pathlib.Path, agents: Agents, old: pathlib.Path | None) -> None:
        """One server after the other, under load."""
        if binary == old:
            self.end_items()
        for number, listen in enumerate(self._listens):
            self.wait_for_more(agents)
            if self.running[number].stop() != 0:
                raise RuntimeError(self.running[number].output())
            self.running[number] = self._started(listen, binary)
        self.begin_items()
        self.wait_for_more(agents)

    def _started(self, listen: str, binary: pathlib.Path) -> Server:
        server = Server(self._store, listen=listen, binary=binary)
        self._stack.callback(server.kill)
        return server


def are_right(schemas: list[int], old: pathlib.Path | None) -> bool:
    """A schema goes up by each newer version, and never down."""
    made = schemas == sorted(schemas) and schemas[-1] == schemas[-2] == schemas[-3] + 1
    return made and (old is None or schemas[0] < schemas[1])


def upgrade(kind: str, way: list[pathlib.Path], old: pathlib.Path | None, servers: int,
            writers: int) -> bool:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-upgrade-"))
        store = stack.enter_context(fresh_store(kind))
        fleet = Fleet(kind, store, servers, folder, stack)
        fleet.start(way[0])
        schemas = [schema_of(fleet.running[0])]
        with Agents(fleet.target, writers) as agents:
            for binary in way[1:]:
                acknowledged, agents.longest = agents.progress.count, 0.0
                items = fleet.ledger.acknowledged
                fleet.replace(binary, agents, old)
                schemas.append(schema_of(fleet.running[0]))
                name = "OLD" if binary == old else binary.name
                print(f"upgrade: store {kind}, schema {schemas[-2]} to {schemas[-1]}, binary "
                      f"{name}, acked {agents.progress.count - acknowledged}, longest call "
                      f"{agents.longest:.1f} s, items acked "
                      f"{fleet.ledger.acknowledged - items}", flush=True)
            fleet.end_items()
        for server in fleet.running:
            server.stop()
        with Server(store) as fresh, fresh.channel() as channel:
            found = audit(Calls(channel), agents.acknowledged)
            with memoryd.Client(fresh.target) as memory:
                items = item_agents.audit(memory, fleet.ledger)
        if old is not None:
            print(f"upgrade: {old} {'refuses' if refuses(store, old) else 'takes'} schema "
                  f"{schemas[-1]}")
    errors = [*agents.errors, *fleet.errors]
    for error in errors:
        print(error)
    print(f"upgrade: store {kind}, acked {found.acknowledged}, errors {len(errors)}, lost "
          f"{found.lost}, doubled {found.doubled}, reordered {found.reordered}", flush=True)
    print(f"upgrade: store {kind}, items acked {items.acknowledged}, lost {items.lost}, doubled "
          f"{items.doubled}, stale {items.stale}, unknown {items.unknown}", flush=True)
    return found.clean and items.clean and not errors and are_right(schemas, old)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path, nargs="?")
    parser.add_argument("--and-back", action="store_true", help="to OLD_BINARY, and here again")
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--writers", type=int, default=8)
    options = parser.parse_args()
    if options.and_back and not options.old:
        parser.error("--and-back: needs OLD_BINARY")
    kinds = STORES if options.store == "both" else (options.store,)
    way = [*([options.old] if options.old else []),
           *([BINARY, options.old] if options.and_back else []), *THERE_AND_BACK]
    results = [upgrade(kind, way, options.old, options.servers, options.writers)
               for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
