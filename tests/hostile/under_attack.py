#!/usr/bin/env python3
"""Attacks that last, on a server of 512 MiB, while a second tenant puts and gets.

usage: under_attack.py [ATTACK...] [--store sqlite|postgresql|both] [--seconds 60] [--tls | --plain]
                       [--processes 2] [--resume] [--list]
       under_attack.py [ATTACK...] --soak MINUTES [--store …] [--seed 1]
under tools/with_postgres.sh for PostgreSQL; as root, who may make control groups

For each attack, port and store: a server with the chart's caches in a control group of 512 MiB,
attackers in processes of their own at nice 19, and the second tenant's load. Spells in which the
attackers are busy loops, which is the yardstick, alternate with spells of the attack. Then: is the
server alive, SERVING, is what attackers had it hold back at 0, is all that was acknowledged there;
and the same after kill -9 and a start on the same store under the same limit.

An attack is named NAME for all its ports, NAME@main, NAME@health or NAME@TLS for one. Without names
all are run. Prints a table in Markdown and writes build/results/under_attack.STORE.json; with
--resume what that file has already is not run again, as all of it takes hours. Two runs, each with a
store and a core of its own (taskset), take half the time. Exits with 1 when a server died, the
second tenant met an error, the p99 of its Puts or of its Gets was more than twice that beside the
loops, memory did not come back, or the server did not.

With --soak one server stands the attacks named in four random orders, a quarter of the time each,
so that quarters are alike. Nothing acknowledged may be lost, and the resident memory of the last
quarter is at most 1.05 times that of the second.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from hostile import attacks, bystander
from hostile.attacks import ATTACKS, Attack
from hostile.site import ATTACKING, EFFORTS, ENDING, LOOPING, RESTING, SPAWN, Site
from hostile.target import LIMIT_MIB, Target, notable
from support.paths import REPOSITORY
from support.server import Server
from support.stores import STORES, fresh_store

MOST_QUOTIENT = 2.0
MOST_GROWTH = 1.05
REST_SECONDS = 30.0
# A spell of loops lasts this share of the attack's: it need only give enough calls for a p99.
LOOPS_SHARE = 0.5
# How long a server is watched after it was started again: longer where jobs may be tried.
WATCHED_SECONDS = {False: 2.0, True: 15.0}
# Their attacks leave jobs open.
JOB_KINDS = (4, 6)
SHORTEST_SPELL_SECONDS = 2.0
RESULTS = REPOSITORY / "build" / "results"
AUTOGROUPS = pathlib.Path("/proc/sys/kernel/sched_autogroup_enabled")


@dataclasses.dataclass(frozen=True)
class Case:
    attack: Attack
    port: str
    tls: bool
    store: str

    @property
    def name(self) -> str:
        where = self.port if self.port != "main" else "TLS" if self.tls else ""
        return self.attack.name + (f"@{where}" if where else "")


@dataclasses.dataclass
class Outcome:
    """Of one case; `failures` is empty when all was as it must be."""

    attack: str
    kind: int
    store: str
    group_peak_mib: float = 0.0
    resident_peak_mib: float = 0.0
    resident_after_mib: float = 0.0
    calls: int = 0
    errors: dict[str, int] = dataclasses.field(default_factory=dict)
    # By method: milliseconds.
    p99_beside_loops: dict[str, float] = dataclasses.field(default_factory=dict)
    p99_under_attack: dict[str, float] = dataclasses.field(default_factory=dict)
    quotient: dict[str, float] = dataclasses.field(default_factory=dict)
    # What the attackers did, by EFFORTS.
    efforts: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(EFFORTS, 0))
    after: str = ""
    restart: str = ""
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    failures: list[str] = dataclasses.field(default_factory=list)


class Crowd:
    """The processes beside a server: the second tenant's, and attackers, who are told the phase."""

    def __init__(self, site: Site, server: Server) -> None:
        self.site = site
        self._server = server
        self._results, there = SPAWN.Pipe(duplex=False)
        self._bystander = SPAWN.Process(target=bystander.bystand, args=(site, there))
        self._attackers: list[multiprocessing.process.BaseProcess] = []
        self.resident: list[float] = []
        self.peak_mib = 0.0

    def begin(self) -> None:
        self._bystander.start()
        self._results.recv()

    def add_attackers(self, name: str, port: str, processes: int) -> None:
        for number in range(processes):
            process = SPAWN.Process(target=attacks.attack, args=(name, port, self.site, number))
            self.site.states[number] = -1
            process.start()
            self._attackers.append(process)
        self._wait_for(RESTING)

    def end_attackers(self) -> None:
        """Of a soak, whose bystander goes on."""
        for process in self._attackers:
            process.kill()
            process.join()
        self._attackers.clear()

    def spell(self, phase: int, seconds: float) -> None:
        """A phase of so many seconds; ends early when the server has died."""
        self.site.phase.value = phase
        self._watch(seconds)
        self.site.phase.value = RESTING
        self._wait_for(RESTING)

    def end(self) -> bystander.Seen:
        self.site.phase.value = ENDING
        seen = self._results.recv()
        self._bystander.join()
        for process in self._attackers:
            process.join(REST_SECONDS)
        self.end_attackers()
        return seen

    @property
    def dead(self) -> bool:
        return self._server.process.poll() is not None

    def _wait_for(self, phase: int) -> None:
        """Until all attackers are in the phase; one that hangs is left where it is."""
        end = time.monotonic() + REST_SECONDS
        while time.monotonic() < end and any(
                self.site.states[number] != phase for number in range(len(self._attackers))):
            self._watch(0.02)

    def _watch(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.dead:
            resident, peak = resident_mib(self._server.pid)
            self.resident.append(resident)
            self.peak_mib = max(self.peak_mib, peak)
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.1, left))


