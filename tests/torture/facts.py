"""What a block of facts must show that clients add to, correct, take from, and undo changes of.

Nothing else is written to its session, so each change has a revision of its own, one above that of the
change before, and a number that is one above as well. Done in this order they give what the block
knows at each revision (`Known`), which every read, and every reply of an undo, must show. Where a
revision is missing a change of unknown outcome was done; then the next read, or the facts of an undo's
reply, say where to go on.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Protocol

from torture.history import Record

CHANGES = ("add_fact", "update_fact", "delete_fact", "undo")
_NEVER = math.inf


class Report(Protocol):
    """Where what is wrong is counted."""

    acked: int
    unknown: int
    refused: int
    reads: int

    def add(self, count: str, example: str, times: int = 1) -> None: ...


@dataclasses.dataclass
class Known:
    """What the block knows at a revision: facts by id, with the change that added each (0: none that
    says so), and those that left, as (change, id, text, added by, ids that came with the change)."""

    revision: int
    facts: dict[int, tuple[str, int]] = dataclasses.field(default_factory=dict)
    past: list[tuple[int, int, str, int, frozenset[int]]] = dataclasses.field(default_factory=list)
    change: int | None = 0  # The number of the latest change, None where it is not known.

    def texts(self) -> dict[int, str]:
        return {number: text for number, (text, _) in self.facts.items()}

    def do(self, write: Record) -> None:
        """What an acknowledged change makes of it, at its revision."""
        self.revision = write["revision"]
        if write["op"] == "undo":
            self._undo(write["undone"])
            return
        self.change = write["change"]
        number = write["fact_id"]
        if write["op"] == "add_fact":
            self.facts[number] = (write["text"], self.change)
            return
        text, added_by = self.facts[number]
        brought = frozenset([number] if write["op"] == "update_fact" else [])
        self.past.append((self.change, number, text, added_by, brought))
        if write["op"] == "update_fact":
            self.facts[number] = (write["text"], added_by)
        else:
            del self.facts[number]

    def can(self, write: Record) -> bool:
        """Whether it is known what the change is of."""
        if write["op"] == "undo":
            return self.change is not None and (
                any(left[0] == write["undone"] for left in self.past)
                or any(added_by == write["undone"] for _, added_by in self.facts.values()))
        return write["op"] == "add_fact" or write["fact_id"] in self.facts

    def _undo(self, undone: int) -> None:
        back = [left for left in self.past if left[0] == undone]
        self.past = [left for left in self.past if left[0] != undone]
        coming = frozenset(left[1] for left in back)
        going = {number for number, (_, added_by) in self.facts.items() if added_by == undone}
        going = going.union(coming, *(left[4] for left in back))
        self.change += 1
        for number in sorted(going & self.facts.keys()):
            text, added_by = self.facts.pop(number)
            self.past.append((self.change, number, text, added_by, coming))
        for _, number, text, added_by, _ in back:
            self.facts[number] = (text, added_by)


def known_at(read: Record) -> Known:
    """What a read shows: all, since what the history no longer holds can't be undone."""
    return Known(read["revision"],
                 {number: (text, added_by) for number, text, added_by in read["facts"]},
                 [(change, number, text, added_by, frozenset(brought))
                  for change, number, text, added_by, brought in read["past"]], change=None)


def check(name: str, report: Report, writes: list[Record], reads: list[Record]) -> None:
    """Counts into a report

      lost       facts that a read lacks, or shows as they were before
      doubled    a revision, or a number, of two changes; a change with two replies; a fact shown twice
      reordered  changes whose revisions contradict the order in which they were made
      stale      reads of a revision before that of a change acknowledged before they were sent
      invented   facts that a read shows and nobody sent, that were refused, or that had left;
                 revisions that nobody's change can have made
      leaked     facts of another tenant
    """
    report.reads += len(reads)
    done, unknown, sent = _requests(name, report, writes)
    _check_order(name, report, done)
    for read in reads:
        before = max((w["revision"] for w in done if w["return_ns"] < read["invoke_ns"]), default=0)
        if read["revision"] < before:
            report.add("stale", f"{name}: a read at {read['invoke_ns']} is of revision "
                                f"{read['revision']}, not {before}")
        for _, text, _ in read["facts"]:
            if text in read.get("foreign", ()):
                continue
            if sent.get(text, _NEVER) > read["return_ns"]:
                report.add("invented", f"{name}: {text}")
        for text in read.get("foreign", ()):
            report.add("leaked", f"{name}: {text[:200]!r}")
    missing = _replay(name, report, done, reads)
    if missing > unknown:
        report.add("invented", f"{name}: {missing} revisions are of no known change, and "
                               f"{unknown} changes have an unknown outcome")


