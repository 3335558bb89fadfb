"""Who may do what with items, and how much a tenant may store of them."""

from __future__ import annotations

import json

import grpc
import pytest

from support.access import Caller, credential, write_credentials
from support.calls import item_wire as wire
from support.calls import reason
from support.server import Server

DENIED = grpc.StatusCode.PERMISSION_DENIED


@pytest.fixture
def caller(store, tmp_path):
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential("t", token="all"),
        credential("t", ["read"], token="reads"),
        credential("t", ["write"], token="writes"),
        credential("other", token="other"),
        {**credential("t", token="untrusted"), "untrusted": True},
        {**credential("t", token="user"), "roles": ["user"]},
    ])
    with Server(store, arguments=[f"--credentials={file}", "--tenant-messages=5",
                                  "--tenant-mib=1"]) as server, \
            server.channel() as channel:
        yield lambda token: Caller(channel, token)


def put(call, key, value=1, namespace="n"):
    return call("PutItem", namespace=[namespace], put={"key": key, "json": json.dumps(value)})


def get(call, key, namespace="n"):
    return call("GetItem", namespace=[namespace], get={"key": key})


def batch(call, *kinds):
    made = {"put": wire.ItemPut(key="p", json="1"), "get": wire.ItemGet(key="k"),
            "delete": wire.ItemDelete(key="d")}
    return call("BatchItems", batches=[wire.ItemBatch(namespace=["n"], operations=[
        wire.ItemOperation(**{kind: made[kind]}) for kind in kinds])])


def refused(call, *arguments, **fields) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **fields)
    return caught.value


def test_a_batch_needs_the_rights_of_its_operations(caller):
    put(caller("all"), "k")
    assert batch(caller("reads"), "get").outcomes[0].results[0].get.item.json == "1"
    batch(caller("writes"), "put", "delete")
    for token, kinds in (("reads", ("put",)), ("reads", ("get", "delete")), ("writes", ("get",)),
                         ("writes", ("put", "get"))):
        error = refused(batch, caller(token), *kinds)
        assert error.code() == DENIED and reason(error) == "RIGHT_MISSING", (token, kinds)
    assert refused(caller("writes"), "BatchItems").code() == DENIED


def test_items_have_no_role(caller):
    put(caller("all"), "k")
    limited = caller("user")
    for error in (refused(put, limited, "k"), refused(batch, limited, "put"),
                  refused(limited, "DeleteItem", namespace=["n"], delete={"key": "k"}),
                  refused(limited, "DeleteNamespace", namespace=["n"]),
                  refused(limited, "UpdateNamespace", namespace=["n"]),
                  refused(limited, "CopyNamespace", namespace=["n"], new_namespace=["m"])):
        assert error.code() == DENIED and reason(error) == "ROLE_NOT_GRANTED"
    assert get(limited, "k").item.json == "1"


def test_an_item_says_who_wrote_it_and_whether_he_is_believed(caller):
    put(caller("untrusted"), "k")
    item = get(caller("all"), "k").item
    assert item.untrusted and item.writer.startswith("token:")


def test_tenants_have_namespaces_of_their_own(caller):
    put(caller("all"), "k", "mine")
    other = caller("other")
    assert not get(other, "k").HasField("item")
    assert not other("SearchItems").results and not other("ListNamespaces").namespaces
    put(other, "k", "other's")
    assert other("DeleteNamespace", namespace=["n"]).item_count == 1
    assert get(caller("all"), "k").item.json == '"mine"'


def test_who_may_only_write_is_told_no_configuration(caller):
    caller("all")("UpdateNamespace", namespace=["n"], config={"subject": "ada"})
    reply = caller("writes")("UpdateNamespace", namespace=["n"], config={"refresh_ttl": False})
    assert not reply.namespace.HasField("config")
    reply = caller("all")("UpdateNamespace", namespace=["n"], config={"refresh_ttl": True})
    assert reply.namespace.config.subject == "ada"


def test_quotas_count_items(caller):
    call = caller("all")
    for i in range(5):
        put(call, f"k{i}")
    error = refused(put, call, "k5")
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reason(error) == "QUOTA_EXCEEDED" and "5 messages" in error.details()
    error = refused(call, "Put", session_id="s", messages=[{"role": "user", "text": "x"}])
    assert reason(error) == "QUOTA_EXCEEDED"
    put(caller("other"), "k")
    call("DeleteItem", namespace=["n"], delete={"key": "k0"})
    put(call, "k5")


def test_what_is_replaced_is_not_counted_for_ever(caller):
    call = caller("all")
    half = "x" * (400 << 10)
    for i in range(8):
        put(call, "k", f"{i}{half}")
    error = refused(put, call, "other", half * 2)
    assert reason(error) == "QUOTA_EXCEEDED" and "bytes" in error.details()
    put(call, "other", 1)
