#!/usr/bin/env python3
"""Calls a second through each client, with so many outstanding, in one run on one server.

usage: clients.py [--method put|get] [--outstanding N] [--seconds N] [--rounds N] [--clients NAME...]

`load` is memoryd_load, which has no client's retries; `asyncio` is AsyncClient, in this process' place;
`go` is build/go/client_load, which tools/go_build.sh makes, and `typescript` the load.js of
tools/typescript.sh. They take turns, so that what else the machine does falls on all of them; each has
sessions of its own. Prints a line for each round and one of medians.

AsyncClient and TypeScript's Client send Puts that wait for each other in one call; the others send each
by itself. A Get is a call in all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import user
from support.paths import BINARY, REPOSITORY
from support.server import Server
from support.stores import fresh_store

from memoryd import AsyncClient

LOADS = {
    "go": [str(REPOSITORY / "build/go/client_load")],
    "typescript": ["node", str(REPOSITORY / "build/typescript/build-test/load.js")],
}
SESSIONS = 32
MESSAGE_BYTES = 85


async def ask(target: str, method: str, outstanding: int, seconds: float, prefix: str) -> float:
    """Calls a second of AsyncClient."""
    text = ("tea " * MESSAGE_BYTES)[:MESSAGE_BYTES]
    done, number = 0, 0
    async with AsyncClient(target) as client:
        await client.put(f"{prefix}-0", [user(text)])
        begin = time.monotonic()

        async def call() -> None:
            nonlocal done, number
            while time.monotonic() < begin + seconds:
                number += 1
                session = f"{prefix}-{number % SESSIONS}"
                if method == "get":
                    await client.get(session)
                else:
                    await client.put(session, [user(text)])
                done += 1

        await asyncio.gather(*(call() for _ in range(outstanding)))
        return done / (time.monotonic() - begin)


def told(command: list[str]) -> dict[str, float]:
    found: dict[str, float] = json.loads(subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def rate(client: str, target: str, options: argparse.Namespace, prefix: str) -> float:
    if client == "asyncio":
        own = [sys.executable, __file__, "--ask", target, "--prefix", prefix, "--method", options.method,
               "--outstanding", str(options.outstanding), "--seconds", str(options.seconds)]
        return told(own)["rate"]
    if client in LOADS:
        found = told([
            *LOADS[client], f"--target={target}", f"--method={options.method}",
            f"--outstanding={options.outstanding}", f"--seconds={options.seconds}", f"--prefix={prefix}",
            f"--sessions={SESSIONS}", f"--message_bytes={MESSAGE_BYTES}"])
        return found["calls"] / found["seconds"]
    found = told([
        str(BINARY.parent / "memoryd_load"), f"--target={target}", f"--method={options.method}",
        f"--outstanding={options.outstanding}", f"--seconds={options.seconds}", "--warmup=0.5",
        f"--session_prefix={prefix}", f"--sessions={SESSIONS}", f"--message_bytes={MESSAGE_BYTES}",
        "--connections=1", "--request_id"])
    return found["ops_per_second"] if "ops_per_second" in found else found["ops"] / options.seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--method", choices=("put", "get"), default="put")
    parser.add_argument("--outstanding", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", nargs="+", default=["load", "asyncio", "go", "typescript"])
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    parser.add_argument("--prefix", default="p", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        found = asyncio.run(ask(
            options.ask, options.method, options.outstanding, options.seconds, options.prefix))
        print(json.dumps({"rate": found}))
        return 0
    rates: dict[str, list[float]] = {client: [] for client in options.clients}
    with fresh_store("sqlite") as store, Server(store) as server:
        for number in range(options.rounds):
            for client in options.clients:
                rates[client].append(rate(client, server.target, options, f"{client}-{number}"))
            print(f"round {number}: " + ", ".join(
                f"{client} {found[-1]:.0f}" for client, found in rates.items()), flush=True)
    medians = {client: statistics.median(found) for client, found in rates.items()}
    print(f"clients: {options.method}, {options.outstanding} outstanding, calls a second: " + ", ".join(
        f"{client} {found:.0f}" for client, found in medians.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
