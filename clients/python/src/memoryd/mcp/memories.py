"""What an MCP server does with the memory of one user."""

from __future__ import annotations

import dataclasses
import datetime
import uuid

import grpc

from memoryd import users
from memoryd._adapters import session_steps
from memoryd.aio import AsyncClient
from memoryd.client import message
from memoryd.errors import MemorydError
from memoryd.results import Hit, text_of
from memoryd.v1 import filter_pb2 as filter_wire
from memoryd.v1 import memory_pb2 as wire
from memoryd.v1 import session_service_pb2 as session_wire

_FACTS = "fact-extraction"
# Of what was said last, in a context.
_NEWEST = 10


@dataclasses.dataclass(frozen=True)
class Memory:
    """Something that is known about the user."""

    id: str
    """What correct_fact and forget take. Empty: it can be neither corrected nor forgotten here."""
    text: str
    speaker: str
    """Who said it, such as `user` or `assistant`. `fact`: a model's extract of what was said, or
    something that was added by hand."""
    said: str | None
    """When it was said, in ISO 8601."""
    conversation: str
    """The conversation in which it was said. Empty: none."""


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known about the user without a question."""

    knowledge: str
    """What models have extracted. Empty: nothing, or no model is configured."""
    newest: list[Memory]
    """What was said last, the newest first."""


@dataclasses.dataclass(frozen=True)
class Conversation:
    """A conversation with the user."""

    id: str
    messages: int
    updated: str | None


class Memories:
    """The memory of `user`. Any number of coroutines may use it; the client stays the caller's.

    Methods raise MemorydError as the client does. Ids are those of Memory."""

    def __init__(self, client: AsyncClient, user: str, *, template: str = "") -> None:
        """`template` names the configuration of the user's own session on the server, if a call
        creates it, see `users.remember`. Raises as `users.session_of` does."""
        self._client = client
        self._user = user
        self._session = users.session_of(user)
        self._template = template

    async def remember(self, text: str) -> Memory:
        """Stores something that the user has said."""
        message_id = uuid.uuid4().hex
        await self._client.remember(
            self._user, message("user", text, message_id=message_id),
            memory_template=self._template, request_id=message_id)
        return Memory(f"message:{message_id}", text, "user", None, "")

    async def recall(self, query: str, limit: int) -> list[Memory]:
        """Returns what answers to `query`, the best first."""
        hits = await self._client.recall(self._user, query, top_k=limit)
        return [_found(hit) for hit in hits if hit.text]

    async def search(self, query: str, limit: int, since: datetime.datetime | None,
                     until: datetime.datetime | None) -> list[Memory]:
        """Returns messages of conversations that answer to `query`, the best first. Those that
        the server got from `since` on and before `until`."""
        times = filter_wire.TimeRange()
        if since is not None:
            times.start.FromDatetime(since)
        if until is not None:
            times.end.FromDatetime(until)
        hits = await self._client.query(
            self._session, query, top_k=limit, passages=True, without_blocks=True,
            filter=filter_wire.Filter(ingest_time=times))
        return [_found(hit) for hit in hits if hit.text]

    async def known(self) -> Known:
        """Returns what is known without a question."""
        got = await self._client.get(self._session)
        knowledge = [text_of(one) for one in got.messages if one.role == "system"]
        said = await self._said_last(self._session, _NEWEST)
        return Known("\n".join(filter(None, knowledge)), said[::-1])

    async def facts(self, limit: int) -> list[Memory]:
        """Returns the facts, and where no block extracts any, what was said, the newest first."""
        try:
            session = await self._client.get_session(self._session)
        except MemorydError as error:
            if error.code == grpc.StatusCode.NOT_FOUND:
                return []
            raise
        blocks = [block.name for block in session.config.blocks if block.kind == _FACTS]
        if not blocks:
            return (await self._said_last(self._session, limit))[::-1]
        facts: list[Memory] = []
        for name in blocks:
            known = await self._client.get_block(self._session, name)
            facts += [Memory(f"fact:{fact.fact_id}:{name}", fact.text, "fact",
                             _written(fact.last_said), "") for fact in known.facts]
        return facts[:limit]

    async def correct(self, memory_id: str, text: str) -> None:
        """Replaces the text of a memory. Raises ValueError for an id of another form."""
        kind, block, name = _parted(memory_id)
        if kind == "fact":
            await self._client.update_fact(self._session, block, int(name), text)
        else:
            await self._client.update_message(self._session, name, text)

    async def forget(self, memory_id: str) -> None:
        """Removes a memory. Raises ValueError for an id of another form."""
        kind, block, name = _parted(memory_id)
        if kind == "fact":
            await self._client.delete_fact(self._session, block, int(name))
        else:
            await self._client.delete_message(self._session, name, with_tool_messages=True)

    async def conversations(self, limit: int) -> list[Conversation]:
        """Returns the user's conversations, in the order of their ids."""
        found = []
        async for session in self._client.list_sessions(subject=self._user, page_size=limit + 1):
            if session.session_id == self._session:
                continue
            found.append(Conversation(
                session.session_id, session.active_count + session.archived_count,
                _written(session.updated)))
            if len(found) == limit:
                break
        return found

    async def conversation(self, session_id: str, limit: int) -> list[Memory]:
        """Returns the newest messages of one of the user's conversations, oldest first. Raises
        MemorydError NOT_FOUND for one that is not his."""
        session = await self._client.get_session(session_id)
        if session.config.subject != self._user:
            raise MemorydError(grpc.StatusCode.NOT_FOUND, "there is no such conversation")
        return await self._said_last(session_id, limit)

    async def counts(self) -> session_wire.EraseSubjectResponse:
        """Returns what `erase` would remove."""
        counted: session_wire.EraseSubjectResponse = await self._client.erase_subject(
            self._user, dry_run=True)
        return counted

    async def erase(self) -> session_wire.EraseSubjectResponse:
        """Removes all sessions of the user, and what they hold. `purged` says whether everything
        is gone; else a later call goes on."""
        erased: session_wire.EraseSubjectResponse = await self._client.erase_subject(self._user)
        return erased

    async def _said_last(self, session_id: str, limit: int) -> list[Memory]:
        """The newest messages of a session, oldest first."""
        newest = await self._client._steps(session_steps.newest(session_id, limit))
        return [_said(one) for one in newest]