def resident_mib(pid: int) -> tuple[float, float]:
    """What is resident of a process, and the most that was; 0 of one that has ended."""
    with contextlib.suppress(OSError):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        found = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", status, re.MULTILINE))
        return int(found.get("VmRSS", 0)) / 1024, int(found.get("VmHWM", 0)) / 1024
    return 0.0, 0.0


def ran(case: Case, seconds: float, processes: int) -> Outcome:
    """The outcome of one case, whatever becomes of its server."""
    outcome = Outcome(case.name, case.attack.kind, case.store)
    try:
        _run(case, seconds, processes, outcome)
    except Exception as error:  # Such as a server that never starts: the next case may fare better.
        outcome.failures.append(f"{type(error).__name__}: {str(error)[:200]}")
    return outcome


def _run(case: Case, seconds: float, processes: int, outcome: Outcome) -> None:
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        target = stack.enter_context(
            Target(stack.enter_context(fresh_store(case.store)), folder, case.tls))
        target.fill(case.attack)
        with target.started() as (server, group):
            seen = _attacked(case, target, server, seconds, processes, outcome)
            outcome.group_peak_mib = group.peak_mib() if group else 0.0
            if group is None and outcome.resident_peak_mib > LIMIT_MIB:
                outcome.failures.append("more than the limit resident")
        with target.started() as (server, _group):
            outcome.restart = _after_restart(case, target, server, seen)
            if outcome.restart != "serves":
                outcome.failures.append(f"after the restart: {outcome.restart}")


def _attacked(case: Case, target: Target, server: Server, seconds: float, processes: int,
              outcome: Outcome) -> bystander.Seen:
    site = target.site(server, processes)
    crowd = Crowd(site, server)
    crowd.begin()
    crowd.add_attackers(case.attack.name, case.port, processes)
    left = seconds
    while left > 0 and not crowd.dead:
        spell = min(left, case.attack.seconds)
        crowd.spell(LOOPING, spell * LOOPS_SHARE)
        crowd.spell(ATTACKING, spell)
        left -= spell
    crowd.spell(RESTING, 1.0)
    seen = crowd.end()
    outcome.resident_peak_mib = crowd.peak_mib
    outcome.efforts = {name: sum(site.efforts[at::len(EFFORTS)])
                       for at, name in enumerate(EFFORTS)}
    if not sum(outcome.efforts.values()):
        outcome.failures.append("no attack was made")
    outcome.after = target.state(server, seen)
    if not crowd.dead:
        outcome.metrics = notable(server)
    outcome.resident_after_mib, _ = resident_mib(server.pid)
    if outcome.after != "serves":
        outcome.failures.append(outcome.after)
    _judge(seen, outcome)
    return seen


