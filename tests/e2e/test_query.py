"""Query in profile `default`: what is found, in which order, and what no longer is."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf import timestamp_pb2

import query_after_put
from support.calls import Calls, assistant, memory, note, refusal, user, wire
from support.server import Server
from support.stores import STORES, fresh_store

from memoryd.v1 import filter_pb2 as filters

Content = memory.Content

INVALID = grpc.StatusCode.INVALID_ARGUMENT
PICTURE = bytes(range(256)) * (3 * 2**20 // 256)
# BM25 and nothing else.
WORDS_ALONE = memory.SessionConfig(retrieval=memory.Retrieval(
    vector_weight=0, author_weight=0, neighbour_weight=0, thread_weight=0, length_weight=0,
    user_weight=0))
# Nothing for the vector alone, but what is much like it.
MUCH_ALIKE = memory.Retrieval(vector_threshold=0.3)
FRANCE = "The capital of France is Paris."


def at(seconds: int) -> timestamp_pb2.Timestamp:
    return timestamp_pb2.Timestamp(seconds=seconds)


def texts(reply: wire.QueryResponse) -> list[str]:
    return [getattr(result, result.WhichOneof("item")).text for result in reply.results]


@pytest.fixture
def strict(calls, session_id) -> str:
    """A session in which a result has a word of the query or is much like it."""
    calls.CreateSession(session_id=session_id, config=memory.SessionConfig(retrieval=MUCH_ALIKE))
    return session_id


def find(calls, session_id: str, query: str, **fields) -> list[str]:
    return texts(calls.Query(session_id=session_id, query=query, **fields))


@pytest.mark.usefixtures("strict")
def test_a_message_is_found_right_after_its_put(calls, session_id):
    put = calls.Put(session_id=session_id, messages=[
        user("What is the capital of France?"), assistant(FRANCE, name="bot"), user("Thanks!")])
    reply = calls.Query(session_id=session_id, query="capital of France", top_k=3)
    assert set(texts(reply)) == {"What is the capital of France?", FRANCE}
    assert reply.revision == put.revision and not reply.missing_blocks
    stored = {m.text: m for m in calls.all_messages(session_id)}
    for result in reply.results:
        assert result.message == stored[result.message.text]
        assert not result.neighbours
    calls.Put(session_id=session_id, messages=[user("Paris? I thought of Lyon.")])
    assert find(calls, session_id, "lyon") == ["Paris? I thought of Lyon."]
    assert len(find(calls, session_id, "paris")) == 2


def test_archived_messages_are_found_and_say_so(calls, session_id):
    config = memory.SessionConfig(token_limit=40, token_flush_size=1, tokenizer="whitespace",
                                  retrieval=MUCH_ALIKE)
    calls.Put(session_id=session_id, messages=[user("my parrot is green")], config=config)
    for number in range(10):
        calls.Put(session_id=session_id, messages=[user(f"filler {number} and some more words")])
    reply = calls.Query(session_id=session_id, query="parrot")
    assert [(r.message.text, r.message.status) for r in reply.results] == (
        [("my parrot is green", memory.MESSAGE_STATUS_ARCHIVED)])
    newest, = calls.Query(session_id=session_id, query="9").results
    assert newest.message.status == memory.MESSAGE_STATUS_ACTIVE


def test_scores_fall_from_one(calls, session_id):
    calls.CreateSession(session_id=session_id, config=WORDS_ALONE)
    put = [user("tea"), user("tea and coffee are drinks"), user("coffee"), user("a tea tea tea")]
    calls.Put(session_id=session_id, messages=put, contents=[note("tea beside coffee")])
    reply = calls.Query(session_id=session_id, query="tea coffee")
    scores = [result.score for result in reply.results]
    assert len(scores) == 5 and scores[0] == 1.0
    assert scores == sorted(scores, reverse=True) and all(0 < score <= 1 for score in scores)
    # Both words beat one.
    assert set(texts(reply)[:2]) == {"tea and coffee are drinks", "tea beside coffee"}


def test_of_equal_scores_the_newest_is_first(calls, session_id):
    calls.CreateSession(session_id=session_id, config=WORDS_ALONE)
    for name in ("anna", "bert", "carl"):
        calls.Put(session_id=session_id, messages=[user("same words", name=name)])
    reply = calls.Query(session_id=session_id, query="words")
    assert [result.message.name for result in reply.results] == ["carl", "bert", "anna"]
    assert {result.score for result in reply.results} == {1.0}


@pytest.mark.usefixtures("strict")
def test_contents_are_found_whatever_their_kind_of_text(calls, session_id):
    contents = [
        note("Prefers metric units."), note("# Zürich\n\n* lake", "text/markdown"),
        Content(mime_type="application/json", json='{"city": "Lisbon", "days": 3}'),
        Content(mime_type="application/octet-stream", bytes_value=b"metric Lisbon lake"),
        Content(mime_type="image/*", image=memory.Media(title="metric Lisbon lake")),
    ]
    calls.Put(session_id=session_id, contents=contents)
    stored = calls.all_contents(session_id)
    for query, index in (("metric", 0), ("zurich lake", 1), ("lisbon", 2)):
        result, = calls.Query(session_id=session_id, query=query).results
        assert result.content == stored[index] and result.score == 1.0, query


@pytest.mark.parametrize("query, found", (
    ("ZÜRICH", "Zürich"), ("zurich", "Zürich"), ("Zu\u0308rich", "Zürich"), ("cafe", "Le café"),
    ("CAFÉ", "Le café"), ("ｃａｆé", "Le café"), ("東京", "東京都に住んでいます"),
    ("京都", "東京都に住んでいます"), ("住んで", "東京都に住んでいます"), ("ПРИВЕТ", "привет, мир"),
    ("painted", "She is painting"), ("strasse", "Hauptstraße 5, Straße"), ("😀 smile", "a smile 😀"),
    ("nul", "nul \0 byte"),
))
@pytest.mark.usefixtures("strict")
def test_case_accents_and_scripts(calls, session_id, query, found):
    calls.Put(session_id=session_id, messages=[user(text) for text in (
        "Zürich", "Le café", "東京都に住んでいます", "привет, мир", "She is painting",
        "Hauptstraße 5, Straße", "a smile 😀", "nul \0 byte")])
    assert find(calls, session_id, query) == [found]


@pytest.mark.parametrize("query", ("", " ", "!?", "\0", "elephant", "😀"), ids=ascii)
@pytest.mark.usefixtures("strict")
def test_nothing_is_found(calls, session_id, query):
    calls.Put(session_id=session_id, messages=[user("tea"), user("")], contents=[note("coffee")])
    reply = calls.Query(session_id=session_id, query=query)
    assert not reply.results and reply.revision > 0


@pytest.mark.usefixtures("strict")
def test_a_query_of_stop_words_finds_them_and_another_ignores_them(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("Who is he?"), user("tea")])
    assert find(calls, session_id, "who is he") == ["Who is he?"]
    assert find(calls, session_id, "what is the tea") == ["tea"]


def test_an_unknown_or_empty_session_is_ok_and_empty(calls, session_id):
    reply = calls.Query(session_id=session_id, query="tea")
    assert not reply.results and reply.revision == 0
    assert refusal(calls.GetSession, session_id=session_id).code() == grpc.StatusCode.NOT_FOUND
    calls.CreateSession(session_id=session_id)
    reply = calls.Query(session_id=session_id, query="tea")
    assert not reply.results and reply.revision > 0


def test_sessions_do_not_find_each_other(calls, session_id):
    for tail in "ab":
        calls.Put(session_id=session_id + tail, messages=[user(f"tea {tail}")],
                  contents=[note(f"tea content {tail}")])
    for tail in "ab":
        assert set(find(calls, session_id + tail, "tea")) == {f"tea {tail}", f"tea content {tail}"}


# Filters, neighbours, bounds.


@pytest.fixture
def filled(calls, strict):
    """Messages 0 to 9, odd ones of thread `t`, created at second 1000 and on, and a content."""
    calls.Put(session_id=strict, contents=[note("word content")], messages=[
        memory.Message(role=("user", "assistant", "tool")[i % 3], text=f"word {i}",
                       thread_id="t" if i % 2 else "", create_time=at(1000 + i),
                       message_id=f"m{i}",
                       metadata_json='{"k": 6}' if i == 6 else "")
        for i in range(10)])
    return strict


@pytest.mark.parametrize("fields, found", (
    ({}, {*range(10), "content"}),
    ({"roles": ["user"]}, {0, 3, 6, 9}),
    ({"roles": ["tool", "assistant"]}, {1, 2, 4, 5, 7, 8}),
    ({"roles": ["nobody"]}, set()),
    ({"thread_id": "t"}, {1, 3, 5, 7, 9}),
    ({"thread_id": ""}, {0, 2, 4, 6, 8}),
    ({"thread_id": "other"}, set()),
    ({"create_time": {"end": at(1003)}}, {0, 1, 2}),
    ({"create_time": {"start": at(1007)}}, {7, 8, 9}),
    ({"create_time": {"start": at(1004), "end": at(1006)}}, {4, 5}),
    ({"ingest_time": {"start": at(1007)}}, {*range(10), "content"}),
    ({"ingest_time": {"end": at(1007)}}, set()),
    ({"names": [""]}, set(range(10))),
    ({"names": ["Ann"]}, set()),
    ({"message_ids": ["m4", "m5", "nobody"]}, {4, 5}),
    ({"status": memory.MESSAGE_STATUS_ACTIVE}, set(range(10))),
    ({"status": memory.MESSAGE_STATUS_ARCHIVED}, set()),
    ({"metadata": [{"key": "k", "number_value": 6}]}, {6}),
    ({"metadata": [{"key": "k", "exists": False}]}, {*range(6), *range(7, 10), "content"}),
    ({"any_of": [{"names": ["Ann"]}, {"message_ids": ["m9"]}]}, {9}),
    ({"roles": ["user"], "thread_id": "t", "create_time": {"start": at(1004)}}, {9}),
), ids=lambda value: "-".join(value) if isinstance(value, dict) else "")
def test_a_filter_limits_what_is_found(calls, filled, fields, found):
    got = find(calls, filled, "word", top_k=50, filter=filters.Filter(**fields))
    assert len(got) == len(set(got)) and set(got) == {f"word {name}" for name in found}


def test_neighbours_come_from_the_thread_and_stand_once(calls, filled):
    reply = calls.Query(session_id=filled, query="4", neighbours=1)
    result, = reply.results
    assert [m.text for m in result.neighbours] == ["word 2", "word 6"]
    stored = {m.text: m for m in calls.all_messages(filled)}
    assert all(m == stored[m.text] for m in result.neighbours)
    result, = calls.Query(session_id=filled, query="9", neighbours=2).results
    assert [m.text for m in result.neighbours] == ["word 5", "word 7"]
    # Those of a filtered query are not filtered.
    result, = calls.Query(session_id=filled, query="3", neighbours=10,
                          filter=filters.Filter(roles=["user"])).results
    assert [m.text for m in result.neighbours] == [f"word {i}" for i in (1, 5, 7, 9)]
    reply = calls.Query(session_id=filled, query="word", top_k=50, neighbours=10)
    positions = [m.position for r in reply.results if r.HasField("message")
                 for m in [r.message, *r.neighbours]]
    assert len(positions) == len(set(positions)) == 10


def test_top_k_bounds_the_results(calls, session_id):
    calls.CreateSession(session_id=session_id, config=WORDS_ALONE)
    for _ in range(3):
        calls.Put(session_id=session_id, messages=[user("word")] * 400)
    for top_k, found in ((0, 10), (1, 1), (999, 999), (1000, 1000), (1001, 1000),
                         (2**31 - 1, 1000)):
        reply = calls.Query(session_id=session_id, query="word", top_k=top_k)
        assert len(reply.results) == found, top_k
    newest = [m.position for m in calls.all_messages(session_id)][:-1001:-1]
    assert [r.message.position for r in reply.results] == newest


@pytest.mark.large
def test_a_reply_over_64_mebibytes_is_refused(calls, session_id):
    picture = memory.Part(image=memory.Media(data=PICTURE))
    for _ in range(23):
        calls.Put(session_id=session_id, messages=[
            memory.Message(role="user", parts=[memory.Part(text="word"), picture])])
    error = refusal(calls.Query, session_id=session_id, query="word", top_k=100)
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION and "GetAll" in error.details()
    assert len(calls.Query(session_id=session_id, query="word", top_k=5).results) == 5


@pytest.mark.parametrize("field, fields", (
    ("session_id", {"session_id": ""}),
    ("session_id", {"session_id": "a\0b"}),
    ("query", {"query": "x" * (64 * 1024 + 1)}),
    ("top_k", {"top_k": -1}),
    ("neighbours", {"neighbours": -1}),
    ("neighbours", {"neighbours": 11}),
    ("filter.roles", {"filter": filters.Filter(roles=["user"] * 17)}),
    ("filter.roles[1]", {"filter": filters.Filter(roles=["user", ""])}),
    ("filter.roles[0]", {"filter": filters.Filter(roles=["r" * 65])}),
    ("filter.thread_id", {"filter": filters.Filter(thread_id="t" * 129)}),
    ("filter.create_time.start", {"filter": {"create_time": {"start": at(2**63 - 1)}}}),
    ("filter.metadata[0]", {"filter": {"metadata": [{"key": "k"}]}}),
), ids=lambda value: value if isinstance(value, str) else "")
def test_refuses_and_names_the_field(calls, session_id, field, fields):
    error = refusal(calls.Query, **{"session_id": session_id, "query": "tea", **fields})
    assert error.code() == INVALID
    assert error.details().startswith(f"{field}:"), error.details()


def test_takes_what_lies_exactly_on_the_limits(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("tea")])
    assert find(calls, session_id, "tea " * (16 * 1024), neighbours=10,
                filter=filters.Filter(roles=["user"] * 16)) == ["tea"]


# What is gone is not found.


@pytest.fixture(params=(*STORES, "two servers"))
def writer_and_reader(request):
    """Calls that change sessions and calls that ask: of one server, or of two on one PostgreSQL."""
    two = request.param == "two servers"
    with fresh_store("postgresql" if two else request.param) as store, \
            Server(store) as first, first.channel() as channel:
        if not two:
            yield Calls(channel), Calls(channel)
            return
        with Server(store) as second, second.channel() as other:
            yield Calls(channel), Calls(other)


CHANGES = {
    "set": lambda calls: calls.Set(session_id="s", messages=[user("word new")]),
    "set-alike": lambda calls: calls.Set(
        session_id="s", messages=[user(f"word new {i}") for i in range(3)],
        contents=[note("word new content")]),
    "reset": lambda calls: calls.Reset(session_id="s"),
    "reset-messages": lambda calls: calls.Reset(session_id="s", scope=wire.RESET_SCOPE_MESSAGES),
    "reset-active": lambda calls: calls.Reset(session_id="s", scope=wire.RESET_SCOPE_ACTIVE),
    "delete": lambda calls: calls.DeleteSession(session_id="s"),
}
LEFT = {
    "set": {"word new"},
    "set-alike": {"word new 0", "word new 1", "word new 2", "word new content"},
    "reset-messages": {"word content"}, "reset-active": {"word content"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_removed_is_not_found_from_then_on(writer_and_reader, change):
    writer, reader = writer_and_reader
    for calls in (writer, reader):  # Every server has an index of it.
        writer.Put(session_id="s", messages=[user("word old")] * 3, contents=[note("word content")])
        assert len(find(calls, "s", "word", top_k=50)) >= 4
        CHANGES[change](writer)
        assert set(find(reader, "s", "word", top_k=50)) == LEFT.get(change, set())
        writer.Put(session_id="s", messages=[user("word after")])
        assert set(find(reader, "s", "word", top_k=50)) == (
            LEFT.get(change, set()) | {"word after"})
        writer.Reset(session_id="s")


def test_archived_messages_that_were_removed_are_not_found(writer_and_reader):
    writer, reader = writer_and_reader
    config = memory.SessionConfig(token_limit=60, token_flush_size=1, tokenizer="whitespace")
    writer.CreateSession(session_id="s", config=config)
    for number in range(20):
        writer.Put(session_id="s", messages=[user(f"word {number}")])
    status = {m.text: m.status for m in writer.all_messages("s")}
    assert set(find(reader, "s", "word", top_k=50)) == set(status)
    writer.Reset(session_id="s", scope=wire.RESET_SCOPE_ARCHIVED)
    active = {text for text, s in status.items() if s == memory.MESSAGE_STATUS_ACTIVE}
    assert 0 < len(active) < 20
    assert set(find(reader, "s", "word", top_k=50)) == active


@pytest.mark.parametrize("kind", STORES)
def test_what_is_put_is_found_at_once_and_on_the_other_server(kind):
    assert query_after_put.run(kind, tries=300) == []


# Profile `autogen-list`.


def test_autogen_list_returns_all_contents_whatever_is_asked(calls, session_id):
    config = memory.SessionConfig(profile="autogen-list")
    calls.Put(session_id=session_id, contents=[note(f"c{i}") for i in range(25)],
              messages=[user("c0")], config=config)
    stored = calls.all_contents(session_id)
    for fields in ({}, {"query": "c7", "top_k": 1}, {"query": "none", "neighbours": 10},
                   {"filter": filters.Filter(roles=["user"], names=["nobody"])}):
        reply = calls.Query(session_id=session_id, **fields)
        assert [result.content for result in reply.results] == stored, fields
        assert {result.score for result in reply.results} == {0.0}
    calls.Reset(session_id=session_id)
    assert not calls.Query(session_id=session_id, query="c0").results


@pytest.mark.large
def test_autogen_list_over_64_mebibytes_is_refused(calls, session_id):
    calls.CreateSession(session_id=session_id,
                        config=memory.SessionConfig(profile="autogen-list"))
    picture = Content(mime_type="image/*", image=memory.Media(data=PICTURE))
    for _ in range(23):
        calls.Put(session_id=session_id, contents=[picture])
    error = refusal(calls.Query, session_id=session_id)
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION and "GetAll" in error.details()


# What counts besides words, and what is shown.


@pytest.fixture
def talked(calls, strict):
    """Two speakers, a day, a question with its answer beside it, and what is alike without a word."""
    day = timestamp_pb2.Timestamp(seconds=1_683_547_200)  # 8 May 2023.
    calls.Put(session_id=strict, messages=[
        user("I painted a sunrise last night.", name="Caroline", create_time=day),
        user("I ran a marathon.", name="Melanie"),
        user("Which colour is your parrot?", name="Caroline"),
        user("Bright green!", name="Melanie"),
        user("My doctor says all is well.", name="Melanie"),
    ])
    return strict


def has_vectors(calls) -> bool:
    return calls.GetServerInfo().has_word_vectors


def test_the_speaker_whom_the_query_names_comes_first(calls, talked):
    reply = calls.Query(session_id=talked, query="What does Melanie say?", parts_of_score=True)
    assert {r.message.name for r in reply.results[:3]} == {"Melanie"}
    assert all((r.parts_of_score.author > 0) == (r.message.name == "Melanie")
               for r in reply.results)


def test_a_message_is_found_by_its_day(calls, talked):
    assert find(calls, talked, "8 May 2023")[0] == "I painted a sunrise last night."
    calls.UpdateSession(session_id=talked, config=memory.SessionConfig(
        retrieval=memory.Retrieval(dates=False, vector_weight=0)))
    assert find(calls, talked, "8 May 2023") == []


def test_what_is_alike_is_found_without_a_word(calls, talked):
    assert has_vectors(calls), "the build fetches the table"
    first, *_ = calls.Query(session_id=talked, query="bird", parts_of_score=True).results
    assert first.message.text == "Which colour is your parrot?"
    assert 0.3 <= first.parts_of_score.cosine <= 1
    above = first.parts_of_score.cosine + 0.01
    assert find(calls, talked, "bird", score_threshold=above) == []
    calls.UpdateSession(session_id=talked, config=memory.SessionConfig(
        retrieval=memory.Retrieval(vector_weight=0)))
    assert find(calls, talked, "bird") == []


def test_unless_told_otherwise_the_best_are_returned_however_little_they_fit(calls, session_id):
    said = ["a green parrot", "the parrot sleeps", "taxes are due", "she sings"]
    calls.Put(session_id=session_id, messages=[user(text) for text in said])
    found = find(calls, session_id, "which colour has the parrot")
    assert set(found[:2]) == set(said[:2]) and set(found) == set(said)
    assert find(calls, session_id, "which colour has the parrot", top_k=1) == found[:1]
    assert find(calls, session_id, "?") == []
    for threshold, count in ((0.3, 2), (1, 2), (-1, 4)):
        alike = find(calls, session_id, "which colour has the parrot", vector_threshold=threshold)
        assert alike == found[:count], threshold


def test_parts_add_up_to_the_score(calls, talked):
    reply = calls.Query(session_id=talked, query="Caroline painted a parrot", parts_of_score=True)
    assert reply.results[0].score == 1 and not reply.notices
    for result in reply.results:
        parts = result.parts_of_score
        total = (parts.words + parts.vector + parts.author + parts.user + parts.length
                 + parts.recency + parts.neighbours)
        assert total == pytest.approx(result.score, abs=1e-9)
    plain = calls.Query(session_id=talked, query="Caroline painted a parrot")
    assert not any(result.HasField("parts_of_score") for result in plain.results)


def test_a_budget_is_kept_and_what_does_not_fit_is_passed_over(calls, session_id):
    config = memory.SessionConfig(tokenizer="whitespace")
    calls.Put(session_id=session_id, config=config, messages=[
        user("parrot " * 30), user("a green parrot"), user("parrot"), user("unrelated")])
    reply = calls.Query(session_id=session_id, query="green parrot", token_budget=16, neighbours=1)
    assert texts(reply)[0] == "a green parrot"
    shown = [m for r in reply.results for m in [r.message, *r.neighbours]]
    assert sum(m.token_count for m in shown) <= 16 and len(shown) >= 2
    assert "parrot " * 30 not in [m.text for m in shown]
    assert not calls.Query(session_id=session_id, query="green parrot", token_budget=1).results


def test_a_long_text_is_cut_to_its_best_passage(calls, session_id):
    filler = "Nothing of that kind is said in this long sentence. " * 40
    long = filler + "The parrot is called Kiwi. " + filler
    calls.Put(session_id=session_id, messages=[user("a parrot"), assistant(long)],
              contents=[note(long)])
    whole = calls.Query(session_id=session_id, query="parrot called Kiwi")
    assert long in texts(whole) and not any(result.passage for result in whole.results)
    cut = calls.Query(session_id=session_id, query="parrot called Kiwi", passages=True).results
    passages = [result.passage for result in cut if result.passage]
    assert len(passages) == 2
    for passage in passages:
        assert "The parrot is called Kiwi." in passage and len(passage) <= 700 and passage in long
    for result in cut:
        item = getattr(result, result.WhichOneof("item"))
        assert bool(result.passage) != item.HasField("text")


def test_without_a_table_words_find_and_the_reply_says_so(tmp_path):
    server = Server(f"sqlite:{tmp_path / 'memory.db'}",
                    arguments=[f"--word-vectors={tmp_path / 'none.safetensors'}"])
    with server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="s", messages=[user("a green parrot")])
        assert not has_vectors(calls)
        reply = calls.Query(session_id="s", query="parrot", score_threshold=0.9)
        assert texts(reply) == ["a green parrot"] and list(reply.notices) == ["NO_WORD_VECTORS"]
        assert not calls.Query(session_id="s", query="bird").results
        calls.UpdateSession(session_id="s", config=WORDS_ALONE)
        assert not calls.Query(session_id="s", query="parrot").notices
        assert "no word vectors" in server.output()


@pytest.mark.parametrize("field, fields", (
    ("score_threshold", {"score_threshold": 1.1}), ("score_threshold", {"score_threshold": -1.1}),
    ("score_threshold", {"score_threshold": float("nan")}),
    ("vector_threshold", {"vector_threshold": 1.1}),
    ("vector_threshold", {"vector_threshold": float("nan")}),
    ("token_budget", {"token_budget": 0}), ("token_budget", {"token_budget": -1}),
    ("token_budget", {"token_budget": 2**31}),
))
def test_refuses_what_is_out_of_range(calls, session_id, field, fields):
    error = refusal(calls.Query, session_id=session_id, query="x", **fields)
    assert error.code() == INVALID and field in error.details()


def test_a_weight_out_of_range_is_named(calls, session_id):
    error = refusal(calls.CreateSession, session_id=session_id, config=memory.SessionConfig(
        retrieval=memory.Retrieval(neighbour_weight=2)))
    assert error.code() == INVALID and "config.retrieval.neighbour_weight" in error.details()
