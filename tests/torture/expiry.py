"""What reads of a session may show that is gone when nothing was written to it for a while.

Each life of the session is a generation, and replies and ids of messages tell it. A write was done at
some time between its being sent and its reply, so a session that was written at W is there until W's
being sent and its time have passed. Reads may prolong that and are not counted on.
"""

from __future__ import annotations

import collections
import itertools
import math
from typing import Protocol

from torture.history import Record

_NEVER = math.inf


class Report(Protocol):
    """Where what is wrong is counted."""

    acked: int
    unknown: int
    refused: int
    acked_items: int
    reads: int

    def add(self, count: str, example: str) -> None: ...


def check(name: str, report: Report, expires_ns: int, writes: list[Record],
          reads: list[Record]) -> None:
    """Counts into a report

      lost       acknowledged items that a read lacks, or a session that begins anew, before its time
      stale      a life of the session that is shown after the next one was
      mixed      reads of several lives
      doubled, invented, leaked, reordered   as of any session
    """
    report.reads += len(reads)
    requests: dict[str, list[Record]] = collections.defaultdict(list)
    for number, write in enumerate(writes):
        requests[write.get("request") or str(number)].append(write)
    sent: dict[str, float] = {}  # By item; _NEVER: refused.
    done: dict[str, list[Record]] = collections.defaultdict(list)  # By generation.
    for attempts in requests.values():
        answers = [a for a in attempts if a["outcome"] == "ok"]
        report.acked += bool(answers)
        report.unknown += not answers and any(a["outcome"] == "unknown" for a in attempts)
        report.refused += all(a["outcome"] == "fail" for a in attempts)
        possible = [a["invoke_ns"] for a in attempts if a["outcome"] != "fail"]
        if answers and any(a.get("must_fail") for a in attempts):
            report.add("invented", f"{name}: {attempts[0]['request']}, whose key had another body, "
                                   "was acknowledged")
        sent.update(dict.fromkeys(attempts[0]["items"], min(possible, default=_NEVER)))
        if len({(a["generation"], tuple(a["positions"])) for a in answers}) > 1:
            report.add("doubled", f"{name}: {attempts[0]['request']} has two replies")
        if answers:
            report.acked_items += len(answers[0]["items"])
            done[answers[0]["generation"]].append({
                **answers[0], "invoke_ns": min(possible),
                "return_ns": min(a["return_ns"] for a in answers)})
    lives = sorted(done.values(), key=lambda life: min(w["return_ns"] for w in life))
    for one, other in itertools.pairwise(lives):
        last = max(w["invoke_ns"] for w in one)
        first = min(w["return_ns"] for w in other)
        if last + expires_ns > first:
            report.add("lost", f"{name} began anew {(first - last) / 1e9:.3f} s after a write")
    successor = {one[0]["generation"]: min(w["return_ns"] for w in other)
                 for one, other in itertools.pairwise(lives)}
    for read in reads:
        _check_read(name, report, expires_ns, read, sent, done, successor)


def _check_read(name: str, report: Report, expires_ns: int, read: Record, sent: dict[str, float],
                done: dict[str, list[Record]], successor: dict[str, float]) -> None:
    where = f"{name}: {read['op']} at {read['invoke_ns']}"
    shown, positions = read["items"], read.get("positions")
    for text in read.get("foreign", ()):
        report.add("leaked", f"{where} showed {text[:200]!r}")
    for item in shown:
        if sent.get(item, _NEVER) > read["return_ns"]:
            report.add("invented", f"{where} showed {item}")
    if len(set(shown)) < len(shown):
        report.add("doubled", f"{where} showed an item twice")
    if positions is not None and any(b <= a for a, b in itertools.pairwise(positions)):
        report.add("reordered", f"{where} has positions {positions}")
    generations = read["generations"]
    if len(generations) > 1:
        report.add("mixed", f"{where} showed {len(generations)} lives")
    if generations and successor.get(generations[0], _NEVER) < read["invoke_ns"]:
        report.add("stale", f"{where} showed a life before the last")
    held = set(shown)
    for write in itertools.chain.from_iterable(done.values()):
        certain = (write["return_ns"] < read["invoke_ns"]
                   and write["invoke_ns"] + expires_ns > read["return_ns"])
        if certain and not held.issuperset(write["items"]):
            report.add("lost", f"{where} lacks what was put "
                               f"{(read['return_ns'] - write['invoke_ns']) / 1e9:.3f} s before")
