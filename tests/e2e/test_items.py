"""Items: values under keys in namespaces, over the wire and on every store."""

from __future__ import annotations

import json
import uuid

import grpc
import pytest

from support.calls import Calls, reason, refusal
from support.calls import item_wire as wire
from support.server import Server, ready

from memoryd.errors import error_info

INVALID = grpc.StatusCode.INVALID_ARGUMENT
ABORTED = grpc.StatusCode.ABORTED
EXISTS = grpc.StatusCode.ALREADY_EXISTS


@pytest.fixture
def name() -> str:
    """The first name of namespaces that nobody else uses."""
    return f"n-{uuid.uuid4().hex}"


def put(calls, namespace, key, value=None, *, request_id=None, config=None, **fields):
    if "bytes_value" not in fields:
        fields["json"] = json.dumps(value)
    return calls.PutItem(namespace=namespace, put=wire.ItemPut(key=key, **fields),
                         request_id=request_id, config=config)


def get(calls, namespace, key, **fields):
    reply = calls.GetItem(namespace=namespace, get=wire.ItemGet(key=key, **fields))
    return reply.item if reply.HasField("item") else None


def keys(items) -> list[str]:
    return [item.key for item in items]


def pages(calls, **fields):
    token = ""
    while True:
        page = calls.ListItems(page_token=token, **fields)
        yield page
        token = page.next_page_token
        if not token:
            return


def listed(calls, **fields) -> list[str]:
    return [item.key for page in pages(calls, **fields) for item in page.items]


def found(calls, **fields) -> list[str]:
    return [result.item.key for result in calls.SearchItems(**fields).results]


# ---- one item ----


def test_what_is_put_comes_back_byte_for_byte(calls, name):
    text = '{"b":  1.0, "a": [1, 2.50, 12345678901234567890, "é", "\\u0041"]}'
    calls.PutItem(namespace=[name, "a/b.c", "*"], put=wire.ItemPut(key="k/1", json=text))
    item = get(calls, [name, "a/b.c", "*"], "k/1")
    assert item.json == text and item.mime_type == "application/json"
    assert list(item.namespace) == [name, "a/b.c", "*"] and item.key == "k/1"
    assert not item.HasField("expire_time") and not item.HasField("ttl")
    put(calls, [name], "bytes", bytes_value=bytes(range(256)), mime_type="image/png")
    item = get(calls, [name], "bytes")
    assert item.bytes_value == bytes(range(256)) and item.mime_type == "image/png"


def test_a_put_replaces_and_keeps_the_time_of_creation(calls, name):
    first = put(calls, [name], "k", 1).write
    second = put(calls, [name], "k", 2).write
    assert second.version > first.version
    assert second.create_time == first.create_time
    assert second.update_time.ToNanoseconds() >= first.update_time.ToNanoseconds()
    item = get(calls, [name], "k")
    assert (item.json, item.version) == ("2", second.version)


def test_what_is_not_there_is_an_empty_reply(calls, name):
    assert get(calls, [name], "k") is None
    assert not calls.DeleteItem(namespace=[name], delete=wire.ItemDelete(key="k")).existed
    assert not calls.ListItems(namespace=[name]).items
    error = refusal(calls.GetNamespace, namespace=[name])
    assert error.code() == grpc.StatusCode.NOT_FOUND and reason(error) == "NAMESPACE_NOT_FOUND"


def test_namespaces_below_are_others(calls, name):
    put(calls, [name], "k", 1)
    assert get(calls, [name, "below"], "k") is None
    put(calls, [name, "below"], "k", 2)
    assert get(calls, [name], "k").json == "1"


