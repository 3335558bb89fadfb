#!/usr/bin/env python3
"""Compares what a Put and a Get cost the server in a very long session and in a short one.

usage: growth.py [--store sqlite|postgresql|both] [--long N] [--short N] [--blocks N] [--calls N]

Server CPU (user and system time of /proc/PID/stat) per Put and per Get, measured in blocks that
alternate between the two sessions, so that the machine's moods fall on both. Prints medians, their
ratio, and the resident memory before, after filling, and at the end. Exits 1 when a ratio is above
--most.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls, memory  # noqa: E402
from support.server import Server  # noqa: E402
from support.stores import STORES, fresh_store  # noqa: E402

TEXT = "The user likes tea in the morning and asks about train tickets to Lisbon every week."
MESSAGES_PER_PUT = 1000
CALLERS = 8
# Both sessions keep as much in short-term memory, so only their length differs.
CONFIG = memory.SessionConfig(profile="llama-index", token_limit=2000, token_flush_size=200)


def cpu_seconds(pid: int) -> float:
    # The name in parentheses may hold blanks; utime and stime are the 14th and 15th field.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mebibytes(pid: int) -> int:
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def message(number: int) -> memory.Message:
    return memory.Message(role="user" if number % 2 == 0 else "assistant", text=TEXT)


def fill(calls: Calls, session: str, count: int) -> None:
    calls.CreateSession(session_id=session, config=CONFIG)
    messages = [message(number) for number in range(MESSAGES_PER_PUT)]
    for begin in range(0, count, MESSAGES_PER_PUT):
        calls.Put(session_id=session, messages=messages[:count - begin], timeout=120)


def run(kind: str, options: argparse.Namespace) -> bool:
    with fresh_store(kind) as store, Server(store) as server, server.channel() as channel, \
            ThreadPoolExecutor(CALLERS) as pool:
        calls = Calls(channel)
        resident = [resident_mebibytes(server.pid)]
        begin = time.monotonic()
        fill(calls, "long", options.long)
        resident.append(resident_mebibytes(server.pid))
        print(f"growth: {kind} put {options.long} messages in {time.monotonic() - begin:.0f} s",
              flush=True)

        def block(call: Callable[[int], object]) -> float:
            before = cpu_seconds(server.pid)
            list(pool.map(call, range(options.calls)))
            return (cpu_seconds(server.pid) - before) / options.calls

        kinds_of_call = {
            "Put": lambda s: lambda n: calls.Put(session_id=s, messages=[message(n)]),
            "Get": lambda s: lambda n: calls.Get(session_id=s),
        }
        good = True
        for name, call_of in kinds_of_call.items():
            costs: dict[str, list[float]] = {"short": [], "long": []}
            for number in range(options.blocks + 1):
                # A new one for every block: the Puts of a block make it longer.
                short = f"short-{name}-{number}"
                fill(calls, short, options.short)
                # In turn, so that neither always follows the other.
                order = [("short", short), ("long", "long")]
                for length, session in order if number % 2 else reversed(order):
                    cost = block(call_of(session))
                    if number > 0:  # The first block warms up.
                        costs[length].append(cost)
            medians = {length: 1e6 * statistics.median(c) for length, c in costs.items()}
            # A block without a clock tick of the server's says nothing.
            if not medians["short"]:
                raise RuntimeError("the blocks are too short to measure: raise --calls")
            ratio = medians["long"] / medians["short"]
            good = good and ratio <= options.most
            print(f"growth: {kind} {name}: {medians['long']:.0f} us in the long session, "
                  f"{medians['short']:.0f} us in the short one, ratio {ratio:.3f}", flush=True)
        resident.append(resident_mebibytes(server.pid))
        print(f"growth: {kind} resident MiB: {resident[0]} at the start, {resident[1]} filled, "
              f"{resident[2]} at the end", flush=True)
        return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--long", type=int, default=1_000_000)
    parser.add_argument("--short", type=int, default=1_000)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--calls", type=int, default=2_000, help="calls in a block")
    parser.add_argument("--most", type=float, default=1.25, help="highest ratio allowed")
    options = parser.parse_args()
    kinds = STORES if options.store == "both" else (options.store,)
    results = [run(kind, options) for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
