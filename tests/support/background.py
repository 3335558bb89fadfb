"""Threads beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self


class Background:
    """Functions on threads of their own, for as long as the context is entered; each is to return
    soon after `ending` is set."""

    def __init__(self, functions: list[Callable[[], None]]) -> None:
        self.ending = threading.Event()
        self._threads = [threading.Thread(target=function) for function in functions]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        for thread in self._threads:
            thread.join()
