"""LlamaIndex' Memory, with its messages in memoryd."""

from __future__ import annotations

import asyncio
import contextvars
import json
import pickle
import time
import uuid
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import grpc
from llama_index.core.base.llms.types import ChatMessage, ContentBlock
from llama_index.core.bridge.pydantic import (
    Field,
    PrivateAttr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from llama_index.core.memory import (
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    InsertMethod,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from llama_index.core.memory import Memory as LibraryMemory
from llama_index.core.memory.memory import (
    DEFAULT_FLUSH_SIZE,
    DEFAULT_MEMORY_BLOCKS_TEMPLATE,
    DEFAULT_TOKEN_LIMIT,
)
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.vector_stores.types import MetadataFilters
from sqlalchemy.ext.asyncio import AsyncEngine

from memoryd import AsyncClient, MemorydError, _channels, _loops
from memoryd._ids import Id, id_text
from memoryd._requests import aor_taken_back
from memoryd.llama_index import _background
from memoryd.llama_index._feeding import BlockError, DetachedBlock, Feeding, wire_name
from memoryd.llama_index._live import (
    LIVE,
    LostTokenizer,
    is_unchanged,
    latest,
    name_of,
    named,
    needs_tokenizer_fn,
    signed,
)
from memoryd.llama_index._rows import Row, Session, chunks, new_row
from memoryd.llama_index._target import Target, default_uri, is_ours
from memoryd.llama_index.chat_store import DEFAULT_TABLE_NAME, ChatStore
from memoryd.v1 import job_service_pb2 as job_wire
from memoryd.v1 import memory_pb2 as memory

Result = TypeVar("Result")

# The longest that the server lets a call take. A put then goes on waiting for its blocks here.
_PUT_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 0.05
# How long no callback may run before the jobs that are open are taken to wait for something else.
_QUIET_SECONDS = 1.0
_ATTEMPTS = 100
_NO_SERVER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
# The largest limit of a session.
_MAX_TOKENS = 2**31 - 1
_INSERT = {
    InsertMethod.SYSTEM: memory.INSERT_METHOD_SYSTEM,
    InsertMethod.USER: memory.INSERT_METHOD_USER,
}


class Memory(LibraryMemory):
    """The library's Memory. With `async_database_uri="memoryd://HOST:PORT"`, or a ChatStore over
    such a URI, its messages are a session of memoryd.

    Without a URI it is that of the environment variable MEMORYD_TARGET. With any other URI, an
    engine or another store it is the library's Memory. `async_database_uri`, `table_name` and
    `db_schema` are arguments of the constructor too, and together with session_id part of a dump.
    So a loaded memory continues with the same session. ChatStore describes them, and how to give
    credentials.

    memoryd flushes messages beyond the limit in the put that causes it, atomically and in one order
    for all writers. It feeds the blocks by durable jobs: a block that fails raises as in the
    library, and is fed again afterwards. Facts of a FactExtractionMemoryBlock are kept in memoryd,
    and the next process has them. Other blocks keep their data where they always do.

    Three faults of the library are not copied. put_messages([]) fails in the database. A
    VectorMemoryBlock that two memories share filters by the session that asked first. `get` writes
    memory into the messages that a block of chat messages owns.
    """

    async_database_uri: str | None = Field(default=None, description="The memoryd, if it is one.")
    table_name: str | None = Field(default=None, description="A space of session ids of its own.")
    db_schema: str | None = Field(default=None, description="A space of session ids of its own.")

    _feeding: Feeding | None = PrivateAttr(default=None)
    _config: memory.SessionConfig | None = PrivateAttr(default=None)
    # The configuration of a session that another framework has begun.
    _begun: memory.SessionConfig | None = PrivateAttr(default=None)
    _loaded: bool = PrivateAttr(default=False)
    _object: str = PrivateAttr(default="")

    @classmethod
    def from_defaults(
        cls,
        session_id: Id | None = None,
        chat_history: list[ChatMessage] | None = None,
        token_limit: int = DEFAULT_TOKEN_LIMIT,
        memory_blocks: list[BaseMemoryBlock[Any]] | None = None,
        tokenizer_fn: Callable[[str], list[Any]] | None = None,
        chat_history_token_ratio: float = 0.7,
        token_flush_size: int = DEFAULT_FLUSH_SIZE,
        memory_blocks_template: RichPromptTemplate = DEFAULT_MEMORY_BLOCKS_TEMPLATE,
        insert_method: InsertMethod = InsertMethod.SYSTEM,
        image_token_size_estimate: int = 256,
        audio_token_size_estimate: int = 256,
        video_token_size_estimate: int = 256,
        chat_store: AsyncDBChatStore | None = None,
        table_name: str = DEFAULT_TABLE_NAME,
        async_database_uri: str | None = None,
        async_engine: AsyncEngine | None = None,
        db_schema: str | None = None,
        **further: Any,
    ) -> Memory:
        """As the library's. `further` are arguments of a later version of it."""
        # Here already: the library takes the number 0 for none.
        session_id = None if session_id is None else id_text(session_id)
        if chat_store is None and async_engine is None:
            async_database_uri = async_database_uri or default_uri()
            if is_ours(async_database_uri):
                chat_store = ChatStore(table_name, async_database_uri, db_schema=db_schema)
        # Set below, when the memory is there to count the tokens.
        ours = _ours(chat_store) is not None
        made = super().from_defaults(
            session_id=session_id,
            chat_history=None if ours else chat_history,
            token_limit=token_limit,
            memory_blocks=memory_blocks,
            tokenizer_fn=tokenizer_fn,
            chat_history_token_ratio=chat_history_token_ratio,
            token_flush_size=token_flush_size,
            memory_blocks_template=memory_blocks_template,
            insert_method=insert_method,
            image_token_size_estimate=image_token_size_estimate,
            audio_token_size_estimate=audio_token_size_estimate,
            video_token_size_estimate=video_token_size_estimate,
            chat_store=chat_store,
            table_name=table_name,
            async_database_uri=async_database_uri,
            async_engine=async_engine,
            db_schema=db_schema,
            **further,
        )
        assert isinstance(made, cls)
        if ours and chat_history is not None:
            made.set(chat_history)
        return made

    @model_validator(mode="before")
    @classmethod
    def _choose_store(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if isinstance(values.get("session_id"), uuid.UUID | int):
            values["session_id"] = id_text(values["session_id"])
        live = values.pop(LIVE, None) or {}
        here = named(live) or (_of_session(values) if live else None)
        uri = values.get("async_database_uri") or default_uri()
        if values.get("sql_store") is None and is_ours(uri):
            values["sql_store"] = ChatStore(
                values.get("table_name") or DEFAULT_TABLE_NAME,
                uri,
                db_schema=values.get("db_schema"),
                needs_credentials=bool(live.get("needs_credentials")),
            )
        if values.get("tokenizer_fn") is None and live.get("needs_tokenizer_fn"):
            values["tokenizer_fn"] = LostTokenizer() if here is None else here.tokenizer_fn
        # What a dump has of them.
        template = values.get("memory_blocks_template")
        if isinstance(template, dict):
            values["memory_blocks_template"] = RichPromptTemplate(template["template_str"])
        if values.get("memory_blocks"):
            # Those of another session know what is none of this one's business.
            known = here.memory_blocks if here is not None and _is_of(here, values) else ()
            blocks = {block.name: block for block in known}
            values["memory_blocks"] = [
                _loaded_block(block, blocks) for block in values["memory_blocks"]]
        return values

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        store = _ours(self.sql_store)
        if store is None:
            self.async_database_uri = self.table_name = self.db_schema = None
            return
        self.async_database_uri = store.async_database_uri
        self.table_name = store.table_name
        self.db_schema = store.db_schema
        store.count_with(self.session_id, self._estimate_token_count)
        assert store.target is not None
        self._object = name_of(self, self._object)
        self._feeding = Feeding(store.target)
        weakref.finalize(self, self._feeding.close)

    def close(self) -> None:
        """Detaches the blocks, as garbage collection does. The next call attaches them again."""
        if self._feeding is not None:
            self._feeding.close()

    # Dump and load.

    @model_serializer(mode="wrap")
    def custom_model_dump(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        for name in ("async_database_uri", "table_name", "db_schema"):
            if data.get(name) is None:
                data.pop(name, None)
        data["class_name"] = self.class_name()
        store = _ours(self.sql_store)
        if store is None:
            return data
        for block, dump in zip(self.memory_blocks, data.get("memory_blocks", ()), strict=False):
            if type(block) is StaticMemoryBlock:
                parts = [part.model_dump(mode="json") for part in block.static_content]
                dump["static_content"] = parts
        self._object = name_of(self, self._object)
        data[LIVE] = {
            "object": self._object,
            "needs_credentials": store.needs_credentials,
            "needs_tokenizer_fn": needs_tokenizer_fn(self),
        }
        return data

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """With memoryd: the configuration as JSON values, see from_dict. Else the library's result,
        which JSON cannot represent."""
        if _ours(self.sql_store) is None:
            return super().to_dict(**kwargs)
        return signed(self.model_dump(**{"mode": "json", **kwargs}))

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Memory:
        """Returns the Memory of a dump.

        In the process of the dumped object it returns that object, or else the process' latest
        Memory of the session. Both have their blocks, credentials and `tokenizer_fn`. It makes a
        new object if the dump was changed, if there is no such Memory, or if `kwargs`, arguments of
        the constructor, are given.

        A new object lacks parts that a dump cannot contain: blocks other than text, a
        `tokenizer_fn`, and credentials given in code. The first use of a missing part raises
        LookupError. Give them in `kwargs`, the credentials as `sql_store`. Blocks and
        `tokenizer_fn` can also be assigned later.
        """
        here = None if kwargs else cls._here(data)
        if here is not None:
            return here
        made: Memory = super().from_dict(data, **kwargs)
        return made

    @classmethod
    def _here(cls, data: dict[str, Any]) -> Memory | None:
        if not is_unchanged(data):
            return None
        here = named(data[LIVE]) or _of_session(data)
        return here if isinstance(here, cls) else None

    def __reduce_ex__(self, protocol: Any) -> Any:
        if _ours(self.sql_store) is None:
            return super().__reduce_ex__(protocol)
        # What can't be pickled is asked for as with a dump, and not left out.
        blocks = [_pickled(block) for block in self.memory_blocks]
        return _unpickled, (type(self), self.to_dict(), blocks, _pickled(self.tokenizer_fn))

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Memory:
        made: Memory = super().__deepcopy__(memo)
        made.model_post_init(None)
        return made

    # What the library's methods ask for.

    async def aput(self, message: ChatMessage) -> None:
        if self._takes_steps():
            return await super().aput(message)
        return await self._put([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        if not messages:
            return None
        if self._takes_steps():
            return await super().aput_messages(messages)
        return await self._put(messages)

    async def _manage_queue(self) -> None:
        store = _ours(self.sql_store)
        if store is None or _takes_steps(store):
            return await super()._manage_queue()
        return await self._put([])

    def _takes_steps(self) -> bool:
        """Whether a put has to take the library's steps, one by one: somebody has replaced one, or
        the messages are not in memoryd, which takes them at once."""
        store = _ours(self.sql_store)
        manage = getattr(self._manage_queue, "__func__", None)
        return store is None or _takes_steps(store) or manage is not _MANAGE_QUEUE

    async def aget(
        self, input: str | ChatMessage | None = None, **block_kwargs: Any
    ) -> list[ChatMessage]:
        if _ours(self.sql_store) is not None:
            self._demand_blocks()
        await self._load()
        messages: list[ChatMessage] = await super().aget(input, **block_kwargs)
        return messages

    async def _get_memory_blocks_content(
        self,
        chat_history: list[ChatMessage],
        input: str | ChatMessage | None = None,
        **block_kwargs: Any,
    ) -> dict[str, Any]:
        asked = self
        if any(isinstance(block, VectorMemoryBlock) for block in self.memory_blocks):
            blocks = [_asked_anew(block) for block in self.memory_blocks]
            asked = self.model_copy(update={"memory_blocks": blocks})
        said: dict[str, Any] = await super(Memory, asked)._get_memory_blocks_content(
            chat_history, input=input, **block_kwargs
        )
        return said

    def _insert_memory_content(
        self,
        chat_history: list[ChatMessage],
        memory_content: list[ContentBlock],
        chat_message_data: list[ChatMessage],
    ) -> list[ChatMessage]:
        # Memory is written into messages; those of a block are not ours to write to.
        messages: list[ChatMessage] = super()._insert_memory_content(
            chat_history, memory_content, [chat.model_copy() for chat in chat_message_data]
        )
        return messages

    # memoryd.

    async def _put(self, chats: Sequence[ChatMessage]) -> None:
        self._demand_blocks()
        store, feeding = self._connected()
        rows = [new_row(chat, self._estimate_token_count) for chat in chats]
        await self._serve()
        with feeding.waiting():
            open_jobs = await _background.done(self._store(store, rows))
            await self._ended(store, open_jobs)

    def _demand_blocks(self) -> None:
        lost = [block.name for block in self.memory_blocks
                if isinstance(block, DetachedBlock) and block.is_lost]
        if lost:
            raise LookupError(
                f"memory_blocks: the Memory of session {self.session_id!r} was loaded from a dump, "
                f"which has not its blocks {', '.join(map(repr, lost))}; make a Memory of the "
                "session with them before, give them to from_dict, or assign memory_blocks"
            )

    async def _store(self, store: ChatStore, rows: list[Row]) -> list[Any]:
        """Puts rows; the jobs that were not done when the server answered."""
        await store._restored()
        client, session_id = _client(store), store.session_id(self.session_id)
        *before, last = await chunks(client, rows)
        # All leave together, by the last put.
        session = Session(client, session_id)
        taken = await session.append([row for chunk in before for row in chunk])
        async with aor_taken_back(client, session_id, taken):
            return await self._put_last(store, last)

    async def _put_last(self, store: ChatStore, rows: list[Row]) -> list[Any]:
        client, session_id = _client(store), store.session_id(self.session_id)
        messages = [row.wire() for row in rows]
        for _ in range(_ATTEMPTS):
            config = self._session_config()
            try:
                if self.memory_blocks:
                    put = client.put(session_id, messages, config=config, timeout=_PUT_SECONDS)
                    reply = await _while_it_answers(put, client, store.target)
                else:
                    reply = await client.put(session_id, messages, config=config)
                return list(reply.open_jobs)
            except MemorydError as error:
                if error.reason != "CONFIG_MISMATCH":
                    raise
            await self._configure(client, session_id)
        raise RuntimeError(f"session {session_id!r} is configured by others all the time")

    async def _ended(self, store: ChatStore, open_jobs: list[Any]) -> None:
        """Returns once the blocks have taken in what a put gave them, as far as they are here;
        raises what one of them raised."""
        assert self._feeding is not None
        client, session_id = _client(store), store.session_id(self.session_id)
        names = {wire_name(block.name): block for block in self.memory_blocks}
        pending = {
            job.job_id
            for job in open_jobs
            if not isinstance(names.get(job.block), (DetachedBlock, type(None)))
        }
        quiet_since = time.monotonic()
        while pending:
            jobs = await _background.done(_open_jobs(client, session_id))
            # In the order in which the library would have met them.
            for job_id in [job.job_id for job in open_jobs]:
                failure = self._feeding.failure(session_id, job_id)
                if failure is not None:
                    raise failure
            failed = [job for job in jobs
                      if job.last_error and not self._feeding.has_taken(session_id, job.job_id)]
            for job in failed:
                if job.job_id in pending:
                    raise BlockError(f"block {job.block!r}: {job.last_error}")
            # What waits behind an earlier failure was told with that.
            behind = {job.block for job in failed}
            pending = {
                job.job_id for job in jobs if job.job_id in pending and job.block not in behind
            }
            if self._feeding.is_working:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > _QUIET_SECONDS:
                return
            if pending:
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def _load(self) -> None:
        """Gives facts blocks what the session has of them."""
        self._leave_to_parent()
        if _ours(self.sql_store) is None:
            return
        if self._loaded:
            await self._refresh()
            return
        if any(isinstance(block, FactExtractionMemoryBlock) for block in self.memory_blocks):
            store, feeding = self._connected()
            client, session_id = _client(store), store.session_id(self.session_id)
            try:
                await _background.done(client.get_session(session_id))
            except MemorydError as error:
                if error.code != grpc.StatusCode.NOT_FOUND:
                    raise
            else:
                await self._serve()
                await _background.done(self._configure(client, session_id))
                with feeding.loading():
                    reply = await _background.done(client.get(session_id))
                for missing in reply.missing_blocks:
                    if missing.block in {wire_name(block.name) for block in self.memory_blocks}:
                        raise BlockError(f"block {missing.block!r}: {missing.reason}")
        self._loaded = True

    async def _refresh(self) -> None:
        """Gives facts blocks what they were fed elsewhere since they were loaded."""
        store, feeding = self._connected()
        if feeding.is_working:
            return  # What comes of it is newer.
        client, session_id = _client(store), store.session_id(self.session_id)
        for block in self.memory_blocks:
            if not isinstance(block, FactExtractionMemoryBlock):
                continue
            try:
                known = await _background.done(client.get_block(session_id, wire_name(block.name)))
            except MemorydError as error:
                if error.code != grpc.StatusCode.NOT_FOUND:
                    raise
                continue
            if known.wire.worker_state:
                feeding.load(block, json.loads(known.wire.worker_state))

    async def _serve(self) -> None:
        store, feeding = self._connected()
        feeding.key = self.session_id
        if not feeding.serves(self.memory_blocks):
            assert store.target is not None
            try:
                # In a context of its own: what the worker starts would keep that of this call, in
                # which an agent has this memory, for as long as it lives.
                await _loops.on_thread(
                    contextvars.Context().run, feeding.serve, self.memory_blocks,
                    store.target.timeout)
            except TimeoutError as error:
                raise MemorydError(grpc.StatusCode.UNAVAILABLE, str(error)) from error

    async def _configure(self, client: AsyncClient, session_id: str) -> None:
        """Gives a session that there is this memory's configuration. One that another framework has
        begun keeps what this memory has no argument for."""
        for _ in range(_ATTEMPTS):
            session = await client.get_session(session_id)
            if self._begun is not None:
                self._begun = session.config
            config = self._session_config(session.config.blocks)
            try:
                await client.update_session(
                    session_id, config, expected_revision=session.revision)
            except MemorydError as error:
                if error.reason == "CONFIG_FIXED" and self._begun is None:
                    self._begun = session.config
                elif error.code != grpc.StatusCode.ABORTED:
                    raise
                continue
            return
        raise RuntimeError(f"session {session_id!r} is written by others all the time")

    def _session_config(
        self, known: Sequence[memory.Block] | None = None
    ) -> memory.SessionConfig:
        """The session's configuration; `known` are the blocks that it has, if they were looked at
        anew."""
        _, feeding = self._connected()
        if known is None:
            known = self._config.blocks if self._config is not None else ()
        limit, ratio = self.token_limit, self.chat_history_token_ratio
        if ratio > 1:
            # The same threshold, as memoryd can have it.
            limit, ratio = int(limit * ratio), 1.0
        # More than a server can have in one session is as good as no limit.
        limit = min(limit, _MAX_TOKENS)
        self._config = memory.SessionConfig(
            profile="llama-index",
            policy="fifo",
            tokenizer="caller",
            token_limit=limit,
            token_flush_size=min(self.token_flush_size, limit),
            chat_history_token_ratio=ratio,
            insert_method=_INSERT[self.insert_method],
            blocks=feeding.configured(self.memory_blocks, known),
        )
        if self._begun is not None:
            self._config = _goes_on(self._begun, self._config)
        return self._config

    def _connected(self) -> tuple[ChatStore, Feeding]:
        store = _ours(self.sql_store)
        assert store is not None and store.target is not None
        if self._feeding is None:  # The store was assigned, or this is a copy.
            self.model_post_init(None)
        self._leave_to_parent()
        assert self._feeding is not None
        return store, self._feeding

    def _leave_to_parent(self) -> None:
        """In the child of a fork: begins as a process of its own would. What serves the blocks is
        in the parent."""
        if self._feeding is not None and self._feeding.process is not _channels.process():
            self._config, self._loaded = None, False
            self.model_post_init(None)


_MANAGE_QUEUE = Memory.__dict__["_manage_queue"]
# What the library asks of a store in a put, as it is here.
_STEPS = {name: ChatStore.__dict__[name]
          for name in ("add_message", "add_messages", "get_messages", "archive_oldest_messages")}


def _goes_on(begun: memory.SessionConfig, own: memory.SessionConfig) -> memory.SessionConfig:
    """A memory's configuration for a session whose profile and tokenizer are fixed."""
    made = memory.SessionConfig()
    made.CopyFrom(begun)
    made.ClearField("blocks")
    made.MergeFrom(own)
    made.profile, made.tokenizer = begun.profile, begun.tokenizer
    return made


def _takes_steps(store: ChatStore) -> bool:
    """Whether somebody has replaced what a put asks of its store."""
    return any(getattr(getattr(store, name), "__func__", None) is not step
               for name, step in _STEPS.items())


def _ours(store: Any) -> ChatStore | None:
    """The store if memoryd is behind it."""
    return store if isinstance(store, ChatStore) and store.client is not None else None


def _client(store: ChatStore) -> AsyncClient:
    assert store.client is not None
    return store.client


async def _while_it_answers(
    call: Coroutine[Any, Any, Result], client: AsyncClient, target: Target | None
) -> Result:
    """What a call comes to that may take longer than a client waits for a server that is gone."""
    assert target is not None
    task = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait([task], timeout=target.timeout / 2))[0]:
            try:
                await client.server_info(timeout=target.timeout / 2)
            except MemorydError as error:
                if error.code in _NO_SERVER:
                    raise
        return task.result()
    finally:
        task.cancel()


async def _open_jobs(client: AsyncClient, session_id: str) -> list[job_wire.Job]:
    return [job async for job in client.list_jobs(session_id, state=job_wire.JOB_STATE_OPEN)]


def _asked_anew(block: BaseMemoryBlock[Any]) -> BaseMemoryBlock[Any]:
    """A block to ask, whose filters asking does not change."""
    if not isinstance(block, VectorMemoryBlock):
        return block
    arguments = dict(block.query_kwargs)
    filters = arguments.get("filters")
    if isinstance(filters, MetadataFilters):
        arguments["filters"] = filters.model_copy(update={"filters": list(filters.filters)})
    return block.model_copy(update={"query_kwargs": arguments})


def _loaded_block(block: Any, known: dict[str, BaseMemoryBlock[Any]]) -> Any:
    if not isinstance(block, dict):
        return block
    if "static_content" in block:
        return StaticMemoryBlock(**block)
    return known.get(block.get("name", "")) or DetachedBlock.lost(block)


def _is_of(memory: Memory, values: dict[str, Any]) -> bool:
    """Whether a memory has the session that a dump names."""
    return (memory.session_id, memory.async_database_uri, memory.table_name, memory.db_schema) == (
        values.get("session_id"), values.get("async_database_uri"),
        values.get("table_name"), values.get("db_schema"))


def _of_session(values: dict[str, Any]) -> Memory | None:
    """This process' latest Memory of the session that a dump names, with all blocks of the dump."""
    names = {block["name"] for block in values.get("memory_blocks", ())
             if isinstance(block, dict) and "static_content" not in block}

    def fits(memory: Any) -> bool:
        return isinstance(memory, Memory) and _is_of(memory, values) and names <= {
            block.name for block in memory.memory_blocks
            if not (isinstance(block, DetachedBlock) and block.is_lost)}

    found: Memory | None = latest(fits)
    return found


def _pickled(part: Any) -> bytes | None:
    """None for what can't be pickled."""
    try:
        return pickle.dumps(part)
    except Exception:
        return None


def _unpickled(
    cls: type[Memory], data: dict[str, Any], blocks: list[bytes | None], tokenizer: bytes | None
) -> Memory:
    here = cls._here(data)
    if here is not None:
        return here
    given: dict[str, Any] = {"memory_blocks": [
        dump if block is None else pickle.loads(block)
        for block, dump in zip(blocks, data["memory_blocks"], strict=True)]}
    if tokenizer is not None:
        given["tokenizer_fn"] = pickle.loads(tokenizer)
    return cls.from_dict(data, **given)
