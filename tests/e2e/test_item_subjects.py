"""What a credential of one subject reaches of items: every RPC, with namespaces of its own, of another
and of nobody. Another's namespace must answer as one that never was, and stay as it is."""

from __future__ import annotations

import grpc
import pytest

from support.access import METHODS, READS, SUBJECT_TOKENS, Caller, request_of, write_subjects
from support.calls import item_wire as wire
from support.calls import reason
from support.changing import read_beside
from support.server import Server
from support.stores import fresh_store

OK, ABORTED = grpc.StatusCode.OK, grpc.StatusCode.ABORTED
NOT_FOUND, PERMISSION_DENIED = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED
NOT_GRANTED = "SUBJECT_NOT_GRANTED"
SECRET = "the canary of another subject"
VALUE = f'{{"text": "{SECRET}"}}'
OF_ITEMS = sorted(name for name, method in METHODS.items()
                  if method.containing_service.name == "ItemService"
                  and name != "ImportNamespace")  # Refused: it is about the tenant.
# Those whose requests name one namespace.
OF_NAMESPACE = sorted(name for name in OF_ITEMS
                      if "namespace" in METHODS[name].input_type.fields_by_name)


@pytest.fixture(scope="module")
def callers(store_kind, tmp_path_factory):
    file = write_subjects(tmp_path_factory.mktemp("subjects"))
    with fresh_store(store_kind) as store, Server(store, arguments=[f"--credentials={file}"]) \
            as server, server.channel() as channel:
        yield {name: Caller(channel, name) for name in SUBJECT_TOKENS}


@pytest.fixture
def everybody(callers):
    return callers["all"]


@pytest.fixture
def ann(callers):
    return callers["ann"]


@pytest.fixture
def bob(callers):
    return callers["bob"]


def remove(call: Caller, *names: str) -> None:
    for name in names:
        call("DeleteNamespace", namespace=[name], recursive=True)


def fill(call: Caller, name: str, subject: str | None = None, value: str = VALUE) -> None:
    """Makes the namespace anew, with something for every RPC to find."""
    remove(call, name)
    config = wire.NamespaceConfig() if subject is None else wire.NamespaceConfig(subject=subject)
    config.default_ttl.FromSeconds(3600)
    for path in ([name], [name, "below"]):
        call("BatchItems", batches=[wire.ItemBatch(namespace=path, config=config, operations=[
            wire.ItemOperation(put=wire.ItemPut(key=f"k{i}", json=value, vector=[1, i]))
            for i in range(3)])])


def asked(method: str, name: str):
    """A request that would do something."""
    request = request_of(method)
    if "namespace" in request.DESCRIPTOR.fields_by_name:
        request.namespace.append(name)
    if method == "PutItem":
        request.put.CopyFrom(wire.ItemPut(key="k0", json='"changed"'))
    if method == "GetItem":
        request.get.CopyFrom(wire.ItemGet(key="k0", with_vector=True))
    if method == "DeleteItem":
        request.delete.key = "k0"
    if method == "SearchItems":
        request.namespace_prefix.append(name)
        request.query = "canary"
        request.vector.extend([1, 0])
    if method == "ListNamespaces":
        request.matches.add(names=[name])
    if method == "ListItems":
        request.with_vectors = True
    if method == "UpdateNamespace":
        request.config.refresh_ttl = False
    if method == "CopyNamespace":
        request.new_namespace.append(f"copy of {name}")
    if "recursive" in request.DESCRIPTOR.fields_by_name:
        request.recursive = True
    if method == "BatchItems":
        request.batches.add(namespace=[name], operations=[
            wire.ItemOperation(get=wire.ItemGet(key=f"k{i}")) for i in range(3)])
    return request


def outcome(call: Caller, method: str, request) -> object:
    try:
        return call(method, request)
    except grpc.RpcError as error:
        return error.code(), reason(error), error.details()


def state(call: Caller, name: str) -> list[object]:
    """But for ttls that a read has begun again."""
    listed = call("ListNamespaces", matches=[{"names": [name]}]).namespaces
    items = [call("ListItems", namespace=entry.namespace, with_vectors=True) for entry in listed]
    return [listed, *items]


@pytest.mark.parametrize("whose", ("bob", None))
@pytest.mark.parametrize("method", OF_ITEMS)
def test_anothers_namespace_is_unknown_and_stays_as_it_is(everybody, ann, method, whose):
    fill(everybody, "theirs", whose)
    remove(everybody, "nobody's", "copy of theirs", "copy of nobody's")
    before = state(everybody, "theirs")
    got = outcome(ann, method, asked(method, "theirs"))
    if method in READS or method == "CopyNamespace":
        assert got == outcome(ann, method, asked(method, "nobody's"))
    else:
        assert got[:2] == (PERMISSION_DENIED, NOT_GRANTED)
    assert SECRET not in str(got)
    assert state(everybody, "theirs") == before
    assert not state(everybody, "copy of theirs")[0]


