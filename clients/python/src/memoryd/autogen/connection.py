"""The clients of one memory object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import grpc
from autogen_core import CancellationToken

from memoryd import AsyncClient, Client, _environment

Result = TypeVar("Result")


class Connection:
    """A server's address with its credentials. It connects at the first use, and again after
    close().

    Arguments that are not given come from the environment: MEMORYD_TARGET (else `localhost:50051`),
    MEMORYD_TOKEN_FILE, whose token is read at every call, and MEMORYD_CA_FILE, which turns on TLS.
    So a component loads from its dump alone, which contains no secret.
    """

    def __init__(
        self,
        target: str | None,
        timeout: float,
        credentials: grpc.ChannelCredentials | None,
        token: str | Callable[[], str] | None,
    ) -> None:
        self.target = target or _environment.target()
        self._arguments: dict[str, Any] = {
            "timeout": timeout,
            "credentials": credentials or _environment.credentials_for(self.target),
            "token": token or _environment.token_of_file(),
        }
        self._client: Client | None = None
        self._async_client: AsyncClient | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A copy, here or in another process, connects by itself.
        return {**self.__dict__, "_client": None, "_async_client": None}

    def client(self) -> Client:
        if self._client is None:
            self._client = Client(self.target, **self._arguments)
        return self._client

    def async_client(self) -> AsyncClient:
        if self._async_client is None:
            self._async_client = AsyncClient(self.target, **self._arguments)
        return self._async_client

    async def close(self) -> None:
        """Closes the open clients."""
        client, self._client = self._client, None
        async_client, self._async_client = self._async_client, None
        if client is not None:
            client.close()
        if async_client is not None:
            await async_client.close()


async def cancellable(
    call: Coroutine[Any, Any, Result], token: CancellationToken | None
) -> Result:
    """Returns the result of the call. Raises asyncio.CancelledError once the token is cancelled."""
    task = asyncio.ensure_future(call)
    if token is not None:
        token.link_future(task)
    return await task
