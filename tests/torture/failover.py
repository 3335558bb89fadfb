"""A PostgreSQL primary with a synchronous standby, which take each other's place."""

from __future__ import annotations

import contextlib
import shutil
import urllib.parse
from collections.abc import Sequence

from support.postgres import Cluster, run_sql
from support.server import Server
from support.waiting import wait_for

# Waits of 10 ms.
_ATTEMPTS = 6000
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
# Cancels the waits for the standby, and says how many statements of memoryd are under way.
_CANCEL = ("SELECT count(CASE WHEN wait_event = 'SyncRep' THEN pg_cancel_backend(pid) ELSE true "
           "END) FROM pg_stat_activity WHERE application_name = 'memoryd' AND state = 'active'")
_STANDBYS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"


class _Node(Cluster):
    def follow(self, primary: Cluster) -> None:
        """Becomes its standby, after stop()."""
        shutil.rmtree(self._data)
        self._run("pg_basebackup", "-D", str(self._data), "-R", "-c", "fast", "--no-sync",
                  "-d", primary.url)
        self.start()
        wait_for(lambda: run_sql(primary.url, _STANDBYS) == "1\n", _ATTEMPTS)

    def promote(self) -> None:
        # Not by SQL: what is still replayed may cancel that.
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "300", "promote")


class PrimaryAndStandby:
    """`url` is the primary's, by the list of both. Leaving the context ends them."""

    def __init__(self, *settings: str) -> None:
        with contextlib.ExitStack() as stack:
            self._primary, self._standby = (
                stack.enter_context(_Node(*settings, "synchronous_standby_names=*"))
                for _ in range(2))
            self._standby.stop()
            self._standby.follow(self._primary)
            self._stack = stack.pop_all()
        hosts = [urllib.parse.urlsplit(node.url).netloc.rpartition("@")[2]
                 for node in (self._primary, self._standby)]
        self.url = (f"postgresql://postgres@{','.join(hosts)}/postgres"
                    "?target_session_attrs=read-write")

    def fail_over(self, servers: Sequence[Server]) -> None:
        """The primary loses its standby, gives up waiting for it, and crashes; the standby is
        promoted without the commits that were waiting. `servers` read the answers of these only
        then, so that none of them shows to anybody what is lost."""
        primary, standby = self._primary, self._standby
        standby.stop()
        wait_for(lambda: run_sql(primary.url, _WAITING) != "0\n", _ATTEMPTS)
        for server in servers:
            server.pause()
        try:
            wait_for(lambda: run_sql(primary.url, _CANCEL) == "0\n", _ATTEMPTS)
            primary.stop()
        finally:
            for server in servers:
                server.resume()
        standby.start()
        standby.promote()
        primary.follow(standby)
        self._primary, self._standby = standby, primary

    def __enter__(self) -> PrimaryAndStandby:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
