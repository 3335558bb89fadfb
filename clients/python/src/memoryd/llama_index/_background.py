"""An event loop on a thread of its own, for calls to memoryd.

Frameworks run the methods of one memory on whatever loop there is: the caller's, a new one for each
synchronous call, none. Calls made here need one connection, and none waits for a caller's loop.
Nothing of a user's may run on it: that could block it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from memoryd import _channels

Result = TypeVar("Result")

_lock = _channels.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_process: _channels.Process | None = None


def _background() -> asyncio.AbstractEventLoop:
    global _loop, _process
    with _lock:
        # The thread of a loop from before a fork is in the parent.
        if _loop is None or _process is not _channels.process():
            _process = _channels.process()
            # The loop keeps the context that it is made in: not that of a caller, who may be an
            # agent and have a memory there.
            loop = contextvars.Context().run(asyncio.new_event_loop)
            threading.Thread(
                target=loop.run_forever, name="memoryd-llama-index", daemon=True
            ).start()
            _loop = loop
        return _loop


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


if sys.version_info < (3, 12):
    # As asyncio does itself from then on. The library's synchronous methods run on the loop that
    # the thread had last, whose descriptors a child shares with its parent.
    _parents: list[object] = []

    def _leave_loop_to_parent() -> None:
        policy: Any = asyncio.get_event_loop_policy()
        is_known = isinstance(policy, asyncio.DefaultEventLoopPolicy)
        if is_known:
            # To close the loop would end what wakes that of the parent.
            _parents.append(policy._local)
            policy._local = type(policy._local)()

    _channels.at_fork(after_in_child=_leave_loop_to_parent)
