"""Limits of a tenant, and of what a call brings along: who is refused, and who is not."""

from __future__ import annotations

import json

import grpc
import pytest
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2, status_pb2

from support.access import Caller, bearer, credential, write_credentials
from support.blocks import block, every_turn, turn
from support.calls import Calls, memory, reason, wire
from support.http2 import prefixed, raw_call
from support.metrics import scrape, value
from support.server import Server, failed_start
from support.waiting import wait_for

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
METRICS = "--metrics-listen=127.0.0.1:0"
PUT = "/memoryd.v1.MemoryService/Put"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Gives any tenant a call a second, `quiet` all it wants, and `narrow` one call at a time."""
    folder = tmp_path_factory.mktemp("tenants")
    credentials = write_credentials(folder / "credentials.yaml", [
        credential(name, token=name) for name in ("noisy", "quiet", "narrow")])
    file = folder / "memoryd.yaml"
    file.write_text(json.dumps({
        "tenant_calls_per_second": 1,
        "tenants": [{"name": "quiet", "calls_per_second": 0},
                    {"name": "narrow", "calls_per_second": 0, "calls_in_flight": 1}],
    }))
    arguments = [f"--config={file}", f"--credentials={credentials}", METRICS]
    with Server("sqlite::memory:", arguments=arguments) as running:
        yield running


def refused(server: Server, reason: str) -> float:
    return value(scrape(server.metrics), "memoryd_admission_rejected_total", reason=reason)


def test_a_tenant_over_its_rate_is_told_when_to_come_again(server):
    with server.channel() as channel:
        noisy, quiet = Caller(channel, "noisy"), Caller(channel, "quiet")
        # More than one in a second, on any machine, sooner or later.
        error = wait_for(lambda: noisy.error("Get", session_id="s"))
        assert error.code() == EXHAUSTED and reason(error) == "TENANT_RATE"
        details = status_pb2.Status()
        trailing = dict(error.trailing_metadata())
        details.ParseFromString(trailing["grpc-status-details-bin"])
        retry = error_details_pb2.RetryInfo()
        assert details.details[1].Unpack(retry)
        assert 0 < retry.retry_delay.ToMilliseconds() <= 1000
        assert refused(server, "tenant_rate") >= 1
        for _ in range(50):
            assert quiet.error("Get", session_id="s") is None
        wait_for(lambda: noisy.error("Get", session_id="s") is None)


def test_calls_of_a_tenant_under_way(server):
    with server.channel() as channel:
        narrow, quiet = Caller(channel, "narrow"), Caller(channel, "quiet")
        # Fed by a worker that is not there.
        config = every_turn(block("b", "worker", worker="away"))
        narrow("CreateSession", session_id="s", config=config)
        narrow("Put", session_id="s", messages=turn("one"))
        put = wire.PutRequest(session_id="s", messages=turn("two"),
                              wait=duration_pb2.Duration(seconds=5))
        waiting = channel.unary_unary(
            PUT, request_serializer=wire.PutRequest.SerializeToString,
            response_deserializer=wire.PutResponse.FromString,
        ).future(put, timeout=30, metadata=bearer("narrow"))
        error = wait_for(lambda: narrow.error("Get", session_id="s"))
        assert error.code() == EXHAUSTED and reason(error) == "TENANT_CALLS_IN_FLIGHT"
        assert quiet.error("Get", session_id="s") is None
        assert waiting.result().revision > 0
        # The place is given back before the answer is sent.
        assert narrow.error("Get", session_id="s") is None
        assert refused(server, "tenant_calls_in_flight") >= 1


@pytest.fixture(scope="module")
def unlimited():
    with Server("sqlite::memory:", arguments=[METRICS]) as running:
        yield running


@pytest.mark.parametrize("headers", (
    {"x-large": "v" * 9_000},
    {f"x-{i}": "v" * 20_000 for i in range(5)},
    {f"x-{i}": "v" for i in range(1000)},
))
def test_metadata_is_counted_where_the_client_has_not_acknowledged_settings(unlimited, headers):
    body = prefixed(wire.PutRequest(
        session_id="m", messages=[memory.Message(role="user", text="x")]).SerializeToString())
    assert raw_call(unlimited.target, PUT, body, headers) == EXHAUSTED.value[0]
    assert raw_call(unlimited.target, PUT, body, {"x-small": "v" * 4_000}) == 0
    assert refused(unlimited, "metadata") >= 1
    with unlimited.channel() as channel:
        stored = Calls(channel).all_messages("m")
        Calls(channel).Reset(session_id="m")
    assert len(stored) == 1


def test_a_bad_limit_is_named(tmp_path):
    file = tmp_path / "memoryd.yaml"
    file.write_text("tenants:\n- name: a\n  calls_per_second: -1\n")
    code, output = failed_start("sqlite::memory:", arguments=[f"--config={file}"])
    assert code == 2 and "tenants: calls_per_second" in output and ":3:" in output
