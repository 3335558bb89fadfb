"""Get with `explain`: what each part takes, what was left out and why."""

from __future__ import annotations

import pytest

from support.blocks import block, every_turn, memory_text, turn
from support.calls import assistant, memory, user, wire
from support.commands import Commands

import memoryd

SHOWN = wire.BLOCK_OUTCOME_SHOWN
DROPPED = wire.BLOCK_OUTCOME_DROPPED
EMPTY = wire.BLOCK_OUTCOME_EMPTY
MISSING = wire.BLOCK_OUTCOME_MISSING
TOKEN_LIMIT = wire.LEFT_OUT_REASON_TOKEN_LIMIT


def words(count: int) -> str:
    return " ".join(["word"] * count)


def test_nothing_is_explained_unasked(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("Hi")])
    assert not calls.Get(session_id=session_id).HasField("explanation")
    assert not calls.Get(session_id="unknown", explain=True).HasField("explanation")


def test_an_explained_context_is_the_same_context(calls, session_id):
    calls.Put(session_id=session_id, messages=turn("Hi"), config=every_turn(
        block("a", "static", content=["Ada likes tea."])))
    plain, explained = calls.Get(session_id=session_id), calls.Get(session_id=session_id,
                                                                   explain=True)
    explained.ClearField("explanation")
    assert plain == explained


@pytest.mark.parametrize("profile", ("default", "llama-index"))
def test_the_parts_add_up_to_the_tokens_of_the_context(calls, session_id, profile):
    config = memory.SessionConfig(
        profile=profile, token_limit=250, token_flush_size=10, tokenizer="whitespace",
        blocks=[block("a", "static", 0, content=[words(100)]),
                block("b", "static", 1, content=[words(100)]),
                block("c", "static", 2, content=[words(100)]),
                block("d", "static", 0)])
    calls.Put(session_id=session_id, messages=turn("Hi"), config=config)
    reply = calls.Get(session_id=session_id, explain=True)
    why = reply.explanation
    assert why.block_token_count + why.message_token_count == reply.token_count
    assert [(b.block, b.kind, b.priority) for b in why.blocks] == [
        ("a", "static", 0), ("b", "static", 1), ("c", "static", 2), ("d", "static", 0)]
    # As in the library, 1 goes before 2.
    gone = "b" if profile == "llama-index" else "c"
    assert {b.block: b.outcome for b in why.blocks} == {
        "a": SHOWN, "b": SHOWN, "c": SHOWN, "d": EMPTY, gone: DROPPED}
    tokens = {b.block: (b.token_count, b.uncut_token_count) for b in why.blocks}
    assert tokens["d"] == (0, 0)
    assert tokens[gone][0] == 0 and tokens[gone][1] >= 100
    assert all(tokens[b.block][0] == tokens[b.block][1] >= 100
               for b in why.blocks if b.outcome == SHOWN)
    assert list(reply.blocks_dropped) == [gone]


def test_a_block_that_can_not_answer_is_explained(calls, session_id):
    calls.Put(session_id=session_id, messages=turn("Hi"), config=every_turn(
        block("custom", "worker", worker="nowhere")))
    [missing] = calls.Get(session_id=session_id, explain=True).explanation.blocks
    assert (missing.outcome, missing.missing_reason) == (MISSING, "WORKER_ELSEWHERE")


def test_what_left_short_term_memory_is_counted(calls, session_id):
    config = memory.SessionConfig(token_limit=1000, chat_history_token_ratio=0.5,
                                  token_flush_size=7, tokenizer="whitespace")
    calls.Put(session_id=session_id, messages=turn("Hi"), config=config)
    why = calls.Get(session_id=session_id, explain=True).explanation
    assert (why.token_limit, why.short_term_token_limit, why.token_flush_size) == (1000, 500, 7)
    assert (why.watermark, why.archived_count) == (0, 0)
    calls.Put(session_id=session_id, messages=[user(words(600)), assistant("So many.")])
    why = calls.Get(session_id=session_id, explain=True).explanation
    archived = [m.position for m in calls.all_messages(session_id)
                if m.status == memory.MESSAGE_STATUS_ARCHIVED]
    assert why.archived_count == len(archived)
    assert why.watermark == max(archived)


def test_messages_over_the_limit_are_ranges_of_positions(calls, session_id):
    config = memory.SessionConfig(token_limit=1000, chat_history_token_ratio=1.0,
                                  tokenizer="whitespace",
                                  blocks=[block("a", "static", 0, content=[words(500)])])
    calls.Put(session_id=session_id, config=config, messages=[
        user(words(200)), assistant(words(200)), user(words(200)), assistant(words(200))])
    reply = calls.Get(session_id=session_id, explain=True)
    [left_out] = reply.explanation.left_out
    shown = {m.position for m in reply.messages if m.position}
    assert shown == {3, 4}
    assert (left_out.first_position, left_out.last_position, left_out.message_count,
            left_out.reason) == (1, 2, 2, TOKEN_LIMIT)
    whole = sum(m.token_count for m in calls.all_messages(session_id))
    assert left_out.token_count + reply.explanation.message_token_count == whole
    assert memory_text(reply)


def test_the_client_of_python_asks_for_it(server, session_id):
    with memoryd.Client(server.target) as client:
        client.put(session_id, [memoryd.message("user", "Hi")])
        assert not client.get(session_id).HasField("explanation")
        why = client.get(session_id, explain=True).explanation
        assert why.message_token_count > 0 and why.token_limit > 0


def test_the_command_shows_it(calls, server, session_id):
    calls.Put(session_id=session_id, messages=turn("Hi"), config=every_turn(
        block("a", "static", content=["Ada likes tea."])))
    commands = Commands(server.target)
    assert "tokens, 0 of them pinned" not in commands.text("get", session_id)
    text = commands.text("get", session_id, "--explain")
    assert "limit: 1000 tokens\n" in text
    assert "in this context" in text and " shown\n" in text
    got, = commands.json("get", session_id, "--explain")
    assert got["explanation"]["blocks"][0]["block"] == "a"
