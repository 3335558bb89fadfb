"""Requests and replies of the client's methods.

Client and AsyncClient have a method for each function here whose name does not begin with an
underscore. The methods have the same arguments and documentation; they differ in how they wait.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf import duration_pb2, timestamp_pb2
from google.protobuf.message import Message

from memoryd import _tracing, forms
from memoryd._wire_text import without_halves
from memoryd.contexts import Context, UpdatedContext
from memoryd.errors import MemorydError, error_info
from memoryd.results import FactChange, Hits, Job, KnownBlock, Session, UndoneChange
from memoryd.v1 import block_service_pb2 as block_wire
from memoryd.v1 import filter_pb2 as filter_wire
from memoryd.v1 import job_service_pb2 as job_wire
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire
from memoryd.v1 import server_service_pb2 as server_wire
from memoryd.v1 import session_service_pb2 as session_wire

Result = TypeVar("Result")
Item = TypeVar("Item")

# Outcomes that are unknown. CANCELLED is how gRPC ends calls that meet a server as it goes.
_UNKNOWN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
# Codes of an attempt that was refused before anybody looked whether an earlier one was done.
_AT_THE_DOOR = (
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAUTHENTICATED,
)
# The server waits no longer for jobs.
_LONGEST_WAIT_SECONDS = 30.0
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 1.0
# Of one request of an upload; a larger item goes alone.
UPLOADED_ITEMS = 250
UPLOADED_BYTES = 512 * 1024
CHANNEL_OPTIONS: tuple[tuple[str, Any], ...] = (
    # A reply may be as large as the server makes one; requests are bounded by the server.
    ("grpc.max_receive_message_length", 80 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Retries are made here, where a request id makes them safe.
    ("grpc.enable_retries", 0),
    # A proxy would see tokens in plain text, and has no way to this machine's own addresses.
    ("grpc.enable_http_proxy", 0),
    # A connection that the network forgot is found after 8 s, within the default timeout. Pings are
    # sent only while a call is under way.
    ("grpc.keepalive_time_ms", 4000),
    ("grpc.keepalive_timeout_ms", 4000),
    # gRPC waits for the answer to a ping as long as the longer of the two.
    ("grpc.http2.ping_timeout_ms", 4000),
    ("grpc.http2.max_pings_without_data", 0),
)


def authorization(token: str | None) -> tuple[tuple[str, str], ...]:
    """Returns the metadata of a call with this bearer token."""
    return () if token is None else (("authorization", f"Bearer {token}"),)


# What returns the trace that a call belongs to: `traceparent`, and `tracestate` if there is one.
Trace = Callable[[], Mapping[str, str]]


def metadata(token: str | None, trace: Trace | None) -> tuple[tuple[str, str], ...]:
    """Returns the metadata of a call with this bearer token, in the current trace."""
    return (*authorization(token), *_tracing.metadata((trace or _tracing.current)()))


@dataclasses.dataclass(frozen=True)
class Rpc:
    """A method of a service of memoryd.v1."""

    service: str
    name: str
    reply: type[Message]

    @property
    def path(self) -> str:
        return f"/memoryd.v1.{self.service}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Call(Generic[Result]):
    """A call to make. `result` converts the reply to the method's result.

    A call that is not `repeatable` would have another effect when repeated. `timeout` is the
    caller's, in seconds. `wait` is how long of it the server may wait, in seconds. A call that
    `comes_again` is repeated when the server has refused it and says when to come again.
    """

    rpc: Rpc
    request: Any
    result: Callable[[Any], Result]
    timeout: float | None
    wait: float = 0.0
    repeatable: bool = True
    comes_again: bool = True


@dataclasses.dataclass(frozen=True)
class Pages(Generic[Item]):
    """Calls for one page after the other, each with the token of the page before."""

    first: Call[Any]
    items: Callable[[Any], Iterable[Item]]

    def next(self, page: Any) -> Call[Any] | None:
        """Returns the call for the page after `page`; None after the last one."""
        if not page.next_page_token:
            return None
        request = type(self.first.request)()
        request.CopyFrom(self.first.request)
        request.page_token = page.next_page_token
        return dataclasses.replace(self.first, request=request)


@dataclasses.dataclass(frozen=True)
class Stream(Generic[Item]):
    """A call whose reply is a stream of pages. A stream that breaks is continued after its last
    page. Each attempt may take `timeout` seconds; None: no limit."""

    rpc: Rpc
    request: Any
    items: Callable[[Any], Iterable[Item]]
    timeout: float | None

    def attempts(self, client_timeout: float, wait_for_ready: bool) -> Attempts:
        """Returns the attempts that continue the broken stream until a page arrives."""
        call = Call(self.rpc, self.request, _reply, None)
        return Attempts(call, client_timeout, wait_for_ready)

    def options(self, token: str | None, trace: Trace | None = None) -> dict[str, Any]:
        """Returns the arguments of an attempt other than the request."""
        return {"timeout": self.timeout, "metadata": metadata(token, trace)}

    def ends(self, page: Any) -> bool:
        """Whether `page` is the last one."""
        return not page.next_page_token

    def behind(self, page: Any) -> Stream[Item]:
        """Returns the rest of the stream after `page`."""
        request = type(self.request)()
        request.CopyFrom(self.request)
        self.go_on(request, page)
        return dataclasses.replace(self, request=request)

    def go_on(self, request: Any, page: Any) -> None:
        """Makes `request` that of the rest of the stream after `page`."""
        request.page_token = page.next_page_token


@dataclasses.dataclass(frozen=True)
class Watch(Stream[Item]):
    """A stream of news, each of which says after which revision the next ones come."""

    def ends(self, page: Any) -> bool:
        return session_wire.SESSION_CHANGE_DELETED in page.changes

    def go_on(self, request: Any, page: Any) -> None:
        request.after_revision = page.revision


@dataclasses.dataclass(frozen=True)
class Upload(Generic[Result]):
    """A call with many requests, which is made once. After a broken call only the caller can find
    out whether it succeeded."""

    rpc: Rpc
    requests: Callable[[], Generator[Any, None, None]]
    result: Callable[[Any], Result]
    timeout: float | None

    def options(self, token: str | None, trace: Trace | None = None) -> dict[str, Any]:
        """Returns the arguments of the call other than the requests."""
        return {"timeout": self.timeout, "metadata": metadata(token, trace)}


class Requests(Generic[Item]):
    """The requests of an upload, which gRPC reads on a thread of its own. If making one raises, the
    stream ends, and `error` has the exception. A stream without its `end` makes nothing."""

    def __init__(self, requests: Generator[Item, None, None]) -> None:
        self._requests = requests
        self._lock = threading.Lock()
        self.error: BaseException | None = None

    def __iter__(self) -> Requests[Item]:
        return self

    def __next__(self) -> Item:
        with self._lock:
            try:
                return next(self._requests)
            except StopIteration:
                raise
            except BaseException as error:
                self.error = error
                raise StopIteration from None

    def close(self) -> None:
        """Makes no more requests."""
        with self._lock:
            self._requests.close()


class Attempts:
    """The attempts of one call: how to make the next one, and whether to make one."""

    def __init__(self, call: Call[Any], timeout: float, wait_for_ready: bool) -> None:
        """`timeout` is the client's, in seconds, for a call without one of its own."""
        seconds = timeout + call.wait if call.timeout is None else call.timeout
        self._end = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE_SECONDS
        self._repeats = wait_for_ready and call.repeatable
        self._comes_again = wait_for_ready and call.comes_again
        self._unknown: grpc.RpcError | None = None
        # What must not be sent twice can still wait for somebody to send it to. Others first find
        # out what is wrong.
        self._waits = wait_for_ready and not call.repeatable

    def options(self, token: str | None, trace: Trace | None = None) -> dict[str, Any]:
        """Returns the arguments of the next attempt other than the request."""
        return {
            "timeout": max(0.0, self._end - time.monotonic()),
            "metadata": metadata(token, trace),
            "wait_for_ready": self._waits,
        }

    def pause(self, error: grpc.RpcError) -> float:
        """Returns how many seconds to wait after a failed attempt. Raises MemorydError when there
        must be no further attempt."""
        told = _told_to_wait(error) if self._comes_again else None
        if told is None:
            # Half to one and a half of the pause, so that many clients don't return as one.
            wait = self._pause * (0.5 + random.random())
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            repeats = self._repeats and error.code() in _UNKNOWN
        else:
            wait = told * (1.0 + random.random() / 4)
            repeats = True
        if not repeats or time.monotonic() + wait >= self._end:
            is_answer = error.code() not in (*_UNKNOWN, *_AT_THE_DOOR)
            # What this attempt came to says nothing of an earlier one, and that there is no time
            # left less than what took it.
            last = error if is_answer or self._unknown is None else self._unknown
            raise MemorydError.of(last) from error
        if MemorydError.of(error).may_have_been_done:
            self._unknown = error
        # From now on gRPC waits for the connection: nothing brings it about but a call that waits.
        self._waits = True
        return wait