def _requests(name: str, report: Report, writes: list[Record]
              ) -> tuple[list[Record], int, dict[str, float]]:
    """Acknowledged changes, one each; how many may have been done besides; when a text was sent."""
    requests: dict[str, list[Record]] = collections.defaultdict(list)
    for write in writes:
        requests[write["request"]].append(write)
    done, unknown = [], 0
    sent: dict[str, float] = {}
    for attempts in requests.values():
        answers = [a for a in attempts if a["outcome"] == "ok"]
        in_doubt = not answers and any(a["outcome"] == "unknown" for a in attempts)
        report.acked += bool(answers)
        report.unknown += in_doubt
        report.refused += not answers and not in_doubt
        unknown += in_doubt
        possible = min((a["invoke_ns"] for a in attempts if a["outcome"] != "fail"),
                       default=_NEVER)
        if "text" in attempts[0]:
            sent[attempts[0]["text"]] = possible
        if not answers:
            continue
        if len({(a["revision"], a.get("change"), a.get("fact_id")) for a in answers}) > 1:
            report.add("doubled", f"{name}: {attempts[0]['request']} has two replies")
        done.append({**answers[0], "invoke_ns": possible,
                     "return_ns": min(a["return_ns"] for a in answers)})
    return done, unknown, sent


def _check_order(name: str, report: Report, done: list[Record]) -> None:
    first_return = _NEVER
    done.sort(key=lambda write: write["revision"])
    for key in ("revision", "change"):
        numbers = [write[key] for write in done if key in write]
        if len(set(numbers)) < len(numbers):
            report.add("doubled", f"{name}: two changes have one {key}")
    for write in reversed(done):
        if write["invoke_ns"] > first_return:
            report.add("reordered", f"{name}: {write['request']} has a revision before one that was "
                                    "acknowledged when it was sent")
        first_return = min(first_return, write["return_ns"])


def _replay(name: str, report: Report, done: list[Record], reads: list[Record]) -> int:
    """Compares what is shown at each revision. Returns how many revisions are of no known change."""
    known: Known | None = Known(1)
    revision, missing = 1, 0
    events = sorted((*done, *reads), key=lambda e: (e["revision"], e["op"] not in CHANGES))
    for event in events:
        if event["op"] in CHANGES:
            gap = max(0, event["revision"] - revision - 1)
        else:
            gap = max(0, event["revision"] - revision)
        missing += gap
        revision = max(revision, event["revision"])
        if gap > 0:
            known = None
        if event["op"] not in CHANGES:
            if known is not None:
                _compare(name, report, known, event)
            change = known.change if known is not None else None
            known = known_at(event)
            known.change = change
        elif known is not None and known.can(event):
            known.do(event)
            if event["op"] == "undo":
                _compare(name, report, known, event)
        else:
            known = None
    return missing


def _compare(name: str, report: Report, known: Known, event: Record) -> None:
    where = f"{name}: {event['op']} at revision {event['revision']}"
    texts = known.texts()
    shown = {number: text for number, text, _ in event["facts"]}
    if len(shown) < len(event["facts"]):
        report.add("doubled", f"{where} shows a fact twice")
    for number, text in texts.items():
        if shown.get(number) != text:
            report.add("lost", f"{where} shows {shown.get(number)!r} for {text!r}")
    for number in shown.keys() - texts.keys():
        report.add("invented", f"{where} shows {shown[number]!r}, which had left")
