"""memoryd.openai_agents against the server, beside the SDK's own session in SQLite."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
from typing import Any

import pytest
from agents import SQLiteSession

from support import paths
from support.agents.openai_items import ItemTeller
from support.server import Server

from memoryd import Client
from memoryd.openai_agents import MemorydSession

OPERATIONS = 2400
SEEDS = 8
EXAMPLE = paths.REPOSITORY / "examples/openai_agents_agent.py"
SOURCE = str(paths.REPOSITORY / "clients/python/src")
SAID = [
    "My name is Ann. -> Hello!",
    "Tea, please. -> Here: one pot of tea.",
    "What was my name, and what did I drink? -> You said 'My name is Ann.', and had one pot of tea.",
]
CONVERSATION = ["user", "assistant", "user", "function_call", "function_call_output", "assistant",
                "user", "assistant"]


def text_of(value: Any) -> str:
    """JSON, in which the order of keys and 1 and 1.0 differ; pairs of halves are one character."""
    return json.dumps(value, ensure_ascii=False).encode(
        "utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_operations_do_what_they_do_in_sqlite(server, session_id, tmp_path, seed):
    choices = random.Random(seed)
    teller = ItemTeller(seed)

    async def run() -> None:
        theirs = SQLiteSession(session_id, tmp_path / "theirs.db")
        ours = MemorydSession(session_id, server.target, timeout=60.0)
        for _ in range(OPERATIONS // SEEDS):
            what = choices.random()
            if what < 0.45:
                items = [teller.item() for _ in range(choices.choice((0, 1, 1, 2, 5)))]
                await theirs.add_items(items)
                await ours.add_items(items)
            elif what < 0.7:
                for _ in range(choices.choice((1, 1, 2, 6))):
                    assert text_of(await ours.pop_item()) == text_of(await theirs.pop_item())
            elif what < 0.99:
                limit = choices.choice((None, 0, 1, 2, 3, 5, 10, 100, -1))
                assert text_of(await ours.get_items(limit)) == text_of(
                    await theirs.get_items(limit))
            else:
                await theirs.clear_session()
                await ours.clear_session()
        assert text_of(await ours.get_items()) == text_of(await theirs.get_items())

    asyncio.run(run())


def test_the_example_goes_on_after_it_was_killed(server):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), server.target], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": SOURCE}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SAID
    Client(server.target).delete_session("waiter")


def test_the_example_goes_on_wherever_it_is_killed(store, killed_and_again):
    """Nothing is lost, doubled or orphaned before one and after the next of its calls."""
    with Server(store) as server, Client(server.target) as client:
        for first, second in killed_and_again(EXAMPLE, server.target, calls=itertools.count(1)):
            items = asyncio.run(MemorydSession("waiter", server.target).get_items())
            assert [item.get("role") or item["type"] for item in items] == CONVERSATION
            # An answer that was stored right before the kill is not told again.
            told = first + second
            assert told == sorted({*told}, key=SAID.index) and len(told) >= len(SAID) - 1
            client.delete_session("waiter")
