"""A model server on loopback that speaks OpenAI's chat completions by a script, streamed or not."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from support.agents.script import Reply, Turn

_CHARACTERS = 19
# So few bytes in each write to a socket that characters and events are cut.
_WRITTEN_BYTES = 97
_CODES = {"busy": 429, "broken": 500, "refused": 400}


class AgentModel:
    """Answers requests that offer tools by the replies of `turns`, one after the other, others by
    their content. `requests` is what it was asked, failures included. `before[turn]` is called
    before the last reply of a turn, while who asked waits. Use as a context manager.
    """

    def __init__(self, turns: Iterable[Turn],
                 before: Mapping[int, Callable[[], object]] | None = None) -> None:
        self.requests: list[dict[str, Any]] = []
        self._replies = self._of_turns(list(turns), before or {})
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> AgentModel:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @staticmethod
    def _of_turns(turns: list[Turn], before: Mapping[int, Callable[[], object]]) -> Iterator[Reply]:
        for number, turn in enumerate(turns):
            for step, reply in enumerate(turn.replies):
                if step == len(turn.replies) - 1 and number in before:
                    before[number]()
                yield reply

    def _reply(self, body: dict[str, Any]) -> Reply:
        with self._lock:
            self.requests.append(body)
            if "tools" in body:
                return next(self._replies)
            return Reply(_of_memory(json.dumps(body["messages"], ensure_ascii=False)))


def _of_memory(asked: str) -> str:
    """What a model makes of a conversation that it is to keep in mind, in all forms of asking."""
    questions = list(dict.fromkeys(re.findall(r"question \d+", asked)))
    return "".join(f"<fact>They asked {question}: é 🏳️‍🌈.</fact>" for question in questions[-12:])


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True
    owner: AgentModel

    def handle_error(self, request, client_address) -> None:
        """A client that goes in the middle of an answer is none of ours."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self.server.owner._reply(body)
        # The answer's bytes, to the first or the second half of which a cut comes.
        data = b"".join(_streamed(reply, body)) if body.get("stream") else _whole(reply, body)
        if reply.failure in _CODES:
            data = json.dumps({"error": {"message": "not now", "type": reply.failure}}).encode()
        self.send_response(_CODES.get(reply.failure, 200))
        kind = "text/event-stream" if body.get("stream") else "application/json"
        self.send_header("Content-Type", kind if reply.failure not in _CODES else
                         "application/json")
        # Milliseconds: 0 would be taken for none, and waited for.
        self.send_header("retry-after-ms", "1")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = len(data) * 2 // 3 if reply.failure == "cut" else len(data)
        for begin in range(0, end, _WRITTEN_BYTES):
            piece = data[begin:min(begin + _WRITTEN_BYTES, end)]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if reply.failure == "cut":
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass


def _whole(reply: Reply, body: dict[str, Any]) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if not reply.calls:
        message["content"] = reply.text
    else:
        message["tool_calls"] = [
            {"id": call.call_id, "type": "function",
             "function": {"name": call.name, "arguments": call.arguments}} for call in reply.calls]
    answer = _answer("chat.completion", body, usage=_usage(reply), choices=[
        {"index": 0, "finish_reason": _finish(reply), "message": message}])
    return json.dumps(answer, ensure_ascii=False).encode()


def _streamed(reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _event(_answer("chat.completion.chunk", body, choices=[
            {"index": 0, "delta": delta, "finish_reason": finish}]))

    yield event({"role": "assistant", "content": "" if reply.text or not reply.calls else None})
    for piece in _pieces(reply.text):
        yield event({"content": piece})
    for index, call in enumerate(reply.calls):
        yield event({"tool_calls": [{
            "index": index, "id": call.call_id, "type": "function",
            "function": {"name": call.name, "arguments": ""}}]})
        for piece in _pieces(call.arguments):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield event({}, _finish(reply))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event(_answer("chat.completion.chunk", body, choices=[], usage=_usage(reply)))
    yield b"data: [DONE]\n\n"


def _event(answer: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(answer, ensure_ascii=False).encode() + b"\n\n"


def _answer(kind: str, body: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": body["model"], **fields}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _usage(reply: Reply) -> dict[str, int]:
    count = len(reply.text.split())
    return {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": 1 + count}


def _pieces(text: str) -> Iterator[str]:
    """Characters so few that what one sees as one character is cut."""
    return (text[begin:begin + _CHARACTERS] for begin in range(0, len(text), _CHARACTERS))
