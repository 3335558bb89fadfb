#!/usr/bin/env python3
"""Loses the store of a server under load, restores it by the commands of docs/STORES.md, and counts
what is missing.

usage: restore_drill.py [--store sqlite|postgresql|both] [--mib N] [--messages N] [--writers N] [--sessions N]

The store first gets N MiB, and sessions with contents, blocks of every kind that jobs feed, and
jobs that are open. SQLite: the backup while writers go on, then the server is killed, its file
deleted, and the backup, once verified, put in its place. All that was acknowledged when the backup
began must be there; what came later is lost. PostgreSQL: a base backup while writers go on, and
pg_receivewal as synchronous standby; then its servers are killed, the data folder deleted, and a
new one made of the backup and the WAL. memoryd lives on, as do its clients, which repeat what was
not answered: everything that was ever acknowledged must be there.

Every session is read back, which checks the stored checksums too, and held against what was
acknowledged; contents, blocks, entries and jobs against what they were, and requests are repeated
under their ids. The last lines of a store are `restore: store S, acked N, MiB N, backup s, verified
s, longest Put s before and s during the backup` and `restore: store S, RPO s, lost N, RTO s,
doubled N, reordered N, changed N`: RPO is for how long acknowledged writes were lost, up to the
last one, RTO the time from the loss to the first acknowledgement of a write afterwards. Exits 1
when more is missing than is said above.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import grpc

from support.background import Background
from support.blocks import drained, jobs_of, turn
from support.calls import Calls, note, user
from support.documents import blocks_of
from support.job_load import BLOCKS, CONFIG, Agent
from support.paths import BINARY, REPOSITORY, server_environment
from support.postgres import Cluster, as_server, program, run_sql
from support.server import Server, open_channel
from support.stores import STORES
from support.waiting import wait_for
from support.writers import Writers, audit, until_acknowledged

# Enough to have a file at all, once the backup has begun and after it.
MESSAGES_AROUND_BACKUP = 300
KEPT_SESSIONS, TURNS = 3, 6
_MIB = 2**20
_DOCUMENT = REPOSITORY / "docs" / "STORES.md"


def documented(word: str, **places: object) -> str:
    """The one block of commands of the documentation that has `word`, with places of the drill's own:
    what a folder or URL is called there -> where it is."""
    found = [block.code for block in blocks_of(_DOCUMENT)
             if block.language == "sh" and word in block.code]
    assert len(found) == 1, (word, found)
    for name, place in places.items():
        assert PLACES[name] in found[0], (PLACES[name], found[0])
        found[0] = found[0].replace(PLACES[name], str(place))
    return found[0]


# As they stand in the documentation.
PLACES = {"state": "/var/lib/memoryd", "backup": "/backup", "archive": "/archive",
          "primary": "postgresql://primary", "data": "/var/lib/postgresql/data"}


def run(commands: str, as_postgres: bool = False) -> float:
    """Runs commands, each of which must succeed; how many seconds they took."""
    path = os.pathsep.join([str(BINARY.parent), str(pathlib.Path(program("psql")).parent),
                            os.environ["PATH"]])
    shell = ["bash", "-euo", "pipefail", "-c", commands]
    begin = time.monotonic()
    subprocess.run(as_server(shell) if as_postgres else shell, env=server_environment(PATH=path),
                   cwd="/", check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=600)
    return time.monotonic() - begin


class Kept:
    """Sessions of which nothing may change, and the requests that made them."""

    def __init__(self, target: str, mib: int) -> None:
        chance = random.Random(1)
        self._requests: list[tuple[dict, object]] = []
        self._sessions = [f"kept-{number}" for number in range(KEPT_SESSIONS)]
        with open_channel(target) as channel:
            calls = Calls(channel)
            for number in range(mib):
                calls.Put(session_id=f"filling-{number % 8}", request_id=f"filling-{number}",
                          messages=[user(chance.randbytes(_MIB // 128).hex()) for _ in range(64)])
            with Agent().worker(target):
                for number in range(TURNS):
                    self._turn(calls, number)
                for session in self._sessions:
                    drained(calls, session)
            # Nobody answers for the jobs of these.
            for number in range(TURNS, TURNS + 2):
                self._turn(calls, number)
            self._state = self._read(calls)

    def _turn(self, calls: Calls, number: int) -> None:
        for session in self._sessions:
            fields = {"session_id": session, "request_id": f"turn-{number}", "config": CONFIG,
                      "messages": turn(f"turn {number}"), "contents": [note(f"content {number}")]}
            self._requests.append((fields, calls.Put(**fields)))

    def _read(self, calls: Calls) -> list:
        def bytes_of(items) -> list[bytes]:
            return [item.SerializeToString(deterministic=True) for item in items]

        return [
            (session, kind, item) for session in self._sessions for kind, items in (
                ("message", bytes_of(calls.all_messages(session))),
                ("content", bytes_of(calls.all_contents(session))),
                ("block", bytes_of(calls.GetBlock(session_id=session, block=block.name)
                                   for block in BLOCKS)),
                ("entry", bytes_of(calls.all_entries(session, "vectors"))),
                ("job", [(job.job_id, job.state, job.begin_position, job.end_position)
                         for job in jobs_of(calls, session)]),
            ) for item in items]

    def changed(self, calls: Calls) -> int:
        """How much is not as it was, also after every request was repeated."""
        found = self._differences(calls)
        for fields, reply in self._requests:
            if calls.Put(**fields).positions != reply.positions:
                found += 1
        return found + self._differences(calls)

    def _differences(self, calls: Calls) -> int:
        now = self._read(calls)
        different = [item[:2] for item in self._state if item not in now]
        different += [item[:2] for item in now if item not in self._state]
        for session, kind in different:
            print(f"changed: a {kind} of {session}")
        return len(different)


class Probe(Background):
    """Puts one message after the other and notes the longest."""

    def __init__(self, target: str) -> None:
        self._longest = 0.0
        self._target = target
        super().__init__([self._run])

    def longest(self) -> float:
        """Seconds of the longest Put since the last question."""
        longest, self._longest = self._longest, 0.0
        return longest

    def _run(self) -> None:
        with open_channel(self._target) as channel:
            calls = Calls(channel)
            while not self.ending.is_set():
                begin = time.monotonic()
                with contextlib.suppress(grpc.RpcError):  # It is long, and so is noted.
                    calls.Put(session_id="probe", messages=[user("x")])
                self._longest = max(self._longest, time.monotonic() - begin)


def first_write(server: Server) -> None:
    with server.channel() as channel:
        until_acknowledged(Calls(channel).Put, session_id="first after the loss",
                           messages=[user("still here")], request_id="first", timeout=2.0)


def report_backup(store: str, acknowledged: int, mib: float, backup: float, verified: float,
                  before: float, during: float) -> None:
    print(f"restore: store {store}, acked {acknowledged}, MiB {mib:.0f}, backup {backup:.1f} s, "
          f"verified {verified:.1f} s, longest Put {before:.3f} s before and {during:.3f} s during "
          "the backup", flush=True)


def report(store: str, rpo: float, rto: float, found, changed: int) -> None:
    print(f"restore: store {store}, RPO {rpo:.1f} s, lost {found.lost}, RTO {rto:.1f} s, doubled "
          f"{found.doubled}, reordered {found.reordered}, changed {changed}", flush=True)


def drill_sqlite(messages: int, writers: int, names: list[str], mib: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="memoryd-drill-") as name:
        state, copies = pathlib.Path(name) / "state", pathlib.Path(name) / "backup"
        state.mkdir()
        copies.mkdir()
        file = state / "memoryd.db"
        store, listen = f"sqlite:{file}", f"unix:{name}/memoryd.sock"
        server = Server(store, listen=listen)
        kept = Kept(server.target, mib)
        with Writers(lambda _: server.target, names, writers) as load:
            with Probe(server.target) as probe:
                load.progress.wait_for_more(messages)
                longest_before = probe.longest()
                before = {session: list(texts)
                          for session, texts in list(load.acknowledged.items())}
                begin = time.monotonic()
                backup = run(documented("VACUUM INTO", state=state, backup=copies))
                longest = probe.longest()
            load.progress.wait_for_more(MESSAGES_AROUND_BACKUP)
        load.progress.check()
        rpo = time.monotonic() - begin
        size = file.stat().st_size / _MIB
        server.kill()
        for path in state.iterdir():
            path.unlink()
        verified = run(documented("integrity_check", backup=copies))
        loss = time.monotonic()
        run(documented("memoryd.db-wal", state=state, backup=copies))
        with Server(store, listen=listen) as server:
            first_write(server)
            rto = time.monotonic() - loss
            with server.channel() as channel:
                calls = Calls(channel)
                early = audit(calls, before)
                found = audit(calls, load.acknowledged)
                changed = kept.changed(calls)
    report_backup("sqlite", found.acknowledged, size, backup, verified, longest_before, longest)
    report("sqlite", rpo, rto, found, changed)
    return not (early.lost or found.doubled or found.reordered or found.unknown or changed)


class WalArchive:
    """pg_receivewal into a folder: a synchronous standby that only keeps the WAL."""

    def __init__(self, folder: pathlib.Path, url: str) -> None:
        (folder / "wal").mkdir(parents=True)
        if as_server([]):
            for path in (folder, folder / "wal"):
                shutil.chown(path, "postgres", "postgres")
        self.folder = folder
        command = documented("pg_receivewal", archive=folder, primary=url)
        self._process = subprocess.Popen(
            as_server(["bash", "-c", f"exec {command}"]), stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": f"{pathlib.Path(program('psql')).parent}:{os.environ['PATH']}"})
        self._url = url

    def wait(self) -> None:
        """Until what is acknowledged is in the archive."""
        wait_for(lambda: run_sql(self._url, "SELECT sync_state FROM pg_stat_replication "
                                 "WHERE application_name = 'archive'").strip() == "sync")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


def drill_postgresql(messages: int, writers: int, names: list[str], mib: int) -> bool:
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-drill-")))
        folder.chmod(0o755)
        primary = stack.enter_context(Cluster())
        archive = WalArchive(folder / "archive", primary.url)
        server = stack.enter_context(Server(primary.url, arguments=["--store-timeout-ms=2000"]))
        kept = Kept(server.target, mib)
        with Writers(lambda _: server.target, names, writers) as load:
            load.progress.wait_for_more(messages)
            with Probe(server.target) as probe:
                load.progress.wait_for_more(MESSAGES_AROUND_BACKUP)
                longest_before = probe.longest()
                backup = run(documented("pg_basebackup", archive=archive.folder,
                                        primary=primary.url), as_postgres=True)
                archive.wait()
                longest = probe.longest()
            load.progress.wait_for_more(MESSAGES_AROUND_BACKUP)
            loss = time.monotonic()
            primary.kill()
            archive.stop()
            shutil.rmtree(primary.data)
            run(documented("recovery.signal", archive=archive.folder, data=primary.data),
                as_postgres=True)
            primary.start()
            wait_for(lambda: run_sql(primary.url, "SELECT pg_is_in_recovery()").strip() == "f")
            # Nothing is acknowledged before there is an archive again.
            stack.callback(WalArchive(folder / "restored", primary.url).stop)
            first_write(server)
            rto = time.monotonic() - loss
            load.progress.wait_for_more(MESSAGES_AROUND_BACKUP)
        load.progress.check()
        size = int(run_sql(primary.url, "SELECT pg_database_size('postgres')")) / _MIB
        # Read by a server that has nothing cached.
        with Server(primary.url) as fresh, fresh.channel() as channel:
            calls = Calls(channel)
            found = audit(calls, load.acknowledged)
            changed = kept.changed(calls)
    report_backup("postgresql", found.acknowledged, size, backup, 0.0, longest_before, longest)
    report("postgresql", 0.0 if not found.lost else float("inf"), rto, found, changed)
    return found.clean and found.acknowledged > 0 and not changed


DRILLS = {"sqlite": drill_sqlite, "postgresql": drill_postgresql}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=5)
    options = parser.parse_args()
    # A worker says whenever its server is gone.
    logging.getLogger("memoryd.worker").setLevel(logging.ERROR)
    names = [f"session-{number}" for number in range(options.sessions)]
    kinds = STORES if options.store == "both" else (options.store,)
    results = [DRILLS[kind](options.messages, options.writers, names, options.mib)
               for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