def test_conditions_are_on_the_version(calls, name):
    version = put(calls, [name], "k", 1, expected_version=0).write.version
    error = refusal(put, calls, [name], "k", 2, expected_version=0)
    assert error.code() == ABORTED and reason(error) == "VERSION_MISMATCH"
    assert error_info(error).metadata["version"] == str(version)
    error = refusal(put, calls, [name], "other", 2, expected_version=7)
    assert error_info(error).metadata["version"] == "0"
    put(calls, [name], "k", 3, expected_version=version)
    error = refusal(calls.DeleteItem, namespace=[name],
                    delete=wire.ItemDelete(key="k", expected_version=version))
    assert reason(error) == "VERSION_MISMATCH" and get(calls, [name], "k").json == "3"


def test_a_repeated_request_has_one_effect(calls, name):
    first = put(calls, [name], "k", 1, request_id="r1")
    put(calls, [name], "k", 2)
    again = put(calls, [name], "k", 1, request_id="r1")
    assert again.replayed and again.write == first.write and get(calls, [name], "k").json == "2"
    error = refusal(put, calls, [name], "k", 9, request_id="r1")
    assert error.code() == EXISTS and reason(error) == "REQUEST_ID_REUSED"
    # A namespace has its own.
    assert not put(calls, [name, "x"], "k", 1, request_id="r1").replayed
    # One that is repeated among others is the same request.
    outcome = batch(calls, wire.ItemBatch(namespace=[name], request_id="r1", operations=[
        wire.ItemOperation(put=wire.ItemPut(key="k", json="1"))]))
    assert outcome.replayed and outcome.results[0].put == first.write


# ---- ttl ----


def test_a_ttl_begins_again_when_it_is_read(calls, name):
    ttl = {"seconds": 1000}
    written = put(calls, [name], "k", 1, ttl=ttl).write
    assert written.expire_time.seconds >= written.update_time.seconds + 999
    unread = get(calls, [name], "k", refresh_ttl=False)
    assert unread.expire_time == written.expire_time and unread.ttl.seconds == 1000
    read = get(calls, [name], "k").expire_time
    assert read.ToNanoseconds() > written.expire_time.ToNanoseconds()
    # Stored, not only said.
    assert get(calls, [name], "k", refresh_ttl=False).expire_time == read


def test_a_namespace_has_a_ttl_for_its_items(calls, name):
    config = wire.NamespaceConfig(default_ttl={"seconds": 500}, refresh_ttl=False)
    calls.UpdateNamespace(namespace=[name], config=config)
    put(calls, [name], "timed", 1)
    put(calls, [name], "kept", 1, without_ttl=True)
    timed = get(calls, [name], "timed")
    assert timed.ttl.seconds == 500 and get(calls, [name], "timed").expire_time == timed.expire_time
    assert not get(calls, [name], "kept").HasField("expire_time")


def test_an_expired_item_is_not_there(calls, name):
    put(calls, [name], "other", 1)
    expire = put(calls, [name], "k", 1, ttl={"nanos": 1_000_000}).write.expire_time
    # By the server's own clock its time is over.
    while put(calls, [name], "other", 1).write.update_time.ToNanoseconds() <= \
            expire.ToNanoseconds():
        pass
    assert get(calls, [name], "k") is None
    assert listed(calls, namespace=[name]) == ["other"]
    put(calls, [name], "k", 2, expected_version=0)


# ---- lists ----


def test_a_list_goes_by_key_or_by_writes_from_either_end(calls, name):
    for key in ("b", "a", "d", "c"):
        put(calls, [name], key, key)
    put(calls, [name], "b", "again")
    for order, expected in (("ITEM_ORDER_KEY", "abcd"), ("ITEM_ORDER_KEY_DESCENDING", "dcba"),
                            ("ITEM_ORDER_OLDEST_FIRST", "adcb"),
                            ("ITEM_ORDER_NEWEST_FIRST", "bcda")):
        for size in (1, 3, 100):
            assert listed(calls, namespace=[name], order=order, page_size=size) == list(expected)
    assert listed(calls, namespace=[name], start_key="b", end_key="d") == ["b", "c"]
    values = calls.ListItems(namespace=[name], keys_only=True).items
    assert keys(values) == list("abcd")
    assert all(value.WhichOneof("value") is None for value in values)


