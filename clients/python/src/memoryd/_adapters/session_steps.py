"""The messages of a session as a list: read from its end, appended to, popped and cleared.

Each function returns steps, which `Client._steps` and `AsyncClient._steps` run. A session that does
not exist is an empty list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import grpc

from memoryd import _calls
from memoryd._requests import UNASKED_BYTES, UNKNOWN, bytes_of, room, split
from memoryd._steps import Steps
from memoryd._templates import POPPED
from memoryd._wire_text import dumps
from memoryd.errors import MemorydError
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire

_PAGE = 1000
# Of the messages that a pop looks at.
_AT_END = 8
# The server names no more messages that go with another.
_MOST_NAMED = 20
_BYTES_OF_TOKEN = 4
# More values than a message is read as.
_ALL = 1 << 30

# How many values an adapter reads each of some messages as.
Counts = Callable[[Sequence[memory.Message]], Sequence[int]]


class Backwards:
    """The messages of a session from the newest on, page by page."""

    def __init__(self, session_id: str, page_size: int = _PAGE) -> None:
        self._pages = _calls.get_all(
            session_id, newest_first=True, page_size=max(1, min(page_size, _PAGE)))
        self._next: _calls.Call[wire.GetAllResponse] | None = self._pages.first
        self._newest_first: list[memory.Message] = []

    @property
    def messages(self) -> list[memory.Message]:
        """What was read, oldest first."""
        return self._newest_first[::-1]

    @property
    def count(self) -> int:
        """How many messages were read."""
        return len(self._newest_first)

    @property
    def is_over(self) -> bool:
        """Whether all messages were read."""
        return self._next is None

    def page(self) -> Steps[None]:
        """Reads one page more. Begins anew when the session was replaced meanwhile."""
        if self._next is None:
            return
        try:
            page = yield self._next
        except MemorydError as error:
            if error.reason != "SESSION_REPLACED":
                raise
            self._next = self._pages.first
            self._newest_first = []
            return
        self._newest_first.extend(page.messages)
        self._next = self._pages.next(page)


def every(session_id: str) -> Steps[list[memory.Message]]:
    """All messages, oldest first."""
    return (yield from newest(session_id, None))


def newest(session_id: str, count: int | None) -> Steps[list[memory.Message]]:
    """The newest `count` messages, oldest first; None: all of them."""
    back = Backwards(session_id, _PAGE if count is None else count)
    while not back.is_over and (count is None or back.count < count):
        yield from back.page()
    return back.messages if count is None else back.messages[-count:] if count > 0 else []


def begun(
    session_id: str, *, template: str = "", config: memory.SessionConfig | None = None
) -> Steps[None]:
    """Makes the session from a template of the server or a configuration. One that exists keeps its
    own."""
    try:
        yield _calls.create_session(session_id, config=config, template=template)
    except MemorydError as error:
        if error.reason != "SESSION_EXISTS":
            raise


def appended(session_id: str, messages: Sequence[memory.Message]) -> Steps[list[str]]:
    """Appends messages, and returns their ids. All or none: what one request holds, at least 1,000
    messages and 3 MiB, is one write. If a later request of a longer list is refused, the messages
    before are popped again; if its outcome is unknown, they stay."""
    if not messages:
        return []
    requests = split(messages, UNASKED_BYTES)
    if len(requests) > 1 and bytes_of(messages) > UNASKED_BYTES:
        info = yield _calls.server_info()
        requests = split(messages, room(info))
    made: list[memory.Message] = []
    for some in requests:
        try:
            reply = yield from put(session_id, some)
        except MemorydError as error:
            if error.code not in UNKNOWN:
                yield from taken_back(session_id, made)
            raise
        for message, message_id in zip(some, reply.message_ids, strict=True):
            made.append(memory.Message(message_id=message_id, parts=message.parts))
    return [message.message_id for message in made]


def put(
    session_id: str, messages: Sequence[memory.Message], *, expected_revision: int | None = None
) -> Steps[wire.PutResponse]:
    """Puts the messages. Where the session's framework counts tokens by itself, as LlamaIndex
    does, they are estimated."""
    reply: wire.PutResponse
    try:
        reply = yield _calls.put(session_id, messages, expected_revision=expected_revision)
        return reply
    except MemorydError as error:
        if not error.field.endswith("token_count"):
            raise
    for message in messages:
        message.token_count = message.ByteSize() // _BYTES_OF_TOKEN
    reply = yield _calls.put(session_id, messages, expected_revision=expected_revision)
    return reply


def popped(session_id: str, counts: Counts) -> Steps[tuple[memory.Message, int] | None]:
    """Takes the last value of the list away, and returns its message and its index among the
    message's values. None: there is none. No two callers get the same.

    A message goes with its last value. The server never parts a call from its results: a result
    whose call stays is emptied and marked, and goes with its call. A message that keeps some of its
    values is marked too. `left` reads the marks."""
    revision: int | None = None
    while True:
        back = Backwards(session_id, _AT_END)
        found: list[memory.Message] = []
        of_all: Sequence[int] = ()
        left_of: list[int] = []
        while not any(left_of) and not back.is_over:
            yield from back.page()
            found = back.messages
            of_all = counts(found)
            left_of = left(found, of_all)
        at = max((index for index, count in enumerate(left_of) if count), default=None)
        if at is None:
            return None
        message, last = found[at], left_of[at] - 1
        hidden = {one.message_id for one in found[at + 1:]}
        done = False
        try:
            if last == 0:
                done = yield from _deleted(
                    session_id, message, hidden, revision, with_others=revision is not None)
            if not done and revision is not None:
                yield _marked(session_id, message, of_all[at] - last, last, revision)
                done = True
        except MemorydError as error:
            # Else another caller was faster.
            if error.code not in (grpc.StatusCode.ABORTED, grpc.StatusCode.NOT_FOUND):
                raise
        if done:
            return message, last
        revision = yield from revision_of(session_id)


def cleared(session_id: str) -> Steps[None]:
    """Removes all messages. The session, its configuration and what its blocks know stay."""
    yield _calls.reset(session_id, wire.RESET_SCOPE_MESSAGES)


def revision_of(session_id: str) -> Steps[int | None]:
    """The session's revision; None: there is none."""
    try:
        session = yield _calls.get_session(session_id)
    except MemorydError as error:
        if error.code != grpc.StatusCode.NOT_FOUND:
            raise
        return None
    return int(session.revision)


