"""Where memoryd is, for objects that are made by the dozen and share connections."""

from __future__ import annotations

import functools
import os
from typing import Any

from memoryd import AsyncClient, Client, _channels


class Connection:
    """A memoryd: one client for all threads and one for all event loops."""

    def __init__(self, target: str, **options: Any) -> None:
        """`target` is a gRPC address, `memoryd://` before it or not; `options` are those of
        memoryd.Client: timeout, credentials, token."""
        self.target = target.removeprefix("memoryd://")
        self._options = options

    @functools.cached_property
    def client(self) -> Client:
        return Client(self.target, **self._options)

    @functools.cached_property
    def async_client(self) -> AsyncClient:
        return AsyncClient(self.target, **self._options)

    def __deepcopy__(self, _: Any) -> Connection:
        return self  # A copy of a memory speaks to the same server.

    def __getstate__(self) -> dict[str, Any]:
        # In another process it connects by itself.
        return {"target": self.target, "_options": self._options}

    def __repr__(self) -> str:
        return f"Connection({self.target!r})"


_lock = _channels.Lock()
_known: dict[str, Connection] = {}
_default: Connection | None = None


def connect(target: str | None = None, **options: Any) -> Connection:
    """The connection, from now on, of every object of this module that names none. Without a target
    it is MEMORYD_TARGET of the environment or else localhost:50051, as it is without this call.
    `options` are those of memoryd.Client."""
    global _default
    _default = Connection(target or _usual_target(), **options)
    return _default


def connection_of(target: str | Connection | None) -> Connection:
    """The connection that an object's `target` means; those with the same address share one."""
    if isinstance(target, Connection):
        return target
    if target is None and _default is not None:
        return _default
    address = target or _usual_target()
    with _lock:
        return _known.setdefault(address, Connection(address))


def _usual_target() -> str:
    return os.environ.get("MEMORYD_TARGET") or "localhost:50051"
