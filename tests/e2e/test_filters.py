"""GetAll and Query with filters, against a model in Python over random messages."""

from __future__ import annotations

import datetime
import json
import random
import threading

import grpc
import pytest

from support.calls import Calls, memory, note, reason, refusal, user
from support.waiting import wait_for

from memoryd.v1 import filter_pb2 as wire
from memoryd.v1.memory_service_pb2 import (
    MESSAGE_ORDER_NEWEST_FIRST as NEWEST_FIRST,
)
from memoryd.v1.memory_service_pb2 import (
    MESSAGE_ORDER_OLDEST_FIRST as OLDEST_FIRST,
)
from memoryd.v1.memory_service_pb2 import (
    MESSAGE_ORDER_UNSPECIFIED as NO_ORDER,
)

ACTIVE, ARCHIVED = memory.MESSAGE_STATUS_ACTIVE, memory.MESSAGE_STATUS_ARCHIVED
ROLES = ("user", "assistant", "system", "tool", "narrator")
NAMES = ("", "Ann", "Bob", "ann")
THREADS = ("", "t1", "t2")
WRITERS = ("", "token:a", "token:b", "jwt:a")
SOURCES = ("", "s1", "s2")
KEYS = ("a", "b", "Ä", "a.b", "")
VALUES = (0, 1, 1.0, 1.5, -2, 10**30, "", "1", "x", "y", True, False, None, {"a": 1}, ["x"])
DAY = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
# Keeps little active, so that both statuses are there.
CONFIG = memory.SessionConfig(profile="llama-index", token_limit=60, token_flush_size=5,
                              tokenizer="whitespace", chat_history_token_ratio=0.5)
ORDERS = (NO_ORDER, OLDEST_FIRST, NEWEST_FIRST)
LIBRARY_ROLES = ("user", "assistant", "system", "tool")


def time_of(hours: float) -> datetime.datetime:
    return DAY + datetime.timedelta(hours=hours)


def random_message(rng: random.Random, number: int, roles=LIBRARY_ROLES) -> memory.Message:
    made = user(f"message {number}", name=rng.choice(NAMES), thread_id=rng.choice(THREADS))
    made.role = rng.choice(roles)
    if rng.random() < 0.3:
        made.message_id = f"id-{number}"
    if rng.random() < 0.7:
        made.create_time.FromDatetime(time_of(rng.randrange(48)))
    if rng.random() < 0.8:
        made.metadata_json = random_metadata(rng)
    made.untrusted = rng.random() < 0.3
    return made


def random_metadata(rng: random.Random) -> str:
    chosen = rng.sample([key for key in KEYS if key], rng.randrange(4))
    return json.dumps({key: rng.choice(VALUES) for key in chosen})


def random_range(rng: random.Random, low, high) -> dict:
    bounds = sorted((low, high))
    made = {"min": bounds[0], "below": bounds[1]}
    if low == high or rng.random() < 0.5:
        del made[rng.choice(sorted(made))]
    return made


def random_test(rng: random.Random) -> wire.MetadataTest:
    test = wire.MetadataTest(key=rng.choice([key for key in KEYS if key]))
    kind = rng.randrange(6)
    if kind == 0:
        test.string_value = rng.choice(("", "1", "x", "z"))
    elif kind == 1:
        test.number_value = rng.choice((0, 1, 1.5, -2, 1e30, 7))
    elif kind == 2:
        test.bool_value = rng.random() < 0.5
    elif kind == 3:
        numbers = random_range(rng, rng.choice((-5.0, 0.0, 1.0)), rng.choice((1.0, 1.5, 1e31)))
        test.number_range.CopyFrom(wire.NumberRange(**numbers))
    elif kind == 4:
        texts = random_range(rng, rng.choice(("", "1")), rng.choice(("x", "y", "z")))
        test.string_range.CopyFrom(wire.StringRange(**texts))
    else:
        test.exists = rng.random() < 0.5
    return test


