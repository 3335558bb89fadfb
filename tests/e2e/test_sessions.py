"""SessionService: configuration, counts, end."""

from __future__ import annotations

import grpc
import pytest

from support.blocks import block
from support.calls import assistant, memory, reason, refusal, user

Config = memory.SessionConfig
COMPLETE = Config(
    profile="llama-index", token_limit=200, token_flush_size=20, chat_history_token_ratio=0.5,
    insert_method=memory.INSERT_METHOD_USER, tokenizer="whitespace", policy="buffer",
    feed=memory.FEED_BEFORE_REPLY, image_token_count=1, audio_token_count=2,
    video_token_count=3, document_token_count=4,
    retrieval=memory.Retrieval(
        bm25_k1=1.2, bm25_b=0.75, vector_weight=0.1, vector_threshold=0.5, author_weight=0.2,
        neighbour_weight=0.3, neighbour_tokens=200, length_weight=0.4, length_tokens=50,
        answer_factor=1.5, thread_weight=0.25, user_weight=0.5, recency_weight=0.05,
        expansion=False, dates=False, embedder="minilm", embedder_worker="agent", embedder_weight=0.6,
        language="pt"),
    subject="user 7",
    time_zone="Asia/Tokyo",
    cut_highest_first=True,
)


def test_a_configuration_comes_back_complete(calls, session_id):
    created = calls.CreateSession(session_id=session_id, config=COMPLETE).session
    assert created.config == COMPLETE
    assert created == calls.GetSession(session_id=session_id).session
    assert created.create_time.seconds > 1_700_000_000


def test_defaults_are_filled_in(calls, session_id):
    config = calls.CreateSession(session_id=session_id).session.config
    assert (config.profile, config.token_limit, config.token_flush_size) == ("default", 30000, 3000)
    assert (config.chat_history_token_ratio, config.tokenizer, config.policy) == (
        0.7, "cl100k_base", "fifo")
    assert config.insert_method == memory.INSERT_METHOD_SYSTEM
    assert (config.image_token_count, config.audio_token_count, config.video_token_count,
            config.document_token_count) == (256, 256, 256, 2048)
    assert config.time_zone == "UTC" and config.cut_highest_first


@pytest.mark.parametrize("flush, effective", ((None, 10), (0, 10), (-3, 10), (101, 10), (7, 7)))
def test_llama_index_reads_a_flush_size_out_of_range_as_a_tenth(
        calls, session_id, flush, effective):
    config = Config(profile="llama-index", token_limit=100, token_flush_size=flush)
    made = calls.CreateSession(session_id=session_id, config=config).session.config
    assert made.token_flush_size == effective


def test_creating_twice_is_refused(calls, session_id):
    calls.CreateSession(session_id=session_id)
    error = refusal(calls.CreateSession, session_id=session_id)
    assert (error.code(), reason(error)) == (grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS")


def test_an_unknown_session(calls, session_id):
    error = refusal(calls.GetSession, session_id=session_id)
    assert (error.code(), reason(error)) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
    error = refusal(calls.UpdateSession, session_id=session_id, config=Config(token_limit=5))
    assert (error.code(), reason(error)) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
    assert calls.DeleteSession(session_id=session_id).message_count == 0
    reply = calls.Get(session_id=session_id)
    assert not reply.messages and reply.revision == 0 and reply.token_count == 0


def test_counts_follow_the_messages(calls, session_id):
    config = Config(profile="llama-index", tokenizer="whitespace", token_limit=10,
                    token_flush_size=3, chat_history_token_ratio=0.7)
    calls.CreateSession(session_id=session_id, config=config)
    for text in ("one two three", "four five", "six seven eight nine"):
        calls.Put(session_id=session_id, messages=[user(text), assistant("ok")])
    session = calls.GetSession(session_id=session_id).session
    found = calls.all_messages(session_id)
    active = [m for m in found if m.status == memory.MESSAGE_STATUS_ACTIVE]
    assert session.active_count == len(active)
    assert session.archived_count == len(found) - len(active) > 0
    assert session.active_token_count == sum(m.token_count for m in active)
    assert [m.token_count for m in found] == [3, 1, 2, 1, 4, 1]
    reply = calls.Get(session_id=session_id)
    assert reply.token_count == session.active_token_count and reply.limit == 10


def test_an_update_changes_only_what_it_names(calls, session_id):
    calls.CreateSession(session_id=session_id, config=COMPLETE)
    calls.Put(session_id=session_id, messages=[user("x")])
    before = calls.GetSession(session_id=session_id).session
    updated = calls.UpdateSession(session_id=session_id, config=Config(token_limit=300)).session
    expected = Config()
    expected.CopyFrom(COMPLETE)
    expected.token_limit = 300
    assert updated.config == expected
    assert updated.revision > before.revision and updated.generation == before.generation
    assert calls.GetSession(session_id=session_id).session == updated
    assert [m.text for m in calls.all_messages(session_id)] == ["x"]


@pytest.mark.parametrize("change", (
    {"profile": "default"}, {"tokenizer": "cl100k_base"}, {"image_token_count": 9},
    {"document_token_count": 9},
), ids=lambda change: next(iter(change)))
def test_what_counts_are_made_with_is_fixed_by_the_first_message(calls, session_id, change):
    calls.CreateSession(session_id=session_id, config=COMPLETE)
    changed = calls.UpdateSession(session_id=session_id, config=Config(**change)).session.config
    for field, value in change.items():
        assert getattr(changed, field) == value
    calls.UpdateSession(session_id=session_id, config=COMPLETE)
    calls.Put(session_id=session_id, messages=[user("x")])
    error = refusal(calls.UpdateSession, session_id=session_id, config=Config(**change))
    assert (error.code(), reason(error)) == (grpc.StatusCode.FAILED_PRECONDITION, "CONFIG_FIXED")
    assert calls.GetSession(session_id=session_id).session.config == COMPLETE


def test_a_configuration_as_get_session_shows_it_is_the_one_in_force(calls, session_id):
    blocks = [block("none", "static", content=["a"]), block("zero", "static", 0, content=["b"]),
              block("two", "static", 2, content=["c"])]
    given = Config(token_limit=500, blocks=blocks)
    calls.Put(session_id=session_id, messages=[user("x")], config=given)
    shown = calls.GetSession(session_id=session_id).session.config
    assert [b.priority for b in shown.blocks] == [0, 0, 2]
    for config in (shown, given):
        calls.Put(session_id=session_id, messages=[user("x")], config=config)
    assert calls.GetSession(session_id=session_id).session.config == shown


def test_a_deleted_session_is_gone_and_its_id_free(calls, session_id):
    first = calls.Put(session_id=session_id, messages=[user("a", message_id="m"), user("b")],
                      config=Config(token_limit=77))
    assert calls.DeleteSession(session_id=session_id).message_count == 2
    assert refusal(calls.GetSession, session_id=session_id).code() == grpc.StatusCode.NOT_FOUND
    assert calls.all_messages(session_id) == []
    assert not calls.Get(session_id=session_id).messages
    listed = calls.ListSessions(page_size=1000).sessions
    assert session_id not in [s.session_id for s in listed]
    again = calls.Put(session_id=session_id, messages=[user("c", message_id="m")])
    assert again.generation != first.generation
    assert [m.text for m in calls.all_messages(session_id)] == ["c"]
    assert calls.GetSession(session_id=session_id).session.config.token_limit == 30000
