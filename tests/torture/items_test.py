"""The checker of items, against histories of a namespace that does as it must, and of one that does not."""

from __future__ import annotations

import copy
import random

import pytest

from torture import checker
from torture.registers import CLOCKS_NS

SPACE = {"tenant": "t0", "session": "space-hot", "space": True, "outcome": "ok"}
KEYS = ("a", "b", "c")
TTL = 10 * CLOCKS_NS


def counts(records) -> dict[str, int]:
    report = checker.check(copy.deepcopy(records))
    return {name: getattr(report, name) for name in checker.COUNTS if getattr(report, name)}


def write(begin, end, *writes, versions=(), existed=None, **fields):
    """A batch: (key, item or None for a delete, expected version, time to live)."""
    whole = [[*one, *(None, 0)[len(one) - 2:]] for one in writes]
    record = {**SPACE, "op": "item_write", "request": f"r{begin}", "writes": whole,
              "invoke_ns": begin, "return_ns": end, **fields}
    if record["outcome"] == "ok":
        record["versions"] = list(versions)
        record["existed"] = existed or [None] * len(whole)
    return record


def put(begin, end, version, item, key="a", expected=None, ttl=0, **fields):
    return write(begin, end, (key, item, expected, ttl), versions=[version], **fields)


def unknown_put(begin, end, item, key="a", expected=None):
    return write(begin, end, (key, item, expected, 0), outcome="unknown")


def delete(begin, end, existed=True, key="a", expected=None, **fields):
    return write(begin, end, (key, None, expected, 0), versions=[0], existed=[existed], **fields)


def refused(begin, end, expected, stored, key="a", item="9.9:0"):
    return write(begin, end, (key, item, expected, 0), outcome="fail", code="ABORTED",
                 reason="VERSION_MISMATCH", stored=stored, lost=0)


def drop(begin, end, outcome="ok"):
    return {**SPACE, "op": "space_delete", "request": f"r{begin}", "outcome": outcome,
            "invoke_ns": begin, "return_ns": end}


def read(begin, end, *shown, keys=("a",), **fields):
    """What a read showed: (key, item, version)."""
    return {**SPACE, "op": "item_read", "keys": list(keys), "shown": [list(one) for one in shown],
            "invoke_ns": begin, "return_ns": end, **fields}


def final(begin, *shown, keys=("a",), **fields):
    return read(begin, begin + 5, *shown, keys=keys, whole=True, final=True, **fields)


ONE, TWO, THREE = ("a", "1.1:0", 11), ("a", "1.2:0", 12), ("a", "1.3:0", 13)
PUT_ONE, PUT_TWO = put(10, 20, 11, "1.1:0"), put(30, 40, 12, "1.2:0")
BATCH = write(10, 30, ("a", "1.1:0"), ("b", "1.2:0"), versions=[11, 12])
IN_A, IN_B = ("a", "1.1:0", 11), ("b", "1.2:0", 12)
BEFORE = [put(1, 2, 8, "1.8:0"), put(3, 4, 9, "1.9:0", key="b")]
WAS_A, WAS_B = ("a", "1.8:0", 8), ("b", "1.9:0", 9)
AB = ("a", "b")

