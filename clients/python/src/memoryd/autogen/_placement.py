"""Where a memory's words stand in an agent's context."""

from __future__ import annotations

from itertools import takewhile
from typing import Literal
from weakref import WeakKeyDictionary

from autogen_core.memory import Memory
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import LLMMessage, SystemMessage

Placement = Literal["front", "end"]

# What memories of this process have put to the front, by the context. Of what stands there from an
# earlier process none is known here.
_Put = WeakKeyDictionary[ChatCompletionContext, "WeakKeyDictionary[Memory, SystemMessage]"]
_put: _Put = WeakKeyDictionary()


def checked(placement: Placement) -> Placement:
    if placement not in ("front", "end"):
        raise ValueError(f"placement: must be 'front' or 'end', not {placement!r}")
    return placement


async def put_to_front(
    memory: Memory, context: ChatCompletionContext, text: str | None, heading: str
) -> None:
    """One system message of `memory` behind those that lead the context, in place of the one of its
    last call; None takes that away. What leads the context, begins with `heading` and was put by no
    memory of this process is of one before, and goes."""
    by_memory = _put.setdefault(context, WeakKeyDictionary())
    before = by_memory.pop(memory, None)
    others = list(by_memory.values())
    stored = getattr(context, "_messages", None)
    messages = stored if isinstance(stored, list) else list(await context.get_messages())
    leading = len(list(takewhile(_is_system, messages)))
    # Equal to, rather than the same as: a context's state may have been saved and loaded.
    kept = [message for place, message in enumerate(messages)
            if message != before and not (place < leading and message not in others
                                          and _begins_with(message, heading))]
    said = None if text is None else SystemMessage(content=text)
    if said is None and len(kept) == len(messages):
        return
    await _replace(context, kept, said)
    if said is not None:
        by_memory[memory] = said


async def _replace(
    context: ChatCompletionContext, kept: list[LLMMessage], said: SystemMessage | None
) -> None:
    stored = getattr(context, "_messages", None)
    front = len(list(takewhile(_is_system, kept)))
    if isinstance(stored, list):
        stored[:] = kept
        if said is None:
            return
        stored.insert(front, said)
        if said in await context.get_messages():
            return
        # A context that shows its newest messages only: the oldest of those makes room.
        stored[:] = kept
        shown = list(await context.get_messages())
        place = next((i for i, one in enumerate(kept) if shown and one is shown[0]), len(kept))
        stored.insert(min(place + 1, len(kept)), said)
        if said in await context.get_messages():
            return
        stored[:] = kept
        kept = list(await context.get_messages())
        front = len(list(takewhile(_is_system, kept)))
    await context.clear()
    for message in [*kept[:front], *([] if said is None else [said]), *kept[front:]]:
        await context.add_message(message)


def _begins_with(message: LLMMessage, heading: str) -> bool:
    return isinstance(message, SystemMessage) and message.content.startswith(heading)


def _is_system(message: LLMMessage) -> bool:
    return isinstance(message, SystemMessage)
