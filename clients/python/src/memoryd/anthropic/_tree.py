"""The directories and files of a memory as items.

A memory is a namespace, so that what one command changes is stored at once, or not at all:

    tree/PATH    {} for a directory, {"bytes": 12} for a file
    file/PATH    the text of a file

A command reads, decides, and stores under the condition that what it has read is still so: each
entry that it changes has the version that was read, and one that it adds does not exist. With an
entry that it adds, the nearest directory above is stored again, so that nobody removes that
directory meanwhile. A command that loses a race reads again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from anthropic.lib.tools import ToolError

from memoryd import _item_calls, items
from memoryd._steps import Steps, every
from memoryd.anthropic._paths import FILES, ROOT, TREE, above, below, key, path_in
from memoryd.errors import MemorydError
from memoryd.v1 import item_service_pb2 as wire

# Of a batch, which is stored whole.
MAX_OPERATIONS = 1000
# Each takes four operations of a batch, which has room for new directories too.
MOST_MOVED = 200
_PAGE = 1000

Operations = list[wire.ItemOperation]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file or a directory, at the version that was read."""

    path: str
    # Bytes of the file; None for a directory.
    size: int | None
    version: int

    @property
    def is_directory(self) -> bool:
        return self.size is None


@dataclasses.dataclass(frozen=True)
class Tree:
    """What a memory consists of. Nothing is kept here: each call asks the server."""

    namespace: tuple[str, ...]
    config: wire.NamespaceConfig | None

    def read(self, *paths: str, text_of: str = "") -> Steps[tuple[Mapping[str, Entry], str]]:
        """Returns what is at each of the paths, and the text of the file at one of them."""
        keys = [key(TREE, path) for path in paths]
        if text_of:
            keys.append(key(FILES, text_of))
        outcome, = yield _item_calls.batch_items(
            [items.batch(self.namespace, [items.get(one) for one in keys])])
        found = [items.item_of(result.get) for result in items.results(outcome)]
        text = found.pop() if text_of else None
        entries = (_entry(one) for one in found if one is not None)
        return {entry.path: entry for entry in entries}, _text(text) if text else ""

    def below(self, path: str) -> Steps[list[Entry]]:
        """Returns all that is in a directory, each directory before what is in it."""
        found = yield from self._listed(below(TREE, path))
        return [_entry(one) for one in found]

    def texts_below(self, path: str) -> Steps[dict[str, str]]:
        """Returns the texts of all files in a directory."""
        found = yield from self._listed(below(FILES, path))
        return {path_in(FILES, one.wire.key): _text(one) for one in found}

    def stored(self, operations: Operations) -> Steps[bool]:
        """Stores the operations. False, and nothing is stored, if another writer was faster."""
        outcome, = yield _item_calls.batch_items(
            [items.batch(self.namespace, operations, config=self.config)])
        try:
            items.results(outcome)
        except MemorydError as error:
            if error.reason == "VERSION_MISMATCH":
                return False
            raise
        return True

    def removed(self, entries: Sequence[Entry]) -> Steps[bool]:
        """Removes entries, each after what is in it. False if another writer was faster; more than
        a batch takes may then be gone in part."""
        operations = [one for entry in reversed(entries) for one in removal(entry)]
        for start in range(0, len(operations), MAX_OPERATIONS):
            if not (yield from self.stored(operations[start:start + MAX_OPERATIONS])):
                return False
        return True

    def _listed(self, prefix: str) -> Steps[list[items.Item]]:
        return every(_item_calls.list_items(
            self.namespace, key_prefix=prefix, page_size=_PAGE))


def room_for(path: str, entries: Mapping[str, Entry]) -> Operations:
    """Makes the directories of a new path, of which `entries` has all that exist above it. Raises
    ToolError if one of them is a file."""
    made: Operations = []
    for directory in above(path):
        entry = entries.get(directory)
        if entry is not None and not entry.is_directory:
            raise ToolError(f"The path {ROOT}/{directory} is not a directory")
        version = entry.version if entry else 0
        made.append(items.put(key(TREE, directory), {}, expected_version=version, search=[]))
        if entry is not None:
            break
    return made


def file(path: str, text: str, size: int, *, version: int = 0) -> Operations:
    """Stores a file whose entry is at a version, or is new."""
    # JSON, of which searches know the words, has no NUL.
    value: str | bytes = text.encode() if "\0" in text else text
    return [*entry(path, size, version=version), items.put(key(FILES, path), value)]


def entry(path: str, size: int | None, *, version: int = 0) -> Operations:
    """Stores an entry, without the text of a file."""
    value = {} if size is None else {"bytes": size}
    return [items.put(key(TREE, path), value, expected_version=version, search=[])]


def removal(entry: Entry) -> Iterator[wire.ItemOperation]:
    yield items.delete(key(TREE, entry.path), expected_version=entry.version)
    if not entry.is_directory:
        yield items.delete(key(FILES, entry.path))


def move(
    entries: Iterable[Entry], texts: Mapping[str, str], old: str, new: str
) -> Operations:
    """Stores entries below another path."""
    made: Operations = []
    for one in entries:
        path = new + one.path[len(old):]
        made.extend(entry(path, None) if one.size is None
                    else file(path, texts[one.path], one.size))
        made.extend(removal(one))
    return made


def _entry(item: items.Item) -> Entry:
    return Entry(path_in(TREE, item.wire.key), item.value.get("bytes"), item.wire.version)


def _text(item: items.Item) -> str:
    value: str | bytes = item.value
    return value.decode() if isinstance(value, bytes) else value
