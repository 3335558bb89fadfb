"""Batches of items that callers of one event loop send at the same time, gathered into one call."""

from __future__ import annotations

import asyncio
import collections
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from memoryd._calls import Call
from memoryd.v1 import item_service_pb2 as wire

# Of one call, beside what a server always takes.
_MAX_BATCHES = 1000
_MAX_OPERATIONS = 10_000
_MAX_BYTES = 4 << 20
# Calls of one loop that are under way. What comes meanwhile is gathered.
_MAX_CALLS = 2

Send = Callable[[Call[Any]], Awaitable[Any]]
_Waiting = tuple[Call[Any], "asyncio.Future[Any]"]


class Gatherer:
    """Sends the calls of BatchItems of a client, for any number of event loops.

    Calls with the same timeout that are made in one turn of a loop, or while two are under way,
    are one call. Each batch has an outcome of its own, so none of them can fail another."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = (
            weakref.WeakKeyDictionary())

    async def call(self, call: Call[Any]) -> Any:
        """Returns the result of the call."""
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = _Line(self._send)
        return await line.join(call)


class _Line:
    """The calls of one loop that wait, and how many are under way."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_due = False

    async def join(self, call: Call[Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((call, future))
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._advance)
        return await future

    def _advance(self) -> None:
        self._is_due = False
        while self._waiting and len(self._tasks) < _MAX_CALLS:
            gathered = self._gathered()
            if gathered:
                task = asyncio.ensure_future(self._run(gathered))
                self._tasks.add(task)
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._advance()

    def _gathered(self) -> list[_Waiting]:
        """Takes the calls from the front that one call holds, at least one; those that nobody waits
        for any more are left out."""
        taken: list[_Waiting] = []
        batches = operations = size = 0
        while self._waiting:
            call, future = self._waiting[0]
            if not future.done():
                batches += len(call.request.batches)
                operations += sum(len(one.operations) for one in call.request.batches)
                size += call.request.ByteSize()
                is_full = (batches > _MAX_BATCHES or operations > _MAX_OPERATIONS
                           or size > _MAX_BYTES)
                if taken and (is_full or call.timeout != taken[0][0].timeout):
                    break
                taken.append((call, future))
            self._waiting.popleft()
        return taken

    async def _run(self, gathered: list[_Waiting]) -> None:
        first, _ = gathered[0]
        request = wire.BatchItemsRequest()
        for call, _ in gathered:
            request.batches.extend(call.request.batches)
        try:
            reply = await self._send(Call(first.rpc, request, lambda reply: reply, first.timeout))
        except BaseException as error:
            for _, future in gathered:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        start = 0
        for call, future in gathered:
            end = start + len(call.request.batches)
            if not future.done():
                _settle(future, call, wire.BatchItemsResponse(outcomes=reply.outcomes[start:end]))
            start = end


def _settle(future: asyncio.Future[Any], call: Call[Any], reply: Any) -> None:
    try:
        future.set_result(call.result(reply))
    except Exception as error:  # Told to the one who waits.
        future.set_exception(error)
