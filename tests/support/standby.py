"""A PostgreSQL primary with synchronous standbys, which take its place when it is gone."""

from __future__ import annotations

import contextlib
import dataclasses
import time

from support.postgres import Cluster, run_sql
from support.postgres_proxy import Link, Proxies
from support.waiting import wait_for

# Waits of 10 ms for a standby to come or go.
_ATTEMPTS = 6000
# How long a primary that has lost its standbys is still written to before it is cut off itself.
_LONELY_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Failover:
    """One that has happened."""

    kind: str  # `kill`, or `cut`: the old primary lived on.
    begin_ns: int  # CLOCK_MONOTONIC, when the primary was killed or lost its standbys.
    gone_ns: int  # When it had nothing more to acknowledge.
    promoted_seconds: float  # From then until the new primary took writes.
    whole_seconds: float  # Until the old one was its standby.


class ReplicatedCluster:
    """A primary and `standbys`, each of which is named in `synchronous_standby_names` always: what
    is acknowledged is flushed by the primary and by one of them.

    Servers reach all nodes over `links`, and nodes each other over links of their own. Leaving the
    context ends all nodes. Not thread-safe.
    """

    def __init__(self, proxies: Proxies, standbys: int = 1, *settings: str) -> None:
        names = [f"node{number}" for number in range(standbys + 1)]
        self._exit = contextlib.ExitStack()
        self._nodes: list[Cluster] = []
        self.links: list[Link] = []
        self._wal_links: list[Link] = []
        self.failovers: list[Failover] = []
        with contextlib.ExitStack() as stack:
            for name in names:
                source = self._source(0) if self._nodes else ""
                node = stack.enter_context(Cluster(
                    f"cluster_name={name}", "wal_keep_size=1GB", "wal_retrieve_retry_interval=100",
                    f"synchronous_standby_names=ANY 1 ({','.join(names)})", *settings,
                    source=source))
                self._nodes.append(node)
                self.links.append(proxies.link(node.port))
                self._wal_links.append(proxies.link(node.port))
            self._primary = 0
            self._wait_for_standbys()
            self._exit = stack.pop_all()

    def __enter__(self) -> ReplicatedCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @property
    def url(self) -> str:
        """The primary's, by the list of all nodes."""
        return _url([node.port for node in self._nodes])

    @property
    def store(self) -> str:
        """The same over the links."""
        return _url([link.port for link in self.links])

    @property
    def standbys(self) -> list[Cluster]:
        return [node for number, node in enumerate(self._nodes) if number != self._primary]

    def kill_primary(self) -> None:
        """SIGKILL, promotion, and the old primary comes back as a standby."""
        begin = time.monotonic_ns()
        self._nodes[self._primary].kill()
        gone = time.monotonic_ns()
        old, promoted = self._promote(begin)
        self._rejoin(old, "kill", begin, gone, promoted)

    def cut_primary(self, alive_seconds: float) -> None:
        """The primary loses its standbys, then its clients; another is promoted while it lives on.
        Raises when it has acknowledged a commit after the first cut."""
        old_link, wal_link = self.links[self._primary], self._wal_links[self._primary]
        begin = time.monotonic_ns()
        wal_link.silence()
        wal_link.cut()
        old_node = self._nodes[self._primary]
        wait_for(lambda: run_sql(old_node.url, "SELECT count(*) FROM pg_stat_replication WHERE "
                                               "state = 'streaming'") == "0\n", _ATTEMPTS)
        gone = time.monotonic_ns()
        time.sleep(_LONELY_SECONDS)
        old_link.silence()
        old, promoted = self._promote(begin)
        time.sleep(alive_seconds)
        self._nodes[old].kill()
        if old_link.acknowledged_sent_ns > gone:
            raise AssertionError("the old primary acknowledged a commit that was sent to it "
                                 f"{(old_link.acknowledged_sent_ns - gone) / 1e9} s after the cut")
        for link in (old_link, wal_link):
            link.cut()
            link.resume()
        self._rejoin(old, "cut", begin, gone, promoted)

    def _promote(self, begin_ns: int) -> tuple[int, float]:
        """The number of the old primary, and when the new one took writes."""
        old = self._primary
        others = [number for number in range(len(self._nodes)) if number != old]
        for number in others:
            # What it has received is all that it ever will.
            wait_for(lambda node=self._nodes[number]: run_sql(
                node.url, "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'")
                == "0\n", _ATTEMPTS)
        received = {number: int(run_sql(self._nodes[number].url, "SELECT "
                                        "pg_last_wal_receive_lsn() - '0/0'::pg_lsn"))
                    for number in others}
        self._primary = max(others, key=lambda number: received[number])
        if run_sql(self._nodes[self._primary].url, "SELECT pg_promote()") != "t\n":
            raise RuntimeError("the standby was not promoted")
        promoted = (time.monotonic_ns() - begin_ns) / 1e9
        for number in set(others) - {self._primary}:
            link = self._wal_links[self._primary]
            run_sql(self._nodes[number].url, "ALTER SYSTEM SET primary_conninfo = "
                                             f"'host=127.0.0.1 port={link.port} user=postgres'")
            run_sql(self._nodes[number].url, "SELECT pg_reload_conf()")
        return old, promoted

    def _rejoin(self, old: int, kind: str, begin_ns: int, gone_ns: int, promoted: float) -> None:
        self._nodes[old].become_standby(self._source(self._primary))
        self._wait_for_standbys()
        self.failovers.append(
            Failover(kind, begin_ns, gone_ns, promoted, (time.monotonic_ns() - begin_ns) / 1e9))

    def _source(self, number: int) -> str:
        return _url([self._wal_links[number].port])

    def _wait_for_standbys(self) -> None:
        count = f"{len(self._nodes) - 1}\n"
        wait_for(lambda: run_sql(self._nodes[self._primary].url,
                                 "SELECT count(*) FROM pg_stat_replication WHERE state = "
                                 "'streaming' AND sync_state = 'quorum'") == count, _ATTEMPTS)


def _url(ports: list[int]) -> str:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
