"""Conversion between LangChain's messages and memoryd's.

Content, tool calls and name are in memoryd's own fields, so every client of the session can read
them and Query finds them. Other data of a message is under `langchain` in its metadata, or in an
opaque part if the server would refuse it there; a plain question or answer has none. Calls that
LangChain keeps outside `tool_calls`, such as those of a chunk, are parts too, after the others. So
the server knows which result belongs to which call. Messages of other clients are read as the
LangChain message of their role.
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

from memoryd._templates import KEY as TEMPLATE
from memoryd._templates import without_template
from memoryd._units import Said
from memoryd._wire_text import (
    MAX_METADATA_BYTES,
    MAX_PARTS,
    call_id,
    dumps,
    is_json,
    is_text,
    pieces,
    with_halves,
    without_halves,
)
from memoryd.langchain import _blocks
from memoryd.v1 import memory_pb2 as memory

KEY = "langchain"
# So many calls of a message are parts; the others stay in LangChain's form alone.
_MAX_CALLS = MAX_PARTS // 2
# Larger arguments of a call stay in LangChain's form alone.
_MAX_ARGUMENTS_AGAIN = 64 << 10
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
    # Other frameworks have these.
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
    """Converts a message to memoryd's form. Raises TypeError if it could not be restored from
    there."""
    if message.type not in _TYPES:
        raise TypeError(f"a message of type {message.type!r} can't be stored: LangChain could not "
                        "load it again")
    made = memory.Message(role=_role(message))
    rest = _beyond_defaults(message)
    about: dict[str, Any] = {}
    if _TYPE_OF_ROLE.get(made.role) != message.type:
        about["type"] = message.type
    if rest.get("name") and _is_name(rest["name"]):
        made.name = rest.pop("name")
    try:
        calls = list(_call_parts(message, rest))
        beside = list(_calls_beside(message, calls))
        result = _result(message, rest)
        if isinstance(message.content, str):
            text, halves = without_halves(message.content)
            if halves:
                about["halves"] = halves
            parts = [memory.Part(text=piece) for piece in pieces(text)]
            if result is not None:
                result.text = parts.pop(0).text
                if parts:
                    about["pieces"] = True
                parts.insert(0, memory.Part(tool_result=result))
        else:
            about["list"] = True
            parts = [] if result is None else [memory.Part(tool_result=result)]
            room = MAX_PARTS - 1 - len(parts) - len(calls) - len(beside)
            for block in message.content[:room]:
                part, template = _part(block)
                if template is not None:
                    at = len(parts) - (result is not None)
                    about.setdefault("blocks", {})[str(at)] = template
                parts.append(part)
            if len(message.content) > room:
                about["more"] = message.content[room:]
        parts += calls + beside
        if beside:
            about["beside"] = len(beside)
        if rest:
            about["data"] = rest
        _set_about(made, parts, about)
    except (TypeError, ValueError) as error:
        raise TypeError(f"a {type(message).__name__} can't be stored: {error}") from error
    if len(parts) == 1 and parts[0].HasField("text"):
        made.text = parts[0].text
    else:
        made.parts.extend(parts)
    return made


def from_message(found: memory.Message) -> BaseMessage:
    """Converts a stored message to the LangChain message that it was made from, or else to the
    nearest one."""
    metadata, parts = _metadata(found), list(found.parts)
    if parts and parts[-1].opaque.type == KEY:
        metadata = json.loads(parts.pop().opaque.data)
    about = metadata.get(KEY)
    if about is None:
        return _foreign(found, metadata)
    data: dict[str, Any] = about.get("data", {})
    del parts[len(parts) - about.get("beside", 0):]
    calls = [part.tool_call for part in parts if part.HasField("tool_call")]
    if calls:
        data["tool_calls"] = [_call(call) for call in calls]
    results = [part.tool_result for part in parts if part.HasField("tool_result")]
    if results:
        data.setdefault("tool_call_id", results[0].call_id)
        if results[0].is_error:
            data["status"] = "error"
    if found.name:
        data["name"] = found.name
    content: Any
    if about.get("list"):
        templates = about.get("blocks", {})
        content = [_block(part, templates.get(str(at))) for at, part in enumerate(
            part for part in _contents(found, parts) if not part.HasField("tool_result"))]
        content += about.get("more", [])
    else:
        text = "".join(part.tool_result.text if part.HasField("tool_result") else part.text
                       for part in _contents(found, parts))
        content = with_halves(text, about.get("halves", []))
    return _TYPES[about.get("type") or _TYPE_OF_ROLE[found.role]](content=content, **data)


def said(found: memory.Message) -> Said:
    """Returns the calls and results of a stored message, including those that only LangChain's form
    has, as earlier clients stored them."""
    calls = {part.tool_call.call_id for part in found.parts if part.HasField("tool_call")}
    results = {part.tool_result.call_id for part in found.parts if part.HasField("tool_result")}
    if "tool_call" in found.metadata_json or (
        found.parts and found.parts[-1].opaque.type == KEY
    ):
        message = from_message(found)
        calls.update(call_id(call.get("id")) or "" for call in _all_calls(message))
        if isinstance(message, ToolMessage):
            results.add(call_id(message.tool_call_id) or "")
    return Said(found.position, found.role, sorted(calls - {""}), sorted(results - {""}))


def text_message(role: str, text: str, name: str = "") -> memory.Message:
    """Returns a message with only text, of any size. Half a character becomes U+FFFD."""
    found = pieces(without_halves(text)[0])
    if len(found) == 1:
        return memory.Message(role=role, name=name, text=found[0])
    return memory.Message(role=role, name=name, parts=[memory.Part(text=one) for one in found])


def text_of(found: memory.Message) -> str:
    """Returns the text of a message from all its parts."""
    return "".join(part.tool_result.text if part.HasField("tool_result") else part.text
                   for part in _contents(found, list(found.parts)))


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        role = message.role
        # One that stands for another kind of message would mislead other clients.
        usable = role.isprintable() and 0 < len(role.encode()) <= _MAX_ROLE_BYTES
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


def _is_name(name: str) -> bool:
    return is_text(name) and len(name.encode()) <= _MAX_NAME_BYTES


def _call_parts(message: BaseMessage, rest: dict[str, Any]) -> Iterator[memory.Part]:
    """The tool calls as parts, taken out of the rest, if parts can hold all of them."""
    calls = rest.get("tool_calls")
    if isinstance(message, AIMessageChunk) or not calls:
        return  # A chunk makes its calls of their pieces, which are in the rest.
    if len(calls) > _MAX_CALLS or not all(call.keys() == _TOOL_CALL_KEYS for call in calls):
        return
    made = []
    for call in calls:
        arguments = dumps(call["args"])
        if call["id"] and call_id(call["id"]) != call["id"]:
            return
        if not is_text(arguments) or not is_text(call["name"]):
            return
        made.append(memory.Part(tool_call=memory.ToolCall(
            call_id=call["id"], name=call["name"], arguments_json=arguments)))
    del rest["tool_calls"]
    yield from made


def _call(call: memory.ToolCall) -> dict[str, Any]:
    return {"name": call.name, "args": json.loads(call.arguments_json or "{}"),
            "id": call.call_id if call.HasField("call_id") else None, "type": "tool_call"}


def _all_calls(message: BaseMessage) -> Iterator[dict[str, Any]]:
    """The calls of a message, wherever LangChain keeps them: in one place or several."""
    if not isinstance(message, AIMessage):
        return
    yield from message.tool_calls  # type: ignore[misc]
    yield from message.invalid_tool_calls  # type: ignore[misc]
    if isinstance(message, AIMessageChunk):
        yield from message.tool_call_chunks  # type: ignore[misc]
    raw = message.additional_kwargs.get("tool_calls")
    for call in raw if isinstance(raw, list) else []:
        if isinstance(call, dict):
            function = call.get("function")
            said = function if isinstance(function, dict) else {}
            yield {"id": call.get("id"), "name": said.get("name"), "args": said.get("arguments")}


def _calls_beside(message: BaseMessage, parts: list[memory.Part]) -> Iterator[memory.Part]:
    """Parts for the calls that have an id and are no parts yet."""
    known = {part.tool_call.call_id for part in parts}
    for call in _all_calls(message):
        made = call_id(call.get("id"))
        if made is None or made in known or len(known) >= _MAX_CALLS:
            continue
        known.add(made)
        name, arguments = call.get("name"), call.get("args")
        if not isinstance(arguments, str):
            arguments = dumps(arguments or {})
        elif not _is_object(arguments):
            arguments = "{}"  # Which some providers refuse otherwise.
        # Providers refuse a call without a name.
        name = without_halves(name)[0] if isinstance(name, str) and name else "tool"
        arguments = without_halves(arguments)[0]
        if len(arguments.encode()) > _MAX_ARGUMENTS_AGAIN:
            arguments = "{}"
        yield memory.Part(tool_call=memory.ToolCall(
            call_id=made, name=name[:_MAX_NAME_BYTES], arguments_json=arguments))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _result(message: BaseMessage, rest: dict[str, Any]) -> memory.ToolResult | None:
    """The answer to a call, without its text. The rest loses what the part holds."""
    if not isinstance(message, ToolMessage):
        return None
    given = message.tool_call_id
    made = memory.ToolResult(is_error=message.status == "error")
    if given == "" or call_id(given) == given:
        del rest["tool_call_id"]
    made.call_id = call_id(given) or ""
    if message.name and _is_name(message.name):
        made.name = message.name
    rest.pop("status", None)
    return made


def _set_about(made: memory.Message, parts: list[memory.Part], about: dict[str, Any]) -> None:
    if not about:
        return
    value = {KEY: about}
    text = dumps(value)
    if is_json(value, text, max_bytes=MAX_METADATA_BYTES):
        made.metadata_json = text
    else:
        parts.append(memory.Part(opaque=memory.Opaque(type=KEY, data=text.encode())))


def _part(block: str | dict[Any, Any]) -> tuple[memory.Part, Any]:
    """The part of a block, and a template of what stands around it unless the part says that."""
    if isinstance(block, dict) and (made := _blocks.part_of(block)) is not None:
        part, template = made
        says_all = list(_foreign_block(part).items()) == list(block.items())
        return part, None if says_all else template
    return memory.Part(opaque=memory.Opaque(type="json", data=dumps(block).encode())), None


def _block(part: memory.Part, template: Any) -> str | dict[Any, Any]:
    block = None if template is None else _blocks.block_of(part, template)
    if block is not None:
        return block
    if part.HasField("opaque"):
        loaded: str | dict[Any, Any] = json.loads(part.opaque.data)
        return loaded
    return _foreign_block(part)


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
    metadata = without_template(metadata)
    data: dict[str, Any] = {"additional_kwargs": metadata} if metadata else {}
    if found.name:
        data["name"] = found.name
    # Another adapter adds what its framework needs, and ids whose words are in the metadata.
    stored = [part for part in found.parts if part.opaque.type != TEMPLATE]
    known = [part for part in stored
             if part.opaque.type != "llama-index" and not _is_id_alone(part)]
    parts = _contents(found, known or stored)
    if all(part.HasField("text") for part in parts):
        content = "".join(part.text for part in parts)
    elif len(parts) == 1 and parts[0].HasField("tool_result"):
        content = parts[0].tool_result.text
    else:
        content = [_foreign_block(part) for part in parts]
    kind = _TYPE_OF_ROLE.get(found.role, "chat")
    if kind == "ai":
        calls = [_foreign_call(part.tool_call) for part in known if part.HasField("tool_call")]
        if calls or not metadata:  # Else LangChain makes them of additional_kwargs.
            data["tool_calls"] = calls
    elif kind == "tool":
        results = [part.tool_result for part in found.parts if part.HasField("tool_result")]
        called = results[0].call_id if results else metadata.get("tool_call_id", "")
        name = found.name or (results[0].name if results else "")
        data.update(tool_call_id=called, name=name or None,
                    status="error" if any(result.is_error for result in results) else "success")
    elif kind == "function":
        data["name"] = found.name
    elif kind == "chat":
        data["role"] = found.role
    return _TYPES[kind](content=content, **data)


def _is_id_alone(part: memory.Part) -> bool:
    call, result = part.tool_call, part.tool_result
    return (part.HasField("tool_call") and not call.name and not call.arguments_json) or (
        part.HasField("tool_result") and not result.name and not result.text)


def _foreign_call(call: memory.ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments_json or "{}")
    except ValueError:
        arguments = call.arguments_json
    if not isinstance(arguments, dict):  # LangChain's are always named.
        arguments = {"arguments": arguments}
    return {"name": call.name, "args": arguments,
            "id": call.call_id if call.HasField("call_id") else None, "type": "tool_call"}


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
