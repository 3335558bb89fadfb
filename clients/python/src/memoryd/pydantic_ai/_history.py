"""The history of a conversation, out of the messages of its session."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

from pydantic_ai.conversation_store import ConversationEntry

from memoryd._adapters import own_forms, session_steps, turns
from memoryd.pydantic_ai._form import FORM
from memoryd.pydantic_ai._records import EntryId, about, model_messages
from memoryd.v1 import memory_pb2 as memory

# Between a message's id and a number: of a message that is several entries, those before the last.
_OF_ONE = "#"


@dataclasses.dataclass(frozen=True)
class Link:
    """An entry. `parent` is the one before it as its save has it; None: it is the first. `time` is
    when it was stored."""

    entry_id: str
    value: Any
    parent: str | None
    # Whether it is of another framework, and follows what stands before it in the session.
    follows: bool
    time: datetime.datetime


def chain(
    messages: Sequence[memory.Message], head_id: str, limit: int | None, *, is_whole: bool
) -> list[tuple[Link, str | None]] | None:
    """The last `limit` entries up to `head_id`, oldest first, each with the id of the one before
    it. `messages` are the newest of the session, oldest first, or all if `is_whole`. None: more of
    them are needed. Raises KeyError if there is no such entry."""
    links = links_of(messages)
    at_of = {link.entry_id: at for at, link in enumerate(links)}
    at = at_of.get(head_id)
    if at is None:
        if is_whole:
            raise KeyError(head_id)
        return None
    made: list[tuple[Link, str | None]] = []
    while at is not None and (limit is None or len(made) < limit):
        link = links[at]
        before: int | None
        if link.follows:
            before = at - 1 if at else None
        elif link.parent is None:
            made.append((link, None))
            break
        else:
            # One that was removed: then what is left before it.
            before = at_of.get(link.parent)
            if before is None and is_whole and at:
                before = at - 1
        if before is None and not is_whole:
            return None
        if before is not None and before >= at:
            before = None
        made.append((link, None if before is None else links[before].entry_id))
        at = before
    return made[::-1]


def entries(found: Sequence[tuple[Link, str | None]], of: str) -> list[ConversationEntry]:
    messages = model_messages([link.value for link, _ in found])
    return [
        ConversationEntry(
            id=EntryId(link.entry_id, of),
            parent_id=None if before is None else EntryId(before, of), message=message)
        for (link, before), message in zip(found, messages, strict=True)]


def message_id(entry_id: str) -> str:
    """The id of the message that an entry is, or is a part of."""
    name, mark, number = entry_id.rpartition(_OF_ONE)
    return name if mark and number.isdigit() else str(entry_id)


def links_of(messages: Sequence[memory.Message]) -> list[Link]:
    """The entries that messages of a session are, in its order."""
    read = own_forms.read(FORM, turns.whole(messages))
    left = session_steps.left([one.message for one in read], [len(one.values) for one in read])
    made: list[Link] = []
    for one, count in zip(read, left, strict=True):
        said = about(one.message)
        parent = None if said is None else said["parent"]
        time = one.message.ingest_time.ToDatetime(tzinfo=datetime.timezone.utc)
        for number, value in enumerate(one.values[:count]):
            suffix = "" if number == count - 1 else f"{_OF_ONE}{number}"
            made.append(Link(one.message.message_id + suffix, value, parent, said is None, time))
    return made
