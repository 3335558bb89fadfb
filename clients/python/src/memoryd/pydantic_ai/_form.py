"""Pydantic AI's messages, as its adapter dumps them, into parts and out of them."""

from __future__ import annotations

import base64
import datetime
from typing import Any

from memoryd._adapters.own_forms import Crossing, Taking, text_of
from memoryd._crossing import texts_of
from memoryd._roles import is_assistant, is_system, is_tool
from memoryd._templates import held_by
from memoryd.v1 import memory_pb2 as memory

Dict = dict[str, Any]

_URLS = {"image-url": "image", "audio-url": "audio", "video-url": "video",
         "document-url": "document"}
_MEDIA = ("image", "audio", "video", "document")
# Of a result that is to be known as one that failed.
_FAILED = ("failed", "denied", "interrupted", "retried")
_OF_USERS = ("user-prompt", "retry-feedback", "speech")
_OF_TOOLS = ("tool-return", "retry-prompt")


class PydanticForm:
    """The OwnForm of a ModelRequest or a ModelResponse."""

    name = "pydantic-ai"

    def role(self, value: Any) -> str:
        if value["kind"] == "response":
            return "assistant"
        kinds = {part["part_kind"] for part in value["parts"]}
        if not kinds.isdisjoint(_OF_USERS):
            return "user"
        if not kinds.isdisjoint(_OF_TOOLS):
            return "tool"
        return "system" if "system-prompt" in kinds else "user"

    def taken(self, value: Any) -> tuple[Taking, Any]:
        parts = value["parts"]
        taking = Taking(sum(part["part_kind"] in ("tool-call", *_OF_TOOLS) for part in parts))
        # Beside what a user says a system prompt is not repeated, which another framework has its
        # own of.
        is_of_system = self.role(value) == "system"
        return taking, {**value, "parts": [_take(taking, part, is_of_system) for part in parts]}

    def says_all(self, value: Any) -> bool:
        return False

    def canonical(
        self, message: memory.Message, parts: list[memory.Part], crossing: Crossing
    ) -> list[Any]:
        results = [part.tool_result for part in parts if part.HasField("tool_result")]
        others = [part for part in parts if not part.HasField("tool_result")]
        time = _time(message)
        answers = [_returned(result, crossing, time) for result in results]
        if is_system(message.role):
            text = "\n".join(texts_of(others))
            return _request([_prompt("system-prompt", text, time)] if text else [])
        if is_assistant(message.role):
            said = [one for one in (_said(part, crossing) for part in others) if one]
            response = {"kind": "response", "parts": said, "timestamp": time}
            return ([response] if said else []) + _request(answers)
        if is_tool(message.role):
            text = "".join(texts_of(others))
            if answers and isinstance(answers[-1].get("content"), str):
                answers[-1]["content"] += text
                others = [part for part in others if part.WhichOneof("kind") in _MEDIA]
        asked = [one for one in map(_asked, others) if one]
        if not asked:
            return _request(answers)
        content = asked[0] if len(asked) == 1 and isinstance(asked[0], str) else asked
        return _request([*answers, _prompt("user-prompt", content, time)])


FORM = PydanticForm()


def _take(taking: Taking, part: Dict, is_of_system: bool) -> Dict:
    kind, content = part["part_kind"], part.get("content")
    if kind == "user-prompt" and isinstance(content, list):
        return {**part, "content": [_take_content(taking, one) for one in content]}
    if kind in ("user-prompt", "retry-feedback", "text") or (
        kind == "system-prompt" and is_of_system
    ):
        return {**part, "content": taking.text(content)} if isinstance(content, str) else part
    if kind == "thinking" and isinstance(content, str):
        hole, signature = taking.thinking(content, part.get("signature"))
        return {**part, "content": hole, "signature": signature}
    if kind == "tool-call":
        return _take_call(taking, part)
    if kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
        return _take_return(taking, part)
    if kind == "file":
        return {**part, "content": _take_content(taking, content)}
    if kind == "speech":
        return _take_speech(taking, part)
    return part


def _take_content(taking: Taking, content: Any) -> Any:
    """Of a user's prompt, or of what a tool returned."""
    if isinstance(content, str):
        return taking.text(content)
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind in _URLS and isinstance(content.get("url"), str):
        return {**content, "url": taking.url(_URLS[kind], content["url"])}
    if kind == "binary" and isinstance(content.get("data"), str):
        mime_type = str(content.get("media_type") or "")
        group = mime_type.partition("/")[0]
        data = taking.data(group if group in _MEDIA else "document", content["data"],
                           mime_type=mime_type)
        return {**content, "data": data}
    if kind in ("text-content", "structured-content") and isinstance(content.get("content"), str):
        return {**content, "content": taking.text(content["content"])}
    return content


