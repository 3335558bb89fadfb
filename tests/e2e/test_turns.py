"""Units and turns of profile `default` (docs/POLICY.md): what leaves, what a Get shows, what is fed."""

from __future__ import annotations

import pytest

from support.blocks import drained
from support.calls import Calls, memory, refusal, user

WORDS = "one two three four five six seven eight"


def said(role: str, text: str = WORDS) -> memory.Message:
    return memory.Message(role=role, text=text)


def call(*call_ids: str) -> memory.Message:
    return memory.Message(role="assistant", parts=[
        memory.Part(tool_call=memory.ToolCall(call_id=call_id, name="search", arguments_json="{}"))
        for call_id in call_ids])


def result(*call_ids: str, role: str = "tool") -> memory.Message:
    return memory.Message(role=role, parts=[
        memory.Part(tool_result=memory.ToolResult(call_id=call_id, name="search", text=WORDS))
        for call_id in call_ids])


def small(**fields) -> memory.SessionConfig:
    fields = {"token_limit": 100, "token_flush_size": 1, "chat_history_token_ratio": 0.7,
              "tokenizer": "whitespace"} | fields
    return memory.SessionConfig(**fields)


def shown(calls: Calls, session_id: str) -> list[str]:
    """Roles, of calls and results with their ids."""
    labels = []
    for message in calls.Get(session_id=session_id).messages:
        if not message.message_id:  # Of a block.
            continue
        calls_made = [p.tool_call.call_id for p in message.parts if p.HasField("tool_call")]
        answered = [p.tool_result.call_id for p in message.parts if p.HasField("tool_result")]
        labels.append(" ".join([message.role, *calls_made, *answered]))
    return labels


@pytest.mark.parametrize(("human", "model"), [
    ("user", "assistant"), ("human", "gpt"), ("human", "ai"), ("customer", "agent"),
    ("User", "Assistant"), ("developer", "assistant"), ("step", "step"), ("Client", "bot"),
    ("end-user", "model"), ("prompter", "assistant"),
])
def test_the_limit_holds_for_every_pair_of_roles(calls, session_id, human, model):
    for turn in range(40):
        calls.Put(session_id=session_id, config=small(),
                  messages=[said(human, f"question {turn} {WORDS}"), said(model, f"answer {WORDS}")])
        context = calls.Get(session_id=session_id)
        pinned = sum(m.token_count for m in context.messages if m.role == "developer")
        assert context.token_count <= 100 + pinned
        assert context.over_limit_tokens <= pinned
    assert calls.GetSession(session_id=session_id).session.archived_count > 40


def test_one_question_with_fifty_steps_keeps_its_question_and_its_newest_step(calls, session_id):
    blocks = [memory.Block(name="seen", kind="static", content=[memory.Part(text="x")])]
    calls.Put(session_id=session_id, config=small(blocks=blocks), messages=[user("the question")])
    for step in range(50):
        calls.Put(session_id=session_id, messages=[call(f"a{step}", f"b{step}"), result(f"a{step}")])
        calls.Put(session_id=session_id, messages=[result(f"b{step}")])
        context = calls.Get(session_id=session_id)
        assert context.over_limit_tokens == 0 and context.token_count <= 100, step
        labels = shown(calls, session_id)
        assert labels[0] == "user"
        assert labels[-3:] == [f"assistant a{step} b{step}", f"tool a{step}", f"tool b{step}"]
    log = calls.all_messages(session_id)
    assert len(log) == 151
    assert log[0].status == memory.MESSAGE_STATUS_ARCHIVED, "it was fed with its first steps"
    drained(calls, session_id)
    # Its turn is over: it leaves what is shown with the rest of it.
    calls.Put(session_id=session_id, messages=[user(" ".join([WORDS] * 9))])
    assert shown(calls, session_id) == ["user"]
    assert len(calls.all_messages(session_id)) == 152


def test_a_session_names_further_roles_of_the_human_side(calls, session_id):
    calls.Put(session_id=session_id, config=small(), messages=[
        said("bot", "hello"), said("Boss", "do it"), said("bot", "done")])
    assert shown(calls, session_id) == ["bot", "Boss", "bot"]
    config = memory.SessionConfig(user_roles=["boss"])
    session = calls.UpdateSession(session_id=session_id, config=config).session
    assert list(session.config.user_roles) == ["boss"]
    assert shown(calls, session_id) == ["Boss", "bot"]
    calls.Put(session_id=session_id, messages=[said("BOSS", "more")])
    assert shown(calls, session_id) == ["Boss", "bot", "BOSS"]
    stored = [m.role for m in calls.all_messages(session_id)]
    assert stored == ["bot", "Boss", "bot", "BOSS"], "as sent"


@pytest.mark.parametrize(("roles", "field"), [
    (["assistant"], "config.user_roles[0]"), (["ok", "tool"], "config.user_roles[1]"),
    ([""], "config.user_roles[0]"), (["x" * 65], "config.user_roles[0]"),
    ([f"role {i}" for i in range(17)], "config.user_roles"),
])
def test_roles_that_are_not_of_the_human_side_are_refused(calls, session_id, roles, field):
    error = refusal(calls.CreateSession, session_id=session_id,
                    config=memory.SessionConfig(user_roles=roles))
    assert field in error.details()


