"""Reads beside changes: what comes between the look at whose something is, and the read."""

from __future__ import annotations

import collections
import concurrent.futures
import threading
from collections.abc import Callable, Sequence

LEAST_ROUNDS = 50
MOST_ROUNDS = 1000


def read_beside(change: Callable[[], None], read: Callable[[str], str], methods: Sequence[str],
                wanted: set[str]) -> collections.Counter[str]:
    """Reads by each method in turn while another thread makes the change over and over, and counts
    what `read` returns: for some rounds, and until all that is wanted was among it."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            change()

    seen: collections.Counter[str] = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        changing = pool.submit(repeat)
        try:
            for number in range(MOST_ROUNDS):
                seen.update(map(read, methods))
                if changing.done() or (number >= LEAST_ROUNDS and wanted <= seen.keys()):
                    break
        finally:
            stop.set()
        changing.result()
    return seen
