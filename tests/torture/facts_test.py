"""The checker of facts, against histories of a block that does as it must, and of one that does not."""

from __future__ import annotations

import copy
import random

import pytest

from torture import checker

NOTE = {"tenant": "t0", "session": "noted", "notes": True, "outcome": "ok"}


class Block:
    """A block that keeps every promise; `records` is what one client saw of it."""

    def __init__(self) -> None:
        self.facts: list[tuple[int, str, int]] = []
        self.past: list[tuple[int, int, str, int]] = []
        self.revision, self.change, self.ids, self.time = 1, 0, 0, 0
        self.records: list[dict] = []

    def add(self) -> None:
        self.ids += 1
        text = f"fact {self.ids}"
        self.facts.append((self.ids, text, self._next()))
        self._did("add_fact", text=text, fact_id=self.ids, change=self.change)

    def update(self, at: int) -> None:
        number, text, added_by = self.facts[at]
        self.past.append((self._next(), number, text, added_by))
        text = f"fact {number} by {self.change}"  # Nobody says the same twice.
        self.facts[at] = (number, text, added_by)
        self._did("update_fact", text=text, fact_id=number, change=self.change)

    def delete(self, at: int) -> None:
        number, text, added_by = self.facts.pop(at)
        self.past.append((self._next(), number, text, added_by))
        self._did("delete_fact", fact_id=number, change=self.change)

    def undo(self, undone: int) -> None:
        back = [left for left in self.past if left[0] == undone]
        self.past = [left for left in self.past if left[0] != undone]
        coming = {left[1] for left in back}
        gone = [fact for fact in self.facts if fact[2] == undone or fact[0] in coming]
        self._next()
        self.past += [(self.change, *fact) for fact in gone]
        self.facts = [fact for fact in self.facts if fact not in gone] + [left[1:] for left in back]
        self._did("undo", undone=undone, facts=list(self.facts))

    def read(self) -> None:
        self._record("facts", facts=list(self.facts), past=[(*left, []) for left in self.past])

    def changes(self) -> list[int]:
        return [fact[2] for fact in self.facts] + [left[0] for left in self.past]

    def _next(self) -> int:
        self.change += 1
        return self.change

    def _did(self, op: str, **fields) -> None:
        self.revision += 1
        self._record(op, request=f"r{self.revision}", **fields)

    def _record(self, op: str, **fields) -> None:
        self.time += 10
        self.records.append({"op": op, "revision": self.revision, "invoke_ns": self.time,
                             "return_ns": self.time + 5, **NOTE, **fields})


def counts(records) -> dict[str, int]:
    report = checker.check(records)
    return {name: getattr(report, name) for name in checker.COUNTS if getattr(report, name)}


def story(seed: int, length: int = 60) -> Block:
    """At random, with a read behind a third of the changes, and at the end."""
    chance, block = random.Random(seed), Block()
    while block.revision < length:
        kind = chance.choice(("add", "update", "delete", "undo", "undo"))
        if kind == "undo" and block.changes():
            block.undo(chance.choice(block.changes()))
        elif kind in ("update", "delete") and block.facts:
            getattr(block, kind)(chance.randrange(len(block.facts)))
        else:
            block.add()
        if chance.random() < 0.3:
            block.read()
    block.read()
    return block


def some() -> list[dict]:
    """Two facts, one corrected and taken out, both changes undone; with reads."""
    block = Block()
    block.add()
    block.add()
    block.read()
    block.update(0)
    block.delete(0)
    block.read()
    block.undo(4)
    block.undo(3)
    block.read()
    return block.records


@pytest.mark.parametrize("seed", range(20))
def test_a_block_that_does_as_it_must_is_clean(seed):
    assert counts(story(seed).records) == {}


@pytest.mark.parametrize("seed", range(20))
def test_any_one_change_may_be_of_unknown_outcome(seed):
    records = story(seed).records
    changes = [record for record in records if record["op"] != "facts"]
    lost = random.Random(seed).choice(changes)
    known = ("op", "request", "invoke_ns", "return_ns", "text", "undone", *NOTE)
    doubtful = {**{key: lost[key] for key in known if key in lost}, "outcome": "unknown"}
    if lost["op"] in ("update_fact", "delete_fact"):
        doubtful["fact_id"] = lost["fact_id"]
    assert counts([doubtful if record is lost else record for record in records]) == {}
    # One that was refused can't have been done.
    assert "invented" in counts([{**doubtful, "outcome": "fail"} if record is lost else record
                                 for record in records])


def changed(index: int, **fields) -> list[dict]:
    records = copy.deepcopy(some())
    records[index].update(fields)
    return records


# What `some` shows at its reads.
FIRST = [(1, "fact 1", 1), (2, "fact 2", 2)]
SECOND = [(2, "fact 2", 2)]
LAST = [(2, "fact 2", 2), (1, "fact 1", 1)]


def test_what_the_story_shows():
    assert [r["facts"] for r in some() if r["op"] == "facts"] == [FIRST, SECOND, LAST]
    assert counts(some()) == {}


@pytest.mark.parametrize(("records", "count"), (
    (changed(2, facts=FIRST[:1]), "lost"),
    (changed(2, facts=[FIRST[0], (2, "fact 1", 2)]), "lost"),
    (changed(5, facts=FIRST), "invented"),  # What was deleted.
    (changed(8, facts=SECOND), "lost"),  # What an undo brought back.
    (changed(8, facts=[(2, "fact 2", 2), (1, "fact 1 by 3", 1)]), "lost"),
    (changed(6, facts=SECOND), "lost"),  # By the reply of an undo.
    (changed(2, facts=[*FIRST, (1, "fact 1", 1)]), "doubled"),
    (changed(1, revision=2), "doubled"),
    (changed(1, change=1), "doubled"),
    (changed(8, revision=5), "stale"),
    ([*changed(0, revision=3, change=2)[:1], *changed(1, revision=2, change=1)[1:]], "reordered"),
    (changed(2, foreign=["somebody else's"]), "leaked"),
    (some()[:3] + some()[4:], "invented"),  # A revision that nobody made.
    ([*some(), {**some()[0], "change": 9}], "doubled"),
))
def test_what_is_wrong_is_counted(records, count):
    assert count in counts(records)
