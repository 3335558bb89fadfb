"""PostgreSQL's answer to a commit is lost, late, or comes without the standby's."""

from __future__ import annotations

import threading

import grpc
import pytest

from support.calls import Calls, reason, refusal, user
from support.metrics import Watch
from support.postgres import at_port, run_sql, server_url, temporary_database
from support.postgres_proxy import DELAY, LOSSES, Proxies
from support.server import Server
from support.standby import ReplicatedCluster
from support.waiting import wait_for

METRICS = "--metrics-listen=127.0.0.1:0"
IN_DOUBT = "memoryd_commit_in_doubt_total"
DEADLINE = 30.0


@pytest.fixture(scope="module")
def proxies():
    with Proxies() as running:
        yield running


@pytest.mark.parametrize("loss", (*LOSSES, DELAY))
def test_a_lost_answer_is_settled_before_the_reply(proxies, session_id, loss):
    port = int(run_sql(server_url(), "SHOW port"))
    link = proxies.link(port)
    with temporary_database() as url, \
            Server(at_port(url, link.port), arguments=[METRICS]) as server, \
            server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id=session_id, messages=[user("before")])
        watch = Watch(server.metrics)
        link.lose([loss], delay_seconds=60)
        reply = calls.Put(session_id=session_id, messages=[user("once")], timeout=DEADLINE)
        assert link.lost[loss] == 1
        assert list(reply.positions) == [2]
        assert watch.moved(IN_DOUBT, outcome="committed") == 1
        assert [m.text for m in calls.all_messages(session_id)] == ["before", "once"]


def test_a_commit_that_gave_up_its_standby_is_no_acknowledgement(proxies, session_id):
    with ReplicatedCluster(proxies) as cluster, \
            Server(cluster.store, arguments=[METRICS]) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id=session_id, messages=[user("before")])
        watch = Watch(server.metrics)
        put = {"session_id": session_id, "messages": [user("alone?")], "request_id": "r"}
        errors: list[grpc.RpcError] = []
        caller = threading.Thread(target=lambda: errors.append(
            refusal(calls.Put, **put, timeout=DEADLINE)))
        (standby,) = cluster.standbys
        standby.pause()
        try:
            caller.start()
            wait_for(lambda: run_sql(cluster.url, "SELECT count(*) FROM pg_stat_activity WHERE "
                                                  "wait_event = 'SyncRep'") == "1\n")
            run_sql(cluster.url, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE "
                                 "wait_event = 'SyncRep'")
            caller.join()
        finally:
            standby.resume()
        assert errors[0].code() == grpc.StatusCode.UNAVAILABLE
        assert reason(errors[0]) == "OUTCOME_UNKNOWN"
        assert watch.moved(IN_DOUBT, outcome="unknown") == 1
        assert list(calls.Put(**put, timeout=DEADLINE).positions) == [2]
        assert [m.text for m in calls.all_messages(session_id)] == ["before", "alone?"]


@pytest.mark.parametrize("fault", ("kill", "cut"))
def test_what_is_acknowledged_outlives_the_primary(proxies, session_id, fault):
    with ReplicatedCluster(proxies) as cluster, Server(cluster.store) as server, \
            server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id=session_id, messages=[user("before")])
        if fault == "kill":
            cluster.kill_primary()
        else:
            cluster.cut_primary(alive_seconds=0)
        wait_for(lambda: put_again(calls, session_id, "after"))
        assert [m.text for m in calls.all_messages(session_id)] == ["before", "after"]


def put_again(calls: Calls, session_id: str, text: str) -> bool:
    try:
        calls.Put(session_id=session_id, messages=[user(text)], request_id=text, timeout=DEADLINE)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        return False
    return True
