"""Spans of the clients' calls on memory, by OpenTelemetry's conventions for generative AI."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest
from opentelemetry import context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from support.blocks import block, models_file
from support.model_server import ModelServer
from support.paths import BINARY, REPOSITORY
from support.server import Server
from support.stores import fresh_store

import memoryd
from memoryd import AsyncClient, Client, MemorydError, _memory_spans, content, message
from memoryd.v1 import memory_pb2 as memory

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
FACTS = memory.SessionConfig(blocks=[block("facts", "fact-extraction", model="chat")])


class Exported:
    """The spans that have ended, the oldest first, and the provider that an application would set."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def spans(self) -> list:
        found = list(self._exporter.get_finished_spans())
        self._exporter.clear()
        return found

    def only(self):
        (span,) = self.spans()
        return span


@pytest.fixture
def exported(monkeypatch):
    """Not set for the whole process, whose other tests begin no traces."""
    monkeypatch.delenv(CAPTURE, raising=False)
    found = Exported()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: found.provider)
    return found


@pytest.fixture(scope="module")
def server(store_kind, tmp_path_factory):
    """With the model that facts want, and which nothing here asks."""
    with ModelServer() as models, fresh_store(store_kind) as store, Server(
            store, arguments=[models_file(tmp_path_factory.mktemp("models"), models)]) as running:
        yield running


@pytest.fixture
def client(server):
    with Client(server.target) as opened:
        yield opened


def attributes(span) -> dict:
    """Those of the convention, without what is the same for all; checks what has to be there."""
    found = dict(span.attributes)
    assert span.kind is SpanKind.CLIENT
    assert found.pop("gen_ai.operation.name") == span.name
    assert found.pop("gen_ai.provider.name") == "memoryd"
    assert found.pop("server.address") == "127.0.0.1"
    assert isinstance(found.pop("server.port"), int)
    assert found.pop("gen_ai.conversation.id") == found["gen_ai.memory.store.id"]
    return {name.removeprefix("gen_ai.memory."): value for name, value in found.items()}


# Each call with the span that it has: name, id of the record, and how many there are.
CALLS = (
    ("create_session", ("S", FACTS), "create_memory_store", None, None),
    ("put", ("S", [message("user", "I like tea.", message_id="m1")]), "create_memory", "m1", 1),
    ("put", ("S", [message("user", "And jazz.", message_id="m2"), message("assistant", "Noted.")]),
     "create_memory", None, 2),
    ("put", ("S", [], {"contents": [content("Logan", content_id="c1")]}), "create_memory", "c1", 1),
    ("get", ("S",), "search_memory", None, 3),
    ("query", ("S", "tea"), "search_memory", None, None),
    ("update_context", ("S", [message("user", "Tea or coffee?")]), "search_memory", None, None),
    ("update_message", ("S", "m1", "I like green tea."), "update_memory", "m1", 1),
    ("update_content", ("S", "c1", "Logan Ninefingers"), "update_memory", "c1", 1),
    ("add_fact", ("S", "facts", "The user likes tea."), "create_memory", "facts/1", 1),
    ("update_fact", ("S", "facts", 1, "The user likes green tea."), "update_memory", "facts/1", 1),
    ("undo_block_change", ("S", "facts", "change"), "update_memory", None, None),
    ("delete_fact", ("S", "facts", 1), "delete_memory", "facts/1", 1),
    ("delete_content", ("S", "c1"), "delete_memory", "c1", 1),
    ("delete_message", ("S", "m2"), "delete_memory", "m2", 1),
    ("delete_message", ("S", "m1", {"with_tool_messages": True}), "delete_memory", "m1", None),
    ("set", ("S", [message("user", "Anew."), message("assistant", "Yes.")]), "upsert_memory", None, 2),
    ("reset", ("S",), "delete_memory", None, None),
    ("fork_session", ("S", "F"), "create_memory_store", None, None),
    ("delete_session", ("S",), "delete_memory_store", None, None),
)


def calls_of(session_id):
    """CALLS with names of sessions in place of S and F."""
    names = {"S": session_id, "F": f"{session_id}-fork"}
    for method, given, *span in CALLS:
        named = given[-1] if isinstance(given[-1], dict) else {}
        given = [value if not isinstance(value, str) else names.get(value, value)
                 for value in given if not isinstance(value, dict)]
        yield method, given, named, span, names["F" if method == "fork_session" else "S"]


