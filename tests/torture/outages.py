#!/usr/bin/env python3
"""How soon health tells of a PostgreSQL that does not answer, and of one that answers again.

usage: outages.py [--rounds N] [--seconds N]

Two servers and callers of both, who write and read with deadlines from 200 ms to 30 s. Each round
has one outage of each kind: links that swallow what is sent, a PostgreSQL that is stopped
(SIGSTOP), one that is killed and started again, and one whose connections others have all taken.
From the end of the outage, Puts are sent to each server until one is acknowledged. Exits 1 when
health takes longer than five seconds either way, the first acknowledgement longer than that, when
the service `liveness`, asked twice a second, was anything but SERVING, when a call lasts longer
than its deadline by half a second, or when any lasts longer than ten seconds: the store's timeout
is five, and some calls ask the store twice.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import pathlib
import random
import sys
import threading
import time
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from support.background import Background
from support.calls import Calls, user
from support.postgres import Cluster, at_port
from support.postgres_proxy import Link, Proxies
from support.server import Server, open_channel, wait_for_health
from torture.postgres_faults import take_all_connections

SERVERS = 2
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
DEADLINES = (0.2, 1.0, 5.0, 30.0)
MOST_HEALTH_SECONDS, MOST_OVERRUN_SECONDS, MOST_CALL_SECONDS = 5.0, 0.5, 10.0
MOST_WRITE_SECONDS = 5.0
_HEALTH_TIMEOUT = 60.0
# Between outages, so that each begins with servers at work.
_REST_SECONDS = 2.0


class Callers(Background):
    """Call every server, each with one deadline."""

    def __init__(self, targets: list[str]) -> None:
        self.overrun = 0.0
        self.longest = 0.0
        self.codes: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()
        super().__init__([functools.partial(self._run, target, seconds)
                          for target in targets for seconds in DEADLINES])

    def _run(self, target: str, seconds: float) -> None:
        session = f"deadline-{seconds}"
        with open_channel(target) as channel:
            calls = Calls(channel)
            while not self.ending.is_set():
                call = random.choice((calls.Get, calls.Put))
                fields = {"messages": [user("x")]} if call == calls.Put else {}
                begin, code = time.monotonic(), "OK"
                try:
                    call(session_id=session, timeout=seconds, **fields)
                except grpc.RpcError as error:
                    code = error.code().name
                took = time.monotonic() - begin
                with self._lock:
                    self.codes[code] += 1
                    self.overrun = max(self.overrun, took - seconds)
                    self.longest = max(self.longest, took)
                self.ending.wait(0.02)


class Liveness(Background):
    """Asks every server twice a second whether it is alive."""

    def __init__(self, targets: list[str]) -> None:
        self.asked = 0
        self.dead = 0
        super().__init__([functools.partial(self._run, target) for target in targets])

    def _run(self, target: str) -> None:
        with open_channel(target) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest(service="liveness")
            while not self.ending.wait(0.5):
                self.asked += 1
                try:
                    self.dead += stub.Check(request, timeout=_HEALTH_TIMEOUT).status != SERVING
                except grpc.RpcError:
                    self.dead += 1


@contextlib.contextmanager
def silent(_: Cluster, links: list[Link]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for link in links:
            stack.enter_context(link.silent())
        yield


@contextlib.contextmanager
def stopped(cluster: Cluster, _: list[Link]) -> Iterator[None]:
    cluster.pause()
    yield
    cluster.resume()


@contextlib.contextmanager
def killed(cluster: Cluster, _: list[Link]) -> Iterator[None]:
    cluster.kill()
    yield
    cluster.start()


@contextlib.contextmanager
def full(cluster: Cluster, links: list[Link]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if not take_all_connections(stack, cluster.url, links):
            raise RuntimeError("PostgreSQL has connections left")
        yield


def seconds_until(status: int, servers: list[Server]) -> float:
    """Until the health of every server says so."""
    begin = time.monotonic()
    for server in servers:
        with server.channel() as channel:
            wait_for_health(channel, status, _HEALTH_TIMEOUT)
    return time.monotonic() - begin


def seconds_until_written(servers: list[Server]) -> float:
    """Until every server has acknowledged a Put that was sent now or later."""
    begin = time.monotonic()
    for server in servers:
        with server.channel() as channel:
            calls = Calls(channel)
            while True:
                with contextlib.suppress(grpc.RpcError):
                    calls.Put(session_id="returned", messages=[user("x")], timeout=1.0)
                    break
                time.sleep(0.02)
    return time.monotonic() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of an outage, at least")
    options = parser.parse_args()
    kept = True
    with Proxies() as proxies, Cluster() as cluster, contextlib.ExitStack() as stack:
        links = [proxies.link(cluster.port) for _ in range(SERVERS)]
        servers = [stack.enter_context(Server(at_port(cluster.url, link.port))) for link in links]
        for kind in (silent, stopped, killed, full):
            away, back, written = [], [], []
            targets = [server.target for server in servers]
            with Callers(targets) as callers, Liveness(targets) as liveness:
                for _ in range(options.rounds):
                    seconds_until(SERVING, servers)
                    time.sleep(_REST_SECONDS)
                    with kind(cluster, links):
                        away.append(seconds_until(NOT_SERVING, servers))
                        time.sleep(max(0.0, options.seconds - away[-1]))
                    returned = time.monotonic()
                    written.append(seconds_until_written(servers))
                    seconds_until(SERVING, servers)
                    back.append(time.monotonic() - returned)
            print(f"{kind.__name__}: NOT_SERVING after at most {max(away):.2f} s, a Put acknowledged "
                  f"after at most {max(written):.2f} s, SERVING after at most {max(back):.2f} s, "
                  f"dead {liveness.dead} times of {liveness.asked}, longest call "
                  f"{callers.longest:.2f} s, deadline overrun by {callers.overrun:.3f} s, "
                  f"{dict(callers.codes)}", flush=True)
            kept &= (max(*away, *back) <= MOST_HEALTH_SECONDS
                     and max(written) <= MOST_WRITE_SECONDS
                     and liveness.asked > 0 and liveness.dead == 0
                     and callers.overrun <= MOST_OVERRUN_SECONDS
                     and callers.longest <= MOST_CALL_SECONDS)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
