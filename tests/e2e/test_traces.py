"""A call's trace goes on: to the models and workers that memoryd asks on its behalf."""

from __future__ import annotations

import re

import grpc
import pytest

from support.blocks import WAIT, block, every_turn, models_file, turn
from support.calls import Calls, user, wire
from support.embedders import config, embed, settled
from support.http2 import Connection, prefixed
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store

import memoryd
from memoryd.v1 import memory_service_pb2_grpc

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
TRACESTATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"


@pytest.fixture(scope="module")
def models():
    with ModelServer(embed=embed) as server:
        yield server


@pytest.fixture(scope="module")
def target(store_kind, models, tmp_path_factory):
    arguments = [models_file(tmp_path_factory.mktemp("models"), models), "--job-retry-ms=20"]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server:
        yield server.target


@pytest.fixture
def channel(target):
    with grpc.insecure_channel(target) as opened:
        yield opened


def traced(channel, name, request, *metadata):
    """Makes a call of MemoryService with metadata of its own."""
    method = getattr(memory_service_pb2_grpc.MemoryServiceStub(channel), name)
    return method(request, timeout=60, metadata=metadata)


def embedded(calls, session_id):
    """Makes a session of one message whose embedding is there, so that models are asked for Queries alone."""
    calls.Put(session_id=session_id, messages=[user("My dog is called Rex")], config=config())
    settled(calls, session_id)


def query(channel, models, session_id, *metadata):
    """What models are asked when a Query comes with this metadata."""
    before = len(models.requests)
    traced(channel, "Query", wire.QueryRequest(session_id=session_id, query="hound"), *metadata)
    return models.requests[before:]


def parents(requests) -> set[tuple[str, str]]:
    """Trace and state of what a model server was asked, after a look at the parents."""
    found = set()
    for request in requests:
        matched = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01",
                               request.headers["traceparent"])
        assert matched is not None and matched[2] not in (PARENT, "0" * 16)
        found.add((matched[1], request.headers.get("tracestate", "")))
    return found


def test_a_query_takes_its_trace_to_the_embedder(channel, models, session_id):
    embedded(Calls(channel), session_id)
    asked = query(channel, models, session_id,
                  ("traceparent", TRACEPARENT), ("tracestate", TRACESTATE))
    assert parents(asked) == {(TRACE, TRACESTATE)}


def test_a_get_takes_its_trace_to_the_models_of_its_blocks(channel, models, session_id):
    calls = Calls(channel)
    calls.CreateSession(session_id=session_id,
                        config=every_turn(block("vectors", "vector", embedder="embed")))
    for text in ("My dog is called Rex", "And you?"):
        calls.Put(session_id=session_id, messages=turn(text), wait=WAIT)
    before = len(models.requests)
    traced(channel, "Get", wire.GetRequest(session_id=session_id, input="hound"),
           ("traceparent", TRACEPARENT), ("tracestate", TRACESTATE))
    assert parents(models.requests[before:]) == {(TRACE, TRACESTATE)}


def test_a_puts_jobs_go_on_with_its_trace_also_when_they_try_again(channel, models, session_id):
    Calls(channel).CreateSession(
        session_id=session_id,
        config=every_turn(block("facts", "fact-extraction", model="chat")))
    before = len(models.requests)
    models.lie("status")
    for text in ("I live in Lyon", "And you?"):
        traced(channel, "Put",
               wire.PutRequest(session_id=session_id, messages=turn(text), wait=WAIT),
               ("traceparent", TRACEPARENT), ("tracestate", TRACESTATE))
    asked = models.requests[before:]
    assert len(asked) >= 2
    assert parents(asked) == {(TRACE, TRACESTATE)}


def test_two_calls_of_one_trace_are_two_spans(channel, models, session_id):
    embedded(Calls(channel), session_id)
    before = len(models.requests)
    for text in ("hound", "puppy"):
        traced(channel, "Query", wire.QueryRequest(session_id=session_id, query=text),
               ("traceparent", TRACEPARENT))
    asked = models.requests[before:]
    assert parents(asked) == {(TRACE, "")}
    assert len({request.headers["traceparent"] for request in asked}) == len(asked) == 2


@pytest.mark.parametrize("metadata", [
    (), (("tracestate", TRACESTATE),), (("traceparent", TRACEPARENT + "-x"),),
    (("traceparent", f"ff{TRACEPARENT[2:]}"), ("tracestate", TRACESTATE)),
], ids=["none", "state alone", "longer", "version ff"])
def test_without_a_trace_that_is_one_nothing_is_said(channel, models, session_id, metadata):
    embedded(Calls(channel), session_id)
    (asked,) = query(channel, models, session_id, *metadata)
    assert "traceparent" not in asked.headers and "tracestate" not in asked.headers


