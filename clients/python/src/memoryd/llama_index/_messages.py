"""A ChatMessage, or its model_dump(mode="json"), as memoryd.v1.Message and back, without loss.

A null is an absent field; additional_kwargs is metadata_json, its key order and its difference of
1 and 1.0 kept. Blocks that the wire has no part for (`cache`, `citable`), and the rare block that a
part can't hold exactly, travel as `opaque` with the block's JSON.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from memoryd.v1 import memory_pb2 as memory

Block = dict[str, Any]

# Per kind of media: the block's keys in their order, and the wire field of each.
_MEDIA = {
    "image": {
        "image": "data",
        "path": "path",
        "url": "url",
        "image_mimetype": "mime_type",
        "detail": "detail",
    },
    "audio": {"audio": "data", "path": "path", "url": "url", "format": "format"},
    "video": {
        "video": "data",
        "path": "path",
        "url": "url",
        "video_mimetype": "mime_type",
        "detail": "detail",
        "fps": "fps",
    },
    "document": {
        "data": "data",
        "path": "path",
        "url": "url",
        "title": "title",
        "document_mimetype": "mime_type",
    },
}


def from_chat(chat: ChatMessage) -> memory.Message:
    """The wire form of a ChatMessage."""
    return to_message(chat.model_dump(mode="json"))


def to_chat(message: memory.Message) -> ChatMessage:
    """The ChatMessage that a message stands for."""
    return ChatMessage.model_validate(to_dump(message))


def to_message(dump: dict[str, Any]) -> memory.Message:
    """The wire form of a dumped ChatMessage."""
    kwargs = dump["additional_kwargs"]
    return memory.Message(
        role=dump["role"],
        metadata_json=_dumps(kwargs) if kwargs else "",
        parts=[to_part(block) for block in dump["blocks"]],
    )


def to_dump(message: memory.Message) -> dict[str, Any]:
    """The dump of the ChatMessage that a message stands for."""
    if message.HasField("text"):
        blocks = [{"block_type": "text", "text": message.text}]
    else:
        blocks = [_to_block(part) for part in message.parts]
    metadata = message.metadata_json
    return {
        "role": message.role,
        "additional_kwargs": json.loads(metadata) if metadata else {},
        "blocks": blocks,
    }


def to_part(block: Block) -> memory.Part:
    try:
        part = _to_part(block)
        if _same(_to_block(part), block):
            return part
    except (binascii.Error, KeyError, TypeError, ValueError):
        pass  # A shape that no part can hold.
    opaque = memory.Opaque(type=block["block_type"], data=_dumps(block).encode())
    return memory.Part(opaque=opaque)


def _to_part(block: Block) -> memory.Part:
    kind = block["block_type"]
    if kind == "text":
        return memory.Part(text=block["text"])
    if kind in _MEDIA:
        part = memory.Part()
        getattr(part, kind).SetInParent()
        getattr(part, kind).MergeFrom(_to_media(kind, block))
        return part
    if kind == "tool_call":
        call = memory.ToolCall(
            call_id=block["tool_call_id"],
            name=block["tool_name"],
            arguments_json=_to_arguments(block["tool_kwargs"]),
        )
        return memory.Part(tool_call=call)
    if kind == "thinking":
        extra = block["additional_information"]
        thinking = memory.Thinking(
            text=block["content"],
            token_count=block["num_tokens"],
            additional_json=_dumps(extra) if extra else "",
        )
        return memory.Part(thinking=thinking)
    if kind == "citation" and block["cited_content"]["block_type"] == "text":
        citation = memory.Citation(
            cited_text=block["cited_content"]["text"],
            source=block["source"],
            title=block["title"],
            location_json=_dumps(block["additional_location_info"]),
        )
        return memory.Part(citation=citation)
    raise ValueError(f"no part for a block of type {kind}")


def _to_block(part: memory.Part) -> Block:
    kind = part.WhichOneof("kind")
    if kind == "text":
        return {"block_type": "text", "text": part.text}
    if kind in _MEDIA:
        return _from_media(kind, getattr(part, kind))
    if kind == "tool_call":
        call = part.tool_call
        return {
            "block_type": "tool_call",
            "tool_call_id": _optional(call, "call_id"),
            "tool_name": call.name,
            "tool_kwargs": _from_arguments(call.arguments_json),
        }
    if kind == "thinking":
        thinking = part.thinking
        extra = thinking.additional_json
        return {
            "block_type": "thinking",
            "content": _optional(thinking, "text"),
            "num_tokens": _optional(thinking, "token_count"),
            "additional_information": json.loads(extra) if extra else {},
        }
    if kind == "citation":
        citation = part.citation
        return {
            "block_type": "citation",
            "cited_content": {"block_type": "text", "text": citation.cited_text},
            "source": citation.source,
            "title": citation.title,
            "additional_location_info": json.loads(citation.location_json),
        }
    if kind == "opaque":
        opaque: Block = json.loads(part.opaque.data)
        return opaque
    raise ValueError(f"no block for a part of kind {kind}")


def _to_media(kind: str, block: Block) -> memory.Media:
    media = memory.Media()
    for key, field in _MEDIA[kind].items():
        value = block[key]
        if value is not None:
            setattr(media, field,
                    base64.b64decode(value, validate=True) if field == "data" else value)
    return media


def _from_media(kind: str, media: memory.Media) -> Block:
    block: Block = {"block_type": kind}
    for key, field in _MEDIA[kind].items():
        value = _optional(media, field)
        if value is not None and field == "data":
            value = base64.b64encode(value).decode()
        elif value is not None and field == "fps":
            value = int(value)  # The library's type; a fraction shows as a difference.
        block[key] = value
    return block


def _to_arguments(arguments: dict[str, Any] | str) -> str:
    # A string goes as it is unless it would read back as something else.
    if isinstance(arguments, str) and _from_arguments(arguments) == arguments:
        return arguments
    return _dumps(arguments)


def _from_arguments(text: str) -> dict[str, Any] | str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (dict, str)) else text


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _same(left: Any, right: Any) -> bool:
    # As text, since 1 == 1.0 == True and the order of keys counts.
    return _dumps(left) == _dumps(right)


def _optional(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None