def random_filter(rng: random.Random, stored: list[memory.Message], depth: int = 0) -> wire.Filter:
    made = wire.Filter()
    if rng.random() < 0.3:
        made.roles.extend(rng.sample(ROLES, rng.randrange(1, 4)))
    if rng.random() < 0.2:
        made.names.extend(rng.sample(NAMES, rng.randrange(1, 3)))
    if rng.random() < 0.2:
        made.thread_id = rng.choice(THREADS)
    if rng.random() < 0.3:
        made.status = rng.choice((ACTIVE, ARCHIVED))
    if rng.random() < 0.2:
        count = rng.randrange(1, 30)
        made.message_ids.extend(m.message_id for m in rng.choices(stored, k=count))
        made.message_ids.append("nobody")
    for field, past in (("create_time", None), ("ingest_time", stored)):
        if rng.random() < 0.2:
            if past is None:
                times = [time_of(rng.randrange(48)) for _ in range(2)]
            else:
                times = [rng.choice(past).ingest_time.ToDatetime(datetime.timezone.utc)
                         for _ in range(2)]
            first, last = sorted(times)
            bounds = getattr(made, field)
            if rng.random() < 0.7:
                bounds.start.FromDatetime(first)
            if last > first and rng.random() < 0.7:
                bounds.end.FromDatetime(last)
    if rng.random() < 0.2:
        made.writers.extend(rng.sample(WRITERS, rng.randrange(1, 3)))
    if rng.random() < 0.2:
        made.untrusted = rng.random() < 0.5
    if rng.random() < 0.2:
        made.source_session_id = rng.choice(SOURCES)
    if rng.random() < 0.4:
        made.metadata.extend(random_test(rng) for _ in range(rng.randrange(1, 3)))
    if depth == 0 and rng.random() < 0.4:
        made.any_of.extend(random_filter(rng, stored, 1) for _ in range(rng.randrange(1, 4)))
    return made


def is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def holds(test: wire.MetadataTest, metadata: dict) -> bool:
    kind = test.WhichOneof("test")
    if kind == "exists":
        return (test.key in metadata) == test.exists
    value = metadata.get(test.key)
    if kind == "string_value":
        return isinstance(value, str) and value == test.string_value
    if kind == "number_value":
        return is_number(value) and float(value) == test.number_value
    if kind == "bool_value":
        return isinstance(value, bool) and value == test.bool_value
    bounds = getattr(test, kind)
    if not (is_number(value) if kind == "number_range" else isinstance(value, str)):
        return False
    return ((not bounds.HasField("min") or value >= bounds.min)
            and (not bounds.HasField("below") or value < bounds.below))


