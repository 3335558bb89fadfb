"""The asyncio client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
)
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc

from memoryd import (
    _calls,
    _channels,
    _environment,
    _gathering,
    _item_calls,
    _loops,
    _memory_spans,
    _steps,
    _tracing,
    _waiting,
    users,
)
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


def _calls_gathered(
    build: Callable[Arguments, _calls.Call[Result]],
) -> Callable[Concatenate[AsyncClient, Arguments], Coroutine[Any, Any, Result]]:
    async def method(
        self: AsyncClient, /, *given: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        result: Result = await self._gathered(build(*given, **named))
        return result

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


def _calls_in_steps(
    build: Callable[Arguments, _steps.Steps[Result]],
) -> Callable[Concatenate[AsyncClient, Arguments], Coroutine[Any, Any, Result]]:
    async def method(
        self: AsyncClient, /, *given: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        return await self._steps(build(*given, **named))

    made: Callable[Concatenate[AsyncClient, Arguments], Coroutine[Any, Any, Result]]
    made = as_method(method, build)
    return made


class AsyncClient:
    """The client for asyncio. Methods of Client are coroutines here, and iterators are asynchronous
    iterators. Deadlines, retries and errors are those of Client.

    A client may be made outside of an event loop, and several loops may use it. Calls of put that
    callers of one loop make at the same time are sent as one call, with an outcome each. So are
    those of put_item, get_item, delete_item and batch_items.
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        timeout: float = 10.0,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str | Awaitable[str]] | None = None,
        wait_for_ready: bool = True,
        options: Iterable[tuple[str, Any]] = (),
        trace: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        """The arguments are those of Client. The function that returns the token may be a coroutine
        function."""
        target, credentials, token = _environment.connection(target, credentials, token)
        self._timeout = timeout
        self._token = token
        self._trace = trace
        self._spans = _memory_spans.Spans(target, is_traced=trace is not None)
        self._wait_for_ready = wait_for_ready
        # Of the synchronous kind: a process that has used one of asyncio's breaks the children that
        # it forks.
        self._channel = _channels.Channel(
            target, credentials, (*_calls.CHANNEL_OPTIONS, *options))
        # Behind the channel, whose refusal to be copied says what to do.
        self._gatherer = _gathering.Gatherer(
            self._call, self._token_now, timeout, _gathering.ItemBatches())
        self._puts = _gathering.PutGatherer(self._call, self._token_now, timeout, wait_for_ready)

    async def close(self) -> None:
        """Closes the connection. Calls under way fail CANCELLED."""
        self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    remember = _calls_in_steps(users.remember)
    recall = _calls_in_steps(users.recall)
    context = _calls_in_steps(users.context)

    put = _calls_gathered(_calls.put)
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

    put_item = _calls_gathered(_item_calls.put_item)
    get_item = _calls_gathered(_item_calls.get_item)
    delete_item = _calls_gathered(_item_calls.delete_item)
    batch_items = _calls_gathered(_item_calls.batch_items)
    list_items = _calls_for_pages(_item_calls.list_items)
    search_items = _calls_once(_item_calls.search_items)
    get_namespace = _calls_once(_item_calls.get_namespace)
    update_namespace = _calls_once(_item_calls.update_namespace)
    list_namespaces = _calls_for_pages(_item_calls.list_namespaces)
    copy_namespace = _calls_once(_item_calls.copy_namespace)
    delete_namespace = _calls_once(_item_calls.delete_namespace)
    import_namespace = _calls_for_upload(_item_calls.import_namespace)

    server_info = _calls_once(_calls.server_info)

    async def _together(self, call: _steps.Together) -> list[Any]:
        found = await asyncio.gather(*map(self._steps, call.steps), return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return found

    async def _steps(self, steps: _steps.Steps[Result]) -> Result:
        step = _steps.first(steps)
        while step.call is not None:
            try:
                if isinstance(step.call, _steps.Together):
                    reply = await self._together(step.call)
                else:
                    reply = await self._gathered(step.call)
            except MemorydError as error:
                step = _steps.after_error(steps, error)
            else:
                step = _steps.after(steps, reply)
        result: Result = step.result
        return result

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
                await self._check(self._timeout)
                # gRPC hands out a page to a thread that waits for it.
                with (
                    concurrent.futures.ThreadPoolExecutor(1, "memoryd-stream") as thread,
                    self._channel.lone(self._timeout) as opened,
                ):
                    with _channels.Inside():
                        pages = opened.stream(stream.rpc.path, stream.rpc.reply)(
                            stream.request, **options)
                    while page := await _on(thread, next, pages, None):
                        for item in stream.items(page):
                            yield item
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
            await asyncio.sleep(pause)

    async def _upload(self, upload: _calls.Upload[Result]) -> Result:
        options = upload.options(await self._token_now(), self._trace)
        requests = _calls.Requests(upload.requests())
        await self._check(self._timeout)
        with self._channel.lone(self._timeout) as opened:
            with _channels.Inside():
                call = opened.upload(upload.rpc.path, upload.rpc.reply).future(
                    requests, **options)
            try:
                return upload.result(await _awaited(call))
            except grpc.RpcError as error:
                raise requests.error or MemorydError.of(error) from error
            finally:
                # What is read just now may wait for this loop.
                await _loops.on_thread(requests.close)

    async def _gathered(self, call: _calls.Call[Any]) -> Any:
        """Makes the call, with others of its kind if there are any at the same time."""
        if _item_calls.is_batch(call):
            return await self._gatherer.call(call)
        # One in a trace has a span of its own.
        if _calls.is_put(call) and not self._is_traced(call):
            return await self._puts.call(call)
        return await self._call(call)

    def _is_traced(self, call: _calls.Call[Any]) -> bool:
        return self._spans.makes_one(call) or bool((self._trace or _tracing.current)())

    async def _call(self, call: _calls.Call[Result]) -> Result:
        with self._spans.around(call) as note:
            result = await self._attempt(call)
            note(result)
            return result

    async def _attempt(self, call: _calls.Call[Result]) -> Result:
        attempts = _calls.Attempts(call, self._timeout, self._wait_for_ready)
        while True:
            try:
                options = attempts.options(await self._token_now(), self._trace)
                await self._check(options["timeout"])
                return call.result(await self._reply(call, options))
            except _channels.Interrupted:
                continue
            except grpc.RpcError as error:
                if self._channel.is_closed:
                    raise MemorydError.of(error) from error
                pause = attempts.pause(error)
            await asyncio.sleep(pause)

    async def _reply(self, call: _calls.Call[Any], options: dict[str, Any]) -> Any:
        if not call.repeatable:
            with self._channel.lone(options["timeout"]) as opened:
                with _channels.Inside():
                    sent = opened.sent(call.rpc.path, call.rpc.reply, call.request, options)
                return await _awaited(sent)
        opened = self._channel.opened(options["timeout"])
        with opened.interruptible():
            if _item_calls.is_brief(call):
                found = await _waiting.reply(self._channel, opened, call.rpc.path, call.rpc.reply,
                                             call.request, options)
                if found is not None:
                    return found[0]
            with _channels.Inside():
                sent = opened.sent(call.rpc.path, call.rpc.reply, call.request, options)
            return await _awaited(sent)

    async def _token_now(self) -> str | None:
        if not callable(self._token):
            return self._token
        token = self._token()
        return await token if inspect.isawaitable(token) else token

    async def _check(self, seconds: float) -> None:
        """_channels.check(), without blocking the event loop."""
        if not _channels.process().answered.is_set():
            await _loops.on_thread(_channels.check, seconds)


async def _awaited(call: Any) -> Any:
    """Returns the result of the call. Ends the call when the wait for it is cancelled."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    def tell(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # A loop that is closed waits for nothing.
            loop.call_soon_threadsafe(end)

    call.add_done_callback(tell)
    try:
        await ended
    finally:
        call.cancel()
    return call.result()


async def _on(thread: concurrent.futures.Executor, function: Any, *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(thread, function, *arguments)
