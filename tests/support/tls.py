"""Certificates made for a test, and connections that use them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import ssl
import subprocess

import grpc

from support.server import CHANNEL_OPTIONS


@dataclasses.dataclass(frozen=True)
class Identity:
    """A certificate and its key, as PEM files."""

    certificate: pathlib.Path
    key: pathlib.Path


class Authority:
    """A certificate authority of one's own, in a folder."""

    def __init__(self, folder: pathlib.Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._issued = 0
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl("req", "-x509", *_KEY, "-keyout", self._key, "-out", self.certificate,
                 "-subj", f"/CN={name}", "-days", "2")

    def issue(self, names: str = "", common_name: str = "memoryd", days: int = 2) -> Identity:
        """A certificate for `names`, such as `DNS:localhost,URI:spiffe://x/y`; with negative
        `days` one that has expired."""
        self._issued += 1
        base = self._folder / f"{self.certificate.stem}-{self._issued}"
        made = Identity(base.with_suffix(".pem"), base.with_suffix(".key"))
        request, extensions = base.with_suffix(".csr"), base.with_suffix(".ext")
        subject = "/CN=" + common_name.replace("/", "\\/")
        _openssl("req", *_KEY, "-keyout", made.key, "-out", request, "-subj", subject)
        extensions.write_text(f"subjectAltName={names}\n" if names else "")
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
                 "-set_serial", str(self._issued), "-days", str(days), "-extfile", extensions,
                 "-out", made.certificate)
        os.chmod(made.key, 0o600)
        return made


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
SERVER_NAMES = "DNS:localhost,IP:127.0.0.1"


def anybody() -> ssl.SSLContext:
    """A client that takes whoever answers for its server, over HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def _openssl(*arguments: object) -> None:
    command = ["openssl", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")


def server_arguments(identity: Identity, client_ca: pathlib.Path | None = None) -> list[str]:
    """The settings of a server that shows `identity` and asks for certificates of `client_ca`."""
    arguments = [f"--tls-cert={identity.certificate}", f"--tls-key={identity.key}"]
    if client_ca is not None:
        arguments.append(f"--tls-client-ca={client_ca}")
    return arguments


def secure_channel(target: str, root: pathlib.Path, client: Identity | None = None,
                   token: str | None = None) -> grpc.Channel:
    """A connection of its own to a server whose certificate `root` signed."""
    pair = (None, None)
    if client is not None:
        pair = (client.key.read_bytes(), client.certificate.read_bytes())
    credentials = grpc.ssl_channel_credentials(root.read_bytes(), *pair)
    if token is not None:
        credentials = grpc.composite_channel_credentials(
            credentials, grpc.access_token_call_credentials(token))
    # The least back-off is also how long a handshake may take.
    options = dict(CHANNEL_OPTIONS) | {"grpc.min_reconnect_backoff_ms": 20_000}
    return grpc.secure_channel(target, credentials, options=list(options.items()))
