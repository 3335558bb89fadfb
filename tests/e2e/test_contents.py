"""Contents: what is put comes back, by itself and behind the messages, until it is removed."""

from __future__ import annotations

import threading

import grpc
import pytest

from support.calls import Calls, memory, note, reason, refusal, user, wire
from support.server import Server

Content, Media = memory.Content, memory.Media

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
MIB = 1024 * 1024
NUL_AND_MORE = "a\0b \U0001f600 e\u0301 \u202e \r\n\t\\ end"
METADATA = '{"z": 1.0, "a": 1,  "big": 123456789012345678901234567890, "n": null}'
PICTURE = bytes(range(256)) * (3 * MIB // 256)

# AutoGen's five MIME types, and what else the wire holds.
EVERY_KIND = [
    Content(mime_type="text/plain", text=NUL_AND_MORE, metadata_json=METADATA),
    Content(mime_type="application/json",
            json='{"b":  1.0, "a": [1, 2.50, 12345678901234567890, "é"]}'),
    Content(mime_type="text/markdown", text="# Title\n\n* é\n"),
    Content(mime_type="image/*", image=Media(
        data=b"\x89PNG\r\n\x1a\n\0" + bytes(range(256)), url="https://example.com/a?b=c#d",
        path="/pictures/x y.png", mime_type="image/png", detail="low", token_count=12)),
    Content(mime_type="application/octet-stream", bytes_value=bytes(range(256)) * 3),
    Content(mime_type="text/plain", text=""),
    Content(mime_type="custom/type; a=\"b\"", bytes_value=b""),
    Content(mime_type="application/json", json="null", metadata_json="{}"),
    Content(mime_type="image/png", image=Media()),
]


def sent(content: Content) -> Content:
    """A content as stored, less what the server adds to it."""
    copy = Content()
    copy.CopyFrom(content)
    for field in ("content_id", "position", "ingest_time"):
        copy.ClearField(field)
    return copy


def bytes_of(contents) -> list[bytes]:
    return [sent(content).SerializeToString(deterministic=True) for content in contents]


def texts(contents) -> list[str]:
    return [content.text for content in contents]


def count(calls, session_id: str) -> int:
    return calls.GetSession(session_id=session_id).session.content_count


@pytest.mark.parametrize("profile", ("default", "llama-index", "autogen-list"))
def test_every_kind_comes_back_byte_for_byte(calls, session_id, profile):
    calls.Put(session_id=session_id, contents=EVERY_KIND,
              config=memory.SessionConfig(profile=profile))
    found = calls.all_contents(session_id)
    assert bytes_of(found) == bytes_of(EVERY_KIND)
    assert [c.WhichOneof("value") for c in found] == [c.WhichOneof("value") for c in EVERY_KIND]
    positions = [c.position for c in found]
    assert positions == sorted(set(positions)) and positions[0] > 0
    assert all(c.content_id and c.HasField("ingest_time") for c in found)
    assert count(calls, session_id) == len(EVERY_KIND)
    assert not calls.Get(session_id=session_id).messages


def test_contents_outlive_kill_and_restart_byte_for_byte(store):
    picture = Content(mime_type="image/*", image=Media(data=PICTURE, mime_type="image/png"))
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="s", contents=EVERY_KIND, messages=[user("m")])
        calls.Put(session_id="s", contents=[picture])
        before = calls.all_contents("s")
        server.kill()
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        assert calls.all_contents("s") == before
        assert bytes_of(before) == bytes_of([*EVERY_KIND, picture])
        assert before[-1].image.data == PICTURE
        assert [m.text for m in calls.all_messages("s")] == ["m"]
        assert count(calls, "s") == len(EVERY_KIND) + 1


def test_a_reply_names_the_ids_given_and_derived(calls, session_id):
    reply = calls.Put(session_id=session_id,
                      contents=[note("a"), note("b", content_id="mine"), note("c")])
    more = calls.Put(session_id=session_id, contents=[note("d")], messages=[user("m")])
    assert reply.content_ids[1] == "mine" and not reply.message_ids
    ids = [*reply.content_ids, *more.content_ids]
    assert len(set(ids)) == 4
    assert [c.content_id for c in calls.all_contents(session_id)] == ids
    assert texts(calls.all_contents(session_id)) == ["a", "b", "c", "d"]
    assert len(more.message_ids) == len(more.positions) == 1


