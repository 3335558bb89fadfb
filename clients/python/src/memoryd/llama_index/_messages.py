"""A ChatMessage, or its model_dump(mode="json"), as memoryd.v1.Message and back, without loss.

A null is an absent field; additional_kwargs is metadata_json, its key order and its difference of
1 and 1.0 kept. Blocks that the wire has no part for (`cache`, `citable`), and the rare block that a
part can't hold exactly, travel as `opaque` with the block's JSON.

Calls and results that additional_kwargs alone name are parts of an id alone, behind those of the
blocks, so that the server knows which result belongs to which call. A last part, opaque and of type
KEY, says how many of these there are, and holds what the server would refuse in its own place. It
counts parts from the end of the blocks', since a Get may insert some ahead of them.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from memoryd._templates import KEY as TEMPLATE
from memoryd._templates import without_template
from memoryd._units import Said
from memoryd._wire_text import (
    MAX_METADATA_BYTES,
    MAX_PARTS,
    Halves,
    call_id,
    dumps,
    is_json,
    is_text,
    pieces,
    with_halves,
    without_halves,
)
from memoryd.v1 import memory_pb2 as memory

Block = dict[str, Any]

KEY = "llama-index"
# What the last part may say that does not concern blocks.
_OF_MESSAGE = {"beside", "additional_kwargs"}
# Of the parts of a message, those that name calls and results beside blocks.
_MAX_BESIDE = MAX_PARTS // 2

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
    made = memory.Message(role=dump["role"])
    about: dict[str, Any] = {}
    if kwargs:
        text = dumps(kwargs)
        if is_json(kwargs, text, max_bytes=MAX_METADATA_BYTES):
            made.metadata_json = text
        else:
            about["additional_kwargs"] = kwargs
    calls, result = _calls_of(dump["blocks"], kwargs), call_id(kwargs.get("tool_call_id"))
    room = MAX_PARTS - 1 - min(len(calls) + 1, _MAX_BESIDE)
    parts = _content(dump["blocks"], room, about)
    beside = _beside(calls, result, {part.tool_call.call_id for part in parts})
    if beside:
        about["beside"] = len(beside)
    made.parts.extend(parts + beside)
    if about:
        opaque = memory.Opaque(type=KEY, data=dumps(about).encode())
        made.parts.append(memory.Part(opaque=opaque))
    return made


def to_dump(message: memory.Message) -> dict[str, Any]:
    """The dump of the ChatMessage that a message stands for."""
    metadata = message.metadata_json
    kwargs = without_template(json.loads(metadata)) if metadata else {}
    if message.HasField("text"):
        blocks = [{"block_type": "text", "text": message.text}]
    else:
        parts = list(message.parts)
        if parts and parts[-1].opaque.type == TEMPLATE:
            parts.pop()
        about = _about(parts)
        if about:
            del parts[len(parts) - about.get("beside", 0):]
            kwargs = about.get("additional_kwargs", kwargs)
        elif any(part.HasField("tool_result") for part in parts):
            kwargs = _of_another(parts, kwargs)
        if about.keys() <= _OF_MESSAGE:
            blocks = [_to_block(part) for part in parts]
        else:
            blocks = _blocks(parts, about)
    return {"role": message.role, "additional_kwargs": kwargs, "blocks": blocks}


def said(message: memory.Message) -> Said:
    """The calls that a stored message makes and answers, also where only additional_kwargs say so,
    as in what earlier clients have stored."""
    calls = {part.tool_call.call_id for part in message.parts if part.HasField("tool_call")}
    results = {part.tool_result.call_id for part in message.parts if part.HasField("tool_result")}
    if '"tool_call' in message.metadata_json:
        kwargs = json.loads(message.metadata_json)
        calls.update(_calls_of([], kwargs))
        results.add(call_id(kwargs.get("tool_call_id")) or "")
    return Said(message.position, message.role, sorted(calls - {""}), sorted(results - {""}),
                archived=message.status == memory.MESSAGE_STATUS_ARCHIVED)


def _content(blocks: list[Block], room: int, about: dict[str, Any]) -> list[memory.Part]:
    """The blocks as at most `room` parts. `about` gets what else it takes to have them back."""
    parts: list[memory.Part] = []
    halves: list[list[Any]] = []
    divided: list[list[int]] = []
    taken = 0
    for block in blocks:
        lone: Halves = []
        if block["block_type"] == "text":
            text, lone = without_halves(block["text"])
            made = [memory.Part(text=piece) for piece in pieces(text)]
        else:
            made = [to_part(block)]
        if len(parts) + len(made) > room:
            break
        if lone:
            halves.append([taken, lone])
        if len(made) > 1:
            divided.append([len(parts), len(made)])
        parts.extend(made)
        taken += 1
    if halves:
        about["halves"] = [[at - taken, lone] for at, lone in halves]
    if divided:
        about["pieces"] = [[at - len(parts), count] for at, count in divided]
    if taken < len(blocks):
        about["more"] = blocks[taken:]
    return parts


def _about(parts: list[memory.Part]) -> dict[str, Any]:
    """What the last part, which goes, says of the others; empty without such a one."""
    if not parts or not parts[-1].HasField("opaque") or parts[-1].opaque.type != KEY:
        return {}
    said: dict[str, Any] = json.loads(parts.pop().opaque.data)
    return said


def _blocks(parts: list[memory.Part], about: dict[str, Any]) -> list[Block]:
    first_of = {len(parts) + at: count for at, count in about.get("pieces", [])}
    blocks: list[Block] = []
    at = 0
    while at < len(parts):
        count = first_of.get(at, 1)
        block = _to_block(parts[at])
        for piece in parts[at + 1:at + count]:
            block["text"] += piece.text
        blocks.append(block)
        at += count
    for at, lone in about.get("halves", []):
        blocks[at]["text"] = with_halves(blocks[at]["text"], lone)
    blocks.extend(about.get("more", []))
    return blocks


def _calls_of(blocks: list[Block], kwargs: dict[str, Any]) -> list[str]:
    """The ids of the calls that a message makes, each once: in blocks, and in additional_kwargs as
    the clients of models leave them there."""
    found = [block["tool_call_id"] for block in blocks if block["block_type"] == "tool_call"]
    raw = kwargs.get("tool_calls")
    for call in raw if isinstance(raw, list) else []:
        if isinstance(call, dict):
            # OpenAI's and Anthropic's name, and Bedrock's.
            found.append(call.get("id") or call.get("toolUseId"))
    return list(dict.fromkeys(made for made in map(call_id, found) if made is not None))


def _beside(calls: list[str], result: str | None, known: set[str]) -> list[memory.Part]:
    """Parts for the result, and for the calls that are not known by parts of blocks. They have no
    words: those are in the blocks, which are counted and shown as the library does it."""
    made = [] if result is None else [
        memory.Part(tool_result=memory.ToolResult(call_id=result))]
    made += [memory.Part(tool_call=memory.ToolCall(call_id=call))
             for call in calls if call not in known]
    return made[:_MAX_BESIDE]


def _of_another(parts: list[memory.Part], kwargs: dict[str, Any]) -> dict[str, Any]:
    """additional_kwargs of a result that another client has put."""
    [answered, *_] = [part.tool_result for part in parts if part.HasField("tool_result")]
    return {"tool_call_id": answered.call_id, **kwargs} if answered.call_id else kwargs


def to_part(block: Block) -> memory.Part:
    try:
        part = _to_part(block)
        if _same(_to_block(part), block):
            return part
    except (binascii.Error, KeyError, TypeError, ValueError):
        pass  # A shape that no part can hold.
    opaque = memory.Opaque(type=block["block_type"], data=dumps(block).encode())
    return memory.Part(opaque=opaque)


def _to_part(block: Block) -> memory.Part:
    kind = block["block_type"]
    if kind == "text":
        return memory.Part(text=_checked(block["text"]))
    if kind in _MEDIA:
        part = memory.Part()
        getattr(part, kind).SetInParent()
        getattr(part, kind).MergeFrom(_to_media(kind, block))
        return part
    if kind == "tool_call":
        given = block["tool_call_id"]
        if given and call_id(given) != given:
            raise ValueError("no id for a part")
        call = memory.ToolCall(
            call_id=given,
            name=block["tool_name"],
            arguments_json=_checked(_to_arguments(block["tool_kwargs"])),
        )
        return memory.Part(tool_call=call)
    if kind == "thinking":
        extra = block["additional_information"]
        thinking = memory.Thinking(
            text=_checked(block["content"]),
            token_count=block["num_tokens"],
            additional_json=_checked_json(extra) if extra else "",
        )
        return memory.Part(thinking=thinking)
    if kind == "citation" and block["cited_content"]["block_type"] == "text":
        citation = memory.Citation(
            cited_text=_checked(block["cited_content"]["text"]),
            source=block["source"],
            title=block["title"],
            location_json=_checked_json(block["additional_location_info"]),
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
        return _of_opaque(part.opaque)
    if kind == "tool_result":  # Of another client, as is JSON.
        return {"block_type": "text", "text": part.tool_result.text}
    if kind == "json":
        return {"block_type": "text", "text": part.json}
    raise ValueError(f"no block for a part of kind {kind}")


def _of_opaque(opaque: memory.Opaque) -> Block:
    try:
        block: Block = json.loads(opaque.data)
        if "block_type" in block:
            return block
    except ValueError:
        pass
    # Another client wrote it.
    return {"block_type": "text", "text": opaque.data.decode(errors="replace")}


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
    return dumps(arguments)


def _from_arguments(text: str) -> dict[str, Any] | str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (dict, str)) else text


def _checked(text: str | None) -> str | None:
    if text is not None and not is_text(text):
        raise ValueError("no text for a part")
    return text


def _checked_json(value: Any) -> str:
    text = dumps(value)
    if not is_json(value, text):
        raise ValueError("no JSON for a part")
    return text


def _same(left: Any, right: Any) -> bool:
    # As text, since 1 == 1.0 == True and the order of keys counts.
    return dumps(left) == dumps(right)


def _optional(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None
