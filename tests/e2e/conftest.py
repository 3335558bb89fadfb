import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.fixtures import *  # noqa: E402,F401,F403  (fixtures)


def pytest_configure(config):
    config.addinivalue_line("markers", "large: moves many MiB, too many for ThreadSanitizer")
    config.addinivalue_line("markers", "matrix: tens of thousands of calls, one after the other")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what the server that tests share had to say."""
    outcome = yield
    report = outcome.get_result()
    server = getattr(item, "funcargs", {}).get("server")
    if report.failed and hasattr(server, "output"):
        report.sections.append(("the server's latest lines", server.output()))
