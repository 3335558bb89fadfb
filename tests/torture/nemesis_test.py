"""Plans of faults, without the faults."""

from __future__ import annotations

import collections

import pytest

from torture import nemesis


@pytest.mark.parametrize("store", nemesis.SHARES)
def test_equal_seeds_plan_equal_faults_and_others_do_not(store):
    assert nemesis.plan(1, store, 60, 2) == nemesis.plan(1, store, 60, 2)
    assert nemesis.plan(1, store, 60, 2) != nemesis.plan(2, store, 60, 2)


@pytest.mark.parametrize("store", ("sqlite", "postgresql"))
def test_a_minute_has_twenty_kills_and_every_kind(store):
    for seed in range(20):
        faults = nemesis.plan(seed, store, 60, 2)
        kinds = collections.Counter(fault.kind for fault in faults)
        assert sum(kinds[kind] for kind in nemesis.KILLS) >= 20
        assert set(kinds) == set(nemesis.SHARES[store])
        times = [fault.at_seconds for fault in faults]
        assert times == sorted(times) and times[-1] < 60
        assert {fault.replica for fault in faults} == {0, 1}


def test_a_plan_may_be_of_some_kinds_alone():
    faults = nemesis.plan(1, "postgresql", 60, 2, only=["postgres_stop", "postmaster_kill"])
    assert {fault.kind for fault in faults} == {"postgres_stop", "postmaster_kill"}
    assert len(faults) == len(nemesis.plan(1, "postgresql", 60, 2))


def test_a_short_run_has_a_fault_too():
    assert len(nemesis.plan(1, "sqlite", 1, 1)) == 1
