"""Messages of Agent Framework as JSON, into parts and out of them."""

from __future__ import annotations

import base64
from typing import Any

from memoryd._adapters.own_forms import Crossing, Taking, is_role, text_of
from memoryd._crossing import answers_of, texts_of
from memoryd._roles import is_assistant, is_system, is_tool
from memoryd._templates import held_by
from memoryd.v1 import memory_pb2 as memory

Dict = dict[str, Any]

_MEDIA = ("image", "audio", "video")


class MessageForm:
    """The OwnForm of messages, as `Message.to_dict()` has them."""

    name = "agent-framework"

    def role(self, value: Any) -> str:
        role = value.get("role")
        return str(role) if is_role(role) else "user"

    def taken(self, value: Any) -> tuple[Taking, Any]:
        contents = value.get("contents")
        if not isinstance(contents, list):
            return Taking(0), value
        taking = Taking(sum(one.get("type") in ("function_call", "function_result")
                            for one in contents))
        made = {**value, "contents": [_take(taking, one) for one in contents]}
        if "author_name" in made:
            made["author_name"] = taking.speaker(made["author_name"])
        return taking, made

    def says_all(self, value: Any) -> bool:
        return True

    def canonical(
        self, message: memory.Message, parts: list[memory.Part], crossing: Crossing
    ) -> list[Any]:
        if is_system(message.role):
            return _messages("system", [_text("\n".join(texts_of(parts)))], message.name)
        results = [part.tool_result for part in parts if part.HasField("tool_result")]
        others = [one for one in (_content(part, crossing) for part in parts) if one]
        if is_assistant(message.role):
            return [*_messages("assistant", others, message.name), *_answers(results, crossing)]
        if is_tool(message.role):
            results = answers_of(message, parts)
            media = [one for one in others if one["type"] in ("data", "uri")]
            return [*_answers(results, crossing), *_messages("user", media, "")]
        return [*_answers(results, crossing), *_messages("user", others, message.name)]


FORM = MessageForm()


def _take(taking: Taking, content: Dict) -> Any:
    kind = content.get("type")
    if kind == "text" and isinstance(content.get("text"), str):
        return {**content, "text": taking.text(content["text"])}
    if kind == "text_reasoning" and isinstance(content.get("text"), str):
        hole, signature = taking.thinking(content["text"], content.get("protected_data"))
        made = {**content, "text": hole}
        return {**made, "protected_data": signature} if "protected_data" in content else made
    if kind == "function_call":
        given_id, name, arguments = taking.call(
            content.get("call_id"), content.get("name"), content.get("arguments", {}))
        return {**content, **_present(content, call_id=given_id, name=name, arguments=arguments)}
    if kind == "function_result":
        return _take_result(taking, content)
    if kind in ("data", "uri") and isinstance(content.get("uri"), str):
        media_type = content.get("media_type")
        uri = taking.url(_kind_of(media_type), content["uri"], mime_type=media_type)
        return {**content, "uri": uri}
    if kind == "hosted_file" and isinstance(content.get("file_id"), str):
        return {**content, "file_id": taking.file("document", content["file_id"])}
    return taking.opaque(kind, content)


def _take_result(taking: Taking, content: Dict) -> Dict:
    result = content.get("result")
    given_id, _, holes = taking.result(
        content.get("call_id"), content.get("name"), [text_of(result)], "exception" in content)
    made = {**content, **_present(content, call_id=given_id)}
    if not isinstance(result, str):
        return made
    made["result"] = holes[0]
    items = content.get("items")
    if isinstance(items, list):
        # One that only repeats the result.
        made["items"] = [{**one, "text": holes[0]} if one.get("text") == result else one
                         for one in items]
    return made


def _present(value: Dict, **changed: Any) -> Dict:
    return {name: one for name, one in changed.items() if name in value}


def _kind_of(media_type: Any) -> str:
    kind = str(media_type).partition("/")[0]
    return kind if kind in _MEDIA else "document"


def _messages(role: str, contents: list[Dict], author: str) -> list[Dict]:
    """One message, or none if it says nothing."""
    contents = [one for one in contents if one.get("text") != ""]
    if not contents:
        return []
    named = {"author_name": author} if author else {}
    return [{"type": "message", "role": role, "contents": contents, **named,
             "additional_properties": {}}]


def _answers(results: list[memory.ToolResult], crossing: Crossing) -> list[Dict]:
    made: list[Dict] = []
    for result in results:
        answered = crossing.answered(result)
        if answered is None:
            said = f"[{crossing.tool_of(result)}] {result.text}"
            made += _messages("user", [_text(said)], "")
            continue
        failed = {"exception": "error"} if result.is_error else {}
        made += _messages("tool", [{
            "type": "function_result", "call_id": answered, **failed, "result": result.text,
            "items": [_text(result.text)], "additional_properties": {}}], "")
    return made


def _content(part: memory.Part, crossing: Crossing) -> Dict | None:
    """A part that another framework has stored; None for a result, and for what says nothing."""
    kind = part.WhichOneof("kind")
    if kind == "tool_result":
        return None
    if kind == "tool_call":
        call = part.tool_call
        return {"type": "function_call", "call_id": crossing.call_id(call),
                "name": crossing.tool_name(call.name), "arguments": call.arguments_json or "{}",
                "hosted": False, "additional_properties": {}}
    if kind in ("image", "audio", "video", "document"):
        return _medium(kind, getattr(part, kind))
    text = "".join(texts_of([part]))
    return _text(text) if text else None


def _medium(kind: str, media: memory.Media) -> Dict:
    held = held_by(media)
    if held is not None:
        media_type = held[0] or "application/octet-stream"
        uri = f"data:{media_type};base64,{base64.b64encode(held[1]).decode()}"
        return {"type": "data", "uri": uri, "media_type": media_type, "additional_properties": {}}
    if media.url:
        media_type = media.mime_type or (f"{kind}/*" if kind in _MEDIA else "application/pdf")
        return {"type": "uri", "uri": media.url, "media_type": media_type,
                "additional_properties": {}}
    return _text(f"[{kind} {media.path}]".replace(" ]", "]"))


def _text(text: str) -> Dict:
    return {"type": "text", "text": text, "additional_properties": {}}
