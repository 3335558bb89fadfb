#!/usr/bin/env python3
"""What a fork of a long session takes: time, processor time and bytes, on SQLite and on PostgreSQL; what it
costs others meanwhile; and that neither side sees what is changed on the other.

    python tests/benchmark/forks.py [--stores sqlite postgresql] [--messages 100000] [--rounds 3]

One server over an empty store, on tmpfs; PostgreSQL syncs. Messages of 88 bytes, of which
short-term memory has the last few. Every round forks the whole session, while a caller puts to
another session, one message after the other; before that the same caller does so alone, for as many
seconds as the round before forked. Then a message is edited and one deleted on the one side and on
the other, in the middle of what is archived, and all messages of both are read and held against
what they were.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import threading
import time

import processes
import retention

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls, memory, user
from support.server import Server, ready

_PUT = 1000
_FORK_SECONDS = 600
# Of Puts alone, before the first fork.
_ALONE_SECONDS = 5.0


def texts(calls: Calls, session_id: str) -> list[str]:
    return [message.text for message in calls.streamed(session_id)]


def fill(calls: Calls, session_id: str, messages: int) -> None:
    config = memory.SessionConfig(tokenizer="whitespace", token_limit=1000)
    for first in range(0, messages, _PUT):
        calls.Put(session_id=session_id, config=config,
                  messages=[user(f"{number:<88}") for number in range(first, first + _PUT)])


def change(calls: Calls, session_id: str, expected: list[str], at: int) -> None:
    """Edits the message at the index and deletes the next one, in the session and in `expected`."""
    near = calls.GetAll(session_id=session_id, page_size=1000).messages
    # Early enough to stand on the first page.
    edited, deleted = near[at], near[at + 1]
    calls.UpdateMessage(session_id=session_id, message_id=edited.message_id, text="edited")
    calls.DeleteMessage(session_id=session_id, message_id=deleted.message_id)
    expected[at] = "edited"
    del expected[at + 1]


class Beside:
    """While in it, a caller on a connection of its own puts to a session of its own; `seconds` is how long
    each Put took."""

    def __init__(self, server: Server) -> None:
        self.seconds: list[float] = []
        self._server, self._stop = server, threading.Event()
        self._thread = threading.Thread(target=self._put)

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def __str__(self) -> str:
        taken = sorted(self.seconds)
        return (f"{len(taken):,}, median {1000 * statistics.median(taken):.1f} ms, "
                f"99 % {1000 * taken[int(0.99 * len(taken))]:.1f}, longest {1000 * taken[-1]:.1f}")

    def _put(self) -> None:
        with self._server.channel() as channel:
            calls = Calls(ready(channel))
            config = memory.SessionConfig(tokenizer="whitespace", token_limit=1000)
            while not self._stop.is_set():
                begun = time.monotonic()
                calls.Put(session_id="beside", config=config, messages=[user("x" * 88)])
                self.seconds.append(time.monotonic() - begun)


def run(kind: str, messages: int, rounds: int) -> None:
    with retention.new_store(kind) as store, Server(store.url) as server, \
            server.channel() as channel:
        calls = Calls(ready(channel))

        def cpu() -> tuple[float, float]:
            return processes.cpu_seconds(server.pid), store.cpu_seconds()

        fill(calls, "source", messages)
        source = texts(calls, "source")
        if len(source) != messages:
            raise RuntimeError("messages are missing")
        print(f"{kind}: a session of {messages:,} messages, {store.mib():.1f} MiB", flush=True)
        took = _ALONE_SECONDS
        for number in range(rounds):
            copy = f"copy {number}"
            with Beside(server) as alone:
                time.sleep(took)  # What is measured is this long; nothing is waited for.
            bytes_before = store.mib()
            with Beside(server) as beside:
                begun, begin = time.monotonic(), cpu()
                calls.ForkSession(session_id="source", new_session_id=copy, timeout=_FORK_SECONDS)
                took, spent = time.monotonic() - begun, retention.us(begin, cpu(), messages)
            print(f"{kind}: fork {number + 1}: {took:.2f} s, {spent} us of CPU a message (of the server + "
                  f"of PostgreSQL's processes, with the Puts beside), "
                  f"{store.mib() - bytes_before:.1f} MiB more", flush=True)
            print(f"{kind}:   Puts to another session alone: {alone}; beside: {beside}", flush=True)
            copied = list(source)
            change(calls, "source", source, 10 * number + 3)
            change(calls, copy, copied, 10 * number + 103)
            calls.Put(session_id=copy, messages=[user("only here")])
            copied.append("only here")
            if texts(calls, "source") != source or texts(calls, copy) != copied:
                raise RuntimeError("a change is seen on the other side")
        print(f"{kind}: both sides independent, after an edit and a deletion on each", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql"],
                        choices=["sqlite", "postgresql"])
    parser.add_argument("--messages", type=int, default=100_000, help="a multiple of 1,000")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for kind in given.stores:
        run(kind, given.messages, given.rounds)


if __name__ == "__main__":
    main()
