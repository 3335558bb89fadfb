"""What one tenant has the server hold never makes another's calls fail."""

from __future__ import annotations

import json
import pathlib

import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import DONE, FAILED, block, every_turn
from support.calls import assistant, memory, user
from support.metrics import scrape, value
from support.model_server import ModelServer
from support.server import Server
from support.waiting import wait_for

pytestmark = pytest.mark.resident

MIB = 1 << 20
# Beside what the process takes at rest: a budget of some 60 to 100 MiB.
LIMIT_MIB = 160


@pytest.fixture
def models():
    with ModelServer() as server:
        yield server


def limited(store: str, tmp_path: pathlib.Path, models_url: str, **settings) -> Server:
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        credential(name, ("read", "write", "admin"), token=name) for name in ("large", "small")])
    path = tmp_path / "memoryd.yaml"
    path.write_text(json.dumps({
        "memory_limit_mib": LIMIT_MIB, "job_attempts": 2, "job_retry_ms": 10,
        "models": [{"name": "chat", "kind": "chat", "url": models_url, "model": "fake",
                    "allow_private": True}], **settings}))
    return Server(store, arguments=(f"--config={path}", f"--credentials={credentials}",
                                    "--metrics-listen=127.0.0.1:0"))


@pytest.fixture
def server(store, tmp_path, models):
    with limited(store, tmp_path, models.url) as running:
        yield running


def held(server: Server, tenant: str, use: str) -> float:
    return value(scrape(server.metrics), "memoryd_tenant_memory_bytes", tenant=tenant, use=use)


def fill(caller: Caller, session_id: str, mib: int) -> None:
    """A session whose first unit, of so many MiB, is fed to a block once the next one begins."""
    config = every_turn(block("summary", "summary", model="chat"))
    caller("CreateSession", session_id=session_id, config=config)
    caller("Put", session_id=session_id, messages=[memory.Message(role="assistant", parts=[
        memory.Part(tool_call=memory.ToolCall(call_id=f"c{i}", name="f")) for i in range(mib)])])
    for i in range(mib):
        result = memory.ToolResult(call_id=f"c{i}", text="x" * MIB)
        caller("Put", session_id=session_id, messages=[
            memory.Message(role="tool", parts=[memory.Part(tool_result=result)])])
    caller("Put", session_id=session_id, messages=[user("next")])


def test_caches_of_the_largest_tenant_make_room_for_others(server):
    with server.channel() as channel:
        large, small = Caller(channel, "large"), Caller(channel, "small")
        small("Put", session_id="s", messages=[user("hello")])
        budget = value(scrape(server.metrics), "memoryd_memory_budget_bytes")
        assert 20 * MIB < budget < LIMIT_MIB * MIB
        for i in range(int(budget / (2 * MIB)) + 10):
            large("Put", session_id=f"s{i}", messages=[user("x" * MIB), assistant("y" * MIB)])
            assert small.error("Put", session_id="s", messages=[user("hello")]) is None
        series = scrape(server.metrics)
        assert held(server, "large", "sessions") <= 0.9 * budget
        assert held(server, "small", "sessions") > 0, "the largest holder's go first"
        assert value(series, "memoryd_memory_evicted_bytes_total", use="sessions") > 0
        assert large("GetAll", session_id="s0").messages[0].text == "x" * MIB


def test_jobs_wait_for_memory_and_the_too_large_are_given_up(store, tmp_path, models):
    with limited(store, tmp_path, models.url) as server:
        budget = value(scrape(server.metrics), "memoryd_memory_budget_bytes")
    # Jobs that a larger server, whose model cannot be reached, has left: of turns that this one
    # would archive in pieces.
    large_server = {"memory_limit_mib": 100_000, "active_mib": 64, "job_attempts": 1000}
    with limited(store, tmp_path, "http://127.0.0.1:1/v1", **large_server) as server, \
            server.channel() as channel:
        large = Caller(channel, "large")
        for name in ("a", "b"):
            fill(large, name, int(budget / 2 / 3 / MIB) - 1)
        # Above a sixth of the budget, and below the fifth that active_mib allows.
        fill(large, "c", int(0.185 * budget / MIB))
    with limited(store, tmp_path, models.url) as server, server.channel() as channel:
        large, small = Caller(channel, "large"), Caller(channel, "small")
        assert small.error("Put", session_id="s", messages=[user("hello")]) is None

        def states() -> list[int]:
            return [large("ListJobs", session_id=name).jobs[0].state for name in "abc"]

        wait_for(lambda: states() == [DONE, DONE, FAILED])
        failed = large("ListJobs", session_id="c").jobs[0]
        assert failed.attempts >= 2 and "memory_limit_mib" in failed.last_error
        wait_for(lambda: held(server, "large", "jobs") == 0)
