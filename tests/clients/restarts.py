#!/usr/bin/env python3
"""Restarts the server under the clients, over and over, and counts what is missing.

usage: restarts.py [--store sqlite|postgresql|both] [--client sync|async|cpp|typescript|go|all]
                   [--puts N] [--restarts N] [--writers N] [--end kill|term|both]

`all` leaves out TypeScript and Go, which tools/typescript.sh and tools/go_build.sh build first.

Writers put one message after the other with nothing but the client's own retries, while the server
is ended, by SIGKILL and SIGTERM in turn or by one of them, and started again on the same port and
store. Then every message is read back. The last line of each run is
`restarts: store S, client C, restarts N, acked N, replayed N, lost N, doubled N, reordered N, slowest
end N s`, where replayed counts Puts that were stored before a try that was answered, and the slowest
end is from SIGTERM to the exit. Exits 1 when anything was lost, doubled, out of a writer's order, or
not what its Put was answered with, when a client saw an error, and when an end was no good or took
longer than it may.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import functools
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls, user, wire
from support.paths import CLIENT_WRITER, NODE, NODE_WRITER, REPOSITORY
from support.server import Server, reserved_port
from support.stores import STORES, fresh_store
from support.writers import Audit, Progress

from memoryd import AsyncClient, Client

CLIENTS = ("sync", "async", "cpp")
GO_WRITER = REPOSITORY / "build/go/client_writer"
SESSIONS = 5
# Longer than any server takes to come back.
PUT_SECONDS = 120.0
# The setting drain_seconds, and how much longer an end may take: what is under way is soon done.
DRAIN_SECONDS, MARGIN_SECONDS = 10, 2.0


class Ledger:
    """What was put, and what each Put was answered with; for any number of threads."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.acknowledged: dict[str, list[str]] = collections.defaultdict(list)
        self.ids: dict[str, str] = {}
        self.replayed = 0
        self._guard = threading.Lock()

    def add(self, session: str, text: str, message_id: str, replayed: bool) -> None:
        with self._guard:
            self.acknowledged[session].append(text)
            self.ids[text] = message_id
            self.replayed += replayed
        self.progress.add(1)

    def add_reply(self, session: str, text: str, reply: wire.PutResponse) -> None:
        self.add(session, text, reply.message_ids[0], reply.replayed)

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """Tells who waits for progress what the body failed with."""
        try:
            yield
        except BaseException as error:
            self.progress.fail(error)


def puts_of(writer: int, count: int) -> Iterator[tuple[str, str]]:
    """Session and text of each Put of a writer."""
    for number in range(count):
        session = f"session-{(writer + number) % SESSIONS}"
        yield session, f"{writer}/{number}/{'x' * ((number * 37) % 400)}"


def write_synchronously(target: str, ledger: Ledger, writers: int, count: int) -> None:
    def write(writer: int) -> None:
        with ledger.failing():
            for session, text in puts_of(writer, count):
                ledger.add_reply(session, text, client.put(session, [user(text)]))

    with Client(target, timeout=PUT_SECONDS) as client:
        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


async def write_asynchronously(target: str, ledger: Ledger, writers: int, count: int) -> None:
    async with AsyncClient(target, timeout=PUT_SECONDS) as client:
        async def write(writer: int) -> None:
            for session, text in puts_of(writer, count):
                ledger.add_reply(session, text, await client.put(session, [user(text)]))

        with ledger.failing():
            await asyncio.gather(*map(write, range(writers)))


def _in_a_loop(write: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    return lambda *arguments: asyncio.run(write(*arguments))


def write_by(program: Sequence[pathlib.Path], target: str, ledger: Ledger, writers: int,
             count: int) -> None:
    """By a program that reads and writes as client_writer.cc does."""
    command = [*program, f"--target={target}", f"--timeout={PUT_SECONDS}"]
    with ledger.failing(), subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for writer in range(writers):
            for session, text in puts_of(writer, count):
                process.stdin.write(f"{writer}\t{session}\t{text}\n")
        process.stdin.close()
        for line in process.stdout:
            session, text, message_id, replayed = line.rstrip("\n").split("\t")
            ledger.add(session, text, message_id, replayed == "1")
        if process.wait() != 0:
            raise RuntimeError(f"{program[-1].name} ended with {process.returncode}")


WRITE = {"sync": write_synchronously, "async": _in_a_loop(write_asynchronously),
         "cpp": functools.partial(write_by, [CLIENT_WRITER]),
         "typescript": functools.partial(write_by, [NODE, NODE_WRITER]),
         "go": functools.partial(write_by, [GO_WRITER])}


def audited(calls: Calls, ledger: Ledger) -> Audit:
    """What is stored beside what was acknowledged; a message under another id is unknown."""
    audit = Audit()
    for session, texts in ledger.acknowledged.items():
        stored = calls.all_messages(session)
        audit.add_session(texts, [m.text for m in stored])
        audit.unknown += sum(1 for m in stored if ledger.ids.get(m.text) != m.message_id)
    return audit


def ended(server: Server) -> float:
    """Ends a server by SIGTERM; how long that takes, in seconds."""
    begin = time.monotonic()
    code = server.stop()
    if code != 0:
        raise RuntimeError(f"the server ended with {code}:\n{server.output()}")
    return time.monotonic() - begin


def run(kind: str, client: str, puts: int, restarts: int, writers: int,
        ends: Sequence[str] = ("kill", "term")) -> bool:
    ledger = Ledger()
    each = -(-puts // writers)
    slowest = 0.0
    with fresh_store(kind) as store, reserved_port() as port:
        listen = f"127.0.0.1:{port}"
        settings = {"listen": listen, "arguments": [f"--drain-seconds={DRAIN_SECONDS}"]}
        server = Server(store, **settings)
        load = threading.Thread(target=WRITE[client], args=(listen, ledger, writers, each))
        try:
            load.start()
            for number in range(restarts):
                ledger.progress.wait_for(each * writers * (number + 1) // (restarts + 1))
                if ends[number % len(ends)] == "kill":
                    server.kill()
                else:
                    slowest = max(slowest, ended(server))
                server = Server(store, **settings)
            load.join()
            ledger.progress.check()
            # Read by a server that has nothing cached.
            server.kill()
            server = Server(store, **settings)
            with server.channel() as channel:
                found = audited(Calls(channel), ledger)
        finally:
            server.kill()
    print(
        f"restarts: store {kind}, client {client}, restarts {restarts}, "
        f"acked {found.acknowledged}, replayed {ledger.replayed}, lost {found.lost}, "
        f"doubled {found.doubled}, reordered {found.reordered}, slowest end {slowest:.2f} s",
        flush=True,
    )
    return (found.clean and found.acknowledged == each * writers
            and slowest <= DRAIN_SECONDS + MARGIN_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--client", choices=(*WRITE, "all"), default="all")
    parser.add_argument("--puts", type=int, default=10_000)
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--end", choices=("kill", "term", "both"), default="both")
    options = parser.parse_args()
    kinds = STORES if options.store == "both" else (options.store,)
    clients = CLIENTS if options.client == "all" else (options.client,)
    ends = ("kill", "term") if options.end == "both" else (options.end,)
    results = [run(kind, client, options.puts, options.restarts, options.writers, ends)
               for kind in kinds for client in clients]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
