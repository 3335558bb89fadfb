"""LangChain's messages as memoryd's and back.

Content, tool calls and name stand in the fields that memoryd has for them, so that every client of
the session can read them and Query finds them. What else a message carries stands under `langchain`
in its metadata; a plain question or answer has none. Messages that other clients have put are read
as the LangChain message of their role.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from memoryd.v1 import memory_pb2 as memory

KEY = "langchain"
MAX_TEXT_BYTES = 1 << 20
# Of the 256 KiB and 64 levels that the server takes.
_MAX_METADATA_BYTES = 200 << 10
_MAX_METADATA_BRACKETS = 60
_MAX_NAME_BYTES = 256
_MAX_ROLE_BYTES = 64

_TYPES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
    "chat": ChatMessage,
    "remove": RemoveMessage,
    "HumanMessageChunk": HumanMessageChunk,
    "AIMessageChunk": AIMessageChunk,
    "SystemMessageChunk": SystemMessageChunk,
    "ToolMessageChunk": ToolMessageChunk,
    "FunctionMessageChunk": FunctionMessageChunk,
    "ChatMessageChunk": ChatMessageChunk,
}
# The message that a role means unless its metadata says otherwise.
_TYPE_OF_ROLE = {
    "user": "human",
    "assistant": "ai",
    "system": "system",
    "tool": "tool",
    "function": "function",
    # Of other frameworks.
    "developer": "system",
    "model": "ai",
    "chatbot": "ai",
}
_ROLES = (
    (HumanMessage, "user"),
    (AIMessage, "assistant"),
    (SystemMessage, "system"),
    (ToolMessage, "tool"),
    (FunctionMessage, "function"),
)
_TOOL_CALL_KEYS = {"type", "name", "args", "id"}


def to_message(message: BaseMessage) -> memory.Message:
    """The message in memoryd's form. TypeError when it can't be had back from there."""
    if message.type not in _TYPES:
        raise TypeError(f"a message of type {message.type!r} can't be stored: LangChain could not "
                        "load it again")
    made = memory.Message(role=_role(message))
    rest = _beyond_defaults(message)
    about: dict[str, Any] = {}
    if _TYPE_OF_ROLE.get(made.role) != message.type:
        about["type"] = message.type
    if rest.get("name") and len(rest["name"].encode()) <= _MAX_NAME_BYTES:
        made.name = rest.pop("name")
    try:
        calls = list(_call_parts(message, rest))
        if isinstance(message.content, str):
            _set_text(made, message.content, alone=not calls)
        else:
            about["list"] = True
            made.parts.extend(_part(block) for block in message.content)
        made.parts.extend(calls)
        if rest:
            about["data"] = rest
        if about:
            _set_about(made, _dump({KEY: about}))
    except (TypeError, ValueError) as error:
        raise TypeError(f"a {type(message).__name__} can't be stored: {error}") from error
    return made


def from_message(found: memory.Message) -> BaseMessage:
    """The LangChain message that was stored as this one, or is nearest to it."""
    metadata, parts = _metadata(found), list(found.parts)
    if parts and parts[-1].opaque.type == KEY:
        metadata = json.loads(parts.pop().opaque.data)
    about = metadata.get(KEY)
    if about is None:
        return _foreign(found, metadata)
    data: dict[str, Any] = about.get("data", {})
    calls = [part.tool_call for part in parts if part.HasField("tool_call")]
    if calls:
        data["tool_calls"] = [_call(call) for call in calls]
    if found.name:
        data["name"] = found.name
    if about.get("list"):
        content: Any = [_block(part) for part in _contents(found, parts)]
    else:
        content = "".join(part.text for part in _contents(found, parts))
    return _TYPES[about.get("type") or _TYPE_OF_ROLE[found.role]](content=content, **data)


def text_of(found: memory.Message) -> str:
    """The text of a message, whatever its parts."""
    return "".join(part.text for part in _contents(found, list(found.parts)))


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        role = message.role
        # One that stands for another kind of message would mislead other clients.
        usable = 0 < len(role.encode()) <= _MAX_ROLE_BYTES and role.isprintable()
        return role if usable and role not in _TYPE_OF_ROLE else "chat"
    return next((role for kind, role in _ROLES if isinstance(message, kind)), "system")


def _beyond_defaults(message: BaseMessage) -> dict[str, Any]:
    """The fields, content apart, that a new message of this kind would not have by itself."""
    kept = message.model_dump(exclude={"type", "content"})
    fields = type(message).model_fields
    for name in list(kept):
        field = fields.get(name)
        if field is None or field.is_required():
            continue
        if kept[name] == field.get_default(call_default_factory=True):
            del kept[name]
    return kept


def _call_parts(message: BaseMessage, rest: dict[str, Any]) -> Iterator[memory.Part]:
    """The tool calls as parts, taken out of the rest, if parts can hold all of them."""
    calls = rest.get("tool_calls")
    if isinstance(message, AIMessageChunk) or not calls:
        return  # A chunk makes its calls of their pieces, which are in the rest.
    if not all(call.keys() == _TOOL_CALL_KEYS for call in calls):
        return
    del rest["tool_calls"]
    for call in calls:
        yield memory.Part(tool_call=memory.ToolCall(
            call_id=call["id"], name=call["name"], arguments_json=_dump(call["args"])))


def _call(call: memory.ToolCall) -> dict[str, Any]:
    return {"name": call.name, "args": json.loads(call.arguments_json or "{}"),
            "id": call.call_id if call.HasField("call_id") else None, "type": "tool_call"}


def _set_text(made: memory.Message, text: str, *, alone: bool) -> None:
    # A character has at most four bytes.
    pieces = [text] if 4 * len(text) <= MAX_TEXT_BYTES else _pieces(text)
    if alone and len(pieces) == 1:
        made.text = text
    else:
        made.parts.extend(memory.Part(text=piece) for piece in pieces)


def _pieces(text: str) -> list[str]:
    size = MAX_TEXT_BYTES // 4
    return [text[start:start + size] for start in range(0, len(text), size)]


def _set_about(made: memory.Message, about: str) -> None:
    if _is_metadata(about):
        made.metadata_json = about
        return
    if made.HasField("text"):
        text = made.text
        made.ClearField("text")
        made.parts.add(text=text)
    made.parts.append(memory.Part(opaque=memory.Opaque(type=KEY, data=about.encode())))


def _is_metadata(about: str) -> bool:
    """Whether the server takes this JSON as metadata, as far as can be told at a glance."""
    brackets = about.count("{") + about.count("[")
    return (len(about.encode()) <= _MAX_METADATA_BYTES and brackets <= _MAX_METADATA_BRACKETS
            and "\\u0000" not in about)


def _part(block: str | dict[Any, Any]) -> memory.Part:
    if isinstance(block, dict):
        text = block.get("text")
        plain = block == {"type": "text", "text": text}
        if plain and isinstance(text, str) and 4 * len(text) <= MAX_TEXT_BYTES:
            return memory.Part(text=text)
        image = _image(block)
        if image is not None and _image_block(image) == block:
            return memory.Part(image=image)
    return memory.Part(opaque=memory.Opaque(type="json", data=_dump(block).encode()))


def _block(part: memory.Part) -> str | dict[Any, Any]:
    kind = part.WhichOneof("kind")
    if kind == "text":
        return {"type": "text", "text": part.text}
    if kind == "opaque":
        loaded: str | dict[Any, Any] = json.loads(part.opaque.data)
        return loaded
    return _image_block(part.image)


def _image(block: dict[Any, Any]) -> memory.Media | None:
    """An image in one of the two usual forms."""
    if block.get("type") == "image_url" and isinstance(block.get("image_url"), dict):
        about = block["image_url"]
        if isinstance(about.get("url"), str):
            detail = about.get("detail")
            return memory.Media(url=about["url"],
                                detail=detail if isinstance(detail, str) else None)
    if block.get("type") == "image" and isinstance(block.get("base64"), str):
        mime_type = block.get("mime_type")
        try:
            data = base64.b64decode(block["base64"], validate=True)
        except ValueError:
            return None
        return memory.Media(data=data, mime_type=mime_type if isinstance(mime_type, str) else None)
    return None


def _image_block(image: memory.Media) -> dict[str, Any]:
    if not image.HasField("data"):
        about = {"url": image.url}
        if image.HasField("detail"):
            about["detail"] = image.detail
        return {"type": "image_url", "image_url": about}
    block = {"type": "image", "base64": base64.b64encode(image.data).decode()}
    if image.HasField("mime_type"):
        block["mime_type"] = image.mime_type
    return block


def _contents(found: memory.Message, parts: list[memory.Part]) -> list[memory.Part]:
    """What the message's content is made of."""
    if found.HasField("text"):
        return [memory.Part(text=found.text)]
    return [part for part in parts if not part.HasField("tool_call")]


