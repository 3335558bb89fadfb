"""Faults, planned by a seed and counted when they have fired."""

from __future__ import annotations

import collections
import dataclasses
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from support.disk import Disk
from support.postgres import Cluster, run_sql
from support.server import Server
from torture.clock import SkewedClock
from torture.failover import PrimaryAndStandby

# The kinds of faults and how often each comes, by what servers run on: a store, or PostgreSQL with
# standbys, behind PgBouncer, or under Patroni.
SHARES = {
    "sqlite": {"server_kill": 6, "power_loss": 8, "server_term": 4, "server_stop": 4},
    "postgresql": {"server_kill": 9, "server_term": 1, "server_stop": 2, "backends_terminate": 3,
                   "postmaster_kill": 1, "postgres_immediate": 1, "postgres_stop": 1,
                   "commits_lost": 2, "commits_late": 1, "link_silent": 1, "links_silent": 1,
                   "connections_full": 1},
    "failover": {"server_kill": 5, "backends_terminate": 4, "failover": 1},
    "standby": {"primary_kill": 4, "primary_cut": 2, "server_kill": 4, "server_stop": 1,
                "backends_terminate": 1, "sync_wait_cancel": 2, "commits_lost": 2,
                "commits_late": 1, "links_silent": 1},
    "pgbouncer": {"server_kill": 10, "server_term": 1, "server_stop": 1, "backends_terminate": 2,
                  "pgbouncer_kill": 2, "postmaster_kill": 1, "postgres_immediate": 1,
                  "commits_lost": 2, "commits_late": 1, "link_silent": 1},
    "patroni": {"leader_kill": 1},
}
# How long the faults of a run take on average, with the time between them.
SECONDS_PER_FAULT = {"sqlite": 1.4, "postgresql": 3.0, "failover": 1.4, "standby": 5.0,
                     "pgbouncer": 3.0, "patroni": 60.0}
# Those after which processes are gone without a farewell. Servers that end at a failpoint, which is
# not planned, are counted under its name.
KILLS = ("server_kill", "power_loss", "postmaster_kill", "primary_kill", "leader_kill",
         "pgbouncer_kill")
# The places of core/base/failpoint.h.
FAILPOINTS = ("request_parsed", "write_queued", "batch_drafted", "commit_begun", "commit_sent",
              "commit_answered", "session_applied", "reply_ready", "reply_given", "job_answered")
