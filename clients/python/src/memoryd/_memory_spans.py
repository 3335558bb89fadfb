"""Spans of calls on memory, by OpenTelemetry's conventions for generative AI.

These are `gen_ai.memory.client` of https://github.com/open-telemetry/semantic-conventions-genai, in
development.

A session is a memory store, and its messages, contents and facts are the records. As in _tracing,
opentelemetry-api is used where the application has imported it, and never imported first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from memoryd.errors import MemorydError

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from memoryd._calls import Call

_API = "opentelemetry.trace"
_PROVIDER = "memoryd"
# OpenTelemetry's own, for all instrumentations of generative AI; `true` is an older value of it.
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURES = ("true", "span_only", "span_and_event")
_SCHEME = re.compile(r"(?:dns|ipv4|ipv6):(?://[^/]*/|/*)", re.IGNORECASE)
# An IPv6 address stands in brackets where there is a port.
_HOST = re.compile(r"(?P<host>\[[^]]*\]|[^:]+):(?P<port>[0-9]+)")
_SOCKET = re.compile(r"unix(?:-abstract)?:(?://)?", re.IGNORECASE)

# Takes what a call came to.
Note = Callable[[Any], None]


def _one(request: Any) -> int:
    return 1


def _stored(request: Any) -> int:
    return len(request.messages) + len(request.contents)


def _new_ids(request: Any, reply: Any) -> list[str]:
    return [*reply.message_ids, *reply.content_ids]


def _fact(request: Any) -> str:
    # The number is unique within the block alone.
    return f"{request.block}/{request.fact_id}"


def _new_fact(request: Any, reply: Any) -> list[str]:
    return [f"{request.block}/{reply.fact.fact_id}"]


@dataclasses.dataclass(frozen=True)
class _Operation:
    """How the convention names an RPC, and where it finds what an attribute wants."""

    name: str
    store: Callable[[Any], str] = lambda request: str(request.session_id)
    # The one record that the request is about.
    record: Callable[[Any], str] | None = None
    # How many records the request is about.
    count: Callable[[Any], int | None] | None = None
    query: Callable[[Any], str] | None = None
    # From request and result: the ids of the records that were made. From the result: how many
    # records were found.
    made: Callable[[Any, Any], list[str]] | None = None
    found: Callable[[Any], int] | None = None


_OPERATIONS = {
    "Put": _Operation("create_memory", count=_stored, made=_new_ids),
    # Replaces all there is, whatever that was.
    "Set": _Operation("upsert_memory", count=_stored),
    # Without a record: all of the store.
    "Reset": _Operation("delete_memory"),
    "Get": _Operation("search_memory", query=lambda request: str(request.input),
                      found=lambda context: len(context.messages)),
    "Query": _Operation("search_memory", query=lambda request: str(request.query),
                        found=lambda reply: len(reply.results)),
    "UpdateContext": _Operation("search_memory", found=lambda context: len(context.results)),
    "UpdateMessage": _Operation("update_memory", record=lambda request: str(request.message_id),
                                count=_one),
    "DeleteMessage": _Operation(
        "delete_memory", record=lambda request: str(request.message_id),
        count=lambda request: None if request.with_tool_messages else 1),
    "UpdateContent": _Operation("update_memory", record=lambda request: str(request.content_id),
                                count=_one),
    "DeleteContent": _Operation("delete_memory", record=lambda request: str(request.content_id),
                                count=_one),
    "AddFact": _Operation("create_memory", count=_one, made=_new_fact),
    "UpdateFact": _Operation("update_memory", record=_fact, count=_one),
    "DeleteFact": _Operation("delete_memory", record=_fact, count=_one),
    "UndoBlockChange": _Operation("update_memory"),
    "CreateSession": _Operation("create_memory_store"),
    "ForkSession": _Operation("create_memory_store",
                              store=lambda request: str(request.new_session_id)),
    "DeleteSession": _Operation("delete_memory_store"),
}


def _ignore(result: Any) -> None:
    pass


_NONE: AbstractContextManager[Note] = contextlib.nullcontext(_ignore)


class Spans:
    """Makes the spans of a client's calls. Any thread may use it."""

    def __init__(self, target: str, is_traced: bool) -> None:
        """`target` is the server's gRPC address. A client that is told of its traces, `is_traced`,
        has no spans of its own: they would stand in a trace that the server is not told of."""
        self._server = server_attributes(target)
        self._is_traced = is_traced
        self._provider: Any = None
        self._tracer: Tracer | None = None

    def makes_one(self, call: Call[Any]) -> bool:
        """Whether around() makes a span."""
        return self.around(call) is not _NONE

    def around(self, call: Call[Any]) -> AbstractContextManager[Note]:
        """The context to make the call in, which takes the call's result. The span is
        OpenTelemetry's current one meanwhile, so that the server's is its child."""
        if self._is_traced or _API not in sys.modules:
            return _NONE
        operation = _OPERATIONS.get(call.rpc.name)
        tracer = None if operation is None else self._tracer_now()
        if operation is None or tracer is None:
            return _NONE
        attributes = {**self._server, **_requested(operation, call.request)}
        return _span(tracer, operation, attributes, call.request)

    def _tracer_now(self) -> Tracer | None:
        """That of the application's provider, which may be set after the client is made; None until
        then."""
        from opentelemetry import trace

        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            return None
        if self._tracer is None or provider is not self._provider:
            self._tracer = provider.get_tracer("memoryd")
            self._provider = provider
        return self._tracer