def _foreign(found: memory.Message, metadata: dict[str, Any]) -> BaseMessage:
    """A message that another client has put; or a plain one of ours, which is no different."""
    content: Any
    data: dict[str, Any] = {"additional_kwargs": metadata} if metadata else {}
    if found.name:
        data["name"] = found.name
    parts = _contents(found, list(found.parts))
    if all(part.HasField("text") for part in parts):
        content = "".join(part.text for part in parts)
    elif len(parts) == 1 and parts[0].HasField("tool_result"):
        content = parts[0].tool_result.text
    else:
        content = [_foreign_block(part) for part in parts]
    kind = _TYPE_OF_ROLE.get(found.role, "chat")
    if kind == "ai":
        data["tool_calls"] = [_foreign_call(part.tool_call) for part in found.parts
                              if part.HasField("tool_call")]
    elif kind == "tool":
        results = [part.tool_result for part in parts if part.HasField("tool_result")]
        called = results[0].call_id if results else metadata.get("tool_call_id", "")
        data.update(tool_call_id=called, name=found.name or (results[0].name if results else None),
                    status="error" if any(result.is_error for result in results) else "success")
    elif kind == "function":
        data["name"] = found.name
    elif kind == "chat":
        data["role"] = found.role
    return _TYPES[kind](content=content, **data)


