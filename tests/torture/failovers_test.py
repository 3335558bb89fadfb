"""Times of failovers, from histories made by hand."""

from __future__ import annotations

from support.standby import Failover
from torture.failovers import seconds_to_first_ack, summary

SECOND = 10**9


def write(sent: float, answered: float, outcome: str = "ok", op: str = "put"):
    return {"op": op, "outcome": outcome, "invoke_ns": int(sent * SECOND),
            "return_ns": int(answered * SECOND)}


def failover(begin: float, kind: str = "kill"):
    return Failover(kind, int(begin * SECOND), int((begin + 0.25) * SECOND), 1.0, 2.0)


def test_what_was_sent_before_or_is_no_acknowledged_write_does_not_count():
    records = [write(0.9, 1.2), write(1.2, 1.3), write(1.3, 2, "unknown"), write(1.3, 1.5, "fail"),
               write(1.3, 1.4, op="get"), write(1.5, 4), write(2, 3.5), write(6, 6.5)]
    assert seconds_to_first_ack(records, [failover(1), failover(5)]) == [2.5, 1.5]


def test_a_failover_without_an_acknowledgement_says_so():
    assert seconds_to_first_ack([write(1, 2)], [failover(3)]) == [None]
    assert "never" in "".join(summary([write(1, 2)], [failover(3)]))


def test_kinds_have_lines_of_their_own():
    lines = list(summary([write(2, 3), write(9, 9.5)], [failover(1), failover(8, "cut")]))
    assert len(lines) == 2
    assert "cut: 1; first acknowledgement after p50 1.50 s, max 1.50 s" in lines[0]
