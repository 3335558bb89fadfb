"""A message of a provider's form as parts, and a template of what stands around them.

Texts, ids, arguments and media stand in parts, where the server and every client find them. The
template is the message with a hole where each of them was. It stands in the metadata under KEY, or
in a last part, opaque and of type KEY, where the server would refuse it as metadata.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from memoryd._wire_text import (
    MAX_METADATA_BYTES,
    MAX_PARTS,
    Halves,
    call_id,
    dumps,
    is_json,
    is_text,
    joined,
    pieces,
    with_halves,
    without_halves,
)
from memoryd.v1 import memory_pb2 as memory

KEY = "memoryd"
# In the metadata: how many of the values that an adapter reads the message as were popped.
POPPED = "memoryd_popped"
# The form of a message that is the same in both.
BOTH = "both"

_HOLE = "$part"
_MAX_NAME_BYTES = 256
# The server's limit of an opaque part's type.
_MAX_TYPE_BYTES = 64
# At most so many parts are kept free for calls and results.
_MAX_TOOL_PARTS = MAX_PARTS // 2
# Base64 has these two in place of the others in URLs, as pydantic writes it.
_FROM_URLS = str.maketrans("-_", "+/")
_OF_URLS = frozenset("+/")
_DATA_URL = re.compile(r"data:([^;,]*);base64,")


class Hole(list[Any]):
    """Where a part's content was: the part's index, the field, and what else its reader needs."""


class Stale(Exception):
    """The parts are no longer those that the template was made with."""


class Taking:
    """Moves content into parts. Each method returns what takes the content's place: a hole, or the
    content itself where a part can't hold it."""

    def __init__(self, tool_parts: int) -> None:
        """`tool_parts` says how many calls and results will come; other parts leave them room."""
        self.parts: list[memory.Part] = []
        self.name = ""
        self._reserved = min(tool_parts, _MAX_TOOL_PARTS)

    def speaker(self, name: Any) -> Any:
        """The name of who speaks."""
        if not isinstance(name, str) or not name or not _is_short(name):
            return name
        self.name = name
        return Hole(["name"])

    def text(self, text: str) -> Any:
        """A text."""
        value, halves = without_halves(text)
        made = [memory.Part(text=piece) for piece in pieces(value)]
        return self._texts(made, "text", halves, text)

    def thinking(self, text: str, signature: Any = None) -> tuple[Any, Any]:
        """Reasoning, and the signature over it."""
        value, halves = without_halves(text)
        first, *others = pieces(value)
        thinking = memory.Thinking(text=first)
        kept = isinstance(signature, str) and _is_utf8(signature)
        if kept:
            thinking.signature = signature
        at = len(self.parts)
        made = [memory.Part(thinking=thinking), *(memory.Part(text=piece) for piece in others)]
        hole = self._texts(made, "thinking", halves, text)
        taken = kept and isinstance(hole, Hole)
        return hole, Hole([at, "signature"]) if taken else signature

    def call(self, given_id: Any, name: Any, arguments: Any) -> tuple[Any, Any, Any]:
        """A call: its id, name and arguments, which are text or any JSON value."""
        is_given = isinstance(arguments, str)
        written = arguments if is_given else dumps(arguments)
        fits = is_text(written)
        made = memory.ToolCall(arguments_json=written if fits else "{}")
        at = self._add([memory.Part(tool_call=made)], is_of_tool=True)
        if at is None:
            return given_id, name, arguments
        field = "arguments" if is_given else "input"
        return (self._id(at, given_id), self._name(at, name),
                Hole([at, field]) if fits else arguments)

    def result(
        self, given_id: Any, name: Any, texts: Sequence[str], is_error: bool = False
    ) -> tuple[Any, Any, list[Any]]:
        """A result: its call's id, the tool's name, and the texts of the answer."""
        texts = [joined(text) for text in texts]
        value, halves = without_halves("\n".join(texts))
        first, *others = pieces(value)
        result = memory.ToolResult(text=first, is_error=is_error)
        made = [memory.Part(tool_result=result), *(memory.Part(text=piece) for piece in others)]
        at = self._add(made, is_of_tool=True)
        if at is None:
            return given_id, name, list(texts)
        holes: list[Any] = []
        start = 0
        for text in texts:
            hole = _text_hole(at, "result", len(made), halves)
            if len(texts) > 1:
                _about(hole)["slice"] = [start, len(text), len(value)]
            holes.append(hole)
            start += len(text) + 1
        return self._id(at, given_id), self._name(at, name), holes

    def url(self, kind: str, url: str, **about: Any) -> Any:
        """The URL of a medium. A data URL becomes data."""
        if not _is_utf8(url):
            return url
        found = _DATA_URL.match(url)
        if found is not None:
            data = _decoded(url[found.end():])
            if data is not None:
                media = memory.Media(data=data, mime_type=found.group(1))
                return self._media(kind, media, "data_url", about, url)
        return self._media(kind, memory.Media(url=url), "url", about, url)

    def data(self, kind: str, text: str, **about: Any) -> Any:
        """Data in base64, of either alphabet."""
        data = _decoded(text)
        if data is not None:
            return self._media(kind, memory.Media(data=data), "data", about, text)
        data = _decoded(text.translate(_FROM_URLS)) if _OF_URLS.isdisjoint(text) else None
        if data is not None:
            return self._media(kind, memory.Media(data=data), "url_safe", about, text)
        if not _is_utf8(text):
            return text
        # Base64 of another make, which decoding and encoding would change.
        mime_type = about.get("mime_type")
        mime_type = mime_type if isinstance(mime_type, str) and _is_utf8(mime_type) else ""
        media = memory.Media(url=f"data:{mime_type};base64,{text}")
        return self._media(kind, media, "encoded", about, text)

    def plain(self, kind: str, text: str, **about: Any) -> Any:
        """A medium that is text."""
        if not _is_utf8(text):
            return text
        return self._media(kind, memory.Media(data=text.encode()), "plain", about, text)

    def file(self, kind: str, path: str, **about: Any) -> Any:
        """A file at the provider's, by its id."""
        if not _is_utf8(path):
            return path
        return self._media(kind, memory.Media(path=path), "path", about, path)

    def opaque(self, kind: Any, value: Any) -> Any:
        """Content of a kind that has no part, whole."""
        name = kind if isinstance(kind, str) and _is_kind(kind) else "json"
        opaque = memory.Opaque(type=name, data=dumps(value).encode())
        at = self._add([memory.Part(opaque=opaque)])
        return value if at is None else Hole([at, "json"])

    def _add(self, made: list[memory.Part], *, is_of_tool: bool = False) -> int | None:
        """Where the parts begin; None when there is no room for them."""
        if is_of_tool:
            self._reserved = max(0, self._reserved - 1)
        if len(self.parts) + len(made) > MAX_PARTS - 1 - self._reserved:
            return None
        at = len(self.parts)
        self.parts.extend(made)
        return at

    def _texts(self, made: list[memory.Part], field: str, halves: Halves, text: str) -> Any:
        at = self._add(made)
        return text if at is None else _text_hole(at, field, len(made), halves)

    def _media(
        self, kind: str, media: memory.Media, field: str, about: dict[str, Any], given: str
    ) -> Any:
        for name, value in about.items():
            fits = isinstance(value, str) and value and _is_utf8(value)
            if fits and not media.HasField(name):
                setattr(media, name, value)
        part = memory.Part()
        getattr(part, kind).CopyFrom(media)
        at = self._add([part])
        return given if at is None else Hole([at, field])

    def _id(self, at: int, given: Any) -> Any:
        part = self.parts[at]
        of_tool = part.tool_call if part.HasField("tool_call") else part.tool_result
        made = call_id(given)
        if made is not None:
            of_tool.call_id = made
        return Hole([at, "id"]) if made is not None and made == given else given

    def _name(self, at: int, given: Any) -> Any:
        if not isinstance(given, str) or not given or not is_text(given):
            return given
        part = self.parts[at]
        of_tool = part.tool_call if part.HasField("tool_call") else part.tool_result
        of_tool.name = given
        return Hole([at, "name"])


