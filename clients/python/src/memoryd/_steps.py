"""Several calls, one after the other, as a generator that either client advances."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from memoryd import _calls
from memoryd.errors import MemorydError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Together:
    """Steps that read, and need not wait for each other. What comes of them is a list of their
    results, or the first one's error of those that failed."""

    steps: tuple[Generator[Any, Any, Any], ...]


# Yields each call, is sent what comes of it, or thrown its error, and returns the result of all.
Steps: TypeAlias = Generator[_calls.Call[Any] | Together, Any, Result]


@dataclasses.dataclass(frozen=True)
class Step:
    """The next call, or None and the `result` of all."""

    call: _calls.Call[Any] | Together | None
    result: Any = None


def together(one: Steps[Item], other: Steps[Result]) -> Steps[tuple[Item, Result]]:
    """Returns the results of both. The server may answer the calls of the two in any order."""
    first, second = yield Together((one, other))
    return first, second


def every(pages: _calls.Pages[Item]) -> Steps[list[Item]]:
    """Returns what all of the pages have."""
    found: list[Item] = []
    call: _calls.Call[Any] | None = pages.first
    while call is not None:
        page = yield call
        found.extend(pages.items(page))
        call = pages.next(page)
    return found


def first(steps: Steps[Any]) -> Step:
    """The first of the steps."""
    return after(steps, None)


def after(steps: Steps[Any], reply: Any) -> Step:
    """The step after the one whose call had this reply."""
    try:
        return Step(steps.send(reply))
    except StopIteration as end:
        return Step(None, end.value)


def after_error(steps: Steps[Any], error: MemorydError) -> Step:
    """The step after the one whose call failed; raises what the steps make of that."""
    try:
        return Step(steps.throw(error))
    except StopIteration as end:
        return Step(None, end.value)