def test_what_the_server_sets_is_ignored_on_requests(calls, session_id):
    calls.Put(session_id=session_id, contents=[note("a", position=77, ingest_time={"seconds": 1})])
    found, = calls.all_contents(session_id)
    assert found.position == 1 and found.ingest_time.seconds > 1_700_000_000


def test_an_id_that_is_stored_is_refused_and_nothing_of_the_put_is_kept(calls, session_id):
    calls.Put(session_id=session_id, contents=[note("a", content_id="x")])
    error = refusal(calls.Put, session_id=session_id, messages=[user("m")],
                    contents=[note("b"), note("c", content_id="x")])
    assert (error.code(), reason(error)) == (grpc.StatusCode.ALREADY_EXISTS, "MESSAGE_ID_EXISTS")
    assert texts(calls.all_contents(session_id)) == ["a"]
    assert calls.all_messages(session_id) == []
    assert count(calls, session_id) == 1
    # A message has ids of its own.
    calls.Put(session_id=session_id, messages=[user("m", message_id="x")])
    calls.Set(session_id=session_id, contents=[note("new", content_id="x")])
    assert texts(calls.all_contents(session_id)) == ["new"]


def test_set_replaces_contents_and_counts(calls, session_id):
    first = calls.Put(session_id=session_id, messages=[user("m")], contents=[note("a"), note("b")])
    reply = calls.Set(session_id=session_id, contents=[note("c", content_id="c"), note("d")])
    assert (reply.removed_count, reply.removed_content_count) == (1, 2)
    assert reply.content_ids[0] == "c" and reply.content_ids[1] not in first.content_ids
    assert texts(calls.all_contents(session_id)) == ["c", "d"]
    assert calls.all_messages(session_id) == []
    emptied = calls.Set(session_id=session_id, messages=[user("only")])
    assert (emptied.removed_count, emptied.removed_content_count) == (0, 2)
    assert calls.all_contents(session_id) == []
    assert count(calls, session_id) == 0
    calls.Put(session_id=session_id, contents=[note("e")])
    assert texts(calls.all_contents(session_id)) == ["e"]


@pytest.mark.parametrize("profile, scope, contents_go", (
    ("default", wire.RESET_SCOPE_UNSPECIFIED, True),
    ("autogen-list", wire.RESET_SCOPE_UNSPECIFIED, True),
    ("llama-index", wire.RESET_SCOPE_UNSPECIFIED, False),
    ("default", wire.RESET_SCOPE_EVERYTHING, True),
    ("llama-index", wire.RESET_SCOPE_EVERYTHING, True),
    ("default", wire.RESET_SCOPE_MESSAGES, False),
    ("autogen-list", wire.RESET_SCOPE_MESSAGES, False),
    ("default", wire.RESET_SCOPE_ACTIVE, False),
    ("default", wire.RESET_SCOPE_ARCHIVED, False),
))
def test_reset_takes_contents_with_everything_only(
        calls, session_id, profile, scope, contents_go):
    calls.Put(session_id=session_id, messages=[user("m")], contents=[note("a"), note("b")],
              config=memory.SessionConfig(profile=profile))
    reply = calls.Reset(session_id=session_id, scope=scope)
    assert reply.content_count == (2 if contents_go else 0)
    left = [] if contents_go else ["a", "b"]
    assert texts(calls.all_contents(session_id)) == left
    assert count(calls, session_id) == len(left)
    archived = scope == wire.RESET_SCOPE_ARCHIVED
    assert [m.text for m in calls.all_messages(session_id)] == (["m"] if archived else [])
    calls.Put(session_id=session_id, contents=[note("c")])
    assert texts(calls.all_contents(session_id)) == [*left, "c"]


def test_delete_takes_contents_and_counts(calls, session_id):
    first = calls.Put(session_id=session_id, contents=[note("a", content_id="x"), note("b")])
    assert calls.DeleteSession(session_id=session_id).content_count == 2
    assert calls.all_contents(session_id) == []
    again = calls.Put(session_id=session_id, contents=[note("c", content_id="x"), note("d")])
    assert again.content_ids[1] not in first.content_ids
    assert texts(calls.all_contents(session_id)) == ["c", "d"]


