"""Event loops that a synchronous call holds up.

A worker runs coroutines on the event loop that it was started from. While that loop's own thread
waits in a synchronous call, perhaps for just such a coroutine, they have to run elsewhere.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

from memoryd import _channels

_lock = _channels.Lock()
_held_up: set[asyncio.AbstractEventLoop] = set()

_channels.at_fork(after_in_child=_held_up.clear)


@contextlib.contextmanager
def holding_up() -> Iterator[None]:
    """For the time of the body, the event loop that runs on this thread, if any, is held up."""
    loop = None
    with contextlib.suppress(RuntimeError):
        loop = asyncio.get_running_loop()
    if loop is None:
        yield
        return
    with _lock:
        outermost = loop not in _held_up
        _held_up.add(loop)
    try:
        yield
    finally:
        if outermost:
            with _lock:
                _held_up.discard(loop)


def answers(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop would run a coroutine now, as far as is known."""
    with _lock:
        return loop.is_running() and loop not in _held_up


async def on_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function comes to on a thread of its own. The threads of asyncio.to_thread() are
    missing from a loop that the child of a fork has from its parent, and it waits for them."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(function, *arguments))
        except BaseException as error:  # Told to the one who waits.
            future.set_exception(error)

    threading.Thread(target=run, name="memoryd-call", daemon=True).start()
    return await asyncio.shield(asyncio.wrap_future(future))
