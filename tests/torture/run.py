#!/usr/bin/env python3
"""Random clients on memoryd while it and its PostgreSQL are killed, stopped and cut off.

usage: run.py [--seconds N] [--seed N] [--store sqlite|postgresql] [--replicas N] [--tenants N]
              [--sessions N] [--clients N] [--processes N] [--server-environment NAME=VALUE]...
              [--postgres-setting NAME=VALUE]... [--session-setting NAME=VALUE]...
              [--failpoints [PASSES]] [--calm TIMES]
              [--failover | --standby [N] | --pgbouncer [KIND] | --patroni] [--only KIND,...]
              [--clock-skew SECONDS] [--history FOLDER]

PostgreSQL is one of the run's own, and has two servers by default, which reach it over links that
fall silent and lose the answers of commits (support/postgres_proxy.py). `--standby` gives it a
synchronous standby, or N, and has failovers; `--failover` too, by which commits are lost that waited
for it; `--pgbouncer` puts PgBouncer in transaction mode before it, or its stand-in that `keeps` or
`loses` named statements (support/named_pooler.py); `--patroni` leaves the failovers to Patroni. SQLite
has one server, on a disk that loses power and with it what was not synced. `--only` plans faults of
some kinds alone (nemesis.py), `--calm` leaves so many times as long between them: more is written then.

At the end all is healed, every session is read by a server that has nothing cached, and the history
is held against what memoryd promises (checker.py), blocks against the messages that they were fed.
The last line is
`torture: acked N, unknown N, kills N, lost N, doubled N, reordered N, stale N, leaked N`:
requests acknowledged and in doubt, SIGKILLs of a server or postmaster, and what broke a promise.

Exits 1 when a promise was broken or a server ended by itself, and then keeps the history; 2 when
the run is invalid: fewer than nine tenths of the faults fired, or more than half of the requests
are in doubt. The binary is MEMORYD_TEST_BINARY, by default the one that was built. With
`--failpoints` it must be `memoryd_failpoints`: every server then also ends itself at one of
the places of core/base/failpoint.h, all of them in turn, after it was passed PASSES times at most.
With `--clock-skew` the clock of the first server is that much ahead or behind, and jumps whenever it
starts and after it was stopped.

`--session-setting` is for memoryd's own sessions of PostgreSQL, by the store's URL. That a run sees
what is lost shows `--postgres-setting synchronous_commit=off --postgres-setting
wal_writer_delay=10s`, and proof.py what it sees of memoryd's own bugs.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import logging
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.access import Caller, credential, write_credentials
from support.blocks import block, every_turn, section
from support.calls import job_wire, memory
from support.job_load import ARGUMENTS, Findings
from support.metrics import scrape
from support.pgbouncer import INSTALLED, POOLERS
from support.postgres import run_sql
from support.server import Server
from support.sqlite_check import sqlite_damage
from support.stores import STORES
from support.waiting import wait_for
from torture import bodies, checker, failovers, generator, history, item_load
from torture.clock import SkewedClock
from torture.databases import Database, open_database
from torture.nemesis import FAILPOINTS, Nemesis, plan

import memoryd

WORKER = "torture"
RIGHTS = ("read", "write", "worker", "admin")
# Of the sessions: those that are set and reset, and those whose blocks are fed.
TURNING, WITH_JOBS = 0.25, 0.1
# A Query looks for the one message that has a word, however long it is and whatever is like it.
BY_WORD = memory.Retrieval(vector_weight=0)
# Short-term memory of some dozen messages, so that a Get stays small.
PLAIN = memory.SessionConfig(tokenizer="whitespace", token_limit=600, token_flush_size=100,
                             retrieval=BY_WORD)
# What all that have jobs hand their messages on to; no client writes to it.
SHARED = "shared"
FED = every_turn(block("ledger", "worker", worker=WORKER),
                 block("others", "session", session_id=SHARED), token_limit=1_000_000,
                 retrieval=BY_WORD)
# Sessions that keep their newest messages, and such as expire; clients make the latter.
KEPT, BRIEF = ["kept"], ["brief", "brief-while-read"]
# Sessions whose facts clients change and nobody feeds; their model is never asked.
NOTED = ["noted"]
WITH_NOTES = memory.SessionConfig(tokenizer="whitespace", blocks=[
    block(generator.NOTES, "fact-extraction", model="none")])
NEWEST = memory.SessionConfig(tokenizer="whitespace", token_limit=600, token_flush_size=100,
                              retention=memory.Retention(keep_messages=generator.KEPT))
# How often a failpoint is passed, at most, before it ends its server; reached within seconds.
PASSES_TO_FAILPOINT = 400
# How long clients may go on after their time: a call and its repetitions.
LATE_SECONDS = 120
# Waits of 10 ms for the jobs that are left.
DRAIN_ATTEMPTS = 12_000


class Ledger(memoryd.Block):
    """Keeps the item of every message it was ever given, in order."""

    name = "ledger"

    def put(self, messages, state):
        return (state or []) + [bodies.item_of(message.text) for message in messages]

    def get(self, messages, state):
        return " ".join(state or [])


@dataclasses.dataclass
class Place:
    """Where a run keeps what it needs."""

    folder: pathlib.Path  # Gone at the end.
    history: pathlib.Path  # Kept when something is wrong.
    database: Database
    tokens: dict[str, str]
    environment: dict[str, str]
    chance: random.Random
    # The failpoints that are still to be set, from the last; empty: none is set.
    failpoints: list[str]
    most_passes: int  # Of one, before it ends its server.
    # What was set in the latest server of each replica.
    failpoint_of: dict[int | str, str] = dataclasses.field(default_factory=dict)
    clock: SkewedClock | None = None  # Of the first replica.

    def target(self, replica: int | str) -> str:
        """An address that the next server of a replica has too."""
        return f"unix:{self.folder}/{replica}.sock"

    def start(self, replica: int | str) -> Server:
        """The server of a replica, by number with a failpoint, by name without."""
        if not self.failpoints or isinstance(replica, str):
            return self._start(replica, self.environment)
        while True:
            name = self.failpoints.pop()
            self.failpoints.insert(0, name)
            self.failpoint_of[replica] = name
            count = int(self.most_passes ** self.chance.random())
            try:
                return self._start(replica, {**self.environment,
                                             "MEMORYD_TEST_FAILPOINT": f"{name}:{count}"})
            except RuntimeError:
                # Jobs that are left may bring it there before it serves.
                continue

    def _start(self, replica: int | str, environment: dict[str, str]) -> Server:
        if self.database.disk:
            environment = {**environment, **self.database.disk.environment()}
        if self.clock and replica == 0:
            self.clock.jump()
            environment = self.clock.environment(environment)
        # Kept with the history: clients' bodies must not be in it.
        with (self.history / f"server-{replica}.log").open("a") as log:
            return Server(self.database.store(replica), listen=self.target(replica), log=log,
                          arguments=(f"--credentials={self.folder}/credentials.yaml", *ARGUMENTS,
                                     "--sweep-interval-ms=200",
                                     "--metrics-listen=127.0.0.1:0", *self.database.arguments),
                          environment=environment)

    @contextlib.contextmanager
    def workers(self, replicas: Sequence[int | str]) -> Iterator[None]:
        """Serves the blocks of all tenants on some replicas."""
        with contextlib.ExitStack() as stack:
            for replica in replicas:
                for token in self.tokens.values():
                    stack.enter_context(memoryd.Worker(self.target(replica), name=WORKER,
                                                       blocks=[Ledger()], token=token))
            yield


@contextlib.contextmanager
def prepare(options: argparse.Namespace, kept: pathlib.Path) -> Iterator[Place]:
    tokens = {f"t{number}": f"token-{number}" for number in range(options.tenants)}
    environment = dict(pair.split("=", 1) for pair in options.server_environment)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-torture-")))
        write_credentials(folder / "credentials.yaml", [
            credential(tenant, RIGHTS, token=token) for tenant, token in tokens.items()])
        database = stack.enter_context(open_database(options))
        chance = random.Random(f"failpoints {options.seed}")
        failpoints = chance.sample(FAILPOINTS, len(FAILPOINTS)) if options.failpoints else []
        clock = SkewedClock(folder, options.clock_skew, options.seed) if options.clock_skew else None
        yield Place(folder, kept, database, tokens, environment, chance, failpoints,
                    options.failpoints, clock=clock)


def names_of_sessions(count: int) -> tuple[list[str], list[str], list[str]]:
    """All, those that are wiped, those with jobs."""
    names = [f"s{number}" for number in range(count)]
    wiped = max(1, round(TURNING * count))
    fed = max(1, round(WITH_JOBS * count))
    return names, names[-wiped:], names[-wiped - fed:-wiped]


def spaces(options: argparse.Namespace) -> list[str]:
    """Names of the namespaces of items."""
    return item_load.TIMELESS if options.clock_skew else list(item_load.SPACES)


def create_sessions(place: Place, names: list[str], with_jobs: list[str]) -> None:
    for token in place.tokens.values():
        # A server for each tenant: what one gets to know of another is for clients to see.
        with place.start("first") as server, server.channel() as channel:
            caller = Caller(channel, token)
            caller("CreateSession", session_id=SHARED, config=PLAIN)
            for name in names:
                caller("CreateSession", session_id=name,
                       config=FED if name in with_jobs else PLAIN)
            for name in KEPT:
                caller("CreateSession", session_id=name, config=NEWEST)
            for name in NOTED:
                caller("CreateSession", session_id=name, config=WITH_NOTES)


@contextlib.contextmanager
def clients(place: Place, options: argparse.Namespace) -> Iterator[list[subprocess.Popen]]:
    """Processes of clients that are ready to begin; they are killed when the context is left."""
    names, turning, with_jobs = names_of_sessions(options.sessions)
    targets = [place.target(replica) for replica in range(options.replicas)]
    started = []
    try:
        for process in range(options.processes):
            settings = generator.Settings(
                options.seed, process, options.processes, options.clients, targets, place.tokens,
                names, turning, with_jobs, KEPT, [] if options.clock_skew else BRIEF, NOTED,
                spaces(options), str(place.history / f"clients-{process}.jsonl"))
            file = place.folder / f"clients-{process}.json"
            settings.write(file)
            command = [sys.executable, str(pathlib.Path(generator.__file__)), str(file)]
            started.append(subprocess.Popen(command, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True))
        for client in started:
            if client.stdout.readline() != "ready\n":
                raise RuntimeError("a process of clients did not start")
        yield started
    finally:
        for client in started:
            client.kill()
            client.communicate()


def torture(place: Place, options: argparse.Namespace) -> Nemesis:
    """The run itself; all servers are gone afterwards."""
    faults = plan(options.seed, place.database.kind, options.seconds, options.replicas,
                  options.only, options.calm)
    names, _, with_jobs = names_of_sessions(options.sessions)
    create_sessions(place, names, with_jobs)
    nemesis = Nemesis(faults, place.start, options.replicas, place.database.cluster,
                      failpoint_of=lambda replica: place.failpoint_of.get(replica, ""),
                      disk=place.database.disk, clock=place.clock, others=place.database.faults)
    try:
        with place.workers(range(options.replicas)), clients(place, options) as started:
            end = time.monotonic() + options.seconds
            for client in started:
                client.stdin.write(f"{int(end * 1e9)}\n")
                client.stdin.flush()
            with nemesis:
                for client in started:
                    if client.wait(options.seconds + LATE_SECONDS) != 0:
                        raise RuntimeError("a process of clients failed")
        nemesis.check()
        print(settled(nemesis.servers))
    finally:
        for server in nemesis.servers:
            server.kill()
    return nemesis


def settled(servers: Sequence[Server]) -> str:
    """What became of commits whose answer was lost, as the servers have counted it that live."""
    found: collections.Counter[str] = collections.Counter()
    for server in servers:
        with contextlib.suppress(OSError):  # It may end at a failpoint.
            for (name, labels), count in scrape(server.metrics).items():
                if name == "memoryd_commit_in_doubt_total":
                    found[dict(labels)["outcome"]] += int(count)
    return "in doubt, of the last servers: " + ", ".join(
        f"{outcome} {count}" for outcome, count in found.items())


def read_back(place: Place, options: argparse.Namespace) -> Findings:
    """Writes what every session holds to the history; what the blocks hold is compared at once."""
    names, _, with_jobs = names_of_sessions(options.sessions)
    found = Findings()
    with place.start("last") as server, place.workers(["last"]), server.channel() as channel, \
            history.Writer(place.history / "final.jsonl") as writer:
        for tenant, token in place.tokens.items():
            caller = Caller(channel, token)
            for name in [*names, *KEPT, *BRIEF]:
                sender = bodies.Sender(tenant, name, 0, options.seed)
                record = {"op": "final", "tenant": tenant, "session": name, "outcome": "ok",
                          "invoke_ns": time.monotonic_ns(), "complete": True}
                messages, contents = whole(caller, name)
                record["return_ns"] = time.monotonic_ns()
                if name in BRIEF:
                    generator.note_brief(record, messages, sender)
                else:
                    generator.note_messages(record, messages, sender)
                    generator.note_contents(record, contents, sender)
                if name in KEPT:
                    record["keeps"] = generator.KEPT
                writer.add(record)
            for name in NOTED:
                record = {"op": "facts", "tenant": tenant, "session": name, "outcome": "ok",
                          "invoke_ns": time.monotonic_ns()}
                reply = caller("GetBlock", session_id=name, block=generator.NOTES)
                record["return_ns"] = time.monotonic_ns()
                generator.note_facts(record, reply, tenant)
                writer.add(record)
            for name in spaces(options):
                writer.add(all_items(caller, item_load.SPACES[name], tenant, options.seed))
            for name in with_jobs:
                compare_ledger(found, caller, name)
            compare_shared(found, caller, with_jobs)
    return found


def all_items(caller: Caller, space: item_load.Space, tenant: str, seed: int) -> history.Record:
    """All that a namespace holds, and which namespaces the tenant has."""
    record = {"tenant": tenant, "session": space.name, "outcome": "ok",
              "invoke_ns": time.monotonic_ns(), "final": True}
    path = space.of(tenant)
    page = caller("ListItems", namespace=path, page_size=1000)
    record["return_ns"] = time.monotonic_ns()
    # Several pages are of no one moment, but nobody writes any more.
    items = list(page.items)
    while page.next_page_token:
        page = caller("ListItems", namespace=path, page_size=1000, page_token=page.next_page_token)
        items += page.items
    item_load.note_items(record, space, list(space.keys), items,
                         bodies.Sender(tenant, space.name, 0, seed), whole=not space.expires)
    listed = caller("ListNamespaces", page_size=1000).namespaces
    item_load.note_namespaces(record, listed, tenant)
    # Those that have expired are counted until the sweep.
    if not space.expires:
        record["count"] = sum(one.item_count for one in listed if list(one.namespace) == path)
    return record


def all_messages(caller: Caller, session: str, **fields) -> list[memory.Message]:
    return whole(caller, session, include_contents=False, **fields)[0]


def whole(caller: Caller, session: str, include_contents: bool = True, **fields
          ) -> tuple[list[memory.Message], list[memory.Content]]:
    messages, contents, token = [], [], ""
    while True:
        page = caller("GetAll", session_id=session, page_size=1000, page_token=token,
                      include_contents=include_contents, **fields)
        messages += page.messages
        contents += page.contents
        token = page.next_page_token
        if not token:
            return messages, contents


def compare_ledger(found: Findings, caller: Caller, session: str) -> None:
    """Holds what the block knows against the messages that have left short-term memory."""
    def open_jobs():
        return caller("ListJobs", session_id=session, state=job_wire.JOB_STATE_OPEN,
                      page_size=1).jobs

    wait_for(lambda: not open_jobs(), DRAIN_ATTEMPTS)
    archived = all_messages(caller, session, status=memory.MESSAGE_STATUS_ARCHIVED)
    fed = [bodies.item_of(message.text) for message in archived]
    held = " ".join(section(caller("Get", session_id=session), "ledger")).split()
    found.jobs += len(fed)
    found.compare(fed, held, ordered=True)


def compare_shared(found: Findings, caller: Caller, with_jobs: list[str]) -> None:
    """Holds what was handed on, all of it by now, against what was put where it came from."""
    shared = all_messages(caller, SHARED)
    found.jobs += len(shared)
    for name in with_jobs:
        found.compare(
            [bodies.item_of(message.text) for message in all_messages(caller, name)],
            [bodies.item_of(message.text) for message in shared
             if message.source_session_id == name],
            ordered=True)


def damage(place: Place) -> list[str]:
    """What the store's own checks find wrong with it."""
    url = place.database.url
    if place.database.kind == "sqlite":
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:"))) as database:
            return sqlite_damage(database)
    run_sql(url, "CREATE EXTENSION IF NOT EXISTS amcheck")
    ours = "c.relname LIKE 'memoryd%'"
    heap = run_sql(url, "SELECT c.relname, v.msg FROM pg_class c, "
                                f"LATERAL verify_heapam(c.oid) v WHERE c.relkind = 'r' AND {ours}")
    # Raises where an index and its table differ.
    run_sql(url, "SELECT bt_index_check(c.oid, true) FROM pg_class c JOIN pg_am a ON "
                         f"a.oid = c.relam WHERE c.relkind = 'i' AND a.amname = 'btree' AND {ours}")
    return heap.splitlines()


