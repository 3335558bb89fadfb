"""A registry of OCI artefacts on loopback, which takes what is pushed to it and gives it back."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading
from urllib.parse import parse_qs, urlsplit

_BLOB = re.compile(r"/v2/.+/blobs/(?P<digest>sha256:[0-9a-f]{64})")
_UPLOAD = re.compile(r"/v2/.+/blobs/uploads/")
_MANIFEST = re.compile(r"/v2/(?P<name>.+)/manifests/(?P<reference>.+)")


class OciRegistry:
    """Serves from construction on `address`; leaving the context ends it. By OCI's distribution
    specification, as far as one push or pull goes: no chunks, no tags to list, no credentials."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        # By name and reference: type and digest.
        self.manifests: dict[tuple[str, str], tuple[str, str]] = {}
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                if path == "/v2/":
                    self._answer(200, b"{}")
                elif found := _BLOB.fullmatch(path):
                    self._give(found["digest"], "application/octet-stream")
                elif found := _MANIFEST.fullmatch(path):
                    kind, digest = registry.manifests.get((found["name"], found["reference"]), ("", ""))
                    self._give(digest, kind)
                else:
                    self._answer(404)

            do_HEAD = do_GET

            def do_POST(self) -> None:
                self._body()
                is_upload = _UPLOAD.fullmatch(urlsplit(self.path).path)
                self._answer(202 if is_upload else 404, headers={"Location": f"{self.path}one"})

            def do_PUT(self) -> None:
                url, body = urlsplit(self.path), self._body()
                digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
                if found := _MANIFEST.fullmatch(url.path):
                    entry = self.headers["Content-Type"], digest
                    registry.manifests[found["name"], found["reference"]] = entry
                    registry.manifests[found["name"], digest] = entry
                elif parse_qs(url.query).get("digest") != [digest]:
                    self._answer(400)
                    return
                registry.blobs[digest] = body
                self._answer(201, headers={"Location": self.path, "Docker-Content-Digest": digest})

            def _body(self) -> bytes:
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def _give(self, digest: str, kind: str) -> None:
                body = registry.blobs.get(digest)
                if body is None:
                    self._answer(404)
                else:
                    self._answer(200, body, {"Content-Type": kind, "Docker-Content-Digest": digest})

            def _answer(self, code: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
                self.send_response(code)
                for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> OciRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
