"""GetAll and ListSessions page by page."""

from __future__ import annotations

import uuid

import grpc
import pytest

from support.calls import memory, reason, refusal, session_wire, user

ACTIVE, ARCHIVED = memory.MESSAGE_STATUS_ACTIVE, memory.MESSAGE_STATUS_ARCHIVED
LATEST = session_wire.SESSION_ORDER_LAST_CHANGE


def fill(calls, session_id: str, count: int) -> list[str]:
    texts = [f"m{i}" for i in range(count)]
    for begin in range(0, count, 1000):
        calls.Put(session_id=session_id,
                  messages=[user(text) for text in texts[begin:begin + 1000]])
    return texts


def texts_of(page) -> list[str]:
    return [m.text for m in page.messages]


@pytest.mark.parametrize("page_size", (1, 3, 10, 11))
def test_pages_join_to_the_whole(calls, session_id, page_size):
    texts = fill(calls, session_id, 10)
    assert [m.text for m in calls.all_messages(session_id, page_size)] == texts


def test_a_page_size_is_a_hundred_by_default_and_a_thousand_at_most(calls, session_id):
    texts = fill(calls, session_id, 2100)
    assert texts_of(calls.GetAll(session_id=session_id)) == texts[:100]
    for size in (1000, 1001, 2**31 - 1):
        page = calls.GetAll(session_id=session_id, page_size=size)
        assert texts_of(page) == texts[:1000] and page.next_page_token
    assert [m.text for m in calls.all_messages(session_id, 2**31 - 1)] == texts


def test_a_page_ends_at_about_a_mebibyte_and_none_is_lost(calls, session_id):
    sizes = [900_000, 300_000, 10, 1024 * 1024, 1, 500_000, 500_000, 500_000]
    for index, size in enumerate(sizes):
        calls.Put(session_id=session_id, messages=[user(chr(97 + index) * size)])
    token, seen = "", []
    while True:
        page = calls.GetAll(session_id=session_id, page_size=1000, page_token=token)
        assert page.messages
        assert sum(len(m.text) for m in page.messages) <= 2.2 * 1024 * 1024
        seen += [len(m.text) for m in page.messages]
        token = page.next_page_token
        if not token:
            break
    assert seen == sizes


def test_an_empty_or_unknown_session_is_one_empty_page(calls, session_id):
    page = calls.GetAll(session_id=session_id)
    assert not page.messages and not page.next_page_token
    assert refusal(calls.GetSession, session_id=session_id).code() == grpc.StatusCode.NOT_FOUND
    calls.CreateSession(session_id=session_id)
    page = calls.GetAll(session_id=session_id)
    assert not page.messages and not page.next_page_token


def test_a_status_filters_and_pages_of_it_join(calls, session_id):
    config = memory.SessionConfig(profile="llama-index", token_limit=20, token_flush_size=2,
                                  tokenizer="whitespace", chat_history_token_ratio=0.5)
    calls.CreateSession(session_id=session_id, config=config)
    texts = fill(calls, session_id, 25)
    active = [m.text for m in calls.all_messages(session_id, 2, status=ACTIVE)]
    archived = [m.text for m in calls.all_messages(session_id, 2, status=ARCHIVED)]
    assert active and archived and archived + active == texts


def test_messages_that_come_between_pages_are_read_at_the_end(calls, session_id):
    texts = fill(calls, session_id, 5)
    page = calls.GetAll(session_id=session_id, page_size=3)
    calls.Put(session_id=session_id, messages=[user("late")])
    rest = calls.GetAll(session_id=session_id, page_size=9, page_token=page.next_page_token)
    assert texts_of(page) + texts_of(rest) == [*texts, "late"]


@pytest.mark.parametrize("replace", (
    lambda calls, s: calls.Set(session_id=s, messages=[user("new")] * 9),
    lambda calls, s: calls.Reset(session_id=s, scope=1),
), ids=("set", "reset"))
def test_a_token_of_replaced_messages_is_aborted(calls, session_id, replace):
    fill(calls, session_id, 5)
    token = calls.GetAll(session_id=session_id, page_size=3).next_page_token
    replace(calls, session_id)
    error = refusal(calls.GetAll, session_id=session_id, page_size=3, page_token=token)
    assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "SESSION_REPLACED")


