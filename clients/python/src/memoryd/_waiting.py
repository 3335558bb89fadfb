"""Threads that wait inside gRPC for calls of event loops.

gRPC tells of a call that nobody waits for by a thread, which it starts unless another such call is
under way; that costs several times what the call does. Here threads are kept, and wait for calls as
those of the synchronous client do. To hand a call to one of them costs a few microseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from memoryd import _channels

# Behind these, calls share gRPC's thread.
_MOST = 2
_IDLE_SECONDS = 10.0
# No thread that forks has this id.
_NO_THREAD = -1

Job = Callable[[], None]


class _Threads:
    """Threads of the process; each ends when it has had nothing to do for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._count = 0
        # Less what is about to come to them.
        self._idle = 0

    def run(self, job: Job) -> bool:
        """False, and nothing is done, while all are at work."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif self._count < _MOST:
                threading.Thread(target=self._run, name="memoryd-wait", daemon=True).start()
                self._count += 1
            else:
                return False
        self._jobs.put(job)
        return True

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._idle > 0:
                        self._idle -= 1
                        self._count -= 1
                        return
                continue
            job()
            # What it holds goes now, not with the next one.
            del job
            with self._lock:
                self._idle += 1


_threads = _Threads()


def _begin_again() -> None:
    global _threads
    _threads = _Threads()


_channels.at_fork(after_in_child=_begin_again)


async def reply(
    channel: _channels.Channel,
    opened: _channels.Open,
    path: str,
    kind: type[Any],
    request: Any,
    options: dict[str, Any],
) -> tuple[Any] | None:
    """Returns the reply, waited for by one of the threads; None while all are at work. The call
    goes on when the wait for it is cancelled. A fork may interrupt it, as one of the synchronous
    client."""
    if _is_of_greenlets():
        return None
    loop = asyncio.get_running_loop()
    told: asyncio.Future[Any] = loop.create_future()

    def tell(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        def settle() -> None:
            if not told.done():
                set_outcome(outcome)

        with contextlib.suppress(RuntimeError):  # A loop that is closed waits for nothing.
            loop.call_soon_threadsafe(settle)

    # From now on, and until the loop is told: whoever forks waits for it, or interrupts it.
    inside = _channels.Inside(channel, _NO_THREAD)

    def wait() -> None:
        try:
            found = opened.unary(path, kind)(request, **options)
        except BaseException as error:  # Told to the one who waits.
            tell(told.set_exception, error)
        else:
            tell(told.set_result, found)
        finally:
            inside.__exit__()

    inside.__enter__()
    is_taken = False
    try:
        is_taken = _threads.run(wait)
    finally:
        if not is_taken:
            inside.__exit__()
    return (await told,) if is_taken else None


def _is_of_greenlets() -> bool:
    """Whether what would be a thread is none."""
    monkey: Any = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))
