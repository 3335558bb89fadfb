"""Blocks of a message's content as parts: texts with more than their text, reasoning, and media in
the forms of LangChain's versions (`base64`, `source_type`) and of providers (OpenAI's, Anthropic's,
Google's). There Query and other clients find them, and a medium counts for a medium's tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryd._templates import Stale, Taking, encoded, filled
from memoryd.v1 import memory_pb2 as memory

Block = dict[Any, Any]
_Path = tuple[str, ...]

_TEXTS = ("text", "input_text", "output_text")
# The field is named as the type is.
_REASONING = ("thinking", "reasoning")
_KINDS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "file": "document",
    "document": "document",
    "input_file": "document",
}
# Where a block has its data in base64, and where a URL, which may be one of data.
_DATA: tuple[_Path, ...] = (("base64",), ("data",), ("source", "data"), ("input_audio", "data"))
_URLS: tuple[_Path, ...] = (
    ("url",), ("image_url",), ("image_url", "url"), ("source", "url"), ("file_data",),
    ("file", "file_data"))


def part_of(block: Block) -> tuple[memory.Part, Any] | None:
    """The part that holds what the block says or shows, and a template of what stands around it.
    None for other blocks, and where one part can't hold it."""
    taking = Taking(0)
    said = block.get("type")
    if said in _TEXTS and isinstance(block.get("text"), str):
        made = {**block, "text": taking.text(block["text"])}
    elif said in _REASONING and isinstance(block.get(said), str):
        thought, signature = taking.thinking(block[said], block.get("signature"))
        made = {**block, said: thought}
        if "signature" in block:
            made["signature"] = signature
    else:
        made = _shown(block, taking)
    return (taking.parts[0], encoded(made)) if len(taking.parts) == 1 else None


def block_of(part: memory.Part, template: Any) -> Block | None:
    """The block again; None when the part is no longer the one that the template was made with."""
    try:
        block = filled(template, [part], "")
    except (Stale, AttributeError, LookupError, TypeError, ValueError):
        return None
    return block if isinstance(block, dict) else None


def _shown(block: Block, taking: Taking) -> Block:
    """The block without its medium, if it has one."""
    kind = _kind(block)
    if kind is None or _says_text(block):
        return block
    for path, given in _found(block, _DATA):
        if given:
            return _with(block, path, taking.data(kind, given, mime_type=_mime_type(block)))
    for path, given in _found(block, _URLS):
        # Beside data the template alone keeps it.
        detail = None if given.startswith("data:") else _detail(block)
        return _with(block, path, taking.url(kind, given, detail=detail))
    return block


def _kind(block: Block) -> str | None:
    said = block.get("type")
    if said == "media":  # Google's, which says it by the MIME type alone.
        family = (_mime_type(block) or "").partition("/")[0]
        return family if family in ("image", "audio", "video") else "document"
    return _KINDS.get(said) if isinstance(said, str) else None


def _says_text(block: Block) -> bool:
    source = block.get("source")
    said = source.get("type") if isinstance(source, dict) else block.get("source_type")
    return said in ("text", "content", "id")


def _mime_type(block: Block) -> str | None:
    source = block.get("source")
    said = source.get("media_type") if isinstance(source, dict) else block.get("mime_type")
    return said if isinstance(said, str) else None


def _detail(block: Block) -> str | None:
    image = block.get("image_url")
    said = image.get("detail") if isinstance(image, dict) else None
    return said if isinstance(said, str) else None


def _found(block: Block, paths: tuple[_Path, ...]) -> Iterator[tuple[_Path, str]]:
    for path in paths:
        value: Any = block
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str):
            yield path, value


def _with(block: Block, path: _Path, value: Any) -> Block:
    key, *rest = path
    return {**block, key: _with(block[key], tuple(rest), value) if rest else value}