def check(span, store, name, record, count, found) -> None:
    told = attributes(span)
    assert (span.name, told.pop("store.id")) == (name, store)
    assert told.pop("record.id", None) == record
    if name == "search_memory":
        assert told.pop("record.count") == found
        assert count is None or found == count
    else:
        assert told.pop("record.count", None) == count
    assert told == {}
    assert span.status.status_code is StatusCode.UNSET and not span.events


def found_in(method, result):
    return len(result.messages if method == "get" else getattr(result, "results", ()))


def test_every_call_on_memory_has_its_span(client, exported, session_id):
    change = None
    for method, given, named, span, store in calls_of(session_id):
        given = [change if value == "change" else value for value in given]
        result = getattr(client, method)(*given, **named)
        change = getattr(result, "change", change)
        check(exported.only(), store, *span, found_in(method, result))
    assert set(_memory_spans._OPERATIONS) == {
        "".join(part.capitalize() for part in method.split("_")) for method, *_ in CALLS}


def test_an_asyncio_client_has_the_same_spans(server, exported, session_id):
    async def run():
        change = None
        async with AsyncClient(server.target) as opened:
            for method, given, named, span, store in calls_of(session_id):
                given = [change if value == "change" else value for value in given]
                result = await getattr(opened, method)(*given, **named)
                change = getattr(result, "change", change)
                check(exported.only(), store, *span, found_in(method, result))

    asyncio.run(run())


def test_calls_at_once_of_an_asyncio_client_keep_their_parents(server, exported, session_id):
    tracer = exported.provider.get_tracer("agent")

    async def turn(opened, number):
        with tracer.start_as_current_span(f"turn-{number}") as span:
            await opened.put(f"{session_id}-{number}", [message("user", "Hello!")])
        return span.get_span_context().span_id

    async def run():
        async with AsyncClient(server.target) as opened:
            return await asyncio.gather(*(turn(opened, number) for number in range(8)))

    turns = asyncio.run(run())
    parents = {span.attributes["gen_ai.memory.store.id"]: span.parent.span_id
               for span in exported.spans() if span.name == "create_memory"}
    assert [parents[f"{session_id}-{number}"] for number in range(8)] == turns


def test_other_calls_have_none(client, exported, session_id):
    client.put(session_id, [message("user", "Hello!")])
    exported.spans()
    client.server_info()
    client.get_session(session_id)
    assert list(client.get_all(session_id)) and list(client.stream_all(session_id))
    assert exported.spans() == []


@pytest.mark.parametrize("value, is_told", [
    (None, False), ("false", False), ("NO_CONTENT", False), ("EVENT_ONLY", False), ("", False),
    ("true", True), ("SPAN_ONLY", True), ("span_and_event", True)])
def test_a_query_is_told_on_request_alone(client, exported, session_id, monkeypatch, value, is_told):
    client.put(session_id, [message("user", "I like tea.")])
    exported.spans()
    if value is not None:
        monkeypatch.setenv(CAPTURE, value)
    client.query(session_id, "What of tea?")
    client.get(session_id, input="Tea?")
    client.get(session_id)
    texts = [span.attributes.get("gen_ai.memory.query.text") for span in exported.spans()]
    assert texts == (["What of tea?", "Tea?", None] if is_told else [None] * 3)


def test_a_refused_call_tells_its_reason_and_no_text(client, exported, session_id):
    client.put(session_id, [message("user", "Hello!")])
    exported.spans()
    with pytest.raises(MemorydError, match="REVISION_MISMATCH"):
        client.put(session_id, [message("user", "secret")], expected_revision=99)
    span = exported.only()
    assert span.attributes["error.type"] == "REVISION_MISMATCH"
    assert span.status.status_code is StatusCode.ERROR and span.status.description is None
    assert not span.events and "secret" not in span.to_json()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_reaches_nobody_tells_its_code(exported, tmp_path, is_async):
    target = f"unix:{tmp_path}/nobody"

    async def get():
        async with AsyncClient(target, wait_for_ready=False) as opened:
            await opened.get("s")

    with pytest.raises(MemorydError):
        if is_async:
            asyncio.run(get())
        else:
            with Client(target, wait_for_ready=False) as opened:
                opened.get("s")
    span = exported.only()
    assert span.attributes["error.type"] == "UNAVAILABLE"
    assert span.attributes["server.address"] == f"{tmp_path}/nobody"
    assert "server.port" not in span.attributes