@pytest.mark.parametrize("method", OF_ITEMS)
def test_his_own_answers_as_it_does_for_all(everybody, ann, method):
    fill(ann, "own of ann")
    remove(everybody, "copy of own of ann")
    own = outcome(ann, method, asked(method, "own of ann"))
    fill(everybody, "own of ann", "ann")
    remove(everybody, "copy of own of ann")
    other = outcome(everybody, method, asked(method, "own of ann"))
    assert type(own) is type(other)
    assert not isinstance(own, tuple), own
    assert (SECRET in str(own)) == (SECRET in str(other))
    assert [field.name for field, _ in own.ListFields()] == [
        field.name for field, _ in other.ListFields()]


def test_every_rpc_of_items_is_tried():
    assert len(OF_ITEMS) >= 11
    assert set(OF_ITEMS) - set(OF_NAMESPACE) == {"BatchItems", "ListNamespaces", "SearchItems"}


def test_a_namespace_is_made_with_the_callers_subject(callers, everybody):
    put = {"put": {"key": "k", "json": "1"}}
    batch = wire.ItemBatch(namespace=["made"], operations=[wire.ItemOperation(**put)])
    for name in ("ann", "writer"):
        call = callers[name]
        for method, fields in (("PutItem", put), ("UpdateNamespace", {}),
                               ("PutItem", {**put, "config": {"refresh_ttl": False}}),
                               ("PutItem", {**put, "config": {"subject": "ann"}})):
            remove(everybody, "made")
            call(method, namespace=["made"], **fields)
            namespace = everybody("GetNamespace", namespace=["made"]).namespace
            assert namespace.config.subject == "ann", (name, method, fields)
        remove(everybody, "made")
        call("BatchItems", batches=[batch])
        assert everybody("GetNamespace", namespace=["made"]).namespace.config.subject == "ann"
    for subject in ("bob", ""):
        config = {"subject": subject}
        for namespace in (["made"], ["not made"]):
            for method, fields in (("PutItem", put), ("UpdateNamespace", {})):
                error = callers["ann"].error(method, namespace=namespace, config=config, **fields)
                assert (error.code(), reason(error)) == (PERMISSION_DENIED, NOT_GRANTED)
                assert "config.subject" in error.details()
    assert everybody.code("GetNamespace", namespace=["not made"]) == NOT_FOUND
    assert everybody("GetNamespace", namespace=["made"]).namespace.config.subject == "ann"


def test_a_batch_has_an_outcome_for_each_namespace(everybody, ann):
    fill(everybody, "theirs", "bob")
    fill(ann, "own")
    put = wire.ItemOperation(put=wire.ItemPut(key="new", json="1"))
    get = wire.ItemOperation(get=wire.ItemGet(key="k0"))
    outcomes = ann("BatchItems", batches=[
        wire.ItemBatch(namespace=["own"], operations=[put, get]),
        wire.ItemBatch(namespace=["theirs"], operations=[get, put]),
        wire.ItemBatch(namespace=["theirs"], operations=[get]),
        wire.ItemBatch(namespace=["fresh"], operations=[put], config={"subject": "bob"}),
        wire.ItemBatch(namespace=["own", "deeper"], operations=[put]),
    ]).outcomes
    assert [entry.error.reason for entry in outcomes] == ["", NOT_GRANTED, "", NOT_GRANTED, ""]
    assert outcomes[1].error.code == PERMISSION_DENIED.value[0]
    assert outcomes[0].results[1].get.item.json == VALUE
    assert not outcomes[2].results[0].get.HasField("item")
    assert everybody.code("GetNamespace", namespace=["fresh"]) == NOT_FOUND
    assert not everybody("GetItem", namespace=["theirs"], get={"key": "new"}).HasField("item")


def test_lists_and_searches_hold_his_own_alone(everybody, ann, bob):
    everybody("DeleteNamespace", namespace=["own"], recursive=True)
    for call, name in ((ann, "x of ann"), (bob, "x of bob"), (everybody, "x of nobody")):
        fill(call, name)
    for request in ({}, {"subject": "ann"}, {"max_depth": 1}):
        listed = {entry.namespace[0] for entry in ann("ListNamespaces", **request).namespaces}
        assert "x of ann" in listed and not {"x of bob", "x of nobody"} & listed, request
    for subject in ("bob", "an", "ann "):
        error = ann.error("ListNamespaces", subject=subject)
        assert (error.code(), reason(error)) == (PERMISSION_DENIED, NOT_GRANTED), subject
    # A page behind one of his own, and a token of another.
    page = bob("ListNamespaces", page_size=1)
    assert SECRET not in str(ann("ListNamespaces", page_size=1, page_token=page.next_page_token))
    for request in ({}, {"query": "canary"}, {"vector": [1, 1]}):
        found = ann("SearchItems", limit=1000, **request).results
        assert found and {entry.item.namespace[0] for entry in found} >= {"x of ann"}
        assert not {entry.item.namespace[0] for entry in found} & {"x of bob", "x of nobody"}
    # The size of others' vectors tells nothing.
    everybody("PutItem", namespace=["x of bob", "wide"], put={
        "key": "k", "json": "1", "vector": [1] * 7})
    assert ann.code("SearchItems", vector=[1, 1]) == OK
    remove(everybody, "x of bob")