def test_a_list_by_prefix_ends_where_the_prefix_does(calls, name):
    all_keys = ["a", "ab", "ab\u00ff", "ab\U0010ffff", "ac", "\ud7ff", "\ud7ffx", "\ue000"]
    for key in all_keys:
        put(calls, [name], key, 1)
    for prefix in ("a", "ab", "ab\U0010ffff", "\ud7ff", "z"):
        expected = sorted((k for k in all_keys if k.startswith(prefix)), key=str.encode)
        assert listed(calls, namespace=[name], key_prefix=prefix, page_size=2) == expected, prefix


def test_pages_with_a_filter_hold_all_that_passes_once(calls, name):
    for i in range(50):
        put(calls, [name], f"k{i:02}", {"n": i, "even": i % 2 == 0})
    passing = [f"k{i:02}" for i in range(50) if i % 2 == 0 and i >= 10]
    fields = {"namespace": [name], "filter_json": '{"even": true, "n": {"$gte": 10}}'}
    for size in (1, 7, 100):
        assert listed(calls, page_size=size, **fields) == passing
    assert listed(calls, order="ITEM_ORDER_NEWEST_FIRST", page_size=3, **fields) == passing[::-1]
    assert all(not item.json for item in calls.ListItems(keys_only=True, **fields).items)


def test_a_token_is_of_its_list_and_its_namespace(calls, name):
    for key in "abc":
        put(calls, [name], key, 1)
    token = calls.ListItems(namespace=[name], page_size=1).next_page_token
    for other in ({"namespace": [name, "x"]}, {"namespace": [name], "key_prefix": "a"},
                  {"namespace": [name], "order": "ITEM_ORDER_NEWEST_FIRST"}):
        error = refusal(calls.ListItems, page_token=token, **other)
        assert error.code() == INVALID and "page_token" in error.details()
    calls.DeleteNamespace(namespace=[name])
    for again in (False, True):
        if again:
            put(calls, [name], "b", 1)
        error = refusal(calls.ListItems, namespace=[name], page_token=token)
        assert error.code() == ABORTED and reason(error) == "NAMESPACE_REPLACED"


# ---- searches ----


def test_a_search_without_words_has_the_newest_first(calls, name):
    for i, path in enumerate(("a", "b", "a", "c", "b")):
        put(calls, [name, path], f"k{i}", {"i": i})
    assert found(calls, namespace_prefix=[name]) == ["k4", "k3", "k2", "k1", "k0"]
    assert found(calls, namespace_prefix=[name], limit=2, offset=1) == ["k3", "k2"]
    assert found(calls, namespace_prefix=[name], offset=9) == []
    assert found(calls, namespace_prefix=[name, "a"]) == ["k2", "k0"]
    assert found(calls, namespace_prefix=[name], filter_json='{"i": {"$lt": 3}}') == \
        ["k2", "k1", "k0"]
    assert found(calls, namespace_prefix=[name], filter_json='{"i": {"$ne": 4}}', limit=1) == ["k3"]


def test_the_newest_are_found_behind_many_that_do_not_pass(calls, name):
    for namespace, key in (("a", "old1"), ("a", "old2"), ("b", "mid1"), ("b", "mid2")):
        put(calls, [name, namespace], key, {"passes": True})
    # More than a search reads at once.
    outcome = batch(calls, wire.ItemBatch(namespace=[name, "b"], operations=operations(
        *[wire.ItemPut(key=f"other{number}", json="{}") for number in range(520)])))
    assert not outcome.HasField("error")
    put(calls, [name, "b"], "new", {"passes": True})
    put(calls, [name, "a"], "newest", {"passes": True})
    assert found(calls, namespace_prefix=[name], filter_json='{"passes": true}', limit=4) == \
        ["newest", "new", "mid2", "mid1"]


