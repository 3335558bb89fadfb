"""Writers that go on until every message is acknowledged, whatever happens to the server."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable, Iterable

import grpc

from support.calls import Calls, memory
from support.server import open_channel

# Outcomes after which the same request is sent again: it may or may not have been done.
_UNKNOWN = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)


def until_acknowledged(
    call: Callable, *, given_up: threading.Event | None = None, timeout: float = 10.0, **fields
):
    """Repeats one change by its request_id until it is answered OK; other refusals are raised.

    Raises when `given_up` is set: the server will not come back.
    """
    if not fields.get("request_id"):
        raise ValueError("a change that is repeated needs a request_id")
    while not (given_up and given_up.is_set()):
        try:
            return call(timeout=timeout, wait_for_ready=True, **fields)
        except grpc.RpcError as error:
            if error.code() not in _UNKNOWN:
                raise
    raise RuntimeError("the server did not come back")


class Progress:
    """Counts acknowledged messages and lets others wait for more of them."""

    def __init__(self) -> None:
        self._count = 0
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    def add(self, count: int) -> None:
        with self._changed:
            self._count += count
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    @property
    def count(self) -> int:
        with self._changed:
            return self._count

    def check(self) -> None:
        """Raises what a writer failed with."""
        if self._failure:
            raise RuntimeError("a writer failed") from self._failure

    def wait_for(self, goal: int, timeout: float = 120.0) -> None:
        """Waits until so many are counted in all."""
        with self._changed:
            reached = self._changed.wait_for(
                lambda: self._failure or self._count >= goal, timeout
            )
            count = self._count
        self.check()
        if not reached:
            raise RuntimeError(f"{count} of {goal} messages acknowledged in {timeout} s")

    def wait_for_more(self, more: int, timeout: float = 120.0) -> None:
        """For writers that go on: there must be so many more from now on."""
        self.wait_for(self.count + more, timeout)


class Writers:
    """Threads that put numbered messages, each thread with a channel and an order of its own.

    Thread w writes to the sessions in turn; its n-th message is `w/n/...`. Leaving the context ends
    the threads, each after its last message is acknowledged; at once when leaving by an exception.
    """

    def __init__(
        self, target_of: Callable[[int], str], sessions: Iterable[str], threads: int,
        messages_per_put: Callable[[int], int] = lambda number: 1 + number % 3,
    ) -> None:
        self.progress = Progress()
        self.acknowledged: dict[str, list[str]] = collections.defaultdict(list)
        self._sessions = list(sessions)
        self._messages_per_put = messages_per_put
        self._guard = threading.Lock()
        self._stopped, self._given_up = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(writer, target_of(writer)))
            for writer in range(threads)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, failure: type | None, *_: object) -> None:
        if failure:
            self._given_up.set()
        self._stopped.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _run(self, writer: int, target: str) -> None:
        try:
            with open_channel(target) as channel:
                calls, number, put = Calls(channel), 0, 0
                while not self._stopped.is_set():
                    session = self._sessions[(writer + put) % len(self._sessions)]
                    count = self._messages_per_put(put)
                    texts = [f"{writer}/{number + i}/{'x' * ((number * 37) % 400)}"
                             for i in range(count)]
                    messages = [memory.Message(role="user", text=text) for text in texts]
                    until_acknowledged(calls.Put, given_up=self._given_up, session_id=session,
                                       messages=messages, request_id=f"{writer}-{put}")
                    number += count
                    put += 1
                    with self._guard:
                        self.acknowledged[session] += texts
                    self.progress.add(count)
        except BaseException as error:  # Shown by whoever waits for progress.
            self.progress.fail(error)


class Replacer:
    """A thread that replaces and resets one session until it is stopped.

    `latest` is what the last acknowledged change left. Leaving the context waits for the change
    under way, unless it is left by an exception.
    """

    SESSION = "replaced"
    _RESET_EVERY = 4

    def __init__(self, target: str) -> None:
        self.latest: list[str] = []
        self.changes = 0
        self._target = target
        self._failure: BaseException | None = None
        self._stopped, self._given_up = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Replacer:
        self._thread.start()
        return self

    def __exit__(self, failure: type | None, *_: object) -> None:
        if failure:
            self._given_up.set()
        self._stopped.set()
        self._thread.join()

    def check(self, stored: list[str]) -> None:
        if self._failure:
            raise RuntimeError("the replacing thread failed") from self._failure
        if stored != self.latest or not self.changes:
            raise RuntimeError(f"after {self.changes} changes {stored}, not {self.latest}")

    def _run(self) -> None:
        try:
            with open_channel(self._target) as channel:
                calls = Calls(channel)
                while not self._stopped.is_set():
                    self._change(calls, self.changes)
                    self.changes += 1
        except BaseException as error:  # Shown by check().
            self._failure = error

    def _change(self, calls: Calls, number: int) -> None:
        fields = {"session_id": self.SESSION, "request_id": f"change-{number}",
                  "given_up": self._given_up}
        if number % self._RESET_EVERY == self._RESET_EVERY - 1:
            until_acknowledged(calls.Reset, **fields)
            self.latest = []
            return
        texts = [f"{number}/{i}" for i in range(number % 7)]
        messages = [memory.Message(role="user", text=text) for text in texts]
        until_acknowledged(calls.Set, messages=messages, **fields)
        self.latest = texts


@dataclasses.dataclass
class Audit:
    """Stored messages held against acknowledged ones."""

    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    unknown: int = 0  # Stored though nobody sent them, or sent and never acknowledged.

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.reordered or self.unknown)

    def add_session(self, acknowledged: list[str], stored: list[str]) -> None:
        """`acknowledged` in the order of acknowledgement, `stored` in the order of GetAll."""
        counts = collections.Counter(stored)
        sent = set(acknowledged)
        self.acknowledged += len(acknowledged)
        self.lost += sum(1 for text in sent if not counts[text])
        self.doubled += sum(count - 1 for count in counts.values())
        self.unknown += sum(1 for text in counts if text not in sent)
        latest: dict[str, int] = {}
        for text in stored:
            writer, number = text.split("/")[:2]
            self.reordered += int(number) < latest.get(writer, -1)
            latest[writer] = int(number)


def audit(calls: Calls, acknowledged: dict[str, list[str]]) -> Audit:
    result = Audit()
    for session, texts in acknowledged.items():
        result.add_session(texts, [m.text for m in calls.all_messages(session)])
    return result
