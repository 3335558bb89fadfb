"""Messages of OpenAI's chat completions, into parts and out of them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from memoryd._crossing import Crossing, texts_of
from memoryd._roles import is_assistant, is_system, is_tool
from memoryd._templates import Taking, held_by
from memoryd.v1 import memory_pb2 as memory

Dict = dict[str, Any]

# Where vendors put a model's reasoning.
_REASONING = ("reasoning_content", "reasoning")
# The last two are of the Responses API, with whose other items messages have nothing in common.
_TEXT_KEYS = {"text": "text", "refusal": "refusal", "input_text": "text", "output_text": "text"}
_MEDIA_KINDS = {"image_url": "image", "video_url": "video"}


def taken(message: Dict) -> tuple[Taking, Dict]:
    """The parts of a message, and its template."""
    calls = message.get("tool_calls")
    taking = Taking((len(calls) if isinstance(calls, list) else 0) + 2)
    made = dict(message)
    if is_tool(message["role"]):
        _take_result(taking, made)
        return taking, made
    if "name" in made:
        made["name"] = taking.speaker(made["name"])
    for key in _REASONING:
        if isinstance(made.get(key), str) and made[key]:
            made[key], _ = taking.thinking(made[key])
            break
    if "content" in made:
        made["content"] = _take_content(taking, made["content"])
    if isinstance(made.get("refusal"), str):
        made["refusal"] = taking.text(made["refusal"])
    if isinstance(made.get("audio"), dict):
        made["audio"] = _take_audio(taking, made["audio"])
    if isinstance(made.get("function_call"), dict):
        made["function_call"] = _take_function(taking, made["function_call"])
    if isinstance(calls, list):
        made["tool_calls"] = [_take_call(taking, call) for call in calls]
    return taking, made


def canonical(message: memory.Message, parts: list[memory.Part], crossing: Crossing) -> list[Dict]:
    """The messages that the parts say, in no other's words than theirs."""
    role = message.role
    if is_system(role):
        return [{"role": role, "content": _joined([memory.Part(text=text)
                                                   for text in texts_of(parts)])}]
    results = [part.tool_result for part in parts if part.HasField("tool_result")]
    others = [part for part in parts if not part.HasField("tool_result")]
    if is_tool(role):
        text = "".join(texts_of(others))
        if not results:
            results = [memory.ToolResult(name=message.name)]
        made = [_result(result, crossing) for result in results]
        made[-1]["content"] += text
        media = [part for part in others if part.WhichOneof("kind") in ("image", "document")]
        return made + ([{"role": "user", "content": _joined(media)}] if media else [])
    answers = [_result(result, crossing) for result in results]
    if is_assistant(role):
        said = _assistant(message, others, crossing)
        return [*([said] if said or not answers else []), *answers]
    if answers and not _blocks(others):
        return answers
    made_user: Dict = {"role": "user", "content": _joined(others)}
    if message.name:
        made_user["name"] = message.name
    return [*answers, made_user]


def blocks_of(parts: Iterable[memory.Part]) -> list[Dict]:
    """The parts of content that say what these say."""
    return _blocks(parts)


def _take_content(taking: Taking, content: Any) -> Any:
    if isinstance(content, str):
        return taking.text(content)
    if isinstance(content, list):
        return [_take_part(taking, part) for part in content]
    return content


def _take_part(taking: Taking, part: Any) -> Any:
    kind = part.get("type")
    if isinstance(kind, str) and kind in _TEXT_KEYS:
        key = _TEXT_KEYS[kind]
        if isinstance(part.get(key), str):
            return {**part, key: taking.text(part[key])}
    inside = part.get(kind) if isinstance(kind, str) else None
    if isinstance(inside, dict):
        if kind in _MEDIA_KINDS and isinstance(inside.get("url"), str):
            url = taking.url(_MEDIA_KINDS[kind], inside["url"], detail=inside.get("detail"))
            return {**part, kind: {**inside, "url": url}}
        if kind == "input_audio" and isinstance(inside.get("data"), str):
            data = taking.data("audio", inside["data"], format=inside.get("format"))
            return {**part, kind: {**inside, "data": data}}
        if kind == "file":
            title = inside.get("filename")
            if isinstance(inside.get("file_data"), str):
                given = inside["file_data"]
                take = taking.url if given.startswith("data:") else taking.data
                return {**part, kind: {**inside,
                                       "file_data": take("document", given, title=title)}}
            if isinstance(inside.get("file_id"), str):
                path = taking.file("document", inside["file_id"], title=title)
                return {**part, kind: {**inside, "file_id": path}}
    return taking.opaque(kind, part)


def _take_audio(taking: Taking, audio: Dict) -> Dict:
    made = dict(audio)
    if isinstance(made.get("transcript"), str):
        made["transcript"] = taking.text(made["transcript"])
    if isinstance(made.get("data"), str):
        made["data"] = taking.data("audio", made["data"])
    return made