# A rule, a history that keeps it, one that breaks it, and what that is counted as.
RULES = {
    "a read sees the latest put": (
        [PUT_ONE, PUT_TWO, read(50, 55, TWO)], [PUT_ONE, PUT_TWO, read(50, 55, ONE)], "stale"),
    "a read beside a put sees it or what was before": (
        [PUT_ONE, PUT_TWO, read(25, 35, ONE), read(32, 50, TWO)],
        [PUT_ONE, PUT_TWO, read(25, 35, TWO), read(36, 39, ONE)], "stale"),
    "a read sees what was acknowledged": (
        [read(1, 15), PUT_ONE], [PUT_ONE, read(25, 30)], "stale"),
    "what was acknowledged is there at the end": (
        [PUT_ONE, PUT_TWO, final(90, TWO)], [PUT_ONE, PUT_TWO, final(90)], "lost"),
    "the end shows the latest": (
        [PUT_ONE, PUT_TWO, final(90, TWO)], [PUT_ONE, PUT_TWO, final(90, ONE)], "lost"),
    "what is deleted stays so": (
        [PUT_ONE, delete(30, 40), read(50, 55)], [PUT_ONE, delete(30, 40), read(50, 55, ONE)],
        "stale"),
    "what is deleted does not come back after a read without it": (
        [PUT_ONE, delete(30, 60), read(35, 40, ONE), read(45, 50)],
        [PUT_ONE, delete(30, 60), read(35, 40), read(45, 50, ONE)], "stale"),
    "a delete of unknown outcome is done once or never": (
        [PUT_ONE, {**delete(30, 40), "outcome": "unknown"}, read(45, 50, ONE), read(60, 65)],
        [PUT_ONE, {**delete(30, 40), "outcome": "unknown"}, read(45, 50),
         put(60, 70, 13, "1.3:0"), read(75, 80)], "stale"),
    "a delete says whether there was an item": (
        [PUT_ONE, delete(30, 40), delete(50, 60, existed=False)],
        [PUT_ONE, delete(30, 40), delete(50, 60)], "stale"),
    "a delete finds what is there": (
        [delete(1, 5, existed=False), PUT_ONE], [PUT_ONE, delete(30, 40, existed=False)], "stale"),
    "a conditional put finds its version": (
        [PUT_ONE, put(30, 40, 12, "1.2:0", expected=11)],
        [PUT_ONE, PUT_TWO, put(50, 60, 13, "1.3:0", expected=11)], "lost"),
    "of two conditional puts at one version one is done": (
        [PUT_ONE, put(30, 60, 12, "1.2:0", expected=11), refused(30, 60, 11, 12)],
        [PUT_ONE, put(30, 60, 12, "1.2:0", expected=11), put(31, 60, 13, "1.3:0", expected=11)],
        "lost"),
    "a put where nothing may be finds nothing": (
        [PUT_ONE, delete(25, 28), put(30, 40, 12, "1.2:0", expected=0)],
        [PUT_ONE, put(30, 40, 12, "1.2:0", expected=0)], "lost"),
    "a conditional delete finds its version": (
        [PUT_ONE, PUT_TWO, delete(50, 60, expected=12)],
        [PUT_ONE, PUT_TWO, delete(50, 60, expected=11)], "lost"),
    "a condition is refused for the version that is there": (
        [PUT_ONE, PUT_TWO, refused(50, 60, 11, 12)], [PUT_ONE, PUT_TWO, refused(50, 60, 12, 11)],
        "stale"),
    "a condition that holds is not refused": (
        [PUT_ONE, refused(30, 40, 0, 11)], [PUT_ONE, refused(30, 40, 11, 11)], "stale"),
    "a condition is refused for nothing where nothing is": (
        [PUT_ONE, delete(30, 40), refused(50, 60, 11, 0)], [PUT_ONE, refused(50, 60, 9, 0)],
        "stale"),
    "a condition is refused for a version that somebody wrote": (
        [unknown_put(10, 20, "1.1:0"), refused(30, 40, 0, 11)], [refused(30, 40, 0, 11)],
        "invented"),
    "a put of unknown outcome may come late": (
        [PUT_ONE, unknown_put(22, 25, "1.2:0"), read(30, 35, ONE), read(40, 45, TWO)],
        [PUT_ONE, unknown_put(22, 25, "1.2:0"), read(30, 35, TWO), read(40, 45, ONE)], "stale"),
    "a put of unknown outcome may be seen by its value alone": (
        [PUT_ONE, unknown_put(22, 25, "1.2:0"), read(30, 35, ("a", "1.2:0", None))],
        [PUT_ONE, read(30, 35, ("a", "1.2:0", None))], "invented"),
    "a put that nobody saw may be what a delete found": (
        [unknown_put(10, 20, "1.1:0"), delete(30, 40)],
        [unknown_put(10, 20, "1.1:0"), delete(30, 40), delete(50, 60)], "stale"),
    "a refused put is not seen": (
        [PUT_ONE, {**PUT_TWO, "outcome": "fail"}, read(50, 55, ONE)],
        [PUT_ONE, {**PUT_TWO, "outcome": "fail"}, read(50, 55, TWO)], "invented"),
    "nothing is seen before it is sent": (
        [PUT_ONE, PUT_TWO, read(22, 35, TWO)], [PUT_ONE, PUT_TWO, read(22, 25, TWO)], "invented"),
    "nothing is seen that nobody put": (
        [PUT_ONE, read(30, 35, ONE)], [PUT_ONE, read(30, 35, ("a", "1.7:0", 11))], "invented"),
    "an item is seen under its key": (
        [PUT_ONE, read(30, 35, ONE)],
        [PUT_ONE, read(30, 35, ("b", "1.1:0", 11), keys=("b",))], "invented"),
    "an item has one version": (
        [PUT_ONE, read(30, 35, ONE)], [PUT_ONE, read(30, 35, ("a", "1.1:0", 12))], "doubled"),
    "a version is one item's": (
        [BATCH, final(90, IN_A, IN_B, keys=AB)],
        [PUT_ONE, put(30, 40, 11, "1.2:0", key="b")], "doubled"),
    "a repeated request has one effect": (
        [PUT_ONE, {**PUT_ONE, "invoke_ns": 30, "return_ns": 40, "replayed": True}],
        [PUT_ONE, {**PUT_ONE, "invoke_ns": 30, "return_ns": 40, "versions": [12]}], "doubled"),
    "a key is shown once": (
        [PUT_ONE, read(30, 35, ONE)], [PUT_ONE, read(30, 35, ONE, ONE)], "doubled"),
    "a used request_id with another body is refused": (
        [PUT_ONE, {**put(30, 40, 12, "1.2:0"), "outcome": "fail", "must_fail": True}],
        [PUT_ONE, {**put(30, 40, 12, "1.2:0"), "must_fail": True}], "invented"),
    "versions are the order of the writes": (
        [PUT_ONE, put(15, 40, 10, "1.2:0", key="b")], [PUT_ONE, put(30, 40, 10, "1.2:0", key="b")],
        "reordered"),
    "a batch is seen whole": (
        [*BEFORE, BATCH, read(15, 25, IN_A, IN_B, keys=AB, whole=True),
         read(12, 20, WAS_A, WAS_B, keys=AB, whole=True)],
        [*BEFORE, BATCH, read(15, 25, IN_A, WAS_B, keys=AB, whole=True)], "mixed"),
    "a batch of new keys is seen whole": (
        [BATCH, read(15, 25, keys=AB, whole=True)], [BATCH, read(15, 25, IN_A, keys=AB, whole=True)],
        "mixed"),
    "a batch may be seen in part by a read of several moments": (
        [*BEFORE, BATCH, read(15, 25, IN_A, WAS_B, keys=AB)],
        [*BEFORE, BATCH, read(35, 40, IN_A, WAS_B, keys=AB)], "stale"),
    "a batch of unknown outcome is seen whole": (
        [*BEFORE, {**BATCH, "outcome": "unknown"}, read(15, 25, IN_A, IN_B, keys=AB, whole=True)],
        [*BEFORE, {**BATCH, "outcome": "unknown"}, read(15, 25, IN_A, WAS_B, keys=AB, whole=True)],
        "mixed"),
    "what follows a batch may be seen in part of it": (
        [BATCH, put(35, 40, 13, "1.3:0", key="b"),
         read(50, 55, IN_A, ("b", "1.3:0", 13), keys=AB, whole=True)],
        [BATCH, delete(35, 40, key="b"), read(50, 55, IN_B, keys=AB, whole=True)], "mixed"),
    "a batch deletes with the rest": (
        [*BEFORE, write(10, 30, ("a", "1.1:0"), ("b", None), versions=[11, 0], existed=[None, True]),
         read(15, 25, IN_A, keys=AB, whole=True)],
        [*BEFORE, write(10, 30, ("a", "1.1:0"), ("b", None), versions=[11, 0], existed=[None, True]),
         read(15, 25, IN_A, WAS_B, keys=AB, whole=True)], "mixed"),
    "a read of one moment has all up to its newest": (
        [PUT_ONE, put(30, 40, 12, "1.2:0", key="b"), read(25, 50, IN_A, IN_B, keys=AB, whole=True)],
        [put(10, 50, 11, "1.1:0"), put(11, 50, 12, "1.2:0", key="b"),
         read(25, 45, IN_B, keys=AB, whole=True)], "mixed"),
    "a deleted namespace is empty": (
        [PUT_ONE, drop(30, 40), read(50, 55)], [PUT_ONE, drop(30, 40), read(50, 55, ONE)], "stale"),
    "a namespace that nobody deleted is not empty": (
        [PUT_ONE, drop(30, 40, "unknown"), read(50, 55)], [PUT_ONE, read(50, 55)], "stale"),
    "a namespace that is made again has what was put since": (
        [PUT_ONE, drop(30, 40), put(50, 60, 13, "1.3:0"), final(90, THREE)],
        [PUT_ONE, drop(30, 40), put(50, 60, 13, "1.3:0"), final(90)], "lost"),
    "a filter leaves out the others": (
        [PUT_ONE, read(30, 35, ONE, of=1), read(30, 35, of=2)], [PUT_ONE, read(30, 35, ONE, of=2)],
        "invented"),
    "a filter lets all pass that it must": (
        [PUT_ONE, put(30, 40, 12, "2.2:0"), read(50, 55, of=1)], [PUT_ONE, read(30, 35, of=1)],
        "stale"),
    "a copy shows the values of one moment": (
        [*BEFORE, BATCH, read(40, 50, ("a", "1.1:0", None), ("b", "1.2:0", None), keys=AB,
                              whole=True)],
        [*BEFORE, BATCH, read(15, 25, ("a", "1.1:0", None), ("b", "1.9:0", None), keys=AB,
                              whole=True)], "mixed"),
    "an item is there for its time": (
        [put(10, 20, 11, "1.1:0", ttl=TTL), read(TTL // 2, TTL // 2 + 1, ONE), read(TTL, TTL + 50)],
        [put(10, 20, 11, "1.1:0", ttl=TTL), read(TTL // 2, TTL // 2 + 1)], "stale"),
    "an item that has expired is gone": (
        [put(10, 20, 11, "1.1:0", ttl=TTL), read(2 * TTL, 2 * TTL + 5)],
        [put(10, 20, 11, "1.1:0", ttl=TTL), read(2 * TTL, 2 * TTL + 5, ONE)], "stale"),
    "a read that begins in its time and ends after it may show an item": (
        [put(10, 20, 11, "1.1:0", ttl=TTL), read(TTL, 2 * TTL, ONE)],
        [put(10, 20, 11, "1.1:0", ttl=TTL), read(TTL, 2 * TTL, ONE), read(3 * TTL, 4 * TTL, ONE)],
        "stale"),
    "a put makes an item stay on": (
        [put(10, 20, 11, "1.1:0", ttl=TTL), put(TTL, TTL + 5, 12, "1.2:0", ttl=TTL),
         read(2 * TTL - CLOCKS_NS - 50, 2 * TTL - CLOCKS_NS - 40, TWO)],
        [put(10, 20, 11, "1.1:0", ttl=TTL), put(TTL, TTL + 5, 12, "1.2:0", ttl=TTL),
         read(2 * TTL - CLOCKS_NS - 50, 2 * TTL - CLOCKS_NS - 40)], "stale"),
    "no tenant sees another's": (
        [PUT_ONE, read(30, 35, ONE)], [PUT_ONE, read(30, 35, ONE, foreign=["another's"])], "leaked"),
    "as many are counted as are there": (
        [PUT_ONE, final(90, ONE, count=1)], [PUT_ONE, final(90, ONE, count=2)], "doubled"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_history_that_keeps_a_rule_is_clean(rule):
    assert counts(RULES[rule][0]) == {}


@pytest.mark.parametrize("rule", RULES)
def test_a_history_that_breaks_a_rule_is_counted(rule):
    _, broken, count = RULES[rule]
    assert count in counts(broken)


class Store:
    """A namespace that keeps every promise, and what clients saw of it. Each call is done at some time
    between its being sent and its end, and several are under way at a time."""

    def __init__(self, seed: int, unknown: float) -> None:
        self._chance = random.Random(seed)
        self._unknown = unknown
        self.items: dict[str, tuple[str, int]] = {}
        self.version, self.number, self.time = 100, 0, 0
        self.records: list[dict] = []

    def run(self, calls: int) -> list[dict]:
        for _ in range(calls):
            kind = self._chance.choices(("write", "read", "drop"), (60, 39, 1))[0]
            getattr(self, f"_{kind}")()
        self.records.append(final(self.time + 1000, *self._shown(KEYS), keys=KEYS,
                                  count=len(self.items)))
        return self.records

    def _times(self) -> dict[str, int]:
        self.time += 10
        return {"invoke_ns": self.time - self._chance.randrange(40),
                "return_ns": self.time + self._chance.randrange(40)}

    def _shown(self, keys) -> list[tuple]:
        return [(key, *self.items[key]) for key in keys if key in self.items]

    def _read(self) -> None:
        keys = self._chance.sample(KEYS, self._chance.randint(1, len(KEYS)))
        record = read(0, 0, *self._shown(keys), keys=keys, whole=True)
        if self._chance.random() < 0.2:
            record["of"] = self._chance.randint(1, 2)
            record["shown"] = [one for one in record["shown"]
                               if one[1].startswith(f"{record['of']}.")]
        self.records.append({**record, **self._times()})

    def _drop(self) -> None:
        times = self._times()
        record = {**drop(0, 0), "request": f"r{self.time}", **times}
        if self._chance.random() < self._unknown:
            record["outcome"] = "unknown"
            if self._chance.random() < 0.5:
                self.records.append(record)
                return
        self.items = {}
        self.records.append(record)

    def _write(self) -> None:
        writes = []
        for key in self._chance.sample(KEYS, self._chance.choice((1, 1, 2, 3))):
            self.number += 1
            expected = None
            if self._chance.random() < 0.4:
                at = self.items.get(key, ("", 0))[1]
                expected = at if self._chance.random() < 0.7 else self._chance.randint(1, at + 1)
            deletes = self._chance.random() < 0.3
            if deletes and expected == 0:
                expected = None
            item = f"{self._chance.randint(1, 2)}.{self.number}:0"
            writes.append([key, None if deletes else item, expected, 0])
        record = {**write(0, 0, *writes), **self._times()}
        record["request"] = f"r{self.time}"
        del record["versions"], record["existed"]
        self.records.append(record)
        for index, (key, _, expected, _) in enumerate(writes):
            stored = self.items.get(key, ("", 0))[1]
            if expected is not None and expected != stored:
                record.update(outcome="fail", stored=stored, lost=index)
                return
        if self._chance.random() < self._unknown:
            record["outcome"] = "unknown"
            if self._chance.random() < 0.5:
                return
        versions, existed = [], []
        for key, item, _, _ in writes:
            existed.append(None if item else key in self.items)
            self.items.pop(key, None)
            if item:
                self.version += 1
                self.items[key] = item, self.version
            versions.append(self.version if item else 0)
        if record["outcome"] == "ok":
            record.update(versions=versions, existed=existed)


@pytest.mark.parametrize("unknown", (0.0, 0.1, 0.4))
@pytest.mark.parametrize("seed", range(10))
def test_any_history_of_a_namespace_that_does_as_it_must_is_clean(seed, unknown):
    records = Store(seed, unknown).run(200)
    report = checker.check(copy.deepcopy(records))
    assert report.violations == 0, report.examples
    random.Random(seed).shuffle(records)
    assert checker.check(records).violations == 0


class KeepsWhatIsDeleted(Store):
    def _write(self):
        before = dict(self.items)
        super()._write()
        if self._chance.random() < 0.1:
            self.items = {**before, **self.items}


class ForgetsAnItem(Store):
    def _write(self):
        super()._write()
        if self.items and self._chance.random() < 0.05:
            del self.items[self._chance.choice(sorted(self.items))]


class ShowsAnOldItem(Store):
    def __init__(self, *settings):
        super().__init__(*settings)
        self.before: dict[str, tuple[str, int]] = {}

    def _read(self):
        now = self.items
        if self._chance.random() < 0.1:
            self.items = self.before
        super()._read()
        if self._chance.random() < 0.2:
            self.before = dict(now)
        self.items = now


class ComparesNoVersion(Store):
    def _write(self):
        before = len(self.records)
        known = self.items
        # What it compares with is whatever was expected.
        self.items = _AsExpected(known)
        super()._write()
        self.items = dict(self.items)
        assert len(self.records) == before + 1


class _AsExpected(dict):
    """Says now and then of an item that it is not there, when only its version is asked for."""

    def __init__(self, items):
        super().__init__(items)
        self._chance = random.Random(len(items))

    def get(self, key, default=None):
        return default if self._chance.random() < 0.1 else super().get(key, default)


class SplitsABatch(Store):
    def _write(self):
        before = dict(self.items)
        super()._write()
        changed = [key for key in KEYS if before.get(key) != self.items.get(key)]
        if len(changed) > 1 and self._chance.random() < 0.5:
            now, self.items = self.items, {**self.items}
            for key in changed[1:]:
                self.items.pop(key, None)
                if key in before:
                    self.items[key] = before[key]
            # One that is under way sees the first half.
            self.records.append({**read(0, 0, *self._shown(KEYS), keys=KEYS, whole=True),
                                 "invoke_ns": self.time - 5, "return_ns": self.time + 5})
            self.items = now


@pytest.mark.parametrize(("bug", "counted"), (
    (KeepsWhatIsDeleted, "stale"), (ForgetsAnItem, "stale"), (ShowsAnOldItem, "stale"),
    (ComparesNoVersion, "stale"), (SplitsABatch, "mixed")),
    ids=lambda value: value if isinstance(value, str) else value.__name__)
def test_a_bug_of_a_namespace_is_caught(bug, counted):
    caught = [counts(bug(seed, 0.02).run(200)).get(counted, 0) for seed in range(12)]
    assert sum(count > 0 for count in caught) >= len(caught) // 3, caught