def test_a_token_serves_only_the_request_it_was_given_for(calls, session_id):
    other = f"{session_id}-other"
    fill(calls, session_id, 5)
    fill(calls, other, 5)
    token = calls.GetAll(session_id=session_id, page_size=2).next_page_token
    sessions = calls.ListSessions(page_size=1).next_page_token
    middle = len(token) // 2
    changed = token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1:]
    foreign = (
        {"session_id": other, "page_token": token},
        {"session_id": session_id, "page_token": token, "status": ACTIVE},
        {"session_id": session_id, "page_token": sessions},
        {"session_id": session_id, "page_token": token[:-2]},
        {"session_id": session_id, "page_token": changed},
        {"session_id": session_id, "page_token": token + "AA"},
    )
    errors = [refusal(calls.GetAll, **fields) for fields in foreign]
    errors.append(refusal(calls.ListSessions, page_token=token))
    for fields, error in zip([*foreign, "ListSessions"], errors, strict=True):
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, fields
        assert "page_token" in error.details()
    assert len({error.details() for error in errors}) == 1


def test_sessions_are_listed_bytewise_page_by_page(calls):
    prefix = f"list-{uuid.uuid4().hex}-"
    names = [prefix + tail for tail in ("a", "B", "é", "z", "_", "%", "/", "aa", "😀", "0")]
    for session in names:
        calls.CreateSession(session_id=session)
    listed, token = [], ""
    while True:
        page = calls.ListSessions(page_size=3, page_token=token)
        assert len(page.sessions) <= 3
        listed += [s.session_id for s in page.sessions]
        token = page.next_page_token
        if not token:
            break
    assert listed == sorted(listed, key=str.encode)
    assert len(set(listed)) == len(listed)
    assert [s for s in listed if s.startswith(prefix)] == sorted(names, key=str.encode)


def listed(calls, **fields) -> list[str]:
    """Ids of all pages, two sessions each."""
    found, token = [], ""
    while True:
        page = calls.ListSessions(page_size=2, page_token=token, **fields)
        found += [entry.session_id for entry in page.sessions]
        token = page.next_page_token
        if not token:
            return found


def test_sessions_are_listed_by_the_prefix_of_their_ids(calls, session_id):
    names = [session_id + tail for tail in ("", "/a", "/b", "/b/c", "0", "_", "😀")]
    for number, name in enumerate(names):
        calls.CreateSession(session_id=name, config=memory.SessionConfig(
            subject=f"{session_id}-{number % 2}"))
    assert listed(calls, id_prefix=session_id) == sorted(names, key=str.encode)
    assert listed(calls, id_prefix=session_id + "/") == [session_id + t for t in ("/a", "/b", "/b/c")]
    assert listed(calls, id_prefix=session_id + "%") == []
    assert listed(calls, id_prefix=session_id + "/", subject=f"{session_id}-1") == [
        session_id + t for t in ("/a", "/b/c")]


def test_the_sessions_of_a_subject_are_listed_by_their_last_change(calls, session_id):
    config = memory.SessionConfig(subject=session_id)
    names = [f"{session_id}/{number}" for number in range(5)]
    for name in names:
        calls.CreateSession(session_id=name, config=config)
    for number in (3, 1):
        calls.Put(session_id=names[number], messages=[user("Hi")])
    latest = {"subject": session_id, "order": LATEST}
    assert listed(calls, **latest) == [names[n] for n in (1, 3, 4, 2, 0)]
    assert listed(calls, **latest, id_prefix=names[2]) == [names[2]]
    times = [entry.update_time.ToMicroseconds()
             for entry in calls.ListSessions(**latest).sessions]
    assert times == sorted(times, reverse=True)


def test_only_those_of_a_subject_are_listed_by_their_last_change(calls):
    error = refusal(calls.ListSessions, order=LATEST)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "order" in error.details() and "subject" in error.details()
    assert "order" in refusal(calls.ListSessions, order=77).details()
    assert "id_prefix" in refusal(calls.ListSessions, id_prefix="x" * 257).details()


def test_a_token_of_sessions_is_of_one_prefix_and_order(calls, session_id):
    config = memory.SessionConfig(subject=session_id)
    for number in range(3):
        calls.CreateSession(session_id=f"{session_id}/{number}", config=config)
    kinds = ({"subject": session_id}, {"subject": session_id, "order": LATEST},
             {"subject": session_id, "id_prefix": session_id}, {"id_prefix": session_id})
    tokens = [calls.ListSessions(page_size=1, **kind).next_page_token for kind in kinds]
    for kind, own in zip(kinds, tokens, strict=True):
        for token in tokens:
            if token == own:
                assert calls.ListSessions(page_token=token, **kind).sessions
            else:
                assert "page_token" in refusal(
                    calls.ListSessions, page_token=token, **kind).details()


def test_a_session_says_how_many_bytes_it_has(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("Hi")])
    before = calls.GetSession(session_id=session_id).session
    calls.Put(session_id=session_id, messages=[user("x" * 1000)])
    entry, = calls.ListSessions(id_prefix=session_id).sessions
    assert before.stored_bytes > 0
    assert before.stored_bytes + 1000 <= entry.stored_bytes < before.stored_bytes + 1100
    assert entry == calls.GetSession(session_id=session_id).session
