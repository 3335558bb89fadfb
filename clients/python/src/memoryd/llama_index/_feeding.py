"""How what leaves short-term memory reaches the block objects of a Memory.

memoryd makes a job of each flush and block, stored with the flush, and calls the object back
through a worker. While a put waits for its jobs the callback runs on the event loop of that put,
where the library would have run it; else on one of its own.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import hashlib
import re
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
from llama_index.core.base.llms.types import ChatMessage, ContentBlock, TextBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import (
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    StaticMemoryBlock,
)

import memoryd
from memoryd import _channels
from memoryd._wire_text import without_halves
from memoryd.llama_index._messages import from_chat, to_chat, to_part
from memoryd.llama_index._rows import is_marked
from memoryd.llama_index._target import Target
from memoryd.v1 import memory_pb2 as memory

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Workers of Memory objects are told by it from those of others.
WORKER_PREFIX = "llama-index-"
_REMEMBERED_JOBS = 1000
_PUT_ASIDE = '{"accept_short_term_memory": false}'


class BlockError(Exception):
    """A block that another process serves failed, or nobody serves it.

    No RuntimeError: the library's synchronous methods take that for a fault of the event loop.
    """


class DetachedBlock(BaseMemoryBlock[str]):
    """A block of the session that is not in this process. It says nothing; what it should take in
    waits in memoryd until a Memory of the session has the block again.

    A Memory that was loaded from a dump has one for each block whose models and stores the dump
    can't have, and refuses to work with them. Who wants to do without these blocks gives his own.
    """

    _is_lost: bool = PrivateAttr(default=False)

    @classmethod
    def lost(cls, dump: dict[str, Any]) -> DetachedBlock:
        """Stands for a block of which there is a dump only."""
        made = cls(**dump)
        made._is_lost = True
        return made

    @property
    def is_lost(self) -> bool:
        """Whether a dump made it, and nobody decided to do without the block."""
        return self._is_lost

    async def _aget(
        self, messages: list[ChatMessage] | None = None, **block_kwargs: Any
    ) -> str:
        return ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        raise BlockError(f"block {self.name!r} is not attached")


def wire_name(name: str) -> str:
    """The name of a block in memoryd, which takes fewer characters."""
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{re.sub('[^A-Za-z0-9_-]', '_', name)[:47]}-{digest}"


class _Latest(collections.OrderedDict[tuple[str, str], Any]):
    """What became of the latest jobs."""

    def __setitem__(self, job: tuple[str, str], outcome: Any) -> None:
        super().__setitem__(job, outcome)
        while len(self) > _REMEMBERED_JOBS:
            self.popitem(last=False)


class Feeding:
    """Serves the block objects of one Memory."""

    def __init__(self, target: Target) -> None:
        self.worker_name = f"{WORKER_PREFIX}{uuid.uuid4().hex}"
        self._target = target
        # That which it serves in; the child of a fork has to make its own.
        self.process = _channels.process()
        # Held while a worker attaches or goes, and its last callbacks end.
        self._attaching = threading.RLock()
        self._lock = threading.Lock()
        self._worker: memoryd.Worker | None = None
        self._served: list[BaseMemoryBlock[Any]] = []
        self._loops: list[asyncio.AbstractEventLoop] = []
        # What jobs came to; a job may be called again, though its block has taken it in.
        self._ended = _Latest()
        self._failures = _Latest()
        self._stored: dict[str, Any] = {}
        # The Memory's session_id, which its blocks are told.
        self.key = ""
        # Puts whose block is at work, perhaps for longer than the server waits for one attempt.
        self._at_work: dict[tuple[str, str], concurrent.futures.Future[Any]] = {}
        self.is_loading = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Feeding:
        # The copy of a Memory makes its own.
        return self

    # Configuration.

    def configured(
        self, blocks: Sequence[BaseMemoryBlock[Any]], known: Sequence[memory.Block] = ()
    ) -> list[memory.Block]:
        """The blocks as memoryd is to have them. Of those that a session has besides, it goes on to
        keep what they know, and they take nothing in."""
        made = [_static(block) or self._worker_block(block, known) for block in blocks]
        names = {block.name for block in made}
        for other in known:
            if other.name not in names and other.worker.startswith(WORKER_PREFIX):
                aside = memory.Block()
                aside.CopyFrom(other)
                aside.options_json = _PUT_ASIDE
                made.append(aside)
        return made

    def _worker_block(
        self, block: BaseMemoryBlock[Any], known: Sequence[memory.Block]
    ) -> memory.Block:
        name = wire_name(block.name)
        if isinstance(block, DetachedBlock):
            for other in known:
                if other.name == name:
                    return other
        return memory.Block(
            name=name,
            kind="worker",
            priority=max(block.priority, 0),
            worker=self.worker_name,
            options_json="" if block.accept_short_term_memory else _PUT_ASIDE,
        )

    # Life.

    def serves(self, blocks: Sequence[BaseMemoryBlock[Any]]) -> bool:
        """Whether a worker serves just these blocks, or none of them needs one."""
        with self._lock:
            return self._same(_worker_blocks(blocks))

    def _same(self, serving: list[BaseMemoryBlock[Any]]) -> bool:
        return [id(block) for block in serving] == [id(block) for block in self._served]

    def serve(self, blocks: Sequence[BaseMemoryBlock[Any]], timeout: float) -> None:
        """Attaches a worker for the blocks, unless one serves just them; the caller waits.
        TimeoutError after `timeout` seconds without a server."""
        serving = _worker_blocks(blocks)
        with self._attaching:
            if self._same(serving):
                return
            if self._worker is not None:
                self._worker.close()
                self._worker = None
            if serving:
                worker = memoryd.Worker(
                    self._target.address,
                    name=self.worker_name,
                    blocks=[_Served(self, block) for block in serving],
                    **self._target.options(),
                )
                worker.start(timeout)
                self._worker = worker
            with self._lock:
                self._served = serving

    def close(self) -> None:
        """Detaches; jobs that come wait for the session's next Memory. Does nothing in the child of
        a fork, whose parent goes on to serve."""
        if self.process is not _channels.process():
            return
        with self._attaching:
            worker, self._worker = self._worker, None
            with self._lock:
                self._served = []
            if worker is not None:
                worker.close()

    # The caller's event loop.

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While it lasts callbacks run on the caller's event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._loops.append(loop)
        try:
            yield
        finally:
            with self._lock:
                self._loops.remove(loop)

    @property
    def is_working(self) -> bool:
        """Whether a block is being fed."""
        with self._lock:
            return bool(self._at_work)

    def has_taken(self, session_id: str, job_id: str) -> bool:
        """Whether the job's block is at work on it or done, whatever became of an attempt that the
        server did not wait for."""
        job = (session_id, job_id)
        with self._lock:
            return job in self._at_work or job in self._ended

    def failure(self, session_id: str, job_id: str) -> BaseException | None:
        """What the latest attempt of a job raised here, to be told once."""
        with self._lock:
            failure: BaseException | None = self._failures.pop((session_id, job_id), None)
            return failure

    def run(self, work: Any, seconds: float) -> Any:
        """What a coroutine function comes to, on the loop of whoever waits; blocks."""
        with self._lock:
            loop = self._loops[-1] if self._loops else None
        if loop is None:
            return asyncio.run(work())
        future = asyncio.run_coroutine_threadsafe(work(), loop)
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise

    @contextmanager
    def loading(self) -> Iterator[None]:
        """While it lasts blocks that memoryd asks say nothing: they only learn what they knew."""
        self.is_loading = True
        try:
            yield
        finally:
            self.is_loading = False

    # Jobs.

    def put(self, block: BaseMemoryBlock[Any], chats: list[ChatMessage], state: Any) -> Any:
        """Feeds the block and returns its state. A block that takes longer than the server waits
        goes on; the job's next attempt waits for the same work, so that nothing is asked twice."""
        call = memoryd.current_call()
        job = (call.session_id, call.job_id)
        with self._lock:
            if job in self._ended:
                return self._ended[job]
            work = self._at_work.get(job)
            begins = work is None
            if work is None:
                work = self._at_work[job] = concurrent.futures.Future()
        if begins:
            self._begin(job, block, chats, state)
        try:
            return work.result(call.timeout.ToTimedelta().total_seconds())
        except concurrent.futures.TimeoutError:
            if work.done():
                raise  # It is the block's.
            raise memoryd.MemorydError(
                grpc.StatusCode.DEADLINE_EXCEEDED, "the block is still at work") from None

    def _begin(
        self,
        job: tuple[str, str],
        block: BaseMemoryBlock[Any],
        chats: list[ChatMessage],
        state: Any,
    ) -> None:
        session_id = self.key

        async def feed() -> None:
            await block.aput(chats, from_short_term_memory=True, session_id=session_id)

        def end(fed: concurrent.futures.Future[None]) -> None:
            try:
                fed.result()
                said = _state_of(block)
            except BaseException as failure:
                with self._lock:
                    self._failures[job] = failure
                    work = self._at_work.pop(job)
                work.set_exception(failure)
                return
            with self._lock:
                self._stored[block.name] = said
                self._ended[job] = said
                work = self._at_work.pop(job)
            work.set_result(said)

        fed: concurrent.futures.Future[None] = concurrent.futures.Future()
        try:
            self.load(block, state)
            with self._lock:
                loop = self._loops[-1] if self._loops else None
            if loop is None:
                fed.set_result(asyncio.run(feed()))
            else:
                fed = asyncio.run_coroutine_threadsafe(feed(), loop)
        except BaseException as failure:
            fed.set_exception(failure)
        fed.add_done_callback(end)

    def load(self, block: BaseMemoryBlock[Any], state: Any) -> None:
        """Gives the block what memoryd has of it, when that is not what it last gave memoryd."""
        with self._lock:
            if state is None or self._stored.get(block.name) == state:
                return
            self._stored[block.name] = state
        if isinstance(block, FactExtractionMemoryBlock):
            block.facts = list(state["facts"])


