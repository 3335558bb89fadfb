"""A process that attacks: connections and calls that end with the phase, and crowds of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import grpc

from hostile import floods
from hostile.place import PUT
from hostile.site import ATTACKING, EFFORTS, Site
from support.access import Caller
from support.http2 import Connection
from support.tls import anybody

TOKEN = "attacker"
# Attackers come from an address that the second tenant does not use.
SOURCE = "127.0.0.2"
PAUSE = 0.02


class Over(Exception):
    """The phase has ended."""


class Assailant:
    """An attacker's process: connections and calls that end with the phase."""

    def __init__(self, site: Site, port: str, number: int) -> None:
        self.site = site
        self._number = number
        self.address = {"main": site.target, "health": site.health, "metrics": site.metrics}[port]
        self.method = PUT if port == "main" else floods.CHECK
        self._tls = anybody() if site.ca is not None and port == "main" else None

    def count(self, effort: str, more: int = 1) -> None:
        self.site.efforts[len(EFFORTS) * self._number + EFFORTS.index(effort)] += more

    def going(self) -> bool:
        return self.site.phase.value == ATTACKING

    def pause(self, seconds: float = PAUSE) -> None:
        """Waits; raises Over when the phase ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.check()
            time.sleep(min(PAUSE, seconds))
        self.check()

    def check(self) -> None:
        if not self.going():
            raise Over

    def connect(self, acknowledge: bool) -> Connection:
        made = _Connection(self.address, acknowledge=acknowledge, timeout=1.0, tls=self._tls,
                           source=SOURCE)
        made.assailant = self
        self.count("connections")
        return made

    @contextlib.contextmanager
    def caller(self) -> Iterator[Caller]:
        with self.site.channel() as channel:
            yield CountingCaller(self, channel)


class _Connection(Connection):
    assailant: Assailant | None = None

    def send(self, frames: bytes) -> None:
        if self.assailant is not None:
            self.assailant.check()
            self.assailant.count("bytes", len(frames))
        super().send(frames)


class CountingCaller(Caller):
    def __init__(self, assailant: Assailant, channel: grpc.Channel) -> None:
        super().__init__(channel, TOKEN)
        self._assailant = assailant

    def __call__(self, method: str, request=None, **options):
        self._assailant.count("calls")
        try:
            return super().__call__(method, request, **options)
        except grpc.RpcError:
            self._assailant.count("refused")
            raise


Act = Callable[[Assailant], None]


def crowd(flood: floods.Flood, connections: int = 1, *, acknowledge: bool = False,
          lasts: float = 1e9, nudge: Callable[[Connection], None] | None = None) -> Act:
    """Holds so many connections open and floods each. One is replaced when it was closed, or after
    `lasts` seconds; meanwhile `nudge` is done to each once a second."""
    def act(assailant: Assailant) -> None:
        opened: dict[int, tuple[Connection, float]] = {}
        nudged = time.monotonic()
        try:
            while True:
                for number in range(connections):
                    assailant.check()
                    connection, begun = opened.get(number, (None, 0.0))
                    if connection is None or connection.closed or time.monotonic() - begun > lasts:
                        if connection is not None:
                            connection.close()
                        opened[number] = (assailant.connect(acknowledge), time.monotonic())
                        with contextlib.suppress(OSError):  # No more is read: so it stays.
                            flood(opened[number][0], assailant.method)
                    else:
                        connection.read_what_came()
                if nudge is not None and time.monotonic() - nudged > 1:
                    nudged = time.monotonic()
                    for connection, _ in opened.values():
                        with contextlib.suppress(OSError):
                            nudge(connection)
                assailant.pause()
        finally:
            for connection, _ in opened.values():
                connection.close()
    return act
