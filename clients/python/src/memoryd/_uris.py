"""The memoryd that a URI names."""

from __future__ import annotations

import pathlib
import urllib.parse
from collections.abc import Callable
from typing import Any

import grpc

SCHEME = "memoryd"
_PARAMETERS = ("ca_file", "timeout", "tls", "token_file")


def is_ours(uri: str | None) -> bool:
    """Whether a URI names a memoryd."""
    return uri is not None and uri.split(":", 1)[0] == SCHEME


class Uri:
    """Where `memoryd://HOST:PORT[/SPACE][?PARAMETERS]` leads; `memoryd:///PATH` is a UNIX socket.

    Keys of different spaces never meet. Parameters: `tls=true`, `ca_file=PATH` of the certificates
    to trust (implies tls), `token_file=PATH` of a bearer token, read at every call, so that it may
    be rotated, and `timeout=SECONDS` of a call. No secret stands in a URI, so it can be dumped.

    Raises ValueError for anything else, naming the URI's part at fault.
    """

    def __init__(
        self,
        uri: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str] | None = None,
        field: str = "async_database_uri",
    ) -> None:
        """`credentials` and `token` are those of memoryd.Client, and win over the URI's;
        `field` is what errors call the URI."""
        parts = urllib.parse.urlsplit(uri)
        if parts.scheme != SCHEME:
            raise ValueError(f"{field}: {uri!r} does not begin with memoryd://")
        if parts.username is not None or parts.password is not None:
            raise ValueError(f"{field}: a credential goes into token_file, not the URI")
        parameters = dict(urllib.parse.parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        for name in parameters:
            if name not in _PARAMETERS:
                raise ValueError(
                    f"{field}: there is no parameter {name!r}, only "
                    f"{', '.join(_PARAMETERS)}"
                )
        if parts.netloc:
            if parts.port is None:
                raise ValueError(f"{field}: {uri!r} has no port")
            self.address = parts.netloc
            self.space = urllib.parse.unquote(parts.path.strip("/"))
        elif parts.path.strip("/"):
            self.address = f"unix:{urllib.parse.unquote(parts.path)}"
            self.space = ""
        else:
            raise ValueError(f"{field}: {uri!r} names no host")
        self.timeout = float(parameters.get("timeout", 10.0))
        # A path means what it meant when it was given, also after a change of the folder.
        token_file = parameters.get("token_file")
        token_path = pathlib.Path(token_file).absolute() if token_file else None
        tls, roots = _tls(parameters, field)
        # What was given in code, which no dump has.
        self.given = (credentials, token)
        self.is_given = credentials is not None or token is not None
        # What tells the ways to a server apart; None for one that nobody else can be known to go.
        self.identity = None if self.is_given else (
            self.address, self.timeout, tls, roots, token_path)
        self.credentials = credentials
        if credentials is None and tls:
            self.credentials = grpc.ssl_channel_credentials(roots)
        # What reads `token_file`; None without one.
        self.token_reader: Callable[[], str] | None = None
        if token_path is not None:
            self.token_reader = lambda: token_path.read_text(encoding="utf-8").strip()
        self.token = self.token_reader if token is None else token

    def options(self) -> dict[str, Any]:
        """The arguments for memoryd.Client and memoryd.Worker but the address."""
        return {"credentials": self.credentials, "token": self.token}


def _tls(parameters: dict[str, str], field: str) -> tuple[bool, bytes | None]:
    """Whether there is TLS, and the certificates to trust, None for the system's."""
    tls = parameters.get("tls", "true" if "ca_file" in parameters else "false")
    if tls not in ("true", "false"):
        raise ValueError(f"{field}: tls is true or false, not {tls!r}")
    ca_file = parameters.get("ca_file") if tls == "true" else None
    return tls == "true", pathlib.Path(ca_file).read_bytes() if ca_file else None
