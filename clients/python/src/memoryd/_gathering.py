"""Calls that callers of one event loop make at the same time, gathered into one call: batches of
items, and Puts."""

from __future__ import annotations

import abc
import asyncio
import collections
import contextvars
import dataclasses
import random
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import grpc

from memoryd._calls import PUT_BATCH, Call
from memoryd._item_calls import TOO_MUCH_AT_ONCE
from memoryd.errors import MemorydError
from memoryd.v1 import item_service_pb2 as item_wire
from memoryd.v1 import memory_service_pb2 as wire

# Of one call, beside what a server always takes.
_MAX_PARTS = 1000
_MAX_OPERATIONS = 10_000
_MAX_BYTES = 4 << 20
# Calls of one loop that are under way. What comes meanwhile is gathered.
_MAX_CALLS = 2

# Calls whose time ends this close together end with the call that holds them.
_SAME_END_SECONDS = 0.1
# How long a Put waits at most for those under way, which may wait for jobs.
_PUT_WAITS_SECONDS = 0.02
# What could not be done is done again after about so long.
_PAUSE_SECONDS = 0.02
# How long a server that knows no PutBatch is sent none.
_OLD_SERVER_SECONDS = 60.0
# Sessions that are remembered, because their Puts wait for models.
_MAX_SLOW_SESSIONS = 10_000
# What a server may answer to calls that are made as one, and not to each of them.
_OF_SOME = (
    grpc.StatusCode.FAILED_PRECONDITION,  # The replies together are too large.
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,  # A caller who may only read, or only write.
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
_CODES = {code.value[0]: code for code in grpc.StatusCode}
# Outcomes of Puts that are unknown, or that nothing was done.
_UNKNOWN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)

Send = Callable[[Call[Any]], Awaitable[Any]]
# What a caller is known by, in the context of his own.
Identify = Callable[[], Awaitable["str | None"]]


class Kind(abc.ABC):
    """How calls of one kind are made as one."""

    # How long a call waits at most for those under way; None: until one has ended.
    longest_wait: float | None = None

    @abc.abstractmethod
    def size(self, request: Any) -> tuple[int, int]:
        """Returns how many parts and operations the request has."""

    @abc.abstractmethod
    def joined(self, calls: Sequence[Call[Any]], seconds: float) -> Call[Any]:
        """Returns the call that makes several, and returns its reply."""

    @abc.abstractmethod
    def outcomes(self, calls: Sequence[Call[Any]], reply: Any) -> Iterator[Any]:
        """Yields what came of each call: its reply, a MemorydError, or None if it is to be made
        again with fewer others."""

    def pauses(self) -> bool:
        """Whether some time is to pass before calls are made again."""
        return False

    def refuses(self, error: MemorydError) -> bool:
        """Whether the server does not know the call that makes several."""
        return False


class ItemBatches(Kind):
    """Calls of BatchItems."""

    def size(self, request: Any) -> tuple[int, int]:
        return len(request.batches), sum(len(batch.operations) for batch in request.batches)

    def joined(self, calls: Sequence[Call[Any]], seconds: float) -> Call[Any]:
        request = item_wire.BatchItemsRequest()
        for call in calls:
            request.batches.extend(call.request.batches)
        return Call(calls[0].rpc, request, _reply, seconds)

    def outcomes(self, calls: Sequence[Call[Any]], reply: Any) -> Iterator[Any]:
        start = 0
        for call in calls:
            to = start + len(call.request.batches)
            outcomes = reply.outcomes[start:to]
            start = to
            if any(each.error.reason in TOO_MUCH_AT_ONCE for each in outcomes):
                yield None
            else:
                yield item_wire.BatchItemsResponse(outcomes=outcomes)


class Puts(Kind):
    """Calls of Put. Each keeps its request_id, so that it may be made again by itself."""

    longest_wait = _PUT_WAITS_SECONDS

    def __init__(self, repeats: bool) -> None:
        """`repeats`: whether Puts are made again whose outcome is unknown."""
        self._repeats = repeats

    def size(self, request: Any) -> tuple[int, int]:
        return 1, len(request.messages) + len(request.contents)

    def joined(self, calls: Sequence[Call[Any]], seconds: float) -> Call[Any]:
        request = wire.PutBatchRequest(puts=[call.request for call in calls])
        return Call(PUT_BATCH, request, _reply, seconds)

    def outcomes(self, calls: Sequence[Call[Any]], reply: Any) -> Iterator[Any]:
        for at, outcome in enumerate(reply.outcomes):
            if not outcome.HasField("error"):
                yield outcome.reply
                continue
            error = _put_error(outcome.error, at)
            yield None if self._repeats and error.code in _UNKNOWN else error

    def pauses(self) -> bool:
        return True

    def refuses(self, error: MemorydError) -> bool:
        return error.code == grpc.StatusCode.UNIMPLEMENTED


class Gatherer:
    """Sends the calls of one kind of a client, for any number of event loops.

    Calls with the same token and timeout that are made in one turn of a loop, or while two are
    under way, are one call. Each part has an outcome of its own. What a server answers to the call
    as a whole is not told to them: they are made again, fewer at a time."""

    def __init__(self, send: Send, identify: Identify, timeout: float, kind: Kind) -> None:
        """`identify` returns the caller's token, and `timeout` is the client's."""
        self._send = send
        self._identify = identify
        self._timeout = timeout
        self._kind = kind
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
            line = lines[token] = _Line(self._send, self._kind, lambda: lines.pop(token, None))
        return await line.join(call, end)