def test_words_find_the_fields_that_are_searched(calls, name):
    put(calls, [name], "bear", {"text": "the bear sleeps in winter", "note": "zebra"})
    put(calls, [name], "fish", {"text": "a fish swims"})
    put(calls, [name], "shy", {"text": "another bear"}, search=wire.ItemSearch())
    put(calls, [name], "noted", {"text": "nothing", "note": "bear"},
        search=wire.ItemSearch(fields=["text"]))
    reply = calls.SearchItems(namespace_prefix=[name], query="bear")
    assert reply.results[0].item.key == "bear"
    # What does not answer comes last, whatever the server has for a table of vectors.
    assert sorted(keys(one.item for one in reply.results)) == ["bear", "fish", "noted", "shy"]
    scores = {one.item.key: one.score for one in reply.results if one.HasField("score")}
    assert all(0 < score <= 1 for score in scores.values()) and "shy" not in scores
    if "NO_WORD_VECTORS" in reply.notices:
        assert list(scores) == ["bear"]
        assert keys(one.item for one in reply.results) == ["bear", "noted", "shy", "fish"]
    assert found(calls, namespace_prefix=[name], query="zebra")[0] == "bear"
    assert found(calls, namespace_prefix=[name], query="bear",
                 filter_json='{"text": "a fish swims"}') == ["fish"]


def test_words_and_a_vector_both_rank(calls, name):
    put(calls, [name], "both", "a green bear", vector=[1, 0])
    put(calls, [name], "vector", "a red fish", vector=[2, 0])
    put(calls, [name], "words", "some green bear", vector=[-1, 0])
    put(calls, [name, "unembedded"], "plain", "green bear")
    search = {"namespace_prefix": [name], "query": "green bear", "vector": [1, 0]}
    results = calls.SearchItems(**search).results
    assert results[0].item.key == "both" and results[0].score > 0.9
    assert sorted(keys(one.item for one in results)) == ["both", "plain", "vector", "words"]
    scores = {one.item.key: one.score for one in results}
    assert 0.2 < scores["plain"] <= 0.5 and 0.2 < scores["words"] <= 0.5 <= scores["vector"]
    assert found(calls, **search, score_threshold=0) == ["both", "vector"]
    assert sorted(found(calls, namespace_prefix=[name], vector=[1, 0])) == \
        ["both", "vector", "words"]


def test_vectors_rank_by_their_cosine(calls, name):
    for key, vector in (("east", [1, 0]), ("north", [0, 2]), ("west", [-3, 0])):
        put(calls, [name], key, {}, vector=vector)
    put(calls, [name], "none", {})
    results = calls.SearchItems(namespace_prefix=[name], vector=[2, 1], with_vectors=True).results
    assert keys(result.item for result in results) == ["east", "north", "west"]
    assert results[0].score == pytest.approx(0.894427, abs=1e-5)
    assert list(results[2].item.vector) == [-3, 0]
    assert found(calls, namespace_prefix=[name], vector=[2, 1], score_threshold=0.1) == \
        ["east", "north"]
    for call, fields in ((calls.SearchItems, {"namespace_prefix": [name], "vector": [1, 2, 3]}),
                         (calls.PutItem, {"namespace": [name], "put": wire.ItemPut(
                             key="k", json="1", vector=[1])})):
        error = refusal(call, **fields)
        assert error.code() == INVALID and reason(error) == "VECTOR_SIZE"
        assert "vector" in error.details()


# ---- batches ----


def batch(calls, *batches):
    outcomes = calls.BatchItems(batches=batches).outcomes
    assert len(outcomes) == len(batches)
    return outcomes[0] if len(batches) == 1 else outcomes


def operations(*what) -> list[wire.ItemOperation]:
    made = {wire.ItemPut: "put", wire.ItemGet: "get", wire.ItemDelete: "delete"}
    return [wire.ItemOperation(**{made[type(one)]: one}) for one in what]


