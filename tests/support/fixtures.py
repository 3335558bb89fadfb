"""pytest fixtures: a store, a server on it, calls to the server."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest

from support import killed
from support.calls import Calls
from support.server import Server
from support.stores import STORES, fresh_store


@pytest.fixture(params=STORES, scope="session")
def store_kind(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def server(store_kind):
    """A server that tests share; each uses sessions of its own."""
    # A disk that stalls for seconds, on a machine shared with others, is none of their business.
    with fresh_store(store_kind) as store, \
            Server(store, arguments=["--store-timeout-ms=60000"]) as running:
        yield running


@pytest.fixture(scope="session")
def calls(server):
    with server.channel() as channel:
        yield Calls(channel)


@pytest.fixture
def store(store_kind):
    """The --store of an empty store, for tests that run servers of their own."""
    with fresh_store(store_kind) as url:
        yield url


@pytest.fixture
def session_id() -> str:
    """A session that nobody else uses."""
    return f"session-{uuid.uuid4().hex}"


@pytest.fixture
def killed_and_again(is_full, store_kind) -> Callable[..., Iterator[tuple[list[str], list[str]]]]:
    """Runs an example that is killed at one of the calls, each store's at others, and again. Yields
    the lines of both. With --full it is killed 20 times, at random moments of all of its calls."""

    def run(example, target, calls=(2, 5, 7)):
        if is_full:
            return killed.at_random(example, target, seed=store_kind, kills=20)
        share = itertools.islice(calls, STORES.index(store_kind), None, len(STORES))
        return killed.and_again(example, target, share)

    return run
