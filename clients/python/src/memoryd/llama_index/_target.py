"""The memoryd that a URI names, and clients of it."""

from __future__ import annotations

import weakref
from typing import Any

from memoryd import AsyncClient, _channels
from memoryd._environment import uri as default_uri
from memoryd._uris import Uri as Target
from memoryd._uris import is_ours

__all__ = ["Target", "client_of", "default_uri", "is_ours"]

_lock = _channels.Lock()
_clients: weakref.WeakValueDictionary[tuple[Any, ...], AsyncClient] = weakref.WeakValueDictionary()


def client_of(target: Target) -> AsyncClient:
    """A client, one for all who reach the same server in the same way."""
    if target.identity is None:
        return AsyncClient(target.address, timeout=target.timeout, **target.options())
    with _lock:
        client = _clients.get(target.identity)
        if client is None:
            client = AsyncClient(target.address, timeout=target.timeout, **target.options())
            _clients[target.identity] = client
        return client
