"""Spans of calls, to a collector of OpenTelemetry's, in a build that has its library."""

from __future__ import annotations

import json
import time

import grpc
import pytest

from support.access import credential, write_credentials
from support.calls import Calls, user, wire
from support.collector import Collector, check_endpoint
from support.metrics import scrape, value
from support.server import Server
from support.waiting import wait_for

from memoryd.v1 import memory_service_pb2_grpc

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SAMPLED = ("traceparent", f"00-{TRACE}-{PARENT}-01")
UNSAMPLED = ("traceparent", f"00-{TRACE}-{PARENT}-00")
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
OK = 0
INVALID_ARGUMENT = 3
# Of OpenTelemetry's protocol.
SERVER = 2
UNSET = 0


@pytest.fixture
def collector():
    with Collector() as made:
        yield made


class Traced:
    """A server whose spans go to `url`, and its log to a file."""

    def __init__(self, url: str, folder, *arguments: str, **options) -> None:
        self._log = folder / "log"
        with open(self._log, "wb") as log:
            self.server = Server("sqlite::memory:", log=log, arguments=[
                f"--otlp-endpoint={url}", "--log-requests=all", "--log-format=json",
                "--metrics-listen=127.0.0.1:0", *arguments], **options)
        self.channel = self.server.channel()

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.channel.close()
        self.server.__exit__(*error)

    def put(self, *metadata, session_id: str = "s"):
        """Makes a Put with metadata of its own."""
        stub = memory_service_pb2_grpc.MemoryServiceStub(self.channel)
        return stub.Put(wire.PutRequest(session_id=session_id, messages=[user("Who is there?")]),
                        metadata=metadata, timeout=60)

    def count(self, result: str) -> float:
        return value(scrape(self.server.metrics), "memoryd_spans_total", result=result)

    def of_calls(self) -> list[dict]:
        """The lines about calls, after the server's end."""
        if self.server.process.poll() is None:
            self.channel.close()
            assert self.server.stop() == 0
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["msg"] == "call"]


@pytest.mark.exports_spans(can=False)
def test_a_build_without_it_refuses_an_endpoint_at_the_start():
    done = check_endpoint("http://127.0.0.1:4318/v1/traces")
    assert done.returncode == 2
    assert done.stderr.startswith("memoryd: ") and done.stderr.count("\n") == 1
    assert "otlp_endpoint: this build has no OpenTelemetry" in done.stderr
    assert check_endpoint("off").returncode == 0


@pytest.mark.exports_spans(can=True)
def test_a_sampled_call_is_one_span_with_the_id_that_its_line_has(collector, tmp_path):
    with Traced(collector.url, tmp_path) as traced:
        before = time.time_ns()
        traced.put(SAMPLED, ("tracestate", STATE))
        after = time.time_ns()
        (span,) = collector.wait(1)
        (line,) = traced.of_calls()
    assert len(collector.spans) == 1
    assert (span.trace_id, span.parent_id, span.state) == (TRACE, PARENT, STATE)
    assert span.span_id == line["span_id"]
    assert before <= span.start < span.end <= after
    assert (span.name, span.kind, span.status) == ("memoryd.v1.MemoryService/Put", SERVER, UNSET)
    assert span.attributes == {"rpc.system": "grpc", "rpc.service": "memoryd.v1.MemoryService",
                               "rpc.method": "Put", "rpc.grpc.status_code": OK}
    assert span.resource["service.name"] == span.scope == "memoryd"


@pytest.mark.exports_spans(can=True)
def test_a_span_says_how_the_call_ended(collector, tmp_path):
    with Traced(collector.url, tmp_path) as traced:
        with pytest.raises(grpc.RpcError):
            traced.put(SAMPLED, session_id="")
        (span,) = collector.wait(1)
    assert span.attributes["rpc.grpc.status_code"] == INVALID_ARGUMENT
    # An error of the caller's is none of the server's span.
    assert span.status == UNSET


@pytest.mark.exports_spans(can=True)
def test_a_stream_is_a_span_too(collector, tmp_path):
    with Traced(collector.url, tmp_path) as traced:
        stub = memory_service_pb2_grpc.MemoryServiceStub(traced.channel)
        traced.put()
        request = wire.StreamAllRequest(session_id="s")
        assert len(list(stub.StreamAll(request, metadata=(SAMPLED,), timeout=60))) == 1
        (span,) = collector.wait(1)
        lines = {line["method"]: line for line in traced.of_calls()}
    assert span.name == "memoryd.v1.MemoryService/StreamAll" and span.parent_id == PARENT
    assert span.span_id == lines["StreamAll"]["span_id"]


@pytest.mark.exports_spans(can=True)
def test_calls_that_nobody_wants_recorded_are_not(collector, tmp_path):
    credentials = write_credentials(tmp_path / "credentials.yaml",
                                    [credential("team", token="canary-of-a-token")])
    known = ("authorization", "Bearer canary-of-a-token")
    with Traced(collector.url, tmp_path, f"--credentials={credentials}") as traced:
        traced.put(known)
        traced.put(known, UNSAMPLED)
        traced.put(known, ("traceparent", "nonsense"))
        # Of somebody who is not known.
        with pytest.raises(grpc.RpcError):
            traced.put(SAMPLED)
        traced.put(known, SAMPLED)
        # What waits is sent before the end.
        assert traced.server.stop() == 0
        sampled = [line["span_id"] for line in traced.of_calls()[-1:]]
    assert [span.span_id for span in collector.spans] == sampled


@pytest.mark.exports_spans(can=True)
def test_what_waits_at_the_end_is_sent(collector, tmp_path):
    with Traced(collector.url, tmp_path) as traced:
        for _ in range(700):
            traced.put(SAMPLED)
        assert traced.server.stop() == 0
    assert len({span.span_id for span in collector.spans}) == 700


@pytest.mark.exports_spans(can=True)
def test_headers_and_the_services_name_are_those_of_the_environment(collector, tmp_path):
    variables = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
                 "OTEL_SERVICE_NAME": "memory of the team"}
    with Traced(collector.url, tmp_path, environment=variables) as traced:
        traced.put(SAMPLED)
        (span,) = collector.wait(1)
    assert collector.headers[0]["authorization"] == "secret"
    assert span.resource["service.name"] == "memory of the team"


@pytest.mark.exports_spans(can=True)
def test_a_collector_that_hangs_holds_up_neither_calls_nor_the_end(collector, tmp_path):
    with Traced(collector.url, tmp_path) as traced:
        collector.hang()
        traced.put(SAMPLED)
        collector.wait_until_asked()
        Calls(traced.channel).Get(session_id="s")
        # A second is what it has to answer.
        wait_for(lambda: traced.count("failed") == 1)
        assert traced.count("exported") == traced.count("dropped") == 0
        traced.put(SAMPLED)
        begin = time.monotonic()
        assert traced.server.stop() == 0
        assert time.monotonic() - begin < 10


@pytest.mark.exports_spans(can=True)
def test_a_collector_that_is_not_there_is_said_once(collector, tmp_path):
    with Traced("http://127.0.0.1:1/v1/traces", tmp_path) as traced:
        for failed in (1, 2):
            traced.put(SAMPLED)
            wait_for(lambda failed=failed: traced.count("failed") == failed)
        assert traced.server.stop() == 0
        assert (tmp_path / "log").read_text().count("takes no spans") == 1