def _told_to_wait(error: grpc.RpcError) -> float | None:
    """In how many seconds the call may come again that the server has refused, with nothing
    started. None: it has said nothing of that."""
    if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
        return None
    told = error_info(error).metadata.get("retry_after_ms", "")
    return int(told) / 1000 if told.isdecimal() else None


# MemoryService.


def is_put(call: Call[Any]) -> bool:
    """Whether the call may be made together with others of its kind."""
    return call.rpc is _PUT


def put(
    session_id: str,
    messages: Iterable[forms.AnyMessage] = (),
    *,
    contents: Iterable[memory.Content] = (),
    config: memory.SessionConfig | None = None,
    template: str = "",
    wait: float | datetime.timedelta | None = None,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[wire.PutResponse]:
    """Appends messages and contents, all or none. Creates the session if it does not exist.

    Messages are memoryd's own, or dicts and models of OpenAI's or Anthropic's form, see
    `memoryd.forms`. For anything else TypeError and ValueError name the place.

    `config` is the configuration of a new session. `template` names one on the server instead. An
    existing session must have the same configuration or template. Otherwise MemorydError is
    FAILED_PRECONDITION `CONFIG_MISMATCH`.

    `wait` is the longest time to wait for the jobs of this Put: seconds or a timedelta. The
    client's timeout is added to it. A `timeout` given here includes it and must be longer, else
    ValueError.
    """
    request = wire.PutRequest(
        session_id=session_id,
        messages=forms.stored(messages),
        contents=contents,
        config=config,
        template=template,
        wait=_duration(wait),
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    seconds = request.wait.ToTimedelta().total_seconds()
    if timeout is not None and 0.0 < timeout <= seconds:
        raise ValueError(f"timeout: {timeout} s must be longer than wait, {seconds} s")
    wait_seconds = min(max(0.0, seconds), _LONGEST_WAIT_SECONDS)
    return Call(_PUT, request, _reply, timeout, wait=wait_seconds)


def get(
    session_id: str,
    *,
    input: str | None = None,
    explain: bool = False,
    timeout: float | None = None,
) -> Call[Context]:
    """Returns the context for the next model call: `.messages`, or `.to_openai()` and
    `.to_anthropic()`. `input` is the user's next message, which blocks may use to choose what they
    recall. With `explain` the context's `explanation` tells the tokens of each block, which
    messages were left out and why, and the limits."""
    request = wire.GetRequest(
        session_id=session_id, input=input and without_halves(input)[0], explain=explain
    )
    return Call(_GET, request, Context, timeout)


def get_all(
    session_id: str,
    *,
    status: memory.MessageStatus | None = None,
    filter: filter_wire.Filter | None = None,
    newest_first: bool = False,
    page_size: int = 1000,
    timeout: float | None = None,
) -> Pages[memory.Message]:
    """Iterates over all messages, oldest first, or over those that pass `filter`. They are fetched
    page by page; the timeout applies to each page. With `newest_first` the newest comes first:
    whoever wants the last 20 takes 20 with `page_size=20`, however long the session is."""
    request = wire.GetAllRequest(
        session_id=session_id,
        page_size=page_size,
        status=status,
        filter=filter,
        order=_order(newest_first),
    )
    return Pages(Call(_GET_ALL, request, _reply, timeout), lambda page: page.messages)


def stream_all(
    session_id: str,
    *,
    filter: filter_wire.Filter | None = None,
    newest_first: bool = False,
    timeout: float | None = None,
) -> Stream[memory.Message]:
    """Iterates over all messages that are stored now, oldest first, or over those that pass
    `filter`; with `newest_first` the newest comes first. They arrive as a stream, which the server
    reads as fast as they are taken. Without `timeout` there is no deadline."""
    request = wire.StreamAllRequest(
        session_id=session_id, filter=filter, order=_order(newest_first)
    )
    return Stream(_STREAM_ALL, request, lambda page: page.messages, timeout)


def count_messages(
    session_id: str,
    *,
    filter: filter_wire.Filter | None = None,
    timeout: float | None = None,
) -> Call[int]:
    """Returns the number of messages, or of those that pass `filter`. With a filter the server
    reads the whole session."""
    request = wire.GetAllRequest(
        session_id=session_id, page_size=1, filter=filter, include_total=True
    )
    return Call(_GET_ALL, request, lambda reply: int(reply.total_count), timeout)


def get_all_contents(
    session_id: str,
    *,
    newest_first: bool = False,
    page_size: int = 1000,
    timeout: float | None = None,
) -> Pages[memory.Content]:
    """Iterates over all contents, oldest first or with `newest_first` newest first, page by page
    as `get_all`. The pages of the messages come before them and are fetched too."""
    request = wire.GetAllRequest(
        session_id=session_id,
        page_size=page_size,
        include_contents=True,
        order=_order(newest_first),
    )
    return Pages(Call(_GET_ALL, request, _reply, timeout), lambda page: page.contents)


def set(
    session_id: str,
    messages: Iterable[forms.AnyMessage],
    *,
    contents: Iterable[memory.Content] = (),
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[wire.SetResponse]:
    """Replaces all messages and contents, atomically. Messages are as in `put`."""
    request = wire.SetRequest(
        session_id=session_id,
        messages=forms.stored(messages),
        contents=contents,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_SET, request, _reply, timeout)


def reset(
    session_id: str,
    scope: wire.ResetScope = wire.RESET_SCOPE_UNSPECIFIED,
    *,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[wire.ResetResponse]:
    """Removes messages, atomically. `scope` says which, and whether contents and blocks are reset
    too."""
    request = wire.ResetRequest(
        session_id=session_id,
        scope=scope,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_RESET, request, _reply, timeout)


def update_message(
    session_id: str,
    message_id: str,
    text: str | None = None,
    *,
    parts: Iterable[memory.Part] = (),
    metadata_json: str | None = None,
    name: str | None = None,
    token_count: int | None = None,
    expire_time: timestamp_pb2.Timestamp | None = None,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[wire.UpdateMessageResponse]:
    """Changes a message in place. Arguments that are not given leave it as it is. An `expire_time`
    of the epoch removes the message's time."""
    request = wire.UpdateMessageRequest(
        session_id=session_id,
        message_id=message_id,
        text=text,
        parts=parts,
        metadata_json=metadata_json,
        name=name,
        token_count=token_count,
        expire_time=expire_time,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_UPDATE_MESSAGE, request, _reply, timeout)


def delete_message(
    session_id: str,
    message_id: str,
    *,
    with_tool_messages: bool = False,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[wire.DeleteMessageResponse]:
    """Deletes a message. `with_tool_messages` deletes the other half of its tool calls and results
    too. Without it, such a message raises MemorydError FAILED_PRECONDITION `TOOL_PAIR`."""
    request = wire.DeleteMessageRequest(
        session_id=session_id,
        message_id=message_id,
        with_tool_messages=with_tool_messages,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_DELETE_MESSAGE, request, _reply, timeout)


def get_content(
    session_id: str, content_id: str, *, timeout: float | None = None
) -> Call[memory.Content]:
    """Returns a content. Raises MemorydError NOT_FOUND if there is none."""
    request = wire.GetContentRequest(session_id=session_id, content_id=content_id)
    return Call(_GET_CONTENT, request, _content, timeout)


def update_content(
    session_id: str,
    content_id: str,
    text: str | None = None,
    *,
    bytes_value: bytes | None = None,
    json: str | None = None,
    image: memory.Media | None = None,
    mime_type: str | None = None,
    metadata_json: str | None = None,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[wire.UpdateContentResponse]:
    """Changes a content in place. Arguments that are not given leave it as it is. Give at most one
    of `text`, `bytes_value`, `json` and `image`, else ValueError."""
    values = {"text": text, "bytes_value": bytes_value, "json": json, "image": image}
    given = {kind: value for kind, value in values.items() if value is not None}
    if len(given) > 1:
        raise ValueError(f"a content has one value, not {' and '.join(given)}")
    changed: Any = given
    request = wire.UpdateContentRequest(
        session_id=session_id,
        content_id=content_id,
        mime_type=mime_type,
        metadata_json=metadata_json,
        request_id=_once(request_id),
        expected_revision=expected_revision,
        **changed,
    )
    return Call(_UPDATE_CONTENT, request, _reply, timeout)


def delete_content(
    session_id: str,
    content_id: str,
    *,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[wire.DeleteContentResponse]:
    """Deletes a content."""
    request = wire.DeleteContentRequest(
        session_id=session_id,
        content_id=content_id,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_DELETE_CONTENT, request, _reply, timeout)


def query(
    session_id: str,
    query: str,
    *,
    top_k: int = 10,
    filter: filter_wire.Filter | None = None,
    neighbours: int = 0,
    score_threshold: float | None = None,
    parts_of_score: bool = False,
    token_budget: int | None = None,
    passages: bool = False,
    vector_threshold: float | None = None,
    without_blocks: bool = False,
    timeout: float | None = None,
) -> Call[Hits]:
    """Finds items of the session that match `query`. Returns the hits, the best first; iterate over
    them. memory_service_pb2.QueryRequest describes the arguments."""
    request = wire.QueryRequest(
        session_id=session_id,
        query=without_halves(query)[0],
        top_k=top_k,
        filter=filter,
        neighbours=neighbours,
        score_threshold=score_threshold,
        parts_of_score=parts_of_score,
        token_budget=token_budget,
        passages=passages,
        vector_threshold=vector_threshold,
        without_blocks=without_blocks,
    )
    return Call(_QUERY, request, Hits, timeout)


def update_context(
    session_id: str,
    messages: Iterable[forms.AnyMessage],
    *,
    known_prefix_hash: str = "",
    alternate_roles: bool = False,
    timeout: float | None = None,
) -> Call[UpdatedContext]:
    """Returns the caller's context with memory inserted, system messages first. With
    `alternate_roles` human and assistant messages alternate after them. Messages are as in `put`,
    and the reply is read as that of `get`."""
    request = wire.UpdateContextRequest(
        session_id=session_id,
        messages=forms.stored(messages),
        known_prefix_hash=known_prefix_hash,
        alternate_roles=alternate_roles,
    )
    return Call(_UPDATE_CONTEXT, request, UpdatedContext, timeout)


# SessionService.


def create_session(
    session_id: str,
    config: memory.SessionConfig | None = None,
    *,
    template: str = "",
    request_id: str | None = None,
    timeout: float | None = None,
) -> Call[Session]:
    """Creates a session. Raises MemorydError ALREADY_EXISTS if there is one.

    `template` names a configuration on the server (`server_info().templates`). An unknown name
    raises INVALID_ARGUMENT. With a template `config` may have only `subject` and `time_zone`.
    """
    request = session_wire.CreateSessionRequest(
        session_id=session_id, config=config, template=template, request_id=_once(request_id)
    )
    return Call(_CREATE_SESSION, request, _session, timeout)


def get_session(session_id: str, *, timeout: float | None = None) -> Call[Session]:
    """Returns a session's configuration and counts. Raises MemorydError NOT_FOUND if there is
    none."""
    request = session_wire.GetSessionRequest(session_id=session_id)
    return Call(_GET_SESSION, request, _session, timeout)


def list_sessions(
    *,
    subject: str = "",
    id_prefix: str = "",
    latest_first: bool = False,
    page_size: int = 1000,
    timeout: float | None = None,
) -> Pages[Session]:
    """Iterates over all sessions, or over those of a subject, or whose ids begin with a prefix, in
    the order of their ids. With `latest_first` those of a subject come by their last change. They
    are fetched page by page; the timeout applies to each page."""
    request = session_wire.ListSessionsRequest(
        subject=subject, id_prefix=id_prefix, page_size=page_size
    )
    if latest_first:
        request.order = session_wire.SESSION_ORDER_LAST_CHANGE
    return Pages(Call(_LIST_SESSIONS, request, _reply, timeout), _sessions)


def watch_session(
    session_id: str, *, after_revision: int | None = None, timeout: float | None = None
) -> Stream[session_wire.WatchSessionResponse]:
    """Iterates over the changes of a session as they are made, by whichever server. The first item
    comes at once. With `after_revision`, that of an earlier read, it says SESSION_CHANGE_RELOAD if
    the session has changed since. An item without `changes` comes when there is no news for a
    while. The iterator ends when the session is deleted. Without `timeout` there is no deadline. A
    stream that breaks is continued after its last revision."""
    request = session_wire.WatchSessionRequest(
        session_id=session_id, after_revision=after_revision
    )
    return Watch(_WATCH_SESSION, request, lambda news: (news,), timeout)


def update_session(
    session_id: str,
    config: memory.SessionConfig | None = None,
    *,
    template: str = "",
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[Session]:
    """Changes the given fields of a session's configuration.

    `template` names a configuration on the server, which replaces the session's. The session keeps
    its `subject` and `time_zone`, and the fields of `retention` that the template lacks. With a
    template `config` may have only `subject` and `time_zone`.
    """
    request = session_wire.UpdateSessionRequest(
        session_id=session_id,
        config=config,
        template=template,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_UPDATE_SESSION, request, _session, timeout)


def delete_session(
    session_id: str,
    *,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[session_wire.DeleteSessionResponse]:
    """Deletes a session and everything that belongs to it."""
    request = session_wire.DeleteSessionRequest(
        session_id=session_id, request_id=_once(request_id), expected_revision=expected_revision
    )
    return Call(_DELETE_SESSION, request, _reply, timeout)


def fork_session(
    session_id: str,
    new_session_id: str,
    *,
    up_to_position: int | None = None,
    up_to_message_id: str | None = None,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[session_wire.ForkSessionResponse]:
    """Copies a session, whole or up to a message, to a new session."""
    request = session_wire.ForkSessionRequest(
        session_id=session_id,
        new_session_id=new_session_id,
        up_to_position=up_to_position,
        up_to_message_id=up_to_message_id,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_FORK_SESSION, request, _reply, timeout)


def import_session(
    session_id: str,
    messages: Iterable[forms.AnyMessage] = (),
    contents: Iterable[memory.Content] = (),
    *,
    config: memory.SessionConfig | None = None,
    template: str = "",
    create_time: datetime.datetime | None = None,
    timeout: float | None = None,
) -> Upload[Session]:
    """Makes a session as it was elsewhere, whole or not at all. It keeps the ids, positions, times,
    status and writers that `stream_all` and `get_all_contents` returned. Needs the rights `admin`
    and `write`.

    Without `timeout` there is no deadline. A failed call is not repeated; ALREADY_EXISTS
    `SESSION_EXISTS` may mean that an earlier try succeeded. Another thread reads the iterables as
    fast as the server takes their items, and stops when the call has ended. An exception from an
    iterable is raised by the call, and no session is made. Messages are as in `put`; a dict gets an
    id, and the position after the message before it.

    With a `config`, `template` is only the name of the template at the session's origin. Without,
    it is as in `create_session`.
    """

    def requests() -> Generator[session_wire.ImportSessionRequest, None, None]:
        begin = session_wire.ImportBegin(session_id=session_id, config=config, template=template)
        if create_time is not None:
            begin.create_time.FromDatetime(create_time)
        yield session_wire.ImportSessionRequest(begin=begin)
        end = session_wire.ImportEnd()
        items, size = session_wire.ImportItems(), 0
        for kind, given in (("messages", forms.placed(messages)), ("contents", contents)):
            for item in given:
                if size + item.ByteSize() > UPLOADED_BYTES or _count(items) == UPLOADED_ITEMS:
                    yield session_wire.ImportSessionRequest(items=items)
                    items, size = session_wire.ImportItems(), 0
                getattr(items, kind).append(item)
                size += item.ByteSize()
                end.message_count += kind == "messages"
                end.content_count += kind == "contents"
        yield session_wire.ImportSessionRequest(items=items)
        yield session_wire.ImportSessionRequest(end=end)

    return Upload(_IMPORT_SESSION, requests, _session, timeout)


def erase_subject(
    subject: str, *, dry_run: bool = False, timeout: float | None = None
) -> Call[session_wire.EraseSubjectResponse]:
    """Removes all sessions of a subject. Repeat it until `purged` is true. `dry_run` only counts
    them."""
    request = session_wire.EraseSubjectRequest(subject=subject, dry_run=dry_run)
    return Call(_ERASE_SUBJECT, request, _reply, timeout)


# JobService.


def list_jobs(
    session_id: str,
    *,
    state: job_wire.JobState | None = None,
    page_size: int = 1000,
    timeout: float | None = None,
) -> Pages[Job]:
    """Iterates over all jobs of a session, by block and then in the order in which they were made.
    They are fetched page by page; the timeout applies to each page."""
    request = job_wire.ListJobsRequest(session_id=session_id, state=state, page_size=page_size)
    return Pages(Call(_LIST_JOBS, request, _reply, timeout), _jobs)


def get_job(session_id: str, job_id: str, *, timeout: float | None = None) -> Call[Job]:
    """Returns a job. Raises MemorydError NOT_FOUND if there is none."""
    request = job_wire.GetJobRequest(session_id=session_id, job_id=job_id)
    return Call(_GET_JOB, request, _job, timeout)


def retry_job(session_id: str, job_id: str, *, timeout: float | None = None) -> Call[Job]:
    """Feeds the messages of a failed or cancelled job to its block again, by a new job, and returns
    that. The call is never repeated, since each one makes a job."""
    request = job_wire.RetryJobRequest(session_id=session_id, job_id=job_id)
    return Call(_RETRY_JOB, request, _job, timeout, repeatable=False)


def cancel_job(session_id: str, job_id: str, *, timeout: float | None = None) -> Call[Job]:
    """Gives up an open job and returns it. The call is never repeated, since a job can be cancelled
    once."""
    request = job_wire.CancelJobRequest(session_id=session_id, job_id=job_id)
    return Call(_CANCEL_JOB, request, _job, timeout, repeatable=False)


def get_usage(*, timeout: float | None = None) -> Call[job_wire.GetUsageResponse]:
    """Returns the model usage of the tenant since the server started."""
    return Call(_GET_USAGE, job_wire.GetUsageRequest(), _reply, timeout)


# BlockService.


def get_block(
    session_id: str, block: str, *, timeout: float | None = None
) -> Call[KnownBlock]:
    """Returns a block and its knowledge. Raises MemorydError NOT_FOUND if there is none."""
    request = block_wire.GetBlockRequest(session_id=session_id, block=block)
    return Call(_GET_BLOCK, request, KnownBlock, timeout)


def list_block_entries(
    session_id: str, block: str, *, page_size: int = 1000, timeout: float | None = None
) -> Pages[block_wire.BlockEntry]:
    """Iterates over all entries of a `vector` block, oldest first. They are fetched page by page;
    the timeout applies to each page."""
    request = block_wire.ListBlockEntriesRequest(
        session_id=session_id, block=block, page_size=page_size
    )
    return Pages(Call(_LIST_BLOCK_ENTRIES, request, _reply, timeout), lambda page: page.entries)


def undo_block_change(
    session_id: str,
    block: str,
    change: int,
    *,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[UndoneChange]:
    """Undoes a change of a block's facts. `change` is its number, from the block's history or from
    the reply to the change."""
    request = block_wire.UndoBlockChangeRequest(
        session_id=session_id,
        block=block,
        change=change,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_UNDO_BLOCK_CHANGE, request, UndoneChange, timeout)


def add_fact(
    session_id: str,
    block: str,
    text: str,
    *,
    trust: float | None = None,
    message_ids: Iterable[str] = (),
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[FactChange]:
    """Adds a fact to a `fact-extraction` block; `message_ids` are its evidence. Raises MemorydError
    ALREADY_EXISTS if the block knows the fact."""
    request = block_wire.AddFactRequest(
        session_id=session_id,
        block=block,
        text=text,
        trust=trust,
        message_ids=message_ids,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_ADD_FACT, request, FactChange, timeout)


def update_fact(
    session_id: str,
    block: str,
    fact_id: int,
    text: str,
    *,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[FactChange]:
    """Corrects a fact. Its former text goes into the block's history."""
    request = block_wire.UpdateFactRequest(
        session_id=session_id,
        block=block,
        fact_id=fact_id,
        text=text,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_UPDATE_FACT, request, FactChange, timeout)


def delete_fact(
    session_id: str,
    block: str,
    fact_id: int,
    *,
    request_id: str | None = None,
    expected_revision: int | None = None,
    timeout: float | None = None,
) -> Call[FactChange]:
    """Removes a fact; it goes into the block's history."""
    request = block_wire.DeleteFactRequest(
        session_id=session_id,
        block=block,
        fact_id=fact_id,
        request_id=_once(request_id),
        expected_revision=expected_revision,
    )
    return Call(_DELETE_FACT, request, FactChange, timeout)


# ServerService.


def server_info(*, timeout: float | None = None) -> Call[server_wire.GetServerInfoResponse]:
    """Returns the server's version, store and limits."""
    return Call(_SERVER_INFO, server_wire.GetServerInfoRequest(), _reply, timeout)


def _once(request_id: str | None) -> str:
    """Returns the id under which a change is done once, however often it is sent."""
    return uuid.uuid4().hex if request_id is None else request_id


def _order(newest_first: bool) -> wire.MessageOrder:
    return wire.MESSAGE_ORDER_NEWEST_FIRST if newest_first else wire.MESSAGE_ORDER_UNSPECIFIED


def _duration(wait: float | datetime.timedelta | None) -> duration_pb2.Duration | None:
    if wait is None:
        return None
    made = duration_pb2.Duration()
    made.FromTimedelta(
        wait if isinstance(wait, datetime.timedelta) else datetime.timedelta(seconds=wait)
    )
    return made


def _reply(reply: Any) -> Any:
    return reply


def _count(items: session_wire.ImportItems) -> int:
    return len(items.messages) + len(items.contents)


def _content(reply: Any) -> memory.Content:
    content: memory.Content = reply.content
    return content


def _session(reply: Any) -> Session:
    return Session(reply.session)


def _sessions(page: Any) -> Iterable[Session]:
    return map(Session, page.sessions)


def _job(reply: Any) -> Job:
    return Job(reply.job)


def _jobs(page: Any) -> Iterable[Job]:
    return map(Job, page.jobs)


_PUT = Rpc("MemoryService", "Put", wire.PutResponse)
PUT_BATCH = Rpc("MemoryService", "PutBatch", wire.PutBatchResponse)
_GET = Rpc("MemoryService", "Get", wire.GetResponse)
_GET_ALL = Rpc("MemoryService", "GetAll", wire.GetAllResponse)
_STREAM_ALL = Rpc("MemoryService", "StreamAll", wire.StreamAllResponse)
_UPDATE_MESSAGE = Rpc("MemoryService", "UpdateMessage", wire.UpdateMessageResponse)
_DELETE_MESSAGE = Rpc("MemoryService", "DeleteMessage", wire.DeleteMessageResponse)
_GET_CONTENT = Rpc("MemoryService", "GetContent", wire.GetContentResponse)
_UPDATE_CONTENT = Rpc("MemoryService", "UpdateContent", wire.UpdateContentResponse)
_DELETE_CONTENT = Rpc("MemoryService", "DeleteContent", wire.DeleteContentResponse)
_SET = Rpc("MemoryService", "Set", wire.SetResponse)
_RESET = Rpc("MemoryService", "Reset", wire.ResetResponse)
_QUERY = Rpc("MemoryService", "Query", wire.QueryResponse)
_UPDATE_CONTEXT = Rpc("MemoryService", "UpdateContext", wire.UpdateContextResponse)
_CREATE_SESSION = Rpc("SessionService", "CreateSession", session_wire.CreateSessionResponse)
_GET_SESSION = Rpc("SessionService", "GetSession", session_wire.GetSessionResponse)
_WATCH_SESSION = Rpc("SessionService", "WatchSession", session_wire.WatchSessionResponse)
_LIST_SESSIONS = Rpc("SessionService", "ListSessions", session_wire.ListSessionsResponse)
_UPDATE_SESSION = Rpc("SessionService", "UpdateSession", session_wire.UpdateSessionResponse)
_DELETE_SESSION = Rpc("SessionService", "DeleteSession", session_wire.DeleteSessionResponse)
_FORK_SESSION = Rpc("SessionService", "ForkSession", session_wire.ForkSessionResponse)
_IMPORT_SESSION = Rpc("SessionService", "ImportSession", session_wire.ImportSessionResponse)
_ERASE_SUBJECT = Rpc("SessionService", "EraseSubject", session_wire.EraseSubjectResponse)
_LIST_JOBS = Rpc("JobService", "ListJobs", job_wire.ListJobsResponse)
_GET_JOB = Rpc("JobService", "GetJob", job_wire.GetJobResponse)
_RETRY_JOB = Rpc("JobService", "RetryJob", job_wire.RetryJobResponse)
_CANCEL_JOB = Rpc("JobService", "CancelJob", job_wire.CancelJobResponse)
_GET_USAGE = Rpc("JobService", "GetUsage", job_wire.GetUsageResponse)
_GET_BLOCK = Rpc("BlockService", "GetBlock", block_wire.GetBlockResponse)
_LIST_BLOCK_ENTRIES = Rpc("BlockService", "ListBlockEntries", block_wire.ListBlockEntriesResponse)
_UNDO_BLOCK_CHANGE = Rpc("BlockService", "UndoBlockChange", block_wire.UndoBlockChangeResponse)
_ADD_FACT = Rpc("BlockService", "AddFact", block_wire.AddFactResponse)
_UPDATE_FACT = Rpc("BlockService", "UpdateFact", block_wire.UpdateFactResponse)
_DELETE_FACT = Rpc("BlockService", "DeleteFact", block_wire.DeleteFactResponse)
_SERVER_INFO = Rpc("ServerService", "GetServerInfo", server_wire.GetServerInfoResponse)
