"""Messages of Anthropic's API, into parts and out of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from memoryd._crossing import Crossing, texts_of
from memoryd._roles import is_assistant, is_system, is_tool
from memoryd._templates import Taking, held_by
from memoryd.v1 import memory_pb2 as memory

Dict = dict[str, Any]

_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_IMAGE_BEGINS = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG", "image/png"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def taken(message: Dict) -> tuple[Taking, Dict]:
    """The parts of a message, and its template."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    taking = Taking(sum(block.get("type") in ("tool_use", "tool_result") for block in blocks))
    made = dict(message)
    if isinstance(content, str):
        made["content"] = taking.text(content)
    elif isinstance(content, list):
        made["content"] = [_take_block(taking, block) for block in content]
    return taking, made


def canonical(message: memory.Message, parts: list[memory.Part], crossing: Crossing) -> list[Dict]:
    """The messages that the parts say. Of the role `system` one that belongs in `system`. Without
    content, which the API refuses, there is none."""
    role = message.role
    if is_system(role):
        return _message("system", [_text(text) for text in texts_of(parts) if text.strip()])
    results = [part.tool_result for part in parts if part.HasField("tool_result")]
    others = [part for part in parts if not part.HasField("tool_result")]
    if is_tool(role):
        said = "".join(texts_of(others))
        results = results or [memory.ToolResult(name=message.name)]
        results[-1] = memory.ToolResult.FromString(results[-1].SerializeToString())
        results[-1].text += said
        others = [part for part in others if part.WhichOneof("kind") in ("image", "document")]
    answers = [_result(result, crossing) for result in results]
    # The API takes results only ahead of anything else.
    answers.sort(key=lambda block: block["type"] != "tool_result")
    if is_assistant(role):
        return _message("assistant", _blocks(others, crossing, True)) + _message("user", answers)
    return _message("user", answers + _blocks(others, crossing, False))


def blocks_of(parts: Iterable[memory.Part]) -> list[Dict]:
    """The blocks that say what these parts say."""
    return _blocks(parts, Crossing(), False)


def _take_block(taking: Taking, block: Dict) -> Any:
    kind, made = block.get("type"), dict(block)
    if kind == "text" and isinstance(block.get("text"), str):
        made["text"] = taking.text(block["text"])
    elif kind in ("image", "document") and _take_source(taking, kind, made):
        pass
    elif kind == "tool_use" and isinstance(block.get("input"), dict):
        made["id"], made["name"], made["input"] = taking.call(
            block.get("id"), block.get("name"), block["input"])
        made = {key: made[key] for key in block}
    elif kind == "tool_result":
        _take_result(taking, made)
    elif kind == "thinking" and isinstance(block.get("thinking"), str):
        made["thinking"], signature = taking.thinking(block["thinking"], block.get("signature"))
        if "signature" in block:
            made["signature"] = signature
    elif kind == "search_result" and isinstance(block.get("content"), list):
        made["content"] = [_take_block(taking, inner) for inner in block["content"]]
    else:
        return taking.opaque(kind, block)
    return made


def _take_source(taking: Taking, kind: str, made: Dict) -> bool:
    """Takes the source of an image or a document; False for one of an unknown kind."""
    source = made.get("source")
    if not isinstance(source, dict):
        return False
    about = {"title": made.get("title")} if kind == "document" else {}
    of = source.get("type")
    if of == "base64" and isinstance(source.get("data"), str):
        data = taking.data(kind, source["data"], mime_type=source.get("media_type"), **about)
        made["source"] = {**source, "data": data}
    elif of == "text" and isinstance(source.get("data"), str):
        data = taking.plain(kind, source["data"], mime_type=source.get("media_type"), **about)
        made["source"] = {**source, "data": data}
    elif of == "url" and isinstance(source.get("url"), str):
        made["source"] = {**source, "url": taking.url(kind, source["url"], **about)}
    elif of == "file" and isinstance(source.get("file_id"), str):
        made["source"] = {**source, "file_id": taking.file(kind, source["file_id"], **about)}
    elif of == "content" and isinstance(source.get("content"), str):
        made["source"] = {**source, "content": taking.plain(
            kind, source["content"], mime_type="text/plain", **about)}
    elif of == "content" and isinstance(source.get("content"), list):
        made["source"] = {**source, "content": [_take_block(taking, inner)
                                                for inner in source["content"]]}
    else:
        return False
    return True


def _take_result(taking: Taking, made: Dict) -> None:
    content = made.get("content")
    texts: list[str] = []
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, list):
        texts = [text for block in content for text in _texts_in(block)]
    called, _, holes = taking.result(
        made.get("tool_use_id"), None, texts, made.get("is_error") is True)
    if "tool_use_id" in made:
        made["tool_use_id"] = called
    if isinstance(content, str):
        made["content"] = holes[0]
    elif isinstance(content, list):
        made["content"] = [_in_result(taking, block, holes) for block in content]


