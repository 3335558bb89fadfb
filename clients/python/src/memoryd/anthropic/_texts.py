"""What the tool says, and what its edits make of a text. The words are those that Anthropic's own
tool has, which Claude knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anthropic.lib.tools import ToolError

MAX_LINES = 999_999
_WIDTH = len(str(MAX_LINES))
_UNITS = "BKMG"
# What a directory has on most file systems.
_DIRECTORY_BYTES = 4096


def given(field: str, value: object, kind: type = str) -> None:
    """Raises ToolError for a value that the command lacks, or that is of another kind. The library
    does not check what Claude sends."""
    if not isinstance(value, kind):
        name = {str: "text", int: "whole number"}[kind]
        raise ToolError(f"{field} must be a {name}; got {value!r}")


def encoded(field: str, text: str) -> bytes:
    """Returns the bytes of a text. Raises ToolError for one that has none."""
    given(field, text)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{field} has half of a surrogate pair at {error.start}; send whole "
                        "characters") from error


def listing(shown: str, entries: Iterable[tuple[Sequence[str], int | None]]) -> str:
    """Describes a directory. `entries` are the names below it that lead to each file or directory,
    and the size of a file."""
    visible = sorted(
        (names, size) for names, size in entries
        if len(names) <= 2 and not any(name.startswith(".") for name in names))
    lines = [f"{_size(_DIRECTORY_BYTES)}\t{shown}"]
    for names, size in visible:
        end = "/" if size is None else ""
        bytes_shown = _size(_DIRECTORY_BYTES if size is None else size)
        lines.append(f"{bytes_shown}\t{shown}/{'/'.join(names)}{end}")
    return (f"Here're the files and directories up to 2 levels deep in {shown}, excluding hidden "
            "items:\n" + "\n".join(lines))


def content(shown: str, text: str, view_range: Sequence[int] | None) -> str:
    """Shows a file, or the lines from the first to the last of `view_range`; -1: to the end."""
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise ToolError(f"File {shown} exceeds maximum line limit of {MAX_LINES:,} lines.")
    first = 0
    if view_range and len(view_range) == 2:
        first = max(1, view_range[0]) - 1
        lines = lines[first:len(lines) if view_range[1] == -1 else view_range[1]]
    return f"Here's the content of {shown} with line numbers:\n" + _numbered(lines, first + 1)


def replaced(shown: str, text: str, old: str, new: str) -> tuple[str, str]:
    """Returns the text with the one `old` replaced, and what to say of it."""
    places = [at for at in range(len(text) + 1) if text.startswith(old, at)] if (
        text.count(old) > 1) else []
    at = text.find(old)
    if at < 0:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in "
                        f"{shown}.")
    if places:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places)
        raise ToolError(f"No replacement was performed. Multiple occurrences of old_str `{old}` in "
                        f"lines: {lines}. Please ensure it is unique")
    made = text[:at] + new + text[at + len(old):]
    lines_now = made.split("\n")
    changed = text.count("\n", 0, at)
    first = max(0, changed - 2)
    return made, ("The memory file has been edited. Here is the snippet showing the change (with "
                  "line numbers):\n" + _numbered(lines_now[first:changed + 3], first + 1))


def inserted(text: str, line: int, new: str) -> str:
    """Returns the text with `new` behind a line; 0: at its beginning."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if not 0 <= line <= len(lines):
        raise ToolError(f"Invalid `insert_line` parameter: {line}. It should be within the range "
                        f"[0, {len(lines)}].")
    lines.insert(line, new.rstrip("\n"))
    made = "\n".join(lines)
    return made if made.endswith("\n") else made + "\n"


def _numbered(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _size(count: int) -> str:
    unit = 0
    while unit < len(_UNITS) - 1 and count >= 1024 ** (unit + 1):
        unit += 1
    size = count / 1024 ** unit
    return f"{int(size)}{_UNITS[unit]}" if size == int(size) else f"{size:.1f}{_UNITS[unit]}"
