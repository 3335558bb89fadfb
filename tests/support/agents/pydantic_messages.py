"""Messages of Pydantic AI with every kind of part that its package knows; a seed makes them."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from support.conversations import PDF, PNG
from support.odd_values import Odd

Dict = dict[str, Any]

_TIME = "2026-11-0{}T12:00:00.{:06}Z"


def _binary(data: bytes, media_type: str) -> Dict:
    return {"kind": "binary", "data": base64.urlsafe_b64encode(data).decode(),
            "media_type": media_type}


class MessageTeller:
    """Requests and responses, in any order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.odd = Odd(seed, keys=("a", "b", "é", "", "1"))
        self._count = 0

    def message(self) -> ModelMessage:
        self.odd.begin()
        made = self._request() if self.random.random() < 0.5 else self._response()
        return ModelMessagesTypeAdapter.validate_json(json.dumps([made]))[0]

    def _time(self) -> str:
        self._count += 1
        return _TIME.format(self.random.randint(1, 9), self._count)

    def _said(self) -> str:
        # Pydantic's JSON has no halves of characters.
        return self.odd.text().encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _value(self) -> Any:
        return self.random.choice((
            None, True, 7, 1.5, self._said(), {"a": [1, None, self._said()]}, [], {}, [1, "two"]))

    def _id(self) -> str:
        return f"call_{self.random.randrange(40)}"

    def _request(self) -> Dict:
        made: Dict = {"kind": "request", "timestamp": self._time(), "parts": [
            self._part(REQUEST_PARTS) for _ in range(self.random.choice((0, 1, 1, 2, 5)))]}
        if self.odd.one_in(3):
            made.update(instructions=self._said(), run_id="r", conversation_id="c",
                        metadata={"m": self._value()}, state="interrupted")
        return made

    def _response(self) -> Dict:
        made: Dict = {"kind": "response", "timestamp": self._time(), "parts": [
            self._part(RESPONSE_PARTS) for _ in range(self.random.choice((0, 1, 1, 3, 6)))]}
        if self.odd.one_in(3):
            made.update(
                usage={"input_tokens": 3, "output_tokens": 5, "details": {"x": 1}},
                model_name="m", provider_name="p", provider_details={"d": self._value()},
                provider_response_id="i", finish_reason="stop", run_id="r",
                metadata={"m": self._value()})
        return made

    def _part(self, kinds: tuple[str, ...]) -> Dict:
        kind = self.random.choice(kinds)
        made = {"part_kind": kind, **getattr(self, "_" + kind.replace("-", "_"))()}
        if kind == "compaction" and kinds is REQUEST_PARTS:
            return {"part_kind": kind, "content": "What was said."}
        return made

    def _system_prompt(self) -> Dict:
        return {"content": self._said(), "timestamp": self._time()}

    def _user_prompt(self) -> Dict:
        content: Any = self._said()
        if self.odd.one_in(2):
            content = [self._content() for _ in range(self.random.randrange(4))]
        return {"content": content, "timestamp": self._time()}

    def _content(self) -> Any:
        return self.random.choice((
            self._said(), {"kind": "text-content", "content": self._said(), "metadata": {"a": 1}},
            {"kind": "structured-content", "content": "c", "value": self._value(), "tag": "t"},
            {"kind": "image-url", "url": "https://a.example/a.png"},
            {"kind": "audio-url", "url": "https://a.example/a.mp3", "force_download": True},
            {"kind": "video-url", "url": "https://a.example/a.mp4"},
            {"kind": "document-url", "url": "https://a.example/a.pdf", "identifier": "d"},
            {"kind": "uploaded-file", "file_id": "f", "provider_name": "openai"},
            {"kind": "cache-point", "ttl": "1h"},
            _binary(PNG, "image/png"), _binary(PDF, "application/pdf"), _binary(b"", "audio/wav"),
            _binary(bytes(range(256)), "video/mp4")))

    def _tool_return(self) -> Dict:
        content = self.random.choice((
            self._said(), self._value(), _binary(PNG, "image/png"),
            [self._said(), _binary(PNG, "image/png"), {"a": self._value()}]))
        return {"tool_name": self.random.choice(("t", "ü")), "content": content,
                "tool_call_id": self._id(), "timestamp": self._time(), "metadata": self._value(),
                "outcome": self.random.choice(("success", "failed", "denied", "retried"))}

    def _retry_prompt(self) -> Dict:
        return {"content": self._said(), "tool_name": self.random.choice((None, "t")),
                "tool_call_id": self._id(), "timestamp": self._time()}

    def _retry_feedback(self) -> Dict:
        return {"content": self._said(), "timestamp": self._time(),
                "retry": {"cause": "no_output", "attempt": 1, "max_retries": 2}}

    def _instruction_delta(self) -> Dict:
        return {"id": "i", "content": self.random.choice((None, self._said()))}

    def _instruction_baseline(self) -> Dict:
        return {"instructions": [
            {"part_kind": "instruction", "content": self._said(), "name": "n"},
            {"part_kind": "instruction-digest", "content_hash": "h", "dynamic": True}]}

    def _tool_availability_delta(self) -> Dict:
        return {"tools_added": ["t"], "tool_call_id": self._id()}

    def _capability_load_delta(self) -> Dict:
        return {"loaded": ["c"]}

    def _model_settings_delta(self) -> Dict:
        return {"settings": {}, "top_level": True}

    def _compaction(self) -> Dict:
        return {"content": self.random.choice((None, self._said())), "provider_name": "p",
                "provider_details": {"encrypted_content": "e"}}

    def _text(self) -> Dict:
        return {"content": self._said(), "id": "i", "provider_name": "p"}

    def _thinking(self) -> Dict:
        return {"content": self._said(), "signature": self.random.choice((None, "s")),
                "provider_name": "p", "provider_details": {"d": 1}}

    def _tool_call(self) -> Dict:
        return {"tool_name": "t", "tool_call_id": self._id(), "args": self.random.choice((
            None, {}, {"a": self._value()}, '{"a": 1.0}', "{", self._said()))}

    def _builtin_tool_call(self) -> Dict:
        return {"tool_name": "web_search", "tool_call_id": self._id(), "args": {"q": self._said()},
                "provider_name": "p"}

    def _builtin_tool_return(self) -> Dict:
        return {"tool_name": "web_search", "tool_call_id": self._id(), "content": self._value(),
                "timestamp": self._time(), "provider_name": "p"}

    def _file(self) -> Dict:
        return {"content": _binary(PNG, "image/png")}


REQUEST_PARTS = (
    "system-prompt", "user-prompt", "user-prompt", "tool-return", "tool-return", "retry-prompt",
    "retry-feedback", "instruction-delta", "instruction-baseline", "tool-availability-delta",
    "capability-load-delta", "model-settings-delta", "compaction")
RESPONSE_PARTS = (
    "text", "text", "thinking", "tool-call", "tool-call", "builtin-tool-call",
    "builtin-tool-return", "file", "compaction")
