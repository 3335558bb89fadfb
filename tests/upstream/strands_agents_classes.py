"""pytest plugin that puts memoryd.strands' classes in the place of Strands' own.

What the tests name a folder is part of the sessions' ids; each repository without one is a new one.
"""

from __future__ import annotations

import sys
import types
import uuid
from typing import Any

import strands.session
import strands.session.file_session_manager
from tests.fixtures import mock_session_repository

from memoryd.strands import MemorydSessionManager, MemorydSessionRepository

# The tests' conftest.py imports it for tests of S3.
sys.modules.setdefault("moto", types.ModuleType("moto"))
_RUN = uuid.uuid4().hex[:8]


class Repository(MemorydSessionRepository):
    """A repository of memoryd in the place of the one that the tests have."""

    def __init__(self, place: str = "") -> None:
        place = place or uuid.uuid4().hex
        super().__init__(
            namespace=(_RUN, place.replace("/", "|")),
            conversation=lambda *ids: ":".join((_RUN, place, *ids)))


class Manager(MemorydSessionManager, Repository):
    """A manager of memoryd in the place of the one in files, which is its own repository."""

    def __init__(self, session_id: str, storage_dir: str | None = None, **_: Any) -> None:
        Repository.__init__(self, str(storage_dir or ""))
        strands.session.RepositorySessionManager.__init__(self, session_id, self)


mock_session_repository.MockedSessionRepository = Repository  # type: ignore[misc]
strands.session.FileSessionManager = Manager  # type: ignore[misc]
strands.session.file_session_manager.FileSessionManager = Manager  # type: ignore[misc]


def pytest_report_header() -> str:
    return "memoryd: sessions and repositories are memoryd.strands'"
