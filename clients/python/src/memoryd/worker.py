"""Code of the agent that memoryd calls: custom blocks, models and embedders."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import dataclasses
import inspect
import json
import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import grpc

from memoryd import _channels, _environment, _loops, _tracing
from memoryd._calls import CHANNEL_OPTIONS, authorization
from memoryd._wire_text import dumps
from memoryd.errors import MemorydError
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import worker_service_pb2 as wire

Function = TypeVar("Function", bound=Callable[..., Any])
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_LOG = logging.getLogger("memoryd.worker")

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 5.0
# How often a coroutine that has not begun is looked after.
_LOOK_SECONDS = 0.05
# What another try does not change.
_FOR_GOOD = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
)
_current_call: contextvars.ContextVar[wire.WorkerCall] = contextvars.ContextVar("call")
_current_running: contextvars.ContextVar[_Running] = contextvars.ContextVar("running")


def current_call() -> wire.WorkerCall:
    """Returns the current call: session_id, block, job_id, timeout, traceparent, tracestate. Raises
    LookupError outside a call."""
    return _current_call.get()


@dataclasses.dataclass
class Answer:
    """The answer of a model or embedder, with its usage."""

    value: Any
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 1
    # Of a model: why its answer ends, as its API says. Of an answer that ends by "length" nothing
    # becomes memory; the model is asked again with a larger max_tokens. Without it an answer that
    # was cut is taken as whole.
    finish_reason: str = ""


class Block:
    """A custom block: long-term memory of your own for sessions that name it. Subclass it; methods
    may be `async`.

    memoryd stores the state. It repeats a failed `put` with the state from before, so each message
    counts once. The state is any JSON value, or bytes with `state_is_bytes`; at first it is None.
    An exception fails the call, and the server tries the job again.
    """

    name: str
    state_is_bytes = False

    def put(self, messages: Sequence[memory.Message], state: Any) -> Any:
        """Takes in messages that left short-term memory, oldest first. Returns the new state; None
        keeps the old one. Do not define it for a block that takes no messages."""
        raise NotImplementedError

    def get(self, messages: Sequence[memory.Message], state: Any) -> Any:
        """Returns the block's text for a context: a text, a Part, a Message, several of them, or
        None. `messages` are those in short-term memory, then the `input`."""
        raise NotImplementedError

    def truncate(self, content: wire.WorkerContent, tokens: int) -> Any:
        """Returns the result of `get`, shorter by at least `tokens`; None drops it. Do not define
        it for a block that cannot be shortened."""
        raise NotImplementedError


class Worker:
    """Serves blocks, models and embedders to one memoryd while it runs.

        memoryd.Worker("localhost:50051", name="my-worker", blocks=[Mentions()]).run()

    `models` maps a name to `f(messages, max_tokens) -> text`, and `embedders` maps a name to
    `f(texts, purpose) -> vectors`. `purpose` is "text" or "query". Both functions may be `async`,
    and may return an Answer. `max_tokens` is the most tokens of the answer. 0: no limit; leave it
    out of the API call then. A model of OpenAI's:

        def chat(messages, max_tokens):
            limit = {"max_completion_tokens": max_tokens} if max_tokens else {}
            [choice] = openai.chat.completions.create(
                model="gpt-5-mini", messages=memoryd.to_openai(messages), **limit).choices
            return memoryd.Answer(choice.message.content or "", finish_reason=choice.finish_reason)

    Or decorate them:

        worker = memoryd.Worker("localhost:50051", name="my-worker")

        @worker.model("chat")
        async def chat(messages, max_tokens): ...

        async with worker: ...

    Functions run on `max_concurrent_calls` threads. Coroutines run on the event loop that the
    worker was started from. They run on a loop of the worker if it was started from none, or while
    that loop does not run. The same holds while a call of Client blocks that loop. So a call can
    wait for its own effects.

    If the application uses opentelemetry-api, its current context is the trace of the call that
    memoryd works for. The worker replaces a broken connection. A worker that the server refuses
    raises MemorydError.
    """

    def __init__(
        self,
        target: str | None = None,
        *,
        name: str,
        blocks: Iterable[Block] = (),
        models: Mapping[str, Callable[..., Any]] | None = None,
        embedders: Mapping[str, Callable[..., Any]] | None = None,
        max_concurrent_calls: int = 8,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str] | None = None,
        options: Iterable[tuple[str, Any]] = (),
    ) -> None:
        """`target`, `credentials`, `token` and `options` are as for Client, also without a
        target."""
        target, credentials, token = _environment.connection(target, credentials, token)
        self._name = name
        self._blocks = list(blocks)
        self._models = dict(models or {})
        self._embedders = dict(embedders or {})
        self._max_concurrent_calls = max_concurrent_calls
        self._token = token
        self._channel = _channels.Channel(target, credentials, (*CHANNEL_OPTIONS, *options))
        self._threads = concurrent.futures.ThreadPoolExecutor(
            max_concurrent_calls, thread_name_prefix="memoryd-worker"
        )
        # That which it serves in, once it has begun.
        self._process: _channels.Process | None = None
        self._callers_loop: asyncio.AbstractEventLoop | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._lock = _channels.Lock()
        self._closed = threading.Event()
        self._greeted = False
        self._failed = False
        self._stream: Any = None
        self._coroutines: set[concurrent.futures.Future[Any]] = set()
        self._background: threading.Thread | None = None
        self._attached: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()

    # What it serves.

    def block(self, name: str) -> Callable[[Decorated], Decorated]:
        """Serves the decorated class as the block `name`: a subclass of Block, made without
        arguments. Or serves the decorated function: a block that takes no messages and shows the
        result of `f(messages)`, see Block.get."""

        def add(decorated: Decorated) -> Decorated:
            if inspect.isclass(decorated):
                made = decorated()
                if not isinstance(made, Block):
                    raise TypeError(f"{decorated.__name__} is no memoryd.Block")
            else:
                made = _Saying(decorated)
            made.name = name
            self._add(lambda: self._blocks.append(made))
            return decorated

        return add

    def model(self, name: str) -> Callable[[Function], Function]:
        """Serves the decorated `f(messages, max_tokens)` as the chat model `name`. `max_tokens` 0:
        no limit."""

        def add(function: Function) -> Function:
            self._add(lambda: self._models.__setitem__(name, function))
            return function

        return add

    def embedder(self, name: str) -> Callable[[Function], Function]:
        """Serves the decorated `f(texts, purpose)` as the embedder `name`."""

        def add(function: Function) -> Function:
            self._add(lambda: self._embedders.__setitem__(name, function))
            return function

        return add

    def _add(self, add: Callable[[], None]) -> None:
        with self._lock:
            if self._process is not None:
                raise RuntimeError("what a worker serves is said before it starts")
            add()

    # Life.

    def run(self) -> None:
        """Serves until close(), or until the server refuses the worker for good."""
        self._begin()
        with _loops.holding_up():
            self._run()

    def start(self, timeout: float = 30.0) -> Worker:
        """Runs on a thread of its own, and returns once attached. Raises the exceptions of run(),
        or TimeoutError."""
        self._start()
        try:
            self._attached.result(timeout)
        except concurrent.futures.TimeoutError:
            self.close()
            raise TimeoutError(f"not attached within {timeout} s") from None
        return self

    async def astart(self, timeout: float = 30.0) -> Worker:
        """start(), without blocking the event loop."""
        self._start()
        try:
            await asyncio.wait_for(_outcome(self._attached), timeout)
        except asyncio.TimeoutError:
            await self.aclose()
            raise TimeoutError(f"not attached within {timeout} s") from None
        except asyncio.CancelledError:
            await self.aclose()
            raise
        return self

    async def arun(self) -> None:
        """run(), without blocking the event loop. Cancelling it closes the worker."""
        self._start()
        try:
            await _outcome(self._ended)
        finally:
            await self.aclose()

    def close(self) -> None:
        """Detaches. The server gives calls under way to other workers, or tries them again.
        Coroutines under way are cancelled. In the child of a fork it does nothing, because the
        parent serves."""
        if self._is_inherited():
            return
        self._closed.set()
        with self._lock:
            if self._stream is not None:
                self._stream.cancel()
            coroutines = list(self._coroutines)
            loop, self._own_loop = self._own_loop, None
        for coroutine in coroutines:
            coroutine.cancel()
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        if self._background is not None and self._background is not threading.current_thread():
            self._background.join()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._channel.close()

    async def aclose(self) -> None:
        """close(), without blocking the event loop."""
        await _loops.on_thread(self.close)

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Worker:
        return await self.astart()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _begin(self) -> None:
        with self._lock:
            if self._is_inherited():
                raise RuntimeError(
                    "the worker serves in the process that this one was forked from: make one here")
            if self._process is not None:
                raise RuntimeError("a worker starts once")
            self._process = _channels.process()

    def _is_inherited(self) -> bool:
        """Whether this is the child of a fork, and the worker serves in its parent."""
        return self._process not in (None, _channels.process())

    def _start(self) -> None:
        """Runs on a thread of its own."""
        self._begin()
        with contextlib.suppress(RuntimeError):
            self._callers_loop = asyncio.get_running_loop()

        def run() -> None:
            try:
                self._run()
                failure: BaseException | None = None
            except BaseException as error:  # Told to whoever waits.
                failure = error
            if not self._attached.done():
                self._attached.set_exception(failure or RuntimeError("the worker was closed"))
            elif failure is not None:
                _LOG.error("serves no more: %s", failure)
            if failure is None:
                self._ended.set_result(None)
            else:
                self._ended.set_exception(failure)

        self._background = threading.Thread(target=run, name="memoryd-worker", daemon=True)
        self._background.start()

    def _run(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._closed.is_set():
            self._greeted = False
            try:
                self._serve()
            except grpc.RpcError as error:
                if self._closed.is_set():
                    return
                if error.code() in _FOR_GOOD:
                    raise MemorydError.of(error) from error
                self._failed = True
                _LOG.warning("not attached: %s", MemorydError.of(error))
            except ValueError:  # Closed meanwhile.
                if not self._closed.is_set():
                    raise
                return
            if self._greeted:
                pause = _FIRST_PAUSE_SECONDS
            # Half to one and a half of the pause, so that many workers don't return as one.
            self._closed.wait(pause * (0.5 + random.random()))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    # One stream.

    def _serve(self) -> None:
        """Serves one stream to its end."""
        outgoing: queue.SimpleQueue[wire.AttachRequest | None] = queue.SimpleQueue()
        outgoing.put(wire.AttachRequest(hello=self._hello()))
        token = self._token() if callable(self._token) else self._token
        # After a failure gRPC waits: only a call that waits brings a connection about.
        with _channels.Inside():
            attach = self._channel.opened(_LONGEST_PAUSE_SECONDS).dialogue(
                "/memoryd.v1.WorkerService/Attach", wire.AttachResponse)
            stream = attach(iter(outgoing.get, None), metadata=authorization(token),
                            wait_for_ready=self._failed)
        with self._lock:
            self._stream = stream
            if self._closed.is_set():
                stream.cancel()
        running: dict[int, _Running] = {}
        blocks = {block.name: block for block in self._blocks}
        limit = 0
        try:
            for response in stream:
                kind = response.WhichOneof("kind")
                if kind == "welcome":
                    self._greeted = True
                    limit = response.welcome.max_message_bytes
                    if not self._attached.done():
                        self._attached.set_result(None)
                elif kind == "call":
                    call = response.call
                    running = {i: begun for i, begun in running.items() if not begun.done}
                    running[call.call_id] = begun = _Running()
                    begun.task = self._threads.submit(
                        self._answer, call, begun, blocks, limit, outgoing.put)
                elif kind == "cancel":
                    call_id = response.cancel.call_id
                    if call_id in running and running[call_id].cancel():
                        outgoing.put(_failed(call_id, grpc.StatusCode.CANCELLED, "cancelled"))
        finally:
            # Ends the thread that sends.
            outgoing.put(None)
            for begun in running.values():
                begun.cancel()

    def _hello(self) -> wire.WorkerHello:
        return wire.WorkerHello(
            name=self._name,
            blocks=[
                wire.WorkerBlock(
                    name=block.name,
                    takes_messages=_does(block, "put"),
                    truncates=_does(block, "truncate"),
                )
                for block in self._blocks
            ],
            models=self._models,
            embedders=self._embedders,
            max_concurrent_calls=self._max_concurrent_calls,
        )

    def _answer(
        self,
        call: wire.WorkerCall,
        begun: _Running,
        blocks: Mapping[str, Block],
        limit: int,
        send: Callable[[wire.AttachRequest], None],
    ) -> None:
        _current_call.set(call)
        _current_running.set(begun)
        try:
            trace = {"traceparent": call.traceparent, "tracestate": call.tracestate}
            with _tracing.going_on(trace):
                request = wire.AttachRequest(result=self._result(call, blocks))
            if request.ByteSize() > limit:
                request = _failed(call.call_id, grpc.StatusCode.RESOURCE_EXHAUSTED,
                                  f"the answer is larger than {limit} bytes")
        except MemorydError as error:
            request = _failed(call.call_id, error.code, error.message)
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            request = _failed(call.call_id, grpc.StatusCode.CANCELLED, "cancelled")
        except BaseException as error:  # Whatever it is, the server waits for an answer.
            _LOG.exception("a call failed")
            request = _failed(call.call_id, grpc.StatusCode.UNKNOWN,
                              f"{type(error).__name__}: {error}")
        send(request)

    def _result(self, call: wire.WorkerCall, blocks: Mapping[str, Block]) -> wire.WorkerResult:
        result = wire.WorkerResult(call_id=call.call_id)
        kind = call.WhichOneof("call")
        if kind == "complete":
            answer = self._ask(self._models[call.complete.model], call.complete.messages,
                               call.complete.max_token_count)
            result.complete.text = answer.value or ""
            result.complete.finish_reason = answer.finish_reason
        elif kind == "embed":
            query = call.embed.purpose == wire.EMBED_PURPOSE_QUERY
            answer = self._ask(self._embedders[call.embed.embedder], list(call.embed.texts),
                               "query" if query else "text")
            result.embed.vectors.extend(wire.EmbedVector(values=v) for v in answer.value)
        elif kind == "put":
            block = blocks[call.block]
            new = self._wait(block.put(call.put.messages, _state(block, call.put.state)))
            result.put.SetInParent()
            if new is not None:
                result.put.state = (
                    bytes(new) if block.state_is_bytes else dumps(new).encode())
            return result
        elif kind == "get":
            block = blocks[call.block]
            said = self._wait(block.get(call.get.messages, _state(block, call.get.state)))
            result.content.CopyFrom(_content(said))
            return result
        elif kind == "truncate":
            block = blocks[call.block]
            said = self._wait(block.truncate(call.truncate.content, call.truncate.token_count))
            result.content.CopyFrom(_content(said))
            return result
        else:
            raise MemorydError(grpc.StatusCode.UNIMPLEMENTED,
                               "this version of the client does not know such calls")
        result.usage.calls = answer.calls
        result.usage.prompt_token_count = answer.prompt_tokens
        result.usage.completion_token_count = answer.completion_tokens
        return result

    def _ask(self, model: Callable[..., Any], *arguments: Any) -> Answer:
        answer = self._wait(model(*arguments))
        return answer if isinstance(answer, Answer) else Answer(answer)

    def _wait(self, made: Any) -> Any:
        """What was returned, or what it comes to if it is a coroutine."""
        if not inspect.isawaitable(made):
            return made
        begun = threading.Lock()

        async def result() -> Any:
            return await made if begun.acquire(blocking=False) else None

        async def moved() -> Any:
            return await made

        end = time.monotonic() + current_call().timeout.ToTimedelta().total_seconds()
        loop = self._callers_loop
        if loop is None or not _loops.answers(loop):
            return self._outcome(self._submit(moved(), None), end)
        future = self._submit(result(), loop)
        # A call may hold the loop up before the coroutine has begun.
        while not begun.locked() and not future.done() and time.monotonic() < end:
            concurrent.futures.wait([future], _LOOK_SECONDS)
            if not _loops.answers(loop) and begun.acquire(blocking=False):
                future.cancel()
                future = self._submit(moved(), None)
        return self._outcome(future, end)

    def _submit(
        self, coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop | None
    ) -> concurrent.futures.Future[Any]:
        """Runs the coroutine on the loop, the worker's own if there is none."""
        with self._lock:
            if self._closed.is_set():
                coroutine.close()
                raise MemorydError(grpc.StatusCode.UNAVAILABLE, "the worker closes")
            if loop is None:
                if self._own_loop is None:
                    self._own_loop = asyncio.new_event_loop()
                    threading.Thread(target=_run_loop, args=(self._own_loop,),
                                     name="memoryd-worker-loop", daemon=True).start()
                loop = self._own_loop
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
            self._coroutines.add(future)
        future.add_done_callback(self._forget)
        _current_running.get().wait_for(future)
        return future

    def _forget(self, future: concurrent.futures.Future[Any]) -> None:
        with self._lock:
            self._coroutines.discard(future)

    def _outcome(self, future: concurrent.futures.Future[Any], end: float) -> Any:
        try:
            return future.result(max(0.0, end - time.monotonic()))
        except concurrent.futures.TimeoutError as error:
            future.cancel()
            raise MemorydError(grpc.StatusCode.DEADLINE_EXCEEDED, "took too long") from error


