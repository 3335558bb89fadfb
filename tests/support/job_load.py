"""Sessions whose blocks show every job that was lost or counted twice."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import random
import re
import tempfile
import threading
from collections.abc import Sequence

from support.blocks import DONE, block, drained, every_turn, missing, section
from support.calls import Calls, user
from support.model_server import hash_embed
from support.server import Server, open_channel
from support.writers import Progress, until_acknowledged

import memoryd

WORKER = "counting"
_MESSAGE = re.compile(r'<message number="\d+"[^>]*>(.*?)</message>', re.DOTALL)
# No job is given up for the kills; what a server held when it was killed is soon another's.
ARGUMENTS = ("--job-attempts=1000", "--job-retry-ms=10", "--job-lease-ms=1000")
# The most entries that a vector block says; no session may archive more messages.
MOST_TURNS = 100
BLOCKS = (
    block("ledger", "worker", worker=WORKER),
    block("facts", "fact-extraction", worker=WORKER, model="facts", max_facts=250),
    block("summary", "summary", worker=WORKER, model="summary", max_tokens=8192,
          prompt="<old>{summary}</old>{messages}"),
    block("vectors", "vector", worker=WORKER, embedder="embed", top_k=MOST_TURNS),
)
CONFIG = every_turn(*BLOCKS, token_limit=100_000)


class Ledger(memoryd.Block):
    """Keeps all it was ever given, in order."""

    name = "ledger"

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def put(self, messages, state):
        self._progress.add(1)
        return (state or []) + [m.text for m in messages]

    def get(self, messages, state):
        return " ".join(state or [])


class Agent:
    """Its answers depend on what it is asked alone. `progress` counts what jobs asked."""

    def __init__(self) -> None:
        self.progress = Progress()

    def worker(self, target: str) -> memoryd.Worker:
        return memoryd.Worker(
            target, name=WORKER, blocks=[Ledger(self.progress)],
            models={"facts": self._facts, "summary": self._summary},
            embedders={"embed": self._embed})

    def _facts(self, messages, max_tokens):
        self.progress.add(1)
        found = _MESSAGE.findall(messages[0].text)
        return "".join(f"<fact>{text.strip()}</fact>" for text in found) or "<facts></facts>"

    def _summary(self, messages, max_tokens):
        self.progress.add(1)
        prompt = messages[0].text
        old = prompt.split("</old>")[0].removeprefix("<old>").split()
        return " ".join(old + [text.strip() for text in _MESSAGE.findall(prompt)])

    def _embed(self, texts, purpose):
        if purpose == "text":
            self.progress.add(1)
        return [hash_embed(text) for text in texts]


class Turns:
    """Threads that put `turns` turns into each session, through the servers in turn; leaving the
    context waits for all of them, unless it is left by an exception."""

    def __init__(self, targets: Sequence[str], sessions: Sequence[str], turns: int,
                 threads: int = 2) -> None:
        assert turns * threads <= MOST_TURNS
        self._failures: list[BaseException] = []
        self._given_up = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(n, targets[n % len(targets)], sessions, turns))
            for n in range(threads)]

    def __enter__(self) -> Turns:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, failure: type | None, *_: object) -> None:
        if failure:
            self._given_up.set()
        for thread in self._threads:
            thread.join()
        if self._failures and not failure:
            raise RuntimeError("a writer failed") from self._failures[0]

    def _run(self, writer: int, target: str, sessions: Sequence[str], turns: int) -> None:
        try:
            with open_channel(target) as channel:
                calls = Calls(channel)
                for number in range(turns):
                    for session in sessions:
                        until_acknowledged(
                            calls.Put, given_up=self._given_up, session_id=session, config=CONFIG,
                            messages=[user(f"w{writer}n{number}")],
                            request_id=f"w{writer}n{number}")
        except BaseException as error:  # Shown when the context is left.
            self._failures.append(error)


@dataclasses.dataclass
class Findings:
    """What blocks hold against the messages that have left short-term memory."""

    jobs: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    ended_otherwise: int = 0  # Jobs that are not done.

    @property
    def clean(self) -> bool:
        return self.jobs > 0 and not (
            self.lost or self.doubled or self.reordered or self.ended_otherwise)

    def compare(self, fed: list[str], held: list[str], ordered: bool) -> None:
        counts = collections.Counter(held)
        self.lost += sum(1 for text in fed if not counts[text])
        self.doubled += sum(count - 1 for count in counts.values())
        # What nobody fed counts as doubled, too.
        self.doubled += sum(1 for text in counts if text not in fed)
        self.reordered += ordered and [t for t in fed if counts[t]] != list(dict.fromkeys(held))

    def add_session(self, calls: Calls, session_id: str) -> None:
        """Waits for the jobs of a session and looks at its blocks."""
        jobs = drained(calls, session_id)
        self.jobs += len(jobs)
        self.ended_otherwise += sum(job.state != DONE for job in jobs)
        fed = [m.text for m in calls.all_messages(session_id, status="MESSAGE_STATUS_ARCHIVED")]
        reply = calls.Get(session_id=session_id)
        assert not missing(reply), missing(reply)
        for name in (b.name for b in BLOCKS):
            lines = section(reply, name)
            if name == "facts":
                lines = [line.removeprefix("<fact>").removesuffix("</fact>") for line in lines]
            elif name == "vectors":
                lines = [line.removeprefix("user: ") for line in lines if line[:6] == "user: "]
            else:
                lines = " ".join(lines).split()
            self.compare(fed, lines, ordered=name != "vectors")
        # Each block was fed each message by one job.
        for name in (b.name for b in BLOCKS):
            of_block = [job for job in jobs if job.block == name]
            ranges = [(job.begin_position, job.end_position) for job in of_block]
            gaps = [(one, other) for one, other in itertools.pairwise(ranges) if one[1] != other[0]]
            self.lost += len(gaps)


def kill_amid_jobs(store: str, kills: int, sessions: int, turns: int, seed: int) -> Findings:
    """Kills the server over and over while it runs jobs, and looks when it has run them all.

    A kill comes when some more calls of jobs have been made; all kills take half the jobs at most.
    """
    chance = random.Random(seed)
    names = [f"session-{number}" for number in range(sessions)]
    agent = Agent()
    jobs = sessions * (2 * turns - 1) * len(BLOCKS)
    most_between = max(1, jobs // (2 * max(1, kills)))
    # A UNIX socket: its address is the next server's too.
    with tempfile.TemporaryDirectory(prefix="memoryd-jobs-") as folder:
        listen = f"unix:{folder}/memoryd.sock"
        server = Server(store, listen=listen, arguments=ARGUMENTS)
        try:
            with agent.worker(listen):
                with Turns([listen], names, turns):
                    for _ in range(kills):
                        agent.progress.wait_for_more(chance.randint(1, most_between))
                        server.kill()
                        server = Server(store, listen=listen, arguments=ARGUMENTS)
                found = Findings()
                with server.channel() as channel:
                    for name in names:
                        found.add_session(Calls(channel), name)
        finally:
            server.kill()
    return found
