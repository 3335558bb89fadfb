"""Where a client finds its server when the program does not say: the variables MEMORYD_…

    MEMORYD_TARGET            HOST:PORT or unix:PATH; default localhost:50051
    MEMORYD_TOKEN_FILE        file with a bearer token, read at every call
    MEMORYD_CA_FILE           PEM file of the certificates to trust; turns TLS on, but for unix:PATH
    MEMORYD_CLIENT_CERT_FILE  PEM file: the certificate to show, for a server with `tls_client_ca`
    MEMORYD_CLIENT_KEY_FILE   PEM file: its key

They are those of memoryd's own commands. MEMORYD_ADDRESS and MEMORYD_URI are earlier names of the
address: they are read where MEMORYD_TARGET is not set, with one DeprecationWarning each.
"""

from __future__ import annotations

import os
import pathlib
import sys
import urllib.parse
import warnings
from collections.abc import Callable
from typing import TypeVar

import grpc

from memoryd._uris import SCHEME, Uri, is_ours

Token = TypeVar("Token")

DEFAULT_TARGET = "localhost:50051"
TARGET = "MEMORYD_TARGET"
TOKEN_FILE = "MEMORYD_TOKEN_FILE"
CA_FILE = "MEMORYD_CA_FILE"
CLIENT_CERT_FILE = "MEMORYD_CLIENT_CERT_FILE"
CLIENT_KEY_FILE = "MEMORYD_CLIENT_KEY_FILE"
# The earlier names.
ADDRESS = "MEMORYD_ADDRESS"
URI = "MEMORYD_URI"

_warned: set[str] = set()


def target() -> str:
    """The server's address. Raises ValueError for one that is no HOST:PORT or unix:PATH."""
    if given := os.environ.get(TARGET):
        return _address(given, TARGET)
    if given := os.environ.get(ADDRESS):
        _warn_of(ADDRESS)
        return _address(given, ADDRESS)
    uri = _earlier_uri()
    return DEFAULT_TARGET if uri is None else uri.address


def connection(
    given: str | None,
    credentials: grpc.ChannelCredentials | None = None,
    token: Token | None = None,
) -> tuple[str, grpc.ChannelCredentials | None, Token | Callable[[], str] | None]:
    """Address, credentials and token of a client that was given these. The environment is asked
    only where no address is given: its token is for its server alone."""
    if given is not None:
        return given, credentials, token
    address = target()
    reads: Callable[[], str] | None = token_of_file()
    if not any(os.environ.get(name) for name in (TARGET, ADDRESS)):
        uri = _earlier_uri()
        if uri is not None:
            credentials = credentials or uri.credentials
            reads = uri.token_reader or reads
    return address, credentials or credentials_for(address), token or reads


def credentials_for(address: str) -> grpc.ChannelCredentials | None:
    """TLS with what MEMORYD_CA_FILE trusts; None where that is not set, and for UNIX sockets, on
    which a server has no TLS."""
    if not os.environ.get(CA_FILE) or address.startswith("unix:"):
        return None
    return grpc.ssl_channel_credentials(
        _bytes(CA_FILE), _bytes(CLIENT_KEY_FILE), _bytes(CLIENT_CERT_FILE))


def token_of_file() -> Callable[[], str] | None:
    """What reads MEMORYD_TOKEN_FILE; None where that is not set."""
    named = os.environ.get(TOKEN_FILE)
    if not named:
        return None
    path = pathlib.Path(named).absolute()
    return lambda: path.read_text(encoding="utf-8").strip()


def uri() -> str | None:
    """The same as a URI `memoryd://…`, for what takes one; None where no address is set.

    MEMORYD_URI comes first here, since it may have a space and parameters, which MEMORYD_TARGET has
    not."""
    if given := os.environ.get(URI):
        if is_ours(given):
            _warn_of(URI)
        return given
    if not os.environ.get(TARGET) and not os.environ.get(ADDRESS):
        return None
    address = target()
    parameters = {}
    if os.environ.get(TOKEN_FILE):
        parameters["token_file"] = os.environ[TOKEN_FILE]
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        path = path.removeprefix("//") if path.startswith("///") else os.path.abspath(path)
        made = f"{SCHEME}://{urllib.parse.quote(path)}"
    else:
        made = f"{SCHEME}://{address.removeprefix('dns:///')}"
        if os.environ.get(CA_FILE):
            parameters["ca_file"] = os.environ[CA_FILE]
    return f"{made}?{urllib.parse.urlencode(parameters)}" if parameters else made


def _earlier_uri() -> Uri | None:
    """What MEMORYD_URI says; None where it is not set, or names a database of another kind."""
    given = os.environ.get(URI)
    if not is_ours(given):
        return None
    assert given is not None
    _warn_of(URI)
    return Uri(given, field=URI)


def _address(given: str, variable: str) -> str:
    address = given.removeprefix(f"{SCHEME}://").rstrip("/") if is_ours(given) else given
    if is_ours(given) and (not address or "/" in address or "?" in address):
        raise ValueError(f"{variable}: must be HOST:PORT or unix:PATH; got {given!r}. Give a space "
                         "and parameters in the program, as async_database_uri")
    return address


def _bytes(variable: str) -> bytes | None:
    path = os.environ.get(variable)
    return pathlib.Path(path).read_bytes() if path else None


def _warn_of(variable: str) -> None:
    if variable in _warned:
        return
    _warned.add(variable)
    # The line of the program's that led here.
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("memoryd"):
        level, frame = level + 1, frame.f_back
    more = ("; a space and parameters go into the program, as async_database_uri"
            if variable == URI else "")
    warnings.warn(f"the variable {variable} is deprecated: set {TARGET} to HOST:PORT or "
                  f"unix:PATH{more}", DeprecationWarning, stacklevel=level)