def test_reads_of_a_batch_see_what_was_before_its_writes(calls, name):
    put(calls, [name], "k", "old")
    outcome = batch(calls, wire.ItemBatch(namespace=[name], operations=operations(
        wire.ItemPut(key="k", json='"new"'), wire.ItemGet(key="k"), wire.ItemDelete(key="gone"),
        wire.ItemGet(key="none"))))
    assert not outcome.HasField("error")
    first, read, deleted, missing = outcome.results
    assert first.put.version > 0 and read.get.item.json == '"old"'
    assert not deleted.delete.existed and not missing.get.HasField("item")
    assert get(calls, [name], "k").json == '"new"'


def test_a_batch_is_stored_whole_or_not_at_all(calls, name):
    put(calls, [name], "held", 1)
    good, bad, third = batch(
        calls,
        wire.ItemBatch(namespace=[name, "good"], operations=operations(
            wire.ItemPut(key="k", json="1"))),
        wire.ItemBatch(namespace=[name], operations=operations(
            wire.ItemGet(key="held"), wire.ItemPut(key="k", json="1"),
            wire.ItemPut(key="held", json="2", expected_version=0))),
        wire.ItemBatch(namespace=[name], operations=operations(
            wire.ItemPut(key="x", json="NaN"))))
    assert not good.HasField("error")
    assert bad.error.code == ABORTED.value[0] and bad.error.reason == "VERSION_MISMATCH"
    assert bad.error.operation == 2 and bad.error.version > 0 and not bad.results
    assert third.error.code == INVALID.value[0] and "put.json" in third.error.message
    assert third.error.HasField("operation") and third.error.operation == 0
    assert listed(calls, namespace=[name]) == ["held"]


def test_a_batch_that_is_wrong_says_where(calls, name):
    twice = operations(wire.ItemPut(key="k", json="1"), wire.ItemDelete(key="k"))
    cases = (
        (wire.ItemBatch(namespace=[name], operations=twice), "key"),
        (wire.ItemBatch(namespace=[], operations=twice[:1]), "namespace"),
        (wire.ItemBatch(namespace=[name], operations=[wire.ItemOperation()]), "operation"),
        (wire.ItemBatch(namespace=[name], operations=operations(
            *[wire.ItemGet(key="k")] * 1001)), "operations"),
    )
    for wrong, field in cases:
        error = batch(calls, wrong).error
        assert error.code == INVALID.value[0] and error.message.startswith(field)
    error = refusal(calls.BatchItems, batches=[wire.ItemBatch(namespace=[name])] * 1001)
    assert error.code() == INVALID and "batches" in error.details()
    assert not calls.BatchItems().outcomes
    assert not batch(calls, wire.ItemBatch(namespace=[name])).results


# ---- namespaces ----


def test_a_namespace_has_a_configuration_and_counts(calls, name):
    config = wire.NamespaceConfig(subject="ada", search=wire.ItemSearch(fields=["a.b"]))
    put(calls, [name], "k", "value", config=config)
    stored = calls.GetNamespace(namespace=[name]).namespace
    assert stored.config.subject == "ada" and list(stored.config.search.fields) == ["a.b"]
    assert stored.config.refresh_ttl and not stored.config.HasField("default_ttl")
    assert stored.item_count == 1 and stored.item_bytes == len('k"value"')
    put(calls, [name], "k2", 1, config=config)
    error = refusal(put, calls, [name], "k3", 1, config=wire.NamespaceConfig(subject="eve"))
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert reason(error) == "CONFIG_MISMATCH" and "config.subject" in error.details()
    changed = calls.UpdateNamespace(namespace=[name], config=wire.NamespaceConfig(
        default_ttl={"seconds": 5})).namespace
    assert changed.config.subject == "ada" and changed.config.default_ttl.seconds == 5
    changed = calls.UpdateNamespace(namespace=[name], config=wire.NamespaceConfig(
        default_ttl={})).namespace
    assert not changed.config.HasField("default_ttl") and changed.item_count == 2


