"""What /metrics says is what was done, and nothing a caller sends becomes a label."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import urllib.error
import urllib.request

import grpc
import pytest
from grpc_health.v1 import health_pb2

from support.calls import Calls, refusal, user
from support.http2 import prefixed, raw_call
from support.metrics import Watch, parse, scrape, scrape_text, value
from support.postgres import Cluster
from support.server import Server, failed_start, open_channel, wait_for_health

METRICS = "--metrics-listen=127.0.0.1:0"
METHODS = {
    "Put", "PutBatch", "Get", "GetAll", "Set", "Reset", "Query", "UpdateContext", "StreamAll",
    "UpdateMessage", "DeleteMessage", "GetContent", "UpdateContent", "DeleteContent",
    "CreateSession", "GetSession",
    "ListSessions", "WatchSession", "UpdateSession", "DeleteSession", "ForkSession", "ImportSession",
    "EraseSubject", "ListJobs", "GetJob", "RetryJob", "CancelJob", "GetUsage", "GetBlock",
    "ListBlockEntries", "UndoBlockChange", "AddFact", "UpdateFact", "DeleteFact", "GetServerInfo", "Attach",
    "PutItem", "GetItem", "DeleteItem", "ListItems", "SearchItems", "BatchItems", "GetNamespace",
    "UpdateNamespace", "ListNamespaces", "CopyNamespace", "DeleteNamespace", "ImportNamespace",
}
CODES = {code.name for code in grpc.StatusCode}


@pytest.fixture(scope="module")
def measured(store_kind):
    from support.stores import fresh_store

    with fresh_store(store_kind) as store, Server(store, arguments=[METRICS]) as server:
        yield server


@pytest.fixture
def calls(measured):
    with measured.channel() as channel:
        yield Calls(channel)


def test_calls_are_counted_by_method_and_code(measured, calls, session_id):
    watch = Watch(measured.metrics)
    for _ in range(3):
        calls.Put(session_id=session_id, messages=[user("a")])
    for _ in range(2):
        calls.Get(session_id=session_id)
    refusal(calls.Put, session_id="", messages=[user("a")])
    refusal(calls.GetSession, session_id=session_id + "x")
    assert watch.moved("memoryd_rpc_total", method="Put", code="OK") == 3
    assert watch.moved("memoryd_rpc_total", method="Put", code="INVALID_ARGUMENT") == 1
    assert watch.moved("memoryd_rpc_total", method="Get", code="OK") == 2
    assert watch.moved("memoryd_rpc_total", method="GetSession", code="NOT_FOUND") == 1
    assert watch.moved("memoryd_rpc_total", method="Set", code="OK") == 0
    assert watch.moved("memoryd_rpc_seconds_count", method="Put") == 4
    assert watch.moved("memoryd_rpc_seconds_bucket", method="Put", le="+Inf") == 4
    assert watch.moved("memoryd_rpc_seconds_sum", method="Put") > 0


def test_commits_and_replays_are_counted(measured, calls, session_id):
    watch = Watch(measured.metrics)
    for _ in range(2):
        calls.Put(session_id=session_id, messages=[user("a")], request_id="r")
    calls.Put(session_id=session_id, messages=[user("b")])
    refusal(calls.Put, session_id=session_id, messages=[user("c")], expected_revision=99)
    assert watch.moved("memoryd_request_replays_total") == 1
    assert watch.moved("memoryd_commit_outcomes_total", outcome="committed") == 2
    assert watch.moved("memoryd_commit_outcomes_total", outcome="failed") == 0
    assert watch.moved("memoryd_commit_batches_total") == 2
    assert watch.moved("memoryd_commit_batch_writes_sum") == 2
    assert watch.moved("memoryd_commit_batch_sessions_sum") == 2
    assert watch.moved("memoryd_commit_seconds_count") == 2
    assert watch.moved("memoryd_store_seconds_count", operation="commit") == 2
    assert watch.moved("memoryd_store_errors_total", operation="commit") == 0


def test_the_cache_counts_hits_and_misses(measured, calls, session_id):
    watch = Watch(measured.metrics)
    calls.Get(session_id=session_id)
    assert watch.moved("memoryd_cache_misses_total") == 1
    assert watch.moved("memoryd_cache_hits_total") == 0
    calls.Get(session_id=session_id)
    calls.Put(session_id=session_id, messages=[user("a")])
    assert watch.moved("memoryd_cache_misses_total") == 1
    assert watch.moved("memoryd_cache_hits_total") == 2
    series = scrape(measured.metrics)
    assert value(series, "memoryd_cache_sessions") >= 1
    assert value(series, "memoryd_cache_bytes") > 0


def test_evictions_are_counted(store):
    with Server(store, arguments=[METRICS, "--cache-mib=1"]) as server, server.channel() as channel:
        for number in range(40):
            Calls(channel).Put(session_id=f"s{number}", messages=[user("x" * 100_000)])
        assert value(scrape(server.metrics), "memoryd_cache_evictions_total") > 0
        assert value(scrape(server.metrics), "memoryd_cache_bytes") < 2 << 20


def test_indexes_stay_within_their_room_and_evictions_are_counted(store):
    with Server(store, arguments=[METRICS, "--index-mib=1"]) as server, server.channel() as channel:
        calls = Calls(channel)
        sessions = [f"s{number}" for number in range(12)]
        for session in sessions:
            calls.Put(session_id=session, messages=[
                user(f"parrot {session} says word{number} and term{number * 7919}")
                for number in range(300)])
        answers = {}
        for _ in range(2):
            for session in sessions:
                reply = calls.Query(session_id=session, query="what says word77 or term7919")
                found = [(r.message.message_id, r.score) for r in reply.results]
                assert found and found == answers.setdefault(session, found)
                assert 0 < value(scrape(server.metrics), "memoryd_index_bytes") <= 1 << 20
        assert value(scrape(server.metrics), "memoryd_index_evictions_total") >= len(sessions)


def test_a_session_changed_by_another_server_is_stale():
    from support.stores import fresh_store

    with contextlib.ExitStack() as stack:
        store = stack.enter_context(fresh_store("postgresql"))
        servers = [stack.enter_context(Server(store, arguments=[METRICS])) for _ in range(2)]
        one, two = (Calls(stack.enter_context(server.channel())) for server in servers)
        one.Put(session_id="s", messages=[user("a")])
        two.Get(session_id="s")
        watch = Watch(servers[1].metrics)
        two.Get(session_id="s")
        assert watch.moved("memoryd_cache_stale_total") == 0
        one.Put(session_id="s", messages=[user("b")])
        assert [m.text for m in two.Get(session_id="s").messages] == ["a", "b"]
        assert watch.moved("memoryd_cache_stale_total") == 1


def test_gauges_tell_what_the_server_is(measured, calls, store_kind):
    series = scrape(measured.metrics)
    assert value(series, "memoryd_store_up") == 1
    info = calls.GetServerInfo()
    assert value(series, "memoryd_build_info", version=info.version, revision=info.revision) == 1
    durable = "LOCAL" if store_kind == "sqlite" else "NONE"
    for name in ("NONE", "LOCAL", "REPLICATED"):
        assert value(series, "memoryd_store_durability", **{"class": name}) == (name == durable)
    start = calls.GetServerInfo().start_time
    assert value(series, "process_start_time_seconds") == pytest.approx(
        start.seconds + start.nanos / 1e9, abs=1e-3)
    assert value(series, "process_cpu_seconds_total") > 0
    open_files = len(os.listdir(f"/proc/{measured.pid}/fd"))
    assert value(series, "process_open_fds") == pytest.approx(open_files, abs=5)
    assert value(series, "process_max_fds") == resource.prlimit(
        measured.pid, resource.RLIMIT_NOFILE)[0]
    assert value(series, "memoryd_rpc_in_flight") == 0
    assert value(series, "memoryd_pending_calls") == 0
    assert value(series, "memoryd_pending_bytes") == 0


def test_no_caller_can_add_a_series(measured, calls):
    secret = "canary-4711"
    calls.Put(session_id=secret, messages=[user(secret)])
    families = {name for name, _ in scrape(measured.metrics)}
    for path in ("/memoryd.v1.MemoryService/Nope", f"/memoryd.v1.MemoryService/{secret}", f"/{secret}",
                 "/memoryd.v1.MemoryService/Put/x", '/memoryd.v1.MemoryService/"},{'):
        error = refusal(calls.channel.unary_unary(path), b"", timeout=30)
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, path
    for headers in ({"x-request-id": secret}, {"traceparent": secret}, {"authorization": secret},
                    {"user-agent": secret}, {"x-" + secret: secret}):
        raw_call(measured.target, "/memoryd.v1.MemoryService/Get", prefixed(b"\xff"), headers)
    text = scrape_text(measured.metrics)
    assert secret not in text
    after = parse(text)
    assert {name for name, _ in after} == families
    for name, labels in after:
        for label, found in labels:
            if name.startswith("memoryd_rpc") and label == "method":
                assert found in METHODS
            elif label == "code":
                assert found in CODES
            elif label == "le":
                assert found == "+Inf" or float(found) > 0
            else:
                assert re.fullmatch(r"[a-zA-Z0-9_.-]+", found), (name, label, found)
    assert sum(1 for name, _ in after if name == "memoryd_rpc_total") <= len(METHODS) * len(CODES)


def test_nothing_but_metrics_is_served(measured):
    for path in ("/", "/metrics/", "/../etc/passwd", "/metrics?%00"):
        try:
            with urllib.request.urlopen(f"http://{measured.metrics}{path}", timeout=30) as reply:
                assert reply.read().startswith(b"# HELP"), path
        except urllib.error.HTTPError as error:
            assert error.code in (400, 404), path


def test_metrics_are_off_unless_asked_for(store):
    with Server(store) as server:
        assert not server.metrics and "metrics on" not in server.output()


def test_an_address_in_use_is_refused(store, measured):
    code, output = failed_start(store, arguments=[f"--metrics-listen={measured.metrics}"])
    assert code == 1 and "metrics_listen" in output and "listening" not in output


def test_a_store_that_is_away_is_down_and_its_errors_are_counted():
    with Cluster() as cluster, Server(cluster.url, arguments=[METRICS]) as server, \
            open_channel(server.target) as channel:
        calls = Calls(channel)
        calls.Put(session_id="s", messages=[user("a")])
        watch = Watch(server.metrics)
        cluster.stop()
        refusal(calls.Put, session_id="s", messages=[user("b")], timeout=10)
        wait_for_health(channel, health_pb2.HealthCheckResponse.NOT_SERVING, timeout=60)
        assert value(scrape(server.metrics), "memoryd_store_up") == 0
        assert watch.moved("memoryd_store_errors_total", operation="ping") > 0
        assert watch.moved("memoryd_rpc_total", method="Put", code="UNAVAILABLE") == 1
        cluster.start()
        wait_for_health(channel, health_pb2.HealthCheckResponse.SERVING, timeout=60)
        assert value(scrape(server.metrics), "memoryd_store_up") == 1
