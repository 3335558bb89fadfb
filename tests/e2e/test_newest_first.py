"""GetAll and StreamAll from the newest item on."""

from __future__ import annotations

import random

import grpc
import pytest

from support.calls import Calls, memory, note, reason, refusal, user
from support.server import Server

from memoryd.v1 import filter_pb2 as wire
from memoryd.v1.memory_service_pb2 import (
    MESSAGE_ORDER_NEWEST_FIRST as NEWEST_FIRST,
)
from memoryd.v1.memory_service_pb2 import (
    MESSAGE_ORDER_OLDEST_FIRST as OLDEST_FIRST,
)

ACTIVE, ARCHIVED = memory.MESSAGE_STATUS_ACTIVE, memory.MESSAGE_STATUS_ARCHIVED
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def fill(calls, session_id: str, messages: int, contents: int = 0, **fields) -> list[str]:
    texts = [f"m{number}" for number in range(messages)]
    calls.Put(session_id=session_id, messages=[user(text) for text in texts],
              contents=[note(f"c{number}") for number in range(contents)], **fields)
    return texts


def texts_of(pages) -> list[str]:
    return [item.text for page in pages for item in (*page.messages, *page.contents)]


@pytest.mark.parametrize("page_size", (1, 3, 10, 11, 1000))
def test_messages_and_then_contents_descend(calls, session_id, page_size):
    texts = fill(calls, session_id, 10, 5)
    wanted = [*reversed(texts), "c4", "c3", "c2", "c1", "c0"]
    pages = list(calls.pages(session_id, page_size, order=NEWEST_FIRST, include_contents=True,
                             include_total=True))
    assert texts_of(pages) == wanted
    assert {page.total_count for page in pages} == {15}
    assert all(page.messages or page.contents for page in pages)
    streamed = list(calls.StreamAll(session_id=session_id, page_size=page_size,
                                    order=NEWEST_FIRST, include_contents=True))
    assert texts_of(streamed) == wanted
    oldest = calls.pages(session_id, page_size, order=OLDEST_FIRST)
    assert texts_of(oldest) == texts


def test_an_unknown_session_is_one_empty_page(calls, session_id):
    page = calls.GetAll(session_id=session_id, order=NEWEST_FIRST, include_total=True)
    assert not page.messages and not page.next_page_token and page.total_count == 0
    page, = calls.StreamAll(session_id=session_id, order=NEWEST_FIRST)
    assert not page.messages and not page.next_page_token


def test_a_page_ends_at_about_a_mebibyte_and_none_is_lost(calls, session_id):
    sizes = [900_000, 300_000, 10, 1024 * 1024, 1, 500_000, 500_000, 500_000]
    for size in sizes:
        calls.Put(session_id=session_id, messages=[user("x" * size)])
    pages = list(calls.pages(session_id, order=NEWEST_FIRST))
    assert [len(m.text) for page in pages for m in page.messages] == sizes[::-1]
    assert 3 < len(pages) < len(sizes)
    assert all(page.messages for page in pages)


def test_each_status_descends(calls, session_id):
    config = memory.SessionConfig(profile="llama-index", token_limit=20, token_flush_size=2,
                                  tokenizer="whitespace", chat_history_token_ratio=0.5)
    calls.CreateSession(session_id=session_id, config=config)
    texts = fill(calls, session_id, 25)
    active = texts_of(calls.pages(session_id, 2, status=ACTIVE, order=NEWEST_FIRST))
    archived = texts_of(calls.pages(session_id, 2, status=ARCHIVED, order=NEWEST_FIRST))
    assert active and archived and active + archived == texts[::-1]


def test_what_comes_after_the_first_page_is_on_none(calls, session_id):
    texts = fill(calls, session_id, 5, 3)
    wanted = [*reversed(texts), "c2", "c1", "c0"]
    seen: list[str] = []
    token = ""
    while True:
        page = calls.GetAll(session_id=session_id, page_size=2, order=NEWEST_FIRST,
                            include_contents=True, page_token=token)
        seen += texts_of([page])
        token = page.next_page_token
        if not token:
            break
        calls.Put(session_id=session_id, messages=[user("late")], contents=[note("late")])
    assert seen == wanted
    stream = calls.StreamAll(session_id=session_id, page_size=4, order=NEWEST_FIRST,
                             include_contents=True)
    first = next(stream)
    calls.Put(session_id=session_id, messages=[user("later")], contents=[note("later")])
    stream.cancel()
    rest = calls.StreamAll(session_id=session_id, page_size=4, order=NEWEST_FIRST,
                           include_contents=True, page_token=first.next_page_token)
    read = texts_of([first, *rest])
    assert "later" not in read
    assert [text for text in read if text != "late"] == wanted


