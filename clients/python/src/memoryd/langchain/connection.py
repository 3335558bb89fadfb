"""The connections that objects of this module share."""

from __future__ import annotations

from typing import Any

from memoryd import _channels
from memoryd._connection import Connection

__all__ = ["Connection", "connect", "connection_of"]

_lock = _channels.Lock()
# By address, and whether the object named it.
_known: dict[tuple[str, bool], Connection] = {}
_default: Connection | None = None


def connect(target: str | None = None, **options: Any) -> Connection:
    """Sets the connection of every object of this module that is given none. Without `target`, as
    without this call, it comes from the environment: MEMORYD_TARGET, by default localhost:50051,
    with MEMORYD_TOKEN_FILE and MEMORYD_CA_FILE unless the options replace them. `options` are those
    of memoryd.Client."""
    global _default
    _default = Connection(target, **options)
    return _default


def connection_of(target: str | Connection | None) -> Connection:
    """Returns the connection for an object's `target`. Objects with the same address share one."""
    if isinstance(target, Connection):
        return target
    if target is None and _default is not None:
        return _default
    made = Connection(target)
    with _lock:
        return _known.setdefault((made.target, bool(target)), made)
