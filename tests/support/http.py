"""The Connect protocol over HTTP/1.1, by Python's own client."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

from support.access import METHODS

LISTEN = "--http-listen=127.0.0.1:0"


def path_of(method: str) -> str:
    return f"/{METHODS[method].containing_service.full_name}/{method}"


class HttpCaller:
    """Calls RPCs by their names, on one connection that is kept."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def raw(self, path: str, body: bytes, headers: Mapping[str, str] | None = None,
            method: str = "POST") -> tuple[int, bytes]:
        """The status of HTTP and the body of the answer."""
        self.connection.request(method, path, body, {**self._headers, **(headers or {})})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def __call__(self, method: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        """A call in JSON: the status of HTTP, and the reply or the error."""
        status, body = self.raw(path_of(method), json.dumps(fields).encode(),
                                {"Content-Type": "application/json"})
        return status, json.loads(body)

    def stream(self, method: str, **fields: Any) -> list[dict[str, Any]]:
        """The messages of a stream in JSON; the last says how it ended."""
        request = json.dumps(fields).encode()
        status, body = self.raw(path_of(method), b"\0" + len(request).to_bytes(4, "big") + request,
                                {"Content-Type": "application/connect+json"})
        assert status == 200, (status, body)
        messages = []
        while body:
            size = int.from_bytes(body[1:5], "big")
            messages.append(json.loads(body[5:5 + size]))
            assert (body[0] == 2) == (len(body) == 5 + size)
            body = body[5 + size:]
        return messages

    def code(self, method: str, **fields: Any) -> tuple[str, str]:
        """The code and the reason of a call, unary or a stream; `ok` and nothing for a reply."""
        if METHODS[method].server_streaming and not METHODS[method].client_streaming:
            answer = self.stream(method, **fields)[-1].get("error", {})
        else:
            _, answer = self(method, **fields)
        if not isinstance(answer.get("code"), str) or "message" not in answer:
            return "ok", ""
        return answer["code"], reason_of(answer)


def reason_of(error: Mapping[str, Any]) -> str:
    """What the ErrorInfo of an error has as its reason."""
    return next(detail["debug"]["reason"] for detail in error["details"]
                if detail["type"] == "google.rpc.ErrorInfo")