def add_logs(place: Place, report: checker.Report) -> None:
    """A body in a log of a server is a leak."""
    for path in sorted(place.history.glob("*.log")):
        with path.open(errors="replace") as file:
            for line in file:
                if bodies.MARKER in line:
                    report.add("leaked", f"{path.name}: {line[:200]}")


def add_blocks(found: Findings, report: checker.Report) -> None:
    for count in ("lost", "doubled", "reordered"):
        times = int(getattr(found, count))
        if times:
            report.add(count, "in the ledgers of blocks", times)


def rate_of_puts(folder: pathlib.Path, seconds: float) -> tuple[float, float]:
    """Acknowledged Puts a second, and the messages in them."""
    puts = [r for r in history.read(folder) if r["op"] == "put" and r["outcome"] == "ok"]
    return len(puts) / seconds, sum(len(r["items"]) for r in puts) / seconds


def run(options: argparse.Namespace, kept: pathlib.Path) -> int:
    with prepare(options, kept) as place:
        nemesis = torture(place, options)
        found = read_back(place, options)
        damaged = damage(place)
    report = checker.check(history.read(kept))
    add_logs(place, report)
    add_blocks(found, report)
    failed_over = failovers.summary(history.read(kept), place.database.failovers)
    for line in [*report.examples, *damaged, *failed_over]:
        print(line)
    puts, messages = rate_of_puts(kept, options.seconds)
    fired = ", ".join(f"{kind} {count}" for kind, count in sorted(nemesis.fired.items()))
    print(f"store {options.store}, seed {options.seed}, {puts:.0f} Puts/s, {messages:.0f} "
          f"messages/s, fed to blocks {found.jobs}, faults fired {nemesis.fired_as_planned} of "
          f"{nemesis.planned} ({fired}), {checker.figures(report)}")
    valid = nemesis.fired_enough and report.enough_known
    broken = report.violations > 0 or bool(damaged)
    if not valid:
        print("invalid: too many outcomes are unknown, or too few faults fired of "
              + ", ".join(f"{kind} {count}" for kind, count in sorted(nemesis.plan.items())))
    if broken or not valid:
        print(f"the history is in {kept}")
    elif not options.history:
        shutil.rmtree(kept)
    print(f"torture: acked {report.acked}, unknown {report.unknown}, kills {nemesis.kills}, "
          f"lost {report.lost}, doubled {report.doubled}, reordered {report.reordered}, "
          f"stale {report.stale}, leaked {report.leaked}", flush=True)
    return 1 if broken else 0 if valid else 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--store", choices=STORES, default="postgresql")
    parser.add_argument("--replicas", type=int)
    parser.add_argument("--tenants", type=int, default=2)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--server-environment", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--postgres-setting", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--session-setting", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--failover", action="store_true")
    parser.add_argument("--only", type=lambda kinds: kinds.split(","), default=[],
                        metavar="KIND,...")
    parser.add_argument("--failpoints", type=int, nargs="?", const=PASSES_TO_FAILPOINT, default=0,
                        metavar="PASSES")
    parser.add_argument("--calm", type=float, default=1, metavar="TIMES")
    parser.add_argument("--clock-skew", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--standby", type=int, nargs="?", const=1, default=0, metavar="N")
    parser.add_argument("--pgbouncer", choices=POOLERS, nargs="?", const=INSTALLED)
    parser.add_argument("--patroni", action="store_true")
    parser.add_argument("--history", type=pathlib.Path)
    options = parser.parse_args()
    if options.replicas is None:
        options.replicas = 2 if options.store == "postgresql" else 1
    if options.store == "sqlite" and options.replicas != 1:
        parser.error("SQLite has one server")
    kinds = (options.failover + bool(options.standby) + bool(options.pgbouncer)
             + options.patroni)
    if kinds > (options.store == "postgresql"):
        parser.error("one of --failover, --standby, --pgbouncer and --patroni, and on PostgreSQL")
    # A worker says whenever its server is gone.
    logging.getLogger("memoryd.worker").setLevel(logging.ERROR)
    kept = options.history or pathlib.Path(tempfile.mkdtemp(prefix="memoryd-torture-history-"))
    kept.mkdir(parents=True, exist_ok=True)
    try:
        return run(options, kept)
    except BaseException:
        print(f"the run did not come to its end, its history is in {kept}")
        raise


if __name__ == "__main__":
    sys.exit(main())
