import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import container


@pytest.fixture
def volume():
    yield from container.temporary_volume()


@pytest.fixture(scope="module")
def running():
    """A container that tests share; each uses sessions of its own."""
    with container.Container() as running:
        yield running
