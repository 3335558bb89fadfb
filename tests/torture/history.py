"""What clients saw, one JSON object a line.

Every attempt of a call is a record, written when it has ended. All times are CLOCK_MONOTONIC in
nanoseconds, which all processes of a machine share: `invoke_ns` is taken before the call is sent
and `return_ns` after its end is known, so the call lies between them.

Every record:
  op           put, set, reset, update, delete (of a message), configure (an UpdateSession); get, getall (or
               StreamAll), query, filtered (a GetAll of one role), configuration (a GetSession); final (a
               complete GetAll after the run); add_fact, update_fact, delete_fact, undo (of a change of
               facts), facts (a GetBlock); item_write, space_delete, item_read, of namespaces of items:
               see items.py
  tenant, session, client, replica
  invoke_ns, return_ns
  outcome      ok; fail (nothing was stored, and the server says so); unknown
  code, reason of what is not ok
  leaks        texts of an error in which a body stands, when there are any
  keeps        of a session that keeps so many messages
  expires_ns   of a session that is gone when nothing was written to it for so long
  notes        of a session whose facts are changed, and nothing else
  space        of a namespace of items
Writes:
  request      which request this is an attempt of; attempts of equal `request` are one request. It
               is sent as request_id where `keyed`
  items        what is stored, in order, see bodies.py
  roles        first letters of their roles, in the same order
  contents     items of the contents that are stored
  wipes_contents  set, reset: whether contents go as well
  value        configure: what the session is given
  target       update, delete: the item as it was put
  edition      update: what it is from then on
  must_fail    the key was used and acknowledged before with another body
  text         add_fact, update_fact: what the fact says
  fact_id      add_fact (when ok), update_fact, delete_fact: the fact
  undone       undo: the change that was undone
  change       add_fact, update_fact, delete_fact, when ok: the change's number
  revision, generation, positions, removed (messages that a set or reset took away), replayed
               when ok
Reads, when ok:
  revision     what the reply says it was made from; absent for getall and final
  first        position of the first item; the others follow one by one
  positions    instead, where they do not
  items        in the order of the reply; of those that were updated, their editions
  foreign      texts of another tenant, session or run, when there are any
  complete     getall: all pages were read
  contents, content_positions  items and positions of all contents, where they were asked for
  generations  of a session that expires: those of what is shown
  role         filtered: of the messages that were asked for
  value        configuration: what the session has
  wanted       query: the item that was asked for
  copy         getall: of a copy that ForkSession made during the time of the record
  facts        facts, and an undo when ok: id and text of each fact that holds, and the change that
               added it
  past         facts: of each that left the change, its id and text, the change that had added it, and the
               ids of what came with the change
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

Record = dict[str, Any]

_FLUSH_BYTES = 1 << 16

# The only codes that say that nothing was stored.
_DEFINITE = frozenset({
    "INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "FAILED_PRECONDITION",
    "ALREADY_EXISTS", "ABORTED", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED"})
# Reasons that say so of a code that does not.
# RESOURCE_EXHAUSTED is that of a store that is full.
_NOT_STARTED = frozenset({"QUEUE_FULL", "STORE_UNAVAILABLE", "DRAINING", "RESOURCE_EXHAUSTED"})


def outcome_of(code: str, reason: str) -> str:
    """What a caller knows after a call that ended with a gRPC code and memoryd's reason."""
    if code == "OK":
        return "ok"
    if code in _DEFINITE or reason in _NOT_STARTED:
        return "fail"
    return "unknown"


class Writer:
    """Appends records to a file that one process writes. What was flushed outlives the process."""

    def __init__(self, path: pathlib.Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lines: list[str] = []
        self._size = 0

    def add(self, record: Record) -> None:
        line = json.dumps(record, separators=(",", ":")) + "\n"
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        data = memoryview("".join(self._lines).encode())
        while data:
            data = data[os.write(self._file, data):]
        self._lines, self._size = [], 0

    def close(self) -> None:
        self.flush()
        os.close(self._file)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(folder: pathlib.Path) -> Iterator[Record]:
    """All records of the `*.jsonl` files in a folder, but for a last line that was cut short."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            for line in file:
                if not line.endswith("\n"):
                    continue
                record = json.loads(line)
                # Reads repeat the items of others over and over.
                record["items"] = list(map(sys.intern, record.get("items", ())))
                yield record
