"""Control groups that bound the memory of a server under test, version 1 or 2."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from typing import Self

_V1 = pathlib.Path("/sys/fs/cgroup/memory")
_V2 = pathlib.Path("/sys/fs/cgroup")
_ENTER = 'echo $$ > "$0" && exec "$@"'


class MemoryGroup:
    """A control group of its own with a limit of `mib`, swap included.

    OSError where none may be made. `before` is what a server needs to be started in it. Leaving the
    context removes the group, whose processes must have ended.
    """

    def __init__(self, mib: int) -> None:
        self._v1 = (_V1 / "memory.limit_in_bytes").exists()
        if not self._v1:
            with contextlib.suppress(OSError):
                (_V2 / "cgroup.subtree_control").write_text("+memory")
        name = f"memoryd-test-{os.getpid()}-{time.monotonic_ns()}"
        self._folder = (_V1 if self._v1 else _V2) / name
        self._folder.mkdir()
        try:
            self._limit(mib << 20)
        except OSError:
            self._folder.rmdir()
            raise
        self.before = ["sh", "-c", _ENTER, str(self._folder / "cgroup.procs")]

    def _limit(self, size: int) -> None:
        if self._v1:
            (self._folder / "memory.limit_in_bytes").write_text(str(size))
            with contextlib.suppress(OSError):  # The kernel may not count swap.
                (self._folder / "memory.memsw.limit_in_bytes").write_text(str(size))
        else:
            (self._folder / "memory.max").write_text(str(size))
            with contextlib.suppress(OSError):
                (self._folder / "memory.swap.max").write_text("0")

    def peak_mib(self) -> float:
        """The most that was charged to the group, the page cache included."""
        name = "memory.max_usage_in_bytes" if self._v1 else "memory.peak"
        try:
            return int((self._folder / name).read_text()) / (1 << 20)
        except OSError:  # memory.peak came with Linux 5.19.
            return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _attempt in range(100):
            try:
                self._folder.rmdir()
                return
            except OSError:  # A process that has ended may still be listed.
                time.sleep(0.05)
