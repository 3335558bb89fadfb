"""Text and JSON as the server takes them, and what it does not take made fit.

Python's strings may hold halves of characters beyond U+FFFF (surrogates): text that was cut at a
UTF-16 unit, or read by a lenient parser. UTF-8 has none of them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

# What the server takes in one text, and as metadata.
MAX_TEXT_BYTES = 1 << 20
MAX_METADATA_BYTES = 256 << 10
MAX_PARTS = 1000
MAX_CALL_ID_BYTES = 16 << 10
_MAX_DEPTH = 64
_MAX_OBJECT_KEYS = 1000
_MAX_TOTAL_KEYS = 10_000
_MAX_KEY_BYTES = 1024
_MAX_INTEGER = 10**400

_HALF = re.compile("[\ud800-\udfff]")

# Where in a text a half stood, and which it was.
Halves = list[list[int]]


def joined(text: str) -> str:
    """The text with each pair of halves as the character that they make."""
    if _HALF.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def without_halves(text: str) -> tuple[str, Halves]:
    """The text with U+FFFD in place of each lone half, and what with_halves needs to undo it."""
    text = joined(text)
    halves = [[found.start(), ord(found.group())] for found in _HALF.finditer(text)]
    return (_HALF.sub("\ufffd", text) if halves else text), halves


def with_halves(text: str, halves: Halves) -> str:
    if not halves:
        return text
    characters = list(text)
    for at, half in halves:
        characters[at] = chr(half)
    return "".join(characters)


def is_text(text: str) -> bool:
    """Whether the server takes the text as it is."""
    # A character has at most four bytes.
    if len(text) > MAX_TEXT_BYTES or _HALF.search(text) is not None:
        return False
    return 4 * len(text) <= MAX_TEXT_BYTES or len(text.encode()) <= MAX_TEXT_BYTES


def pieces(text: str) -> list[str]:
    """The text in pieces that the server takes, at least one."""
    if is_text(text):
        return [text]
    size = MAX_TEXT_BYTES // 4
    return [text[start:start + size] for start in range(0, len(text), size)]


def dumps(value: Any) -> str:
    """JSON of a value, with pairs of halves joined and lone ones escaped, so that UTF-8 holds it.
    NaN and infinities are as Python writes and reads them."""
    text = json.dumps(value, ensure_ascii=False)
    if _HALF.search(text) is None:
        return text
    return _HALF.sub(lambda half: f"\\u{ord(half.group()):04x}", joined(text))


def is_json(value: Any, text: str, *, max_bytes: int = MAX_TEXT_BYTES) -> bool:
    """Whether the server takes `text`, which is dumps(value), where it looks into JSON."""
    if len(text) > max_bytes or len(text.encode()) > max_bytes:
        return False
    keys = depth = 0
    level: list[Any] = [value]
    while level:
        inside: list[Any] = []
        deeper = False
        for item in level:
            if isinstance(item, dict):
                deeper = True
                keys += len(item)
                if len(item) > _MAX_OBJECT_KEYS or not all(map(_is_key, item)):
                    return False
                inside.extend(item.values())
            elif isinstance(item, (list, tuple)):
                deeper = True
                inside.extend(item)
            elif not _is_scalar(item):
                return False
        depth += deeper
        if depth > _MAX_DEPTH or keys > _MAX_TOTAL_KEYS:
            return False
        level = inside
    return True


def _is_key(key: Any) -> bool:
    if not isinstance(key, str) or not _is_string(key):
        return False
    return 4 * len(key) <= _MAX_KEY_BYTES or len(joined(key).encode()) <= _MAX_KEY_BYTES


def _is_string(text: str) -> bool:
    return "\0" not in text and _HALF.search(joined(text)) is None


def _is_scalar(item: Any) -> bool:
    if isinstance(item, str):
        return _is_string(item)
    if isinstance(item, float):
        return math.isfinite(item)
    if isinstance(item, int):
        return -_MAX_INTEGER < item < _MAX_INTEGER
    return item is None


def call_id(given: Any) -> str | None:
    """The id of a tool's call as a part has it; None where there is none. One that the server would
    refuse is told from others by its hash."""
    if given is None or isinstance(given, bool) or not isinstance(given, (str, int)) or given == "":
        return None
    text = str(given)
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_CALL_ID_BYTES and _HALF.search(text) is None:
        return text
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