def _judge(seen: bystander.Seen, outcome: Outcome) -> None:
    """The second tenant's errors, and its times under attack beside those with the loops."""
    outcome.calls = sum(map(len, seen.seconds.values()))
    outcome.errors = dict(seen.errors)
    if outcome.errors:
        outcome.failures.append(f"errors: {outcome.errors}")
    for method in ("Put", "Get"):
        beside, under = (p99_ms(seen.seconds.get((phase, method), []))
                         for phase in (LOOPING, ATTACKING))
        quotient = under / beside if beside else 0.0
        outcome.p99_beside_loops[method], outcome.p99_under_attack[method] = beside, under
        outcome.quotient[method] = quotient
        if quotient > MOST_QUOTIENT:
            outcome.failures.append(f"p99 of {method} {quotient:.1f} times that beside loops")


def p99_ms(seconds: Sequence[float]) -> float:
    return 1000 * sorted(seconds)[int(0.99 * len(seconds))] if seconds else 0.0


def _after_restart(case: Case, target: Target, server: Server, seen: bystander.Seen) -> str:
    end = time.monotonic() + WATCHED_SECONDS[case.attack.kind in JOB_KINDS]
    while server.process.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    return target.state(server, seen)


def soak(store: str, chosen: Sequence[Attack], minutes: float, processes: int, seed: int) -> bool:
    """Random attacks for so many minutes on one server; True when all was as it must be."""
    chance = random.Random(f"{seed}/{store}")
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        target = stack.enter_context(
            Target(stack.enter_context(fresh_store(store)), folder, tls=False))
        prepares = {attack.prepare: attack for attack in chosen if attack.prepare}
        for attack in prepares.values():
            target.fill(attack)
        server, group = stack.enter_context(target.started())
        crowd = Crowd(target.site(server, processes), server)
        crowd.begin()
        begin, share = time.monotonic(), 60 * minutes / (4 * len(chosen))
        # For each quarter, the mean resident memory during each attack.
        quarters: list[dict[str, float]] = [{} for _ in range(4)]
        spells = [(quarter, attack) for quarter in quarters
                  for attack in chance.sample(chosen, len(chosen))]
        for number, (quarter, attack) in enumerate(spells):
            if crowd.dead:
                break
            crowd.resident = [resident_mib(server.pid)[0]]
            crowd.add_attackers(attack.name, chance.choice(attack.ports), processes)
            crowd.spell(ATTACKING, max(SHORTEST_SPELL_SECONDS,
                                       begin + share * (number + 1) - time.monotonic()))
            crowd.end_attackers()
            quarter[attack.name] = statistics.mean(crowd.resident)
        seen = crowd.end()
        state = target.state(server, seen)
        means = [statistics.mean(quarter.values()) if quarter else 0.0 for quarter in quarters]
        growth = means[3] / means[1] if means[1] else 0.0
        peak = group.peak_mib() if group else crowd.peak_mib
        after, _ = resident_mib(server.pid)
    grown = sorted(((last - quarters[1][name], name) for name, last in quarters[3].items()),
                   reverse=True)
    acknowledged = sum(map(len, seen.acknowledged.values()))
    print(f"soak: store {store}, attacks {sum(map(len, quarters))}, acknowledged {acknowledged}, errors "
          f"{dict(seen.errors)}, peak {peak:.0f} MiB, resident by quarters "
          f"{[round(mean) for mean in means]} MiB, growth {growth:.3f}, lowest "
          f"{[round(min(quarter.values(), default=0)) for quarter in quarters]} MiB, afterwards "
          f"{after:.0f} MiB, most grown {[f'{name} {more:.0f}' for more, name in grown[:3]]}, "
          f"then {state}", flush=True)
    return state == "serves" and not seen.errors and growth <= MOST_GROWTH


