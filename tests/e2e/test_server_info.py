"""GetServerInfo tells the truth."""

from __future__ import annotations

import re
import time

import grpc
import pytest

from support.calls import Calls, refusal, user
from support.http2 import prefixed, raw_call
from support.postgres import Cluster, run_sql
from support.server import Server

from memoryd.v1 import server_service_pb2 as wire


def test_it_tells_version_start_and_store(store, store_kind):
    before = time.time()
    with Server(store) as server, server.channel() as channel:
        info = Calls(channel).GetServerInfo()
        again = Calls(channel).GetServerInfo()
    assert info.version.count(".") == 2
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", info.revision)
    assert before - 1 <= info.start_time.seconds <= time.time()
    assert info == again
    assert info.store.kind == store_kind
    assert info.store.schema_version >= 1
    if store_kind == "sqlite":
        assert info.store.coherence == wire.COHERENCE_MODE_EXCLUSIVE
        assert info.store.durability == wire.DURABILITY_CLASS_LOCAL
    else:
        assert info.store.coherence == wire.COHERENCE_MODE_SHARED
        # The PostgreSQL for tests runs without fsync.
        assert info.store.durability == wire.DURABILITY_CLASS_NONE
    assert not info.plaintext_beyond_loopback
    assert not info.authentication


def test_settings_show(store):
    arguments = ["--coherence=exclusive", "--max-pending-calls=77", "--cache-mib=3",
                 "--allow-plaintext=true"]
    with Server(store, listen="127.0.0.1:0,0.0.0.0:0", arguments=arguments) as server, \
            server.channel() as channel:
        info = Calls(channel).GetServerInfo()
    assert info.store.coherence == wire.COHERENCE_MODE_EXCLUSIVE
    assert info.limits.pending_calls == 77
    assert info.limits.cache_bytes == 3 << 20
    assert info.plaintext_beyond_loopback


def test_limits_are_those_in_force(calls, session_id):
    limits = calls.GetServerInfo().limits
    messages = limits.messages_per_request
    calls.Put(session_id=session_id, messages=[user("a")] * messages)
    for wrong in ({"session_id": session_id, "messages": [user("a")] * (messages + 1)},
                  {"session_id": "s" * (limits.session_id_bytes + 1), "messages": [user("a")]}):
        assert refusal(calls.Put, **wrong).code() == grpc.StatusCode.INVALID_ARGUMENT
    calls.Put(session_id=session_id, messages=[user("a")])
    assert len(calls.GetAll(session_id=session_id).messages) == limits.default_page_size
    page = calls.GetAll(session_id=session_id, page_size=limits.max_page_size + 1)
    assert len(page.messages) == limits.max_page_size and page.next_page_token
    too_large = [user("x" * (1 << 20))] * (limits.request_bytes // (1 << 20) + 1)
    error = refusal(calls.Put, session_id=session_id, messages=too_large)
    assert error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT)


def test_profiles_and_tokenizers_are_those_it_takes(calls, session_id):
    info = calls.GetServerInfo()
    assert {"default", "llama-index"} <= set(info.profiles)
    assert {"cl100k_base", "o200k_base", "whitespace", "caller"} <= set(info.tokenizers)
    for number, profile in enumerate(info.profiles):
        calls.CreateSession(session_id=f"{session_id}-p{number}", config={"profile": profile})
    for number, tokenizer in enumerate(info.tokenizers):
        calls.CreateSession(session_id=f"{session_id}-t{number}", config={"tokenizer": tokenizer})


def test_a_malformed_request_is_refused(server):
    path = "/memoryd.v1.ServerService/GetServerInfo"
    assert raw_call(server.target, path, prefixed(b"\xff\xff")) == (
        grpc.StatusCode.INVALID_ARGUMENT.value[0])


@pytest.mark.parametrize("settings, expected, said", (
    (("fsync=off",), wire.DURABILITY_CLASS_NONE, "durability NONE"),
    (("fsync=on", "synchronous_commit=off"), wire.DURABILITY_CLASS_NONE, "durability NONE"),
    (("fsync=on",), wire.DURABILITY_CLASS_LOCAL, "durability LOCAL"),
))
def test_durability_is_what_postgresql_promises(settings, expected, said):
    with Cluster(*settings) as cluster, Server(cluster.url) as server, server.channel() as channel:
        assert Calls(channel).GetServerInfo().store.durability == expected
        assert server.stop() == 0
        assert server.output().count("durability ") == 1 and said in server.output()


def test_a_synchronous_standby_counts():
    with Cluster("fsync=on") as cluster:
        with Server(cluster.url):
            pass
        # No commit could end from here on, for there is no such standby; the settings are true.
        run_sql(cluster.url, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        run_sql(cluster.url, "SELECT pg_reload_conf()")
        with Server(cluster.url) as server, server.channel() as channel:
            info = Calls(channel).GetServerInfo()
            assert info.store.durability == wire.DURABILITY_CLASS_REPLICATED