def test_what_is_deleted_under_way_is_left_out_and_nothing_else(calls, session_id):
    fill(calls, session_id, 20)
    ids = [m.message_id for m in calls.all_messages(session_id)]
    rng = random.Random(1)
    kept = list(ids)
    seen: list[str] = []
    for page in calls.pages(session_id, 3, order=NEWEST_FIRST):
        seen += [m.message_id for m in page.messages]
        gone = rng.choice(kept)
        kept.remove(gone)
        calls.DeleteMessage(session_id=session_id, message_id=gone)
    assert seen == [one for one in reversed(ids) if one in seen]
    assert set(kept) <= set(seen)


def test_the_last_page_is_not_empty_where_the_oldest_are_gone(calls, session_id):
    fill(calls, session_id, 6)
    for message in calls.all_messages(session_id)[:2]:
        calls.DeleteMessage(session_id=session_id, message_id=message.message_id)
    for size in (1, 2, 4):
        pages = list(calls.pages(session_id, size, order=NEWEST_FIRST))
        assert [len(page.messages) for page in pages] == [size] * (4 // size)


@pytest.mark.parametrize("replace", (
    lambda calls, s: calls.Set(session_id=s, messages=[user("new")] * 9),
    lambda calls, s: calls.Reset(session_id=s, scope=1),
), ids=("set", "reset"))
def test_a_token_of_replaced_messages_is_aborted(calls, session_id, replace):
    fill(calls, session_id, 5)
    asked = {"session_id": session_id, "page_size": 3, "order": NEWEST_FIRST}
    token = calls.GetAll(**asked).next_page_token
    replace(calls, session_id)
    error = refusal(calls.GetAll, page_token=token, **asked)
    assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "SESSION_REPLACED")


def test_a_token_serves_only_its_order(calls, session_id):
    fill(calls, session_id, 5)

    def token(order: int) -> str:
        return calls.GetAll(session_id=session_id, page_size=2, order=order).next_page_token

    def streamed(**fields):
        return list(calls.StreamAll(session_id=session_id, page_size=2, **fields))

    for token_order, order in ((0, NEWEST_FIRST), (OLDEST_FIRST, NEWEST_FIRST),
                               (NEWEST_FIRST, 0), (NEWEST_FIRST, OLDEST_FIRST)):
        error = refusal(calls.GetAll, session_id=session_id, page_token=token(token_order),
                        order=order)
        assert error.code() == INVALID and "page_token" in error.details()
        assert "order" in error.details()
        first = streamed(order=token_order)[0].next_page_token
        error = refusal(lambda: streamed(page_token=first, order=order))  # noqa: B023
        assert error.code() == INVALID and "page_token" in error.details()
    # No order is the oldest first.
    page = calls.GetAll(session_id=session_id, page_token=token(OLDEST_FIRST))
    assert [m.text for m in page.messages] == ["m2", "m3", "m4"]
    error = refusal(lambda: streamed(order=7))
    assert error.code() == INVALID and "order" in error.details()


def test_a_filter_that_finds_little_ends_its_page(calls, session_id):
    count = 12_000
    for begin in range(0, count, 1000):
        calls.Put(session_id=session_id, messages=[
            user("x", metadata_json='{"first":true}' if number == 0 else "")
            for number in range(begin, begin + 1000)])
    asked = wire.Filter(metadata=[wire.MetadataTest(key="first", exists=True)])
    first = calls.GetAll(session_id=session_id, filter=asked, order=NEWEST_FIRST)
    assert not first.messages and first.next_page_token
    rest = calls.GetAll(session_id=session_id, filter=asked, order=NEWEST_FIRST,
                        page_token=first.next_page_token)
    assert len(rest.messages) == 1 and not rest.next_page_token
    # From this end the last of them is the first.
    newest = calls.GetAll(session_id=session_id, page_size=1, order=NEWEST_FIRST)
    assert [m.position for m in newest.messages] == [count]


def test_pages_go_on_over_a_restart(store):
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        texts = fill(calls, "s", 10)
        first = calls.GetAll(session_id="s", page_size=4, order=NEWEST_FIRST)
    with Server(store) as server, server.channel() as channel:
        rest = Calls(channel).GetAll(session_id="s", page_size=10, order=NEWEST_FIRST,
                                     page_token=first.next_page_token)
        assert texts_of([first, rest]) == texts[::-1]