class _Served(memoryd.Block):
    """A block object as a block of a worker."""

    def __init__(self, feeding: Feeding, block: BaseMemoryBlock[Any]) -> None:
        self.name = wire_name(block.name)
        self._feeding = feeding
        self._block = block

    def put(self, messages: Sequence[memory.Message], state: Any) -> Any:
        chats = [to_chat(message) for message in messages if not is_marked(message)]
        return self._feeding.put(self._block, chats, state)

    def get(self, messages: Sequence[memory.Message], state: Any) -> Any:
        call = memoryd.current_call()
        self._feeding.load(self._block, state)
        if self._feeding.is_loading:
            return None
        chats = [to_chat(message) for message in messages if not is_marked(message)]

        async def ask() -> Any:
            return await self._block.aget(chats, session_id=self._feeding.key)

        return _said(self._feeding.run(ask, call.timeout.ToTimedelta().total_seconds()))

    def truncate(self, content: Any, tokens: int) -> Any:
        call = memoryd.current_call()

        async def cut() -> Any:
            return await self._block.atruncate(_content(content), tokens)

        return _said(self._feeding.run(cut, call.timeout.ToTimedelta().total_seconds()))


def _worker_blocks(blocks: Sequence[BaseMemoryBlock[Any]]) -> list[BaseMemoryBlock[Any]]:
    """Those that only this process can serve."""
    return [
        block
        for block in blocks
        if _static(block) is None and not isinstance(block, DetachedBlock)
    ]


