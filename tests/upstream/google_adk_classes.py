"""pytest plugin that puts memoryd.google_adk's session service in the place of ADK's own.

Each service has a server of its own, as those in the tests share nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.sessions import database_session_service, in_memory_session_service

from support.server import Server

from memoryd.google_adk import MemorydSessionService

_running: list[Server] = []


class Service(MemorydSessionService):
    """A service of memoryd in the place of one in memory, or in a database."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _running.append(Server("sqlite::memory:"))
        super().__init__(_running[-1].target)

    async def __aenter__(self) -> Service:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Connections are shared, and stay."""


in_memory_session_service.InMemorySessionService = Service
database_session_service.DatabaseSessionService = Service


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    while _running:
        _running.pop().stop()