def test_a_repeated_put_is_replayed_whatever_the_configuration_is_by_then(calls, name):
    wanted = {"config": wire.NamespaceConfig(subject="ada"), "request_id": "r1"}
    first = put(calls, [name], "k", 1, **wanted)
    calls.UpdateNamespace(namespace=[name], config=wire.NamespaceConfig(subject="eve"))
    again = put(calls, [name], "k", 1, **wanted)
    assert again.replayed and again.write == first.write
    calls.DeleteNamespace(namespace=[name])
    assert put(calls, [name], "k", 1, **wanted).replayed
    error = refusal(calls.GetNamespace, namespace=[name])
    assert reason(error) == "NAMESPACE_NOT_FOUND"


def paths(reply) -> list[tuple[str, ...]]:
    return [tuple(one.namespace) for one in reply.namespaces]


def test_namespaces_are_listed_by_their_ends(calls, name):
    below = [(name, "a"), (name, "a", "x"), (name, "a", "y"), (name, "b", "x"), (name, "b", "x", "z")]
    for path in below:
        put(calls, path, "k", 1)
    calls.UpdateNamespace(namespace=[name, "empty"], config=wire.NamespaceConfig(subject="ada"))

    def matching(*matches, **fields):
        return paths(calls.ListNamespaces(matches=[
            wire.NamespaceMatch(end=end, names=names) for end, names in matches], **fields))

    prefix, suffix = wire.NamespaceMatch.END_PREFIX, wire.NamespaceMatch.END_SUFFIX
    assert matching((prefix, [name])) == below
    assert matching((prefix, [name]), (suffix, ["x"])) == [below[1], below[3]]
    assert matching((prefix, [name, "*", "x"])) == [below[1], below[3], below[4]]
    assert matching((prefix, [name]), max_depth=2) == [(name, "a"), (name, "b")]
    assert matching((prefix, [name]), max_depth=1) == [(name,)]
    # What is shorter than the depth hides nothing below it.
    assert matching((prefix, [name]), max_depth=3) == below[:4]
    assert matching((suffix, ["z"]), (prefix, [name]), max_depth=3) == [below[3]]
    fields = {"matches": [wire.NamespaceMatch(names=[name])], "page_size": 2}
    token, seen = "", []
    while True:
        page = calls.ListNamespaces(page_token=token, **fields)
        seen += paths(page)
        token = page.next_page_token
        if not token:
            break
    assert seen == below


def test_a_namespace_is_deleted_with_those_below(calls, name):
    for path in ([name], [name, "a"], [name, "a", "b"], [name + "x"]):
        put(calls, path, "k", 1)
    reply = calls.DeleteNamespace(namespace=[name, "a"])
    assert (reply.namespace_count, reply.item_count) == (1, 1)
    assert get(calls, [name, "a"], "k") is None and get(calls, [name, "a", "b"], "k") is not None
    reply = calls.DeleteNamespace(namespace=[name], recursive=True)
    assert (reply.namespace_count, reply.item_count) == (2, 2)
    assert get(calls, [name + "x"], "k") is not None
    assert calls.DeleteNamespace(namespace=[name], recursive=True).namespace_count == 0


def test_a_namespace_is_copied_with_those_below(calls, name):
    source, target = [name, "s"], [name, "t"]
    put(calls, source, "k", {"a": 1}, vector=[1, 2],
        config=wire.NamespaceConfig(subject="ada", refresh_ttl=False))
    put(calls, source, "bytes", bytes_value=b"\0\xff")
    put(calls, [*source, "below"], "timed", 1, ttl={"seconds": 100})
    reply = calls.CopyNamespace(namespace=source, new_namespace=target, recursive=True)
    assert (reply.namespace_count, reply.item_count) == (2, 3)
    copied = get(calls, target, "k", with_vector=True)
    assert copied.json == '{"a": 1}' and list(copied.vector) == [1, 2]
    assert get(calls, target, "bytes").bytes_value == b"\0\xff"
    assert get(calls, [*target, "below"], "timed").ttl.seconds == 100
    config = calls.GetNamespace(namespace=target).namespace.config
    assert not config.refresh_ttl and not config.subject
    error = refusal(calls.CopyNamespace, namespace=source, new_namespace=target)
    assert error.code() == EXISTS and reason(error) == "NAMESPACE_EXISTS"
    for wrong in (source, [*source, "x"]):
        error = refusal(calls.CopyNamespace, namespace=source, new_namespace=wrong)
        assert error.code() == INVALID and "new_namespace" in error.details()
    deep = [name] * 16
    error = refusal(calls.CopyNamespace, namespace=source, new_namespace=deep, recursive=True)
    assert error.code() == INVALID and "16 names" in error.details()