def encoded(value: Any) -> Any:
    """A template as JSON has it."""
    if isinstance(value, Hole):
        return {_HOLE: list(value)}
    if isinstance(value, dict):
        made = {key: encoded(item) for key, item in value.items()}
        return {_HOLE: made} if made.keys() == {_HOLE} else made
    if isinstance(value, list):
        return [encoded(item) for item in value]
    return value


def filled(value: Any, parts: Sequence[memory.Part], name: str) -> Any:
    """What `encoded` was given, with what is in the parts. Stale where they don't fit."""
    if isinstance(value, list):
        return [filled(item, parts, name) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {_HOLE}:
        return {key: filled(item, parts, name) for key, item in value.items()}
    inside = value[_HOLE]
    if isinstance(inside, dict):  # A message that has such a key itself.
        return {key: filled(item, parts, name) for key, item in inside.items()}
    return name if inside == ["name"] else _content(inside, parts)


def same_json(left: Any, right: Any) -> bool:
    """Whether the two are the same JSON, with the same order of keys."""
    if isinstance(left, dict):
        return (isinstance(right, dict) and list(left) == list(right)
                and all(same_json(item, right[key]) for key, item in left.items()))
    if isinstance(left, list):
        return (isinstance(right, list) and len(left) == len(right)
                and all(map(same_json, left, right)))
    if isinstance(left, str):
        return isinstance(right, str) and left == right
    return type(left) is type(right) and repr(left) == repr(right)


def write(
    made: memory.Message, form: str, template: Any, metadata: Mapping[str, Any]
) -> None:
    """Gives the message its metadata, with the template unless that is None."""
    if template is not None:
        own = {"form": form, "parts": len(made.parts) or int(made.HasField("text")),
               "message": encoded(template)}
        both = {**metadata, KEY: own}
        text = dumps(both)
        if is_json(both, text, max_bytes=MAX_METADATA_BYTES):
            made.metadata_json = text
            return
        if made.HasField("text"):
            made.parts.add(text=made.text)
            made.ClearField("text")
        made.parts.add(opaque=memory.Opaque(type=KEY, data=dumps(own).encode()))
    if metadata:
        made.metadata_json = dumps(dict(metadata))


class Stored:
    """A message as it is stored: its parts, and the template if it has one."""

    def __init__(self, message: memory.Message) -> None:
        self.message = message
        self.parts = list(message.parts)
        if message.HasField("text"):
            self.parts = [memory.Part(text=message.text)]
        about: Any = None
        with contextlib.suppress(Stale):  # Somebody else's.
            if self.parts and self.parts[-1].opaque.type == KEY:
                about = _loaded(self.parts.pop().opaque.data)
            elif f'"{KEY}"' in message.metadata_json:
                metadata = _loaded(message.metadata_json)
                about = metadata.get(KEY) if isinstance(metadata, dict) else None
        self._about: dict[str, Any] = about if _is_about(about) else {}

    @property
    def form(self) -> str | None:
        """The form in which the message was put; None where its parts say all."""
        return self._about.get("form")

    def as_put(self) -> tuple[dict[str, Any], list[memory.Part]] | None:
        """The message as it was put, and the parts that a Get has put ahead of its own. None where
        somebody has changed its parts since."""
        found = self.as_templated()
        try:
            # The server knows the message by this role alone.
            return found if found and joined(found[0]["role"]) == self.message.role else None
        except _MALFORMED:
            return None

    def as_templated(self) -> tuple[dict[str, Any], list[memory.Part]] | None:
        """As `as_put`, whatever role the template says, if it says one."""
        ahead = len(self.parts) - self._about.get("parts", 0)
        if not self._about or ahead < 0:
            return None
        try:
            message = filled(self._about["message"], self.parts[ahead:], self.message.name)
        except (Stale, *_MALFORMED):
            return None
        return message, self.parts[:ahead]


def without_template(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata as an adapter shows it, which would hand the template on to a model's API."""
    if not _is_about(metadata.get(KEY)) and POPPED not in metadata:
        return metadata
    return {key: value for key, value in metadata.items() if key not in (KEY, POPPED)}


def held_by(media: memory.Media) -> tuple[str, bytes] | None:
    """MIME type and data of a medium, its own or those of its data URL, whoever made that; None
    where it lies elsewhere."""
    if media.HasField("data"):
        return media.mime_type, media.data
    found = re.match(r"data:([^;,]*)[^,]*;base64,", media.url)
    if found is None:
        return None
    try:
        return found.group(1), base64.b64decode(media.url[found.end():])
    except ValueError:
        return None


def _content(hole: list[Any], parts: Sequence[memory.Part]) -> Any:
    at, field = hole[0], hole[1]
    about = hole[2] if len(hole) > 2 else {}
    if at >= len(parts):
        raise Stale
    part = parts[at]
    kind = part.WhichOneof("kind") or ""
    if kind not in _KINDS[field]:
        raise Stale
    inside = getattr(part, kind)
    if field in ("text", "thinking", "result"):
        following = parts[at + 1:at + about.get("count", 1)]
        if len(following) != about.get("count", 1) - 1:
            raise Stale
        text = inside if field == "text" else inside.text
        return _restored(text + "".join(other.text for other in following), about)
    if field in ("arguments", "input"):
        return inside.arguments_json if field == "arguments" else _loaded(inside.arguments_json)
    if field == "json":
        return _loaded(inside.data)
    if field == "data":
        return base64.b64encode(inside.data).decode()
    if field == "url_safe":
        return base64.urlsafe_b64encode(inside.data).decode()
    if field == "data_url":
        return f"data:{inside.mime_type};base64,{base64.b64encode(inside.data).decode()}"
    if field == "encoded":
        return inside.url.partition(",")[2]
    if field == "plain":
        return inside.data.decode(errors="replace")
    return getattr(inside, "call_id" if field == "id" else field)


# What a template may raise that another program has written.
_MALFORMED = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
_MEDIA = ("image", "audio", "video", "document")
# The kinds of part that have each field.
_KINDS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "thinking": ("thinking",),
    "signature": ("thinking",),
    "result": ("tool_result",),
    "arguments": ("tool_call",),
    "input": ("tool_call",),
    "id": ("tool_call", "tool_result"),
    "name": ("tool_call", "tool_result"),
    "json": ("opaque",),
    **dict.fromkeys(
        ("data", "data_url", "encoded", "url_safe", "plain", "url", "path"), _MEDIA),
}


def _text_hole(at: int, field: str, count: int, halves: Halves) -> Hole:
    hole = Hole([at, field])
    if count > 1:
        _about(hole)["count"] = count
    if halves:
        _about(hole)["halves"] = halves
    return hole


def _about(hole: Hole) -> dict[str, Any]:
    if len(hole) == 2:
        hole.append({})
    found: dict[str, Any] = hole[2]
    return found


def _restored(text: str, about: dict[str, Any]) -> str:
    halves = about.get("halves", [])
    if all(at < len(text) and text[at] == "\ufffd" for at, _ in halves):
        text = with_halves(text, halves)
    if "slice" not in about:
        return text
    start, length, whole = about["slice"]
    if len(text) != whole:
        raise Stale
    return text[start:start + length]


def _decoded(text: str) -> bytes | None:
    """The data, if it is no other than what its base64 is made of."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def _loaded(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Stale from None


def _is_about(about: Any) -> bool:
    if not isinstance(about, dict) or not isinstance(about.get("message"), dict):
        return False
    count = about.get("parts")
    return isinstance(about.get("form"), str) and isinstance(count, int) and count >= 0


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_short(text: str) -> bool:
    return _is_utf8(text) and len(text.encode()) <= _MAX_NAME_BYTES


def _is_kind(text: str) -> bool:
    fits = text.isascii() and 0 < len(text) <= _MAX_TYPE_BYTES
    return fits and text.isprintable() and text != KEY
