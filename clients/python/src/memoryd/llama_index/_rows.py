"""The messages of one key, as rows of a chat store, over the RPCs of memoryd.

A row's id is the position that its message got first; it is kept when a session is written anew. A
message is archived when the server says so, or when it carries the mark: the server itself archives
only what its own policy displaces.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

import grpc
from llama_index.core.base.llms.types import ChatMessage

from memoryd import AsyncClient, MemorydError
from memoryd._requests import UNKNOWN, aor_taken_back, arequests
from memoryd._units import History
from memoryd.llama_index._messages import from_chat, said, to_chat
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire

Result = TypeVar("Result")

_ATTEMPTS = 100
_ARCHIVED_MARK = "archived"
_ROW_ID = re.compile(r"row-([0-9]{1,18})")
# A session that nothing displaces messages from; tokens are counted by LlamaIndex' own rules.
PLAIN = memory.SessionConfig(profile="llama-index", policy="buffer", tokenizer="caller")

Count = Callable[[ChatMessage], int]


@dataclasses.dataclass(frozen=True)
class Row:
    """A message as it is stored. `id` is 0 for one that is not stored yet."""

    message: memory.Message
    archived: bool = False
    id: int = 0

    def chat(self) -> ChatMessage:
        return to_chat(self.message)

    def wire(self) -> memory.Message:
        """What to send to store the row, again or for the first time."""
        return memory.Message(
            message_id=f"row-{self.id}" if self.id else "",
            role=self.message.role,
            text=self.message.text if self.message.HasField("text") else None,
            parts=self.message.parts,
            metadata_json=self.message.metadata_json,
            thread_id=_ARCHIVED_MARK if self.archived else "",
            # What is archived takes no room in short-term memory.
            token_count=0 if self.archived else self.message.token_count,
        )


def new_row(chat: ChatMessage, count: Count, *, archived: bool = False) -> Row:
    message = from_chat(chat)
    # The library counts what it has stored: an object in them has become what JSON has of it.
    message.token_count = count(to_chat(message) if chat.additional_kwargs else chat)
    return Row(message, archived)


def stored_row(message: memory.Message) -> Row:
    kept = _ROW_ID.fullmatch(message.message_id)
    return Row(
        message,
        archived=message.status == memory.MESSAGE_STATUS_ARCHIVED or is_marked(message),
        id=int(kept.group(1)) if kept else message.position,
    )


def is_marked(message: memory.Message) -> bool:
    """Whether a message was archived by hand; short-term memory may still hold it."""
    return message.thread_id == _ARCHIVED_MARK


def may_lack(rows: Sequence[Row]) -> bool:
    """Whether some call or result among the rows has not its other half there."""
    return History([said(row.message) for row in rows]).may_leave_out()


class Session:
    """The session of a key."""

    def __init__(self, client: AsyncClient, session_id: str) -> None:
        self._client = client
        self._id = session_id

    async def rows(self, archived: bool | None = None) -> AsyncIterator[Row]:
        """The rows, oldest first; those only that are archived, or are not."""
        status = memory.MESSAGE_STATUS_ACTIVE if archived is False else None
        async for message in self._client.get_all(self._id, status=status):
            row = stored_row(message)
            if archived is None or row.archived == archived:
                yield row

    async def shown(self, rows: list[Row], *, all_there: bool) -> list[Row]:
        """Of the rows of a status, or of all there are, those to show: without calls and results
        whose other half retention or DeleteMessage has taken. A half that was stored as one, or
        whose other half has another status, is shown as the library shows it."""
        if not may_lack(rows):
            return rows
        stored = rows if all_there else [row async for row in self.rows()]
        history = History([said(row.message) for row in stored], resets=True)
        if not history.may_leave_out():
            return rows
        left_out = history.left_out(await self.known())
        positions = {stored[index].message.position for index in left_out}
        return [row for row in rows if row.message.position not in positions]

    async def known(self) -> memory.Session | None:
        """The session as the server knows it, None when there is none."""
        try:
            return await self._client.get_session(self._id)
        except MemorydError as error:
            if error.code == grpc.StatusCode.NOT_FOUND:
                return None
            raise

    async def append(self, rows: Sequence[Row]) -> list[str]:
        """Adds rows behind the others, all or, where the server refuses one, none; returns their
        ids. None leaves short-term memory by it."""
        taken: list[str] = []
        async with aor_taken_back(self._client, self._id, taken):
            for chunk in await chunks(self._client, rows):
                if chunk:
                    taken += (await self._append(chunk)).message_ids
        return taken

    async def replace(self, rows: Sequence[Row]) -> None:
        """Makes `rows` all there is."""
        await self.change(lambda _: (rows, None))

    async def change(
        self, change: Callable[[list[Row]], tuple[Sequence[Row] | None, Result]]
    ) -> Result:
        """Replaces the rows by those that `change` makes of them, unless it makes None, and returns
        what it says. It may be called again when others write meanwhile. Up to 1,000 rows
        change at once, as far as a request holds them; more are written in steps."""
        for _ in range(_ATTEMPTS):
            session = await self._created()
            rows = [row async for row in self.rows()]
            made, said = change(rows)
            if made is None:
                return said
            first, *others = await chunks(self._client, made)
            try:
                reply = await self._client.set(
                    self._id,
                    [row.wire() for row in first],
                    expected_revision=session.revision,
                )
            except MemorydError as error:
                if error.code == grpc.StatusCode.ABORTED:
                    continue
                raise
            revision = reply.revision
            try:
                for chunk in others:
                    revision = (await self._append(chunk)).revision
            except MemorydError as error:
                if error.code not in UNKNOWN:
                    await self._restore(rows, revision)
                raise
            return said
        raise RuntimeError(f"session {self._id!r} is written by others all the time")

    async def remove(self, archived: bool | None = None) -> None:
        """Removes all rows, or those that are archived, or those that are not."""
        if archived is None:
            await self._client.reset(self._id, wire.RESET_SCOPE_MESSAGES)
            return
        for _ in range(_ATTEMPTS):
            session = await self.known()
            if session is None:
                return
            active = self._client.get_all(self._id, status=memory.MESSAGE_STATUS_ACTIVE)
            if any([is_marked(message) async for message in active]):
                # The server would take the marked ones for active.
                await self.change(
                    lambda rows: ([row for row in rows if row.archived != archived], None)
                )
                return
            scope = wire.RESET_SCOPE_ARCHIVED if archived else wire.RESET_SCOPE_ACTIVE
            try:
                await self._client.reset(self._id, scope, expected_revision=session.revision)
            except MemorydError as error:
                if error.code == grpc.StatusCode.ABORTED:
                    continue
                raise
            return
        raise RuntimeError(f"session {self._id!r} is written by others all the time")

    async def _created(self) -> memory.Session:
        session = await self.known()
        if session is not None:
            return session
        try:
            return await self._client.create_session(self._id, PLAIN)
        except MemorydError as error:
            if error.code == grpc.StatusCode.ALREADY_EXISTS:
                return await self._created()
            raise

    async def _restore(self, rows: Sequence[Row], revision: int) -> None:
        """Has nothing replaced, rather than a part; unless others have written since `revision`,
        whose messages would be lost."""
        first, *others = await chunks(self._client, rows)
        try:
            await self._client.set(
                self._id, [row.wire() for row in first], expected_revision=revision)
        except MemorydError as error:
            if error.code == grpc.StatusCode.ABORTED:
                return
            raise
        for chunk in others:
            await self._append(chunk)

    async def _append(self, rows: Sequence[Row]) -> wire.PutResponse:
        messages = [row.wire() for row in rows]
        try:
            return await self._client.put(self._id, messages, config=PLAIN)
        except MemorydError as error:
            if error.reason != "CONFIG_MISMATCH":
                raise
        # The session is a Memory's, which looks at its limit with its own next put only.
        for _ in range(_ATTEMPTS):
            session = await self._created()
            policy = session.config.policy
            try:
                if policy != PLAIN.policy:
                    session = await self._client.update_session(
                        self._id,
                        memory.SessionConfig(policy=PLAIN.policy),
                        expected_revision=session.revision,
                    )
                reply = await self._client.put(
                    self._id, messages, expected_revision=session.revision)
            except MemorydError as error:
                if error.code == grpc.StatusCode.ABORTED:
                    continue
                raise
            if policy != PLAIN.policy:
                session = await self._client.update_session(
                    self._id, memory.SessionConfig(policy=policy))
                reply.revision = session.revision
            return reply
        raise RuntimeError(f"session {self._id!r} is written by others all the time")


async def chunks(client: AsyncClient, rows: Sequence[Row]) -> list[list[Row]]:
    """The rows, in order, as requests hold them; at least one list."""
    left = iter(rows)
    return [
        list(itertools.islice(left, len(messages)))
        for messages in await arequests(client, [row.message for row in rows])
    ]
