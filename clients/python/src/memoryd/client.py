"""The synchronous client, and functions that make messages and contents."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from memoryd import (
    _calls,
    _channels,
    _environment,
    _item_calls,
    _loops,
    _memory_spans,
    _steps,
    users,
)
from memoryd._wire_text import dumps
from memoryd.errors import MemorydError
from memoryd.v1 import memory_pb2 as memory

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Item = TypeVar("Item")

# Python type, field of the proto message and usual MIME type of each kind of content.
_CONTENT_KINDS: tuple[tuple[Any, str, str], ...] = (
    (str, "text", "text/plain"),
    (bytes, "bytes_value", "application/octet-stream"),
    (memory.Media, "image", "image/*"),
    (Mapping, "json", "application/json"),
)


def message(
    role: str,
    text: str | None = None,
    *,
    parts: Iterable[memory.Part] = (),
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> memory.Message:
    """Returns a message with one text, or with parts. `metadata` is a JSON object; `fields` are
    other fields of memory_pb2.Message."""
    made = memory.Message(role=role, parts=parts, **fields)
    if text is not None:
        made.text = text
    if metadata:
        made.metadata_json = dumps(metadata)
    return made


def content(
    value: str | bytes | Mapping[str, Any] | memory.Media,
    mime_type: str | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> memory.Content:
    """Returns a content with a text, bytes, an image or a JSON object. `metadata` is a JSON object;
    `fields` are other fields of memory_pb2.Content. Without `mime_type` it has the type that
    AutoGen uses for the kind. Raises TypeError for another kind of value."""
    found = [entry for entry in _CONTENT_KINDS if isinstance(value, entry[0])]
    if not found:
        raise TypeError(f"a content is no {type(value).__name__}")
    _, kind, usual = found[0]
    given: Any = dumps(value) if kind == "json" else value
    made = memory.Content(mime_type=mime_type or usual, **{kind: given}, **fields)
    if metadata:
        made.metadata_json = dumps(metadata)
    return made


def as_method(method: Any, build: Callable[..., Any]) -> Any:
    """Gives `method` the name and the documentation of `build`, and its arguments after `self`."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__ = build.__name__
    method.__doc__ = build.__doc__
    method.__signature__ = inspect.Signature([own, *inspect.signature(build).parameters.values()])
    return method


def _calls_once(
    build: Callable[Arguments, _calls.Call[Result]],
) -> Callable[Concatenate[Client, Arguments], Result]:
    def method(self: Client, /, *given: Arguments.args, **named: Arguments.kwargs) -> Result:
        return self._call(build(*given, **named))

    made: Callable[Concatenate[Client, Arguments], Result] = as_method(method, build)
    return made


def _calls_for_pages(
    build: Callable[Arguments, _calls.Pages[Item]],
) -> Callable[Concatenate[Client, Arguments], Iterator[Item]]:
    def method(
        self: Client, /, *given: Arguments.args, **named: Arguments.kwargs
    ) -> Iterator[Item]:
        return self._items(build(*given, **named))

    made: Callable[Concatenate[Client, Arguments], Iterator[Item]] = as_method(method, build)
    return made


def _calls_for_stream(
    build: Callable[Arguments, _calls.Stream[Item]],
) -> Callable[Concatenate[Client, Arguments], Iterator[Item]]:
    def method(
        self: Client, /, *given: Arguments.args, **named: Arguments.kwargs
    ) -> Iterator[Item]:
        return self._streamed(build(*given, **named))

    made: Callable[Concatenate[Client, Arguments], Iterator[Item]] = as_method(method, build)
    return made


def _calls_for_upload(
    build: Callable[Arguments, _calls.Upload[Result]],
) -> Callable[Concatenate[Client, Arguments], Result]:
    def method(self: Client, /, *given: Arguments.args, **named: Arguments.kwargs) -> Result:
        return self._upload(build(*given, **named))

    made: Callable[Concatenate[Client, Arguments], Result] = as_method(method, build)
    return made


def _calls_in_steps(
    build: Callable[Arguments, _steps.Steps[Result]],
) -> Callable[Concatenate[Client, Arguments], Result]:
    def method(self: Client, /, *given: Arguments.args, **named: Arguments.kwargs) -> Result:
        return self._steps(build(*given, **named))

    made: Callable[Concatenate[Client, Arguments], Result] = as_method(method, build)
    return made