def test_the_items_of_a_subject_are_erased(calls, name):
    subject = f"subject of {name}"
    for path in ([name, "a"], [name, "b"]):
        put(calls, path, "k", 1, config=wire.NamespaceConfig(subject=subject), request_id="r")
    put(calls, [name, "c"], "k", 1)
    dry = calls.EraseSubject(subject=subject, dry_run=True)
    assert (dry.namespace_count, dry.item_count) == (2, 2)
    assert get(calls, [name, "a"], "k") is not None
    reply = calls.EraseSubject(subject=subject)
    assert (reply.namespace_count, reply.item_count) == (2, 2) and reply.purged
    assert get(calls, [name, "a"], "k") is None and get(calls, [name, "c"], "k") is not None
    # What the request_ids kept is forgotten, and their work is not done again.
    error = refusal(put, calls, [name, "a"], "k", 1, request_id="r")
    assert reason(error) == "REQUEST_FORGOTTEN"


# ---- bad input ----

DEEP = "[" * 65 + "]" * 65


@pytest.mark.parametrize(("fields", "field"), [
    ({"namespace": []}, "namespace"),
    ({"namespace": ["n"] * 17}, "namespace"),
    ({"namespace": ["n", ""]}, "namespace[1]"),
    ({"namespace": ["n" * 257]}, "namespace[0]"),
    ({"namespace": ["a\nb"]}, "namespace[0]"),
    ({"namespace": ["a\0b"]}, "namespace[0]"),
    ({"namespace": ["a\u200bb"]}, "namespace[0]"),
    ({"namespace": ["memoryd"]}, "namespace[0]"),
    ({"key": ""}, "put.key"),
    ({"key": "k" * 1025}, "put.key"),
    ({"key": "a\0b"}, "put.key"),
    ({"json": "NaN"}, "put.json"),
    ({"json": ""}, "put.json"),
    ({"json": "{"}, "put.json"),
    ({"json": '"\\u0000"'}, "put.json"),
    ({"json": '"\\ud800"'}, "put.json"),
    ({"json": '{"a": 1, "a": 2}'}, "put.json"),
    ({"json": DEEP}, "put.json"),
    ({"json": "1e400"}, "put.json"),
    ({"json": None}, "put.json"),
    ({"mime_type": "text/plain"}, "put.mime_type"),
    ({"ttl": {}}, "put.ttl"),
    ({"ttl": {"seconds": -1}}, "put.ttl"),
    ({"ttl": {"nanos": 999}}, "put.ttl"),
    ({"ttl": {"seconds": 36_501 * 86_400}}, "put.ttl"),
    ({"without_ttl": False}, "put.without_ttl"),
    ({"expected_version": -1}, "put.expected_version"),
    ({"vector": [1.0] * 8193}, "put.vector"),
    ({"vector": [float("nan")]}, "put.vector"),
    ({"vector": [float("inf")]}, "put.vector"),
    ({"search": wire.ItemSearch(fields=["a"] * 65)}, "put.search.fields"),
    ({"search": wire.ItemSearch(fields=[""])}, "put.search.fields[0]"),
    ({"request_id": "r" * 129}, "request_id"),
    ({"request_id": ""}, "request_id"),
    ({"config": wire.NamespaceConfig(subject="s" * 257)}, "config.subject"),
    ({"config": wire.NamespaceConfig(default_ttl={"seconds": -1})}, "config.default_ttl"),
])
def test_a_bad_put_names_its_field_and_stores_nothing(calls, name, fields, field):
    sent = {"namespace": [name], "request_id": None, "config": None, "key": "k", "json": "1",
            **fields}
    whole = {what: sent.pop(what) for what in ("namespace", "request_id", "config")}
    error = refusal(calls.PutItem, put=wire.ItemPut(**sent), **whole)
    assert error.code() == INVALID and error.details().startswith(f"{field}: "), error.details()
    assert reason(error) == "INVALID_FIELD" or reason(error)
    assert get(calls, [name], "k") is None
    assert refusal(calls.GetNamespace, namespace=[name]).code() == grpc.StatusCode.NOT_FOUND


