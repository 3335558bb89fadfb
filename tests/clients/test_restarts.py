"""The clients over restarts of their server, in short; `make client-restarts` is the long form."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import restarts


@pytest.mark.parametrize("client", restarts.CLIENTS)
def test_nothing_is_lost_or_doubled(store_kind, client):
    assert restarts.run(store_kind, client, puts=300, restarts=3, writers=4)