class Client:
    """A connection to one memoryd, for any number of threads.

    Every call has a deadline: `timeout` seconds of the call, else of the client. A failed call
    raises MemorydError. A call that changes something carries a request id, made by the client
    unless the caller gives one. A call that fails UNAVAILABLE, or that a stopping server cancels,
    is repeated until its deadline. The request id keeps it from being done twice.
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        timeout: float = 10.0,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str] | None = None,
        wait_for_ready: bool = True,
        options: Iterable[tuple[str, Any]] = (),
        trace: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        """Makes a client; it connects when a call needs it.

        `target` is a gRPC address such as `localhost:50051` or `unix:/run/memoryd.sock`. Without
        one it is the environment variable MEMORYD_TARGET, by default `localhost:50051`. The token
        and the CA certificate then come from MEMORYD_TOKEN_FILE and MEMORYD_CA_FILE, unless `token`
        or `credentials` are given; see the README.

        `timeout` is the time of a call in seconds, including its repetitions. `credentials` turn on
        TLS: `grpc.ssl_channel_credentials(root_certificates)`. `token` is the bearer token, or a
        function that returns it. The function is called for every attempt, so the token may be
        rotated. Without `wait_for_ready` nothing is repeated: a call that does not reach the server
        fails at once.

        `options` are gRPC channel arguments, which replace the client's own. No proxy is used
        unless they contain `("grpc.enable_http_proxy", 1)`. gRPC then reads the environment's
        `http_proxy` and `no_proxy`. A connection that the network has dropped is replaced after 8
        s.

        `trace` returns `traceparent` and `tracestate` of W3C Trace Context for a call, and is
        called for every attempt. Without it the trace is OpenTelemetry's current context, if the
        application uses opentelemetry-api; each call on memory then has a span of its own.
        """
        target, credentials, token = _environment.connection(target, credentials, token)
        self._timeout = timeout
        self._token = token
        self._trace = trace
        self._spans = _memory_spans.Spans(target, is_traced=trace is not None)
        self._wait_for_ready = wait_for_ready
        self._channel = _channels.Channel(
            target, credentials, (*_calls.CHANNEL_OPTIONS, *options))

    def close(self) -> None:
        """Closes the connection. Calls under way fail CANCELLED."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    remember = _calls_in_steps(users.remember)
    recall = _calls_in_steps(users.recall)
    context = _calls_in_steps(users.context)

    put = _calls_once(_calls.put)
    get = _calls_once(_calls.get)
    get_all = _calls_for_pages(_calls.get_all)
    get_all_contents = _calls_for_pages(_calls.get_all_contents)
    stream_all = _calls_for_stream(_calls.stream_all)
    count_messages = _calls_once(_calls.count_messages)
    set = _calls_once(_calls.set)
    reset = _calls_once(_calls.reset)
    update_message = _calls_once(_calls.update_message)
    delete_message = _calls_once(_calls.delete_message)
    get_content = _calls_once(_calls.get_content)
    update_content = _calls_once(_calls.update_content)
    delete_content = _calls_once(_calls.delete_content)
    query = _calls_once(_calls.query)
    update_context = _calls_once(_calls.update_context)

    create_session = _calls_once(_calls.create_session)
    get_session = _calls_once(_calls.get_session)
    list_sessions = _calls_for_pages(_calls.list_sessions)
    watch_session = _calls_for_stream(_calls.watch_session)
    update_session = _calls_once(_calls.update_session)
    delete_session = _calls_once(_calls.delete_session)
    fork_session = _calls_once(_calls.fork_session)
    import_session = _calls_for_upload(_calls.import_session)
    erase_subject = _calls_once(_calls.erase_subject)

    list_jobs = _calls_for_pages(_calls.list_jobs)
    get_job = _calls_once(_calls.get_job)
    retry_job = _calls_once(_calls.retry_job)
    cancel_job = _calls_once(_calls.cancel_job)
    get_usage = _calls_once(_calls.get_usage)

    get_block = _calls_once(_calls.get_block)
    list_block_entries = _calls_for_pages(_calls.list_block_entries)
    undo_block_change = _calls_once(_calls.undo_block_change)
    add_fact = _calls_once(_calls.add_fact)
    update_fact = _calls_once(_calls.update_fact)
    delete_fact = _calls_once(_calls.delete_fact)

    put_item = _calls_once(_item_calls.put_item)
    get_item = _calls_once(_item_calls.get_item)
    delete_item = _calls_once(_item_calls.delete_item)
    batch_items = _calls_once(_item_calls.batch_items)
    list_items = _calls_for_pages(_item_calls.list_items)
    search_items = _calls_once(_item_calls.search_items)
    get_namespace = _calls_once(_item_calls.get_namespace)
    update_namespace = _calls_once(_item_calls.update_namespace)
    list_namespaces = _calls_for_pages(_item_calls.list_namespaces)
    copy_namespace = _calls_once(_item_calls.copy_namespace)
    delete_namespace = _calls_once(_item_calls.delete_namespace)
    import_namespace = _calls_for_upload(_item_calls.import_namespace)

    server_info = _calls_once(_calls.server_info)

    def _steps(self, steps: _steps.Steps[Result]) -> Result:
        step = _steps.first(steps)
        while step.call is not None:
            try:
                reply = (
                    [*map(self._steps, step.call.steps)]
                    if isinstance(step.call, _steps.Together) else self._call(step.call))
            except MemorydError as error:
                step = _steps.after_error(steps, error)
            else:
                step = _steps.after(steps, reply)
        result: Result = step.result
        return result

    def _items(self, pages: _calls.Pages[Item]) -> Iterator[Item]:
        call: _calls.Call[Any] | None = pages.first
        while call is not None:
            page = self._call(call)
            yield from pages.items(page)
            call = pages.next(page)

    def _streamed(self, stream: _calls.Stream[Item]) -> Iterator[Item]:
        attempts = stream.attempts(self._timeout, self._wait_for_ready)
        while True:
            try:
                token = self._token() if callable(self._token) else self._token
                options = stream.options(token, self._trace)
                with self._channel.lone(self._timeout) as opened:
                    with _channels.Inside():
                        pages = opened.stream(stream.rpc.path, stream.rpc.reply)(
                            stream.request, **options)
                    for page in pages:
                        yield from stream.items(page)
                        if stream.ends(page):
                            return
                        stream = stream.behind(page)
                        attempts = stream.attempts(self._timeout, self._wait_for_ready)
                        if opened.process is not _channels.process():
                            break  # The child of a fork goes on with it, on a stream of its own.
                    else:
                        return
                continue
            except grpc.RpcError as error:
                if self._channel.is_closed:
                    raise MemorydError.of(error) from error
                pause = attempts.pause(error)
            time.sleep(pause)

    def _upload(self, upload: _calls.Upload[Result]) -> Result:
        token = self._token() if callable(self._token) else self._token
        options = upload.options(token, self._trace)
        requests = _calls.Requests(upload.requests())
        with (
            _loops.holding_up(),
            self._channel.lone(self._timeout) as opened,
            contextlib.closing(requests),
        ):
            try:
                with _channels.Inside():
                    call = opened.upload(upload.rpc.path, upload.rpc.reply).future(
                        requests, **options)
                return upload.result(_awaited(call))
            except grpc.RpcError as error:
                raise requests.error or MemorydError.of(error) from error

    def _call(self, call: _calls.Call[Result]) -> Result:
        with _loops.holding_up(), self._spans.around(call) as note:
            result = self._attempt(call)
            note(result)
            return result

    def _attempt(self, call: _calls.Call[Result]) -> Result:
        attempts = _calls.Attempts(call, self._timeout, self._wait_for_ready)
        while True:
            try:
                token = self._token() if callable(self._token) else self._token
                return call.result(self._reply(call, attempts.options(token, self._trace)))
            except _channels.Interrupted:
                continue
            except grpc.RpcError as error:
                if self._channel.is_closed:
                    raise MemorydError.of(error) from error
                pause = attempts.pause(error)
            time.sleep(pause)

    def _reply(self, call: _calls.Call[Any], options: dict[str, Any]) -> Any:
        if not call.repeatable:
            with self._channel.lone(options["timeout"]) as opened:
                with _channels.Inside():
                    sent = opened.sent(call.rpc.path, call.rpc.reply, call.request, options)
                return _awaited(sent)
        with self._channel.waiting(options["timeout"]) as opened, opened.interruptible():
            return opened.unary(call.rpc.path, call.rpc.reply)(call.request, **options)


def _awaited(call: Any) -> Any:
    """Returns the result of the call. Ends the call when the wait for it is interrupted."""
    try:
        return call.result()
    finally:
        call.cancel()
