"""A model server on loopback that speaks OpenAI's API, by a script, and lies when it is told to."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

DIMENSIONS = 16
_CHUNK = b"x" * 65536
# Of which OpenAI's API takes no 0.
_LIMITS = ("max_tokens", "max_completion_tokens")
_LARGE_BYTES = 100 * 1024 * 1024


def hash_embed(text: str) -> list[float]:
    """An embedding of whole numbers: a 1, then counts of the words, by their FNV-1a hash."""
    vector = [0.0] * DIMENSIONS
    vector[0] = 1.0
    for word in re.findall(rb"[a-z0-9]+", text.encode("utf-8", "surrogatepass").lower()):
        value = 0xCBF29CE484222325
        for byte in word:
            value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        vector[1 + value % (DIMENSIONS - 1)] += 1.0
    return vector


class Request:
    """One request as it came: `path`, `headers` (names in lower case), `body` (parsed)."""

    def __init__(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def texts(self) -> list[str]:
        """What an embeddings request asks for, or the contents of a chat request's messages."""
        if "input" in self.body:
            return list(self.body["input"])
        return [message["content"] for message in self.body["messages"]]


class ModelServer:
    """Serves `url`/chat/completions and `url`/embeddings while it lives.

    Chat answers are `replies` in turn, over and over; embeddings are those of `embed`. `requests` is
    what was asked, the lies included. One to embed a text of `refused` is answered 400, and so is a
    chat of less than one token, as by OpenAI. With `tls` it speaks HTTPS. Use as a context manager.
    """

    def __init__(self, replies: Sequence[str | Mapping[str, Any]] = ("none",),
                 embed: Callable[[str], list[float]] = hash_embed,
                 tls: ssl.SSLContext | None = None) -> None:
        self._lock = threading.Condition()
        self._requests: list[Request] = []
        self._lies: list[tuple[str, dict[str, Any]]] = []
        self._open = True
        self._closed = False
        self.embed = embed
        self.refused: set[str] = set()
        self.set_replies(replies)
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.port = self._http.server_address[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections, those held up too."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        self._http.shutdown()
        self._http.close_connections()
        self._http.server_close()
        self._thread.join()

    def set_replies(self, replies: Sequence[str | Mapping[str, Any]]) -> None:
        """From the next chat request on, beginning with the first. A reply is the answer's content,
        or its message and, with the key `finish_reason`, why it ends."""
        with self._lock:
            self._replies = list(replies)
            self._chats = 0

    def lie(self, kind: str, times: int = 1, **details: Any) -> None:
        """The next `times` requests not lied to yet are answered by a method `_lie_KIND`.

        status(code, retry_after), half_json(), large(), endless(), wrong_dimensions(), redirect(to),
        late(), cut(), short_length(), nan(), empty_choices(), body(body).
        """
        assert hasattr(_Handler, f"_lie_{kind}"), kind
        with self._lock:
            self._lies += [(kind, details)] * times

    def be_honest(self) -> None:
        """Forgets the lies that nobody has heard yet."""
        with self._lock:
            self._lies.clear()

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """While in it, requests are taken and not answered; after it, they are."""
        with self._lock:
            self._open = False
        try:
            yield
        finally:
            with self._lock:
                self._open = True
                self._lock.notify_all()

    @property
    def requests(self) -> list[Request]:
        with self._lock:
            return list(self._requests)

    def wait_for_requests(self, count: int, timeout: float = 60.0) -> list[Request]:
        """The requests, once there are `count`."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self._requests) >= count, timeout):
                raise TimeoutError(f"{len(self._requests)} requests, not {count}")
            return list(self._requests)

    def _take(self, request: Request) -> tuple[str, dict[str, Any]] | None:
        """Notes a request; the lie to answer it with, if any. None also when it hung until close()."""
        with self._lock:
            self._requests.append(request)
            lie = self._lies.pop(0) if self._lies else None
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._open or self._closed)
            return lie

    def _hold(self) -> None:
        with self._lock:
            self._lock.wait_for(lambda: self._closed)

    def _next_reply(self) -> str | Mapping[str, Any]:
        with self._lock:
            reply = self._replies[self._chats % len(self._replies)]
            self._chats += 1
            return reply


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # A queue for many callers at once.
    request_queue_size = 128
    owner: ModelServer

    def __init__(self, *arguments: Any) -> None:
        self._sockets: set = set()
        super().__init__(*arguments)

    def process_request(self, request, client_address) -> None:
        self._sockets.add(request)
        super().process_request(request, client_address)

    def close_request(self, request) -> None:
        self._sockets.discard(request)
        super().close_request(request)

    def close_connections(self) -> None:
        for connection in list(self._sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(2)

    def handle_error(self, request, client_address) -> None:
        """A client that goes in the middle of an answer is what the lies are for."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body)
        lie = self.server.owner._take(request)
        if lie is not None:
            getattr(self, f"_lie_{lie[0]}")(request, **lie[1])
        elif self.path.endswith("/embeddings"):
            if self.server.owner.refused.isdisjoint(request.texts):
                self._answer(self._embeddings(request, self.server.owner.embed))
            else:
                self._answer({"error": {"message": "it is refused"}}, 400)
        elif self.path.endswith("/chat/completions"):
            wrong = [key for key in _LIMITS if isinstance(body.get(key), int) and body[key] < 1]
            if wrong:
                self._answer({"error": {"message": f"{wrong[0]}: must be at least 1"}}, 400)
            else:
                self._answer(self._chat(request, self.server.owner._next_reply()))
        else:
            self._answer({"error": {"message": "no such path"}}, 404)

    def log_message(self, *_: object) -> None:
        pass

    @staticmethod
    def _chat(request: Request, reply: str | Mapping[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", **({"content": reply} if isinstance(reply, str) else reply)}
        finish_reason = message.pop("finish_reason", "stop")
        text = str(message.get("content") or "")
        prompt = sum(len(str(message["content"]).split()) for message in request.body["messages"])
        completion = len(text.split())
        return {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 0,
            "model": request.body["model"],
            "choices": [{"index": 0, "finish_reason": finish_reason, "message": message}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion,
                      "total_tokens": prompt + completion},
        }

    @staticmethod
    def _embeddings(request: Request, embed: Callable[[str], list[float]]) -> dict[str, Any]:
        texts = request.body["input"]
        words = sum(len(text.split()) for text in texts)
        return {
            "object": "list", "model": request.body["model"],
            "data": [{"object": "embedding", "index": index, "embedding": embed(text)}
                     for index, text in enumerate(texts)],
            "usage": {"prompt_tokens": words, "total_tokens": words},
        }

    def _answer(self, body: Any, code: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._head(code, {"Content-Length": str(len(data)), **headers})
        self.wfile.write(data)

    def _head(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _lie_status(self, _: Request, code: int = 500, retry_after: str | None = None) -> None:
        headers = {} if retry_after is None else {"Retry_After": retry_after}
        self._answer({"error": {"message": "not now"}}, code, **headers)

    def _lie_half_json(self, _: Request) -> None:
        self._answer(b'{"choices":[{"message":{"role":"assistant","cont')

    def _lie_body(self, _: Request, body: bytes = b"") -> None:
        self._answer(body)

    def _lie_large(self, _: Request) -> None:
        self._head(200, {"Content-Length": str(_LARGE_BYTES)})
        for _chunk in range(_LARGE_BYTES // len(_CHUNK)):
            self.wfile.write(_CHUNK)

    def _lie_endless(self, _: Request) -> None:
        self._head(200, {"Transfer-Encoding": "chunked"})
        chunk = b"%x\r\n%s\r\n" % (len(_CHUNK), _CHUNK)
        while True:
            self.wfile.write(chunk)

    def _lie_wrong_dimensions(self, request: Request) -> None:
        self._answer(self._embeddings(request, lambda text: hash_embed(text)[:-1]))

    def _lie_redirect(self, _: Request, to: str = "http://127.0.0.1:1/") -> None:
        self._answer(b"", 307, Location=to)

    def _lie_late(self, _: Request) -> None:
        self.server.owner._hold()

    def _lie_cut(self, _: Request) -> None:
        self._head(200, {"Content-Length": "1000"})
        self.wfile.write(b'{"choices":')
        self.close_connection = True

    def _lie_short_length(self, request: Request) -> None:
        self._head(200, {"Content-Length": "10"})
        self.wfile.write(json.dumps(self._chat(request, "more than ten bytes")).encode())
        self.close_connection = True

    def _lie_nan(self, request: Request) -> None:
        self._answer(self._embeddings(request, lambda _text: [float("nan")] * DIMENSIONS))

    def _lie_empty_choices(self, request: Request) -> None:
        self._answer({**self._chat(request, ""), "choices": []})