def test_a_deletion_leaves_what_is_anothers_below_it(everybody, ann, bob):
    for call, path in ((ann, ["tree"]), (bob, ["tree", "his"]), (ann, ["tree", "hers"])):
        call("PutItem", namespace=path, put={"key": "k", "json": "1"})
    assert ann("DeleteNamespace", namespace=["tree"], recursive=True).namespace_count == 2
    assert everybody.code("GetNamespace", namespace=["tree", "his"]) == OK
    assert ann.code("GetNamespace", namespace=["tree"]) == NOT_FOUND
    remove(everybody, "tree")


def test_a_copy_is_of_his_own_into_his_own(everybody, ann, bob):
    remove(everybody, "source", "copy")
    for call, path in ((ann, ["source"]), (bob, ["source", "his"]), (bob, ["taken"])):
        call("PutItem", namespace=path, put={"key": "k", "json": "1"})
    error = ann.error("CopyNamespace", namespace=["source"], new_namespace=["taken"])
    assert reason(error) == NOT_GRANTED
    assert ann("CopyNamespace", namespace=["source"], new_namespace=["copy"],
               recursive=True).namespace_count == 1
    assert everybody("GetNamespace", namespace=["copy"]).namespace.config.subject == "ann"
    remove(everybody, "source", "copy", "taken")


def test_a_kept_reply_is_replayed_to_its_subject_alone(everybody, ann, bob):
    remove(everybody, "replayed")
    request = {"namespace": ["replayed"], "request_id": "r", "put": {"key": "k", "json": "1"}}
    ann("PutItem", **request)
    assert ann("PutItem", **request).replayed
    assert reason(everybody.error("PutItem", **request)) == "REQUEST_ID_REUSED"
    assert reason(bob.error("PutItem", **request)) == NOT_GRANTED
    everybody("UpdateNamespace", namespace=["replayed"], config={"subject": "bob"})
    assert reason(bob.error("PutItem", **request)) == "REQUEST_ID_REUSED"


def test_a_namespace_that_is_given_away_is_gone_at_once(everybody, ann, bob):
    fill(ann, "given")
    pages = ann("ListItems", namespace=["given"], page_size=1)
    everybody("UpdateNamespace", namespace=["given"], config={"subject": "bob"})
    assert not ann("GetItem", namespace=["given"], get={"key": "k0"}).HasField("item")
    error = ann.error("ListItems", namespace=["given"], page_size=1,
                      page_token=pages.next_page_token)
    assert reason(error) == "NAMESPACE_REPLACED"
    error = ann.error("PutItem", namespace=["given"], put={"key": "k", "json": "1"})
    assert reason(error) == NOT_GRANTED
    assert bob("GetItem", namespace=["given"], get={"key": "k0"}).item.json == VALUE


def test_an_erasure_is_of_the_subject(everybody, ann, bob):
    fill(ann, "goes")
    fill(bob, "stays")
    assert reason(ann.error("EraseSubject", subject="bob")) == NOT_GRANTED
    ann("EraseSubject", subject="ann")
    assert everybody.code("GetNamespace", namespace=["goes"]) == NOT_FOUND
    assert everybody.code("GetNamespace", namespace=["stays"]) == OK


def test_a_path_that_changes_hands_shows_nothing_of_the_other(everybody, ann, bob):
    """The look at whose it is, and the read: nothing comes between."""

    def change_hands() -> None:
        for call, value in ((bob, VALUE), (ann, '"own"')):
            remove(everybody, "hot")
            call("PutItem", namespace=["hot"], put={"key": "k0", "json": value, "vector": [1, 0]})

    def read(method: str) -> str:
        got = outcome(ann, method, asked(method, "hot"))
        assert SECRET not in str(got), method
        if not isinstance(got, tuple):
            return "own" if "own" in str(got) else "none"
        assert got[:2] == (ABORTED, "NAMESPACE_REPLACED")
        return "refused"

    methods = ("GetItem", "ListItems", "SearchItems", "BatchItems")
    seen = read_beside(change_hands, read, methods, {"own", "none"})
    assert seen["own"] and seen["none"], seen