def test_a_result_stands_behind_its_call_however_late_it_comes(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("q"), call("1", "2"), user("hurry"), result("2")])
    assert shown(calls, session_id) == ["user", "user"], "the call waits, but is not the newest"
    calls.Put(session_id=session_id, messages=[result("1", role="user")])
    assert shown(calls, session_id) == ["user", "assistant 1 2", "tool 2", "user 1", "user"]


def test_a_result_whose_call_has_left_is_not_shown(calls, session_id):
    calls.Put(session_id=session_id, config=small(), messages=[user("q"), call("late")])
    for turn in range(10):
        calls.Put(session_id=session_id, messages=[user(f"{turn} {WORDS}"), said("assistant")])
    calls.Put(session_id=session_id, messages=[result("late"), said("assistant", "so")])
    assert not [label for label in shown(calls, session_id) if "late" in label]
    assert len(calls.all_messages(session_id)) == 24


def test_the_newest_unit_waits_for_its_results(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("q"), call("1", "2"), result("1")])
    assert shown(calls, session_id) == ["user", "assistant 1 2", "tool 1"]
    calls.Put(session_id=session_id, messages=[user("never mind")])
    assert shown(calls, session_id) == ["user", "user"]


def test_a_context_begins_with_a_humans_message(calls, session_id):
    calls.Put(session_id=session_id, messages=[
        said("system", "s"), said("assistant", "welcome"), user("hi"), said("assistant", "hello")])
    assert shown(calls, session_id) == ["system", "user", "assistant"]
    assert len(calls.all_messages(session_id)) == 4


def test_what_opens_a_turn_lives_on_by_reset_update_and_delete(calls, session_id):
    calls.Put(session_id=session_id, config=small(), messages=[user("question")])
    for step in range(12):
        calls.Put(session_id=session_id, messages=[said("assistant", f"{step} {WORDS}")])
    assert shown(calls, session_id)[0] == "user"
    opening = calls.all_messages(session_id)[0]
    calls.UpdateMessage(session_id=session_id, message_id=opening.message_id, text="changed")
    assert calls.Get(session_id=session_id).messages[0].text == "changed"
    calls.Reset(session_id=session_id, scope="RESET_SCOPE_ARCHIVED")
    left = calls.all_messages(session_id)
    assert [m.role for m in left[:2]] == ["user", "assistant"] and left[0].text == "changed"
    assert calls.GetSession(session_id=session_id).session.archived_count == 1
    assert calls.Get(session_id=session_id).messages[0].text == "changed"
    calls.DeleteMessage(session_id=session_id, message_id=opening.message_id)
    assert "user" not in shown(calls, session_id)
    assert calls.GetSession(session_id=session_id).session.archived_count == 0
    assert [m.message_id for m in calls.all_messages(session_id)] == [m.message_id for m in left[1:]]


def test_a_fork_and_an_import_show_what_opens_the_turn(calls, session_id):
    calls.Put(session_id=session_id, config=small(), messages=[user("question")])
    for step in range(12):
        calls.Put(session_id=session_id, messages=[said("assistant", f"{step} {WORDS}")])
    before = shown(calls, session_id)
    calls.ForkSession(session_id=session_id, new_session_id=f"{session_id} fork")
    assert shown(calls, f"{session_id} fork") == before
    calls.import_session(f"{session_id} import", calls.all_messages(session_id), config=small())
    assert shown(calls, f"{session_id} import") == before


@pytest.mark.parametrize("keep", [1, 2, 3, 5, 8])
def test_retention_leaves_what_a_model_accepts(calls, session_id, keep):
    config = memory.SessionConfig(policy="buffer",
                                  retention=memory.Retention(keep_messages=keep))
    for turn in range(3):
        calls.Put(session_id=session_id, config=config, messages=[user(f"question {turn}")])
        for step in range(4):
            name = f"{turn}-{step}"
            calls.Put(session_id=session_id, messages=[call(f"a{name}", f"b{name}")])
            calls.Put(session_id=session_id, messages=[result(f"b{name}"), result(f"a{name}")])
            labels = shown(calls, session_id)
            assert labels[0] == "user"
            assert labels[-3:] == [f"assistant a{name} b{name}", f"tool b{name}", f"tool a{name}"]
            assert len(labels) % 3 == 1
            assert len(calls.all_messages(session_id)) <= max(keep, 4)


def test_halves_that_a_delete_made_are_not_shown_by_a_librarys_profile(calls, session_id):
    config = memory.SessionConfig(profile="llama-index", retention=memory.Retention(keep_messages=2))
    calls.Put(session_id=session_id, config=config, messages=[
        user("q"), call("1"), user("hurry"), result("1")])
    assert shown(calls, session_id) == ["user"]
    assert len(calls.all_messages(session_id)) == 2
