"""The address of memoryd, for objects that are made often and share connections."""

from __future__ import annotations

import functools
from typing import Any

from memoryd import AsyncClient, Client, _environment


class Connection:
    """A connection to memoryd: one client for all threads and one for all event loops."""

    def __init__(self, target: str | None = None, **options: Any) -> None:
        """`target` is a gRPC address, with or without `memoryd://`. Without one it comes from the
        environment, as for memoryd.Client. `options` are Client's: timeout, credentials, token."""
        self.target = (target or _environment.target()).removeprefix("memoryd://")
        self._is_of_environment = not target
        self._options = options

    @functools.cached_property
    def client(self) -> Client:
        return Client(self.target, **self._all_options())

    @functools.cached_property
    def async_client(self) -> AsyncClient:
        return AsyncClient(self.target, **self._all_options())

    def _all_options(self) -> dict[str, Any]:
        if not self._is_of_environment:
            return self._options
        _, credentials, token = _environment.connection(
            None, self._options.get("credentials"), self._options.get("token"))
        return {**self._options, "credentials": credentials, "token": token}

    def __deepcopy__(self, _: Any) -> Connection:
        return self  # A copy of a memory speaks to the same server.

    def __getstate__(self) -> dict[str, Any]:
        # In another process it connects by itself.
        return {"target": self.target, "_options": self._options,
                "_is_of_environment": self._is_of_environment}

    def __repr__(self) -> str:
        return f"Connection({self.target!r})"
