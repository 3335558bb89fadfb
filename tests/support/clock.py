"""A clock of the day that a test moves, for a server of its own."""

from __future__ import annotations

import contextlib
import mmap
import os
import pathlib
import struct
import tempfile
from collections.abc import Iterator, Mapping

from support.paths import CLOCK_AHEAD

_AHEAD = struct.Struct("<q")


class Clock:
    """How far a server's clock is ahead of the machine's. It goes forward only."""

    def __init__(self, path: pathlib.Path) -> None:
        path.write_bytes(bytes(_AHEAD.size))
        with path.open("r+b") as file:
            self._ahead = mmap.mmap(file.fileno(), _AHEAD.size)
        # The environment of the server.
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": os.fspath(CLOCK_AHEAD), "CLOCK_AHEAD_FILE": os.fspath(path)}

    def advance(self, seconds: float) -> None:
        ahead, = _AHEAD.unpack(self._ahead)
        self._ahead[:] = _AHEAD.pack(ahead + round(seconds * 1e9))


@contextlib.contextmanager
def moved_clock() -> Iterator[Clock]:
    with tempfile.TemporaryDirectory(prefix="memoryd-clock-") as folder:
        yield Clock(pathlib.Path(folder) / "ahead")
