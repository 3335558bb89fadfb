"""Conversion between AutoGen's MemoryContent and memory_pb2.Content."""

from __future__ import annotations

import base64
import contextlib
import json
import uuid
from collections.abc import Iterable
from typing import Any

from autogen_core import Image
from autogen_core.memory import MemoryContent, MemoryMimeType

from memoryd._wire_text import (
    MAX_METADATA_BYTES,
    dumps,
    is_json,
    is_text,
    joined,
    with_halves,
    without_halves,
)
from memoryd.autogen._plain import plain, restored
from memoryd.v1 import memory_pb2 as memory

# In metadata: what it takes to have value and metadata back as they were.
KEY = "memoryd.autogen"

# Marks a content whose MIME type was a str although the library has a name for it: the library
# keeps the two apart, the wire does not.
_PLAIN_MIME_TYPE = "mime-str-"
# Marks a content that its bytes hold whole, as JSON.
_PACKED = "packed-"
_MAX_MIME_TYPE_BYTES = 128
# What reading notes comes to that somebody else wrote.
_NOT_OURS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def to_content(item: MemoryContent) -> memory.Content:
    """Returns the proto message of a content. Types that JSON lacks are noted under KEY in the
    metadata. A content that the server would refuse becomes bytes that hold all of it.

    Raises TypeError for values and metadata of types that `_plain` does not know.
    """
    about: dict[str, Any] = {}
    metadata = None
    if item.metadata is not None:
        metadata, notes = plain(item.metadata, "metadata")
        if notes:
            about["metadata"] = notes
    made = memory.Content()
    value = item.content
    packed: Any = None
    if isinstance(value, str):
        packed, halves = without_halves(value)
        if halves:
            about["content"] = [[[], "halves", halves]]
        fits = is_text(packed)
        if fits:
            made.text = packed
    elif isinstance(value, bytes):
        made.bytes_value = value
        fits = True
    elif isinstance(value, Image):
        made.image.data = base64.b64decode(value.to_base64())
        made.image.mime_type = "image/png"
        fits = True
    else:
        packed, notes = plain(value, "content")
        if notes:
            about["content"] = notes
        text = dumps(packed)
        fits = isinstance(packed, dict) and is_json(packed, text)
        if fits:
            made.json = text
    if metadata is None and about:
        about["none"] = True
    said = metadata or {}
    if isinstance(said, dict) and KEY not in said:
        # Else some key is no string, or ours.
        said = {**said, KEY: about} if about else said
        if metadata is not None or about:
            made.metadata_json = dumps(said)
            fits = fits and is_json(said, made.metadata_json, max_bytes=MAX_METADATA_BYTES)
    else:
        fits = False
    mime_type = item.mime_type
    named = isinstance(mime_type, MemoryMimeType)
    mime_type = mime_type.value if isinstance(mime_type, MemoryMimeType) else mime_type
    if fits and _is_mime_type(mime_type):
        made.mime_type = mime_type
        if not named and mime_type in MemoryMimeType._value2member_map_:
            made.content_id = _PLAIN_MIME_TYPE + uuid.uuid4().hex
        return made
    if packed is None:
        data = made.image.data if made.HasField("image") else made.bytes_value
        packed = base64.b64encode(data).decode()
    kind = "image" if made.HasField("image") else type(value).__name__
    whole = {"kind": kind, "content": packed, "mime_type": without_halves(mime_type),
             "named": named, "metadata": metadata, "notes": about}
    return memory.Content(
        content_id=_PACKED + uuid.uuid4().hex,
        mime_type=mime_type if _is_mime_type(mime_type) else MemoryMimeType.BINARY.value,
        bytes_value=dumps(whole).encode(),
    )


def from_content(content: memory.Content) -> MemoryContent:
    """Returns the content that was given to to_content, as new objects. A content from a client
    other than AutoGen's may have an image elsewhere, which becomes a dict with its place. An image
    that cannot be read becomes its bytes. Contents with notes that are not valid are returned as
    stored."""
    if content.content_id.startswith(_PACKED):
        with contextlib.suppress(*_NOT_OURS):
            return _unpacked(json.loads(content.bytes_value))
    with contextlib.suppress(*_NOT_OURS):
        return _restored(content)
    metadata = json.loads(content.metadata_json) if content.metadata_json else None
    return MemoryContent(
        content=_value(content), mime_type=_mime_type(content), metadata=metadata)


def _restored(content: memory.Content) -> MemoryContent:
    """The content as its notes say; raises one of _NOT_OURS for notes that are none."""
    metadata = json.loads(content.metadata_json) if content.metadata_json else None
    about = metadata.pop(KEY, {}) if metadata else {}
    if about.get("none") and not metadata:
        metadata = None
    return MemoryContent(
        content=restored(_value(content), about.get("content", [])),
        mime_type=_mime_type(content),
        metadata=restored(metadata, about.get("metadata", [])),
    )


def _value(content: memory.Content) -> str | bytes | dict[str, Any] | Image:
    kind = content.WhichOneof("value")
    if kind == "bytes_value":
        return content.bytes_value
    if kind == "json":
        read = json.loads(content.json)
        return read if isinstance(read, dict) else content.json
    if kind != "image":
        return content.text
    image = content.image
    if not image.HasField("data"):
        return {field.name: said for field, said in image.ListFields()}
    try:
        return Image.from_base64(base64.b64encode(image.data).decode())
    except Exception:  # Pillow has no class for all that it raises.
        return image.data


def is_as_sent(content: memory.Content) -> bool:
    """Whether what the server says of a content in a context is what the library would say."""
    return not content.content_id.startswith(_PACKED) and f'"{KEY}"' not in content.metadata_json


def context_text(items: Iterable[MemoryContent]) -> str:
    """What the library adds to a context for contents; of an image, that it is one."""
    lines = [
        f"{number}. {'<Image>' if isinstance(item.content, Image) else joined(str(item.content))}"
        for number, item in enumerate(items, 1)]
    return "\n".join(["", "Relevant memory content (in chronological order):", *lines, ""])


def _unpacked(whole: dict[str, Any]) -> MemoryContent:
    value, notes = whole["content"], whole["notes"]
    if whole["kind"] == "bytes":
        value = base64.b64decode(value)
    elif whole["kind"] == "image":
        value = Image.from_base64(value)
    mime_type = with_halves(*whole["mime_type"])
    return MemoryContent(
        content=restored(value, notes.get("content", [])),
        mime_type=MemoryMimeType(mime_type) if whole["named"] else mime_type,
        metadata=restored(whole["metadata"], notes.get("metadata", [])),
    )


def _is_mime_type(text: str) -> bool:
    return text.isprintable() and 0 < len(text.encode()) <= _MAX_MIME_TYPE_BYTES


def _mime_type(content: memory.Content) -> MemoryMimeType | str:
    if content.content_id.startswith(_PLAIN_MIME_TYPE):
        return content.mime_type
    try:
        return MemoryMimeType(content.mime_type)
    except ValueError:
        return content.mime_type