@contextlib.contextmanager
def _span(tracer: Tracer, operation: _Operation, attributes: Mapping[str, str | int],
          request: Any) -> Iterator[Note]:
    from opentelemetry import trace

    span = tracer.start_span(operation.name, kind=trace.SpanKind.CLIENT, attributes=attributes)
    with trace.use_span(span, end_on_exit=True, record_exception=False,
                        set_status_on_exception=False):
        try:
            yield lambda result: _came_to(span, operation, request, result)
        except BaseException as error:
            # Without its text, which may tell of what is stored.
            span.set_attribute("error.type", _error_type(error))
            span.set_status(trace.StatusCode.ERROR)
            raise


def server_attributes(target: str) -> dict[str, str | int]:
    """`server.address` and `server.port` of a gRPC address; without what it does not say."""
    if matched := _SOCKET.match(target):
        return {"server.address": target[matched.end():]}
    rest = _SCHEME.sub("", target, count=1)
    if "," in rest:  # Several addresses.
        return {}
    matched = _HOST.fullmatch(rest)
    if matched is None:
        return {"server.address": rest.strip("[]")}
    return {"server.address": matched["host"].strip("[]"), "server.port": int(matched["port"])}


def _requested(operation: _Operation, request: Any) -> dict[str, str | int]:
    store = operation.store(request)
    found: dict[str, str | int] = {
        "gen_ai.operation.name": operation.name,
        "gen_ai.provider.name": _PROVIDER,
        "gen_ai.memory.store.id": store,
        "gen_ai.conversation.id": store,
    }
    if operation.record is not None:
        found["gen_ai.memory.record.id"] = operation.record(request)
    count = None if operation.count is None else operation.count(request)
    if count is not None:
        found["gen_ai.memory.record.count"] = count
    captures = os.environ.get(_CAPTURE, "").lower() in _CAPTURES
    if captures and operation.query is not None and (text := operation.query(request)):
        found["gen_ai.memory.query.text"] = text
    return found


def _came_to(span: Span, operation: _Operation, request: Any, result: Any) -> None:
    if not span.is_recording():
        return
    if operation.found is not None:
        span.set_attribute("gen_ai.memory.record.count", operation.found(result))
    if operation.made is not None and len(ids := operation.made(request, result)) == 1:
        span.set_attribute("gen_ai.memory.record.id", ids[0])


def _error_type(error: BaseException) -> str:
    if isinstance(error, MemorydError):
        return error.reason or error.code.name
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else (
        f"{kind.__module__}.{kind.__qualname__}")
