"""The checker finds nothing in correct histories, and what is wrong with others."""

from __future__ import annotations

import copy
import random

import pytest

from torture import bodies, checker, history
from torture.bodies import original
from torture.simulated_server import SimulatedServer, State

SEEDS = range(30)
CALLS = 300
# Enough for a bug that shows in one write of twenty, and that not every history can show.
SEEDS_OF_BUGS = range(12)


def counts(report):
    return {name: getattr(report, name) for name in checker.COUNTS if getattr(report, name)}


def run(seed, unknown=0.1, state=State, calls=CALLS, deletes=4, updates=4, **options):
    return SimulatedServer(seed, unknown, state, deletes, updates, **options).run(calls)


@pytest.mark.parametrize("unknown", (0.0, 0.1, 0.4))
def test_a_correct_history_is_clean(unknown):
    for seed in SEEDS:
        report = checker.check(run(seed, unknown))
        assert counts(report) == {}, (seed, report.examples)
        assert report.acked > 50 and report.enough_known


@pytest.mark.parametrize("options", ({"others": 30}, {"keeps": 5}, {"keeps": 40}))
def test_a_correct_history_of_all_that_sessions_can_do_is_clean(options):
    for seed in SEEDS:
        report = checker.check(run(seed, **options))
        assert counts(report) == {}, (seed, report.examples)
        assert report.acked > 50 and report.enough_known


def test_the_order_of_records_does_not_matter():
    records = run(1)
    random.Random(1).shuffle(records)
    assert counts(checker.check(records)) == {}


def test_without_acknowledged_writes_or_with_too_many_unknown_nothing_is_known():
    assert not checker.check([]).enough_known
    assert not checker.check(run(1, unknown=0.9)).enough_known


# Servers with a bug.


@pytest.mark.parametrize(("bug", "options", "count"), [
    ("LosesContents", {"others": 30}, "stale"),
    ("KeepsContentsWhenItSets", {"others": 30}, "stale"),
    ("StoresContentsTwice", {"others": 30}, "doubled"),
    ("FiltersByTheWrongRole", {"others": 30}, "invented"),
    ("FiltersTooMuch", {"others": 30}, "stale"),
    ("ForgetsItsConfiguration", {"others": 30}, "stale"),
    ("KeepsOneMessageTooFew", {"keeps": 5}, "stale"),
    ("KeepsOneMessageTooMany", {"keeps": 5}, "stale"),
    ("KeepsAll", {"keeps": 5}, "stale"),
    ("KeepsTheOldest", {"keeps": 5}, "stale"),
])
def test_a_bug_in_what_sessions_can_do_is_caught(bug, options, count):
    caught = 0
    for seed in SEEDS_OF_BUGS:
        report = checker.check(run(seed, state=globals()[bug], **options))
        caught += getattr(report, count) > 0
    assert caught >= len(SEEDS_OF_BUGS) // 2



class _Sometimes(State):
    """Does something wrong with one call of twenty, of those that it can do wrong."""

    def __init__(self):
        super().__init__()
        self.chance = random.Random(5)

    def now(self):
        return self.chance.random() < 0.05


class _Often(_Sometimes):
    def now(self):
        return self.chance.random() < 0.75


class LosesContents(_Often):
    def put_contents(self, contents):
        super().put_contents(contents[1:] if self.now() else contents)


class KeepsContentsWhenItSets(State):
    def write(self, record):
        return super().write({**record, "wipes_contents": False})


class StoresContentsTwice(_Often):
    def put_contents(self, contents):
        super().put_contents(contents * 2 if self.now() else contents)


class FiltersByTheWrongRole(_Often):
    def of_role(self, role):
        return self.items if self.now() else super().of_role(role)


class FiltersTooMuch(_Often):
    def of_role(self, role):
        return super().of_role(role)[:-1] if self.now() else super().of_role(role)


class ForgetsItsConfiguration(_Often):
    def configure(self, value):
        if not self.now():
            super().configure(value)


class KeepsOneMessageTooFew(_Sometimes):
    def retire(self):
        super().retire()
        if self.now():
            del self.items[:1]


class KeepsOneMessageTooMany(State):
    def retire(self):
        self.items = self.items[-self.keeps - 1:]


class KeepsAll(State):
    def retire(self):
        pass


class KeepsTheOldest(State):
    def retire(self):
        self.items = self.items[:self.keeps]


