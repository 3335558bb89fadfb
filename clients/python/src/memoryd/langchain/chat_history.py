"""The messages of a session as a LangChain history."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Sequence

import grpc
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from memoryd import AsyncClient, Client, MemorydError
from memoryd._adapters import session_steps, turns
from memoryd._ids import Id, id_text
from memoryd._made import amake, make
from memoryd._requests import aor_taken_back, arequests, or_taken_back, requests
from memoryd._units import History, lacks
from memoryd.langchain.connection import Connection, connection_of
from memoryd.langchain.messages import from_message, said, to_message
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A session as it was at a revision, or at a later one, which a write conditional on the
    revision then finds out."""

    revision: int
    messages: list[memory.Message]
    contents: list[memory.Content]


class ChatMessageHistory(BaseChatMessageHistory):
    """The messages of a session of memoryd. Any number of objects and processes share them.

    `messages` is read from the server each time. To change the stored messages, add, clear, or
    assign to `messages`; changes of the returned list are not stored. Messages added through this
    object also join the list that it returned last. Chains return that list, and their callers look
    for the latest turn in it.

    Coroutines use the asyncio client. More messages at once than 1,000, or than a request may
    contain, are stored by several calls; if the server refuses one of the messages, none is stored.
    Two histories are equal when they contain the same messages, as LangChain's in memory are.
    """

    def __init__(
        self,
        session_id: Id | None = None,
        *,
        messages: Sequence[BaseMessage] | None = None,
        target: str | Connection | None = None,
        template: str = "",
    ) -> None:
        """Without `session_id` it is a new session. A UUID or an int is taken as its text.
        `messages` replace the messages of the session. `target` is memoryd's address, or a
        Connection; None: that of `connect()`. `template` names a configuration on the server for a
        session that this object creates. An existing session keeps its own."""
        self.session_id = uuid.uuid4().hex if session_id is None else id_text(session_id)
        self.target = target
        self.template = template
        self._is_made = not template
        self._given: list[BaseMessage] = []
        if messages is not None:
            self.messages = list(messages)

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, oldest first, except those that `shown` leaves out."""
        shown = self.shown(self.messages_as_stored())
        self._given = [from_message(found) for found in turns.single(shown)]
        return self._given

    @messages.setter
    def messages(self, messages: list[BaseMessage]) -> None:
        self._set([to_message(message) for message in messages], [], None)
        self._given = []

    async def aget_messages(self) -> list[BaseMessage]:
        stored = await self.amessages_as_stored()
        shown = await self.ashown(stored)
        self._given = [from_message(found) for found in turns.single(shown)]
        return self._given

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        taken: list[str] = []
        self.begin()
        with or_taken_back(self.client, self.session_id, taken):
            for batch in requests(self.client, [to_message(message) for message in messages]):
                if batch:
                    put = session_steps.put(self.session_id, batch)
                    taken += self.client._steps(put).message_ids
        self._given.extend(messages)

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        client = self.async_client
        taken: list[str] = []
        await self.abegin()
        async with aor_taken_back(client, self.session_id, taken):
            for batch in await arequests(client, [to_message(message) for message in messages]):
                if batch:
                    put = session_steps.put(self.session_id, batch)
                    taken += (await client._steps(put)).message_ids
        self._given.extend(messages)

    def clear(self) -> None:
        self.client.reset(self.session_id, wire.RESET_SCOPE_MESSAGES)
        self._given = []

    async def aclear(self) -> None:
        await self.async_client.reset(self.session_id, wire.RESET_SCOPE_MESSAGES)
        self._given = []

    def begin(self) -> None:
        """Creates the session from its template, if it has one and the session does not exist."""
        if not self._is_made:
            make(self.client, self.session_id, self.template)
            self._is_made = True

    async def abegin(self) -> None:
        if not self._is_made:
            await amake(self.async_client, self.session_id, self.template)
            self._is_made = True

    # For memories that take messages away.

    def edit(self, change: Callable[[list[BaseMessage]], object]) -> None:
        """Deletes the messages that `change` pops from the front of the list, atomically, even if
        it raises afterwards. A concurrent write is kept: `change` is then called again."""
        while True:
            snapshot = self.snapshot()
            messages = [from_message(found) for found in snapshot.messages]
            raised = None
            try:
                change(messages)
            except Exception as error:
                raised = error
            if self.keep_newest(snapshot, len(messages)):
                self._given = []
                if raised is not None:
                    raise raised
                return

    def snapshot(self) -> Snapshot:
        session = _existing(self.client, self.session_id)
        if session is None:
            return Snapshot(0, [], [])
        contents = session.content_count and list(self.client.get_all_contents(self.session_id))
        return Snapshot(session.revision, self.messages_as_stored(), contents or [])

    async def asnapshot(self) -> Snapshot:
        session = await _aexisting(self.async_client, self.session_id)
        if session is None:
            return Snapshot(0, [], [])
        contents = []
        if session.content_count:
            pages = self.async_client.get_all_contents(self.session_id)
            contents = [content async for content in pages]
        return Snapshot(session.revision, await self.amessages_as_stored(), contents)

    def keep_newest(self, snapshot: Snapshot, count: int) -> bool:
        """Deletes all messages of the snapshot except the newest `count`; contents stay. Returns
        False, and does nothing, if another client has written since."""
        if count == len(snapshot.messages):
            return True
        kept = snapshot.messages[len(snapshot.messages) - count:]
        try:
            self._set(kept, snapshot.contents, snapshot.revision)
        except MemorydError as error:
            return _or_raise(error)
        return True

    async def akeep_newest(self, snapshot: Snapshot, count: int) -> bool:
        if count == len(snapshot.messages):
            return True
        kept = snapshot.messages[len(snapshot.messages) - count:]
        first, *others = await arequests(self.async_client, kept)
        try:
            revision = (await self.async_client.set(
                self.session_id, first, contents=snapshot.contents,
                expected_revision=snapshot.revision)).revision
            for batch in others:
                revision = (await self.async_client.put(
                    self.session_id, batch, expected_revision=revision)).revision
        except MemorydError as error:
            return _or_raise(error)
        return True

    @property
    def client(self) -> Client:
        return connection_of(self.target).client

    @property
    def async_client(self) -> AsyncClient:
        return connection_of(self.target).async_client

    def messages_as_stored(self) -> list[memory.Message]:
        while True:
            try:
                return list(self.client.get_all(self.session_id))
            except MemorydError as error:
                _begin_anew_or_raise(error)

    async def amessages_as_stored(self) -> list[memory.Message]:
        while True:
            try:
                return [found async for found in self.async_client.get_all(self.session_id)]
            except MemorydError as error:
                _begin_anew_or_raise(error)

    def shown(
        self, stored: list[memory.Message], *, headless: bool = True
    ) -> list[memory.Message]:
        """Returns those of the stored messages that a model's provider accepts after retention or
        DeleteMessage removed others. It leaves out calls and results whose other half was removed.
        With `headless`, if a human message follows, it also leaves out everything before that
        except system messages. If nothing was removed, it returns all messages."""
        history = _lacking(stored, headless)
        if history is None:
            return stored
        session = _existing(self.client, self.session_id)
        return _without(stored, history.left_out(session, headless=headless))

    async def ashown(
        self, stored: list[memory.Message], *, headless: bool = True
    ) -> list[memory.Message]:
        history = _lacking(stored, headless)
        if history is None:
            return stored
        session = await _aexisting(self.async_client, self.session_id)
        return _without(stored, history.left_out(session, headless=headless))

    def _set(
        self, messages: list[memory.Message], contents: list[memory.Content], revision: int | None
    ) -> None:
        first, *others = requests(self.client, messages)
        if revision is None:
            self.begin()
        made = self.client.set(
            self.session_id, first, contents=contents, expected_revision=revision).revision
        for batch in others:
            made = self.client.put(self.session_id, batch, expected_revision=made).revision

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChatMessageHistory):
            return NotImplemented
        return self.messages == other.messages

    __hash__ = None  # type: ignore[assignment]  # Messages change.

    def __repr__(self) -> str:
        return f"{type(self).__name__}(session_id={self.session_id!r})"


def _lacking(stored: list[memory.Message], headless: bool) -> History | None:
    """The messages as a History, None where nothing can have to be left out."""
    if not lacks([found.position for found in stored]):
        return None
    history = History([said(found) for found in stored])
    return history if history.may_leave_out(headless=headless) else None


def _without(stored: list[memory.Message], left_out: set[int]) -> list[memory.Message]:
    return [found for index, found in enumerate(stored) if index not in left_out]


def _existing(client: Client, session_id: str) -> memory.Session | None:
    try:
        return client.get_session(session_id)
    except MemorydError as error:
        if error.code != grpc.StatusCode.NOT_FOUND:
            raise
        return None


async def _aexisting(client: AsyncClient, session_id: str) -> memory.Session | None:
    try:
        return await client.get_session(session_id)
    except MemorydError as error:
        if error.code != grpc.StatusCode.NOT_FOUND:
            raise
        return None


def _or_raise(error: MemorydError) -> bool:
    """False when somebody else was faster."""
    if error.reason != "REVISION_MISMATCH":
        raise error
    return False


def _begin_anew_or_raise(error: MemorydError) -> None:
    if error.reason != "SESSION_REPLACED":  # Between two pages.
        raise error
