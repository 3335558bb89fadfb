#!/usr/bin/env python3
"""Loses the store of a server under load, restores it as docs/OPERATIONS.md says, and counts what is missing.

usage: restore_drill.py [--store sqlite|postgresql|both] [--messages N] [--writers N] [--sessions N]

SQLite: `.backup` while writers go on, then the server is killed, its file deleted, and the copy put in its
place. All that was acknowledged when the backup began must be there; what came later is lost. PostgreSQL:
a base backup while writers go on, and pg_receivewal as synchronous standby; then its servers are killed,
the data folder deleted, and a new one made of the backup and the WAL. memoryd lives on, as do its clients,
which repeat what was not answered: everything that was ever acknowledged must be there.

Every session is read back, which checks the stored checksums too, and held against what was acknowledged.
The last line of a store is `restore: store S, acked N, MiB N, backup s, RPO s, lost N, RTO s, doubled N,
reordered N`: RPO is for how long acknowledged writes were lost, up to the last one, RTO the time from the
loss to the first acknowledgement of a write afterwards. Exits 1 when more is missing than is said above.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls, user  # noqa: E402
from support.postgres import Cluster, as_server, program, run_sql  # noqa: E402
from support.server import Server  # noqa: E402
from support.stores import STORES  # noqa: E402
from support.waiting import wait_for  # noqa: E402
from support.writers import Writers, audit  # noqa: E402

# Enough to have a file at all, once the backup has begun and after it.
MESSAGES_AROUND_BACKUP = 300


def first_write(server: Server) -> None:
    with server.channel() as channel:
        Calls(channel).Put(session_id="first after the loss", messages=[user("still here")],
                           request_id="first", wait_for_ready=True, timeout=60)


def report(store: str, mib: float, backup: float, rpo: float, lost: int, rto: float, found) -> None:
    print(f"restore: store {store}, acked {found.acknowledged}, MiB {mib:.0f}, backup {backup:.1f} s, "
          f"RPO {rpo:.1f} s, lost {lost}, RTO {rto:.1f} s, doubled {found.doubled}, "
          f"reordered {found.reordered}", flush=True)


def drill_sqlite(messages: int, writers: int, names: list[str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="memoryd-drill-") as name:
        folder = pathlib.Path(name)
        file, copy = folder / "memory.db", folder / "copy.db"
        store, listen = f"sqlite:{file}", f"unix:{folder}/memoryd.sock"
        server = Server(store, listen=listen)
        with Writers(lambda _: server.target, names, writers) as load:
            load.progress.wait_for_more(messages)
            before = {session: list(texts) for session, texts in list(load.acknowledged.items())}
            begin = time.monotonic()
            with contextlib.closing(sqlite3.connect(file)) as source, \
                    contextlib.closing(sqlite3.connect(copy)) as target:
                source.backup(target)
            backup = time.monotonic() - begin
            load.progress.wait_for_more(MESSAGES_AROUND_BACKUP)
        load.progress.check()
        rpo = time.monotonic() - begin
        server.kill()
        loss = time.monotonic()
        for path in folder.glob("memory.db*"):
            path.unlink()
        # The restore.
        with contextlib.closing(sqlite3.connect(copy)) as restored:
            sound = restored.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        shutil.move(copy, file)
        with Server(store, listen=listen) as server:
            first_write(server)
            rto = time.monotonic() - loss
            mib = file.stat().st_size / 2**20
            with server.channel() as channel:
                calls = Calls(channel)
                kept = audit(calls, before)
                found = audit(calls, load.acknowledged)
    report("sqlite", mib, backup, rpo, found.lost, rto, found)
    return sound and not kept.lost and not (found.doubled or found.reordered or found.unknown)


class WalArchive:
    """pg_receivewal into a folder: a synchronous standby that only keeps the WAL."""

    NAME = "archive"

    def __init__(self, folder: pathlib.Path, url: str) -> None:
        folder.mkdir()
        if as_server([]):
            shutil.chown(folder, "postgres", "postgres")
        self.folder = folder
        self._process = subprocess.Popen(
            as_server([program("pg_receivewal"), "-D", str(folder), "-d",
                       f"{url}?application_name={self.NAME}", "--synchronous", "--no-loop"]),
            stderr=subprocess.DEVNULL)
        run_sql(url, f"ALTER SYSTEM SET synchronous_standby_names = '{self.NAME}'")
        run_sql(url, "SELECT pg_reload_conf()")
        # From here on what is acknowledged is in the archive.
        wait_for(lambda: run_sql(url, "SELECT sync_state FROM pg_stat_replication "
                                 f"WHERE application_name = '{self.NAME}'").strip() == "sync")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def end(self) -> None:
        """Waits until it has noticed that its source is gone; what it has flushed stays."""
        self._process.wait(60)
        for partial in self.folder.glob("*.partial"):
            partial.rename(partial.with_suffix(""))


def drill_postgresql(messages: int, writers: int, names: list[str]) -> bool:
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-drill-")))
        if as_server([]):
            shutil.chown(folder, "postgres", "postgres")
        base = folder / "base"
        primary = stack.enter_context(Cluster())
        archive = WalArchive(folder / "wal", primary.url)
        server = stack.enter_context(Server(primary.url, arguments=["--store-timeout-ms=2000"]))
        with Writers(lambda _: server.target, names, writers) as load:
            load.progress.wait_for_more(messages)
            begin = time.monotonic()
            subprocess.run(as_server([program("pg_basebackup"), "-D", str(base), "-c", "fast", "-X",
                                      "none", "--no-sync", "--no-manifest", "-d", primary.url]),
                           check=True)
            backup = time.monotonic() - begin
            load.progress.wait_for_more(MESSAGES_AROUND_BACKUP)
            loss = time.monotonic()
            primary.kill()
            # The restore.
            archive.end()
            primary.restore(base, f"cp {archive.folder}/%f %p")
            # Nothing is acknowledged before there is an archive again.
            stack.callback(WalArchive(folder / "wal of the restored", primary.url).stop)
            first_write(server)
            rto = time.monotonic() - loss
            load.progress.wait_for_more(MESSAGES_AROUND_BACKUP)
        load.progress.check()
        mib = int(run_sql(primary.url, "SELECT pg_database_size('postgres')")) / 2**20
        # Read by a server that has nothing cached.
        with Server(primary.url) as fresh, fresh.channel() as channel:
            found = audit(Calls(channel), load.acknowledged)
    report("postgresql", mib, backup, 0.0 if not found.lost else float("inf"), found.lost, rto, found)
    return found.clean and found.acknowledged > 0


DRILLS = {"sqlite": drill_sqlite, "postgresql": drill_postgresql}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=5)
    options = parser.parse_args()
    names = [f"session-{number}" for number in range(options.sessions)]
    kinds = STORES if options.store == "both" else (options.store,)
    results = [DRILLS[kind](options.messages, options.writers, names) for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
