"""The asyncio client."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc
import grpc.aio

from memoryd import _calls
from memoryd.client import as_method
from memoryd.errors import MemorydError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Item = TypeVar("Item")


def _calls_once(
    build: Callable[Arguments, _calls.Call[Result]],
) -> Callable[Concatenate[AsyncClient, Arguments], Coroutine[Any, Any, Result]]:
    async def method(
        self: AsyncClient, /, *given: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        return await self._call(build(*given, **named))

    made: Callable[Concatenate[AsyncClient, Arguments], Coroutine[Any, Any, Result]]
    made = as_method(method, build)
    return made


def _calls_for_pages(
    build: Callable[Arguments, _calls.Pages[Item]],
) -> Callable[Concatenate[AsyncClient, Arguments], AsyncIterator[Item]]:
    def method(
        self: AsyncClient, /, *given: Arguments.args, **named: Arguments.kwargs
    ) -> AsyncIterator[Item]:
        return self._items(build(*given, **named))

    made: Callable[Concatenate[AsyncClient, Arguments], AsyncIterator[Item]]
    made = as_method(method, build)
    return made


def _calls_for_stream(
    build: Callable[Arguments, _calls.Stream[Item]],
) -> Callable[Concatenate[AsyncClient, Arguments], AsyncIterator[Item]]:
    def method(
        self: AsyncClient, /, *given: Arguments.args, **named: Arguments.kwargs
    ) -> AsyncIterator[Item]:
        return self._streamed(build(*given, **named))

    made: Callable[Concatenate[AsyncClient, Arguments], AsyncIterator[Item]]
    made = as_method(method, build)
    return made


def _calls_for_upload(
    build: Callable[Arguments, _calls.Upload[Result]],
) -> Callable[Concatenate[AsyncClient, Arguments], Awaitable[Result]]:
    async def method(
        self: AsyncClient, /, *given: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        return await self._upload(build(*given, **named))

    made: Callable[Concatenate[AsyncClient, Arguments], Awaitable[Result]]
    made = as_method(method, build)
    return made


class AsyncClient:
    """Client for asyncio: the same methods as coroutines, and as asynchronous iterators where
    Client's iterate. Deadlines, retries and errors are Client's.

    It may be made outside of an event loop and used from several: each has a connection of its own.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout: float = 10.0,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str | Awaitable[str]] | None = None,
        wait_for_ready: bool = True,
        options: Iterable[tuple[str, Any]] = (),
        trace: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        """The arguments are those of Client; what returns the token may be a coroutine function."""
        self._target = target
        self._timeout = timeout
        self._credentials = credentials
        self._token = token
        self._trace = trace
        self._wait_for_ready = wait_for_ready
        self._options = (*_calls.CHANNEL_OPTIONS, *options)
        self._lock = threading.Lock()
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        self._uploads: set[grpc.Channel] = set()
        self._closed = False

    async def close(self) -> None:
        """Ends the connections. Calls under way are cancelled."""
        with self._lock:
            self._closed = True
            connections, self._connections = self._connections, {}
            uploads = list(self._uploads)
        for channel in uploads:
            channel.close()
        own = connections.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.channel.close()
        # The others can't be awaited here; gRPC closes a channel that nobody holds any more.

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

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

    server_info = _calls_once(_calls.server_info)

    async def _items(self, pages: _calls.Pages[Item]) -> AsyncIterator[Item]:
        call: _calls.Call[Any] | None = pages.first
        while call is not None:
            page = await self._call(call)
            for item in pages.items(page):
                yield item
            call = pages.next(page)

    async def _streamed(self, stream: _calls.Stream[Item]) -> AsyncIterator[Item]:
        attempts = stream.attempts(self._timeout, self._wait_for_ready)
        while True:
            try:
                options = stream.options(await self._token_now(), self._trace)
                pages: Any = self._connection().channel.unary_stream(
                    stream.rpc.path,
                    request_serializer=lambda request: request.SerializeToString(),
                    response_deserializer=stream.rpc.reply.FromString,
                )(stream.request, **options)
                async for page in pages:
                    for item in stream.items(page):
                        yield item
                    if not page.next_page_token:
                        return
                    stream = stream.behind(page)
                    attempts = stream.attempts(self._timeout, self._wait_for_ready)
            except grpc.RpcError as error:
                pause = attempts.pause(error)
            await asyncio.sleep(pause)

    async def _upload(self, upload: _calls.Upload[Result]) -> Result:
        # Over a channel of the synchronous kind: one of asyncio's tells, when the server ends the
        # call while a request is on its way, INTERNAL rather than why.
        options = upload.options(await self._token_now(), self._trace)
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        requests = _calls.Requests(upload.requests())
        with self._uploading() as channel:
            method: Any = channel.stream_unary(
                upload.rpc.path,
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=upload.rpc.reply.FromString,
            )
            call = method.future(requests, **options)
            call.add_done_callback(lambda _: _wake(loop, ended))
            try:
                await ended.wait()
                return upload.result(call.result())
            except grpc.FutureCancelledError:
                raise MemorydError(grpc.StatusCode.CANCELLED, "the client is closed") from None
            except grpc.RpcError as error:
                raise requests.error or MemorydError.of(error) from error
            finally:
                call.cancel()
                # What is read just now may wait for this loop.
                await asyncio.shield(asyncio.to_thread(requests.close))

    @contextlib.contextmanager
    def _uploading(self) -> Iterator[grpc.Channel]:
        """A channel for one upload, which close() ends too."""
        if self._credentials is None:
            channel = grpc.insecure_channel(self._target, self._options)
        else:
            channel = grpc.secure_channel(self._target, self._credentials, self._options)
        try:
            with self._lock:
                if self._closed:
                    raise ValueError("the client is closed")
                self._uploads.add(channel)
            yield channel
        finally:
            with self._lock:
                self._uploads.discard(channel)
            channel.close()

    async def _call(self, call: _calls.Call[Result]) -> Result:
        method = self._connection().method(call.rpc)
        attempts = _calls.Attempts(call, self._timeout, self._wait_for_ready)
        while True:
            try:
                options = attempts.options(await self._token_now(), self._trace)
                reply = await method(call.request, **options)
                return call.result(reply)
            except grpc.RpcError as error:
                pause = attempts.pause(error)
            await asyncio.sleep(pause)

    async def _token_now(self) -> str | None:
        if not callable(self._token):
            return self._token
        token = self._token()
        return await token if inspect.isawaitable(token) else token

    def _connection(self) -> _Connection:
        """That of the running event loop, to which gRPC ties a channel."""
        loop = asyncio.get_running_loop()
        with self._lock:
            connection = self._connections.get(loop)
            if connection is None:
                if self._closed:
                    raise ValueError("the client is closed")
                for ended in [known for known in self._connections if known.is_closed()]:
                    del self._connections[ended]
                connection = _Connection(self._target, self._credentials, self._options)
                self._connections[loop] = connection
            return connection


def _wake(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # A loop that is closed waits for nothing.
        loop.call_soon_threadsafe(ended.set)


class _Connection:
    """A channel on the running event loop, and its methods."""

    def __init__(
        self,
        target: str,
        credentials: grpc.ChannelCredentials | None,
        options: tuple[tuple[str, Any], ...],
    ) -> None:
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(target, options)
        else:
            self.channel = grpc.aio.secure_channel(target, credentials, options)
        self._methods: dict[str, Any] = {}

    def method(self, rpc: _calls.Rpc) -> Any:
        method = self._methods.get(rpc.path)
        if method is None:
            method = self._methods[rpc.path] = self.channel.unary_unary(
                rpc.path,
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=rpc.reply.FromString,
            )
        return method
