import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.fixtures import *  # noqa: F403  (fixtures)

# No test tells a framework's makers of itself. CrewAI also asks a new user whether it may.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TESTING="true",
                  CREWAI_TRACING_ENABLED="false", OTEL_SDK_DISABLED="true")


@pytest.fixture
def operations(is_full) -> int:
    """How many random operations are compared with the library's own store."""
    return 2000 if is_full else 150
