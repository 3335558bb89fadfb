"""Batches of items that callers of one event loop send at the same time, gathered into one call."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import dataclasses
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc

from memoryd._calls import Call
from memoryd._item_calls import TOO_MUCH_AT_ONCE
from memoryd.errors import MemorydError
from memoryd.v1 import item_service_pb2 as wire

# Of one call, beside what a server always takes.
_MAX_BATCHES = 1000
_MAX_OPERATIONS = 10_000
_MAX_BYTES = 4 << 20
# Calls of one loop that are under way. What comes meanwhile is gathered.
_MAX_CALLS = 2

# Calls whose time ends this close together end with the call that holds them.
_SAME_END_SECONDS = 0.1
# What a server may answer to calls that are made as one, and not to each of them.
_OF_SOME = (
    grpc.StatusCode.FAILED_PRECONDITION,  # The replies together are too large.
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,  # A caller who may only read, or only write.
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)

Send = Callable[[Call[Any]], Awaitable[Any]]
# What a caller is known by, in the context of his own.
Identify = Callable[[], Awaitable["str | None"]]


class Gatherer:
    """Sends the calls of BatchItems of a client, for any number of event loops.

    Calls with the same token and timeout that are made in one turn of a loop, or while two are
    under way, are one call. Each batch has an outcome of its own. What a server answers to the
    call as a whole is not told to them: they are made again, fewer at a time."""

    def __init__(self, send: Send, identify: Identify, timeout: float) -> None:
        """`identify` returns the caller's token, and `timeout` is the client's."""
        self._send = send
        self._identify = identify
        self._timeout = timeout
        self._loops: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[str | None, _Line]] = weakref.WeakKeyDictionary()

    async def call(self, call: Call[Any]) -> Any:
        """Returns the result of the call."""
        loop = asyncio.get_running_loop()
        seconds = self._timeout if call.timeout is None else call.timeout
        end = loop.time() + seconds
        token = await self._identify()
        lines = self._loops.setdefault(loop, {})
        line = lines.get(token)
        if line is None:
            line = lines[token] = _Line(self._send, lambda: lines.pop(token, None))
        return await line.join(call, end)


@dataclasses.dataclass(eq=False)
class _Waiting:
    """A call whose caller waits for `future`, until `end` by the loop's clock."""

    call: Call[Any]
    future: asyncio.Future[Any]
    end: float
    timer: asyncio.TimerHandle
    # The caller's: his token, and the trace that he is in.
    context: contextvars.Context


class _Line:
    """The calls of one token and loop that wait, and how many are under way."""

    def __init__(self, send: Send, on_empty: Callable[[], Any]) -> None:
        self._send = send
        self._on_empty = on_empty
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_due = False

    async def join(self, call: Call[Any], end: float) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        timer = loop.call_at(end, _end, future)
        self._waiting.append(_Waiting(call, future, end, timer, contextvars.copy_context()))
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._advance)
        try:
            return await future
        finally:
            timer.cancel()

    def _advance(self) -> None:
        self._is_due = False
        while self._waiting and len(self._tasks) < _MAX_CALLS:
            gathered = self._gathered()
            if gathered:
                task = gathered[0].context.run(asyncio.ensure_future, self._run(gathered))
                self._tasks.add(task)
                task.add_done_callback(self._ended)
        if not self._waiting and not self._tasks:
            self._on_empty()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._advance()

    def _gathered(self) -> list[_Waiting]:
        """Takes the calls from the front that one call holds, at least one; those that nobody waits
        for any more are left out."""
        taken: list[_Waiting] = []
        batches = operations = size = 0
        while self._waiting:
            one = self._waiting[0]
            if not one.future.done():
                request = one.call.request
                batches += len(request.batches)
                operations += sum(len(batch.operations) for batch in request.batches)
                size += request.ByteSize()
                is_full = (batches > _MAX_BATCHES or operations > _MAX_OPERATIONS
                           or size > _MAX_BYTES)
                if taken and (is_full or one.call.timeout != taken[0].call.timeout):
                    break
                taken.append(one)
            self._waiting.popleft()
        return taken

    async def _run(self, gathered: Sequence[_Waiting]) -> None:
        try:
            await self._make(gathered)
        except BaseException as error:
            for one in gathered:
                if not one.future.done():
                    one.future.set_exception(_own(error))
            if not isinstance(error, Exception):
                raise

    async def _make(self, gathered: Sequence[_Waiting]) -> None:
        gathered = [one for one in gathered if not one.future.done()]
        if not gathered:
            return
        end = max(one.end for one in gathered)
        for one in gathered:
            if end - one.end < _SAME_END_SECONDS:
                one.timer.cancel()
        request = gathered[0].call.request
        if len(gathered) > 1:
            request = wire.BatchItemsRequest()
            for one in gathered:
                request.batches.extend(one.call.request.batches)
        seconds = max(0.0, end - asyncio.get_running_loop().time())
        try:
            reply = await self._send(
                Call(gathered[0].call.rpc, request, lambda reply: reply, seconds,
                     comes_again=len(gathered) == 1))
        except MemorydError as error:
            if len(gathered) == 1 or error.code not in _OF_SOME:
                raise
            await self._make_again(gathered)
            return
        if len(gathered) == 1:
            if not gathered[0].future.done():
                _settle(gathered[0].future, gathered[0].call, reply)
            return
        again: list[_Waiting] = []
        start = 0
        for one in gathered:
            to = start + len(one.call.request.batches)
            outcomes = reply.outcomes[start:to]
            start = to
            if any(each.error.reason in TOO_MUCH_AT_ONCE for each in outcomes):
                again.append(one)
            elif not one.future.done():
                _settle(one.future, one.call, wire.BatchItemsResponse(outcomes=outcomes))
        await self._make_again(again)

    async def _make_again(self, gathered: Sequence[_Waiting]) -> None:
        half = (len(gathered) + 1) // 2
        for some in (gathered[:half], gathered[half:]):
            await self._run(some)


def _end(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(MemorydError(
            grpc.StatusCode.DEADLINE_EXCEEDED, "the call's time was over before its answer came"))


def _own(error: BaseException) -> BaseException:
    """The error for one of several callers, each of whom adds to it where he is."""
    if not isinstance(error, MemorydError):
        return error
    made = MemorydError(error.code, error.message, error.reason, error.field, dict(error.details))
    made.__cause__ = error.__cause__
    return made


def _settle(future: asyncio.Future[Any], call: Call[Any], reply: Any) -> None:
    try:
        future.set_result(call.result(reply))
    except Exception as error:  # Told to the one who waits.
        future.set_exception(error)
