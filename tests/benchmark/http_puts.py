#!/usr/bin/env python3
"""Server CPU of a Put over HTTP, in JSON and in protobuf, beside one over gRPC.

usage: http_puts.py [--rounds N] [--seconds S] [--callers N] [--stores sqlite postgresql]

One server has both ports. Callers are threads, each with a session and a connection of its own, and
make one Put of one message after the other. Every round runs each leg once, and every second round
backwards; a ratio is the server's CPU time a Put over that of gRPC's in the same round. Prints a
table: medians, and the lowest and the highest ratio.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import http.client
import json
import pathlib
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable

import grpc

import callers
import processes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import paths
from support.calls import user, wire

_PATH = "/memoryd.v1.MemoryService/Put"
# Makes a connection, and returns what puts a message into the session.
Leg = Callable[[processes.Server], Callable[[str], object]]


def by_rpc(server: processes.Server) -> Callable[[str], object]:
    channel = grpc.insecure_channel(server.target, [("grpc.use_local_subchannel_pool", 1)])
    put = channel.unary_unary(_PATH, request_serializer=wire.PutRequest.SerializeToString,
                              response_deserializer=wire.PutResponse.FromString)
    return lambda session: put(request(session))


def by_http(kind: str, encoded: Callable[[str], bytes]) -> Leg:
    def leg(server: processes.Server) -> Callable[[str], object]:
        connection = http.client.HTTPConnection(server.http)

        def put(session: str) -> None:
            connection.request("POST", _PATH, encoded(session), {"Content-Type": kind})
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 200:
                raise RuntimeError(said)

        return put

    return leg


def request(session: str) -> wire.PutRequest:
    return wire.PutRequest(session_id=session, messages=[user(callers.TEXT)],
                           request_id=uuid.uuid4().hex)


LEGS: dict[str, Leg] = {
    "gRPC": by_rpc,
    "HTTP, protobuf": by_http(
        "application/proto", lambda session: request(session).SerializeToString()),
    "HTTP, JSON": by_http("application/json", lambda session: json.dumps(
        {"sessionId": session, "messages": [{"role": "user", "text": callers.TEXT}],
         "requestId": uuid.uuid4().hex}).encode()),
}


def measured(leg: Leg, server: processes.Server, given: argparse.Namespace) -> float:
    """Microseconds of the server's CPU a Put."""
    def puts(seconds: float) -> int:
        put, session, count = leg(server), uuid.uuid4().hex, 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            put(session)
            count += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(given.callers) as pool:
        before = server.cpu_seconds()
        count = sum(pool.map(puts, [given.seconds] * given.callers))
        return (server.cpu_seconds() - before) / count * 1e6


def measure(server: processes.Server, given: argparse.Namespace, store: str) -> None:
    found: dict[str, list[float]] = {name: [] for name in LEGS}
    for number in range(given.rounds):
        for name in LEGS if number % 2 == 0 else reversed(LEGS):
            found[name].append(measured(LEGS[name], server, given))
    for name, of_leg in found.items():
        ratios = [one / other for one, other in zip(of_leg, found["gRPC"], strict=True)]
        print(f"| {store} | {given.callers} | {name} | {statistics.median(of_leg):.0f} | "
              f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) × |",
              flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each leg")
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--stores", nargs="+", choices=("sqlite", "postgresql"),
                        default=["sqlite", "postgresql"])
    parser.add_argument("--folder", default="/dev/shm", type=pathlib.Path, help="of the stores")
    parser.add_argument("--binary", default=paths.BINARY, type=pathlib.Path)
    given = parser.parse_args()
    print("| store | callers | port | server CPU µs a Put | beside gRPC's |\n"
          "| --- | ---: | --- | ---: | ---: |")
    with tempfile.TemporaryDirectory(dir=given.folder) as name, \
            processes.Postgres(given.folder) as postgres:
        folder = pathlib.Path(name)
        for store in given.stores:
            url = (f"sqlite:{folder / 'memoryd.db'}" if store == "sqlite"
                   else postgres.database("http"))
            server = processes.Server(
                [given.binary, "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0",
                 f"--store={url}"], folder / f"{store}.log")
            try:
                measure(server, given, store)
            finally:
                server.stop()


if __name__ == "__main__":
    main()
