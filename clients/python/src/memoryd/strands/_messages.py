"""The messages of a session, with the numbers that Strands gives them.

A message that an agent stored is named by its number. Those of other frameworks go on counting
from the message before. Of these, messages of one role that stand together are one, since Bedrock
refuses two; so are the answers of several calls.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from strands.types.session import SessionMessage

from memoryd._adapters import own_forms, session_steps, turns
from memoryd._steps import Steps
from memoryd._templates import same_json
from memoryd.strands._form import FORM
from memoryd.v1 import memory_pb2 as memory

_ID = re.compile(r"strands-(-?[0-9]+)")
# How many messages a page has: where the newest are wanted, and where all are.
_PAGE = 200
_ALL = 1000
# Callers that race, and were refused before, may have left so many numbers out of order.
_OUT_OF_ORDER = 32


@dataclasses.dataclass(frozen=True)
class Entry:
    """A message as an agent sees it. `message` is the one stored message that it is; None: it is
    read from several, or is one of several."""

    number: int
    value: Any
    message: memory.Message | None
    is_own: bool

    def session_message(self) -> SessionMessage:
        value = dict(self.value)
        if value.get("redact_message") is True:
            value["redact_message"] = value["message"]
        return SessionMessage.from_dict({**value, "message_id": self.number})


def message_id(number: int) -> str:
    return f"strands-{int(number)}"


def number_of(stored_id: str) -> int | None:
    """The number in a message's id; None: no agent has stored it."""
    found = _ID.fullmatch(stored_id)
    return int(found.group(1)) if found else None


def value_of(message: SessionMessage) -> Any:
    """The value of the form that a message is. Raises TypeError for what JSON does not have."""
    value = own_forms.json_value(message.to_dict())
    del value["message_id"]
    if value["redact_message"] is None:
        del value["redact_message"]
    elif same_json(value["redact_message"], value["message"]):
        value["redact_message"] = True
    return value


def entries(session_id: str, first: int = 0) -> Steps[list[Entry]]:
    """The messages with the number `first` or a higher one, in the order of their numbers."""
    back = session_steps.Backwards(session_id, _PAGE if first > 0 else _ALL)
    while not back.is_over:
        yield from back.page()
        messages = back.messages
        numbers = [number_of(one.message_id) for one in messages]
        own = [number for number in numbers if number is not None]
        if first > 0 and own and min(own) <= first - _OUT_OF_ORDER and not back.is_over:
            begin = next(at for at, number in enumerate(numbers) if number is not None)
            return _from(_entries(messages[begin:]), first)
    return _from(_entries(back.messages), first)


def _from(found: Sequence[Entry], first: int) -> list[Entry]:
    return [entry for entry in found if first <= 0 or entry.number >= first]


def _entries(messages: Sequence[memory.Message]) -> list[Entry]:
    runs: list[Entry] = []
    stored = {id(message) for message in messages}
    read = own_forms.read(FORM, turns.whole(messages))
    counts = session_steps.left([one.message for one in read], [len(one.values) for one in read])
    for one, count in zip(read, counts, strict=True):
        number = number_of(one.message.message_id)
        is_alone = count == 1 and id(one.message) in stored
        message = one.message if is_alone else None
        for value in one.values[:count]:
            if number is not None:
                runs.append(Entry(number, value, message, True))
                number = None
            elif runs and not runs[-1].is_own and _role(runs[-1].value) == _role(value):
                runs[-1] = _joined(runs[-1], value)
            else:
                runs.append(Entry(0, value, message, False))
    return sorted(_numbered(runs), key=lambda entry: entry.number)


def _role(value: Any) -> Any:
    return value["message"]["role"]


def _joined(entry: Entry, value: Any) -> Entry:
    message = entry.value["message"]
    content = [*message["content"], *value["message"]["content"]]
    # Results of tools come first, as they do within one message.
    content.sort(key=lambda block: "toolResult" not in block)
    return dataclasses.replace(
        entry, message=None, value={**entry.value, "message": {**message, "content": content}})


def _numbered(runs: Sequence[Entry]) -> list[Entry]:
    own = next((at for at, entry in enumerate(runs) if entry.is_own), 0)
    # Some that stood ahead of an agent's first may have left.
    number = max(0, runs[own].number - own) if runs else 0
    made: list[Entry] = []
    for entry in runs:
        if entry.is_own:
            number = entry.number
        made.append(dataclasses.replace(entry, number=number))
        number += 1
    return made
