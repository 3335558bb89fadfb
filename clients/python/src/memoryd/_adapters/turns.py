"""Whole turns out of forms that store an item for each call and each answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memoryd._roles import is_assistant
from memoryd._templates import Stored
from memoryd.v1 import memory_pb2 as memory

# Forms in which what a model says at once is several messages.
_OF_ITEMS = frozenset(("openai-responses",))


def whole(messages: Iterable[memory.Message]) -> Iterator[memory.Message]:
    """The messages, with what an assistant said at once as one message. Providers of other forms
    refuse two calls in a row that are two messages. The last message's id and position stay."""
    run: list[memory.Message] = []
    for message in messages:
        if run and not _belongs(message):
            yield _joined(run)
            run = []
        if _belongs(message):
            run.append(message)
        else:
            yield message
    if run:
        yield _joined(run)


def _belongs(message: memory.Message) -> bool:
    return is_assistant(message.role) and Stored(message).form in _OF_ITEMS


def _joined(run: list[memory.Message]) -> memory.Message:
    if len(run) == 1:
        return run[0]
    made = memory.Message()
    made.CopyFrom(run[-1])
    made.ClearField("parts")
    made.ClearField("text")
    made.metadata_json = ""
    for message in run:
        made.parts.extend(Stored(message).parts)
    return made
