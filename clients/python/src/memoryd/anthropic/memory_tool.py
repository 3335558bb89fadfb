"""Claude's memory tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from memoryd._adapters.connections import connection_of
from memoryd._adapters.names import quoted
from memoryd._adapters.outcomes import ended
from memoryd._connection import Connection
from memoryd._ids import Id, id_text
from memoryd._steps import Steps
from memoryd.anthropic import _commands
from memoryd.anthropic._tree import Tree
from memoryd.v1 import item_service_pb2 as wire


class MemorydMemoryTool(BetaAbstractMemoryTool):
    """Keeps the files of Claude's memory tool in memoryd. Any number of tools and processes may
    share them.

    It answers in the words of the library's own tool, and raises its ToolError. Each command is
    stored whole or not at all, and decided on what is stored: of two that change a file at once,
    the second works on what the first has made.
    """

    def __init__(
        self,
        memory_id: Id,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("anthropic",),
        subject: str = "",
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **options: Any,
    ) -> None:
        """`memory_id` names whose files these are: a user, a project. Tools with the same one
        share them. `target` and `options` are as for memoryd.Client; without `target` the address
        comes from the environment. `namespace` is the path below which the files are.

        `subject` is the user whose data they are; erasing it deletes them. It has to be the same
        for each tool of this memory. `cache_control` is as for the library's tools."""
        super().__init__(cache_control=cache_control)
        self._connection = connection_of(target, options)
        self._tree = _tree_of(namespace, memory_id, subject)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return self._run(_commands.view(self._tree, command))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return self._run(_commands.create(self._tree, command))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return self._run(_commands.str_replace(self._tree, command))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return self._run(_commands.insert(self._tree, command))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return self._run(_commands.delete(self._tree, command))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return self._run(_commands.rename(self._tree, command))

    def clear_all_memory(self) -> str:
        return self._run(_commands.clear_all_memory(self._tree))

    def _run(self, steps: Steps[str]) -> str:
        return self._connection.client._steps(steps)


class AsyncMemorydMemoryTool(BetaAsyncAbstractMemoryTool):
    """MemorydMemoryTool for AsyncAnthropic. A caller that is cancelled learns it after a command
    has ended."""

    def __init__(
        self,
        memory_id: Id,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("anthropic",),
        subject: str = "",
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **options: Any,
    ) -> None:
        """As MemorydMemoryTool."""
        super().__init__(cache_control=cache_control)
        self._connection = connection_of(target, options)
        self._tree = _tree_of(namespace, memory_id, subject)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await self._run(_commands.view(self._tree, command))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await self._run(_commands.create(self._tree, command))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await self._run(_commands.str_replace(self._tree, command))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await self._run(_commands.insert(self._tree, command))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await self._run(_commands.delete(self._tree, command))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await self._run(_commands.rename(self._tree, command))

    async def clear_all_memory(self) -> str:
        return await self._run(_commands.clear_all_memory(self._tree))

    async def _run(self, steps: Steps[str]) -> str:
        return await ended(self._connection.async_client._steps(steps))


def _tree_of(namespace: Sequence[str], memory_id: Id, subject: str) -> Tree:
    path = (*namespace, quoted(id_text(memory_id)))
    return Tree(path, wire.NamespaceConfig(subject=subject) if subject else None)
