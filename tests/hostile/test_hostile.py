"""Every row of the catalogue: sent, answered as it must be, and good callers served after it."""

from __future__ import annotations

import contextlib

import pytest

from hostile.attacks import ATTACKS
from hostile.place import Place, placed
from hostile.table import TABLE, Row
from support.server import Server
from support.stores import fresh_store

LAST = 108
# Rows that send more than anybody needs.
FLOODS = (*range(56, 66), *range(92, 106))


@pytest.fixture(scope="module")
def servers():
    """A server on each kind of store, begun when the first row wants it."""
    with contextlib.ExitStack() as stack:
        running: dict[str, Server] = {}

        def on(kind: str) -> Server:
            if kind not in running:
                store = stack.enter_context(fresh_store(kind))
                running[kind] = stack.enter_context(Server(store))
            return running[kind]

        yield on


@pytest.fixture
def place(servers, kind):
    with placed(servers(kind)) as made:
        yield made


@pytest.mark.parametrize("kind, row", [
    pytest.param(kind, row, id=f"{row.number}-{kind}",
                 marks=[pytest.mark.flood] if row.number in FLOODS else [])
    for row in TABLE for kind in row.stores])
def test_is_answered_as_it_must_be(place: Place, row: Row):
    row.step(place)


def test_every_number_stands_once():
    assert [row.number for row in TABLE] == list(range(1, LAST + 1))


def test_every_kind_has_an_attack_that_lasts():
    assert {attack.kind for attack in ATTACKS.values()} == set(range(1, 9))


def test_a_limit_says_what_contains_it():
    for row in TABLE:
        assert bool(row.limit) == bool(row.contained), row.number
        assert row.sent and row.must
