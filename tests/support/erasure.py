"""Subjects that are written, read and erased at once, and what is left of them."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from support.blocks import block, every_turn
from support.calls import Calls, memory, note, reason, refusal, session_wire, user
from support.postgres import run_sql

COUNTS = ("session_count", "message_count", "content_count", "block_count", "entry_count",
          "job_count", "reply_count")
# Every column of every table as text, bytes that are no ASCII escaped.
_COLUMNS = """SELECT table_name, string_agg(CASE data_type
  WHEN 'bytea' THEN format('encode(%I, ''escape'')', column_name)
  ELSE format('%I::text', column_name) END, ', ') FROM information_schema.columns
  WHERE table_schema = 'public' AND table_name LIKE 'memoryd%' GROUP BY table_name"""


def stored_text(store: str) -> str:
    """Everything that stands in any column of any table."""
    if not store.startswith("sqlite:"):
        columns = [line.split("|", 1) for line in run_sql(store, _COLUMNS).splitlines()]
        assert len(columns) >= 6
        return run_sql(store, " UNION ALL ".join(
            f"SELECT concat_ws(' ', {names}) FROM {table}" for table, names in columns))
    with contextlib.closing(sqlite3.connect(store.removeprefix("sqlite:"))) as database:
        database.text_factory = bytes
        tables = [name.decode() for name, in database.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table'")]
        assert len(tables) >= 6
        found = [value for table in tables for row in database.execute(f"SELECT * FROM {table}")
                 for value in row if isinstance(value, bytes)]
    return b"\n".join(found).decode("latin-1")


def new_marker() -> str:
    return f"marker{uuid.uuid4().hex}"


def config_of(marker: str, **fields) -> memory.SessionConfig:
    """Blocks that are told the marker, and learn it; the subject is one too."""
    return every_turn(block("facts", "fact-extraction", model="chat", facts=[f"likes {marker}"]),
                      block("vectors", "vector", embedder="embed"),
                      block("said", "static", content=[f"static {marker}"]),
                      subject=marker, **fields)


def say(marker: str, text: str) -> dict:
    """Messages and a content of a Put, all with the marker."""
    return {"messages": [user(f"{text} {marker}", name=marker,
                              metadata_json=f'{{"of":"{marker}"}}'),
                         user(f"{text} again {marker}")],
            "contents": [note(f"note {marker}")]}


def add(receipts: Iterable[session_wire.EraseSubjectResponse]) -> Counter:
    total: Counter = Counter()
    for receipt in receipts:
        total.update({name: getattr(receipt, name) for name in COUNTS})
    return total


def erase(calls: Calls, subject: str) -> Counter:
    """Erases until nothing is left; the sum of the receipts."""
    receipts = []
    while not receipts or not receipts[-1].purged:
        assert len(receipts) < 100, receipts[-1]
        receipts.append(calls.EraseSubject(subject=subject))
    assert not receipts[-1].left_reason
    return add(receipts)


class Round:
    """One subject: two writers and a reader on its sessions while it is erased, then its end."""

    def __init__(self, calls: Calls, seed: int) -> None:
        self._calls = calls
        self._chance = random.Random(seed)
        self.marker = new_marker()
        self._sessions = [uuid.uuid4().hex for _ in range(2)]
        self._others = [uuid.uuid4().hex for _ in range(2)]
        self._written: Counter = Counter()
        self._kept: dict[str, list[str]] = {session: [] for session in self._others}
        self._erased: Counter = Counter()

    def run(self) -> None:
        """Returns with nothing left of the subject but its sessions' ids."""
        puts = self._chance.randint(2, 8)
        with ThreadPoolExecutor(5) as pool:
            writers = [pool.submit(self._write, session, puts) for session in self._sessions]
            others = [pool.submit(self._write_other, session, puts) for session in self._others]
            reader = pool.submit(self._read, puts)
            receipts = [self._calls.EraseSubject(subject=self.marker)
                        for _ in range(self._chance.randint(1, 3))]
            written = [writer.result() for writer in writers]
            for task in (*others, reader):
                task.result()
        for each in written:
            self._written.update(each)
        before = self._calls.EraseSubject(subject=self.marker, dry_run=True)
        assert before.dry_run and not before.purged
        last = erase(self._calls, self.marker)
        # Jobs that ran meanwhile may have taught a block something since it was counted.
        for name in ("session_count", "message_count", "content_count", "job_count", "reply_count"):
            assert last[name] == getattr(before, name), (name, last, before)
        self._erased = add(receipts) + last

    def check(self) -> None:
        """What was erased is what was written, nobody finds it, and others have theirs."""
        for name, count in self._written.items():
            assert self._erased[name] == count, (name, self._erased, self._written)
        assert not add([self._calls.EraseSubject(subject=self.marker, dry_run=True)]).total()
        assert not self._calls.ListSessions(subject=self.marker).sessions
        for session in self._sessions:
            assert reason(refusal(self._calls.GetSession, session_id=session)) == \
                "SESSION_NOT_FOUND"
            assert not self._calls.ListJobs(session_id=session).jobs
            # The id is free, and its index and cache are those of the new session.
            self._calls.Put(session_id=session, messages=[user("someone else's")])
            for reply in (self._calls.Get(session_id=session, input=self.marker),
                          self._calls.GetAll(session_id=session, include_contents=True),
                          self._calls.Query(session_id=session, query=f"first {self.marker}")):
                assert self.marker not in str(reply), reply
            self._calls.DeleteSession(session_id=session)
        for session, texts in self._kept.items():
            assert [m.text for m in self._calls.all_messages(session)] == texts
            self._calls.DeleteSession(session_id=session)

    def _write(self, session: str, puts: int) -> Counter:
        written: Counter = Counter()
        for number in range(puts):
            reply = self._calls.Put(session_id=session, request_id=uuid.uuid4().hex,
                                    config=config_of(self.marker),
                                    **say(self.marker, f"first {number}"))
            written.update(message_count=len(reply.positions), content_count=1, reply_count=1,
                           job_count=len(reply.open_jobs))
        return written

    def _write_other(self, session: str, puts: int) -> None:
        """Of another subject, or of none."""
        subject = session if session == self._others[0] else ""
        for number in range(puts):
            text = f"other {number}"
            self._calls.Put(session_id=session, request_id=uuid.uuid4().hex,
                            config=memory.SessionConfig(subject=subject),
                            messages=[user(text)])
            self._kept[session].append(text)

    def _read(self, times: int) -> None:
        for _ in range(times):
            for session in self._sessions:
                self._calls.Get(session_id=session)
                self._calls.Query(session_id=session, query=f"first {self.marker}")
