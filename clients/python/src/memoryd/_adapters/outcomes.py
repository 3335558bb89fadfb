"""Writes whose outcome is known to their caller."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def ended(write: Coroutine[Any, Any, Result]) -> Result:
    """Returns the result of the write. A caller that is cancelled meanwhile learns it after the
    write has ended, so that a write is never cut in the middle. It has the client's timeout."""
    task = asyncio.ensure_future(write)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # Looked at, else asyncio warns that nobody has.
        raise cancelled
    return task.result()
