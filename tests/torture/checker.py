#!/usr/bin/env python3
"""Holds what clients saw against what memoryd promises.

usage: checker.py FOLDER     the folder holds the history (history.py); prints the report and exits
                             1 when a promise was broken

Positions never fall while a session exists, over Set and Reset too. So the whole life of a session
is one tape: a Put or Set writes its items at its positions, a Set or Reset moves the beginning of
what counts (the floor) to the next position. A reply says where its items lie and, by its revision,
in which order the acknowledged writes were done. What every read may show follows from that in one
pass, without a search over possible orders, in O(n log n). A write of unknown outcome was done if
its items are on the tape. An update leaves the item where it is and gives it another edition; a
delete of one message leaves its position empty for ever; one of either of unknown outcome may have
been done at any time after it was sent. A wipe without items (a Reset, or a Set to nothing) of
unknown outcome may or may not have been done, at any time after it was sent; it excuses one
beginning of a tape. Of a session that keeps its newest N messages a whole read shows these and no older
one; of one that expires see expiry.py, of one whose facts are changed facts.py, of a namespace of items
items.py.

What is counted, each item, write or read once per count:

  lost       acknowledged items and contents that the final read lacks though nothing wiped or
             deleted them, or of which it shows an earlier edition; items that a Set, Reset, update
             or delete says it did not find; positions of the final read that hold nothing
  doubled    items stored at two positions, and requests acknowledged twice with different replies
  reordered  writes whose order (revisions, positions) contradicts the order in which they were
             acknowledged and sent, or each other; items stored elsewhere than the reply says;
             positions that changed their item; reads whose items do not ascend
  stale      reads that miss what was acknowledged before they were sent, miss what an earlier read
             showed, show what was wiped, deleted or updated before, or have a hole; reads of one
             role, or of contents, that lack one; a configuration before the latest; wipes that were
             acknowledged and did not begin a new generation
  leaked     bodies of another tenant, session or run in a read; any body in an error
  invented   items that nobody sent (other bytes included), that were sent only after the read, or
             that were definitely refused; requests acknowledged that had to be refused
  mixed      parts of a batch or Set without the rest; batches not in one piece; reads with items
             from both sides of a wipe; items newer than the revision that the read names
"""

from __future__ import annotations

import argparse
import bisect
import collections
import dataclasses
import itertools
import math
import pathlib
import sys
from collections.abc import Iterable, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from torture import expiry, facts, history, items
from torture.bodies import original
from torture.deletions import Deletions
from torture.edits import Edits
from torture.highest import Highest
from torture.history import Record
from torture.subsets import Subset

COUNTS = ("lost", "doubled", "reordered", "stale", "leaked", "invented", "mixed")
_WRITES = ("put", "set", "reset", "update", "delete", "configure")
_WIPES = ("set", "reset")
# Reads that end with the newest item, if there is any.
_TO_THE_END = ("get", "getall", "final")
# Reads of the tape; a read of the configuration is none.
_READS = ("get", "getall", "query", "filtered", "final")
_CONTENTS = "contents"  # A kind beside the roles of messages.
_FIRST_POSITION = 1
_MOST_EXAMPLES = 20
# Beyond this share of unknown outcomes a history proves too little.
MOST_UNKNOWN = 0.5
_NEVER = math.inf


@dataclasses.dataclass
class Report:
    """The counts of a history, see above, and some of what was counted."""

    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    stale: int = 0
    leaked: int = 0
    invented: int = 0
    mixed: int = 0
    # Requests, however often each was sent.
    acked: int = 0
    unknown: int = 0
    refused: int = 0
    acked_items: int = 0
    replayed: int = 0  # Attempts answered with the reply of an earlier one.
    reads: int = 0
    copies: int = 0  # Among the reads.
    calls: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)

    @property
    def violations(self) -> int:
        return sum(getattr(self, name) for name in COUNTS)

    @property
    def enough_known(self) -> bool:
        return self.acked > 0 and self.unknown <= MOST_UNKNOWN * (
            self.acked + self.unknown + self.refused)

    def add(self, count: str, example: str, times: int = 1) -> None:
        setattr(self, count, getattr(self, count) + times)
        if len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(f"{count}: {example}")


