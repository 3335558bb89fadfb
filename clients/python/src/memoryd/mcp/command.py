"""The command `memoryd mcp`."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import pathlib
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl, ValidationError
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memoryd import _environment, users
from memoryd._local import local_async
from memoryd.aio import AsyncClient
from memoryd.errors import MemorydError
from memoryd.mcp.callers import Callers, Verifier, caller_of, token_of_call
from memoryd.mcp.server import make_server

_ADDRESS = "127.0.0.1:8765"
_PATH = "/mcp"
# Of an MCP session that nobody uses, in seconds.
_IDLE = 1800.0
_MAX_SESSIONS = 10_000
# For calls that have begun, once the command is told to end; streams are open for hours.
_GRACE_SECONDS = 5

_DESCRIPTION = """Serves the memory of users to MCP clients: Claude Desktop, an IDE, an agent.

Without --http the client starts this command and speaks to it by standard input and output. All
that it does is then about one user: --user, or the subject of the credential that the environment
names. With --http any number of clients speak to it by streamable HTTP, each with a bearer token of
its own, which goes on to memoryd. The subject of the token is the user."""

_EPILOG = """The server is --target or MEMORYD_TARGET. If there is neither, a private one is
started, which keeps its memory in --path. MEMORYD_TOKEN_FILE and MEMORYD_CA_FILE are as for all
clients."""


class _Refused(Exception):
    """The command cannot do what its arguments ask."""


def main(arguments: Sequence[str]) -> int:
    """Runs the command until its client is gone, or with --http until it is interrupted. Returns
    the exit status: 2 for arguments that cannot be, 1 for another failure."""
    given = _parser().parse_args(arguments)
    try:
        asyncio.run(_run(given))
    except KeyboardInterrupt:
        return 130
    except _Refused as error:
        print(f"memoryd mcp: {error}", file=sys.stderr)
        return 2
    except (MemorydError, OSError) as error:
        print(f"memoryd mcp: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="memoryd mcp", description=_DESCRIPTION, epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--user", metavar="USER",
                        help="the user whose memory it is. With --http only on loopback")
    parser.add_argument("--target", metavar="ADDRESS", help="the server: HOST:PORT or unix:PATH")
    parser.add_argument("--path", metavar="FOLDER", type=pathlib.Path,
                        help=f"the folder of a private server; default {_folder()}")
    parser.add_argument("--memory-template", metavar="NAME", default="",
                        help="the server's template for the memory of users who have none yet")
    parser.add_argument("--http", metavar="HOST:PORT", nargs="?", const=_ADDRESS,
                        help=f"serve streamable HTTP at {_PATH}; default {_ADDRESS}. "
                        "Port 0 takes a free one")
    parser.add_argument("--allowed-host", metavar="HOST", action="append", default=[],
                        help="with --http: a value of the header Host, such as mcp.example.org, "
                        "that requests may have. May be repeated")
    parser.add_argument("--issuer", metavar="URL",
                        help="with --http: where clients get tokens (OAuth 2). Wants --resource")
    parser.add_argument("--resource", metavar="URL",
                        help="with --issuer: the address of this server, as clients know it")
    return parser


async def _run(given: argparse.Namespace) -> None:
    if given.target and given.path:
        raise _Refused("--path: is for a private server. Leave it out, or --target")
    if given.user is not None:
        try:
            users.session_of(given.user)
        except ValueError as error:
            raise _Refused(f"--user: {error}") from None
    for name in ("issuer", "resource", "allowed_host"):
        if getattr(given, name) and not given.http:
            raise _Refused(f"--{name.replace('_', '-')}: is for --http")
    if bool(given.issuer) != bool(given.resource):
        raise _Refused("--issuer and --resource: one wants the other")
    async with AsyncExitStack() as stack:
        if given.http:
            await _serve_http(given, stack)
        else:
            await _serve_stdio(given, stack)


async def _serve_stdio(given: argparse.Namespace, stack: AsyncExitStack) -> None:
    client = await _client(given, stack)
    user = given.user or (await caller_of(client)).subject
    if not user:
        raise _Refused("--user: is missing, and the credential of this client has no `subject`. "
                       "Say whose memory it is")
    await make_server(Callers(client, user, given.memory_template)).run_stdio_async()


async def _serve_http(given: argparse.Namespace, stack: AsyncExitStack) -> None:
    host, port = _address(given.http)
    if given.user:
        if not _is_loopback(host):
            raise _Refused(f"--user: with --http {given.http}, anybody who reaches that address "
                           "would have this user's memory. Leave it out: each caller's token "
                           "tells the user")
        server = make_server(Callers(await _client(given, stack), given.user,
                                     given.memory_template))
    else:
        client = await stack.enter_async_context(_client_of_callers(given))
        server = make_server(Callers(client, None, given.memory_template),
                             verifier=Verifier(client), auth=_auth(given))
    await serve_http(server, host, port, given.allowed_host)


async def serve_http(server: MCPServer[Any], host: str, port: int,
                     allowed_hosts: Sequence[str] = ()) -> None:
    """Serves streamable HTTP until it is cancelled or interrupted. Prints the address when clients
    can connect. Raises OSError if it cannot listen there."""
    listener = _listener(host, port)
    app = server.streamable_http_app(
        streamable_http_path=_PATH, session_idle_timeout=_IDLE, max_sessions=_MAX_SESSIONS,
        transport_security=_security(host, allowed_hosts))
    app.add_middleware(_WithMemoryd)
    shown = f"[{host}]" if ":" in host else host
    print(f"memoryd mcp serves http://{shown}:{listener.getsockname()[1]}{_PATH}",
          file=sys.stderr, flush=True)
    await uvicorn.Server(uvicorn.Config(
        app, log_level="warning", access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS)).serve(sockets=[listener])


class _WithMemoryd:
    """Answers 503 for memoryd where it does not say who has a token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except MemorydError as error:
            # The message of an error may name the server's address: it is for the operator.
            print(f"memoryd mcp: {error}", file=sys.stderr, flush=True)
            await PlainTextResponse(
                f"memoryd does not say whose token this is: {error.code.name}. Try again later.\n",
                503, {"Retry-After": "1"})(scope, receive, send)


