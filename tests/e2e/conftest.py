import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.collector import exports_spans
from support.fixtures import *  # noqa: F403  (fixtures)


def pytest_configure(config):
    config.addinivalue_line("markers", "large: moves many MiB, too many for ThreadSanitizer")
    config.addinivalue_line("markers", "exports_spans(can): of builds that can, or that can not")
    config.addinivalue_line("markers", "matrix: tens of thousands of calls, one after the other")
    config.addinivalue_line("markers", "resident: fills a server's memory, which sanitizers take")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection_modifyitems(config, items):
    leave_out_other_builds(config, items)
    yield  # pytest puts together what shares a fixture.
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = with_long_ones_first(items, workers)


def with_long_ones_first(items, workers: int):
    """Each of pytest-xdist's workers begins with its share of the tests that take a minute, which
    would come last, one after the other on one worker. It gets a quarter of its tests at first."""
    long = [item for item in items
            if item.get_closest_marker("matrix") or item.get_closest_marker("resident")]
    known = set(long)
    others = [item for item in items if item not in known]
    share = max(len(items) // workers // 4, 2)
    result = []
    for worker in range(workers):
        own = long[worker::workers]
        count = max(share - len(own), 0)
        result += own + others[:count]
        others = others[count:]
    return result + others


def leave_out_other_builds(config, items) -> None:
    """A test that is skipped counts as failed."""
    markers = {item: item.get_closest_marker("exports_spans") for item in items}
    if not any(markers.values()):
        return
    can = exports_spans()
    other = [item for item, marker in markers.items() if marker and marker.kwargs["can"] != can]
    items[:] = [item for item in items if item not in other]
    config.hook.pytest_deselected(items=other)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows what the server that tests share had to say."""
    outcome = yield
    report = outcome.get_result()
    server = getattr(item, "funcargs", {}).get("server")
    if report.failed and hasattr(server, "output"):
        report.sections.append(("the server's latest lines", server.output()))
