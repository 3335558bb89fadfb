"""Paths below /memories, and the keys of the items that stand for them."""

from __future__ import annotations

import posixpath
import re
import urllib.parse
from collections.abc import Iterator

from anthropic.lib.tools import ToolError

from memoryd.anthropic import _texts

ROOT = "/memories"
TREE = "tree/"
FILES = "file/"
_MAX_KEY_BYTES = 1024
# What a key may not have everywhere, and what names are quoted with. Letters of all scripts stay
# as they are, but for those that nobody sees.
_QUOTED = re.compile("[^\\w\\x20-\\x7e]|[%\u115f\u1160\u3164\uffa0]")


def path_of(given: str) -> str:
    """Returns a path relative to /memories, "" for that itself. Raises ToolError for one outside,
    in the words of the library's own tool."""
    _texts.given("path", given)
    if not given.startswith(ROOT):
        raise ToolError(f"Path must start with /memories, got: {given}")
    full = posixpath.normpath(f"{ROOT}/{given[len(ROOT):].lstrip('/')}")
    if full != ROOT and not full.startswith(ROOT + "/"):
        raise ToolError(f"Path {given} would escape /memories directory")
    path = full[len(ROOT) + 1:]
    if "\0" in path or any("\ud800" <= letter <= "\udfff" for letter in path):
        raise ToolError(f"The path {given!r} must not have NUL or half of a surrogate pair")
    if len(key(TREE, path).encode()) > _MAX_KEY_BYTES:
        raise ToolError(f"The path {given} is too long: it must have at most "
                        f"{_MAX_KEY_BYTES - len(TREE)} bytes below /memories")
    return path


def above(path: str) -> Iterator[str]:
    """Yields the directories that a path is in, the nearest first, without /memories."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def is_below(path: str, directory: str) -> bool:
    return path.startswith(f"{directory}/" if directory else "")


def key(kind: str, path: str) -> str:
    """Returns the key of a path's item."""
    return kind + _QUOTED.sub(lambda found: urllib.parse.quote(found[0]), path)


def below(kind: str, path: str) -> str:
    """Returns what the keys of all paths in a directory begin with."""
    return key(kind, f"{path}/" if path else "")


def path_in(kind: str, key: str) -> str:
    """Returns the path of an item."""
    return urllib.parse.unquote(key[len(kind):])