def _take_call(taking: Taking, part: Dict) -> Dict:
    arguments = part.get("args")
    call_id, name, asked = taking.call(
        part["tool_call_id"], part["tool_name"], "{}" if arguments is None else arguments)
    return {**part, "tool_call_id": call_id, "tool_name": name,
            "args": None if arguments is None else asked}


def _take_return(taking: Taking, part: Dict) -> Dict:
    content = part.get("content")
    given = content if isinstance(content, list) else [content]
    texts = [one if isinstance(one, str) else text_of(one) for one in given if not _is_media(one)]
    is_error = part["part_kind"] == "retry-prompt" or part.get("outcome") in _FAILED
    call_id, name, holes = taking.result(part["tool_call_id"], part["tool_name"], texts, is_error)
    made: list[Any] = []
    for one in given:
        if _is_media(one):
            made.append(_take_content(taking, one))
        else:
            hole = holes.pop(0)
            made.append(hole if isinstance(one, str) else one)
    return {**part, "tool_call_id": call_id, "tool_name": name,
            "content": made if isinstance(content, list) else made[0]}


def _take_speech(taking: Taking, part: Dict) -> Dict:
    made = dict(part)
    if isinstance(made.get("transcript"), str):
        made["transcript"] = taking.text(made["transcript"])
    if isinstance(made.get("audio"), dict):
        made["audio"] = _take_content(taking, made["audio"])
    return made


def _is_media(content: Any) -> bool:
    return isinstance(content, dict) and content.get("kind") in ("binary", *_URLS)


def _request(parts: list[Dict]) -> list[Any]:
    return [{"kind": "request", "parts": parts}] if parts else []


def _prompt(kind: str, content: Any, time: str) -> Dict:
    return {"part_kind": kind, "content": content, "timestamp": time}


def _said(part: memory.Part, crossing: Crossing) -> Dict | None:
    kind = part.WhichOneof("kind")
    if kind == "tool_call":
        call = part.tool_call
        return {"part_kind": "tool-call", "tool_name": crossing.tool_name(call.name),
                "args": call.arguments_json or "{}", "tool_call_id": crossing.call_id(call)}
    if kind == "image" and (held := held_by(part.image)) is not None:
        return {"part_kind": "file", "content": _binary(held, "image/png")}
    if kind in _MEDIA:
        return {"part_kind": "text", "content": f"[{kind}]"}
    # Reasoning without its provider is text that the model would take for its own.
    text = "".join(texts_of([part]))
    return {"part_kind": "text", "content": text} if text else None


def _returned(result: memory.ToolResult, crossing: Crossing, time: str) -> Dict:
    answered = crossing.answered(result)
    if answered is None:
        return _prompt(
            "user-prompt", f"[{crossing.tool_of(result)}] {result.text}", time)
    return {"part_kind": "tool-return", "tool_name": crossing.tool_of(result),
            "content": result.text, "tool_call_id": answered, "timestamp": time,
            "outcome": "failed" if result.is_error else "success"}


def _asked(part: memory.Part) -> Any:
    kind = part.WhichOneof("kind")
    if kind in _MEDIA:
        media = getattr(part, kind)
        held = held_by(media)
        if held is not None:
            return _binary(held, {"image": "image/png", "audio": "audio/wav", "video": "video/mp4"
                                  }.get(kind, "application/octet-stream"))
        if media.url:
            return {"kind": f"{kind}-url", "url": media.url,
                    **({"media_type": media.mime_type} if media.mime_type else {})}
        return f"[{kind} {media.path}]".replace(" ]", "]")
    return "".join(texts_of([part]))


def _binary(held: tuple[str, bytes], default: str) -> Dict:
    return {"kind": "binary", "media_type": held[0] or default,
            "data": base64.urlsafe_b64encode(held[1]).decode()}


def _time(message: memory.Message) -> str:
    """When the message was said, for it to be the same each time that it is read."""
    time = message.create_time if message.HasField("create_time") else message.ingest_time
    said: datetime.datetime = time.ToDatetime(tzinfo=datetime.timezone.utc)
    return said.isoformat()
