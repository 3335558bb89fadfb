"""Plans of faults, without the faults."""

from __future__ import annotations

import collections

import pytest

from torture import nemesis
from torture.postgres_faults import LinkFaults, StandbyFaults


@pytest.mark.parametrize("store", nemesis.SHARES)
def test_equal_seeds_plan_equal_faults_and_others_do_not(store):
    assert nemesis.plan(1, store, 60, 2) == nemesis.plan(1, store, 60, 2)
    assert nemesis.plan(1, store, 60, 2) != nemesis.plan(2, store, 60, 2)


# What PostgreSQL does takes its time; failpoints kill besides.
@pytest.mark.parametrize("store, minutes, kills", [
    ("sqlite", 1, 20), ("postgresql", 2, 12), ("pgbouncer", 2, 12), ("standby", 1, 5)])
def test_a_run_has_many_kills_and_every_kind(store, minutes, kills):
    for seed in range(20):
        faults = nemesis.plan(seed, store, 60 * minutes, 2)
        kinds = collections.Counter(fault.kind for fault in faults)
        assert sum(kinds[kind] for kind in nemesis.KILLS) >= kills
        assert store == "standby" or set(kinds) == set(nemesis.SHARES[store])
        times = [fault.at_seconds for fault in faults]
        assert times == sorted(times) and times[-1] < 60 * minutes
        assert {fault.replica for fault in faults} == {0, 1}


def test_every_kind_has_somebody_to_do_it():
    done = {*LinkFaults([], "").kinds(), *StandbyFaults(None).kinds(), "pgbouncer_kill",
            "leader_kill"}
    for shares in nemesis.SHARES.values():
        assert all(kind in done or hasattr(nemesis.Nemesis, f"_{kind}") for kind in shares)


def test_a_plan_may_be_of_some_kinds_alone():
    faults = nemesis.plan(1, "postgresql", 60, 2, only=["commits_lost", "commits_late"])
    assert {fault.kind for fault in faults} == {"commits_lost", "commits_late"}
    assert len(faults) == len(nemesis.plan(1, "postgresql", 60, 2))


def test_a_plan_of_a_kind_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="sqlite has no faults of the kinds commits_lost"):
        nemesis.plan(1, "sqlite", 60, 1, only=["commits_lost", "server_kill"])


def test_a_calm_plan_has_as_many_times_fewer_faults():
    faults = nemesis.plan(1, "postgresql", 120, 2, calm=4)
    assert len(faults) == len(nemesis.plan(1, "postgresql", 30, 2))


def test_a_short_run_has_a_fault_too():
    assert len(nemesis.plan(1, "sqlite", 1, 1)) == 1
