"""ListMemory: a session of profile `autogen-list`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import autogen_core.memory
import grpc
from autogen_core import CancellationToken
from autogen_core.memory import MemoryContent, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import SystemMessage
from pydantic import BaseModel, Field
from typing_extensions import Self

from memoryd._ids import Id, id_text
from memoryd._requests import arequests, requests
from memoryd.autogen._placement import Placement, checked, put_to_front
from memoryd.autogen.connection import Connection, cancellable
from memoryd.autogen.contents import (
    context_text,
    from_content,
    is_as_sent,
    to_content,
)
from memoryd.errors import MemorydError
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire

_PROFILE = "autogen-list"
# Of autogen_core's own.
_HEADING = "\nRelevant memory content (in chronological order):\n"
_CONFIG = memory.SessionConfig(profile=_PROFILE)


class ListMemoryConfig(BaseModel):
    """The configuration from which a ListMemory is loaded again."""

    name: str | None = None
    memory_contents: list[MemoryContent] = Field(default_factory=list)
    target: str | None = None
    session_id: str | None = None
    placement: Placement | None = None  # None: at the end.
    template: str | None = None


class ListMemory(autogen_core.memory.ListMemory):
    """A chronological list of contents, stored in memoryd.

    It behaves as autogen_core's ListMemory, with these differences. The list is on the server under
    `session_id`, for every process that uses this id. `content`, `query` and `update_context`
    return copies. An image reads as `<Image>` in the context. Calls raise memoryd.MemorydError.

    Values and metadata may contain JSON values, dates and times, members of enumerations, tuples,
    sets, bytes, UUIDs and Decimals. Other objects raise TypeError. A member of an enumeration is
    returned as its value if the reading process has not imported its module.

    `memory_contents` are the first contents of a new session; an existing session stays unchanged.
    Without `session_id` the memory has a new session of its own. Nothing is sent before the first
    call. A list of more than 1,000 contents or 3 MiB is set in several steps.
    """

    component_provider_override = "memoryd.autogen.ListMemory"
    component_config_schema = ListMemoryConfig  # type: ignore[assignment]

    def __init__(
        self,
        name: str | None = None,
        memory_contents: list[MemoryContent] | None = None,
        *,
        session_id: Id | None = None,
        placement: Placement = "end",
        template: str = "",
        target: str | None = None,
        timeout: float = 10.0,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str] | None = None,
    ) -> None:
        """`placement` is where `update_context` inserts the contents. "end": at the end with every
        call, as autogen_core does. "front": once, after the leading system messages, as AutoGen's
        client for Anthropic requires.

        `template` names a configuration on the server, of profile `autogen-list`, for a session
        that this object creates. An existing session keeps its own.

        `target`, `timeout`, `credentials` and `token` are as for memoryd.Client. Arguments that are
        not given come from the environment: MEMORYD_TARGET, MEMORYD_CA_FILE, MEMORYD_TOKEN_FILE.
        """
        self._name = name or "default_list_memory"
        self._first = list(memory_contents or ())
        # The number 0 is an id.
        given = "" if session_id is None else id_text(session_id)
        self._session_id = given or f"autogen-{uuid.uuid4().hex}"
        self._placement: Placement = checked(placement)
        self._template = template
        # How the session is made, and what it is put to with.
        self._made: dict[str, Any] = {"template": template} if template else {"config": _CONFIG}
        self._connection = Connection(target, timeout, credentials, token)
        self._begun = False

    @property
    def name(self) -> str:
        """The label of this object."""
        return self._name

    @property
    def session_id(self) -> str:
        """The id of the session that contains the contents."""
        return self._session_id

    @property
    def target(self) -> str:
        """The server's address."""
        return self._connection.target

    @property
    def content(self) -> list[MemoryContent]:
        """The contents, oldest first. It is a copy: only assigning to it changes the memory. It
        blocks until the server answers; on an event loop use `query`."""
        client = self._connection.client()
        self._begin()
        try:
            found = [r.content for r in client.query(self._session_id, "").results]
        except MemorydError as error:
            if error.reason != "REPLY_TOO_LARGE":
                raise
            found = list(client.get_all_contents(self._session_id))
        return [from_content(content) for content in found]

    @content.setter
    def content(self, value: list[MemoryContent]) -> None:
        client = self._connection.client()
        first, *others = requests(client, [to_content(item) for item in value])
        self._begin()
        # Had somebody deleted the session, Set alone would make it one of another profile.
        client.put(self._session_id, **self._made)
        client.set(self._session_id, [], contents=first)
        for batch in others:
            client.put(self._session_id, contents=batch)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Adds one system message with all contents to the context, with every call, and none
        without contents. With `placement` "front" it replaces the message of the last call."""
        await self._abegin()
        # The context is not sent: what this profile inserts does not depend on it.
        try:
            reply = await self._connection.async_client().update_context(self._session_id, [])
        except MemorydError as error:
            if error.reason != "REPLY_TOO_LARGE":
                raise
            results = [from_content(content) for content in await self._read()]
            await self._place(model_context, [context_text(results)])
            return UpdateContextResult(memories=MemoryQueryResult(results=results))
        results = [from_content(result.content) for result in reply.results]
        as_sent = all(is_as_sent(result.content) for result in reply.results)
        texts = [insertion.message.text if as_sent else context_text(results)
                 for insertion in reply.insertions]
        await self._place(model_context, texts)
        return UpdateContextResult(memories=MemoryQueryResult(results=results))

    async def _place(self, model_context: ChatCompletionContext, texts: list[str]) -> None:
        if self._placement == "front":
            await put_to_front(self, model_context, "".join(texts) or None, _HEADING)
        else:
            for text in texts:
                await model_context.add_message(SystemMessage(content=text))

    async def query(
        self,
        query: str | MemoryContent = "",
        cancellation_token: CancellationToken | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """Returns all contents, oldest first, for any query."""
        contents = await cancellable(self._read(), cancellation_token)
        return MemoryQueryResult(results=[from_content(content) for content in contents])

    async def add(
        self, content: MemoryContent, cancellation_token: CancellationToken | None = None
    ) -> None:
        """Appends a content, durably. If the call is cancelled, the content may be stored or
        not."""
        await cancellable(self._append(to_content(content)), cancellation_token)

    async def clear(self) -> None:
        """Removes all contents."""
        # So that what the session would begin with does not come after.
        await self._abegin()
        await self._connection.async_client().reset(
            self._session_id, wire.RESET_SCOPE_EVERYTHING)

    async def close(self) -> None:
        """Closes the connection. The contents stay, and a later call connects again."""
        await self._connection.close()

    @classmethod
    def _from_config(cls, config: ListMemoryConfig) -> Self:  # type: ignore[override]
        return cls(
            name=config.name,
            memory_contents=config.memory_contents,
            session_id=config.session_id,
            target=config.target,
            placement=config.placement or "end",
            template=config.template or "",
        )

    def _to_config(self) -> ListMemoryConfig:  # type: ignore[override]
        return ListMemoryConfig(
            name=self._name,
            memory_contents=self.content,
            target=self._connection.target,
            session_id=self._session_id,
            placement=None if self._placement == "end" else self._placement,
            template=self._template or None,
        )

    async def _read(self) -> list[memory.Content]:
        await self._abegin()
        client = self._connection.async_client()
        try:
            return [r.content for r in (await client.query(self._session_id, "")).results]
        except MemorydError as error:
            if error.reason != "REPLY_TOO_LARGE":
                raise
        return [content async for content in client.get_all_contents(self._session_id)]

    async def _append(self, content: memory.Content) -> None:
        await self._abegin()
        await self._connection.async_client().put(
            self._session_id, contents=[content], **self._made)

    # The session's beginning: made with what it begins with, unless it is there.

    def _begin(self) -> None:
        if self._begun:
            return
        client = self._connection.client()
        first, *others = requests(client, [to_content(item) for item in self._first])
        try:
            client.put(self._session_id, contents=first, expected_revision=0, **self._made)
            for batch in others:
                client.put(self._session_id, contents=batch)
            if self._template:
                self._check(client.get_session(self._session_id))
        except MemorydError as error:
            if error.reason != "REVISION_MISMATCH":
                raise
            self._check(client.get_session(self._session_id))
        self._begun = True

    async def _abegin(self) -> None:
        if self._begun:
            return
        client = self._connection.async_client()
        first, *others = await arequests(client, [to_content(item) for item in self._first])
        try:
            await client.put(
                self._session_id, contents=first, expected_revision=0, **self._made)
            for batch in others:
                await client.put(self._session_id, contents=batch)
            if self._template:
                self._check(await client.get_session(self._session_id))
        except MemorydError as error:
            if error.reason != "REVISION_MISMATCH":
                raise
            self._check(await client.get_session(self._session_id))
        self._begun = True

    def _check(self, session: memory.Session) -> None:
        if session.config.profile != _PROFILE:
            raise ValueError(
                f"session_id: session {self._session_id!r} has profile "
                f"{session.config.profile!r}, a ListMemory needs {_PROFILE!r}"
            )
        self._made = ({"template": session.template} if session.template
                      else {"config": _CONFIG})
