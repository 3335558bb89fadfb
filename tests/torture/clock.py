"""A server's clock that is wrong, and jumps."""

from __future__ import annotations

import pathlib
import random

_LIBRARY = "faketime/libfaketime.so.1"


class SkewedClock:
    """The wall clock of one server after the other, by libfaketime: `seconds` ahead or behind, which
    jump() chooses anew. Clocks that only go on, and the times of files, are right."""

    def __init__(self, folder: pathlib.Path, seconds: float, seed: int) -> None:
        self._file = folder / "clock"
        self._seconds = seconds
        self._chance = random.Random(f"clock {seed}")
        self._library = next(pathlib.Path("/usr/lib").glob(f"*/{_LIBRARY}"), None)
        if self._library is None:
            raise RuntimeError("libfaketime is not installed: tools/install_packages.sh torture")
        self.jump()

    def jump(self) -> None:
        """A server that runs sees it within a second."""
        sign = self._chance.choice((-1, 1))
        self._file.write_text(f"{sign * self._seconds:+.0f}s\n")

    def environment(self, variables: dict[str, str]) -> dict[str, str]:
        """That of the next server, `variables` included."""
        preload = [variables["LD_PRELOAD"]] if "LD_PRELOAD" in variables else []
        return {**variables, "LD_PRELOAD": ":".join([str(self._library), *preload]),
                "FAKETIME_TIMESTAMP_FILE": str(self._file), "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