_LOOK_SECONDS = 0.02
_LONGEST_STOP_SECONDS = 2.0
# How much of the plan must have fired for a run to count.
LEAST_FIRED = 0.9
_BACKENDS = ("SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (SELECT pid FROM "
             "pg_stat_activity WHERE application_name = 'memoryd' AND backend_type = "
             "'client backend' ORDER BY random() LIMIT {most}) AS chosen")


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault of a plan."""

    kind: str
    at_seconds: float
    replica: int
    stop_seconds: float
    most_backends: int


def plan(seed: int, store: str, seconds: float, replicas: int,
         only: Sequence[str] = (), calm: float = 1) -> list[Fault]:
    """Faults for a run of `seconds` on a key of SHARES, in order, the last early enough to be over
    at the end; of the kinds of `only`, if there are any; `calm` times as rare as they may be. Equal
    arguments give equal plans. Raises ValueError for a kind of `only` that the store hasn't."""
    if unknown := set(only) - SHARES[store].keys():
        raise ValueError(f"{store} has no faults of the kinds {', '.join(sorted(unknown))}")
    chance = random.Random(f"nemesis {seed} {store}")
    count = max(1, int(seconds / SECONDS_PER_FAULT[store] / calm))
    # As many of each as its share says, whatever the seed.
    deck = [kind for kind, share in SHARES[store].items() for _ in range(share)
            if not only or kind in only]
    kinds = [deck[number * len(deck) // count] for number in range(count)]
    chance.shuffle(kinds)
    times = sorted(chance.uniform(0.02, 0.8) * seconds for _ in range(count))
    return [Fault(kind, at, chance.randrange(replicas), chance.uniform(0.1, _LONGEST_STOP_SECONDS),
                  chance.randint(1, 8)) for kind, at in zip(kinds, times, strict=True)]


class Nemesis:
    """Does the faults of a plan to servers and their PostgreSQL, on a thread of its own; those that
    `others` has a function for by it.

    `start` makes the server of a replica; a server that is gone is made again at once. Leaving the
    context ends the plan where it is, with everything running. `cluster` is None on SQLite, and
    `disk` is where its file lies. A clock jumps when a server was stopped. A server that ends by
    itself is a failure, unless it got to the failpoint that `failpoint_of` its replica says was set
    in it, and ended by SIGKILL.
    """

    def __init__(self, faults: Sequence[Fault], start: Callable[[int], Server], replicas: int,
                 cluster: Cluster | PrimaryAndStandby | None,
                 failpoint_of: Callable[[int], str] = lambda replica: "",
                 disk: Disk | None = None, clock: SkewedClock | None = None,
                 others: Mapping[str, Callable[[Fault], bool]] | None = None) -> None:
        self.planned = len(faults)
        self.plan = collections.Counter(fault.kind for fault in faults)
        self.fired: collections.Counter[str] = collections.Counter()
        self._faults = faults
        self._start = start
        self._cluster = cluster
        self._disk = disk
        self._clock = clock
        self._others = others or {}
        self._failpoint_of = failpoint_of
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self.servers = [start(replica) for replica in range(replicas)]
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Nemesis:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def check(self) -> None:
        """Raises what ended the plan before its time."""
        if self._failure is not None:
            raise RuntimeError("the nemesis failed") from self._failure

    @property
    def kills(self) -> int:
        return sum(self.fired[kind] for kind in (*KILLS, *FAILPOINTS))

    @property
    def fired_as_planned(self) -> int:
        return sum(count for kind, count in self.fired.items() if kind not in FAILPOINTS)

    @property
    def fired_enough(self) -> bool:
        return self.fired_as_planned >= LEAST_FIRED * self.planned

    def _run(self) -> None:
        begin = time.monotonic()
        try:
            for fault in self._faults:
                while time.monotonic() < begin + fault.at_seconds:
                    if self._ended.wait(_LOOK_SECONDS):
                        break
                    self._look()
                # A fault that comes late, when nobody writes any more, tells nothing.
                if self._ended.is_set():
                    return
                # Servers may have ended during the fault before, which may have taken long.
                self._look()
                inject = self._others.get(fault.kind) or getattr(self, f"_{fault.kind}")
                if inject(fault):
                    self.fired[fault.kind] += 1
            while not self._ended.wait(_LOOK_SECONDS):
                self._look()
        except BaseException as error:  # Shown by check().
            self._failure = error

    def _look(self) -> None:
        """Looks whether a server has ended by itself."""
        for replica, server in enumerate(self.servers):
            code = server.process.poll()
            if code is None:
                continue
            failpoint = self._failpoint_of(replica)
            if not failpoint or code != -signal.SIGKILL:
                raise RuntimeError(f"server {replica} ended with {code}:\n{server.output()}")
            self.fired[failpoint] += 1
            server.kill()
            self.servers[replica] = self._start(replica)

    # One method for each kind. True: it did what it is for.

    def _server_kill(self, fault: Fault) -> bool:
        server = self.servers[fault.replica]
        lived = server.process.poll() is None
        server.kill()
        self.servers[fault.replica] = self._start(fault.replica)
        return lived

    def _power_loss(self, fault: Fault) -> bool:
        server = self.servers[fault.replica]
        lived = server.process.poll() is None
        server.kill()
        self._disk.lose_power()
        self.servers[fault.replica] = self._start(fault.replica)
        return lived

    def _server_term(self, fault: Fault) -> bool:
        code = self.servers[fault.replica].stop()
        self.servers[fault.replica] = self._start(fault.replica)
        return code == 0

    def _server_stop(self, fault: Fault) -> bool:
        server = self.servers[fault.replica]
        try:
            server.pause()
        except ChildProcessError:
            # It had just ended itself at a failpoint.
            return False
        self._ended.wait(fault.stop_seconds)
        if self._clock:  # As when a machine has slept.
            self._clock.jump()
        server.resume()
        return True

    def _backends_terminate(self, fault: Fault) -> bool:
        return int(run_sql(self._cluster.url, _BACKENDS.format(most=fault.most_backends))) > 0

    def _postgres_stop(self, fault: Fault) -> bool:
        self._cluster.pause()
        self._ended.wait(fault.stop_seconds)
        self._cluster.resume()
        return True

    def _postmaster_kill(self, _: Fault) -> bool:
        self._cluster.kill()
        self._cluster.start()
        return True

    def _postgres_immediate(self, _: Fault) -> bool:
        self._cluster.stop()
        self._cluster.start()
        return True

    def _failover(self, _: Fault) -> bool:
        self._cluster.fail_over(self.servers)
        return True
