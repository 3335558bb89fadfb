import itertools
import os
import pathlib
import sys
from collections.abc import Iterable

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.fixtures import *  # noqa: F403  (fixtures)

# No test tells a framework's makers of itself. CrewAI also asks a new user whether it may.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TESTING="true",
                  CREWAI_TRACING_ENABLED="false", OTEL_SDK_DISABLED="true")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="all that `make test-frameworks` tries")


@pytest.fixture
def is_full(request) -> bool:
    """Whether to take the time for all operations and moments."""
    return request.config.getoption("--full")


@pytest.fixture
def operations(is_full) -> int:
    """How many random operations are compared with the library's own store."""
    return 2000 if is_full else 150


@pytest.fixture
def kill_at(is_full) -> Iterable[int]:
    """The calls at which an example is killed."""
    return itertools.count(1) if is_full else (2, 5, 7)
