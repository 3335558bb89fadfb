"""The second tenant of a server under attack: a steady load in a process of its own."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from typing import Any

import grpc

from hostile.site import ENDING, Site
from support.access import Caller
from support.calls import reason, user

DEADLINE_SECONDS = 2.0
CALLS_PER_SECOND = 25.0  # Of each thread.
THREADS = ("Put", "Put", "Get", "Get")
PUTS_PER_SESSION = 200
TOKEN = "victim"


def _lists() -> collections.defaultdict[Any, list]:
    return collections.defaultdict(list)


@dataclasses.dataclass
class Seen:
    """What the tenant saw."""

    # By the phase in which a call began and its method.
    seconds: dict[tuple[int, str], list[float]] = dataclasses.field(default_factory=_lists)
    errors: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    # By session, in the order of the acknowledgements.
    acknowledged: dict[str, list[str]] = dataclasses.field(default_factory=_lists)
    sent: set[str] = dataclasses.field(default_factory=set)


def bystand(site: Site, results: Pipe) -> None:
    """Calls until the run ends, and sends a Seen. Each second a new connection is made as well,
    whose Get must be answered; its time is not counted."""
    load = _Load(site)
    threads = [threading.Thread(target=load.call_steadily, args=(number, method))
               for number, method in enumerate(THREADS)]
    threads.append(threading.Thread(target=load.connect_steadily))
    for thread in threads:
        thread.start()
    results.send("ready")
    for thread in threads:
        thread.join()
    results.send(load.seen)


class _Load:
    def __init__(self, site: Site) -> None:
        self.seen = Seen()
        self._site = site
        self._lock = threading.Lock()

    def call_steadily(self, writer: int, method: str) -> None:
        with self._site.channel() as channel:
            caller = Caller(channel, TOKEN)
            for number in self._ticks(1 / CALLS_PER_SECOND):
                session = f"{writer % 2}-{number // PUTS_PER_SESSION}"
                if method == "Put":
                    self._put(caller, session, f"{writer}/{number}")
                else:
                    self._timed(caller, "Get", session_id=session)

    def connect_steadily(self) -> None:
        for _ in self._ticks(1.0):
            with self._site.channel() as channel:
                error = Caller(channel, TOKEN).error("Get", session_id="0-0",
                                                     timeout=2 * DEADLINE_SECONDS)
                if error is not None:
                    self._count(error, "a new connection")

    def _ticks(self, interval: float) -> Iterator[int]:
        due, number = time.monotonic(), 0
        while self._site.phase.value != ENDING:
            yield number
            number += 1
            due = max(due + interval, time.monotonic() - interval)
            time.sleep(max(0.0, due - time.monotonic()))

    def _put(self, caller: Caller, session: str, text: str) -> None:
        with self._lock:
            self.seen.sent.add(text)
        if self._timed(caller, "Put", session_id=session, messages=[user(text)]):
            with self._lock:
                self.seen.acknowledged[session].append(text)

    def _timed(self, caller: Caller, method: str, **fields) -> bool:
        phase, begin = self._site.phase.value, time.monotonic()
        error = caller.error(method, timeout=DEADLINE_SECONDS, **fields)
        took = time.monotonic() - begin
        with self._lock:
            self.seen.seconds[phase, method].append(took)
        if error is not None:
            self._count(error, method)
        return error is None

    def _count(self, error: grpc.RpcError, what: str) -> None:
        why = ""
        with contextlib.suppress(Exception):  # Not every error has details.
            why = reason(error)
        text = why or (error.details() or "")[:80]
        with self._lock:
            self.seen.errors[f"{what}: {error.code().name} {text}"] += 1
