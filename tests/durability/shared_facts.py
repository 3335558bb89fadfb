#!/usr/bin/env python3
"""What is learnt in one conversation is known in the next of the same subject, and in nobody else's,
though the server is killed in between.

usage: shared_facts.py [--rounds N] [--store KIND] [--seed N]

In a round three subjects, two of one tenant and one of another with the name of the first, tell one
conversation a fact, which a job hands on to the subject's own session, where a model finds it; by kill -9
the server ends somewhere on that way. Then a second conversation of each subject must have its fact in Get
and in Query, and none of the others'. The last line is `shared STORE: rounds N, missing N, leaked N`.
Exits 1 when a fact was missing or leaked.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import pathlib
import random
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.access import credential, write_credentials
from support.blocks import OPEN, block, every_turn, section, turn
from support.calls import memory, user
from support.job_load import ARGUMENTS
from support.server import Server
from support.stores import STORES, fresh_store
from support.waiting import wait_for
from support.writers import Progress

import memoryd

TENANTS = ("a", "b")
OWNERS = (("a", "ann"), ("a", "bob"), ("b", "ann"))
WORKER = "finder"
CALL_SECONDS = 120.0
DRAIN_ATTEMPTS = 12_000
# Of a round: what is acknowledged, and what the model is asked.
MOST_STEPS = 3 * len(OWNERS)
_SAID = re.compile(r'<message number="\d+"[^>]*>(likes \w+)</message>')


@dataclasses.dataclass
class Found:
    """What was wrong with what the second conversations knew."""

    missing: int = 0
    leaked: int = 0


@dataclasses.dataclass
class Owner:
    """A subject in one round."""

    client: memoryd.Client
    subject: str
    fact: str
    progress: Progress

    def config(self) -> memory.SessionConfig:
        shows = block("user", "session", session_id=f"{self.subject} self")
        return every_turn(shows, subject=self.subject)

    def prepare(self) -> None:
        facts = block("facts", "fact-extraction", model="facts", worker=WORKER)
        self.client.create_session(f"{self.subject} self",
                                   config=every_turn(facts, subject=self.subject))

    def tell(self) -> None:
        """The second turn has the first one fed, in the subject's own session too."""
        for text in (self.fact, "Go on."):
            self.client.put(f"{self.subject} first", turn(text), config=self.config())
            self.progress.add(1)

    def drain(self) -> None:
        for name in ("first", "self"):
            wait_for(lambda name=name: not list(self.client.list_jobs(
                f"{self.subject} {name}", state=OPEN)), DRAIN_ATTEMPTS)

    def knows(self) -> tuple[str, list[str]]:
        """What a new conversation is told by Get, and finds by Query for everybody's facts."""
        session = f"{self.subject} second"
        self.client.put(session, [user("What do I like?")], config=self.config())
        got = self.client.get(session)
        assert not got.missing_blocks, got
        lines = "\n".join(section(got, "user"))
        found = self.client.query(session, f"likes {self.fact}", top_k=100).results
        return lines, [result.message.text or result.block_item.text for result in found]


def run(store: str, rounds: int, seed: int) -> Found:
    chance = random.Random(seed)
    found = Found()
    progress = Progress()

    def facts(messages, max_tokens):
        progress.add(1)
        said = _SAID.findall(messages[0].text)
        return "".join(f"<fact>{text}</fact>" for text in said) or "<facts></facts>"

    with tempfile.TemporaryDirectory(prefix="memoryd-shared-") as folder, \
            contextlib.ExitStack() as stack:
        credentials = write_credentials(pathlib.Path(folder) / "credentials.yaml", [
            credential(tenant, ("read", "write", "worker"), token=f"token {tenant}")
            for tenant in TENANTS])
        # A UNIX socket: its address is the next server's too.
        settings = {"listen": f"unix:{folder}/memoryd.sock",
                    "arguments": [f"--credentials={credentials}", *ARGUMENTS]}
        server = Server(store, **settings)
        try:
            clients = {tenant: stack.enter_context(memoryd.Client(
                server.target, token=f"token {tenant}", timeout=CALL_SECONDS)) for tenant in TENANTS}
            for tenant in TENANTS:
                stack.enter_context(memoryd.Worker(server.target, name=WORKER, models={"facts": facts},
                                                   token=f"token {tenant}"))
            pool = stack.enter_context(ThreadPoolExecutor(len(OWNERS)))
            for number in range(rounds):
                owners = [Owner(clients[tenant], f"{subject} {number}",
                                f"likes t{chance.getrandbits(64):x}", progress)
                          for tenant, subject in OWNERS]
                for owner in owners:
                    owner.prepare()
                # All may be over before anybody waits.
                goal = progress.count + chance.randint(1, MOST_STEPS - 1)
                telling = [pool.submit(owner.tell) for owner in owners]
                progress.wait_for(goal)
                server.kill()
                server = Server(store, **settings)
                for one in telling:
                    one.result()
                for owner in owners:
                    owner.drain()
                compare(found, owners)
        finally:
            server.kill()
    return found


def compare(found: Found, owners: list[Owner]) -> None:
    for owner in owners:
        told, results = owner.knows()
        has = (f"<fact>{owner.fact}</fact>" in told, owner.fact in results)
        if not all(has):
            print(f"missing: {owner.subject} by Get {has[0]}, by Query {has[1]}")
        found.missing += has.count(False)
        for other in owners:
            if other is not owner and other.fact in f"{told} {results}":
                print(f"leaked: {other.subject} to {owner.subject}")
                found.leaked += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50, help="on each store")
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    # A worker says whenever its server is gone.
    logging.getLogger("memoryd.worker").setLevel(logging.ERROR)
    print(f"seed {options.seed}", flush=True)
    failed = False
    for kind in options.store or STORES:
        with fresh_store(kind) as store:
            found = run(store, options.rounds, options.seed)
        failed = failed or found.missing + found.leaked > 0
        print(f"shared {kind}: rounds {options.rounds}, missing {found.missing}, "
              f"leaked {found.leaked}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
