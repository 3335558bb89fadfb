#!/usr/bin/env python3
"""Puts a message or a content, then asks for it at once, again and again; counts the misses.

usage: query_after_put.py [--tries N] [--store sqlite|postgresql|both]

On PostgreSQL two servers share the database: the one puts, the other is asked, in turn. Sessions
grow, and now and then one is replaced or reset. Needs tools/with_postgres.sh for PostgreSQL. Exits
1 when anything was not found, or anything that was gone was.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls, memory, note, user, wire
from support.server import Server
from support.stores import STORES, fresh_store

SESSIONS = 4
# Small, so that most of a session is archived. A word finds what has it, not what is like it.
CONFIG = memory.SessionConfig(token_limit=300, token_flush_size=30,
                              retrieval=memory.Retrieval(vector_weight=0))
REPLACED_EVERY = 50


class Run:
    """Tries that go on with what the last left."""

    def __init__(self, servers: list[Calls]) -> None:
        self.misses: list[str] = []
        self._servers = servers
        self._chance = random.Random(1)
        # Per session, the words stored.
        self._stored: dict[str, list[str]] = {f"s{i}": [] for i in range(SESSIONS)}
        for session in self._stored:
            servers[0].CreateSession(session_id=session, config=CONFIG)

    def attempt(self, number: int) -> None:
        writer = self._servers[number % len(self._servers)]
        reader = self._servers[(number + 1) % len(self._servers)]
        session = self._chance.choice(list(self._stored))
        stored, word = self._stored[session], f"word{number}"
        text = f"This is {word} of the common kind."
        if number % REPLACED_EVERY == REPLACED_EVERY - 1:
            gone = self._chance.choice(stored) if stored else ""
            if self._chance.random() < 0.5:
                writer.Set(session_id=session, messages=[user(text)])
            else:
                writer.Reset(session_id=session, scope=wire.RESET_SCOPE_EVERYTHING)
                writer.Put(session_id=session, messages=[user(text)])
            stored.clear()
            if gone and self._found(reader, session, gone):
                self.misses.append(f"{number}: {gone} of {session} was found after it had gone")
        elif number % 3 == 0:
            writer.Put(session_id=session, contents=[note(text)])
        else:
            writer.Put(session_id=session, messages=[user(text)])
        stored.append(word)
        if self._found(reader, session, word) != [text]:
            self.misses.append(f"{number}: {word} of {session} was not found")
        old = self._chance.choice(stored)
        if len(self._found(reader, session, old)) != 1:
            self.misses.append(f"{number}: {old} of {session} was not found any more")

    @staticmethod
    def _found(reader: Calls, session: str, word: str) -> list[str]:
        results = reader.Query(session_id=session, query=word, top_k=3).results
        return [getattr(result, result.WhichOneof("item")).text for result in results]


@contextlib.contextmanager
def running(kind: str):
    """Calls to the servers of a store: two, or one where the store has only one."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(fresh_store(kind))
        servers = []
        for _ in range(2 if kind == "postgresql" else 1):
            server = stack.enter_context(Server(store))
            servers.append(Calls(stack.enter_context(server.channel())))
        yield servers


def run(kind: str, tries: int) -> list[str]:
    """What was not as it had to be, in so many tries."""
    with running(kind) as servers:
        attempts = Run(servers)
        for number in range(tries):
            attempts.attempt(number)
        return attempts.misses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    options = parser.parse_args()
    total = 0
    for kind in STORES if options.store == "both" else (options.store,):
        begin = time.monotonic()
        misses = run(kind, options.tries)
        print(f"query after put: {kind}: {options.tries} tries, {len(misses)} misses, "
              f"{time.monotonic() - begin:.0f} s", flush=True)
        print("\n".join(misses[:10]), end="\n" if misses else "")
        total += len(misses)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