def test_of_two_traces_there_is_none_and_of_two_states_there_are_both(
        target, channel, models, session_id):
    embedded(Calls(channel), session_id)
    body = prefixed(wire.QueryRequest(session_id=session_id, query="hound").SerializeToString())
    two = [("traceparent", TRACEPARENT)] * 2
    states = [("traceparent", TRACEPARENT), ("tracestate", "a=1"), ("tracestate", "b=2")]
    before = len(models.requests)
    for headers in (two, states):
        with Connection(target) as connection:
            assert connection.call("/memoryd.v1.MemoryService/Query", body, headers).status == 0
    of_two, of_states = models.requests[before:]
    assert "traceparent" not in of_two.headers
    assert parents([of_states]) == {(TRACE, "a=1,b=2")}


def test_a_state_that_is_none_is_left_out(channel, models, session_id):
    embedded(Calls(channel), session_id)
    asked = query(channel, models, session_id,
                  ("traceparent", TRACEPARENT), ("tracestate", "no state"))
    assert parents(asked) == {(TRACE, "")}


def test_a_worker_is_told_of_the_trace_and_opentelemetry_goes_on_with_it(
        target, channel, session_id):
    from opentelemetry import trace

    heard = {}

    class Mentions(memoryd.Block):
        name = "mentions"

        def note(self, kind):
            call = memoryd.current_call()
            heard[kind] = (call.traceparent, call.tracestate,
                           trace.get_current_span().get_span_context())

        def put(self, messages, state):
            self.note("put")
            return (state or 0) + 1

        async def get(self, messages, state):
            self.note("get")
            return f"{state} times"

    with memoryd.Worker(target, name=session_id, blocks=[Mentions()]):
        Calls(channel).CreateSession(
            session_id=session_id,
            config=every_turn(block("mentions", "worker", worker=session_id)))
        told = (("traceparent", TRACEPARENT), ("tracestate", TRACESTATE))
        for text in ("I live in Lyon", "And you?"):
            traced(channel, "Put",
                   wire.PutRequest(session_id=session_id, messages=turn(text), wait=WAIT), *told)
        traced(channel, "Get", wire.GetRequest(session_id=session_id), *told)
        for traceparent, tracestate, span in heard.values():
            assert traceparent.startswith(f"00-{TRACE}-") and traceparent.endswith("-01")
            assert PARENT not in traceparent
            assert tracestate == TRACESTATE
            assert f"{span.trace_id:032x}" == TRACE and span.is_remote
            assert f"{span.span_id:016x}" == traceparent.split("-")[2]
        assert set(heard) == {"put", "get"}
        # Whoever comes next on the same thread is in no trace.
        Calls(channel).Get(session_id=session_id)
        assert heard["get"][0] == "" and not heard["get"][2].is_valid


def test_a_client_passes_its_trace_on(target, models, session_id):
    from opentelemetry import context, propagate

    given = {"traceparent": TRACEPARENT, "tracestate": TRACESTATE, "baggage": "of=nobody"}
    with memoryd.Client(target) as plain, memoryd.Client(target, trace=lambda: given) as told:
        plain.put(session_id, [memoryd.message("user", "My dog is called Rex")], config=config())
        with grpc.insecure_channel(target) as opened:
            settled(Calls(opened), session_id)
        before = len(models.requests)
        told.query(session_id, "hound")
        attached = context.attach(propagate.extract({"traceparent": TRACEPARENT}))
        try:
            plain.query(session_id, "puppy")
        finally:
            context.detach(attached)
        plain.query(session_id, "dog")
    first, second, third = models.requests[before:]
    assert parents([first]) == {(TRACE, TRACESTATE)} and "baggage" not in first.headers
    assert parents([second]) == {(TRACE, "")}
    assert "traceparent" not in third.headers


async def _query(target, session_id):
    async with memoryd.AsyncClient(
            target, trace=lambda: {"traceparent": TRACEPARENT}) as client:
        await client.query(session_id, "hound")


def test_an_asyncio_client_does_so_too(target, models, session_id):
    import asyncio

    with grpc.insecure_channel(target) as opened:
        embedded(Calls(opened), session_id)
    before = len(models.requests)
    asyncio.run(_query(target, session_id))
    assert parents(models.requests[before:]) == {(TRACE, "")}