def _foreign_call(call: memory.ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments_json or "{}")
    except ValueError:
        arguments = call.arguments_json
    if not isinstance(arguments, dict):  # LangChain's are always named.
        arguments = {"arguments": arguments}
    return {"name": call.name, "args": arguments, "id": call.call_id or None, "type": "tool_call"}


def _foreign_block(part: memory.Part) -> dict[str, Any]:
    kind = part.WhichOneof("kind")
    if kind == "text":
        return {"type": "text", "text": part.text}
    if kind == "tool_result":
        return {"type": "text", "text": part.tool_result.text}
    if kind == "thinking":
        return {"type": "reasoning", "reasoning": part.thinking.text}
    if kind == "citation":
        return {"type": "text", "text": part.citation.cited_text}
    if kind == "image":
        return _image_block(part.image)
    if kind in ("audio", "video", "document"):
        media = getattr(part, kind)
        block = {"type": "file" if kind == "document" else kind}
        if media.HasField("data"):
            block["base64"] = base64.b64encode(media.data).decode()
        else:
            block["url"] = media.url or media.path
        if media.HasField("mime_type"):
            block["mime_type"] = media.mime_type
        return block
    value = part.json if kind == "json" else part.opaque.data.decode(errors="replace")
    return {"type": "non_standard", "value": {"json": value}}


def _metadata(found: memory.Message) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(found.metadata_json) if found.metadata_json else {}
    return loaded


def _dump(value: Any) -> str:
    # NaN and infinity are no JSON, and no server would take them.
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