def test_a_call_that_is_cancelled_tells_so(exported, tmp_path):
    async def run():
        async with AsyncClient(f"unix:{tmp_path}/nobody", timeout=60) as opened:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(opened.put("s", [message("user", "Hello!")]), 0.05)

    asyncio.run(run())
    assert exported.only().attributes["error.type"] == "asyncio.exceptions.CancelledError"


def call_in(server, method):
    """The line of the log for the one call of `method`; ends the server."""
    server.stop()
    lines = [json.loads(line) for line in server.output().splitlines() if line.startswith("{")]
    (call,) = [line for line in lines if line.get("method") == method]
    return call


def test_the_server_s_call_is_a_child_of_the_span(exported, session_id):
    tracer = exported.provider.get_tracer("agent")
    with fresh_store("sqlite") as store, \
            Server(store, arguments=["--log-requests=all", "--log-format=json"]) as server:
        with Client(server.target) as opened, tracer.start_as_current_span("turn") as turn:
            opened.put(session_id, [message("user", "Hello!")])
        put = call_in(server, "Put")
    span = exported.spans()[0]
    assert span.parent.span_id == turn.get_span_context().span_id
    assert put["trace_id"] == f"{span.context.trace_id:032x}"
    assert put["parent_id"] == f"{span.context.span_id:016x}"


def test_a_client_that_is_told_of_its_trace_makes_no_spans(server, exported, session_id):
    told = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    with Client(server.target, trace=lambda: told) as opened:
        opened.put(session_id, [message("user", "Hello!")])
    assert exported.spans() == []


def test_a_provider_may_be_set_after_the_first_calls(client, session_id, monkeypatch):
    client.put(session_id, [message("user", "Hello!")])
    later = Exported()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: later.provider)
    client.get(session_id)
    assert later.only().name == "search_memory"


def test_without_a_provider_a_trace_of_the_caller_goes_on(session_id):
    """An application may have the API alone, and know its trace by a header that it got."""
    told = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with fresh_store("sqlite") as store, \
            Server(store, arguments=["--log-requests=all", "--log-format=json"]) as server:
        attached = context.attach(propagate.extract({"traceparent": told}))
        try:
            with Client(server.target) as opened:
                opened.put(session_id, [message("user", "Hello!")])
        finally:
            context.detach(attached)
        assert call_in(server, "Put")["parent_id"] == "00f067aa0ba902b7"


def test_the_clients_of_local_have_spans(exported, session_id):
    async def put_and_get():
        async with await memoryd.local_async(ephemeral=True, binary=BINARY) as opened:
            await opened.put(session_id, [message("user", "Hello!")])
            await opened.get(session_id)

    asyncio.run(put_and_get())
    assert [span.name for span in exported.spans()] == ["create_memory", "search_memory"]


def test_opentelemetry_is_never_imported_first(tmp_path):
    program = f"""
import sys, memoryd
with memoryd.Client("unix:{tmp_path}/nobody", wait_for_ready=False) as opened:
    try:
        opened.put("s", [memoryd.message("user", "Hello!")])
    except memoryd.MemorydError as error:
        print(error.code.name, [name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(
            [str(REPOSITORY / "clients/python/src"), os.environ.get("PYTHONPATH", "")])})
    assert done.stdout == "UNAVAILABLE []\n"


@pytest.mark.parametrize("target, address, port", [
    ("localhost:50051", "localhost", 50051),
    ("memoryd.default", "memoryd.default", None),
    ("dns:///memoryd:50051", "memoryd", 50051),
    ("dns:memoryd:50051", "memoryd", 50051),
    ("dns://10.0.0.2/memoryd:50051", "memoryd", 50051),
    ("ipv4:10.1.2.3:50051", "10.1.2.3", 50051),
    ("ipv6:[::1]:50051", "::1", 50051),
    ("[::1]:50051", "::1", 50051),
    ("[::1]", "::1", None),
    ("::1", "::1", None),
    ("unix:/run/memoryd.sock", "/run/memoryd.sock", None),
    ("unix:///run/memoryd.sock", "/run/memoryd.sock", None),
    ("unix:memoryd.sock", "memoryd.sock", None),
    ("unix-abstract:memoryd", "memoryd", None),
    ("ipv4:10.1.2.3:1,10.1.2.4:1", None, None),
])
def test_the_address_is_the_server_s(target, address, port):
    assert _memory_spans.server_attributes(target) == {
        name: value for name, value in (("server.address", address), ("server.port", port))
        if value is not None}