def test_bad_reads_name_their_field(calls, name):
    for call, fields, field in (
        (calls.GetItem, {"get": {"key": ""}}, "get.key"),
        (calls.DeleteItem, {}, "delete"),
        (calls.PutItem, {}, "put"),
        (calls.DeleteItem, {"delete": {"key": "k", "expected_version": 0}},
         "delete.expected_version"),
        (calls.ListItems, {"page_size": -1}, "page_size"),
        (calls.ListItems, {"order": 9}, "order"),
        (calls.ListItems, {"key_prefix": "k" * 1025}, "key_prefix"),
        (calls.ListItems, {"start_key": "a\0"}, "start_key"),
        (calls.ListItems, {"page_token": "x"}, "page_token"),
        (calls.ListItems, {"filter_json": "[]"}, "filter_json"),
        (calls.ListItems, {"filter_json": '{"a": {"$in": []}}'}, "filter_json"),
    ):
        error = refusal(call, namespace=[name], **fields)
        assert error.code() == INVALID and error.details().startswith(field), error.details()
    for fields, field in (
        ({"filter_json": "{"}, "filter_json"),
        ({"limit": -1}, "limit"),
        ({"offset": 100_001}, "offset"),
        ({"score_threshold": 2.0}, "score_threshold"),
        ({"query": "q" * 65_537}, "query"),
        ({"namespace_prefix": [""]}, "namespace_prefix[0]"),
    ):
        error = refusal(calls.SearchItems, **fields)
        assert error.code() == INVALID and error.details().startswith(field), error.details()
    for fields, field in (
        ({"max_depth": 17}, "max_depth"),
        ({"matches": [wire.NamespaceMatch(names=["n"] * 17)]}, "matches[0].names"),
        ({"matches": [wire.NamespaceMatch(end=5)]}, "matches[0].end"),
        ({"subject": "s" * 257}, "subject"),
    ):
        error = refusal(calls.ListNamespaces, **fields)
        assert error.code() == INVALID and error.details().startswith(field), error.details()


def test_the_most_of_a_value_is_set_at_the_start(store):
    with Server(store, arguments=["--max-item-mib=1"]) as server, server.channel() as channel:
        small = Calls(ready(channel))
        most = small.GetServerInfo().limits.item_bytes
        assert most == 1 << 20
        put(small, ["sized"], "k", bytes_value=bytes(most))
        error = refusal(put, small, ["sized"], "k", bytes_value=bytes(most + 1))
        assert error.code() == INVALID and "put.bytes_value" in error.details()
        assert str(most) in error.details()
        outcome = batch(small, wire.ItemBatch(namespace=["sized"], operations=operations(
            wire.ItemPut(key="k", bytes_value=bytes(most + 1)))))
        assert outcome.error.code == INVALID.value[0] and str(most) in outcome.error.message


@pytest.mark.large
def test_a_value_may_have_32_mib_and_no_byte_more(calls, name):
    most = 32 << 20
    error = refusal(put, calls, [name], "k", bytes_value=bytes(most + 1))
    assert error.code() == INVALID and "put.bytes_value" in error.details()
    put(calls, [name], "k", bytes_value=bytes(most))
    assert get(calls, [name], "k").bytes_value == bytes(most)
    put(calls, [name], "k2", 1)
    # A page has at least one item, however large.
    assert [keys(page.items) for page in pages(calls, namespace=[name])] == [["k"], ["k2"]]