def test_a_repeated_request_answers_with_the_ids_as_before(calls, session_id):
    for call, request_id in ((calls.Put, "put"), (calls.Set, "set")):
        fields = {"session_id": session_id, "request_id": request_id,
                  "contents": [note("a"), note("b", content_id=request_id)]}
        first, second = call(**fields), call(**fields)
        assert len(first.content_ids) == 2 and second.replayed and not first.replayed
        first.replayed = True
        assert first == second
    assert texts(calls.all_contents(session_id)) == ["a", "b"]
    other = refusal(calls.Put, session_id=session_id, request_id="put",
                    contents=[note("a"), note("b", content_id="put", metadata_json='{"a": 1}')])
    assert reason(other) == "REQUEST_ID_REUSED"
    reset = calls.Reset(session_id=session_id, request_id="reset")
    again = calls.Reset(session_id=session_id, request_id="reset")
    assert (reset.content_count, again.content_count, again.replayed) == (2, 2, True)


def test_a_thousand_contents_beside_a_thousand_messages(calls, session_id):
    reply = calls.Put(session_id=session_id, messages=[user(f"m{i}") for i in range(1000)],
                      contents=[note(f"c{i}") for i in range(1000)])
    assert len(reply.content_ids) == len(reply.message_ids) == 1000
    found = calls.all_contents(session_id)
    assert texts(found) == [f"c{i}" for i in range(1000)]
    assert [c.content_id for c in found] == list(reply.content_ids)


# Pages.


@pytest.mark.parametrize("page_size", (1, 7, 12, 13, 25, 26))
def test_pages_go_over_messages_and_then_contents(calls, session_id, page_size):
    calls.Put(session_id=session_id, messages=[user(f"m{i}") for i in range(12)])
    calls.Put(session_id=session_id, contents=[note(f"c{i}") for i in range(13)])
    seen, sizes = [], []
    for page in calls.pages(session_id, page_size, include_contents=True):
        here = [m.text for m in page.messages] + texts(page.contents)
        sizes.append(len(here))
        seen += here
    assert seen == [f"m{i}" for i in range(12)] + [f"c{i}" for i in range(13)]
    assert sizes == [page_size] * (25 // page_size) + [25 % page_size] * (25 % page_size > 0)


def test_contents_are_left_out_unless_asked_for(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("m")], contents=[note("c")])
    page, = calls.pages(session_id, 1)
    assert texts(page.messages) == ["m"] and not page.contents
    active = list(calls.pages(session_id, include_contents=True,
                              status=memory.MESSAGE_STATUS_ACTIVE))
    assert [texts(page.contents) for page in active] == [["c"]]


def test_a_page_of_contents_ends_at_about_a_mebibyte_and_none_is_lost(calls, session_id):
    sizes = [400_000, 400_000, 10, MIB, 1, 500_000, 500_000, 500_000]
    calls.Put(session_id=session_id, messages=[user("m" * 600_000)])
    for index, size in enumerate(sizes):
        calls.Put(session_id=session_id, contents=[note(chr(97 + index) * size)])
    picture = Content(mime_type="image/*", image=Media(data=PICTURE))
    calls.Put(session_id=session_id, contents=[picture])
    seen, pages = [], 0
    for page in calls.pages(session_id, 1000, include_contents=True):
        pages += 1
        assert page.messages or page.contents
        # A single content may be larger than a page.
        assert len(page.messages) + len(page.contents) == 1 or page.ByteSize() <= 2.2 * MIB
        seen += page.contents
    assert [len(c.text) for c in seen[:-1]] == sizes
    assert seen[-1].image.data == PICTURE
    assert pages >= 5


def test_a_token_serves_only_the_request_it_was_given_for(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("m")] * 2, contents=[note("c")] * 3)
    plain = calls.GetAll(session_id=session_id, page_size=1).next_page_token
    pages = list(calls.pages(session_id, 1, include_contents=True))
    in_messages, in_contents = pages[0].next_page_token, pages[2].next_page_token
    assert pages[2].contents and in_contents
    active = memory.MESSAGE_STATUS_ACTIVE
    for fields in (
        {"page_token": in_messages},
        {"page_token": in_contents},
        {"page_token": plain, "include_contents": True},
        {"page_token": in_contents, "include_contents": True, "status": active},
    ):
        error = refusal(calls.GetAll, session_id=session_id, page_size=1, **fields)
        assert error.code() == INVALID and "page_token" in error.details(), fields
    rest = calls.GetAll(session_id=session_id, include_contents=True, page_token=in_contents)
    assert len(rest.contents) == 2 and not rest.messages


