"""The commands of the tool, for its synchronous and its asynchronous form."""

from __future__ import annotations

from anthropic.lib.tools import ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from memoryd._steps import Steps
from memoryd.anthropic import _texts, _tree
from memoryd.anthropic._paths import above, is_below, path_of
from memoryd.anthropic._tree import Entry, Tree


def view(tree: Tree, command: BetaMemoryTool20250818ViewCommand) -> Steps[str]:
    path = path_of(command.path)
    entry, text = yield from _found(tree, path)
    if path and entry is None:
        raise ToolError(_missing(command.path) + " Please provide a valid path.")
    if entry is not None and not entry.is_directory:
        return _texts.content(command.path, text, command.view_range)
    start = len(path) + 1 if path else 0
    inside = yield from tree.below(path)
    return _texts.listing(
        command.path, [(one.path[start:].split("/"), one.size) for one in inside])


def create(tree: Tree, command: BetaMemoryTool20250818CreateCommand) -> Steps[str]:
    path, text = path_of(command.path), command.file_text
    size = len(_texts.encoded("file_text", text))
    exists = ToolError(f"File {command.path} already exists")
    if not path:
        raise exists
    while True:
        entries, _ = yield from tree.read(path, *above(path))
        if path in entries:
            raise exists
        stored = yield from tree.stored(
            [*_tree.room_for(path, entries), *_tree.file(path, text, size)])
        if stored:
            return f"File created successfully at: {command.path}"


def str_replace(tree: Tree, command: BetaMemoryTool20250818StrReplaceCommand) -> Steps[str]:
    path = path_of(command.path)
    _texts.given("old_str", command.old_str)
    _texts.encoded("new_str", command.new_str)
    while True:
        entry, text = yield from _file(tree, path, command.path)
        made, said = _texts.replaced(command.path, text, command.old_str, command.new_str)
        size = len(made.encode())
        if (yield from tree.stored(_tree.file(path, made, size, version=entry.version))):
            return said


def insert(tree: Tree, command: BetaMemoryTool20250818InsertCommand) -> Steps[str]:
    path = path_of(command.path)
    _texts.encoded("insert_text", command.insert_text)
    _texts.given("insert_line", command.insert_line, int)
    while True:
        entry, text = yield from _file(tree, path, command.path)
        made = _texts.inserted(text, command.insert_line, command.insert_text)
        size = len(made.encode())
        if (yield from tree.stored(_tree.file(path, made, size, version=entry.version))):
            return f"The file {command.path} has been edited."


def delete(tree: Tree, command: BetaMemoryTool20250818DeleteCommand) -> Steps[str]:
    path = path_of(command.path)
    if not path:
        raise ToolError("Cannot delete the /memories directory itself")
    while True:
        entry, _ = yield from _found(tree, path)
        if entry is None:
            raise ToolError(_missing(command.path, end=""))
        inside = (yield from tree.below(path)) if entry.is_directory else []
        if (yield from tree.removed([entry, *inside])):
            return f"Successfully deleted {command.path}"


def rename(tree: Tree, command: BetaMemoryTool20250818RenameCommand) -> Steps[str]:
    old, new = path_of(command.old_path), path_of(command.new_path)
    if not old:
        raise ToolError("Cannot rename the /memories directory itself")
    while True:
        entries, text = yield from tree.read(old, new, *above(new), text_of=old)
        if not new or new in entries:
            raise ToolError(f"The destination {command.new_path} already exists")
        entry = entries.get(old)
        if entry is None:
            raise ToolError(_missing(command.old_path, end=""))
        room = _tree.room_for(new, entries)
        if is_below(new, old):
            raise ToolError(f"Cannot move {command.old_path} into itself, to {command.new_path}")
        moved, texts = [entry], {old: text}
        if entry.is_directory:
            moved += yield from tree.below(old)
            if len(moved) > _tree.MOST_MOVED:
                raise ToolError(f"Cannot rename {command.old_path}, in which there are more than "
                                f"{_tree.MOST_MOVED - 1} files and directories. Rename those")
            texts = yield from tree.texts_below(old)
        if any(one.path not in texts for one in moved if not one.is_directory):
            continue  # A file was removed after the list.
        if (yield from tree.stored([*room, *_tree.move(moved, texts, old, new)])):
            return f"Successfully renamed {command.old_path} to {command.new_path}"


def clear_all_memory(tree: Tree) -> Steps[str]:
    while True:
        entries = yield from tree.below("")
        if (yield from tree.removed(entries)):
            return "All memory cleared"


def _found(tree: Tree, path: str) -> Steps[tuple[Entry | None, str]]:
    """Returns what is at a path, and its text if that is a file. /memories itself is no entry."""
    if not path:
        return None, ""
    entries, text = yield from tree.read(path, text_of=path)
    return entries.get(path), text


def _file(tree: Tree, path: str, shown: str) -> Steps[tuple[Entry, str]]:
    """Returns a file. Raises ToolError for anything else."""
    entry, text = yield from _found(tree, path)
    if path and entry is None:
        raise ToolError(_missing(shown) + " Please provide a valid path.")
    if entry is None or entry.is_directory:
        raise ToolError(f"The path {shown} is not a file.")
    return entry, text


def _missing(shown: str, end: str = ".") -> str:
    return f"The path {shown} does not exist{end}"
