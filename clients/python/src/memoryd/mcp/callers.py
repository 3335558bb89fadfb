"""Whose memory a call to an MCP server is about. A model never says it."""

from __future__ import annotations

import contextvars
import dataclasses
import re
from typing import Any

import grpc
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.exceptions import ToolError

from memoryd.aio import AsyncClient
from memoryd.errors import MemorydError
from memoryd.mcp.memories import Memories
from memoryd.v1 import server_service_pb2 as wire

# What gRPC's metadata can carry of a token.
_VISIBLE = re.compile(r"[!-~]+")

_token: contextvars.ContextVar[str] = contextvars.ContextVar("memoryd_mcp_token")
_user: contextvars.ContextVar[str] = contextvars.ContextVar("memoryd_mcp_user")


@dataclasses.dataclass(frozen=True)
class Callers:
    """Tells the user of the call that is being handled. `user` is that of all calls; without one
    each call's own credential tells it."""

    client: AsyncClient
    user: str | None
    template: str = ""

    def memories(self) -> Memories:
        """Returns the memory of the user who calls. Raises ToolError if nobody knows who does."""
        user = self.user or _user.get("")
        if not user:
            raise ToolError("the credential of this call stands for no user. It needs a `subject`")
        return Memories(self.client, user, template=self.template)

    async def handle(self, ctx: ServerRequestContext[Any, Any],
                     call_next: CallNext) -> HandlerResult:
        """Has each message handled for the user of its own HTTP request, which is not always the
        one that began the MCP session. For MCPServer's `middleware`."""
        caller = getattr(ctx.request, "scope", {}).get("user")
        token = caller.access_token if isinstance(caller, AuthenticatedUser) else None
        previous = (_token.set(token.token if token else ""),
                    _user.set((token.subject or "") if token else ""))
        try:
            return await call_next(ctx)
        finally:
            _token.reset(previous[0])
            _user.reset(previous[1])


def token_of_call() -> str:
    """The token that came with the call that is being handled. For AsyncClient's `token`."""
    return _token.get("")


async def caller_of(client: AsyncClient) -> wire.CallerDescription:
    """Returns who calls, as the server sees it. Raises MemorydError as the client does, and
    UNIMPLEMENTED for a server that is too old to tell."""
    info = await client.server_info()
    if not info.HasField("caller"):
        raise MemorydError(
            grpc.StatusCode.UNIMPLEMENTED,
            f"the server, version {info.version}, does not tell who calls; take a newer one")
    return info.caller


class Verifier:
    """An MCP TokenVerifier that asks memoryd. `client` has `token_of_call` as its token."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def verify_token(self, token: str) -> AccessToken | None:
        """Returns who has the token. None: memoryd refuses it, or it stands for no one user.
        Raises MemorydError if memoryd does not say."""
        if not _VISIBLE.fullmatch(token):
            return None
        previous = _token.set(token)
        try:
            caller = await caller_of(self._client)
        except MemorydError as error:
            if error.code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT):
                return None
            raise
        finally:
            _token.reset(previous)
        if not caller.subject:
            return None
        # A renewed token of the same user goes on with his MCP session.
        return AccessToken(token=token, client_id=caller.tenant, scopes=list(caller.rights),
                           subject=caller.subject)