@pytest.mark.parametrize("replace", (
    lambda calls, s: calls.Set(session_id=s, contents=[note("new")] * 9),
    lambda calls, s: calls.Reset(session_id=s),
), ids=("set", "reset"))
def test_a_token_of_replaced_contents_is_aborted(calls, session_id, replace):
    calls.Put(session_id=session_id, contents=[note("c")] * 5)
    token = calls.GetAll(session_id=session_id, page_size=3,
                         include_contents=True).next_page_token
    replace(calls, session_id)
    error = refusal(calls.GetAll, session_id=session_id, page_size=3, page_token=token,
                    include_contents=True)
    assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "SESSION_REPLACED")


def test_contents_that_come_between_pages_are_read_at_the_end(calls, session_id):
    calls.Put(session_id=session_id, contents=[note(f"c{i}") for i in range(5)])
    pages = calls.pages(session_id, 3, include_contents=True)
    seen = texts(next(pages).contents)
    calls.Put(session_id=session_id, contents=[note("late")])
    for page in pages:
        seen += texts(page.contents)
    assert seen == ["c0", "c1", "c2", "c3", "c4", "late"]


# What is refused.

BAD_CONTENTS = [
    ("contents", [note("x")] * 1001),
    ("contents[0]", [Content(mime_type="text/plain")]),
    ("contents[1].mime_type", [note("x"), note("x", mime_type="")]),
    ("contents[0].mime_type", [note("x", mime_type="m" * 129)]),
    ("contents[0].mime_type", [note("x", mime_type="text/\nplain")]),
    ("contents[0].text", [note("x" * (MIB + 1))]),
    ("contents[0].json", [Content(mime_type="application/json", json="{")]),
    ("contents[0].json", [Content(mime_type="application/json", json="")]),
    ("contents[0].json", [Content(mime_type="application/json", json="NaN")]),
    ("contents[0].json", [Content(mime_type="application/json", json="[" * 65 + "]" * 65)]),
    ("contents[0].json", [Content(mime_type="application/json", json='"' + "x" * MIB + '"')]),
    ("contents[0].image.token_count",
     [Content(mime_type="image/*", image=Media(token_count=-1))]),
    *(("contents[0].metadata_json", [note("x", metadata_json=value)])
      for value in ("{", "[]", "1", '{"a": 1, "a": 2}', '{"a": "' + "x" * (256 * 1024) + '"}')),
    *(("contents[0].content_id", [note("x", content_id=value)])
      for value in ("i" * 129, "a\0b", "a\u200bb")),
    ("contents[2].content_id", [note("x", content_id="i"), note("x"), note("y", content_id="i")]),
]


@pytest.mark.parametrize("rpc", ("Put", "Set"))
@pytest.mark.parametrize("field, contents", BAD_CONTENTS, ids=lambda value: str(value)[:32])
def test_refuses_names_the_field_and_stores_nothing(calls, session_id, rpc, field, contents):
    error = refusal(getattr(calls, rpc), session_id=session_id, messages=[user("m")],
                    contents=contents)
    assert error.code() == INVALID, error.details()
    assert error.details().startswith(f"{field}:"), error.details()
    assert len(error.details()) < 1000
    missing = refusal(calls.GetSession, session_id=session_id)
    assert missing.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("kind", ("bytes_value", "image"))
