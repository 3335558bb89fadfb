"""An event loop on a thread of its own, for calls to memoryd.

Frameworks run the methods of one memory on whatever loop there is: the caller's, a new one for each
synchronous call, none. Calls made here need one connection, and none waits for a caller's loop.
Nothing of a user's may run on it: that could block it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import grpc

Result = TypeVar("Result")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_channel: grpc.aio.Channel | None = None


def _background() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            # The loop, and what gRPC adds to it for its first channel, keep the context that they
            # are made in: not that of a caller, who may be an agent and have a memory there.
            loop = contextvars.Context().run(asyncio.new_event_loop)
            loop.call_soon(_bind, context=contextvars.Context())
            threading.Thread(
                target=loop.run_forever, name="memoryd-llama-index", daemon=True
            ).start()
            _loop = loop
        return _loop


def _bind() -> None:
    # It never connects; while there is a channel, others add nothing.
    global _channel
    _channel = grpc.aio.insecure_channel("unix:")


def _submit(work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
    return asyncio.run_coroutine_threadsafe(work, _background())


async def done(work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` comes to, run in the background; cancelling this cancels it."""
    return await asyncio.wrap_future(_submit(work))


def wait(work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` comes to, run in the background; blocks the calling thread."""
    return _submit(work).result()


def in_event_loop() -> bool:
    """Whether the caller runs on an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
