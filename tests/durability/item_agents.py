"""Agents that store items while servers are replaced, and what they were told of each."""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading

from support.background import Background
from support.writers import Progress

import memoryd

NAMESPACES = 3
KEYS = 40
_COUNTER = "counter"


class Ledger:
    """What was acknowledged: the number under each key, and how often each counter was raised."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.stored: dict[tuple[str, str], int] = {}
        self.deleted: set[tuple[str, str]] = set()
        self.raised: collections.Counter[str] = collections.Counter()
        self.acknowledged = 0

    def acknowledge(self, namespace: str, key: str, number: int) -> None:
        """That the item has this number now; 0: that it is deleted."""
        with self.guard:
            self.acknowledged += 1
            if number:
                self.stored[namespace, key] = number
            else:
                self.stored.pop((namespace, key), None)
                self.deleted.add((namespace, key))


class ItemAgents(Background):
    """Put, replace, delete and read items, each agent under keys of its own, and raise a counter of each
    namespace by its version. `errors` is what their clients showed, and what was not as it had
    been acknowledged."""

    def __init__(self, target: str, agents: int, seconds: float, ledger: Ledger) -> None:
        """`seconds` are a call's."""
        self.progress = Progress()
        self.errors: list[str] = []
        self._ledger = ledger
        super().__init__([functools.partial(self._run, target, seconds, agent)
                          for agent in range(agents)])

    def _run(self, target: str, seconds: float, agent: int) -> None:
        number = 0
        with memoryd.Client(target, timeout=seconds) as memory:
            while not self.ending.is_set():
                number += 1
                try:
                    self._step(memory, agent, number)
                except Exception as error:  # Any: they are counted, and shown.
                    self.errors.append(f"items {agent}/{number}: {error}")
                    self.progress.fail(error)
                    return
                self.progress.add(1)

    def _step(self, memory: memoryd.Client, agent: int, number: int) -> None:
        namespace, key = f"n{number % NAMESPACES}", f"{agent}/{number % KEYS}"
        path = ("upgrade", namespace)
        with self._ledger.guard:
            before = self._ledger.stored.get((namespace, key))
        found = memory.get_item(path, key)
        shown = None if found is None else found.value["number"]
        if shown != before:
            raise AssertionError(f"{namespace} {key}: {shown} is read, {before} was acknowledged")
        if number % 7 == 0:
            memory.delete_item(path, key)
            self._ledger.acknowledge(namespace, key, 0)
            return
        stored = 1 if before is None else before + 1
        memory.put_item(path, key, {"number": stored})
        self._ledger.acknowledge(namespace, key, stored)
        self._raise_counter(memory, path)

    def _raise_counter(self, memory: memoryd.Client, path: tuple[str, str]) -> None:
        while True:
            found = memory.get_item(path, _COUNTER)
            count, version = (found.value, found.version) if found else (0, 0)
            try:
                memory.put_item(path, _COUNTER, count + 1, expected_version=version)
            except memoryd.MemorydError as error:
                if error.reason != "VERSION_MISMATCH":
                    raise
                continue
            with self._ledger.guard:
                self._ledger.raised[path[1]] += 1
                self._ledger.acknowledged += 1
            return


@dataclasses.dataclass
class ItemAudit:
    """Stored items held against acknowledged ones."""

    acknowledged: int
    lost: int = 0
    doubled: int = 0
    stale: int = 0
    unknown: int = 0  # Stored though they were deleted, or nobody stored them.

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.stale or self.unknown)


def audit(memory: memoryd.Client, ledger: Ledger) -> ItemAudit:
    made = ItemAudit(ledger.acknowledged)
    for namespace in {namespace for namespace, _ in [*ledger.stored, *ledger.deleted]}:
        found = [(item.key, item.value) for item in memory.list_items(("upgrade", namespace))]
        listed = dict(found)
        made.doubled += len(found) - len(listed)
        count = listed.pop(_COUNTER, 0)
        made.lost += max(0, ledger.raised[namespace] - count)
        made.doubled += max(0, count - ledger.raised[namespace])
        expected = {key: number for (of, key), number in ledger.stored.items() if of == namespace}
        made.lost += len(expected.keys() - listed.keys())
        made.unknown += len(listed.keys() - expected.keys())
        made.stale += sum(listed[key]["number"] != expected[key]
                          for key in listed.keys() & expected.keys())
    return made