async def _client(given: argparse.Namespace, stack: AsyncExitStack) -> AsyncClient:
    """A client with the environment's credential, of a private server if no other is named."""
    if not given.target and not _has_target():
        return await stack.enter_async_context(await local_async(given.path or _folder()))
    return await stack.enter_async_context(_connected(given.target))


def _client_of_callers(given: argparse.Namespace) -> AsyncClient:
    """A client that has the token of the call that is being handled, and none of its own."""
    if not given.target and not _has_target():
        raise _Refused("--target: is missing. A private server knows no users' tokens; name a "
                       "server with `credentials`, or give --user")
    address = given.target or _environment.target()
    return AsyncClient(address, credentials=_environment.credentials_for(address),
                       token=token_of_call)


def _connected(target: str | None) -> AsyncClient:
    if target is None:
        return AsyncClient()
    return AsyncClient(target, credentials=_environment.credentials_for(target),
                       token=_environment.token_of_file())


def _has_target() -> bool:
    return any(os.environ.get(name) for name in (
        _environment.TARGET, _environment.ADDRESS, _environment.URI))


def _folder() -> pathlib.Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return pathlib.Path(state).expanduser() / "memoryd" / "mcp"


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise _Refused(f"--http: must be HOST:PORT, such as {_ADDRESS}; got {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listener(host: str, port: int) -> socket.socket:
    family, *_, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise OSError(f"--http: cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


def _security(host: str, allowed: Sequence[str]) -> TransportSecuritySettings:
    """A page of another site must not reach a server on loopback by a name that it has pointed
    there (DNS rebinding)."""
    hosts = [name for one in allowed for name in (one, f"{one}:*")]
    origins = [f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")]
    if _is_loopback(host):
        local = ["127.0.0.1", "localhost", "[::1]"]
        hosts += [f"{name}:*" for name in local]
        origins += [f"http://{name}:*" for name in local]
    # Elsewhere the names are the operator's to give, and every request has a token.
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=bool(hosts), allowed_hosts=hosts, allowed_origins=origins)


def _auth(given: argparse.Namespace) -> AuthSettings:
    try:
        # memoryd checks the token's audience: `jwt_audience`.
        return AuthSettings(
            issuer_url=AnyHttpUrl(given.issuer or "http://localhost"),
            resource_server_url=AnyHttpUrl(given.resource) if given.resource else None,
            validate_token_resource=False)
    except ValidationError:
        raise _Refused("--issuer and --resource: must be URLs, such as "
                       "https://mcp.example.org/mcp") from None
