"""What the servers of a run keep their data in, and the faults that it has beside theirs."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence

from support.disk import Disk
from support.patroni import PatroniCluster
from support.pgbouncer import PgBouncer
from support.postgres import Cluster, at_port
from support.postgres_proxy import Proxies
from support.standby import Failover, ReplicatedCluster
from torture.failover import PrimaryAndStandby
from torture.nemesis import Fault
from torture.postgres_faults import LinkFaults, StandbyFaults


@dataclasses.dataclass(frozen=True)
class Database:
    """A store, as long as the context of `open_database` lasts."""

    kind: str  # A key of nemesis.SHARES.
    url: str  # For its checks.
    # The value of --store for a replica, by number; a server that has none takes that of 0.
    stores: Sequence[str]
    # For the nemesis: a cluster whose standbys, if any, it knows how to put in its place; where the
    # file of SQLite lies.
    cluster: Cluster | PrimaryAndStandby | None = None
    disk: Disk | None = None
    arguments: Sequence[str] = ()
    # Those that the nemesis does not do by itself, by kind.
    faults: Mapping[str, Callable[[Fault], bool]] = dataclasses.field(default_factory=dict)
    failovers: Sequence[Failover] = ()

    def store(self, replica: int | str) -> str:
        return self.stores[replica if isinstance(replica, int) else 0]


@contextlib.contextmanager
def open_database(options: argparse.Namespace) -> Iterator[Database]:
    """What the options of a run ask for."""
    with contextlib.ExitStack() as stack:
        if options.store == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="memoryd-disk-"))
            disk = Disk(pathlib.Path(folder), options.seed)
            yield Database("sqlite", disk.store, [disk.store] * options.replicas, disk=disk)
        elif options.patroni:
            yield _under_patroni(stack, options.replicas)
        elif options.standby:
            yield _with_standbys(stack, options)
        elif options.failover:
            cluster = stack.enter_context(PrimaryAndStandby(*options.postgres_setting))
            store = with_settings(cluster.url, options.session_setting)
            yield Database("failover", cluster.url, [store] * options.replicas, cluster)
        else:
            yield _alone(stack, options)


def with_settings(url: str, settings: Sequence[str]) -> str:
    """The URL, with settings for the sessions that it opens."""
    if not settings:
        return url
    value = urllib.parse.quote(" ".join(f"-c {setting}" for setting in settings))
    return f"{url}{'&' if '?' in url else '?'}options={value}"


def _alone(stack: contextlib.ExitStack, options: argparse.Namespace) -> Database:
    """One PostgreSQL, to which each replica has a link, perhaps through PgBouncer."""
    proxies = stack.enter_context(Proxies())
    cluster = stack.enter_context(Cluster(*options.postgres_setting))
    kind, port, arguments, faults = "postgresql", cluster.port, [], {}
    if options.pgbouncer:
        pooler = stack.enter_context(PgBouncer(cluster.port, options.pgbouncer))

        def kill_pooler(_: Fault) -> bool:
            pooler.kill()
            pooler.start()
            return True

        kind, port, arguments = "pgbouncer", pooler.port, ["--transaction-pooling=true"]
        faults["pgbouncer_kill"] = kill_pooler
    links = [proxies.link(port) for _ in range(options.replicas)]
    faults |= LinkFaults(links, cluster.url).kinds()
    stores = [with_settings(at_port(cluster.url, link.port), options.session_setting)
              for link in links]
    return Database(kind, cluster.url, stores, cluster, arguments=arguments, faults=faults)


def _with_standbys(stack: contextlib.ExitStack, options: argparse.Namespace) -> Database:
    proxies = stack.enter_context(Proxies())
    cluster = stack.enter_context(
        ReplicatedCluster(proxies, options.standby, *options.postgres_setting))
    faults = {**LinkFaults(cluster.links, cluster.url).kinds(), **StandbyFaults(cluster).kinds()}
    return Database("standby", cluster.url, [cluster.store] * options.replicas, faults=faults,
                    failovers=cluster.failovers)


def _under_patroni(stack: contextlib.ExitStack, replicas: int) -> Database:
    cluster = stack.enter_context(PatroniCluster())

    def kill_leader(_: Fault) -> bool:
        cluster.kill_leader()
        return True

    return Database("patroni", cluster.url, [cluster.url] * replicas,
                    faults={"leader_kill": kill_leader}, failovers=cluster.failovers)