class PutGatherer:
    """Sends the Puts of a client. One that finds none of its loop under way goes at once and by
    itself, and so does one that waits for jobs; others are gathered. A server that knows no
    PutBatch gets them one by one."""

    def __init__(self, send: Send, identify: Identify, timeout: float, repeats: bool) -> None:
        self._send = send
        self._timeout = timeout
        self._gatherer = Gatherer(send, identify, timeout, Puts(repeats))
        self._under_way: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, int] = weakref.WeakKeyDictionary()
        # Their Puts wait for models, and others must not wait for them.
        self._slow: dict[str, None] = {}
        self._old_until = float("-inf")

    async def call(self, call: Call[Any]) -> Any:
        """Returns the result of the call."""
        loop = asyncio.get_running_loop()
        end = loop.time() + (self._timeout if call.timeout is None else call.timeout)
        before = self._under_way.get(loop, 0)
        if call.wait > 0 or call.request.session_id in self._slow or loop.time() < self._old_until:
            return await self._send(call)
        self._under_way[loop] = before + 1
        try:
            if before == 0:
                reply = await self._send(call)
            else:
                try:
                    reply = await self._gatherer.call(call)
                except _OldServer:
                    self._old_until = loop.time() + _OLD_SERVER_SECONDS
                    left = max(0.0, end - loop.time())
                    return await self._send(dataclasses.replace(call, timeout=left))
        finally:
            self._under_way[loop] -= 1
        if reply.HasField("usage"):
            self._slow[call.request.session_id] = None
            if len(self._slow) > _MAX_SLOW_SESSIONS:
                del self._slow[next(iter(self._slow))]
        return reply


class _OldServer(Exception):
    """The server does not know the call that makes several."""


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

    def __init__(self, send: Send, kind: Kind, on_empty: Callable[[], Any]) -> None:
        self._send = send
        self._kind = kind
        self._on_empty = on_empty
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_due = False
        self._hurry: asyncio.TimerHandle | None = None

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

    def _advance(self, at_most: int = _MAX_CALLS) -> None:
        self._is_due = False
        while self._waiting and len(self._tasks) < at_most:
            gathered = self._gathered()
            if gathered:
                task = gathered[0].context.run(asyncio.ensure_future, self._run(gathered))
                self._tasks.add(task)
                task.add_done_callback(self._ended)
        if self._waiting and self._kind.longest_wait is not None and self._hurry is None:
            self._hurry = asyncio.get_running_loop().call_later(
                self._kind.longest_wait, self._hurries)
        if not self._waiting and not self._tasks:
            if self._hurry is not None:
                self._hurry.cancel()
            self._on_empty()

    def _hurries(self) -> None:
        """Those under way take long."""
        self._hurry = None
        self._advance(len(self._tasks) + 1)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._advance()

    def _gathered(self) -> list[_Waiting]:
        """Takes the calls from the front that one call holds, at least one; those that nobody waits
        for any more are left out."""
        taken: list[_Waiting] = []
        parts = operations = size = 0
        while self._waiting:
            one = self._waiting[0]
            if not one.future.done():
                request = one.call.request
                more_parts, more_operations = self._kind.size(request)
                parts += more_parts
                operations += more_operations
                size += request.ByteSize()
                is_full = (parts > _MAX_PARTS or operations > _MAX_OPERATIONS
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
        seconds = max(0.0, end - asyncio.get_running_loop().time())
        calls = [one.call for one in gathered]
        if len(gathered) == 1:
            reply = await self._send(
                dataclasses.replace(calls[0], result=_reply, timeout=seconds))
            if not gathered[0].future.done():
                _settle(gathered[0].future, calls[0], reply)
            return
        try:
            reply = await self._send(
                dataclasses.replace(self._kind.joined(calls, seconds), comes_again=False))
        except MemorydError as error:
            if self._kind.refuses(error):
                raise _OldServer from error
            if error.code not in _OF_SOME:
                raise
            await self._make_again(gathered)
            return
        again: list[_Waiting] = []
        for one, outcome in zip(gathered, self._kind.outcomes(calls, reply), strict=True):
            if outcome is None:
                again.append(one)
            elif one.future.done():
                continue
            elif isinstance(outcome, MemorydError):
                one.future.set_exception(outcome)
            else:
                _settle(one.future, one.call, outcome)
        if again and self._kind.pauses():
            # Half to one and a half of the pause, so that many clients don't return as one.
            await asyncio.sleep(_PAUSE_SECONDS * (0.5 + random.random()))
        await self._make_again(again)

    async def _make_again(self, gathered: Sequence[_Waiting]) -> None:
        half = (len(gathered) + 1) // 2
        for some in (gathered[:half], gathered[half:]):
            await self._run(some)


def _reply(reply: Any) -> Any:
    return reply


def _put_error(error: wire.PutError, at: int) -> MemorydError:
    """The error of the Put of this index, with its field named as in a call of its own."""
    details = dict(error.metadata)
    message, inside = error.message, f"puts[{at}]."
    field = details.get("field", "")
    if field.startswith(inside):
        details["field"] = field.removeprefix(inside)
        message = message.removeprefix(inside)
    return MemorydError(_CODES.get(error.code, grpc.StatusCode.UNKNOWN), message, error.reason,
                        details.get("field", ""), details)


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
