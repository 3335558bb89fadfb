"""What is put comes back: every kind of part, order, counts, contents."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf import timestamp_pb2

from support.calls import Calls, assistant, memory, refusal, user, wire
from support.server import Server

NUL_AND_MORE = "a\0b \U0001f600 e\u0301 \u202e \r\n\t\\ end"
ALL_BYTES = bytes(range(256))

EVERY_MEDIA_FIELD = memory.Media(
    data=ALL_BYTES, url="https://example.com/a?b=c#d", path="/pictures/x y.png", mime_type="image/png",
    format="png", title=NUL_AND_MORE, detail="low", fps=29.97, token_count=12,
)
EVERY_KIND = [
    memory.Part(text=NUL_AND_MORE),
    memory.Part(text=""),
    memory.Part(image=EVERY_MEDIA_FIELD),
    memory.Part(audio=memory.Media(data=b"", format="mp3")),
    memory.Part(video=memory.Media(url="", fps=0.0)),
    memory.Part(document=memory.Media(title="t", mime_type="application/pdf", token_count=0)),
    memory.Part(tool_call=memory.ToolCall(call_id="c1", name="search",
                                          arguments_json='{"z": 1.0, "a": 1, "z2": 1e5}')),
    memory.Part(tool_call=memory.ToolCall(name="f", arguments_json="not json \0")),
    memory.Part(tool_result=memory.ToolResult(call_id="c1", name="search", text=NUL_AND_MORE,
                                              is_error=True)),
    memory.Part(thinking=memory.Thinking(text=NUL_AND_MORE, signature="s", token_count=0,
                                         additional_json='{"b": 1, "a": 2}')),
    memory.Part(thinking=memory.Thinking()),
    memory.Part(citation=memory.Citation(cited_text="c", source="s", title="t",
                                         location_json='{"start": 3}')),
    memory.Part(json='{"b":  1.0, "a": [1, 2.50, 12345678901234567890, "é"]}'),
    memory.Part(opaque=memory.Opaque(type="cache", data=ALL_BYTES * 3)),
]
METADATA = (
    '{"z": 1.0, "a": 1,  "big": 123456789012345678901234567890, '
    '"s": "it\'s é \\"q\\"", "n": null}'
)


def sent(message: memory.Message) -> memory.Message:
    """A message as stored, less what the server adds to it."""
    copy = memory.Message()
    copy.CopyFrom(message)
    for field in ("message_id", "token_count", "position", "status", "ingest_time"):
        copy.ClearField(field)
    return copy


@pytest.fixture(params=("default", "llama-index"))
def profile(request):
    return memory.SessionConfig(profile=request.param)


def test_every_kind_of_part_comes_back_byte_for_byte(calls, session_id, profile):
    message = memory.Message(
        role="user", name="Zoë \0 x", parts=EVERY_KIND, metadata_json=METADATA,
        thread_id="thread/1",
        create_time=timestamp_pb2.Timestamp(seconds=-5, nanos=123456000),
    )
    calls.Put(session_id=session_id, messages=[message], config=profile)
    for found in (calls.all_messages(session_id), calls.Get(session_id=session_id).messages):
        assert len(found) == 1
        assert sent(found[0]).SerializeToString(deterministic=True) == (
            message.SerializeToString(deterministic=True))
        assert found[0].HasField("token_count") and found[0].HasField("ingest_time")


@pytest.mark.parametrize("part", EVERY_KIND, ids=lambda part: part.WhichOneof("kind"))
def test_a_part_alone_comes_back(calls, session_id, part):
    calls.Put(session_id=session_id, messages=[memory.Message(role="tool", parts=[part])])
    found = calls.all_messages(session_id)[0]
    if part.WhichOneof("kind") == "text":
        assert found.text == part.text and found.HasField("text") and not found.parts
    else:
        assert list(found.parts) == [part] and not found.HasField("text")


def test_text_and_one_text_part_are_the_same_message(calls, session_id):
    calls.Put(session_id=session_id, messages=[
        user("x"), memory.Message(role="user", parts=[memory.Part(text="x")]),
        memory.Message(role="user", parts=[memory.Part(text="x"), memory.Part(text="y")]),
        memory.Message(role="user")])
    one, two, both, none = map(sent, calls.all_messages(session_id))
    assert one == two == user("x")
    assert [p.text for p in both.parts] == ["x", "y"] and not both.HasField("text")
    assert none == memory.Message(role="user")


def test_a_message_outlives_kill_and_restart_byte_for_byte(store):
    message = memory.Message(role="user", parts=EVERY_KIND, metadata_json=METADATA)
    # Where a Get shows a call without its result, too.
    config = memory.SessionConfig(profile="llama-index")
    with Server(store) as server, server.channel() as channel:
        Calls(channel).Put(session_id="s", messages=[message, user(NUL_AND_MORE)], config=config)
        server.kill()
    with Server(store) as server, server.channel() as channel:
        found = Calls(channel).all_messages("s")
        assert [sent(m) for m in found] == [message, user(NUL_AND_MORE)]
        assert [sent(m) for m in Calls(channel).Get(session_id="s").messages] == (
            [message, user(NUL_AND_MORE)])


def test_a_reply_tells_where_the_messages_went(calls, session_id):
    first = calls.Put(session_id=session_id, messages=[user("a"), assistant("b")])
    second = calls.Put(session_id=session_id, messages=[user("c", message_id="mine")])
    assert second.revision > first.revision
    assert second.generation == first.generation != 0
    assert list(second.message_ids) == ["mine"]
    positions = [*first.positions, *second.positions]
    assert positions == sorted(set(positions))
    found = calls.all_messages(session_id)
    assert [m.position for m in found] == positions
    assert [m.message_id for m in found] == [*first.message_ids, "mine"]


def test_an_empty_put_creates_the_session_and_stores_nothing(calls, session_id):
    config = memory.SessionConfig(token_limit=123)
    reply = calls.Put(session_id=session_id, config=config)
    assert not reply.positions
    session = calls.GetSession(session_id=session_id).session
    assert session.config.token_limit == 123 and session.active_count == 0
    calls.Put(session_id=session_id)
    assert calls.all_messages(session_id) == []


def test_set_replaces_all_and_counts(calls, session_id):
    before = calls.Put(session_id=session_id, messages=[user("a"), user("b")])
    reply = calls.Set(session_id=session_id, messages=[user("c")])
    assert reply.removed_count == 2 and len(reply.positions) == 1
    assert reply.generation != before.generation and reply.revision > before.revision
    assert [m.text for m in calls.all_messages(session_id)] == ["c"]
    assert [m.text for m in calls.Get(session_id=session_id).messages] == ["c"]
    emptied = calls.Set(session_id=session_id)
    assert emptied.removed_count == 1
    assert calls.all_messages(session_id) == []


def test_set_creates_an_unknown_session(calls, session_id):
    assert calls.Set(session_id=session_id, messages=[user("a")]).removed_count == 0
    assert [m.text for m in calls.all_messages(session_id)] == ["a"]


@pytest.mark.parametrize("scope", wire.ResetScope.values())
def test_reset_of_an_unknown_session_is_ok_and_creates_nothing(calls, session_id, scope):
    reply = calls.Reset(session_id=session_id, scope=scope)
    counts = (reply.revision, reply.active_count, reply.archived_count, reply.content_count)
    assert counts == (0, 0, 0, 0)
    assert refusal(calls.GetSession, session_id=session_id).code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("scope, kept", (
    (wire.RESET_SCOPE_UNSPECIFIED, ()),
    (wire.RESET_SCOPE_MESSAGES, ()),
    (wire.RESET_SCOPE_ACTIVE, ("archived",)),
    (wire.RESET_SCOPE_ARCHIVED, ("active",)),
    (wire.RESET_SCOPE_EVERYTHING, ()),
))
def test_reset_removes_what_its_scope_says(calls, session_id, scope, kept):
    config = memory.SessionConfig(profile="llama-index", token_limit=20, token_flush_size=2,
                                  tokenizer="whitespace", chat_history_token_ratio=0.5)
    calls.CreateSession(session_id=session_id, config=config)
    calls.Put(session_id=session_id, messages=[user(f"m{i}") for i in range(25)])
    by_status = {
        "archived": [m.text for m in calls.all_messages(
            session_id, status=memory.MESSAGE_STATUS_ARCHIVED)],
        "active": [m.text for m in calls.all_messages(
            session_id, status=memory.MESSAGE_STATUS_ACTIVE)],
    }
    assert all(by_status.values())
    reply = calls.Reset(session_id=session_id, scope=scope)
    removed = {status: 0 if status in kept else len(texts) for status, texts in by_status.items()}
    assert (reply.active_count, reply.archived_count) == (removed["active"], removed["archived"])
    left = [text for status in kept for text in by_status[status]]
    assert [m.text for m in calls.all_messages(session_id)] == left
    session = calls.GetSession(session_id=session_id).session
    assert session.config.token_limit == 20
    assert session.active_count + session.archived_count == len(left)
    calls.Put(session_id=session_id, messages=[user("after")])
    assert [m.text for m in calls.all_messages(session_id)] == [*left, "after"]


def test_get_takes_an_input_and_keeps_it_nowhere(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("a")])
    revision = calls.GetSession(session_id=session_id).session.revision
    reply = calls.Get(session_id=session_id, input="what next?")
    assert [m.text for m in reply.messages] == ["a"]
    assert reply.revision == revision
    assert calls.GetSession(session_id=session_id).session.revision == revision