class AcknowledgesBeforeItStores(_Sometimes):
    def append(self, items):
        positions = super().append(items)
        if self.now():
            self.items = self.items[:len(self.items) - len(items)]
            # The positions go to the next write, as those of a transaction that was not committed.
            self.next_position -= len(items)
        return positions


class LosesRowsAfterAll(_Sometimes):
    def append(self, items):
        positions = super().append(items)
        if self.now():
            del self.items[-1:]
        return positions


class ReadsAnOldCache(_Sometimes):
    cached = None

    def read(self, record, chance):
        if self.cached is not None and record["op"] == "get" and self.now():
            return copy.deepcopy(self.cached)
        reply = super().read(record, chance)
        if record["op"] == "get":
            self.cached = copy.deepcopy(reply)
        return reply


class SaysTheRevisionOfAnOldCacheBesideNewItems(_Sometimes):
    def read(self, record, chance):
        reply = super().read(record, chance)
        if "revision" in reply and self.now():
            reply["revision"] = max(1, reply["revision"] - 5)
        return reply


class OrdersByAClock(_Sometimes):
    def append(self, items):
        positions = super().append(items)
        if len(self.items) > len(items) and self.now():
            shown = [item for _, item in self.items]
            shown.insert(-3, shown.pop())
            self.items = [(p, i) for (p, _), i in zip(self.items, shown, strict=True)]
        return positions


class GivesTheSameRevisionTwice(_Sometimes):
    def write(self, record):
        if self.now() and record["request"] not in self.replies:
            self.revision -= 1
        return super().write(record)


class RepliesOtherPositions(_Sometimes):
    def append(self, items):
        positions = super().append(items)
        return [p + 1 for p in positions] if self.now() else positions


class StoresRetriesAgain(State):
    def write(self, record):
        self.replies.clear()
        return super().write(record)


class StoresRetriesAgainAndRepliesTheFirst(State):
    def write(self, record):
        if record["request"] in self.replies:
            self.append(record["items"])
        return super().write(record)


class SetsInTwoTransactions(State):
    rest = None

    def write(self, record):
        if self.rest is not None:
            self.items, self.rest = self.rest, None
        before = self.items
        reply = super().write(record)
        if record["op"] == "set" and not reply["replayed"]:
            self.items, self.rest = before + self.items, self.items
        return reply


class DeletesFirstWhenItSets(State):
    rest = None

    def write(self, record):
        self.read_again()
        reply = super().write(record)
        if record["op"] == "set" and not reply["replayed"]:
            self.items, self.rest = [], self.items
        return reply

    def read_again(self):
        if self.rest is not None:
            self.items, self.rest = self.rest, None

    def read(self, record, chance):
        reply = super().read(record, chance)
        self.read_again()
        return reply