def test_refuses_a_request_over_36_mebibytes(calls, session_id, kind):
    data = bytes(37 * MIB)
    value = Media(data=data) if kind == "image" else data
    error = refusal(calls.Put, session_id=session_id,
                    contents=[Content(mime_type="image/*", **{kind: value})])
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("text", (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80"),
                         ids=lambda text: text.hex())
def test_refuses_text_that_is_not_utf8(calls, session_id, text):
    request = wire.PutRequest(session_id=session_id, contents=[note("q" * len(text))])
    payload = request.SerializeToString().replace(b"q" * len(text), text)
    put = calls.channel.unary_unary("/memoryd.v1.MemoryService/Put")
    assert refusal(put, payload, timeout=30).code() == INVALID
    assert refusal(calls.GetSession, session_id=session_id).code() == grpc.StatusCode.NOT_FOUND


def test_takes_what_lies_exactly_on_the_limits(calls, session_id):
    contents = [
        note("x" * MIB, content_id="i" * 128, mime_type="m" * 128),
        Content(mime_type="application/json", json='"' + "x" * (64 * 1024) + '"'),
        note("x", metadata_json='{"a": ' * 64 + "1" + "}" * 64),
    ]
    calls.Put(session_id=session_id, contents=contents)
    assert bytes_of(calls.all_contents(session_id)) == bytes_of(contents)


def found(calls, session_id: str, query: str) -> list[str]:
    results = calls.Query(session_id=session_id, query=query).results
    return [result.content.text for result in results if result.HasField("content")]


WORDS_ALONE = memory.SessionConfig(retrieval=memory.Retrieval(vector_weight=0))


def test_one_is_read_changed_and_deleted_by_its_id(calls, session_id):
    ids = calls.Put(session_id=session_id, config=WORDS_ALONE, messages=[user("parrot or owl")],
                    contents=[note("a parrot", content_id="a", metadata_json='{"k":1}'),
                              note("a hamster"), note("a tortoise")]).content_ids
    before = calls.all_contents(session_id)
    for content in before:
        got = calls.GetContent(session_id=session_id, content_id=content.content_id)
        assert got.content == content
        assert got.revision == calls.GetSession(session_id=session_id).session.revision

    reply = calls.UpdateContent(session_id=session_id, content_id="a", text="an owl")
    wanted = Content()
    wanted.CopyFrom(before[0])
    wanted.text = "an owl"
    assert reply.position == 1 and not reply.replayed
    assert calls.GetContent(session_id=session_id, content_id="a").content == wanted
    assert calls.all_contents(session_id) == [wanted, *before[1:]]
    assert found(calls, session_id, "parrot") == [] and found(calls, session_id, "owl") == ["an owl"]

    # A value of another kind, and what is not given stays.
    calls.UpdateContent(session_id=session_id, content_id=ids[1], json='{"x": 1.0}',
                        mime_type="application/json", metadata_json='{"k": 2}',
                        expected_revision=reply.revision)
    changed = calls.GetContent(session_id=session_id, content_id=ids[1]).content
    assert (changed.json, changed.mime_type, changed.metadata_json, changed.position) == (
        '{"x": 1.0}', "application/json", '{"k": 2}', 2)
    calls.UpdateContent(session_id=session_id, content_id=ids[1], metadata_json="")
    after = calls.GetContent(session_id=session_id, content_id=ids[1]).content
    assert (after.json, after.metadata_json) == ('{"x": 1.0}', "")

    gone = calls.DeleteContent(session_id=session_id, content_id="a")
    assert gone.position == 1
    assert found(calls, session_id, "owl") == []
    assert [c.content_id for c in calls.all_contents(session_id)] == ids[1:]
    assert count(calls, session_id) == 2
    for call in (calls.GetContent, calls.DeleteContent):
        error = refusal(call, session_id=session_id, content_id="a")
        assert (error.code(), reason(error)) == (NOT_FOUND, "CONTENT_NOT_FOUND")
    # Its id is free, its position is not.
    calls.Put(session_id=session_id, contents=[note("new", content_id="a")])
    assert [c.position for c in calls.all_contents(session_id, page_size=1)] == [2, 3, 4]
    assert calls.GetAll(session_id=session_id, include_contents=True,
                        include_total=True).total_count == 4


def test_whatever_reads_contents_follows_a_deletion(calls, session_id):
    calls.Put(session_id=session_id, contents=[note(f"n{i}", content_id=f"n{i}") for i in range(6)])
    for name in ("n0", "n3", "n5"):
        calls.DeleteContent(session_id=session_id, content_id=name)
    left = ["n1", "n2", "n4"]
    calls.UpdateContent(session_id=session_id, content_id="n2", text="two")
    shown = ["n1", "two", "n4"]
    assert texts(calls.all_contents(session_id)) == shown
    context = calls.UpdateContext(session_id=session_id, messages=[user("hello")])
    inserted = context.insertions[0].message
    assert [line for line in shown if line in inserted.text] == shown
    assert "n3" not in inserted.text
    fork = session_id + "-fork"
    calls.ForkSession(session_id=session_id, new_session_id=fork)
    assert texts(calls.all_contents(fork)) == shown
    stored = calls.all_contents(session_id)
    copy = session_id + "-copy"
    calls.import_session(copy, contents=stored)
    assert calls.all_contents(copy) == stored
    assert texts([calls.GetContent(session_id=copy, content_id=name).content
                  for name in left]) == shown
    # The list of all of them, as AutoGen has it.
    calls.CreateSession(session_id=session_id + "-list",
                        config=memory.SessionConfig(profile="autogen-list"))
    calls.Put(session_id=session_id + "-list", contents=[
        note(f"n{i}", content_id=f"n{i}") for i in range(6)])
    calls.DeleteContent(session_id=session_id + "-list", content_id="n0")
    listed = calls.Query(session_id=session_id + "-list", query="").results
    assert [r.content.text for r in listed] == ["n1", "n2", "n3", "n4", "n5"]


def test_content_changes_are_done_once_and_refused_by_name(calls, session_id):
    calls.Put(session_id=session_id, contents=[note("x", content_id="a"),
                                               note("y", content_id="b")])
    update = {"session_id": session_id, "content_id": "a", "text": "z", "request_id": "u"}
    delete = {"session_id": session_id, "content_id": "a", "request_id": "d"}
    first = calls.UpdateContent(**update)
    calls.UpdateContent(session_id=session_id, content_id="a", text="later")
    again = calls.UpdateContent(**update)
    assert again.replayed and again.revision == first.revision
    assert calls.GetContent(session_id=session_id, content_id="a").content.text == "later"
    calls.DeleteContent(**delete)
    calls.Put(session_id=session_id, contents=[note("other", content_id="a")])
    assert calls.DeleteContent(**delete).replayed
    assert texts(calls.all_contents(session_id)) == ["y", "other"]
    assert reason(refusal(calls.DeleteContent, **{**delete, "content_id": "b"})) == (
        "REQUEST_ID_REUSED")
    error = refusal(calls.UpdateContent, session_id=session_id, content_id="b", text="x",
                    expected_revision=1)
    assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "REVISION_MISMATCH")
    for fields, field in (({"content_id": ""}, "content_id"), ({"session_id": ""}, "session_id"),
                          ({"json": "{"}, "json"), ({"metadata_json": "[]"}, "metadata_json"),
                          ({"mime_type": ""}, "mime_type"), ({"text": "x" * (MIB + 1)}, "text")):
        error = refusal(calls.UpdateContent,
                        **{"session_id": session_id, "content_id": "b", **fields})
        assert error.code() == INVALID and error.details().startswith(field)
    error = refusal(calls.GetContent, session_id=session_id + "x", content_id="a")
    assert (error.code(), reason(error)) == (NOT_FOUND, "SESSION_NOT_FOUND")
    calls.Reset(session_id=session_id)
    error = refusal(calls.GetContent, session_id=session_id, content_id="b")
    assert reason(error) == "CONTENT_NOT_FOUND"


