"""ImportNamespace: a namespace as it was elsewhere, whole or not at all."""

from __future__ import annotations

import time

import grpc
import pytest

from support.access import Caller, credential, write_credentials
from support.calls import item_wire as wire
from support.server import Server
from support.stores import STORES, fresh_store

import memoryd
from memoryd import Client, MemorydError

PATH = ("users", "ada")


@pytest.fixture
def client(store):
    with Server(store) as server, Client(server.target) as made:
        yield made


def fill(client: Client) -> None:
    client.update_namespace(PATH, subject="ada", default_ttl=3600, refresh_ttl=False,
                            search=["text"])
    client.put_item(PATH, "c", {"text": "tea", "n": 1.0}, vector=[1, 0.5])
    client.put_item(PATH, "a", b"\x00\xff", mime_type="image/png", ttl=7200)
    client.put_item(PATH, "b", ["x" * 20_000], search=[])
    client.put_item(PATH, "c", {"text": "mate"}, vector=[0, 2])


def stored(client: Client, path=PATH) -> list[dict[str, object]]:
    found = []
    for item in client.list_items(path, order="oldest-first", with_vectors=True):
        told = wire.Item()
        told.CopyFrom(item.wire)
        del told.namespace[:]
        told.ClearField("version")
        found.append(told)
    return found


def copy(source: Client, target: Client, path=PATH) -> None:
    namespace = source.get_namespace(PATH)
    made = target.import_namespace(
        path, source.list_items(PATH, order="oldest-first", with_vectors=True),
        config=namespace.config, create_time=namespace.create_time.ToDatetime())
    assert made.config == namespace.config and made.create_time == namespace.create_time
    assert (made.item_count, made.item_bytes) == (namespace.item_count, namespace.item_bytes)
    assert made.vector_size == namespace.vector_size


@pytest.mark.parametrize("kind", STORES)
def test_a_copy_in_another_store_is_equal(client, kind):
    fill(client)
    with fresh_store(kind) as other, Server(other) as server, Client(server.target) as target:
        copy(client, target)
        assert stored(target) == stored(client)
        versions = [item.version for item in target.list_items(PATH, order="oldest-first")]
        assert versions == sorted(set(versions))
        assert [item.key for item in target.search_items(PATH, query="mate", limit=1)] == ["c"]
        assert target.put_item(PATH, "d", 1).version > versions[-1]


def test_a_namespace_that_is_there_is_refused(client):
    fill(client)
    before = stored(client)
    with pytest.raises(MemorydError) as caught:
        copy(client, client)
    assert caught.value.reason == "NAMESPACE_EXISTS"
    client.update_namespace(("empty",), subject="ada")
    with pytest.raises(MemorydError) as caught:
        copy(client, client, ("empty",))
    assert caught.value.reason == "NAMESPACE_EXISTS"
    assert stored(client) == before
    copy(client, client, ("copy",))
    assert stored(client, ("copy",)) == before


def test_the_later_item_of_a_key_holds_and_what_has_expired_is_left_out(client):
    old = wire.Item(key="old", json="1")
    old.expire_time.FromSeconds(int(time.time()) - 5)
    made = client.import_namespace(
        PATH, [wire.Item(key="k", json="1"), old, wire.Item(key="k", json="2")])
    assert made.item_count == 1
    assert client.get_item(PATH, "k").value == 2


def requests(*steps):
    made = {"begin": wire.ImportNamespaceBegin(namespace=PATH),
            "items": wire.ImportNamespaceItems(items=[wire.Item(key="k", json="1")]),
            "end": wire.ImportNamespaceEnd(item_count=1)}
    for step in steps:
        name, given = step if isinstance(step, tuple) else (step, made[step])
        yield wire.ImportNamespaceRequest(**{name: given})


def items(**fields) -> tuple[str, object]:
    return "items", wire.ImportNamespaceItems(items=[wire.Item(**{"key": "k", **fields})])


@pytest.mark.parametrize("steps, field", [
    (("items",), "begin"), (("begin", "begin"), "begin"),
    ((("begin", wire.ImportNamespaceBegin()),), "begin.namespace"),
    ((("begin", wire.ImportNamespaceBegin(namespace=["memoryd", "x"])),), "begin.namespace"),
    (("begin", items()), "items[0].json"), (("begin", items(json="{")), "items[0].json"),
    (("begin", items(key="", json="1")), "items[0].key"),
    (("begin", items(json="1", vector=[float("nan")])), "items[0].vector"),
    (("begin", "items", items(json="1", vector=[1]), items(json="1", vector=[1, 2])),
     "items[0].vector"),
    (("begin", "items", "items", "end"), "end.item_count"),
    (("begin", "items"), "end"),
])
def test_what_is_wrong_is_named_and_nothing_is_there(store, steps, field):
    with Server(store) as server, server.channel() as channel:
        call = channel.stream_unary(
            "/memoryd.v1.ItemService/ImportNamespace",
            request_serializer=lambda request: request.SerializeToString())
        with pytest.raises(grpc.RpcError) as caught:
            call(requests(*steps), timeout=30)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert field in caught.value.details()
        assert Caller(channel).code("GetNamespace", namespace=PATH) == grpc.StatusCode.NOT_FOUND


def test_a_killed_server_leaves_nothing_of_it(store):
    with Server(store) as server, Client(server.target) as client:
        def until_killed():
            for i in range(2000):
                yield wire.Item(key=str(i), json="1")
            server.kill()
            yield wire.Item(key="last", json="1")

        with pytest.raises(MemorydError):
            client.import_namespace(PATH, until_killed())
    with Server(store) as server, Client(server.target) as client:
        with pytest.raises(MemorydError) as caught:
            client.get_namespace(PATH)
        assert caught.value.reason == "NAMESPACE_NOT_FOUND"
        assert list(client.list_namespaces(include_empty=True)) == []
        made = client.import_namespace(PATH, [wire.Item(key="k", json="1")])
        assert made.item_count == 1


def test_it_needs_two_rights_and_trust(store, tmp_path):
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential("t", ["admin", "write"], token="imports"),
        credential("t", ["admin", "read"], token="admin"),
        {**credential("t", ["admin", "write"], token="untrusted"), "untrusted": True}])
    with Server(store, arguments=[f"--credentials={file}"]) as server:
        for token, code in (("admin", "RIGHT_MISSING"), ("untrusted", "IMPORT_NOT_GRANTED")):
            with Client(server.target, token=token) as client, \
                    pytest.raises(memoryd.MemorydError) as caught:
                client.import_namespace(PATH)
            assert caught.value.reason == code
        with Client(server.target, token="imports") as client:
            assert not client.import_namespace(PATH).HasField("config")
