"""Many turns through an agent of each framework, over processes, forks and restarts of the server:
all that its model is sent, its answers and its history are as with the library's own memory.

200 turns; MEMORYD_TEST_TURNS=300 has all, and takes twice as long.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from support import paths
from support.agents.model import AgentModel
from support.agents.process import CONVERSATIONS
from support.agents.rules import violations
from support.agents.script import TURNS, script
from support.server import Server, reserved_port

# First turn, one behind the last, and whether a fork has them, for each process.
PROCESSES = [parts for parts in (
    [(0, 40, False), (40, 60, True), (60, 100, False)],
    [(100, 120, False), (120, 140, True), (140, 160, True), (160, 200, False)],
    [(200, 260, False), (260, 280, True), (280, 300, False)],
) if parts[-1][1] <= TURNS]
# Of one process, in parts of the same agents.
AT_ONCE = [(first, end, False) for part in PROCESSES for first, end, _ in part]


@dataclasses.dataclass
class Seen:
    """What a conversation came to."""

    said: list[list[str]]
    history: Any
    requests: list[dict[str, Any]]


def converse(framework: str, target: str | None, processes: Sequence[Sequence],
             before: Mapping[int, Callable[[], object]] | None = None,
             between: Callable[[], object] = lambda: None) -> Seen:
    source = paths.REPOSITORY / "clients/python/src"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
        [str(source), str(paths.REPOSITORY / "tests"), *os.environ.get("PYTHONPATH", "").split(
            os.pathsep)])}
    said: list[list[str]] = []
    with AgentModel(script(), before) as model, tempfile.TemporaryDirectory() as folder:
        place = json.dumps({"session_id": "long", "target": target, "folder": folder,
                            "model": model.url})
        for number, parts in enumerate(processes):
            if number > 0:
                between()
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", "support.agents.process", framework, place,
                 json.dumps(parts)],
                env=environment, capture_output=True, text=True, timeout=900, check=False)
            assert done.returncode == 0, done.stderr[-5000:]
            ended = json.loads(done.stdout)
            said += ended["said"]
        return Seen(said, ended["history"], model.requests)


@functools.cache
def by_the_library(framework: str) -> Seen:
    seen = converse(framework, None, [AT_ONCE])
    # Each question has the answer that the script has for it.
    assert [said[-1] for said in seen.said] == [turn.replies[-1].text for turn in script()]
    return seen


def without_random_ids(history: Any) -> Any:
    return json.loads(re.sub(r"(lc_run-|run-)-?[0-9a-f-]{36}", r"\1", json.dumps(history)))


# The library's conversation is held once for both stores.
@pytest.mark.parametrize("framework", [
    pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in CONVERSATIONS])
def test_many_turns_are_as_with_the_librarys_own_memory(store, framework):
    wanted = by_the_library(framework)
    with reserved_port() as port:
        servers = [Server(store, listen=f"127.0.0.1:{port}")]

        def restart(end: Callable[[Server], object] = Server.stop) -> None:
            end(servers[-1])
            servers.append(Server(store, listen=f"127.0.0.1:{port}"))

        try:
            # While the agents of a process, and of a fork, wait for their model.
            before = {25: restart, 50: lambda: restart(Server.kill), 150: restart,
                      230: lambda: restart(Server.kill)}
            before = {turn: end for turn, end in before.items() if turn < TURNS}
            found = converse(framework, servers[0].target, PROCESSES, before, restart)
        finally:
            servers[-1].kill()
    assert len(servers) == len(PROCESSES) + len(before)
    for theirs, ours in itertools.zip_longest(wanted.requests, found.requests):
        assert ours == theirs
        assert list(violations(ours["messages"])) == []
    assert found.said == wanted.said
    assert without_random_ids(found.history) == without_random_ids(wanted.history)
