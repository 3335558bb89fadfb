"""JSON Web Tokens made for a test, and the JWKS file of whoever signs them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import pathlib
import subprocess
import time
from collections.abc import Iterable

ISSUER = "https://issuer.example"
AUDIENCE = "memoryd"


class SigningKey:
    """An RSA key of a test's own, which signs RS256."""

    def __init__(self, folder: pathlib.Path, kid: str) -> None:
        self.kid = kid
        self._key = folder / f"{kid}.key"
        _openssl("genrsa", "-out", self._key, "2048")
        modulus = _openssl("rsa", "-in", self._key, "-noout", "-modulus").decode().strip()
        number = bytes.fromhex(modulus.removeprefix("Modulus="))
        self.jwk = {"kty": "RSA", "kid": kid, "use": "sig", "n": encoded(number), "e": "AQAB"}

    def sign(self, claims: dict, **header: object) -> str:
        header = {"alg": "RS256", "kid": self.kid, **header}
        signed = f"{encoded(header)}.{encoded(claims)}"
        signature = _openssl("dgst", "-sha256", "-sign", self._key, content=signed.encode())
        return f"{signed}.{encoded(signature)}"

    def hmac(self, claims: dict) -> str:
        """A token whose HS256 takes the public key for its secret."""
        signed = f"{encoded({'alg': 'HS256', 'kid': self.kid})}.{encoded(claims)}"
        secret = _openssl("rsa", "-in", self._key, "-pubout")
        return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"

    def unsigned(self, claims: dict) -> str:
        return f"{encoded({'alg': 'none', 'kid': self.kid})}.{encoded(claims)}."


def claims(tenant: str = "team", rights: str = "memoryd:read memoryd:write",
           **more: object) -> dict:
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "tenant": tenant, "scope": rights,
            "exp": int(time.time()) + 3600, **more}


def encoded(value: object) -> str:
    """base64url without padding, of bytes or of what becomes JSON."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def write_jwks(path: pathlib.Path, keys: Iterable[SigningKey]) -> pathlib.Path:
    """Replaces the file at once, as a server that reads it at any time needs it."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"keys": [key.jwk for key in keys]}))
    os.replace(new, path)
    return path


def jwt_arguments(jwks: pathlib.Path) -> list[str]:
    """The settings of a server that takes the tokens of claims()."""
    return [f"--jwks-file={jwks}", f"--jwt-issuer={ISSUER}", f"--jwt-audience={AUDIENCE}"]


def _openssl(*arguments: object, content: bytes | None = None) -> bytes:
    command = ["openssl", *map(str, arguments)]
    done = subprocess.run(command, input=content, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode()}")
    return done.stdout