def _texts_in(block: Dict) -> list[str]:
    """The texts of a block of a result that belong to the answer's text."""
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return [block["text"]]
    if block.get("type") == "search_result" and isinstance(block.get("content"), list):
        return [text for inner in block["content"] for text in _texts_in(inner)]
    return []


def _in_result(taking: Taking, block: Dict, holes: list[Any]) -> Any:
    if not _texts_in(block):
        return _take_block(taking, block)
    if block["type"] == "text":
        return {**block, "text": holes.pop(0)}
    return {**block, "content": [_in_result(taking, inner, holes) for inner in block["content"]]}


def _message(role: str, blocks: list[Dict]) -> list[Dict]:
    if not blocks:
        return []
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return [{"role": role, "content": blocks[0]["text"]}]
    return [{"role": role, "content": blocks}]


def _result(result: memory.ToolResult, crossing: Crossing) -> Dict:
    answered = crossing.answered(result)
    if answered is None:
        return _text(f"[{result.name or 'tool'}] {result.text}")
    made: Dict = {"type": "tool_result", "tool_use_id": answered, "content": result.text}
    if result.is_error:
        made["is_error"] = True
    return made


def _blocks(parts: Iterable[memory.Part], crossing: Crossing, is_assistant: bool) -> list[Dict]:
    made = (_block(part, crossing, is_assistant) for part in parts)
    return [block for block in made if block is not None]


def _block(part: memory.Part, crossing: Crossing, is_assistant: bool) -> Dict | None:
    kind = part.WhichOneof("kind")
    if kind == "tool_call":
        return _tool_use(part.tool_call, crossing) if is_assistant else None
    if kind == "thinking":
        # Without a signature the API refuses it.
        if not is_assistant or not part.thinking.signature:
            return None
        return {"type": "thinking", "thinking": part.thinking.text,
                "signature": part.thinking.signature}
    if kind in ("image", "document"):
        block = _image(part.image) if kind == "image" else _document(part.document)
        if block["type"] == "text" or not is_assistant:
            return block
        return _text(f"[{kind}]")  # Only a user's message may have one.
    if kind in ("audio", "video"):
        return _text(f"[{kind}]")
    texts = [text for text in texts_of([part]) if text.strip()]
    return _text(texts[0]) if texts else None


def _tool_use(call: memory.ToolCall, crossing: Crossing) -> Dict:
    return {"type": "tool_use", "id": crossing.call_id(call),
            "name": crossing.tool_name(call.name), "input": _input(call.arguments_json)}


def _input(text: str) -> Dict:
    """Arguments as the API takes them, an object."""
    try:
        value = json.loads(text or "{}")
    except ValueError:  # Of a stream that was cut, or of a tool that takes text.
        value = text
    return value if isinstance(value, dict) else {"arguments": value}


def _image(image: memory.Media) -> Dict:
    held = held_by(image)
    if held is None:
        if source := _web_source(image):
            return {"type": "image", "source": source}
        return _text(f"[image {image.path or image.url}]".replace(" ]", "]"))
    mime_type, data = held
    if mime_type not in _IMAGE_TYPES:
        mime_type = next((name for begin, name in _IMAGE_BEGINS if data.startswith(begin)), "")
    if not mime_type or not data:
        return _text("[image]")
    return {"type": "image", "source": _base64(mime_type, data)}


def _document(document: memory.Media) -> Dict:
    held = held_by(document)
    if held is None:
        if source := _web_source(document):
            return _titled(document, source)
        named = " ".join(filter(None, (document.title, document.path or document.url)))
        return _text(f"[document {named}]")
    mime_type, data = held
    if mime_type == "application/pdf" or data.startswith(b"%PDF"):
        return _titled(document, _base64("application/pdf", data))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.strip():
        return _text(f"[document {document.title}]".replace(" ]", "]"))
    return _titled(document, {"type": "text", "media_type": "text/plain", "data": text})


def _web_source(media: memory.Media) -> Dict | None:
    """The source of what the API fetches itself."""
    is_web = media.url.startswith(("http://", "https://"))
    return {"type": "url", "url": media.url} if is_web else None


def _titled(document: memory.Media, source: Dict) -> Dict:
    made: Dict = {"type": "document", "source": source}
    if document.title:
        made["title"] = document.title
    return made


def _base64(mime_type: str, data: bytes) -> Dict:
    return {"type": "base64", "media_type": mime_type, "data": base64.b64encode(data).decode()}


def _text(text: str) -> Dict:
    return {"type": "text", "text": text}
