"""pytest fixtures: a store, a server on it, calls to the server."""

from __future__ import annotations

import uuid

import pytest

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