def taken_back(session_id: str, taken: Sequence[memory.Message]) -> Steps[None]:
    """Deletes messages of a list that was refused in the middle, or hides those that go with one
    that was there before."""
    ids = {message.message_id for message in taken}
    for message in reversed(taken):
        try:
            done = yield from _deleted(session_id, message, ids, None, with_others=True)
            if not done:
                yield _marked(session_id, message, _ALL, 0, None)
        except MemorydError as error:
            if error.code != grpc.StatusCode.NOT_FOUND:
                raise


def left(messages: Iterable[memory.Message], counts: Iterable[int]) -> list[int]:
    """How many of the values of each message were not popped."""
    return [max(0, count - _popped_of(message))
            for message, count in zip(messages, counts, strict=True)]


def _popped_of(message: memory.Message) -> int:
    if f'"{POPPED}"' not in message.metadata_json:
        return 0
    metadata = json.loads(message.metadata_json)
    count = metadata.get(POPPED) if isinstance(metadata, dict) else None
    return count if isinstance(count, int) else 0


def _deleted(
    session_id: str,
    message: memory.Message,
    others: set[str],
    revision: int | None,
    *,
    with_others: bool,
) -> Steps[bool]:
    """Deletes the message, if `with_others` together with those of the others that go with it.
    False, and nothing is done: more goes with it."""
    try:
        yield _calls.delete_message(session_id, message.message_id, expected_revision=revision)
    except MemorydError as error:
        if error.reason != "TOOL_PAIR":
            raise
        tied = [one for one in error.details.get("message_ids", "").split(", ") if one]
    else:
        return True
    if not with_others or len(tied) >= _MOST_NAMED or not others.issuperset(tied):
        return False
    yield _calls.delete_message(
        session_id, message.message_id, with_tool_messages=True, expected_revision=revision)
    return True


def _marked(
    session_id: str, message: memory.Message, count: int, left_of: int, revision: int | None
) -> _calls.Call[wire.UpdateMessageResponse]:
    """The call that marks `count` values of the message as popped."""
    about = json.loads(message.metadata_json) if left_of and message.metadata_json else {}
    parts = list(message.parts) if left_of else [bare(part) for part in message.parts if (
        part.HasField("tool_call") or part.HasField("tool_result"))]
    text = message.text if left_of and message.HasField("text") else None
    if not left_of and not parts:
        text = ""
    return _calls.update_message(
        session_id, message.message_id, text, parts=parts,
        metadata_json=dumps({**about, POPPED: count}), token_count=message.token_count,
        expected_revision=revision)


def bare(part: memory.Part) -> memory.Part:
    """A tool's call or result without what it says."""
    if part.HasField("tool_call"):
        call = part.tool_call
        return memory.Part(tool_call=memory.ToolCall(
            call_id=call.call_id, name=call.name, arguments_json="{}"))
    result = part.tool_result
    return memory.Part(tool_result=memory.ToolResult(call_id=result.call_id, name=result.name))
