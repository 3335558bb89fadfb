"""LangGraph's checkpointer."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoryd._connection import Connection
from memoryd.langgraph._checkpoint_steps import Apart, CheckpointSteps, Listing


class MemorydSaver(BaseCheckpointSaver[str]):
    """Keeps the checkpoints of threads in memoryd.

    A checkpoint is stored whole or not at all, and costs what has changed: a channel's value of
    more than 4 KiB is stored once for each version. Values of more than 32 MiB are refused. All
    methods may be called again after an error.

    `prune` and `delete_for_runs` must not run while a graph runs on the same thread.
    """

    def __init__(
        self,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("langgraph",),
        serde: SerializerProtocol | None = None,
        **options: Any,
    ) -> None:
        """`target` and `options` are as for memoryd.Client; without `target` the address comes from
        the environment. `namespace` is the path below which the items are."""
        super().__init__(serde=serde)
        self._connection = (
            target if isinstance(target, Connection) else Connection(target, **options))
        self._namespace = tuple(namespace)
        self._apart = Apart()

    @property
    def _steps(self) -> CheckpointSteps:
        # A clone of this object may have another serde.
        return CheckpointSteps(self._namespace, self.serde, self._apart)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._connection.client._steps(self._steps.get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._connection.async_client._steps(self._steps.get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        listing = Listing(self._steps, config, filter, before, limit)
        while page := self._connection.client._steps(listing.page()):
            yield from page

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        listing = Listing(self._steps, config, filter, before, limit)
        while page := await self._connection.async_client._steps(listing.page()):
            for one in page:
                yield one

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._connection.client._steps(
            self._steps.put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._connection.async_client._steps(
            self._steps.put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self._connection.client._steps(
            self._steps.put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._connection.async_client._steps(
            self._steps.put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        self._connection.client._steps(self._steps.delete_thread(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._connection.async_client._steps(self._steps.delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._connection.client._steps(self._steps.delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._connection.async_client._steps(self._steps.delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._connection.client._steps(
            self._steps.copy_thread(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._connection.async_client._steps(
            self._steps.copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._connection.client._steps(self._steps.prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._connection.async_client._steps(self._steps.prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self._connection.client._steps(self._steps.delta_history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._connection.async_client._steps(
            self._steps.delta_history(config, channels))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Returns a version after `current`. Two branches of a thread that go on from the same one
        get different versions."""
        number = int(str(current).split(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{random.random():016}"