HEADINGS = ("kind", "attack", "store", "attackers' connections, MB, calls (refused)",
            "peak MiB, of these resident", "errors of calls",
            "p99 beside loops, ms", "under attack", "quotient", "afterwards", "after a restart")


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"| {' | '.join(HEADINGS)} |"
    yield "|" + "---|" * len(HEADINGS)
    for outcome in sorted(outcomes, key=lambda o: o.kind):
        yield row(outcome)


def row(outcome: Outcome) -> str:
    def pair(found: dict[str, float], digits: int) -> str:
        return " / ".join(f"{found.get(method, 0.0):.{digits}f}" for method in ("Put", "Get"))

    did = "{connections}, {bytes}, {calls} ({refused})".format(
        **outcome.efforts | {"bytes": outcome.efforts["bytes"] // 10**6})
    return "| " + " | ".join((
        str(outcome.kind), outcome.attack, outcome.store, did,
        f"{outcome.group_peak_mib:.0f}, {outcome.resident_peak_mib:.0f}",
        f"{sum(outcome.errors.values())} of {outcome.calls}",
        pair(outcome.p99_beside_loops, 1), pair(outcome.p99_under_attack, 1),
        pair(outcome.quotient, 2), f"{outcome.after}, {outcome.resident_after_mib:.0f} MiB",
        outcome.restart)) + " |"


def cases_of(arguments: argparse.Namespace) -> list[Case]:
    stores = STORES if arguments.store == "both" else (arguments.store,)
    cases = []
    for name in arguments.attacks or ATTACKS:
        base, _, where = name.partition("@")
        if base not in ATTACKS:
            sys.exit(f"unknown attack {base}; --list shows all")
        attack = ATTACKS[base]
        variants = [(port, False) for port in attack.ports if not arguments.tls]
        if attack.tls and not arguments.plain:
            variants.append(("main", True))
        cases += [Case(attack, port, tls, store) for store in stores for port, tls in variants
                  if where in ("", "TLS" if tls else port)]
    return cases


def _kept(results: pathlib.Path) -> list[Outcome]:
    """The outcomes of the run before."""
    if not results.exists():
        return []
    return [Outcome(**outcome) for outcome in json.loads(results.read_text())]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("attacks", nargs="*", metavar="ATTACK")
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=2, help="attackers, and busy loops")
    parser.add_argument("--tls", action="store_true", help="only over TLS")
    parser.add_argument("--plain", action="store_true", help="only in plain text")
    parser.add_argument("--resume", action="store_true", help="goes on with a run that was ended")
    parser.add_argument("--list", action="store_true", help="shows the attacks")
    parser.add_argument("--soak", type=float, default=0.0, metavar="MINUTES")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    cases = cases_of(arguments)
    if arguments.list:
        print("\n".join(f"{case.attack.kind} {case.name}" for case in cases
                        if case.store == cases[0].store))
        return 0
    with contextlib.suppress(OSError):
        if AUTOGROUPS.read_text().strip() != "0":
            print(f"under attack: nice counts within a session only, and each of PostgreSQL's processes "
                  f"is one: write 0 to {AUTOGROUPS}", file=sys.stderr)
    if arguments.soak:
        good = [soak(store, list({case.attack.name: case.attack for case in cases}.values()),
                     arguments.soak, arguments.processes, arguments.seed)
                for store in (STORES if arguments.store == "both" else (arguments.store,))]
        return 0 if all(good) else 1
    results = RESULTS / f"under_attack.{arguments.store}.json"
    outcomes = _kept(results) if arguments.resume else []
    known = {(outcome.attack, outcome.store) for outcome in outcomes}
    for case in cases:
        if (case.name, case.store) in known:
            continue
        outcomes.append(ran(case, arguments.seconds, arguments.processes))
        print(row(outcomes[-1]), *outcomes[-1].failures, sep="\n  ", file=sys.stderr, flush=True)
        RESULTS.mkdir(parents=True, exist_ok=True)
        results.write_text(json.dumps([dataclasses.asdict(o) for o in outcomes], indent=1))
    print("\n".join(table(outcomes)))
    bad = [outcome for outcome in outcomes if outcome.failures]
    print(f"\nunder attack: {len(outcomes) - len(bad)} of {len(outcomes)} as they must be",
          *(f"{o.attack} on {o.store}: {'; '.join(o.failures)}" for o in bad), sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