def within(bounds: wire.TimeRange, time) -> bool:
    def key(stamp):
        return (stamp.seconds, stamp.nanos // 1000)
    return ((not bounds.HasField("start") or key(time) >= key(bounds.start))
            and (not bounds.HasField("end") or key(time) < key(bounds.end)))


def passes(asked: wire.Filter, message: memory.Message) -> bool:
    """The reference: what memoryd.v1.Filter says, in as few words as Python needs."""
    metadata = json.loads(message.metadata_json or "{}")
    bounded = asked.create_time.HasField("start") or asked.create_time.HasField("end")
    return bool(
        (not asked.roles or message.role in asked.roles)
        and (not asked.names or message.name in asked.names)
        and (not asked.HasField("thread_id") or message.thread_id == asked.thread_id)
        and (not asked.status or message.status == asked.status)
        and (not asked.message_ids or message.message_id in asked.message_ids)
        and (not bounded or (message.HasField("create_time")
                             and within(asked.create_time, message.create_time)))
        and within(asked.ingest_time, message.ingest_time)
        and (not asked.writers or message.writer in asked.writers)
        and (not asked.HasField("untrusted") or message.untrusted == asked.untrusted)
        and (not asked.HasField("source_session_id")
             or message.source_session_id == asked.source_session_id)
        and all(holds(test, metadata) for test in asked.metadata)
        and (not asked.any_of or any(passes(one, message) for one in asked.any_of))
    )


def fill(calls, session_id: str, rng: random.Random, count: int) -> list[memory.Message]:
    """Three quarters are imported, since only an import says who wrote what, and whence it came."""
    first = session_id + " first"
    calls.CreateSession(session_id=first, config=CONFIG)
    put(calls, first, rng, range(count * 3 // 4))
    imported = calls.all_messages(first)
    for message in imported:
        message.writer = rng.choice(WRITERS)
        message.source_session_id = rng.choice(SOURCES)
        message.source_message_id = "there" if message.source_session_id else ""
    calls.import_session(session_id, imported, config=CONFIG)
    put(calls, session_id, rng, range(count * 3 // 4, count))
    return calls.all_messages(session_id)


def put(calls, session_id: str, rng: random.Random, numbers: range) -> None:
    for begin in range(numbers.start, numbers.stop, 20):
        calls.Put(session_id=session_id, messages=[
            random_message(rng, number) for number in range(begin, min(begin + 20, numbers.stop))])


@pytest.mark.parametrize("seed", range(3))
def test_filters_do_as_a_model_in_python(calls, session_id, seed):
    rng = random.Random(seed)
    stored = fill(calls, session_id, rng, 200)
    assert {m.writer for m in stored} == set(WRITERS)
    assert {m.source_session_id for m in stored} == set(SOURCES)
    assert {m.status for m in stored} == {ACTIVE, ARCHIVED}
    found = 0
    for _ in range(120):
        asked = random_filter(rng, stored)
        wanted = [m for m in stored if passes(asked, m)]
        order = rng.choice(ORDERS)
        if order == NEWEST_FIRST:
            wanted.reverse()
        pages = list(calls.pages(session_id, rng.choice((1, 7, 50, 1000)), filter=asked,
                                 order=order, include_total=True))
        assert [m for page in pages for m in page.messages] == wanted, asked
        assert {page.total_count for page in pages} == {len(wanted)}, asked
        found += 0 < len(wanted) < len(stored)
    assert found > 40, "filters that let all or nothing through show little"


@pytest.mark.parametrize("seed", range(3))
def test_query_finds_what_passes_in_the_order_of_all(calls, session_id, seed):
    rng = random.Random(seed)
    stored = fill(calls, session_id, rng, 100)

    def ask(top_k: int, **fields) -> list[memory.Message]:
        reply = calls.Query(session_id=session_id, query="message", top_k=top_k, **fields)
        assert "FILTER_LIMIT" not in reply.notices
        return [result.message for result in reply.results]

    ranked = ask(1000)
    assert sorted(m.position for m in ranked) == [m.position for m in stored]
    found = 0
    for _ in range(120):
        asked = random_filter(rng, stored)
        wanted = [m for m in ranked if passes(asked, m)]
        top_k = rng.choice((1, 5, 1000))
        assert ask(top_k, filter=asked) == wanted[:top_k], asked
        found += 0 < len(wanted) < len(stored)
    assert found > 40, "filters that let all or nothing through show little"


def test_query_says_where_it_stopped_looking(calls, session_id):
    calls.CreateSession(session_id=session_id, config=memory.SessionConfig(
        retrieval=memory.Retrieval(vector_weight=0, neighbour_weight=0)))
    for begin in range(0, 12_000, 1000):
        calls.Put(session_id=session_id, messages=[
            user("word", message_id=f"m{n}", name="Ann" if n in (0, 11_999) else "")
            for n in range(begin, begin + 1000)])

    def ask(top_k: int, **fields):
        reply = calls.Query(session_id=session_id, query="word", top_k=top_k,
                            filter=wire.Filter(**fields))
        return [r.message.message_id for r in reply.results], list(reply.notices)

    # Of equals the newest comes first, and the oldest is behind those that are looked at.
    assert ask(1, names=["Ann"]) == (["m11999"], [])
    assert ask(2, names=["Ann"]) == (["m11999"], ["FILTER_LIMIT"])
    assert ask(2, names=["Ann"], message_ids=["m0", "m1"]) == (["m0"], [])


@pytest.mark.large
def test_query_looks_at_messages_that_are_more_than_a_reply_may_be(calls, session_id):
    picture = memory.Part(image=memory.Media(data=bytes(3 << 20)))
    for number in range(24):
        calls.Put(session_id=session_id, messages=[memory.Message(
            role="user", parts=[memory.Part(text=f"word {number}"), picture],
            metadata_json='{"wanted": true}' if number == 3 else "")])
    reply = calls.Query(session_id=session_id, query="word", filter=wire.Filter(
        metadata=[wire.MetadataTest(key="wanted", bool_value=True)]))
    assert [r.message.parts[0].text for r in reply.results] == ["word 3"]


class Other:
    """Puts, updates and deletes of another client, one for each page that is read, so that the reading
    comes to an end however slow it is."""

    def __init__(self, server, session_id: str, stored: list[memory.Message]) -> None:
        self.touched: set[int] = set()  # Positions that are being changed, or have been.
        self.failures: list[Exception] = []
        self._server, self._session_id = server, session_id
        self._left = list(stored)
        self._wanted, self._done = 0, 0
        self._pages = threading.Semaphore(0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Other:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pages.release()
        self._thread.join()

    def go_on(self) -> None:
        """One change more, behind this."""
        self._wanted += 1
        self._pages.release()

    def rest(self) -> None:
        """Returns when all changes are made, and forgets what they touched."""
        wait_for(lambda: self._done == self._wanted or self.failures, 6000)
        self.touched.clear()

    def _write(self) -> None:
        rng = random.Random(8)
        number = 1000
        try:
            with self._server.channel() as channel:
                calls = Calls(channel)
                while self._pages.acquire() and not self._stop.is_set():
                    self._change(calls, rng, number)
                    number += 1
                    self._done += 1
        except Exception as error:
            self.failures.append(error)

    def _change(self, calls: Calls, rng: random.Random, number: int) -> None:
        kind = rng.choice(("put", "update", "delete"))
        if kind == "put" or len(self._left) < 100:
            calls.Put(session_id=self._session_id, messages=[random_message(rng, number)])
            return
        message = rng.choice(self._left)
        self.touched.add(message.position)
        if kind == "update":
            calls.UpdateMessage(session_id=self._session_id, message_id=message.message_id,
                                name=rng.choice(NAMES), metadata_json=random_metadata(rng))
        else:
            self._left.remove(message)
            calls.DeleteMessage(session_id=self._session_id, message_id=message.message_id)


@pytest.mark.parametrize("order", [NO_ORDER, NEWEST_FIRST])
@pytest.mark.parametrize("method", ["pages", "StreamAll"])
def test_pages_are_stable_while_others_write(server, calls, session_id, method, order):
    rng = random.Random(7)
    stored = fill(calls, session_id, rng, 300)
    read_pages = {
        "pages": lambda **fields: calls.pages(session_id, 5, **fields),
        "StreamAll": lambda **fields: calls.StreamAll(session_id=session_id, page_size=5, **fields),
    }[method]
    changes = 0
    with Other(server, session_id, stored) as other:
        for _ in range(25):
            # A status changes under way; everything else stays as it was put, or is touched.
            asked = random_filter(rng, stored)
            for one in (asked, *asked.any_of):
                one.status = memory.MESSAGE_STATUS_UNSPECIFIED
            read = []
            for page in read_pages(filter=asked, order=order):
                read += page.messages
                other.go_on()
            if order == NEWEST_FIRST:
                read.reverse()
            positions = [m.position for m in read]
            assert positions == sorted(set(positions)), "in order, none twice"
            touched = set(other.touched)
            known = {m.position for m in stored}
            assert [m.position for m in read if m.position in known - touched] == \
                [m.position for m in stored if m.position not in touched and passes(asked, m)], asked
            assert all(passes(asked, m) for m in read), asked
            changes += len(touched)
            # And then all of what there is, changed or not.
            other.rest()
            stored = calls.all_messages(session_id)
    assert not other.failures and changes > 20


def test_a_page_that_finds_little_ends_and_gives_a_token(calls, session_id):
    count = 12_000
    for begin in range(0, count, 1000):
        calls.Put(session_id=session_id, messages=[
            user("x", metadata_json='{"last":true}' if number == count - 1 else "")
            for number in range(begin, begin + 1000)])
    asked = wire.Filter(metadata=[wire.MetadataTest(key="last", exists=True)])
    first = calls.GetAll(session_id=session_id, filter=asked)
    assert not first.messages and first.next_page_token
    rest = calls.GetAll(session_id=session_id, filter=asked, page_token=first.next_page_token)
    assert len(rest.messages) == 1 and not rest.next_page_token
    assert calls.GetAll(session_id=session_id, filter=asked, include_total=True).total_count == 1
    last = rest.messages[0].message_id
    by_id = calls.GetAll(session_id=session_id, filter=wire.Filter(message_ids=[last, "none"]))
    assert [m.message_id for m in by_id.messages] == [last] and not by_id.next_page_token


def test_a_token_binds_the_filter(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("x")] * 5)
    asked = wire.Filter(roles=["user"])
    token = calls.GetAll(session_id=session_id, filter=asked, page_size=2).next_page_token
    same = calls.GetAll(session_id=session_id, filter=asked, page_size=9, page_token=token,
                        include_total=True)
    assert len(same.messages) == 3 and same.total_count == 5
    for other in (None, wire.Filter(roles=["user", "tool"]), wire.Filter(names=["user"])):
        error = refusal(calls.GetAll, session_id=session_id, filter=other, page_token=token)
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "page_token" in error.details()


def test_contents_pass_by_time_metadata_and_who_wrote_them(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("m", metadata_json='{"k":1}'), user("n")],
              contents=[note("c", metadata_json='{"k":1}'), note("d", untrusted=True)])

    def read(**fields) -> tuple[list[str], int]:
        page = calls.GetAll(session_id=session_id, include_contents=True, include_total=True,
                            filter=wire.Filter(**fields))
        return [item.text for item in (*page.messages, *page.contents)], page.total_count

    is_one = wire.MetadataTest(key="k", number_value=1)
    assert read() == (["m", "n", "c", "d"], 4)
    assert read(metadata=[is_one]) == (["m", "c"], 2)
    assert read(roles=["user"]) == (["m", "n"], 2)
    assert read(status=ACTIVE) == (["m", "n"], 2)
    assert read(untrusted=True) == (["d"], 1)
    assert read(writers=["", "token:a"]) == (["m", "n", "c", "d"], 4)
    assert read(writers=["token:a"]) == ([], 0)
    assert read(source_session_id="") == (["m", "n"], 2)
    either = [wire.Filter(roles=["user"]), wire.Filter(metadata=[is_one])]
    assert read(any_of=either) == (["m", "n", "c"], 3)
    plain = calls.GetAll(session_id=session_id, include_contents=True, include_total=True)
    assert plain.total_count == 4
    assert not calls.GetAll(session_id=session_id).HasField("total_count")


@pytest.mark.parametrize("asked, field", (
    ({"roles": [""]}, "filter.roles[0]"),
    ({"roles": ["a"] * 17}, "filter.roles"),
    ({"names": ["x" * 257]}, "filter.names[0]"),
    ({"thread_id": "\u200b"}, "filter.thread_id"),
    ({"status": 9}, "filter.status"),
    ({"message_ids": ["ok", ""]}, "filter.message_ids[1]"),
    ({"message_ids": [str(n) for n in range(1001)]}, "filter.message_ids"),
    ({"create_time": {"start": {"seconds": 5}, "end": {"seconds": 5}}}, "filter.create_time.end"),
    ({"ingest_time": {"start": {"nanos": -1}}}, "filter.ingest_time.start"),
    ({"metadata": [{"exists": True}]}, "filter.metadata[0].key"),
    ({"metadata": [{"key": "k"}]}, "filter.metadata[0]"),
    ({"metadata": [{"key": "k", "number_value": float("nan")}]}, "filter.metadata[0].number_value"),
    ({"metadata": [{"key": "k", "number_range": {}}]}, "filter.metadata[0].number_range"),
    ({"metadata": [{"key": "k", "number_range": {"min": 2, "below": 1}}]},
     "filter.metadata[0].number_range.below"),
    ({"metadata": [{"key": "k", "string_range": {"min": "a", "below": "a"}}]},
     "filter.metadata[0].string_range.below"),
    ({"any_of": [{"roles": ["a"]}, {"names": ["x" * 257]}]}, "filter.any_of[1].names[0]"),
    ({"any_of": [{"any_of": [{}]}]}, "filter.any_of[0].any_of"),
    ({"writers": ["token:" + "x" * 1024]}, "filter.writers[0]"),
    ({"writers": [""] * 17}, "filter.writers"),
    ({"source_session_id": "x" * 257}, "filter.source_session_id"),
), ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_filter_is_refused_and_its_field_named(calls, session_id, asked, field):
    error = refusal(calls.GetAll, session_id=session_id, filter=asked)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.details().startswith(f"{field}:"), error.details()


def test_two_statuses_must_agree(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("x")])
    asked = wire.Filter(status=ACTIVE)
    assert len(calls.GetAll(session_id=session_id, status=ACTIVE, filter=asked).messages) == 1
    error = refusal(calls.GetAll, session_id=session_id, status=ARCHIVED, filter=asked)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "status" in error.details()
    assert reason(error) == "INVALID_FIELD"