def test_a_tenants_bytes_follow_changes_of_contents(store):
    with Server(store, arguments=["--tenant-mib=1"]) as server, server.channel() as channel:
        calls = Calls(channel)
        large, larger = "x" * 400 * 1024, "x" * 700 * 1024
        calls.Put(session_id="s", contents=[note(large, content_id="a"),
                                            note(large, content_id="b")])
        error = refusal(calls.UpdateContent, session_id="s", content_id="a", text=larger)
        assert (error.code(), reason(error)) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
        calls.DeleteContent(session_id="s", content_id="b")
        calls.UpdateContent(session_id="s", content_id="a", text=larger)


def test_changes_of_contents_by_many_are_all_done(calls, session_id):
    names = [f"n{i}" for i in range(12)]
    calls.Put(session_id=session_id, contents=[note("0", content_id=name) for name in names])

    def change(name: str) -> None:
        for step in range(1, 6):
            calls.UpdateContent(session_id=session_id, content_id=name, text=f"{name} {step}")
        if name in names[::2]:
            calls.DeleteContent(session_id=session_id, content_id=name)

    threads = [threading.Thread(target=change, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts(calls.all_contents(session_id)) == [f"{name} 5" for name in names[1::2]]
    assert count(calls, session_id) == 6


def test_a_killed_server_keeps_acknowledged_changes_of_contents(store):
    with Server(store) as server:
        with server.channel() as channel:
            calls = Calls(channel)
            calls.Put(session_id="s", contents=[note("x", content_id="a"),
                                                note("y", content_id="b")])
            calls.UpdateContent(session_id="s", content_id="a", text="changed")
            calls.DeleteContent(session_id="s", content_id="b")
        server.kill()
    with Server(store) as server, server.channel() as channel:
        assert texts(Calls(channel).all_contents("s")) == ["changed"]