def _take_function(taking: Taking, function: Dict) -> Dict:
    made = dict(function)
    _, name, arguments = taking.call(None, made.get("name"), made.get("arguments", ""))
    return _put_back(made, name=name, arguments=arguments)


def _take_call(taking: Taking, call: Any) -> Any:
    kind = call.get("type", "function")
    inside = call.get(kind) if isinstance(kind, str) else None
    if not isinstance(inside, dict):
        given_id, _, _ = taking.call(call.get("id"), None, "{}")
        return _put_back(dict(call), id=given_id)
    key = "input" if kind == "custom" else "arguments"
    given_id, name, value = taking.call(
        call.get("id"), inside.get("name"), inside.get(key, ""))
    made = _put_back(dict(call), id=given_id)
    made[kind] = _put_back(dict(inside), **{"name": name, key: value})
    return made


def _take_result(taking: Taking, made: Dict) -> None:
    content = made.get("content")
    texts: list[str] = []
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, list):
        texts = [part["text"] for part in content if _is_text_part(part)]
    called, name, holes = taking.result(made.get("tool_call_id"), made.get("name"), texts)
    _put_back(made, tool_call_id=called, name=name)
    if isinstance(content, str):
        made["content"] = holes[0]
    elif isinstance(content, list):
        made["content"] = [{**part, "text": holes.pop(0)} if _is_text_part(part)
                           else _take_part(taking, part) for part in content]


def _is_text_part(part: Dict) -> bool:
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def _put_back(made: Dict, **values: Any) -> Dict:
    """Gives the keys that there are their values."""
    for key, value in values.items():
        if key in made:
            made[key] = value
    return made


def _assistant(message: memory.Message, parts: list[memory.Part], crossing: Crossing) -> Dict:
    calls = [
        {"id": crossing.call_id(call), "type": "function",
         "function": {"name": crossing.tool_name(call.name), "arguments": call.arguments_json}}
        for call in (part.tool_call for part in parts if part.HasField("tool_call"))]
    texts = [memory.Part(text=text) for text in texts_of(parts)]
    made: Dict = {"role": "assistant",
                  "content": None if calls and not texts else _joined(texts)}
    if message.name:
        made["name"] = message.name
    if calls:
        made["tool_calls"] = calls
    return made


def _result(result: memory.ToolResult, crossing: Crossing) -> Dict:
    answered = crossing.answered(result)
    if answered is not None:
        return {"role": "tool", "tool_call_id": answered, "content": result.text}
    return {"role": "function", "name": crossing.tool_name(result.name), "content": result.text}


def _joined(parts: list[memory.Part]) -> Any:
    """Content of these parts: a text where they are no more than that."""
    blocks = _blocks(parts)
    if not blocks:
        return ""
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return blocks[0]["text"]
    return blocks


def _blocks(parts: Iterable[memory.Part]) -> list[Dict]:
    made = (_block(part) for part in parts)
    return [block for block in made if block is not None]


def _block(part: memory.Part) -> Dict | None:
    kind = part.WhichOneof("kind")
    if kind == "image":
        url = part.image.url
        if part.image.HasField("data"):
            url = _data_url(part.image.mime_type or "image/png", part.image.data)
        if not url:
            return _text(f"[image {part.image.path}]")
        about: Dict = {"url": url}
        if part.image.HasField("detail"):
            about["detail"] = part.image.detail
        return {"type": "image_url", "image_url": about}
    if kind == "audio":
        return _audio(part.audio)
    if kind == "document":
        return _document(part.document)
    if kind == "video":
        return _text(f"[video {part.video.url}]" if part.video.url[:5] != "data:" else "[video]")
    texts = texts_of([part])
    return _text(texts[0]) if texts else None


def _audio(audio: memory.Media) -> Dict:
    data = audio.data
    form = audio.format or audio.mime_type.rpartition("/")[2]
    form = {"mpeg": "mp3", "x-wav": "wav"}.get(form, form)
    if not data or form not in ("wav", "mp3"):
        return _text("[audio]")
    return {"type": "input_audio",
            "input_audio": {"data": base64.b64encode(data).decode(), "format": form}}


def _document(document: memory.Media) -> Dict:
    held = held_by(document)
    if held is None:
        named = " ".join(filter(None, (document.title, document.url or document.path)))
        return _text(f"[document {named}]")
    mime_type, data = held
    if mime_type.startswith("text/") or mime_type in ("", "application/json"):
        try:
            return _text("\n".join(filter(None, (document.title, data.decode()))))
        except UnicodeDecodeError:
            pass
    mime_type = mime_type or "application/octet-stream"
    return {"type": "file", "file": {"filename": document.title or "document",
                                     "file_data": _data_url(mime_type, data)}}


def _data_url(mime_type: str, data: bytes) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def _text(text: str) -> Dict:
    return {"type": "text", "text": text}
