"""The chat that one framework has and another goes on with, and what a provider asks of it."""

from __future__ import annotations

import base64
import dataclasses
import http.server
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from support.conversations import PNG

QUESTION = "What is this?"
THOUGHT = "The sky decides."
LOOK = "Let me look."
# Id, name and city of each call. The second one fails.
CALLS = (("c1", "weather", "Lyon"), ("c2", "fail", "Rome"))
RESULTS = ("sun in Lyon", "no Rome")
ANSWER = "Sun."
NEXT = "Sure?"
Json = Mapping[str, Any]


@dataclasses.dataclass
class Said:
    """A message of a request, whatever the form of the request is."""

    role: str
    texts: list[str] = dataclasses.field(default_factory=list)
    images: list[bytes] = dataclasses.field(default_factory=list)
    calls: list[str] = dataclasses.field(default_factory=list)
    names: list[str] = dataclasses.field(default_factory=list)
    # Id of the call and text of each.
    results: list[tuple[str, str]] = dataclasses.field(default_factory=list)


def refused(chat: Sequence[Said]) -> Iterator[str]:
    """What a provider would refuse: another first role than the user's, a role twice in a row, a
    message that says nothing, a call without its result right behind it, a result without its
    call."""
    waiting: list[str] = []
    before = "assistant"
    for place, said in enumerate(chat):
        at = f"messages[{place}]"
        if said.role == "system":
            continue
        if said.role == before and said.role != "tool":
            yield f"{at}: {said.role} again"
        before = said.role
        if not (said.texts or said.images or said.calls or said.results):
            yield f"{at}: says nothing"
        for call_id, _ in said.results:
            if call_id in waiting:
                waiting.remove(call_id)
            else:
                yield f"{at}: a result of no call: {call_id}"
        if waiting and (said.calls or not said.results or said.role != "tool"):
            yield f"{at}: no result of {waiting} before it"
            waiting = []
        waiting += said.calls
    if waiting:
        yield f"at the end no result of {waiting}"


def missing(chat: Sequence[Said]) -> Iterator[str]:
    """What of the chat did not arrive, or not in its place."""
    told = [(said.role, text) for said in chat for text in said.texts]
    for role, text in (("user", QUESTION), ("assistant", LOOK), ("assistant", ANSWER), ("user", NEXT)):
        if told.count((role, text)) != 1:
            yield f"{role} {text!r}: {told.count((role, text))} times"
    if not chat or chat[-1].texts != [NEXT]:
        yield f"the last is not {NEXT!r}"
    if [image for said in chat if said.role == "user" for image in said.images] != [PNG]:
        yield "the image"
    names = [name for said in chat for name in said.names]
    if names != [name for _, name, _ in CALLS]:
        yield f"calls of {names}"
    results = [text for said in chat for _, text in said.results]
    if len(results) != len(RESULTS) or not all(map(str.__contains__, results, RESULTS)):
        yield f"results {results}"
    if any(THOUGHT in text for _, text in told):
        yield "what was thought is said"


def of_chat(messages: Sequence[Json]) -> list[Said]:
    """Of OpenAI's chat completions."""
    made = []
    for message in messages:
        content = message.get("content") or []
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [part["text"] for part in parts if part["type"] == "text" and part["text"]]
        role = "system" if message["role"] == "developer" else message["role"]
        if role == "tool":
            made.append(Said(role, results=[(message["tool_call_id"], "".join(texts))]))
            continue
        calls = message.get("tool_calls") or []
        made.append(Said(
            role, texts, [data_of(part["image_url"]["url"]) for part in parts
                          if part["type"] == "image_url"],
            [call["id"] for call in calls], [call["function"]["name"] for call in calls]))
    return made


def of_responses(items: Sequence[Json]) -> list[Said]:
    """Of OpenAI's responses; what a model says at once is one message."""
    made: list[Said] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "reasoning":
            continue
        role = {"message": item.get("role"), "function_call_output": "tool"}.get(kind, "assistant")
        if not (made and made[-1].role == role == "assistant"):
            made.append(Said(role))
        if kind == "function_call":
            made[-1].calls.append(item["call_id"])
            made[-1].names.append(item["name"])
        elif kind == "function_call_output":
            made[-1].results.append((item["call_id"], item["output"]))
        else:
            content = item["content"]
            for part in [{"text": content}] if isinstance(content, str) else content:
                if "image_url" in part:
                    made[-1].images.append(data_of(part["image_url"]))
                else:
                    made[-1].texts.append(part["text"])
    return made


def of_anthropic(messages: Sequence[Json]) -> list[Said]:
    """Of Anthropic's messages."""
    made = []
    for message in messages:
        content = message["content"]
        said = Said(message["role"])
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                said.texts.append(block["text"])
            elif block["type"] == "image":
                said.images.append(base64.b64decode(block["source"]["data"]))
            elif block["type"] == "tool_use":
                said.calls.append(block["id"])
                said.names.append(block["name"])
            elif block["type"] == "tool_result":
                given = block.get("content") or ""
                text = given if isinstance(given, str) else "".join(one["text"] for one in given)
                said.results.append((block["tool_use_id"], text))
        made.append(said)
    return made


def data_of(url: str) -> bytes:
    return base64.b64decode(url.partition(";base64,")[2])


class Provider:
    """A model on loopback that answers `ANSWER` in the form that it is asked, and keeps the
    requests. Use as a context manager."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.owner = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


_USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
          "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
          "output_tokens_details": {"reasoning_tokens": 0}}
_REPLIES: dict[str, Json] = {
    "/chat/completions": {
        "id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{
            "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
    "/responses": {
        "id": "1", "object": "response", "created_at": 1, "model": "m", "status": "completed",
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": _USAGE, "output": [{
            "id": "msg", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": []}]}]},
    "/v1/messages": {
        "id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": ANSWER}],
        "usage": {"input_tokens": 1, "output_tokens": 1}},
}


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.owner.requests.append(json.loads(body))  # type: ignore[attr-defined]
        reply = json.dumps(_REPLIES[self.path.partition("?")[0]]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None:
        pass
