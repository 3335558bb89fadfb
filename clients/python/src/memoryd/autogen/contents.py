"""AutoGen's MemoryContent and the wire's Content."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from autogen_core import Image
from autogen_core.memory import MemoryContent, MemoryMimeType

from memoryd.v1 import memory_pb2 as memory

# What a Put or Set may hold is 4 MiB and 1,000 contents; the rest is for the fields around them.
_BATCH_BYTES = 3 * 1024 * 1024
_BATCH_CONTENTS = 1000
# Marks a content whose MIME type was a str although the library has a name for it: the library
# keeps the two apart, the wire does not.
_PLAIN_MIME_TYPE = "mime-str-"


def to_content(item: MemoryContent) -> memory.Content:
    """The wire form of a content.

    TypeError or ValueError when JSON can't hold the value or the metadata as they are.
    """
    made = memory.Content()
    if isinstance(item.mime_type, MemoryMimeType):
        made.mime_type = item.mime_type.value
    else:
        made.mime_type = item.mime_type
        if item.mime_type in MemoryMimeType._value2member_map_:
            made.content_id = _PLAIN_MIME_TYPE + uuid.uuid4().hex
    value = item.content
    if isinstance(value, str):
        made.text = value
    elif isinstance(value, bytes):
        made.bytes_value = value
    elif isinstance(value, Image):
        made.image.data = base64.b64decode(value.to_base64())
        made.image.mime_type = "image/png"
    else:
        made.json = _json(value, "content")
    if item.metadata is not None:
        made.metadata_json = _json(item.metadata, "metadata")
    return made


def from_content(content: memory.Content) -> MemoryContent:
    """The content that to_content was given, as new objects. One that no AutoGen client has put may
    have an image that lies elsewhere: its dict says where."""
    kind = content.WhichOneof("value")
    value: str | bytes | dict[str, Any] | Image
    if kind == "bytes_value":
        value = content.bytes_value
    elif kind == "json":
        read = json.loads(content.json)
        value = read if isinstance(read, dict) else content.json
    elif kind == "image":
        image = content.image
        if image.HasField("data"):
            value = Image.from_base64(base64.b64encode(image.data).decode())
        else:
            value = {field.name: said for field, said in image.ListFields()}
    else:
        value = content.text
    return MemoryContent(
        content=value,
        mime_type=_mime_type(content),
        metadata=json.loads(content.metadata_json) if content.metadata_json else None,
    )


def batches(contents: Iterable[memory.Content]) -> Iterator[list[memory.Content]]:
    """The contents in order, in lists that a request holds; at least one list."""
    batch: list[memory.Content] = []
    size = 0
    for content in contents:
        bytes_of = content.ByteSize()
        if batch and (len(batch) == _BATCH_CONTENTS or size + bytes_of > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(content)
        size += bytes_of
    yield batch


def _mime_type(content: memory.Content) -> MemoryMimeType | str:
    if content.content_id.startswith(_PLAIN_MIME_TYPE):
        return content.mime_type
    try:
        return MemoryMimeType(content.mime_type)
    except ValueError:
        return content.mime_type


def _json(value: dict[str, Any], what: str) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # Keys that are no strings and tuples would come back as something else.
    if json.loads(text) != value:
        raise ValueError(f"{what}: JSON does not hold it as it is: {str(value)[:100]}")
    return text
