"""What reads of a namespace must show of its items, which clients put, delete, and change at a version.

Each key is a register (registers.py), and all keys of a namespace share one clock: the versions, which
every write raises. So a read that shows several keys at one moment shows, of every key, the newest
item up to the highest version that it shows; and of a batch all or nothing.

Records have the tenant, `session` as a name of the namespace, `space`, and

  item_write   a batch of writes that is done whole or not at all:
    writes       key, item (None: deleted), expected version (None: any) and time to live in ns (0: for
                 ever) of each write
    versions     when ok: of each write, 0 for a delete
    existed      when ok: of each delete whether it found an item, None for a put
    stored, lost of a batch that a condition refused: the item's version, and which write it was
  space_delete a delete of the namespace; any error leaves in doubt whether it was done
  item_read    a read:
    keys         those that it would have shown
    shown        key, item and version (None: not told) of each that it showed
    whole        it shows one moment
    of           the client whose values alone were asked for
    final        after the run
    count        final: how many items the namespace says it has
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import math
from typing import Protocol

from torture.highest import Highest
from torture.history import Record
from torture.registers import Call, Delete, Look, Put, Register, client_of

WRITES = ("item_write", "space_delete")
_NEVER = math.inf


class Report(Protocol):
    """Where what is wrong is counted."""

    acked: int
    unknown: int
    refused: int
    acked_items: int
    replayed: int
    reads: int

    def add(self, count: str, example: str, times: int = 1) -> None: ...


@dataclasses.dataclass(eq=False)
class _Request:
    """A batch, whatever number of attempts it took."""

    name: str
    writes: list[list]
    outcome: str
    invoke: float
    returned: float = _NEVER
    versions: list[int] = dataclasses.field(default_factory=list)
    existed: list[bool | None] = dataclasses.field(default_factory=list)
    deletes_all: bool = False

    @property
    def done(self) -> bool:
        return self.outcome == "ok"


def check(name: str, report: Report, writes: list[Record], reads: list[Record]) -> None:
    """Counts into a report

      lost       items that the final read lacks, or shows as they were before; items that a conditional
                 write replaced or deleted though they were not at its version
      doubled    a request with two replies, a version of two items, an item at two versions or shown
                 twice, more items counted than there are
      reordered  versions that contradict the order in which writes were acknowledged and sent
      stale      anything else that contradicts one order of all that was done to a key
      invented   values that nobody put under this key, that were sent later or refused, or that a
                 filter leaves out; requests acknowledged that had to be refused
      mixed      a part of a batch without the rest; a read of several moments
      leaked     values of another tenant, namespace or run
    """
    _Space(name, report).check(writes, reads)


class _Space:
    def __init__(self, name: str, report: Report) -> None:
        self._name = name
        self._report = report
        self._counted: set[tuple[str, object]] = set()
        self._sender: dict[str, tuple[_Request, int]] = {}  # Of an item, with the write's index.
        self._versions: dict[str, int] = {}  # Of items, from replies and reads.
        self._items: dict[int, tuple[str, str]] = {}  # By version: key and item.

    def _count(self, count: str, key: object, example: str, times: int = 1) -> None:
        if (count, key) not in self._counted:
            self._counted.add((count, key))
            self._report.add(count, f"{self._name}: {example}", times)

    def check(self, writes: list[Record], reads: list[Record]) -> None:
        self._report.reads += len(reads)
        self._requests = [self._merged(name, attempts)
                          for name, attempts in _attempts(writes).items()]
        for request in self._requests:
            for index, (_, item, _, _) in enumerate(request.writes):
                if item is not None:
                    self._sender[item] = request, index
        for request in self._requests:
            for (key, item, _, _), version in zip(request.writes, request.versions, strict=False):
                if item is not None:
                    self._note(key, item, version, request.name)
        for read in reads:
            self._check_items(read)
        self._check_order()
        refusals = [w for w in writes if w["outcome"] == "fail" and "stored" in w]
        self._index_deletes()
        for read in reads:
            if read.get("whole"):
                self._check_moment(read)
            if "count" in read and read["count"] != len(read["shown"]):
                more = read["count"] > len(read["shown"])
                self._count("doubled" if more else "lost", id(read),
                            f"{read['count']} items are counted, {len(read['shown'])} are there")
        self._check_registers(refusals, reads)

    # What was asked for and promised.

    def _merged(self, name: str, attempts: list[Record]) -> _Request:
        first = attempts[0]
        answers = [a for a in attempts if a["outcome"] == "ok"]
        undecided = [a for a in attempts if a["outcome"] != "fail"]
        deletes_all = first["op"] == "space_delete"
        if deletes_all:
            undecided = attempts
        request = _Request(name, first.get("writes", []),
                           "ok" if answers else "unknown" if undecided else "fail",
                           min(a["invoke_ns"] for a in undecided or attempts),
                           deletes_all=deletes_all)
        self._report.replayed += sum(bool(a.get("replayed")) for a in attempts)
        self._report.acked += request.done
        self._report.unknown += request.outcome == "unknown"
        self._report.refused += request.outcome == "fail"
        if not answers:
            return request
        if any(a.get("must_fail") for a in attempts):
            self._count("invented", name, f"{name}, whose key had another body, was acknowledged")
        self._report.acked_items += len(request.writes)
        request.returned = min(a["return_ns"] for a in answers)
        request.versions = answers[0].get("versions", [])
        request.existed = answers[0].get("existed", [])
        said = {(tuple(a.get("versions", ())), tuple(a.get("existed", ()))) for a in answers}
        if len(said) > 1:
            self._count("doubled", name, f"{name} was acknowledged as {sorted(said, key=str)}")
        return request

    def _note(self, key: str, item: str, version: int, where: str) -> None:
        known = self._versions.setdefault(item, version)
        if known != version:
            self._count("doubled", item, f"{where}: {item} is at version {version} and at {known}")
        there = self._items.setdefault(version, (key, item))
        if there != (key, item):
            self._count("doubled", version, f"{where}: version {version} is of {item} under {key!r} "
                                            f"and of {there[1]} under {there[0]!r}")

    def _check_items(self, read: Record) -> None:
        """Each item of a read by itself. Those that are nobody's are taken out of it."""
        where = _where(read)
        for text in read.get("foreign", ()):
            self._count("leaked", text, f"{where} showed {text[:200]!r}")
        known, nobodys = [], set()
        keys = [key for key, _, _ in read["shown"]]
        if len(set(keys)) < len(keys):
            self._count("doubled", id(read), f"{where} showed a key twice")
        for key, item, version in read["shown"]:
            request, index = self._sender.get(item, (None, 0))
            if request is None or request.writes[index][0] != key:
                self._count("invented", item, f"{where} showed {item} under {key!r}, which nobody put "
                                              "there")
                nobodys.add(key)
                continue
            if request.outcome == "fail":
                self._count("invented", item, f"{where} showed {item}, which was refused")
                nobodys.add(key)
                continue
            if request.invoke > read["return_ns"]:
                self._count("invented", item, f"{where} showed {item} before it was sent")
                nobodys.add(key)
                continue
            if read.get("of") is not None and client_of(item) != read["of"]:
                self._count("invented", item, f"{where} asked for client {read['of']} alone and "
                                              f"showed {item}")
            if version is not None:
                self._note(key, item, version, where)
            known.append((key, item, version))
        read["shown"] = known
        read["keys"] = [key for key in read["keys"] if key not in nobodys]

    def _check_order(self) -> None:
        """No write may be at a lower version than one that was acknowledged before it was sent."""
        earliest, whose = _NEVER, ""
        for version, (_, item) in sorted(self._items.items(), reverse=True):
            if item not in self._sender:
                continue
            request, _ = self._sender[item]
            if request.invoke > earliest:
                self._count("reordered", item, f"{item} is at version {version} and was sent after "
                                               f"{whose}, of a higher one, was acknowledged")
            if request.returned < earliest:
                earliest, whose = request.returned, item

    # Reads of one moment.

    def _index_deletes(self) -> None:
        """Of each key the deletes, as pairs of when they were sent and answered."""
        deletes: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
        wipes = [(r.invoke, r.returned) for r in self._requests if r.deletes_all]
        self._timed: set[str] = set()
        self._puts_of: dict[str, list[int]] = collections.defaultdict(list)  # Versions.
        for version, (key, item) in sorted(self._items.items()):
            if item in self._sender:
                self._puts_of[key].append(version)
        for request in self._requests:
            for key, item, _, ttl in request.writes:
                if ttl:
                    self._timed.add(key)
                if item is None and request.outcome != "fail":
                    deletes[key].append((request.invoke, request.returned))
        self._deletes = collections.defaultdict(lambda: Highest(wipes, -_NEVER))
        for key, times in deletes.items():
            self._deletes[key] = Highest([*times, *wipes], -_NEVER)

    def _may_be_deleted(self, key: str, since: float, before: float) -> bool:
        """Whether a delete that was sent before a time may have come behind what was sent at
        another one."""
        return key in self._timed or self._deletes[key].before(before) > since

    def _check_moment(self, read: Record) -> None:
        shown = {key: (item, version) for key, item, version in read["shown"]}
        highest = max((self._versions.get(item, 0) for item, _ in shown.values()), default=0)
        where = _where(read)
        for key in read["keys"]:
            versions = self._puts_of.get(key, [])
            at = bisect.bisect_right(versions, highest)
            if not at:
                continue
            newest = versions[at - 1]
            item = self._items[newest][1]
            if read.get("of") is not None and client_of(item) != read["of"]:
                continue
            if key in shown:
                if self._versions.get(shown[key][0], newest) < newest:
                    self._count("mixed", id(read), f"{where} showed version {highest}, and "
                                                   f"{shown[key][0]} where {item} of {newest} was")
            elif read.get("of") is None and not self._may_be_deleted(
                    key, self._sender[item][0].invoke, read["return_ns"]):
                self._count("mixed", id(read), f"{where} showed version {highest}, and not {item} of "
                                               f"{newest}")
        self._check_batches(read, shown)

    def _check_batches(self, read: Record, shown: dict[str, tuple[str, int | None]]) -> None:
        """Whether a batch of which an item is shown is shown as a whole. That of unknown outcome has
        versions where it was seen alone."""
        if read.get("of") is not None:
            return
        keys = set(read["keys"])
        for item, _ in shown.values():
            request, _ = self._sender[item]
            at = self._versions.get(item)
            if len(request.writes) < 2 or at is None:
                continue
            for key, other, _, _ in request.writes:
                there, _ = shown.get(key, (None, None))
                if key not in keys or there == other:
                    continue
                if there is None:
                    torn = other is not None and not self._may_be_deleted(
                        key, request.invoke, read["return_ns"])
                else:
                    torn = self._versions.get(there, at) < at
                if torn:
                    self._count("mixed", id(read), f"{_where(read)} showed {item} of {request.name}, "
                                                   f"and under {key!r} not {other}")

    # Each key by itself.

    def _check_registers(self, refusals: list[Record], reads: list[Record]) -> None:
        calls: dict[str, list[Call]] = collections.defaultdict(list)
        maybe_deleted: dict[str, list[float]] = collections.defaultdict(list)
        maybe_put: dict[str, list[float]] = collections.defaultdict(list)
        keys = {w[0] for r in self._requests for w in r.writes}
        keys.update(itertools.chain.from_iterable(read["keys"] for read in reads))
        for request in self._requests:
            if request.deletes_all:
                for key in keys:
                    if request.done:
                        calls[key].append(Delete(request.name, request.invoke, request.returned))
                    else:
                        maybe_deleted[key].append(request.invoke)
            elif request.outcome != "fail":
                self._add_writes(request, calls, maybe_deleted, maybe_put)
        for request in self._requests:
            for key, item, expected, _ in request.writes:
                if expected and (request.done or item in self._versions):
                    self._is_known(key, expected, calls, maybe_put)
        for refusal in refusals:
            self._add_refusal(refusal, calls, maybe_put)
        for read in reads:
            _add_read(read, keys, self._versions, calls)
        for key in sorted(keys):
            of_kind = {kind: [call for call in calls[key] if isinstance(call, kind)]
                       for kind in (Put, Delete, Look)}
            register = Register(of_kind[Put], of_kind[Delete], of_kind[Look], maybe_deleted[key],
                                maybe_put[key])
            for call in register.contradictions():
                self._blame(key, call, of_kind[Put])

    def _add_writes(self, request: _Request, calls: dict[str, list[Call]],
                    maybe_deleted: dict[str, list[float]], maybe_put: dict[str, list[float]]
                    ) -> None:
        for index, (key, item, expected, ttl) in enumerate(request.writes):
            times = request.invoke, request.returned
            if item is not None:
                if item in self._versions:
                    calls[key].append(Put(request.name, item, self._versions[item], *times, expected,
                                          ttl))
                else:
                    maybe_put[key].append(request.invoke)
            elif not request.done:
                maybe_deleted[key].append(request.invoke)
            elif request.existed[index] or expected is not None or key in self._timed:
                # Of an item that expires the time of the write decides, which is before its end.
                found = bool(request.existed[index]) and key not in self._timed
                calls[key].append(Delete(request.name, *times, expected, found))
            else:
                calls[key].append(Look(f"{request.name}, which found nothing", *times))

    def _add_refusal(self, refusal: Record, calls: dict[str, list[Call]],
                     maybe_put: dict[str, list[float]]) -> None:
        """A condition that was refused says at which version the item was."""
        key, _, expected, _ = refusal["writes"][refusal.get("lost", 0)]
        version = refusal["stored"]
        where = _where(refusal)
        if version == expected:
            self._count("stale", id(refusal), f"{where} was refused at its own version {version}")
            return
        if version and not self._is_known(key, version, calls, maybe_put):
            self._count("invented", id(refusal), f"{where} was refused at version {version}, which "
                                                 f"nobody wrote under {key!r}")
            return
        calls[key].append(Look(where, refusal["invoke_ns"], refusal["return_ns"], version))

    def _is_known(self, key: str, version: int, calls: dict[str, list[Call]],
                  maybe_put: dict[str, list[float]]) -> bool:
        """Whether somebody can have written a version that a condition tells of."""
        known = self._items.get(version)
        if known is None and maybe_put[key]:
            # It is of a put that nobody has seen, and nobody knows of which.
            calls[key].append(Put("a put of unknown outcome", "?", version, min(maybe_put[key])))
            maybe_put[key].remove(max(maybe_put[key]))
            known = self._items[version] = key, "?"
        return known is not None and known[0] == key

    def _blame(self, key: str, call: Call, puts: list[Put]) -> None:
        """Counts a call that contradicts the others."""
        where = f"{call.name}, {key!r}"
        if isinstance(call, Look):
            saw = call.item or f"version {call.version}" if call.shows else "nothing"
            latest = max((put.version for put in puts if put.returned < call.invoke), default=0)
            count = "stale"
            if call.final and (not call.shows or 0 < call.version < latest):
                count = "lost"
            self._count(count, call, f"{where}, saw {saw}, which was not there then")
        elif call.expected is not None:
            self._count("lost", call, f"{where}, was done at version {call.expected}, at which the "
                                      "item was not")
        elif isinstance(call, Put):
            self._count("reordered", call, f"{where}, of version {call.version}, was done in another "
                                           "order")
        else:
            self._count("stale", call, f"{where}, deleted what was not there")


def _attempts(writes: list[Record]) -> dict[str, list[Record]]:
    attempts: dict[str, list[Record]] = collections.defaultdict(list)
    for write in writes:
        attempts[write["request"]].append(write)
    return attempts


def _add_read(read: Record, keys: set[str], known: dict[str, int],
              calls: dict[str, list[Call]]) -> None:
    shown = {key: (item, version) for key, item, version in read["shown"]}
    where = _where(read)
    for key in keys.intersection({*read["keys"], *shown}):
        item, version = shown.get(key, ("", None))
        if item and not version and item not in known:
            continue  # Of a put of unknown outcome that was seen by its value alone.
        calls[key].append(Look(where, read["invoke_ns"], read["return_ns"], version or 0,
                               "" if version else item, read.get("of") if not item else None,
                               bool(read.get("final"))))


def _where(record: Record) -> str:
    return (f"{record['op']} {record.get('request', '')} by client {record.get('client', '-')} "
            f"at {record['invoke_ns']}")