class _Running:
    """A call under way."""

    def __init__(self) -> None:
        self.task: concurrent.futures.Future[None] | None = None
        self._lock = threading.Lock()
        self._cancelled = False
        self._coroutine: concurrent.futures.Future[Any] | None = None

    @property
    def done(self) -> bool:
        return self.task is not None and self.task.done()

    def wait_for(self, coroutine: concurrent.futures.Future[Any]) -> None:
        """The call comes to what the coroutine comes to."""
        with self._lock:
            self._coroutine = coroutine
            cancelled = self._cancelled
        if cancelled:
            coroutine.cancel()

    def cancel(self) -> bool:
        """Whether the call has not begun and never will. If it has, only a coroutine can be cut
        short; it is answered when it is done."""
        if self.task is not None and self.task.cancel():
            return True
        with self._lock:
            self._cancelled = True
            coroutine = self._coroutine
        if coroutine is not None:
            coroutine.cancel()
        return False


class _Saying(Block):
    """A block that takes nothing in."""

    def __init__(self, say: Callable[[Sequence[memory.Message]], Any]) -> None:
        self._say = say

    def get(self, messages: Sequence[memory.Message], state: Any) -> Any:
        return self._say(messages)


def _outcome(future: concurrent.futures.Future[None]) -> asyncio.Future[None]:
    """What the future comes to, on the running loop. Cancelling it does not cancel the future."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()

    def pass_on() -> None:
        if waiting.done():
            return
        failure = future.exception()
        if failure is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(failure)

    def tell(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits.
            loop.call_soon_threadsafe(pass_on)

    future.add_done_callback(tell)
    return waiting


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop until it is stopped, then what its tasks have left to do once cancelled."""

    async def finish() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await loop.shutdown_asyncgens()

    loop.run_forever()
    loop.run_until_complete(finish())
    loop.close()


def _does(block: Block, method: str) -> bool:
    """Whether the block has a method of its own."""
    own = getattr(type(block), method, None)
    return own is not None and own is not getattr(Block, method)


def _state(block: Block, state: bytes) -> Any:
    if not state:
        return None
    return state if block.state_is_bytes else json.loads(state)


def _content(said: Any) -> wire.WorkerContent:
    if isinstance(said, wire.WorkerContent):
        return said
    content = wire.WorkerContent()
    for item in _items(said):
        if isinstance(item, memory.Message):
            content.messages.append(item)
        else:
            content.parts.append(memory.Part(text=item) if isinstance(item, str) else item)
    return content


def _items(said: Any) -> Iterator[Any]:
    if said is None or said == "":
        return
    if isinstance(said, (str, memory.Part, memory.Message)):
        yield said
    else:
        yield from said


def _failed(call_id: int, code: grpc.StatusCode, message: str) -> wire.AttachRequest:
    error = wire.WorkerError(code=code.value[0], message=message[:1000])
    return wire.AttachRequest(result=wire.WorkerResult(call_id=call_id, error=error))
