"""The highest of values by time."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable


class Highest:
    """The highest value of pairs (time, value) before a time, `least` when there is none."""

    def __init__(self, pairs: Iterable[tuple[float, float]], least: float = 0) -> None:
        ordered = sorted(pairs)
        self._times = [time for time, _ in ordered]
        self._highest = list(
            itertools.accumulate((value for _, value in ordered), max, initial=least))

    def before(self, time: float) -> float:
        return self._highest[bisect.bisect_left(self._times, time)]