def check(records: Iterable[Record]) -> Report:
    report = Report()
    sessions: dict[tuple[str, str], tuple[list[Record], list[Record]]] = collections.defaultdict(
        lambda: ([], []))
    for record in records:
        report.calls += 1
        for text in record.get("leaks", ()):
            report.add("leaked", f"an error of {_name(record)}: {text[:200]}")
        writes, reads = sessions[record["tenant"], record["session"]]
        if record["op"] in (*_WRITES, *facts.CHANGES, *items.WRITES):
            writes.append(record)
        elif record["outcome"] == "ok":
            reads.append(record)
    for (tenant, session), (writes, reads) in sorted(sessions.items()):
        if not writes and not reads:
            continue  # Nothing but reads that failed.
        settings = (writes or reads)[0]
        if "space" in settings:
            items.check(f"{tenant}/{session}", report, writes, reads)
        elif "notes" in settings:
            facts.check(f"{tenant}/{session}", report, writes, reads)
        elif "expires_ns" in settings:
            expiry.check(f"{tenant}/{session}", report, settings["expires_ns"], writes, reads)
        else:
            _Session(f"{tenant}/{session}", report, settings.get("keeps", 0)).check(writes, reads)
    return report


@dataclasses.dataclass(eq=False)
class _Request:
    """A write, whatever number of attempts it took."""

    name: str
    op: str
    items: list[str]
    outcome: str
    invoke: float
    returned: float = _NEVER  # When it was first acknowledged.
    revision: int = 0
    generation: str = ""
    positions: list[int] = dataclasses.field(default_factory=list)
    removed: int | None = None
    target: str = ""  # The item that an update or delete is for.
    edition: str = ""  # What an update makes of it.
    position: int = 0  # Where an acknowledged update found it.
    not_found: float = _NEVER  # When the server said that there is no such item.
    must_fail: bool = False
    roles: str = ""  # First letters of the roles of the items.
    contents: list[str] = dataclasses.field(default_factory=list)
    wipes_contents: bool = False
    value: str = ""  # What an update of the session gives it.

    def of_kind(self, kind: str) -> list[str]:
        """The items of a kind: of messages of a role, or contents."""
        if kind == _CONTENTS:
            return self.contents
        return [item for item, role in zip(self.items, self.roles, strict=False)
                if kind.startswith(role)]

    @property
    def done(self) -> bool:
        return self.outcome == "ok"

    @property
    def empties(self) -> bool:
        return self.op in _WIPES and not self.items