def _said(one: wire.Message) -> Memory:
    time = one.create_time if one.HasField("create_time") else one.ingest_time
    said = time.ToDatetime(tzinfo=datetime.timezone.utc)
    return Memory(_id_of(one), text_of(one), one.name or one.role, _written(said),
                  one.source_session_id)


def _found(hit: Hit) -> Memory:
    if hit.kind == "message":
        memory_id, speaker = _id_of(hit.message), hit.message.name or hit.role
    elif hit.fact is not None:
        memory_id, speaker = f"fact:{hit.fact.fact_id}:{hit.block_item.block}", "fact"
    else:
        memory_id, speaker = "", hit.kind
    return Memory(memory_id, hit.text, speaker, _written(hit.said), hit.conversation)


def _id_of(one: wire.Message) -> str:
    return f"message:{one.message_id}" if one.message_id else ""


def _written(time: datetime.datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="seconds")


def _parted(memory_id: str) -> tuple[str, str, str]:
    """The kind of a memory, the block of a fact, and its id in that."""
    kind, _, rest = memory_id.partition(":")
    if kind == "message" and rest:
        return kind, "", rest
    number, _, block = rest.partition(":")
    if kind == "fact" and block and number.isascii() and number.isdigit():
        return kind, block, number
    raise ValueError(f"id: {memory_id!r} is not the id of a memory. Take one from list_facts, "
                     "recall or search_conversations")