class StoresHalfABatch(_Sometimes):
    def append(self, items):
        positions = super().append(items)
        if len(items) > 1 and self.now():
            self.items = self.items[:len(self.items) - len(items) // 2]
        return positions


class ScattersABatch(_Sometimes):
    def append(self, items):
        if len(items) > 1 and self.now():
            return [*super().append(items[:1]), self.gap(), *super().append(items[1:])][::2]
        return super().append(items)

    def gap(self):
        self.next_position += 1


class CutsBodies(_Sometimes):
    def append(self, items):
        return super().append([i.split(":")[0] + ":cut" if self.now() else i for i in items])


class ResetsWithoutEffect(State):
    def wipe(self):
        pass


class ResetsTheRowsAlone(State):
    """Old items stay and come back in every read."""

    def wipe(self):
        self.generation += 1


class ResetsWithoutANewGeneration(State):
    def wipe(self):
        self.items = []


class ResetsHalf(_Sometimes):
    def wipe(self):
        kept = self.items[-1:] if self.now() else []
        super().wipe()
        self.items = kept


class RemovesFewerThanWereThere(_Sometimes):
    def write(self, record):
        reply = super().write(record)
        if reply.get("removed") and self.now():
            return {**reply, "removed": reply["removed"] - 1}
        return reply


class QueryMissesWhatIsNew(State):
    def read(self, record, chance):
        reply = super().read(record, chance)
        items = [original(item) for item in reply["items"]]
        if record["op"] == "query" and record["wanted"] in items:
            at = items.index(record["wanted"])
            del reply["items"][at], reply["positions"][at]
        return reply


class DeletesNothing(State):
    def delete(self, target):
        return any(original(item) == target for _, item in self.items)


class DeletesTheNextOneToo(State):
    def delete(self, target):
        items = [original(item) for _, item in self.items]
        at = items.index(target) if target in items else len(items)
        return super().delete(target) and (super().delete((*items, "", "")[at + 1]) or True)


class DeletesWhatComesBack(State):
    gone = None

    def delete(self, target):
        kept = self.gone
        self.gone = next((pair for pair in self.items if original(pair[1]) == target), None)
        done = super().delete(target)
        if kept is not None and self.items:
            self.items = sorted({*self.items, kept})
        return done


class UsesPositionsOfTheDeletedAgain(State):
    def delete(self, target):
        if self.items and original(self.items[-1][1]) == target:
            self.next_position -= 1
        return super().delete(target)


class FindsNotWhatItShallDelete(State):
    def delete(self, target):
        return False


class UpdatesNothing(State):
    def update(self, target, edition):
        return next((p for p, item in self.items if original(item) == target), 0)


class ShowsTextsFromBeforeAnUpdate(_Sometimes):
    before = ()

    def update(self, target, edition):
        self.before = list(self.items)
        return super().update(target, edition)

    def read(self, record, chance):
        now = self.items
        if record["op"] != "final" and self.now():
            self.items = [(p, dict(self.before).get(p, item)) for p, item in now]
        reply = super().read(record, chance)
        self.items = now
        return reply


class UpdatesTheNextOne(State):
    def update(self, target, edition):
        items = [original(item) for _, item in self.items]
        at = items.index(target) if target in items else len(items)
        return super().update((*items, target, target)[at + 1], edition)


class UpdatesAtTheEnd(State):
    def update(self, target, edition):
        return super().delete(target) and self.append([edition])[0]


class FindsNotWhatItShallUpdate(State):
    def update(self, target, edition):
        return 0


@pytest.mark.parametrize(("bug", "count"), [
    (AcknowledgesBeforeItStores, "reordered"),
    (LosesRowsAfterAll, "lost"),
    (ReadsAnOldCache, "stale"),
    (SaysTheRevisionOfAnOldCacheBesideNewItems, "stale"),
    (OrdersByAClock, "reordered"),
    (GivesTheSameRevisionTwice, "reordered"),
    (RepliesOtherPositions, "reordered"),
    (StoresRetriesAgain, "doubled"),
    (StoresRetriesAgainAndRepliesTheFirst, "doubled"),
    (SetsInTwoTransactions, "mixed"),
    (DeletesFirstWhenItSets, "stale"),
    (StoresHalfABatch, "mixed"),
    (StoresHalfABatch, "lost"),
    (ScattersABatch, "mixed"),
    (CutsBodies, "invented"),
    (CutsBodies, "lost"),
    (ResetsWithoutEffect, "stale"),
    (ResetsTheRowsAlone, "stale"),
    (ResetsWithoutANewGeneration, "stale"),
    (ResetsHalf, "stale"),
    (RemovesFewerThanWereThere, "lost"),
    (QueryMissesWhatIsNew, "stale"),
    (DeletesNothing, "stale"),
    (DeletesTheNextOneToo, "lost"),
    (DeletesWhatComesBack, "stale"),
    (UsesPositionsOfTheDeletedAgain, "reordered"),
    (FindsNotWhatItShallDelete, "lost"),
    (UpdatesNothing, "lost"),
    (UpdatesNothing, "stale"),
    (ShowsTextsFromBeforeAnUpdate, "stale"),
    (UpdatesTheNextOne, "doubled"),
    (UpdatesAtTheEnd, "doubled"),
    (FindsNotWhatItShallUpdate, "lost"),
], ids=lambda value: value if isinstance(value, str) else value.__name__)
def test_a_bug_of_a_server_is_caught(bug, count):
    caught = [counts(checker.check(run(seed, unknown=0.02, state=bug, deletes=8,
                                         updates=5))).get(count, 0)
              for seed in SEEDS_OF_BUGS]
    # Some bugs need a write that few short histories have, and a Get may have a gap behind the
    # message that opens a turn.
    assert sum(n > 0 for n in caught) >= len(caught) // 3, caught


# Histories with one thing wrong.


def report_after(change, seed=3):
    """The report of a clean history in which `change` changed something."""
    records = run(seed, unknown=0.05, deletes=0, updates=0)
    change(records)
    return checker.check(records)


def acknowledged(records, session="s1", op="put"):
    return [r for r in records if r["op"] == op and r["session"] == session
            and r["tenant"] == "t0" and r["outcome"] == "ok"]


def final(records, session="s1"):
    return next(r for r in records if r["op"] == "final" and r["session"] == session
                and r["tenant"] == "t0")


def drop(read, item):
    at = read["items"].index(item)
    del read["items"][at], read["positions"][at]


def test_a_history_with_deletes_has_holes_that_are_none():
    records = run(3, unknown=0.05, deletes=20)
    gone = {r["target"] for r in acknowledged(records, op="delete")}
    assert len(gone) > 5 and not gone & set(final(records)["items"])
    assert counts(checker.check(records)) == {}


def test_the_last_acknowledged_edition_is_what_reads_show():
    records = run(3, unknown=0, updates=20, deletes=0)
    updates = acknowledged(records, op="update")
    last = {r["target"]: r["edition"] for r in sorted(updates, key=lambda r: r["revision"])}
    shown = {original(item): item for item in final(records)["items"]}
    assert len(updates) > len(last) > 5 and last == {item: shown[item] for item in last}
    assert counts(checker.check(records)) == {}


def test_an_edition_that_was_refused_is_invented():
    records = run(3, unknown=0.05, updates=20, deletes=0)
    shown = set(final(records)["items"])
    update = next(r for r in acknowledged(records, op="update") if r["edition"] in shown)
    for record in records:
        if record.get("request") == update["request"]:
            record["outcome"] = "fail"
    assert checker.check(records).invented >= 1


@pytest.mark.parametrize("updates", (0, 20))
def test_an_edition_that_nobody_sent_is_invented(updates):
    records = run(3, unknown=0.05, updates=updates, deletes=0)
    updated = {r["target"] for r in acknowledged(records, op="update")}
    items = final(records)["items"]
    at = next(i for i, item in enumerate(items) if item not in updated and item == original(item))
    items[at] += "+9.9:00000000"
    assert counts(checker.check(records)) == {"invented": 1}


def test_an_edition_behind_the_revision_that_a_read_names_is_mixed():
    records = run(3, unknown=0.05, updates=20, deletes=0)
    update = next(r for r in acknowledged(records, op="update")
                  if r["edition"] in final(records)["items"])
    read = final(records)
    at = read["items"].index(update["edition"])
    records.append({**read, "op": "get", "client": 1, "revision": update["revision"] - 1,
                    "items": read["items"][at:at + 1], "positions": read["positions"][at:at + 1],
                    "invoke_ns": update["invoke_ns"], "return_ns": update["return_ns"]})
    assert checker.check(records).mixed == 1


def cut_turn(shown, deleted):
    """A turn of a put, whose last message is deleted or not, and a Get that shows one message."""
    items = [f"1.{n}:0000000{n}" for n in range(4)]
    call = {"tenant": "t", "session": "s", "client": 1, "replica": 0, "outcome": "ok"}
    put = {**call, "op": "put", "request": "p", "keyed": True, "items": items, "roles": "uaaa",
           "revision": 1, "positions": [1, 2, 3, 4], "replayed": False,
           "invoke_ns": 1, "return_ns": 2}
    delete = {**call, "op": "delete", "request": "d", "keyed": True, "items": [],
              "target": items[3], "revision": 2, "replayed": False, "invoke_ns": 3, "return_ns": 4}
    get = {**call, "op": "get", "revision": 2 if deleted else 1, "first": shown + 1,
           "items": [items[shown]], "invoke_ns": 5, "return_ns": 6}
    there = [1, 2, 3] if deleted else [1, 2, 3, 4]
    final = {**call, "op": "final", "complete": True, "positions": there,
             "items": items[:len(there)], "invoke_ns": 7, "return_ns": 8}
    return counts(checker.check([put, *([delete] if deleted else []), get, final]))


def test_an_opening_message_may_be_all_that_a_get_shows():
    """Of a turn that short-term memory has cut, when the newest message is deleted."""
    assert cut_turn(0, deleted=True) == {}
    assert "stale" in cut_turn(0, deleted=False)
    assert "mixed" in cut_turn(1, deleted=True)


def test_one_acknowledged_item_missing_at_the_end_is_lost():
    def change(records):
        drop(final(records), acknowledged(records)[10]["items"][0])
    assert counts(report_after(change))["lost"] == 1


def test_all_items_missing_at_the_end_are_lost():
    def change(records):
        final(records).update(items=[], positions=[])
    records = run(3, unknown=0.05, deletes=0, updates=0)
    expected = {item for record in acknowledged(records) for item in record["items"]}
    assert counts(report_after(change)) == {"lost": len(expected)}


def test_the_oldest_items_missing_at_the_end_are_lost_where_nothing_was_wiped():
    def change(records):
        for name in ("items", "positions"):
            del final(records)[name][:3]
    assert report_after(change).lost >= 1


def test_an_item_at_two_positions_is_doubled():
    def change(records):
        read = final(records)
        read["items"].append(read["items"][0])
        read["positions"].append(read["positions"][-1] + 1)
    assert counts(report_after(change)) == {"doubled": 1}


def test_a_request_with_two_replies_is_doubled():
    def change(records):
        once = acknowledged(records)[5]
        records.append({**once, "revision": once["revision"] + 1000})
    assert report_after(change).doubled == 1


def test_two_items_swapped_at_the_end_are_reordered():
    def change(records):
        items = final(records)["items"]
        items[4], items[5] = items[5], items[4]
    assert report_after(change).reordered >= 2


def test_a_write_behind_one_that_was_sent_after_its_acknowledgement_is_reordered():
    def change(records):
        early, late = acknowledged(records)[2], acknowledged(records)[20]
        for name in ("revision", "positions", "items"):
            early[name], late[name] = late[name], early[name]
    assert report_after(change).reordered >= 1


def test_a_read_without_the_newest_acknowledged_item_is_stale():
    def change(records):
        last = max(acknowledged(records), key=lambda r: r["revision"])
        when = last["return_ns"] + 1
        records.append({**final(records), "op": "getall", "complete": True, "client": 1,
                        "items": final(records)["items"][:5],
                        "positions": final(records)["positions"][:5],
                        "invoke_ns": when, "return_ns": when + 1})
    assert counts(report_after(change)) == {"stale": 1}


def test_a_read_that_shows_less_than_an_earlier_one_is_stale():
    def change(records):
        # Nobody knows of these writes but by the reads.
        for record in acknowledged(records):
            record["outcome"] = "unknown"
        read = {**final(records), "op": "getall", "complete": True}
        when = read["return_ns"]
        records.append({**read, "invoke_ns": when + 1, "return_ns": when + 2})
        records.append({**read, "items": read["items"][:-1], "positions": read["positions"][:-1],
                        "invoke_ns": when + 3, "return_ns": when + 4})
    assert report_after(change).stale == 1


def test_a_foreign_body_is_leaked():
    def change(records):
        final(records)["foreign"] = ["somebody else's"]
    assert counts(report_after(change)) == {"leaked": 1}


def test_a_body_in_an_error_is_leaked():
    def change(records):
        failed = next(r for r in records if r["outcome"] == "unknown")
        failed["leaks"] = [f"can't store {bodies.MARKER}"]
    assert counts(report_after(change)) == {"leaked": 1}


def test_an_unknown_outcome_reported_as_a_failure_is_invented():
    def change(records):
        stored = set(final(records)["items"])
        put = next(r for r in acknowledged(records) if stored & set(r["items"]))
        for record in records:
            if record.get("request") == put["request"]:
                record["outcome"] = "fail"
    assert set(counts(report_after(change))) == {"invented"}


def test_an_item_seen_before_it_was_sent_is_invented():
    def change(records):
        read = final(records)
        for record in records:
            if read["items"][-1] in record.get("items", ()) and record is not read:
                record["invoke_ns"], record["return_ns"] = 10**12, 10**12 + 1
        read["return_ns"] = 10**11
    assert report_after(change).invented >= 1


def test_a_used_key_with_another_body_must_be_refused():
    def change(records):
        refused = next(r for r in records if r.get("must_fail"))
        refused.update(outcome="ok", revision=10**6, generation="x", positions=[10**6])
    assert report_after(change).invented >= 1


def test_changed_bytes_are_invented_and_lost():
    def change(records):
        read = final(records)
        mine = set(acknowledged(records)[7]["items"])
        at = next(i for i, item in enumerate(read["items"]) if item in mine)
        read["items"][at] = read["items"][at].split(":")[0] + ":00000000"
    found = counts(report_after(change))
    assert found["invented"] == 1 and found["lost"] == 1


def test_a_hole_among_what_nobody_acknowledged_is_lost():
    def change(records):
        for record in acknowledged(records):
            record["outcome"] = "unknown"
        del final(records)["items"][3], final(records)["positions"][3]
    assert report_after(change).lost == 1


# Sessions that expire.

TTL = 1000


def life(generation, *times):
    """Acknowledged puts at these times, each of an item."""
    return [{"op": "put", "tenant": "t0", "session": "brief", "expires_ns": TTL, "outcome": "ok",
             "request": f"{generation}-{time}", "items": [f"1.{time}:0"], "generation": generation,
             "positions": [number], "revision": number, "invoke_ns": time, "return_ns": time + 10}
            for number, time in enumerate(times, 1)]


def shown(time, generations, *items, **fields):
    return {"op": "getall", "tenant": "t0", "session": "brief", "expires_ns": TTL, "outcome": "ok",
            "items": [f"1.{item}:0" for item in items], "generations": list(generations),
            "invoke_ns": time, "return_ns": time + 10, **fields}


LIVES = [*life("a", 100, 500), *life("b", 1600, 1700)]


def test_a_session_that_expires_in_its_time_is_clean():
    reads = [shown(600, "a", 100, 500), shown(1500, "a", 100, 500), shown(1510, ""),
             shown(1750, "b", 1600, 1700), shown(5000, "", op="final")]
    assert counts(checker.check([*LIVES, *reads])) == {}


@pytest.mark.parametrize(("records", "count"), (
    ([*life("a", 100, 900), *life("b", 1200)], "lost"),  # Written to since.
    ([*LIVES, shown(700, "")], "lost"),
    ([*LIVES, shown(700, "a", 100)], "lost"),
    ([*LIVES, shown(1750, "a", 100, 500)], "stale"),
    ([*LIVES, shown(1605, ["a", "b"], 100, 500, 1600)], "mixed"),
    ([*LIVES, shown(700, "a", 100, 500, 900)], "invented"),
    ([*LIVES, shown(700, "a", 100, 500, 500)], "doubled"),
    ([*LIVES, shown(700, "a", 100, 500, positions=[2, 1])], "reordered"),
    ([*LIVES, shown(700, "a", 100, 500, foreign=["somebody else's"])], "leaked"),
    ([*LIVES, {**LIVES[0], "generation": "c", "positions": [7]}], "doubled"),
))
def test_what_is_wrong_with_a_session_that_expires_is_counted(records, count):
    assert count in counts(checker.check(records))


# What a clean report must not depend on.


@pytest.mark.parametrize(("code", "reason", "outcome"), [
    ("OK", "", "ok"),
    ("UNAVAILABLE", "", "unknown"),
    ("UNAVAILABLE", "OUTCOME_UNKNOWN", "unknown"),
    ("UNAVAILABLE", "STORE_UNAVAILABLE", "fail"),
    ("DEADLINE_EXCEEDED", "", "unknown"),
    ("CANCELLED", "", "unknown"),
    ("INTERNAL", "INTERNAL", "unknown"),
    ("RESOURCE_EXHAUSTED", "", "unknown"),
    ("RESOURCE_EXHAUSTED", "QUEUE_FULL", "fail"),
    ("ABORTED", "REVISION_MISMATCH", "fail"),
    ("ALREADY_EXISTS", "REQUEST_ID_REUSED", "fail"),
])
def test_what_a_caller_knows_after_an_error(code, reason, outcome):
    assert history.outcome_of(code, reason) == outcome


@pytest.mark.parametrize("size", (0, 100, 1000, 100_000))
def test_a_body_tells_whose_it_is_and_every_change_of_it(size):
    sender = bodies.Sender("t0", "s1", 3, 7)
    text = bodies.Bodies(7).text(sender, 12, size)
    assert abs(len(text.encode()) - size) <= max(120, size // 10)
    item = bodies.item_of(text)
    assert item.startswith("3.12:")
    assert bodies.is_of(text, sender)
    for other in (bodies.Sender("t1", "s1", 3, 7), bodies.Sender("t0", "s2", 3, 7),
                  bodies.Sender("t0", "s1", 3, 8)):
        assert not bodies.is_of(text, other)
    edition = bodies.Bodies(7).edition(bodies.Sender("t0", "s1", 4, 7), item, 99, size)
    assert bodies.item_of(edition).startswith(f"{item}+4.99:") and bodies.is_of(edition, sender)
    assert original(bodies.item_of(edition)) == original(item) == item
    for changed in (text[:-1], text[:40], text[:30] + "!" + text[31:], text + "\0", ""):
        assert bodies.item_of(changed) != item


def test_a_history_survives_its_writer(tmp_path):
    with history.Writer(tmp_path / "a.jsonl") as writer:
        writer.add({"op": "put", "items": ["1.2:3"]})
        writer.flush()
        with (tmp_path / "b.jsonl").open("w") as cut:
            cut.write('{"op":"get","items":[]}\n{"op":"se')
        assert list(history.read(tmp_path)) == [{"op": "put", "items": ["1.2:3"]},
                                                {"op": "get", "items": []}]
