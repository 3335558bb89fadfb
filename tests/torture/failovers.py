"""How long nobody's writes were acknowledged after failovers."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence

from support.standby import Failover
from torture.history import Record


def seconds_to_first_ack(records: Iterable[Record],
                         failovers: Sequence[Failover]) -> list[float | None]:
    """For each failover the time from its begin to the first acknowledgement of a write that was
    sent when the old primary had nothing more to acknowledge; None where none was."""
    acknowledged = sorted((r["invoke_ns"], r["return_ns"]) for r in records
                          if r["op"] in ("put", "set", "reset") and r["outcome"] == "ok")
    begins = [begin for begin, _ in acknowledged]
    # The earliest acknowledgement of this write and of all that were sent later.
    answered = [answer for _, answer in acknowledged]
    earliest = list(itertools.accumulate(reversed(answered), min))[::-1]
    seconds: list[float | None] = []
    for failover in failovers:
        index = bisect.bisect_left(begins, failover.gone_ns)
        seconds.append((earliest[index] - failover.begin_ns) / 1e9
                       if index < len(acknowledged) else None)
    return seconds


def summary(records: Iterable[Record], failovers: Sequence[Failover]) -> Iterable[str]:
    """A line for each kind of failover."""
    seconds = seconds_to_first_ack(records, failovers)
    for kind in sorted({failover.kind for failover in failovers}):
        mine = [number for number, failover in enumerate(failovers) if failover.kind == kind]
        yield (f"failovers by {kind}: {len(mine)}; first acknowledgement after "
               f"{_spread([seconds[n] for n in mine])}, promotion after "
               f"{_spread([failovers[n].promoted_seconds for n in mine])}, redundant again after "
               f"{_spread([failovers[n].whole_seconds for n in mine])}")


def _spread(values: Sequence[float | None]) -> str:
    known = sorted(value for value in values if value is not None)
    if not known:
        return "never"
    never = len(values) - len(known)
    return (f"p50 {known[len(known) // 2]:.2f} s, max {known[-1]:.2f} s"
            + (f", {never} never" if never else ""))
