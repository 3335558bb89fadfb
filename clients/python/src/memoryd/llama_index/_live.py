"""The memories of this process, and their stores, for dumps of theirs that come back to it.

A dump has no models, no credentials and no functions. Where it is loaded into the process that
holds all of them, as a workflow's Context does between two runs, the memory goes on with its own.
"""

from __future__ import annotations

import hashlib
import json
import uuid
import weakref
from collections.abc import Callable
from typing import Any

from llama_index.core.utils import get_tokenizer

from memoryd import _channels

# What a dump says of the object that it is of.
LIVE = "live"

_lock = _channels.Lock()
_objects: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


class LostTokenizer:
    """Stands for the `tokenizer_fn` that a dump does not have."""

    def __call__(self, text: str) -> list[Any]:
        raise LookupError(
            "tokenizer_fn: the memory was loaded from a dump, which has not its tokenizer_fn; give "
            "it to from_dict, or assign it"
        )


def needs_tokenizer_fn(memory: Any) -> bool:
    """Whether a memory was given its tokenizer, which no dump has."""
    return memory.tokenizer_fn is not get_tokenizer()


def name_of(memory: Any, known: str = "") -> str:
    """The name of an object: `known`, or a new one when that is of what it was copied from."""
    with _lock:
        if known and _objects.get(known) is memory:
            return known
        name = uuid.uuid4().hex
        _objects[name] = memory
        return name


def named(live: Any) -> Any:
    """The object that a dump is of, None when it is not here."""
    name = live.get("object") if isinstance(live, dict) else None
    return _objects.get(name) if isinstance(name, str) else None


def latest(fits: Callable[[Any], bool]) -> Any:
    """The object that was made last of those that fit, None without one."""
    with _lock:
        found = list(_objects.values())
    return next((memory for memory in reversed(found) if fits(memory)), None)


def signed(data: dict[str, Any]) -> dict[str, Any]:
    """A dump that is known to be unchanged when it comes back."""
    return {**data, LIVE: {**data[LIVE], "digest": _digest(data)}}


def is_unchanged(data: dict[str, Any]) -> bool:
    live = data.get(LIVE)
    return isinstance(live, dict) and live.get("digest") == _digest(data)


def _digest(data: dict[str, Any]) -> str:
    others = {name: value for name, value in data.items() if name != LIVE}
    text = json.dumps(others, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
