import pytest


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="all that `make test-frameworks` tries")


@pytest.fixture
def is_full(request) -> bool:
    """Whether to take the time for all operations and moments."""
    return request.config.getoption("--full")
