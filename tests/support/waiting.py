"""Waiting for what a server does by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def wait_for(condition: Callable[[], Value], attempts: int = 1000) -> Value:
    """What `condition` returns as soon as that is true; it is asked every 10 ms."""
    for _ in range(attempts):
        value = condition()
        if value:
            return value
        threading.Event().wait(0.01)
    raise AssertionError(f"it never held: {condition()!r}")
