"""A message in a framework's own form as a message of memoryd, and back unchanged.

Texts, calls, results, reasoning and media become parts, which every client, Query and retention
know. What stands around them is a template with holes, see `memoryd._templates`. A message that
another framework has stored is said anew in the form, from its parts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from memoryd._crossing import Crossing
from memoryd._templates import Stored, Taking, encoded, same_json, write
from memoryd._wire_text import dumps, joined
from memoryd.v1 import memory_pb2 as memory

__all__ = ["Crossing", "OwnForm", "Read", "Taking", "is_role", "json_value", "read", "stored",
           "text_of"]

_MAX_ROLE_BYTES = 64
_VALUE = "value"


class OwnForm(Protocol):
    """The form of a framework's messages. Values are what JSON has."""

    @property
    def name(self) -> str:
        """The form's name, such as `openai-responses`, which is stored. Never change it."""
        ...

    def role(self, value: Any) -> str:
        """The role of the message: `user`, `assistant`, `tool`, `system`, or another for which
        `is_role` holds."""
        ...

    def taken(self, value: Any) -> tuple[Taking, Any]:
        """The parts of the message, and the value with a hole in place of what each part holds."""
        ...

    def says_all(self, value: Any) -> bool:
        """Whether a message that `canonical` says exactly so may be stored without a template.
        False if the form needs to know its own messages from others."""
        ...

    def canonical(
        self, message: memory.Message, parts: list[memory.Part], crossing: Crossing
    ) -> list[Any]:
        """What another framework has stored, in this form. Empty where it says nothing."""
        ...


@dataclasses.dataclass(frozen=True)
class Read:
    """A stored message, and the values of the form that it is. An own one has one value."""

    message: memory.Message
    values: list[Any]
    is_own: bool


def json_value(value: Any) -> Any:
    """The value as json.dumps writes and json.loads reads it. Raises what they raise: TypeError for
    what JSON does not have, ValueError for a value that contains itself."""
    return json.loads(json.dumps(value))


def is_role(role: Any) -> bool:
    """Whether the server takes it as a role."""
    if not isinstance(role, str) or not role or not role.isprintable():
        return False
    return len(role.encode("utf-8", "surrogatepass")) <= _MAX_ROLE_BYTES


def stored(
    form: OwnForm, value: Any, *, metadata: Mapping[str, Any] | None = None, **fields: Any
) -> memory.Message:
    """Converts a message of the form, which is what json_value returns. `metadata` is for filters,
    and `fields` are other fields of memory_pb2.Message."""
    try:
        taking, template = form.taken(value)
        encoded(template)
    except RecursionError:
        taking = Taking(0)
        template = taking.opaque(None, value)
    made = memory.Message(role=joined(form.role(value)), name=taking.name, **fields)
    if len(taking.parts) == 1 and taking.parts[0].HasField("text"):
        made.text = taking.parts[0].text
    else:
        made.parts.extend(taking.parts)
    template = {_VALUE: template}
    if form.says_all(value) and same_json(
        form.canonical(made, taking.parts, Crossing()), [value]
    ):
        template = None
    write(made, form.name, template, metadata or {})
    return made


def read(form: OwnForm, messages: Iterable[memory.Message]) -> list[Read]:
    """The messages in the form. Ids of calls are the same in all of them."""
    found = [Stored(message) for message in messages]
    own = [_as_put(form, one) for one in found]
    crossing = Crossing(
        (call_id for one, put in zip(found, own, strict=True) if put for call_id in _ids(one)),
        {part.tool_call.call_id: part.tool_call.name for one in found for part in one.parts
         if part.HasField("tool_call") and part.tool_call.call_id})
    return [
        Read(one.message, put, True) if put
        else Read(one.message, form.canonical(one.message, one.parts, crossing), False)
        for one, put in zip(found, own, strict=True)]


def _as_put(form: OwnForm, found: Stored) -> list[Any]:
    """The one value that was put in this form; none where another form, or another part of it, is
    stored."""
    put = found.as_templated() if found.form == form.name else None
    if put is None or put[1] or _VALUE not in put[0]:
        return []
    return [put[0][_VALUE]]


def _ids(found: Stored) -> Iterator[str]:
    for part in found.parts:
        if part.HasField("tool_call"):
            yield part.tool_call.call_id
        elif part.HasField("tool_result"):
            yield part.tool_result.call_id


def text_of(value: Any) -> str:
    """A value as the text of a result: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else dumps(value)
