"""The synchronous client."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import grpc

from memoryd.errors import MemorydError
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire
from memoryd.v1 import memory_service_pb2_grpc
from memoryd.v1 import session_service_pb2 as session_wire
from memoryd.v1 import session_service_pb2_grpc

Reply = TypeVar("Reply")

_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 1.0
_CHANNEL_OPTIONS = (
    # A reply may be as large as the server makes one; requests are bounded by the server.
    ("grpc.max_receive_message_length", 80 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Retries are made here, where a request id makes them safe.
    ("grpc.enable_retries", 0),
)


def message(
    role: str,
    text: str | None = None,
    *,
    parts: Iterable[memory.Part] = (),
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> memory.Message:
    """A message of one text, or of parts; `fields` are further fields of the proto message."""
    made = memory.Message(role=role, parts=parts, **fields)
    if text is not None:
        made.text = text
    if metadata:
        made.metadata_json = json.dumps(metadata, ensure_ascii=False)
    return made


class Client:
    """A connection to one memoryd, for any number of threads.

    Every call has a deadline (`timeout` seconds unless the call says otherwise) and raises
    MemorydError. A call that changes something always carries a request id, its own unless the
    caller gives one; so a call that fails with UNAVAILABLE, whose outcome may be unknown, is
    repeated until its deadline without ever being done twice.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout: float = 10.0,
        credentials: grpc.ChannelCredentials | None = None,
        options: Iterable[tuple[str, Any]] = (),
    ) -> None:
        """`target` is a gRPC address such as `localhost:50051` or `unix:/run/memoryd.sock`."""
        self._timeout = timeout
        channel_options = (*_CHANNEL_OPTIONS, *options)
        if credentials is None:
            self._channel = grpc.insecure_channel(target, channel_options)
        else:
            self._channel = grpc.secure_channel(target, credentials, channel_options)
        self._memory = memory_service_pb2_grpc.MemoryServiceStub(self._channel)
        self._sessions = session_service_pb2_grpc.SessionServiceStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Memory.

    def put(
        self,
        session_id: str,
        messages: Iterable[memory.Message],
        *,
        contents: Iterable[memory.Content] = (),
        config: memory.SessionConfig | None = None,
        request_id: str | None = None,
        expected_revision: int | None = None,
        timeout: float | None = None,
    ) -> wire.PutResponse:
        """Appends messages, all or none."""
        return self._change(
            self._memory.Put,
            wire.PutRequest(
                session_id=session_id,
                messages=messages,
                contents=contents,
                config=config,
                request_id=request_id,
                expected_revision=expected_revision,
            ),
            timeout,
        )

    def get(
        self, session_id: str, *, input: str | None = None, timeout: float | None = None
    ) -> wire.GetResponse:
        """The context for the next model call."""
        return self._call(
            self._memory.Get, wire.GetRequest(session_id=session_id, input=input), timeout
        )

    def get_all(
        self,
        session_id: str,
        *,
        status: memory.MessageStatus | None = None,
        page_size: int = 1000,
        timeout: float | None = None,
    ) -> Iterator[memory.Message]:
        """All messages, oldest first, fetched page by page; the deadline is each page's own."""
        request = wire.GetAllRequest(session_id=session_id, page_size=page_size, status=status)
        while True:
            page = self._call(self._memory.GetAll, request, timeout)
            yield from page.messages
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def set(
        self,
        session_id: str,
        messages: Iterable[memory.Message],
        *,
        contents: Iterable[memory.Content] = (),
        request_id: str | None = None,
        expected_revision: int | None = None,
        timeout: float | None = None,
    ) -> wire.SetResponse:
        """Replaces all messages, atomically."""
        return self._change(
            self._memory.Set,
            wire.SetRequest(
                session_id=session_id,
                messages=messages,
                contents=contents,
                request_id=request_id,
                expected_revision=expected_revision,
            ),
            timeout,
        )

    def reset(
        self,
        session_id: str,
        scope: wire.ResetScope = wire.RESET_SCOPE_UNSPECIFIED,
        *,
        request_id: str | None = None,
        expected_revision: int | None = None,
        timeout: float | None = None,
    ) -> wire.ResetResponse:
        """Removes messages, atomically."""
        return self._change(
            self._memory.Reset,
            wire.ResetRequest(
                session_id=session_id,
                scope=scope,
                request_id=request_id,
                expected_revision=expected_revision,
            ),
            timeout,
        )

    # Sessions.

    def create_session(
        self,
        session_id: str,
        config: memory.SessionConfig | None = None,
        *,
        request_id: str | None = None,
        timeout: float | None = None,
    ) -> memory.Session:
        """Creates a session; ALREADY_EXISTS when there is one."""
        request = session_wire.CreateSessionRequest(
            session_id=session_id, config=config, request_id=request_id
        )
        return self._change(self._sessions.CreateSession, request, timeout).session

    def get_session(self, session_id: str, *, timeout: float | None = None) -> memory.Session:
        """A session's configuration and counts; NOT_FOUND when there is none."""
        request = session_wire.GetSessionRequest(session_id=session_id)
        return self._call(self._sessions.GetSession, request, timeout).session

    def list_sessions(
        self, *, page_size: int = 1000, timeout: float | None = None
    ) -> Iterator[memory.Session]:
        """All sessions by id, fetched page by page; the deadline is each page's own."""
        request = session_wire.ListSessionsRequest(page_size=page_size)
        while True:
            page = self._call(self._sessions.ListSessions, request, timeout)
            yield from page.sessions
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def update_session(
        self,
        session_id: str,
        config: memory.SessionConfig,
        *,
        request_id: str | None = None,
        expected_revision: int | None = None,
        timeout: float | None = None,
    ) -> memory.Session:
        """Changes the given fields of a session's configuration."""
        request = session_wire.UpdateSessionRequest(
            session_id=session_id,
            config=config,
            request_id=request_id,
            expected_revision=expected_revision,
        )
        return self._change(self._sessions.UpdateSession, request, timeout).session

    def delete_session(
        self,
        session_id: str,
        *,
        request_id: str | None = None,
        expected_revision: int | None = None,
        timeout: float | None = None,
    ) -> session_wire.DeleteSessionResponse:
        """Deletes a session with all that belongs to it."""
        request = session_wire.DeleteSessionRequest(
            session_id=session_id, request_id=request_id, expected_revision=expected_revision
        )
        return self._change(self._sessions.DeleteSession, request, timeout)

    # Calls.

    def _change(self, method: Callable[..., Reply], request: Any, timeout: float | None) -> Reply:
        if not request.HasField("request_id"):
            request.request_id = uuid.uuid4().hex
        return self._call(method, request, timeout)

    def _call(self, method: Callable[..., Reply], request: Any, timeout: float | None) -> Reply:
        end = time.monotonic() + (self._timeout if timeout is None else timeout)
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return method(request, timeout=max(0.0, end - time.monotonic()))
            except grpc.RpcError as error:
                # Half to one and a half of the pause, so that many clients don't return as one.
                wait = pause * (0.5 + random.random())
                retriable = error.code() == grpc.StatusCode.UNAVAILABLE
                if not retriable or time.monotonic() + wait >= end:
                    raise MemorydError.of(error) from error
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
