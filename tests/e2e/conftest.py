import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.fixtures import *  # noqa: E402,F401,F403  (fixtures)


def pytest_configure(config):
    config.addinivalue_line("markers", "large: moves many MiB, too many for ThreadSanitizer")
    config.addinivalue_line("markers", "matrix: tens of thousands of calls, one after the other")
