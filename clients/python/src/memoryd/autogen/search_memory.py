"""SearchMemory: contents that are found by their words."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import grpc
from autogen_core import CancellationToken, Component
from autogen_core.memory import (
    Memory,
    MemoryContent,
    MemoryMimeType,
    MemoryQueryResult,
    UpdateContextResult,
)
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import LLMMessage, SystemMessage, UserMessage
from pydantic import BaseModel
from typing_extensions import Self

from memoryd._ids import Id, id_text
from memoryd._made import amake
from memoryd._wire_text import dumps, without_halves
from memoryd.autogen._placement import Placement, checked, put_to_front
from memoryd.autogen._plain import plain
from memoryd.autogen.connection import Connection, cancellable
from memoryd.autogen.contents import from_content, to_content
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire

_HEADING = "From memory, the most fitting first:"
_LARGEST_QUERY_BYTES = 64 * 1024
# What is inserted unasked and has no word of the question is like it at least so much.
_MUCH_ALIKE = 0.3


class SearchMemoryConfig(BaseModel):
    """The configuration from which a SearchMemory is loaded again."""

    name: str | None = None
    target: str | None = None
    session_id: str | None = None
    top_k: int = 5
    placement: Placement = "front"
    template: str | None = None


class SearchMemory(Memory, Component[SearchMemoryConfig]):
    """Contents and messages of a session, found by their words.

    Other clients may write to the same session. It may have any profile except `autogen-list`,
    which does not search. Without `session_id` the memory has a new session of its own. The
    metadata of a result has a `score` in addition: 1 for the best result, comparable within one
    answer. The metadata of a message also has its `role`.
    """

    component_type = "memory"
    component_provider_override = "memoryd.autogen.SearchMemory"
    component_config_schema = SearchMemoryConfig

    def __init__(
        self,
        name: str | None = None,
        *,
        top_k: int = 5,
        placement: Placement = "front",
        session_id: Id | None = None,
        template: str = "",
        target: str | None = None,
        timeout: float = 10.0,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str] | None = None,
    ) -> None:
        """`top_k` is the most results.

        `placement` is where a context gets the results. "front": after the leading system messages,
        in place of the last results, as AutoGen's client for Anthropic requires. "end": as one more
        message with each question. A context that shows only its newest messages shows results at
        the front until its next message.

        `template` names a configuration on the server for a session that this object creates. An
        existing session keeps its own. The other arguments are as for ListMemory.
        """
        self._name = name or "default_search_memory"
        self._top_k = top_k
        self._placement: Placement = checked(placement)
        # The number 0 is an id.
        given = "" if session_id is None else id_text(session_id)
        self._session_id = given or f"autogen-{uuid.uuid4().hex}"
        self._template = template
        self._is_made = not template
        self._connection = Connection(target, timeout, credentials, token)

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

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Inserts a system message with the results for the last user message, if there are any,
        as `placement` says. At the end it is not inserted if the context has the same message
        already."""
        messages = await model_context.get_messages()
        found = await self.query(_question(messages))
        lines = [f"{i}. {_text(item)}" for i, item in enumerate(found.results, 1)]
        text = "\n".join([_HEADING, *lines]) if lines else None
        if self._placement == "front":
            await put_to_front(self, model_context, text, _HEADING)
        elif text is not None and SystemMessage(content=text) not in messages:
            await model_context.add_message(SystemMessage(content=text))
        return UpdateContextResult(memories=found)

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """Returns the results for the query, the best first. `top_k` may be given here too.

        Raises TypeError for a content without text: bytes or an image.
        """
        text = _query_text(query)
        top_k = kwargs.get("top_k", self._top_k)
        if not text.strip():
            return MemoryQueryResult(results=[])
        client = self._connection.async_client()
        reply = await cancellable(
            client.query(self._session_id, text, top_k=top_k, vector_threshold=_MUCH_ALIKE),
            cancellation_token)
        return MemoryQueryResult(results=[self._result(result) for result in reply.results])

    async def add(
        self, content: MemoryContent, cancellation_token: CancellationToken | None = None
    ) -> None:
        """Stores a content, durably; Query finds it at once. If the call is cancelled, the content
        may be stored or not."""
        await cancellable(self._append(to_content(content)), cancellation_token)

    async def clear(self) -> None:
        """Removes all contents, and everything else in the session."""
        await self._connection.async_client().reset(
            self._session_id, wire.RESET_SCOPE_EVERYTHING)

    async def close(self) -> None:
        """Closes the connection. The contents stay, and a later call connects again."""
        await self._connection.close()

    @classmethod
    def _from_config(cls, config: SearchMemoryConfig) -> Self:
        return cls(config.name, top_k=config.top_k, placement=config.placement,
                   session_id=config.session_id, template=config.template or "",
                   target=config.target)

    def _to_config(self) -> SearchMemoryConfig:
        return SearchMemoryConfig(
            name=self._name,
            target=self._connection.target,
            session_id=self._session_id,
            top_k=self._top_k,
            placement=self._placement,
            template=self._template or None,
        )

    async def _append(self, content: memory.Content) -> None:
        client = self._connection.async_client()
        if not self._is_made:
            await amake(client, self._session_id, self._template)
            self._is_made = True
        await client.put(self._session_id, contents=[content])

    def _result(self, result: wire.QueryResult) -> MemoryContent:
        if result.score == 0:
            raise ValueError(
                f"session_id: session {self._session_id!r} has profile 'autogen-list', which does "
                "not search")
        kind = result.WhichOneof("item")
        if kind == "content":
            found = from_content(result.content)
        elif kind == "block_item":
            item = result.block_item
            known = {"fact": item.fact.text, "text": item.text,
                     "entity": f"{item.entity.name}: {item.entity.text}"}
            found = MemoryContent(content=known[item.WhichOneof("item") or "text"],
                                  mime_type=MemoryMimeType.TEXT, metadata={"block": item.block})
        else:
            message = result.message
            texts = [message.text] if message.HasField("text") else [
                part.text or part.tool_result.text for part in message.parts
                if part.HasField("text") or part.tool_result.text]
            metadata = json.loads(message.metadata_json) if message.metadata_json else {}
            found = MemoryContent(content="\n".join(texts), mime_type=MemoryMimeType.TEXT,
                                  metadata={**metadata, "role": message.role})
        found.metadata = {**(found.metadata or {}), "score": result.score}
        return found


def _question(messages: list[LLMMessage]) -> str:
    """The text of the last user message, as much as a query may have."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            parts = [message.content] if isinstance(message.content, str) else message.content
            text = "\n".join(without_halves(part)[0] for part in parts if isinstance(part, str))
            return text.encode()[:_LARGEST_QUERY_BYTES].decode(errors="ignore")
    return ""


def _query_text(query: str | MemoryContent) -> str:
    value = query if isinstance(query, str) else query.content
    if isinstance(value, str):
        return without_halves(value)[0]
    if isinstance(value, dict):
        return _dict_text(value)
    raise TypeError(f"query: a content of {type(value).__name__} has no text to search by")


def _text(item: MemoryContent) -> str:
    """What a model is shown of a content."""
    value = item.content
    if isinstance(value, dict):
        return _dict_text(value)
    return value if isinstance(value, str) else f"<{type(value).__name__.lower()}>"


def _dict_text(value: dict[str, Any]) -> str:
    return dumps(plain(value, "content")[0])