def _static(block: BaseMemoryBlock[Any]) -> memory.Block | None:
    """The block as one that memoryd itself serves, where that is possible."""
    if type(block) is not StaticMemoryBlock:
        return None
    texts = [part.text for part in block.static_content if isinstance(part, TextBlock)]
    if len(texts) < len(block.static_content):
        return None
    return memory.Block(
        name=wire_name(block.name),
        kind="static",
        priority=max(block.priority, 0),
        content=[memory.Part(text=without_halves(text)[0]) for text in texts],
    )


def _state_of(block: BaseMemoryBlock[Any]) -> Any:
    """What of the block has to outlive the process; None for nothing."""
    if isinstance(block, FactExtractionMemoryBlock):
        return {"facts": list(block.facts)}
    return None


def _said(content: Any) -> Any:
    """What a block object said, as a worker says it."""
    if not content:
        return content
    if isinstance(content, str):
        return without_halves(content)[0]
    return [
        from_chat(item)
        if isinstance(item, ChatMessage)
        else to_part(item.model_dump(mode="json"))
        for item in content
    ]


def _content(content: Any) -> Any:
    """What a worker said, as the block object had said it."""
    if content.messages:
        return [to_chat(message) for message in content.messages]
    if len(content.parts) == 1 and content.parts[0].WhichOneof("kind") == "text":
        return content.parts[0].text
    chat = to_chat(memory.Message(role="user", parts=content.parts))
    blocks: list[ContentBlock] = list(chat.blocks)
    return blocks
