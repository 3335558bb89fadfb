"""Start, health, signals, sockets."""

from __future__ import annotations

import signal
import threading
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from support.calls import Calls, user
from support.server import (
    Server,
    failed_start,
    open_channel,
    terminated_under_load,
    wait_for_health,
)
from support.stores import fresh_store

SERVING = health_pb2.HealthCheckResponse.SERVING


def test_health_says_serving(calls):
    stub = health_pb2_grpc.HealthStub(calls.channel)
    for service in ("", "memoryd.v1.MemoryService"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
        assert answer.status == SERVING
    with pytest.raises(grpc.RpcError) as error:
        stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=30)
    assert error.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_unix_socket_serves_and_is_taken_over_after_a_kill(store, tmp_path):
    listen = f"unix:{tmp_path}/memoryd.sock"
    with Server(store, listen=listen) as server:
        assert server.target == listen
        with server.channel() as channel:
            Calls(channel).Put(session_id="s", messages=[user("a")])
        server.kill()
    with Server(store, listen=listen) as server, server.channel() as channel:
        assert [m.text for m in Calls(channel).all_messages("s")] == ["a"]
        assert server.stop() == 0


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT))
def test_an_idle_server_ends_at_once_and_well(store, number):
    with Server(store) as server:
        begin = time.monotonic()
        server.process.send_signal(number)
        assert server.wait() == 0
        assert time.monotonic() - begin < 10


def test_sigterm_under_load_keeps_all_that_was_acknowledged(store):
    acknowledged: list[list[str]] = [[] for _ in range(8)]

    def write(writer: int, target: str, warm: threading.Barrier) -> None:
        with open_channel(target) as channel:
            calls = Calls(channel)
            for number in range(1_000_000):
                text = f"{writer}/{number}"
                try:
                    calls.Put(session_id=f"s{writer % 3}", messages=[user(text)])
                except grpc.RpcError as error:
                    assert error.code() in (
                        grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), error
                    return
                acknowledged[writer].append(text)
                if number == 20:
                    warm.wait(60)

    assert terminated_under_load(store, 8, write) < 15
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        stored = {s: [m.text for m in calls.all_messages(f"s{s}")] for s in range(3)}
    for writer, texts in enumerate(acknowledged):
        mine = [t for t in stored[writer % 3] if t.startswith(f"{writer}/")]
        # The last Put may have been stored without its reply having arrived.
        assert mine[:len(texts)] == texts and len(mine) <= len(texts) + 1


def test_sigterm_ends_the_process_though_a_client_never_lets_go(store):
    with Server(store) as server, server.channel() as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        begin = time.monotonic()
        server.terminate()
        server.wait()
        assert time.monotonic() - begin < 30


def test_a_restart_serves_what_was_stored(store):
    for round_number in range(3):
        with Server(store) as server, server.channel() as channel:
            wait_for_health(channel, SERVING, timeout=60)
            calls = Calls(channel)
            texts = [m.text for m in calls.all_messages("s")]
            assert texts == [str(n) for n in range(round_number)]
            calls.Put(session_id="s", messages=[user(str(round_number))])
            assert server.stop() == 0


def test_a_second_server_on_one_sqlite_file_is_refused():
    with fresh_store("sqlite") as store, Server(store) as first, first.channel() as channel:
        code, output = failed_start(store)
        assert code == 1
        lock = store.removeprefix("sqlite:") + ".lock"
        assert output == f"memoryd: {lock} is held by another memoryd: one process at a time\n"
        Calls(channel).Put(session_id="s", messages=[user("a")])


def test_an_exclusive_server_keeps_others_out(store, store_kind):
    exclusive = ("--coherence=exclusive",)
    with Server(store, arguments=exclusive) as first, first.channel() as channel:
        code, output = failed_start(store, arguments=exclusive)
        assert code != 0
        assert output.strip() and "listening" not in output
        Calls(channel).Put(session_id="s", messages=[user("a")])
        assert [m.text for m in Calls(channel).Get(session_id="s").messages] == ["a"]
        first.kill()
    with Server(store, arguments=exclusive) as again, again.channel() as channel:
        assert [m.text for m in Calls(channel).Get(session_id="s").messages] == ["a"]


def test_an_address_in_use_is_refused(store):
    with Server(store) as first, fresh_store("sqlite") as other:
        code, output = failed_start(other, listen=first.target)
        assert code != 0 and "listening" not in output
