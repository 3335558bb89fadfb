"""memoryd.pydantic_ai against the server, beside Pydantic AI's own store in memory."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessagesTypeAdapter, ToolCallPart
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RunUsage

from support.agents.pydantic_messages import MessageTeller

from memoryd.pydantic_ai import MemorydConversationStore

OPERATIONS = 2400
SEEDS = 8
CONVERSATIONS = 4
# As the stores tell a caller that what it asks for can't be.
REFUSALS = (ConversationConflict, UserError, LookupError)


def plain(messages: Any) -> list[Any]:
    """Messages as their library dumps them: it compares less than that."""
    return ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")


class Side:
    """A store, and what the callers of it hold."""

    def __init__(self, store: Any, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.held: dict[str, Conversation] = {}

    async def entries(self, name: str) -> list[Any]:
        """The ids of a conversation's entries, which differ from store to store."""
        return [one.id for one in await self.store.load_entries(self.prefix + name) or []]

    async def branches(self, name: str) -> list[str]:
        record = await self.store.read_record(self.prefix + name)
        return record.branches if record is not None else []


class Operations:
    """Operations that choose alike for every side. Each returns what the caller sees."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.choices = random.Random(seed)
        self.teller = MessageTeller(seed)
        self.names = [f"c{at}" for at in range(CONVERSATIONS)]

    def next(self) -> Callable[[Side], Any]:
        kinds = {self.load: 8, self.save: 10, self.new: 1, self.rewrite: 2, self.branch: 3,
                 self.branch_back: 2, self.fork: 2, self.listed: 2, self.delete: 1, self.entry: 3}
        (made,) = self.choices.choices([*kinds], [*kinds.values()])
        return made()

    def name(self) -> str:
        return self.choices.choice(self.names)

    def scope(self) -> str | None:
        return self.choices.choice((None,) * 8 + ("ann", "bob"))

    def usage(self) -> RunUsage:
        return RunUsage(requests=self.choices.randrange(9), input_tokens=3)

    def deferred(self) -> DeferredToolRequests | None:
        if self.choices.random() < 0.7:
            return None
        return DeferredToolRequests(
            approvals=[ToolCallPart("t", {"a": 1}, "c")], metadata={"c": {"why": ["x"]}})

    def messages(self) -> list[Any]:
        return [self.teller.message() for _ in range(self.choices.choice((0, 1, 2, 2, 5)))]

    def load(self):
        name, limit, scope = self.name(), self.choices.choice((None, None, 0, 1, 3)), self.scope()

        async def run(side: Side) -> Any:
            found = await side.store.load(side.prefix + name, limit=limit, scope=scope)
            if found is None:
                return None
            if self.keeps(name):
                side.held[name] = found
            return plain(found.messages), found.usage, found.deferred_tool_requests

        return run

    def keeps(self, name: str) -> bool:
        return name != "c0"  # Whose callers hold what is old by now.

    def save(self):
        name, added, usage = self.name(), self.messages(), self.usage()
        deferred, scope = self.deferred(), self.scope()

        async def run(side: Side) -> Any:
            conversation = side.held.get(name)
            if conversation is None:
                conversation = side.held[name] = Conversation(
                    conversation_id=side.prefix + name)
            kept = list(conversation.messages)
            conversation.messages = [*kept, *added]
            conversation.usage, conversation.deferred_tool_requests = usage, deferred
            try:
                entries = await side.store.save(conversation, scope=scope)
            except ConversationConflict:
                conversation.messages = kept
                found = await side.store.load(side.prefix + name)
                if found is not None and self.keeps(name):
                    side.held[name] = found
                raise
            return plain(one.message for one in entries)

        return run

    def new(self):
        name = self.name()

        async def run(side: Side) -> Any:
            side.held.pop(name, None)

        return run

    def rewrite(self):
        name, at, added = self.name(), self.choices.randrange(4), self.messages()

        async def run(side: Side) -> Any:
            conversation = side.held.get(name)
            if conversation is None:
                return None
            conversation.messages = [*conversation.messages[:at], *added]
            entries = await side.store.save(conversation)
            return plain(one.message for one in entries)

        return run

    def branch(self):
        name, at, scope = self.name(), self.choices.randrange(6), self.scope()

        async def run(side: Side) -> Any:
            held = side.held.get(name)
            made = await side.store.branch(
                side.prefix + name, at=at, scope=scope,
                expected_revision=held.revision if held else None)
            side.held[name] = made
            return plain(made.messages), made.usage, made.deferred_tool_requests

        return run

    def branch_back(self):
        name, which, at = self.name(), self.choices.randrange(3), self.choices.randrange(5)

        async def run(side: Side) -> Any:
            held, tips = side.held.get(name), await side.branches(name)
            if not tips:
                return None
            line = await side.store.read_history(tips[which % len(tips)])
            made = await side.store.branch(
                side.prefix + name, from_entry=line[at % len(line)].id,
                expected_revision=held.revision if held else None)
            side.held[name] = made
            return plain(made.messages)

        return run

    def fork(self):
        name, other, at = self.name(), self.name(), self.choices.choice((None, None, 0, 1, 3))
        scope, source_scope = self.scope(), self.scope()

        async def run(side: Side) -> Any:
            made = await side.store.fork(
                side.prefix + name, at=at, new_conversation_id=side.prefix + other, scope=scope,
                source_scope=source_scope)
            side.held[other] = made
            record = await side.store.read_record(side.prefix + other)
            assert record.forked_from == side.prefix + name
            return plain(made.messages), made.usage, record.scope, len(record.branches)

        return run

    def listed(self):
        scope, limit = self.scope(), self.choices.choice((None, 0, 1, 2))

        async def run(side: Side) -> Any:
            found = await side.store.list_conversations(scope=scope, limit=limit)
            return [(one.conversation_id.removeprefix(side.prefix), one.scope, one.usage,
                     one.deferred_tool_requests, len(one.branches), one.head_id is None,
                     (one.forked_from or "").removeprefix(side.prefix)) for one in found]

        return run

    def delete(self):
        name, scope = self.name(), self.scope()

        async def run(side: Side) -> Any:
            await side.store.delete(side.prefix + name, scope=scope)
            assert scope is not None or await side.store.load(side.prefix + name) is None

        return run

    def entry(self):
        name, at = self.name(), self.choices.randrange(8)

        async def run(side: Side) -> Any:
            ids = await side.entries(name)
            if not ids:
                return None
            entry = await side.store.read_entry(ids[at % len(ids)])
            assert (entry.parent_id is None) == (at % len(ids) == 0)
            return plain([entry.message])

        return run


async def outcome(operation: Callable[[Side], Any], side: Side) -> Any:
    try:
        return await operation(side)
    except REFUSALS as error:
        return type(error)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_operations_do_what_they_do_in_memory(server, seed):
    async def run() -> None:
        prefix = uuid.uuid4().hex
        theirs = Side(InMemoryConversationStore(), prefix)
        ours = Side(MemorydConversationStore(
            server.target, namespace=("tests", prefix), timeout=60.0), prefix)
        operations = Operations(seed)
        seen = set()
        for _ in range(OPERATIONS // SEEDS):
            operation = operations.next()
            expected = await outcome(operation, theirs)
            assert await outcome(operation, ours) == expected, operation
            seen.add(expected if isinstance(expected, type) else operation.__qualname__)
        assert len(seen) > 10

    asyncio.run(run())
