"""Connections that objects share. Frameworks make a session or a history for each request."""

from __future__ import annotations

from typing import Any

from memoryd import _channels
from memoryd._connection import Connection

_lock = _channels.Lock()
_known: dict[tuple[Any, ...], Connection] = {}


def connection_of(target: str | Connection | None, options: dict[str, Any]) -> Connection:
    """Returns the connection for an object's `target` and `options`, which are those of
    memoryd.Client. Objects with the same ones share it; it lasts as long as the process, and works
    in its forks too. Raises TypeError for options beside a Connection, which has its own."""
    if isinstance(target, Connection):
        if options:
            raise TypeError(f"{', '.join(options)}: give these to the Connection")
        return target
    made = Connection(target, **options)
    try:
        key = (made.target, bool(target), *sorted(options.items()))
        with _lock:
            return _known.setdefault(key, made)
    except TypeError:  # Options that can't be compared, such as a list of channel arguments.
        return made