class _Session:
    """Checks one session, which keeps its newest `keeps` messages, or 0 for all, into a report.
    `check` is called once."""

    def __init__(self, name: str, report: Report, keeps: int) -> None:
        self._name = name
        self._keeps = keeps
        self._report = report
        self._counted: set[tuple[str, object]] = set()
        self._promised: dict[str, int] = {}  # Positions of items, from replies.
        self._places: dict[str, int] = {}  # Positions of items, from reads.
        self._seen: dict[int, str] = {}  # Items by position, from reads.
        self._elsewhere: dict[str, set[int]] = collections.defaultdict(set)  # Further positions.
        self._excuses: set[int] = set()  # Beginnings that wipes of unknown outcome excuse.
        self._deletions = Deletions()
        self._edits = Edits()
        self._subsets: dict[str, Subset] = {}
        self._content_places: dict[int, str] = {}  # Contents by position, from reads.

    def _count(self, count: str, key: object, example: str, times: int = 1) -> None:
        if (count, key) not in self._counted:
            self._counted.add((count, key))
            self._report.add(count, f"{self._name}: {example}", times)

    def check(self, writes: list[Record], reads: list[Record]) -> None:
        self._requests = list(self._merge(writes))
        self._done = sorted((r for r in self._requests if r.done), key=lambda r: r.revision)
        self._sender = {item: r for r in self._requests for item in r.items}
        for request in self._requests:
            if request.op == "delete" and request.outcome != "fail":
                self._deletions.add(request.target, request.invoke, request.returned,
                                    request.revision)
            elif request.op == "update":
                self._edits.add(request.edition, request.invoke, request.returned,
                                request.revision, refused=request.outcome == "fail")
        self._count_requests()
        self._check_revisions()
        self._place_promised()
        configurations = [read for read in reads if read["op"] not in _READS]
        reads = [read for read in reads if read["op"] in _READS]
        reads.sort(key=lambda read: read["invoke_ns"])
        self._report.reads += len(reads) + len(configurations)
        self._report.copies += sum(bool(read.get("copy")) for read in reads)
        for read in reads:
            self._check_items(read)
        self._check_places()
        self._check_order_of_places()
        self._index_wipes()
        self._index_times()
        self._check_removed()
        self._check_not_found()
        for read in reads:
            if read["op"] == "filtered":
                self._check_subset(read, read["role"], read["items"])
            if _CONTENTS in read:
                self._check_contents(read)
        self._check_configuration(configurations)
        finals = [read for read in reads if read["op"] == "final"]
        self._check_reads([read for read in reads if read["op"] != "final"])
        for read in finals:
            self._check_final(read)

    # What was asked for and promised.

    def _merge(self, writes: list[Record]) -> Iterator[_Request]:
        attempts: dict[object, list[Record]] = collections.defaultdict(list)
        for number, record in enumerate(writes):
            attempts[record.get("request") or number].append(record)
        for name, records in attempts.items():
            self._report.replayed += sum(bool(r.get("replayed")) for r in records)
            # What was refused for good had no effect, so it does not say when the effect was.
            undecided = [r for r in records if r["outcome"] != "fail"]
            first = records[0]
            request = _Request(
                str(name), first["op"], first.get("items", []),
                "unknown" if undecided else "fail",
                min(r["invoke_ns"] for r in undecided or records),
                target=first.get("target", ""), edition=first.get("edition", ""),
                not_found=min((r["return_ns"] for r in records if r.get("code") == "NOT_FOUND"),
                              default=_NEVER),
                must_fail=any(r.get("must_fail") for r in records),
                roles=first.get("roles", ""), contents=first.get("contents", []),
                wipes_contents=first.get("wipes_contents", False), value=first.get("value", ""))
            answers = [r for r in records if r["outcome"] == "ok"]
            if answers:
                answer = answers[0]
                request.outcome = "ok"
                request.returned = min(r["return_ns"] for r in answers)
                request.revision = answer["revision"]
                request.generation = answer.get("generation", "")
                request.positions = answer.get("positions", [])
                request.position = answer.get("position", 0)
                request.removed = answer.get("removed")
                said = {(r["revision"], r.get("generation"), tuple(r.get("positions", ())))
                        for r in answers}
                if len(said) > 1:
                    self._count("doubled", request.name,
                                f"{request.name} was acknowledged as {sorted(said)}")
            yield request

    def _count_requests(self) -> None:
        for request in self._requests:
            if request.must_fail:
                self._report.refused += 1
                if request.done:
                    self._count("invented", request.name,
                                f"{request.name}, whose key had another body, was acknowledged")
            elif request.done:
                self._report.acked += 1
                self._report.acked_items += len(request.items) + len(request.contents)
            elif request.outcome == "unknown":
                self._report.unknown += 1
            else:
                self._report.refused += 1

    def _check_revisions(self) -> None:
        for one, other in itertools.pairwise(self._done):
            if one.revision == other.revision:
                self._count("reordered", other,
                            f"{one.name} and {other.name} both made revision {one.revision}")
            if (other.op in _WIPES) and one.generation == other.generation:
                self._count("stale", other,
                            f"{other.op} {other.name} did not begin a new generation")
        self._check_against_time(self._done, "revision")

    def _check_against_time(self, ordered: list[_Request], what: str) -> None:
        """Nobody may come behind a write that was sent only after his own acknowledgement."""
        earliest, whose = _NEVER, None
        for request in reversed(ordered):
            if request.invoke > earliest:
                self._count("reordered", request,
                            f"{request.name} was sent after {whose.name} was acknowledged and has "
                            f"the lower {what}")
            if request.returned < earliest:
                earliest, whose = request.returned, request

    def _place_promised(self) -> None:
        highest = 0
        for request in self._done:
            if len(request.positions) != len(request.items):
                self._count("mixed", request, f"{request.name} has {len(request.items)} items and "
                                              f"was given {len(request.positions)} positions")
            positions = request.positions
            if any(b != a + 1 for a, b in itertools.pairwise(positions)):
                self._count("mixed", request, f"{request.name} lies at {positions}")
            if positions and positions[0] <= highest:
                self._count("reordered", request,
                            f"{request.name} begins at {positions[0]}, revisions before it reach "
                            f"{highest}")
            highest = max(highest, *positions, 0)
            for item, position in zip(request.items, positions, strict=False):
                self._promised[item] = position
                self._deletions.place(position, item)

    # What reads show, by itself.

    def _check_items(self, read: Record) -> None:
        """Each item of a read; sets positions, what is shown of each item, and its _Request."""
        read["shown"] = read["items"]
        items = read["items"] = [original(item) for item in read["shown"]]
        for edition in self._edits.note(read):
            self._count("invented", edition, f"{_name(read)} showed {edition}, which nobody sent, "
                                             "or sent later, or which was refused")
        if "positions" not in read:
            first = read.get("first", 0)
            read["positions"] = range(first, first + len(items))
        positions = read["positions"]
        for text in read.get("foreign", ()):
            self._count("leaked", text, f"{_name(read)} showed {text[:200]!r}")
        ranked = read["op"] == "query"
        if not ranked and any(b <= a for a, b in itertools.pairwise(positions)):
            self._count("reordered", id(read), f"{_name(read)} has positions {list(positions)}")
        senders = []
        for position, item in zip(positions, items, strict=False):
            sender = self._sender.get(item)
            senders.append(sender)
            if sender is None:
                self._count("invented", item, f"{_name(read)} showed {item} that nobody sent")
                continue
            if sender.outcome == "fail" or sender.must_fail:
                self._count("invented", item,
                            f"{_name(read)} showed {item} of {sender.name}, which was refused")
            if sender.invoke > read["return_ns"]:
                self._count("invented", item, f"{_name(read)} showed {item} before it was sent")
            known = self._places.setdefault(item, position)
            if known != position:
                self._elsewhere[item].add(position)
            self._deletions.place(position, item)
            there = self._seen.setdefault(position, item)
            if there != item:
                self._count("reordered", position,
                            f"position {position} was seen to hold {there} and {item}")
        read["senders"] = senders
        if len(set(items)) < len(items):
            twice = next(i for i, n in collections.Counter(items).items() if n > 1)
            self._count("doubled", twice, f"{_name(read)} showed {twice} twice")
        if read["op"] in _TO_THE_END:
            self._set_opening_apart(read)
            self._check_whole_requests(read)

    def _set_opening_apart(self, read: Record) -> None:
        """The message that opens the turn in which the others begin: a Get begins with it, and
        keep_messages spares it, so that a gap may follow."""
        positions, items = read["positions"], read["items"]
        if read["op"] == "get" and len(items) == 1:
            # It may stand alone, once what came behind it has left and the newest is deleted.
            sender = read["senders"][0]
            read["may_open"] = sender is not None and items[0] in sender.of_kind("user")
        if (read["op"] != "get" and not self._keeps) or len(positions) < 2:
            return
        opens, goes_on = (sender is not None and item in sender.of_kind(kind) for sender, item, kind
                          in zip(read["senders"], items, ("user", "assistant"), strict=False))
        if not opens or not goes_on or positions[1] == positions[0] + 1:
            return
        for field in ("positions", "items", "shown", "senders"):
            read[field] = read[field][1:]
        read["opening"] = 1

    def _check_whole_requests(self, read: Record) -> None:
        """The items of a request stand together, and all of them but where the read was cut."""
        items, senders = read["items"], read["senders"]
        end = len(items)
        index = 0
        while index < end:
            sender = senders[index]
            begin = index
            index += 1
            if sender is None:
                continue
            while index < end and senders[index] is sender:
                index += 1
            shown = items[begin:index]
            cut_front = begin == 0 and (read["op"] == "get" or self._keeps > 0)
            cut_back = index == end and read["op"] == "getall" and not read.get("complete")
            if sender.op == "set" and begin > 0:
                self._count("mixed", sender, f"{_name(read)} showed set {sender.name} behind "
                                             f"{items[begin - 1]}")
            whole = [item for item in sender.items
                     if item in shown or not self._deletions.may_lack(item, read["return_ns"])]
            fits = (shown == whole
                    or (cut_front and shown == whole[len(whole) - len(shown):])
                    or (cut_back and shown == whole[:len(shown)]))
            if not fits and not read.get("may_open"):
                self._count("mixed", sender,
                            f"{_name(read)} showed {len(shown)} of {len(whole)} items of "
                            f"{sender.name}, or in another order")

    def _check_places(self) -> None:
        for item, position in self._promised.items():
            there = self._seen.get(position, item)
            if there != item:
                self._count("reordered", position,
                            f"position {position} was acknowledged for {item} and holds {there}")
        for item, positions in self._elsewhere.items():
            # Where a position changed its item, they have changed places: that is counted.
            if not any(("reordered", p) in self._counted
                       for p in (self._places[item], *positions)):
                self._count("doubled", item,
                            f"{item} was seen at {self._places[item]} and {sorted(positions)}")
        for request in self._requests:
            there = self._places.get(request.target, request.position)
            if request.op == "update" and request.done and there != request.position:
                self._count("reordered", request, f"update {request.name} found {request.target} at "
                                                  f"{request.position}, it was seen at {there}")
        for item, position in self._places.items():
            promised = self._promised.get(item, position)
            if promised != position and ("doubled", item) not in self._counted:
                self._count("reordered", item,
                            f"{item} was acknowledged at {promised} and seen at {position}")

    def _check_order_of_places(self) -> None:
        """As _check_against_time, with what turned out to be stored as well."""
        placed: dict[_Request, int] = {}
        for item, position in itertools.chain(self._places.items(), self._promised.items()):
            sender = self._sender.get(item)
            if sender is not None:
                placed[sender] = position
        self._check_against_time(sorted(placed, key=placed.__getitem__), "position")

    # What wipes leave.

    def _index_wipes(self) -> None:
        done = self._done
        highest = list(itertools.accumulate(
            (max(r.positions, default=0) for r in done), max, initial=0))
        lowest = list(itertools.accumulate(
            (min(r.positions, default=_NEVER) for r in reversed(done)), min, initial=_NEVER))[::-1]
        self._revisions = [r.revision for r in done]
        self._highest = highest  # Of the first n writes.
        self._latest_invoke = list(itertools.accumulate(
            (r.invoke for r in done), max, initial=-_NEVER))
        self._latest_items = list(itertools.accumulate(
            (r.revision for r in done if r.items), max, initial=0))
        self._item_revisions = self._latest_items[1:]
        self._wipes = [i for i, r in enumerate(done) if r.op in _WIPES]
        self._wipe_revisions = [done[i].revision for i in self._wipes]
        # Between which positions the floor lies that a wipe makes.
        self._floors = []
        for i in self._wipes:
            if done[i].positions:
                self._floors.append((done[i].positions[0],) * 2)
            else:
                self._floors.append((highest[i] + 1, lowest[i + 1]))
        self._floor_until = list(itertools.accumulate(
            (low for low, _ in self._floors), max, initial=_FIRST_POSITION))
        empties = [done[i] for i in self._wipes if done[i].empties]
        self._empty_revisions = [r.revision for r in empties]
        # Of each wipe to nothing and all later ones, when the earliest was sent.
        self._empty_invokes = list(itertools.accumulate(
            (r.invoke for r in reversed(empties)), min, initial=_NEVER))[::-1]
        self._set_begins = {r.positions[0]: r.invoke for r in done if r.op == "set" and r.positions}
        # Of sets that turned out to be done: where they begin.
        for request in self._requests:
            if request.op == "set" and not request.done and request.items:
                seen = [(self._places[item], n) for n, item in enumerate(request.items)
                        if item in self._places]
                if seen:
                    self._set_begins[seen[0][0] - seen[0][1]] = request.invoke
        self._maybe_wiped = sorted(r.invoke for r in self._requests
                                   if r.empties and r.outcome == "unknown")
        self._maybe_set = min((r.invoke for r in self._requests if r.op == "set" and r.items
                               and r.outcome == "unknown"), default=_NEVER)

    def _index_times(self) -> None:
        done = self._done
        self._revision_at = Highest((r.returned, r.revision) for r in done)
        self._item_revision_at = Highest((r.returned, r.revision) for r in done if r.items)
        self._end_at = Highest((r.returned, r.positions[-1]) for r in done if r.positions)
        self._floor_at = Highest(
            ((done[i].returned, floor[0])
             for i, floor in zip(self._wipes, self._floors, strict=True)),
            _FIRST_POSITION)

    def _floor_by(self, revision: float) -> float:
        """The floor at least, once the acknowledged writes up to `revision` are done."""
        return self._floor_until[bisect.bisect_right(self._wipe_revisions, revision)]

    def _may_be_empty(self, after: float, named: float, before: float) -> bool:
        """Whether a wipe to nothing may have come behind revision `after`, at most at revision
        `named`, and been sent before a time."""
        first = bisect.bisect_right(self._empty_revisions, after)
        fits = first < bisect.bisect_right(self._empty_revisions, named)
        return (fits and self._empty_invokes[first] < before) or self._maybe(before)

    def _maybe(self, before: float) -> bool:
        return bool(self._maybe_wiped) and self._maybe_wiped[0] < before

    def _may_begin(self, position: int, before: float) -> bool:
        """Whether a tape may begin at `position` for a read that returned at `before`."""
        if self._keeps:
            return True  # How much a read has to show is looked at by itself.
        first = position
        while not self._begins(first, before):
            if not self._deletions.may_lack_position(first - 1, before):
                return self._excused(first, before)
            first -= 1
        return True

    def _begins(self, position: int, before: float) -> bool:
        """Whether a wipe that is known, or none, lets a tape begin at `position`."""
        if position <= _FIRST_POSITION or self._set_begins.get(position, _NEVER) < before:
            return True
        # Wipes in a row make equal floors, so those that can have made this one are neighbours.
        index = bisect.bisect_left(self._floors, position, key=lambda floor: floor[1])
        while index < len(self._floors) and self._floors[index][0] <= position:
            wipe = self._done[self._wipes[index]]
            if wipe.empties and wipe.invoke < before:
                return True
            index += 1
        return False

    def _excused(self, position: int, before: float) -> bool:
        """Whether a wipe of unknown outcome is left that may have made a tape begin here."""
        if position not in self._excuses:
            used = len(self._excuses)
            if used >= len(self._maybe_wiped) or self._maybe_wiped[used] >= before:
                return False
            self._excuses.add(position)
        return True

    def _check_removed(self) -> None:
        """How many messages a wipe says it took away, where all before it are known."""
        if self._maybe_wiped or self._maybe_set < _NEVER:
            return
        unknown = sum(len(r.items) for r in self._requests if r.outcome == "unknown")
        deleted = len(self._deletions)
        kept = 0
        for request in self._done:
            if request.op in _WIPES:
                removed = request.removed
                if removed is not None and removed < kept - deleted:
                    self._count("lost", request,
                                f"{request.op} {request.name} found {removed} of {kept} messages",
                                kept - deleted - removed)
                elif removed is not None and removed > kept + unknown:
                    self._count("doubled", request,
                                f"{request.op} {request.name} found {removed} messages of {kept}")
                kept = 0
            kept += len(request.items)

    def _check_not_found(self) -> None:
        """Updates and deletes of what was there for certain."""
        for request in self._requests:
            sender = self._sender.get(request.target)
            if (request.op not in ("update", "delete") or request.not_found == _NEVER or sender is None
                    or not sender.done or sender.returned >= request.invoke):
                continue
            before = request.not_found
            wiped = any(r.op in _WIPES and r.outcome != "fail" and r.invoke < before
                        and (not r.done or r.revision > sender.revision) for r in self._requests)
            if not wiped and not self._deletions.may_lack(request.target, before):
                self._count("lost", request,
                            f"{request.op} {request.name} did not find {request.target}")

    # What reads of a kind have to show, and reads of the configuration.

    def _check_subset(self, read: Record, kind: str, items: list[str]) -> None:
        if kind not in self._subsets:
            self._subsets[kind] = self._subset(kind)
        returned = read["return_ns"]
        for count, about, why in self._subsets[kind].wrong_with(
                items, read["invoke_ns"], returned,
                lambda item: self._deletions.may_lack(item, returned)):
            if count == "stale" and read["op"] == "final" and about not in items:
                count = "lost"
            self._count(count, about, f"{_name(read)} showed of {kind} {why}")

    def _subset(self, kind: str) -> Subset:
        subset = Subset()
        for request in self._requests:
            refused = request.outcome == "fail" or request.must_fail
            times = (request.invoke, request.returned)
            if request.op in _WIPES and (kind != _CONTENTS or request.wipes_contents):
                # What a Set puts comes behind its wipe.
                subset.add(request.name, [], *times, request.revision - 0.5, refused)
            if request.of_kind(kind):
                subset.add(request.name, request.of_kind(kind), *times, request.revision, refused)
        return subset

    def _check_contents(self, read: Record) -> None:
        positions = read["content_positions"]
        if any(b <= a for a, b in itertools.pairwise(positions)):
            self._count("reordered", id(read), f"{_name(read)} has contents at {positions}")
        for position, item in zip(positions, read[_CONTENTS], strict=True):
            there = self._content_places.setdefault(position, item)
            if there != item:
                self._count("reordered", (_CONTENTS, position),
                            f"the content at {position} was seen to be {there} and {item}")
        self._check_subset(read, _CONTENTS, read[_CONTENTS])

    def _check_configuration(self, reads: list[Record]) -> None:
        """What an update of the session gives it is there until the next one."""
        done = [r for r in self._done if r.op == "configure"]
        revisions = [r.revision for r in done]
        values = {r.value: r for r in self._requests if r.op == "configure"}
        for read in reads:
            latest = bisect.bisect_right(revisions, read["revision"])
            known = done[latest - 1].value if latest else ""
            shown = values.get(read["value"])
            if read["value"] == known:
                continue
            if shown is None and not read["value"]:
                self._count("stale", id(read), f"{_name(read)} showed no value, {known} was known")
            elif shown is None or shown.outcome == "fail" or shown.invoke > read["return_ns"]:
                self._count("invented", read["value"], f"{_name(read)} showed {read['value']}, which "
                                                       "nobody sent, or sent later")
            elif shown.done:
                count = "mixed" if shown.revision > read["revision"] else "stale"
                self._count(count, id(read), f"{_name(read)} of revision {read['revision']} showed "
                                             f"{read['value']} of {shown.revision}, not {known}")

    # What reads have to show.

    def _check_reads(self, reads: list[Record]) -> None:
        ended = sorted(reads, key=lambda read: read["return_ns"])
        seen = iter(ended)
        upcoming = next(seen, None)
        end, begin, revision = 0, 0, 0
        for read in reads:
            while upcoming is not None and upcoming["return_ns"] < read["invoke_ns"]:
                positions = upcoming["positions"]
                if positions and upcoming["op"] in _TO_THE_END:
                    end = max(end, positions[-1])
                    if upcoming["op"] == "getall":
                        begin = max(begin, positions[0])
                revision = max(revision, upcoming.get("revision") or 0)
                upcoming = next(seen, None)
            wrong = self._wrong_with(read, end, begin, revision)
            if wrong is not None:
                self._count(wrong[0], id(read), f"{_name(read)} {wrong[1]}")

    def _wrong_with(self, read: Record, end: int, begin: int,
                    revision: int) -> tuple[str, str] | None:
        """What is wrong with a read that comes behind reads up to position `end`, from `begin` on
        and of `revision`; at most one thing."""
        invoke, returned = read["invoke_ns"], read["return_ns"]
        positions, named = read["positions"], read.get("revision")
        known = self._revision_at.before(invoke)
        if named is not None and named < max(known, revision):
            return "stale", f"is of revision {named}, {max(known, revision):.0f} was known"
        written = bisect.bisect_right(self._revisions, named) if named is not None else 0
        if self._latest_invoke[written] > returned:
            return "reordered", f"is of revision {named}, which was written after it"
        floor = max(self._floor_at.before(invoke), begin)
        if named is not None:
            floor = max(floor, self._floor_by(named))
        if positions and min(positions) < floor:
            return "stale", f"shows position {min(positions)}, wiped up to {floor:.0f} before"
        if self._keeps and positions:
            newest = max(self._end_at.before(invoke), end, self._highest[written])
            if min(positions) <= newest - self._keeps:
                return "stale", (f"shows position {min(positions)} of a session that keeps "
                                 f"{self._keeps}, {newest:.0f} was there before")
            if self._kept_too_few(read):
                return "stale", f"shows {len(positions)} up to {positions[-1]}, {self._keeps} are kept"
        deleted = self._deletions.shown(positions, read["items"], invoke, named)
        if deleted:
            return "stale", f"shows {deleted}, deleted before"
        updated = self._edits.older_than_known(read)
        if updated:
            return "stale", f"shows {updated}, updated before"
        if read["op"] == "query":
            return self._wrong_with_query(read)
        if read["op"] == "filtered":
            return None
        unnamed = self._edits.newer_than_named(read)
        if unnamed:
            return "mixed", f"shows {unnamed}, which came behind revision {named}"
        if positions:
            mixed = self._mixture(read)
            if mixed is not None:
                return "mixed", mixed
        if positions and positions[-1] - positions[0] + 1 != len(positions):
            missing = self._deletions.lacks(positions, returned)
            if missing:
                return "stale", f"has holes, the first at {missing[0]}"
        if positions and read["op"] == "getall" and not self._may_begin(positions[0], returned):
            return "stale", f"begins at {positions[0]}, and nothing was wiped before that"
        if read["op"] == "getall" and not read.get("complete"):
            return None
        return self._end_missed(read, end, written, floor)

    def _kept_too_few(self, read: Record) -> bool:
        """Whether a whole read of a session that keeps its newest messages lacks some of these."""
        positions = read["positions"]
        whole = read["op"] == "final" or (read["op"] == "getall" and read.get("complete"))
        return bool(whole and self._keeps and positions
                    and len(positions) + read.get("opening", 0) < min(self._keeps, positions[-1]))

    def _end_missed(self, read: Record, end: int, written: int,
                    floor: float) -> tuple[str, str] | None:
        """Whether a read lacks the end of the tape."""
        invoke, returned, positions = read["invoke_ns"], read["return_ns"], read["positions"]
        needed = max(self._end_at.before(invoke), end, self._highest[written])
        last_shown = positions[-1] if positions else int(floor) - 1
        lacked = range(last_shown + 1, int(needed) + 1)
        if (not positions and read["op"] == "get") or read.get("may_open"):
            lacked = lacked[-1:]  # Short-term memory may have held the newest item alone.
        if self._deletions.may_lack_positions(lacked, returned):
            needed = last_shown
        if positions:
            if last_shown < needed:
                return "stale", f"ends at {last_shown}, {needed:.0f} was there before"
            named, newest = read.get("revision"), read["senders"][-1]
            if named is not None and newest is not None and newest.revision > named:
                return "mixed", f"shows {newest.name} of {newest.revision}, says {named}"
            return None
        if needed == last_shown:
            return None
        named = read.get("revision")
        last = self._item_revision_at.before(invoke)
        if named is not None:
            last = max(last, self._latest_items[bisect.bisect_right(self._item_revisions, named)])
        if last and not self._may_be_empty(last, _NEVER if named is None else named, returned):
            return "stale", f"is empty, position {needed:.0f} was there before"
        return None

    def _mixture(self, read: Record) -> str | None:
        revisions = [s.revision for s in read["senders"][-1:] if s is not None and s.done]
        first = read["positions"][0]
        if revisions and first < self._floor_by(revisions[0]):
            return f"shows {first} and what came behind a wipe"
        return None

    def _wrong_with_query(self, read: Record) -> tuple[str, str] | None:
        sender = self._sender.get(read.get("wanted", ""))
        if sender is None or not sender.done or sender.returned >= read["invoke_ns"]:
            return None
        returned = read["return_ns"]
        later = bisect.bisect_right(self._revisions, sender.revision)
        wiped = any(r.op in _WIPES and r.invoke < returned for r in self._done[later:])
        if wiped or self._maybe(returned) or self._maybe_set < returned:
            return None
        if self._deletions.may_lack(read["wanted"], returned):
            return None
        if read["wanted"] not in read["items"]:
            return "stale", f"did not find {read['wanted']}"
        return None

    def _check_final(self, read: Record) -> None:
        positions, items = read["positions"], set(read["items"])
        floor = self._floor_until[-1]
        # The last sets that turned out to be done are floors too.
        floor = max(floor, max(self._set_begins, default=0))
        if positions and positions[0] < floor:
            self._count("stale", id(read), f"the final read shows {positions[0]}, wiped up to "
                                           f"{floor:.0f}")
        if positions:
            mixed = self._mixture(read)
            if mixed is not None:
                self._count("mixed", id(read), f"the final read {mixed}")
        if self._kept_too_few(read):
            self._count("lost", id(read), f"the final read shows {len(positions)} up to "
                                          f"{positions[-1]}, {self._keeps} are kept")
        begin = floor
        if positions and self._may_begin(positions[0], read["return_ns"]):
            begin = max(floor, positions[0])
        if not positions:
            last = self._latest_items[-1]
            if not last or self._may_be_empty(last, _NEVER, read["return_ns"]):
                begin = _NEVER
        lacking = 0
        for item, position in self._promised.items():
            if (position >= begin and item not in items and not self._sender[item].must_fail
                    and not self._deletions.may_lack(item)):
                lacking += 1
                self._count("lost", item, f"the final read lacks {item} at {position}")
        deleted = self._deletions.shown(positions, read["items"], read["invoke_ns"], None)
        if deleted:
            self._count("stale", deleted, f"the final read shows {deleted}, deleted before")
        updated = self._edits.older_than_known(read)
        if updated:
            self._count("lost", updated, f"the final read shows {updated}, updated before")
        holes = self._deletions.lacks(positions, read["return_ns"]) if positions else []
        if holes and not lacking:
            self._count("lost", id(read), f"the final read has {len(holes)} holes", len(holes))


def _name(record: Record) -> str:
    client = record.get("client", "-")
    return (f"{record['op']} of {record['tenant']}/{record['session']} by client {client} at "
            f"{record['invoke_ns']}")


def figures(report: Report) -> str:
    """The counts that say how much a clean report is worth."""
    bound = 3 / report.acked_items if report.acked_items else 1.0
    return (f"calls {report.calls}, reads {report.reads}, copies {report.copies}, "
            f"items acked {report.acked_items}, refused {report.refused}, "
            f"replayed {report.replayed}, invented {report.invented}, mixed {report.mixed}, "
            f"95 % bound on loss {bound:.1e}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    report = check(history.read(parser.parse_args().folder))
    for example in report.examples:
        print(example)
    print(figures(report))
    print(f"acked {report.acked}, unknown {report.unknown}, "
          + ", ".join(f"{name} {getattr(report, name)}" for name in COUNTS))
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
