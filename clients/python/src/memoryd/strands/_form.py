"""Strands' messages, which are those of Bedrock's Converse, into parts and out of them.

A value has what a SessionMessage has, but its number: `message`, `created_at`, `updated_at`, and
`redact_message` of one that was redacted; True there says that it is the same as `message`. What is
shown of a message that was redacted is what others read.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable
from typing import Any

from memoryd._adapters.own_forms import Crossing, Taking, is_role, text_of
from memoryd._adapters.session_steps import bare
from memoryd._crossing import answers_of, texts_of
from memoryd._roles import is_assistant, is_system, is_tool
from memoryd._templates import held_by
from memoryd.v1 import memory_pb2 as memory

Dict = dict[str, Any]

_BYTES = "__bytes_encoded__"
_OF_TOOLS = ("toolUse", "toolResult")
_MEDIA = ("image", "audio", "video", "document")
_IMAGES = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
_DOCUMENTS = {
    "pdf": "application/pdf", "csv": "text/csv", "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html", "txt": "text/plain", "md": "text/markdown"}
_TYPES = {"image": _IMAGES, "document": _DOCUMENTS}


class StrandsForm:
    """The OwnForm of a message of an agent."""

    name = "strands"

    def role(self, value: Any) -> str:
        message = shown(value)
        blocks = _blocks_of(message)
        if blocks and all("toolResult" in block for block in blocks):
            return "tool"
        role = message.get("role") if isinstance(message, dict) else None
        return str(role) if is_role(role) else "user"

    def taken(self, value: Any) -> tuple[Taking, Any]:
        key = "message" if value.get("redact_message", True) is True else "redact_message"
        message = value[key]
        blocks = _blocks_of(message)
        taking = Taking(sum(kind in block for block in blocks for kind in _OF_TOOLS))
        if isinstance(message, dict) and isinstance(message.get("content"), list):
            message = {**message,
                       "content": [_take_block(taking, block) for block in message["content"]]}
        return taking, {**value, key: message}

    def says_all(self, value: Any) -> bool:
        return False

    def canonical(
        self, message: memory.Message, parts: list[memory.Part], crossing: Crossing
    ) -> list[Any]:
        if is_system(message.role):
            return []  # An agent has its own.
        time = _time(message)
        results = [part.tool_result for part in parts if part.HasField("tool_result")]
        others = [part for part in parts if not part.HasField("tool_result")]
        if is_assistant(message.role):
            said = [block for block in (_said(part, crossing) for part in others) if block]
            answers = [_answer(result, crossing) for result in results]
            return _values("assistant", said, time) + _values("user", answers, time)
        if is_tool(message.role):
            results = answers_of(message, parts)
            others = [part for part in others if part.WhichOneof("kind") in _MEDIA]
        answers = [_answer(result, crossing) for result in results]
        # Bedrock takes results only ahead of anything else.
        answers.sort(key=lambda block: "toolResult" not in block)
        asked = [block for block in map(_asked, others) if block]
        return _values("user", answers + asked, time)


class ChangedForm(StrandsForm):
    """The same for a message that takes the place of one with other calls and results. Those stay,
    since others are tied to them, without what they said."""

    def __init__(self, replaced: memory.Message) -> None:
        self._replaced = replaced

    def taken(self, value: Any) -> tuple[Taking, Any]:
        whole, _ = super().taken(value)
        of_tools = {_key(part): part for part in whole.parts if _key(part)}
        taking = Taking(0)
        taking.parts = [part for part in whole.parts if part.HasField("text")]
        taking.parts.extend(of_tools.get(_key(part)) or bare(part)
                            for part in self._replaced.parts if _key(part))
        if not taking.parts:
            taking.text("")
        return taking, value


FORM = StrandsForm()


def shown(value: Any) -> Any:
    """The message that the agent has: the redacted one, if there is one."""
    redacted = value.get("redact_message", True)
    return value["message"] if redacted is True else redacted


def _key(part: memory.Part) -> tuple[str, str] | None:
    """Which call or result a part is; None: it is neither."""
    if part.HasField("tool_call"):
        return "tool_call", part.tool_call.call_id
    return ("tool_result", part.tool_result.call_id) if part.HasField("tool_result") else None


def _blocks_of(message: Any) -> list[Dict]:
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(
        content, list) else []


def _take_block(taking: Taking, block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    return {kind: _TAKES[kind](taking, held) if kind in _TAKES else held
            for kind, held in block.items()}


def _take_text(taking: Taking, held: Any) -> Any:
    return taking.text(held) if isinstance(held, str) else held


def _take_guarded(taking: Taking, held: Any) -> Any:
    text = held.get("text") if isinstance(held, dict) else None
    if not isinstance(text, dict):
        return held
    return {**held, "text": _with_text(taking, text)}


def _take_cited(taking: Taking, held: Any) -> Any:
    content = held.get("content") if isinstance(held, dict) else None
    if not isinstance(content, list):
        return held
    return {**held, "content": [
        _with_text(taking, one) if isinstance(one, dict) else one for one in content]}


def _with_text(taking: Taking, held: Dict) -> Dict:
    return {**held, "text": _take_text(taking, held["text"])} if "text" in held else held


def _take_reasoning(taking: Taking, held: Any) -> Any:
    said = held.get("reasoningText") if isinstance(held, dict) else None
    if not isinstance(said, dict) or not isinstance(said.get("text"), str):
        return held  # What is encrypted stays in the template.
    hole, signature = taking.thinking(said["text"], said.get("signature"))
    made = {**said, "text": hole}
    if "signature" in said:
        made["signature"] = signature
    return {**held, "reasoningText": made}


def _take_use(taking: Taking, held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    call_id, name, asked = taking.call(
        held.get("toolUseId"), held.get("name"), held.get("input", {}))
    taken = {"toolUseId": call_id, "name": name, "input": asked}
    return {key: taken.get(key, value) for key, value in held.items()}


def _take_result(taking: Taking, held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    content = held.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [text for block in blocks for text in _texts_in(block)]
    call_id, _, holes = taking.result(
        held.get("toolUseId"), None, texts, held.get("status") == "error")
    made = dict(held)
    if "toolUseId" in made:
        made["toolUseId"] = call_id
    if isinstance(content, list):
        made["content"] = [_take_inside(taking, block, holes) for block in content]
    return made


def _texts_in(block: Any) -> list[str]:
    """What a block of a result says: a text as it is, anything else as JSON."""
    if not isinstance(block, dict):
        return []
    return [text_of(held) for kind, held in block.items() if _is_said(kind, held)]


def _is_said(kind: str, held: Any) -> bool:
    return kind == "json" or (kind == "text" and isinstance(held, str))


def _take_inside(taking: Taking, block: Any, holes: list[Any]) -> Any:
    if not isinstance(block, dict):
        return block
    made: Dict = {}
    for kind, held in block.items():
        if _is_said(kind, held):
            hole = holes.pop(0)
            made[kind] = hole if isinstance(held, str) else held
        else:
            made[kind] = _TAKES[kind](taking, held) if kind in _MEDIA else held
    return made


def _take_media(kind: str) -> Callable[[Taking, Any], Any]:
    def take(taking: Taking, held: Any) -> Any:
        source = held.get("source") if isinstance(held, dict) else None
        if not isinstance(source, dict):
            return held
        about = {"title": held.get("name")} if kind == "document" else {}
        data, place = source.get("bytes"), source.get("location")
        if isinstance(data, dict) and data.get(_BYTES) is True and isinstance(
            data.get("data"), str
        ):
            hole = taking.data(
                kind, data["data"], mime_type=_mime_type(kind, held.get("format")), **about)
            return {**held, "source": {**source, "bytes": {**data, "data": hole}}}
        if isinstance(place, dict) and isinstance(place.get("uri"), str):
            hole = taking.url(kind, place["uri"], **about)
            return {**held, "source": {**source, "location": {**place, "uri": hole}}}
        return held

    return take


def _mime_type(kind: str, format: Any) -> str:
    if not isinstance(format, str) or not format:
        return ""
    default = "application/octet-stream" if kind == "document" else f"{kind}/{format}"
    return _TYPES.get(kind, {}).get(format, default)


_TAKES: dict[str, Callable[[Taking, Any], Any]] = {
    "text": _take_text, "guardContent": _take_guarded, "citationsContent": _take_cited,
    "reasoningContent": _take_reasoning, "toolUse": _take_use, "toolResult": _take_result,
    **{kind: _take_media(kind) for kind in _MEDIA}}


def _values(role: str, content: list[Dict], time: str) -> list[Dict]:
    if not content:
        return []
    return [{"message": {"role": role, "content": content}, "created_at": time, "updated_at": time}]


def _said(part: memory.Part, crossing: Crossing) -> Dict | None:
    """What an assistant of another framework said."""
    kind = part.WhichOneof("kind")
    if kind == "tool_call":
        call = part.tool_call
        return {"toolUse": {"toolUseId": crossing.call_id(call),
                            "name": crossing.tool_name(call.name),
                            "input": _input(call.arguments_json)}}
    if kind == "thinking":
        # Without a signature Bedrock refuses it.
        thinking = part.thinking
        said = {"text": thinking.text, "signature": thinking.signature}
        return {"reasoningContent": {"reasoningText": said}} if thinking.signature else None
    return {"text": f"[{kind}]"} if kind in _MEDIA else _text("".join(texts_of([part])))


def _input(arguments: str) -> Dict:
    try:
        value = json.loads(arguments or "{}")
    except ValueError:  # Of a stream that was cut, or of a tool that takes text.
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}


def _answer(result: memory.ToolResult, crossing: Crossing) -> Dict:
    answered = crossing.answered(result)
    if answered is None:
        return {"text": f"[{crossing.tool_of(result)}] {result.text}"}
    content = [{"text": result.text}] if result.text else []
    return {"toolResult": {"toolUseId": answered, "content": content,
                           "status": "error" if result.is_error else "success"}}


def _asked(part: memory.Part) -> Dict | None:
    kind = part.WhichOneof("kind")
    if kind == "image":
        return _image(part.image)
    if kind == "document":
        return _document(part.document)
    if kind in _MEDIA:  # Not every model takes these.
        return {"text": f"[{kind}]"}
    return None if kind in ("tool_call", "thinking") else _text("".join(texts_of([part])))


def _image(image: memory.Media) -> Dict:
    held = held_by(image)
    format = next((name for name, mime_type in _IMAGES.items() if held is not None and (
        held[0].casefold() == mime_type or (not held[0] and _begins(held[1], name)))), None)
    if held is None or not held[1] or format is None:
        return _elsewhere("image", {"format": "png"}, image)
    return {"image": {"format": format, "source": {"bytes": _encoded(held[1])}}}


def _begins(data: bytes, name: str) -> bool:
    begin = {"png": b"\x89PNG", "jpeg": b"\xff\xd8\xff", "gif": b"GIF8", "webp": b"RIFF"}[name]
    return data.startswith(begin)


def _document(document: memory.Media) -> Dict:
    # Bedrock takes no other characters.
    name = "".join(one if one.isascii() and one.isalnum() else " " for one in document.title)
    about = {"format": "pdf", "name": " ".join(name.split())[:200] or "document"}
    held = held_by(document)
    if held is None or not held[1]:
        return _elsewhere("document", about, document)
    mime_type = held[0].partition(";")[0].strip().casefold()
    formats = [name for name, known in _DOCUMENTS.items() if known == mime_type]
    if not formats and held[1].startswith(b"%PDF"):
        formats = ["pdf"]
    if not formats:
        try:
            formats = ["txt"] if held[1].decode().strip() else []
        except UnicodeDecodeError:
            formats = []
    if not formats:
        return {"text": f"[document {document.title}]".replace(" ]", "]")}
    return {"document": {**about, "format": formats[0], "source": {"bytes": _encoded(held[1])}}}


def _elsewhere(kind: str, about: Dict, media: memory.Media) -> Dict:
    """A medium that is not held here. Bedrock fetches from S3 only."""
    if media.url.startswith("s3://"):
        ending = media.url.rpartition(".")[2].casefold()
        format = ending if ending in _TYPES[kind] else about["format"]
        return {kind: {**about, "format": format,
                       "source": {"location": {"type": "s3", "uri": media.url}}}}
    place = media.path or ("" if media.url.startswith("data:") else media.url)
    named = " ".join(filter(None, (media.title, place)))
    return {"text": f"[{kind} {named}]".replace(" ]", "]")}


def _encoded(data: bytes) -> Dict:
    return {_BYTES: True, "data": base64.b64encode(data).decode()}


def _text(text: str) -> Dict | None:
    """A block, unless the text is blank, which Bedrock refuses."""
    return {"text": text} if text.strip() else None


def _time(message: memory.Message) -> str:
    """When the message was said, for it to be the same each time that it is read."""
    time = message.create_time if message.HasField("create_time") else message.ingest_time
    said: datetime.datetime = time.ToDatetime(tzinfo=datetime.timezone.utc)
    return said.isoformat()
