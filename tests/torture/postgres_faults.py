"""Faults of the links to PostgreSQL, of its connections and of its standbys."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
import urllib.parse
from collections.abc import Callable, Sequence

from support.postgres import run_sql
from support.postgres_proxy import DELAY, LOSSES, Link
from support.standby import ReplicatedCluster
from torture.nemesis import Fault

Kinds = dict[str, Callable[[Fault], bool]]

# Commits that a fault takes the answer of, for each of its most_backends.
_LOST_PER_FAULT = 2
LONGEST_DELAY_SECONDS = 30.0
# How long a fault waits for what it is about.
_WAIT_SECONDS = 5.0
_POLL_SECONDS = 0.01
_STARTUP = b"user\0postgres\0database\0postgres\0\0"
_PROTOCOL = 3 << 16


class LinkFaults:
    """Faults of the links of servers, one for each replica or for each host, to the PostgreSQL at
    `url`."""

    def __init__(self, links: Sequence[Link], url: str) -> None:
        self._links = links
        self._url = url

    def kinds(self) -> Kinds:
        return {"commits_lost": self._commits_lost, "commits_late": self._commits_late,
                "link_silent": self._link_silent, "links_silent": self._links_silent,
                "connections_full": self._connections_full}

    def _commits_lost(self, fault: Fault) -> bool:
        return self._lose(random.Random(fault.at_seconds).choices(
            LOSSES, k=_LOST_PER_FAULT * fault.most_backends))

    def _commits_late(self, fault: Fault) -> bool:
        # From answers that come in time to those that come when nobody has waited for long.
        chance = random.Random(fault.at_seconds)
        return self._lose([DELAY] * _LOST_PER_FAULT * fault.most_backends,
                          LONGEST_DELAY_SECONDS * chance.random() ** 2)

    def _lose(self, losses: Sequence[str], delay_seconds: float = 0) -> bool:
        """Of the next commits on each link."""
        before = self.lost()
        for link in self._links:
            link.lose(losses, delay_seconds)
        fired = _until(lambda: self.lost() - before >= len(losses))
        for link in self._links:
            link.lose_no_more()
        return fired

    def lost(self) -> int:
        """The answers of commits that were lost or late so far."""
        return sum(link.lost.total() for link in self._links)

    def _link_silent(self, fault: Fault) -> bool:
        with self._links[fault.replica % len(self._links)].silent():
            time.sleep(fault.stop_seconds)
        return True

    def _links_silent(self, fault: Fault) -> bool:
        with contextlib.ExitStack() as stack:
            for link in self._links:
                stack.enter_context(link.silent())
            time.sleep(fault.stop_seconds)
        return True

    def _connections_full(self, fault: Fault) -> bool:
        with contextlib.ExitStack() as stack:
            full = take_all_connections(stack, self._url, self._links)
            time.sleep(fault.stop_seconds)
        return full


class StandbyFaults:
    """Faults of a primary with standbys."""

    def __init__(self, cluster: ReplicatedCluster) -> None:
        self._cluster = cluster

    def kinds(self) -> Kinds:
        return {"primary_kill": self._primary_kill, "primary_cut": self._primary_cut,
                "sync_wait_cancel": self._sync_wait_cancel}

    def _primary_kill(self, _: Fault) -> bool:
        self._cluster.kill_primary()
        return True

    def _primary_cut(self, fault: Fault) -> bool:
        self._cluster.cut_primary(fault.stop_seconds)
        return True

    def _sync_wait_cancel(self, _: Fault) -> bool:
        """Ends the wait of commits for standbys that are stopped: they are done on the primary
        alone, and say so in a warning."""
        with contextlib.ExitStack() as stack:
            for standby in self._cluster.standbys:
                standby.pause()
                stack.callback(standby.resume)
            return _until(lambda: int(run_sql(
                self._cluster.url, "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM "
                                   "pg_stat_activity WHERE wait_event = 'SyncRep'")) > 0)


def take_all_connections(stack: contextlib.ExitStack, url: str, links: Sequence[Link]) -> bool:
    """Takes every connection that the PostgreSQL at `url` has to give, those of the servers behind
    the links too, until `stack` closes them. False when it could not be done."""
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'memoryd'"
    with contextlib.ExitStack() as silence:
        for link in links:
            silence.enter_context(link.silent())
            link.cut()
        return _until(lambda: run_sql(url, ours) == "0\n") and _take_connections(stack, url)


def _take_connections(stack: contextlib.ExitStack, url: str) -> bool:
    """Opens connections until there is none to be had. False when the server does not refuse them
    for that."""
    port = urllib.parse.urlsplit(url).port
    while True:
        try:
            taken = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            taken.settimeout(_WAIT_SECONDS)
            taken.sendall(struct.pack("!ii", len(_STARTUP) + 8, _PROTOCOL) + _STARTUP)
            answer = taken.recv(1 << 12)
        except OSError:
            return False
        if not answer.startswith(b"R"):
            return b"C53300\0" in answer


def _until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(_POLL_SECONDS)
    return False
