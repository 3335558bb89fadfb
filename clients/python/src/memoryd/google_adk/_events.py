"""Events of ADK as JSON, into parts and out of them."""

from __future__ import annotations

import base64
import json
from typing import Any

from memoryd._adapters.own_forms import Crossing, Taking, text_of
from memoryd._crossing import answers_of, texts_of
from memoryd._roles import is_assistant, is_system, is_tool
from memoryd._templates import held_by
from memoryd.v1 import memory_pb2 as memory

Dict = dict[str, Any]

# What a tool's response is usually one text of.
_RESPONSES = ("result", "output", "error")
_MEDIA = ("image", "audio", "video", "document")


class EventForm:
    """The OwnForm of events, as `Event.model_dump(mode="json", exclude_none=True)` has them."""

    name = "google-adk"

    def role(self, value: Any) -> str:
        parts = _parts(value)
        if any("function_response" in part for part in parts):
            return "tool"
        content = value.get("content")
        said_by = content.get("role") if isinstance(content, dict) else None
        is_user = said_by == "user" if said_by else value.get("author") == "user"
        return "user" if is_user else "assistant"

    def taken(self, value: Any) -> tuple[Taking, Any]:
        parts = _parts(value)
        taking = Taking(sum("function_call" in part or "function_response" in part
                            for part in parts))
        if not parts:
            return taking, value
        content = {**value["content"], "parts": [_take(taking, part) for part in parts]}
        return taking, {**value, "content": content}

    def says_all(self, value: Any) -> bool:
        return False  # An event has an id and an invocation.

    def canonical(
        self, message: memory.Message, parts: list[memory.Part], crossing: Crossing
    ) -> list[Any]:
        if is_system(message.role):
            return []
        is_model = is_assistant(message.role)
        answers = answers_of(message, parts) if is_tool(message.role) else []
        said = [part for part in parts if not answers or part.WhichOneof("kind") in _MEDIA]
        made = [_answer(result, crossing) for result in answers]
        made += [one for one in (_said(part, crossing) for part in said) if one]
        if not made:
            return []
        when = message.create_time if message.HasField("create_time") else message.ingest_time
        answered = any("function_response" in part for part in made)
        return [{
            "id": message.message_id,
            "invocation_id": message.message_id,
            # The service puts the name of the agent in place of an empty one.
            "author": "" if is_model or answered else "user",
            "timestamp": when.ToMicroseconds() / 1e6,
            "content": {"role": "model" if is_model else "user", "parts": made},
        }]


FORM = EventForm()


def _parts(value: Any) -> list[Dict]:
    content = value.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return parts if isinstance(parts, list) else []


def _take(taking: Taking, part: Dict) -> Any:
    if isinstance(part.get("text"), str):
        if part.get("thought"):
            hole, signature = taking.thinking(part["text"], part.get("thought_signature"))
            made = {**part, "text": hole}
            return {**made, "thought_signature": signature} if "thought_signature" in part else made
        return {**part, "text": taking.text(part["text"])}
    if "function_call" in part:
        return {**part, "function_call": _take_call(taking, part["function_call"])}
    if "function_response" in part:
        return {**part, "function_response": _take_response(taking, part["function_response"])}
    if "inline_data" in part and isinstance(part["inline_data"].get("data"), str):
        data = part["inline_data"]
        hole = taking.data(_kind_of(data), data["data"], mime_type=data.get("mime_type"),
                           title=data.get("display_name"))
        return {**part, "inline_data": {**data, "data": hole}}
    if "file_data" in part and isinstance(part["file_data"].get("file_uri"), str):
        data = part["file_data"]
        hole = taking.url(_kind_of(data), data["file_uri"], mime_type=data.get("mime_type"),
                          title=data.get("display_name"))
        return {**part, "file_data": {**data, "file_uri": hole}}
    return taking.opaque(next(iter(part), None), part)


def _take_call(taking: Taking, call: Dict) -> Dict:
    given_id, name, args = taking.call(call.get("id"), call.get("name"), call.get("args", {}))
    return {**call, **_present(call, id=given_id, name=name, args=args)}


def _take_response(taking: Taking, response: Dict) -> Dict:
    said = response.get("response")
    alone = [*said.items()] if isinstance(said, dict) and len(said) == 1 else []
    texts = [(key, one) for key, one in alone if key in _RESPONSES and isinstance(one, str)]
    text = texts[0][1] if texts else text_of(said)
    given_id, name, holes = taking.result(
        response.get("id"), response.get("name"), [text],
        isinstance(said, dict) and "error" in said)
    made = {**response, **_present(response, id=given_id, name=name)}
    # Others read any other response as JSON; here it stays as it is.
    return {**made, "response": {texts[0][0]: holes[0]}} if texts else made


def _present(value: Dict, **changed: Any) -> Dict:
    return {name: one for name, one in changed.items() if name in value}


def _kind_of(data: Dict) -> str:
    kind = str(data.get("mime_type")).partition("/")[0]
    return kind if kind in _MEDIA else "document"


def _said(part: memory.Part, crossing: Crossing) -> Dict | None:
    """A part that another framework has stored."""
    kind = part.WhichOneof("kind")
    if kind == "tool_call":
        call = part.tool_call
        return {"function_call": {"id": crossing.call_id(call),
                                  "name": crossing.tool_name(call.name), "args": _args(call)}}
    if kind == "tool_result":
        return _answer(part.tool_result, crossing)
    if kind in ("image", "audio", "video", "document"):
        return _medium(kind, getattr(part, kind))
    text = "".join(texts_of([part]))
    return {"text": text} if text else None


def _answer(result: memory.ToolResult, crossing: Crossing) -> Dict:
    answered = crossing.answered(result)
    if answered is None:
        return {"text": f"[{crossing.tool_of(result)}] {result.text}"}
    key = "error" if result.is_error else "result"
    return {"function_response": {"id": answered, "name": crossing.tool_of(result),
                                  "response": {key: result.text}}}


def _args(call: memory.ToolCall) -> Any:
    try:
        args = json.loads(call.arguments_json or "{}")
    except ValueError:  # Of a stream that was cut, or of a tool that takes text.
        args = call.arguments_json
    return args if isinstance(args, dict) else {"arguments": args}


def _medium(kind: str, media: memory.Media) -> Dict:
    held = held_by(media)
    if held is not None:
        mime_type, data = held
        return {"inline_data": {"mime_type": mime_type or "application/octet-stream",
                                "data": base64.urlsafe_b64encode(data).decode()}}
    if media.url:
        return {"file_data": {"file_uri": media.url, "mime_type": media.mime_type or "image/png"}}
    return {"text": f"[{kind} {media.path}]".replace(" ]", "]")}
