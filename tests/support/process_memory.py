"""Memory and processor time of another process."""

from __future__ import annotations

import pathlib
import re


class PeakMemory:
    """How far a process's resident memory rises from here on."""

    def __init__(self, pid: int) -> None:
        self._folder = pathlib.Path("/proc") / str(pid)
        # Sets the peak back to what is resident now.
        (self._folder / "clear_refs").write_text("5")
        self._begin = self._kib("VmRSS")

    def grown_mib(self) -> float:
        return (self._kib("VmHWM") - self._begin) / 1024

    def held_mib(self) -> float:
        """What of the growth is still there."""
        return (self._kib("VmRSS") - self._begin) / 1024

    def _kib(self, name: str) -> int:
        status = (self._folder / "status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
        assert found, status
        return int(found[1])
