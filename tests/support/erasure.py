"""Subjects that are written, read and erased at once, and what is left of them."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from support.blocks import block, drained, every_turn
from support.calls import Calls, memory, note, reason, refusal, session_wire, user, wire
from support.postgres import run_sql

COUNTS = ("session_count", "message_count", "content_count", "block_count", "entry_count",
          "job_count", "reply_count")
# Every column of every table as text, bytes that are no ASCII escaped.
_COLUMNS = """SELECT table_name, string_agg(CASE data_type
  WHEN 'bytea' THEN format('encode(%I, ''escape'')', column_name)
  ELSE format('%I::text', column_name) END, ', ') FROM information_schema.columns
  WHERE table_schema = 'public' AND table_name LIKE 'memoryd%' GROUP BY table_name"""
# The tables that have a session's id and need not keep it for a day.
_TABLES = """SELECT table_name FROM information_schema.columns WHERE column_name = 'session'
  AND table_schema = 'public' AND table_name NOT IN ('memoryd_sessions', 'memoryd_requests')"""
_SQLITE_TABLES = """SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
  ON c.name = 'session' WHERE m.type = 'table'
  AND m.name NOT IN ('memoryd_sessions', 'memoryd_requests')"""


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


def sessions_with_rows(store: str) -> set[str]:
    """The ids of sessions of which anything is stored besides their own row and their request ids."""
    if not store.startswith("sqlite:"):
        tables = run_sql(store, _TABLES).split()
        assert len(tables) >= 4
        return set(run_sql(store, " UNION ".join(f"SELECT session FROM {table}"
                                                 for table in tables)).splitlines())
    with contextlib.closing(sqlite3.connect(store.removeprefix("sqlite:"))) as database:
        tables = [name for name, in database.execute(_SQLITE_TABLES)]
        assert len(tables) >= 4
        return {name for table in tables
                for name, in database.execute(f"SELECT DISTINCT session FROM {table}")}


def new_marker() -> str:
    return f"marker{uuid.uuid4().hex}"


def config_of(marker: str, attached: str = "", **fields) -> memory.SessionConfig:
    """Blocks that are told the marker, and learn it; the subject is one too. With the session `attached`
    to hand messages on to, if any."""
    blocks = [block("facts", "fact-extraction", model="chat", facts=[f"likes {marker}"]),
              block("vectors", "vector", embedder="embed"),
              block("said", "static", content=[f"static {marker}"])]
    if attached:
        blocks.append(block("user", "session", session_id=attached))
    return every_turn(*blocks, subject=marker, **fields)


def say(marker: str, text: str, expire_time: Timestamp | None = None) -> dict:
    """Messages and a content of a Put, all with the marker. The second message and the content may have
    a time."""
    return {"messages": [user(f"{text} {marker}", name=marker,
                              metadata_json=f'{{"of":"{marker}"}}'),
                         user(f"{text} again {marker}", expire_time=expire_time)],
            "contents": [note(f"note {marker}", expire_time=expire_time)]}


def add(receipts: Iterable[session_wire.EraseSubjectResponse]) -> Counter:
    total: Counter = Counter()
    for receipt in receipts:
        total.update({name: getattr(receipt, name) for name in COUNTS})
    return total


def erase(calls: Calls | Sequence[Calls], subject: str) -> Counter:
    """Erases until nothing is left, on the servers in turn; the sum of the receipts."""
    servers = [calls] if isinstance(calls, Calls) else calls
    receipts = []
    while not receipts or not receipts[-1].purged:
        assert len(receipts) < 100, receipts[-1]
        receipts.append(servers[len(receipts) % len(servers)].EraseSubject(subject=subject))
    assert not receipts[-1].left_reason
    return add(receipts)


class Round:
    """One subject: writers, readers and forks of its sessions while it is erased, then its end.

    By chance the subject has a session of its own that the others hand messages on to, its messages
    are embedded, it is forked, and sessions or items of it expire meanwhile. Every call goes to one of
    the servers, whichever.
    """

    def __init__(self, servers: Sequence[Calls], seed: int) -> None:
        self._servers = servers
        self._chance = random.Random(seed)
        self.marker = new_marker()
        self._attached = f"user:{uuid.uuid4().hex}" if self._chance.random() < 0.5 else ""
        self._embeds = self._chance.random() < 0.5
        self._forks = self._chance.random() < 0.5
        # What goes by itself: nothing, the oldest messages, items, or whole sessions.
        self._expires = self._chance.choice(("", "", "messages", "items", "sessions"))
        self._conversations = [uuid.uuid4().hex for _ in range(2)]
        self._copies = [uuid.uuid4().hex for _ in range(2)] if self._forks else []
        self._others = [uuid.uuid4().hex for _ in range(2)]
        self._written: Counter = Counter()
        self._begun = threading.Event()  # There is something to copy.
        self._kept: dict[str, list[str]] = {session: [] for session in self._others}
        self._erased: Counter = Counter()

    @property
    def kinds(self) -> list[str]:
        """What happens in it besides writes."""
        return [name for name, wanted in (("attached", self._attached), ("embedded", self._embeds),
                                          ("forked", self._forks),
                                          (f"{self._expires} expire", self._expires)) if wanted]

    @property
    def sessions(self) -> list[str]:
        """The ids of all sessions that the subject may have."""
        own = [self._attached] if self._attached else []
        return [*self._conversations, *self._copies, *own]

    def run(self) -> None:
        """Returns with nothing left of the subject but its sessions' ids."""
        puts = self._chance.randint(2, 8)
        if self._attached:
            self._any.CreateSession(session_id=self._attached, config=self._config(""))
        with ThreadPoolExecutor(8) as pool:
            tasks = [pool.submit(self._write, session, self._attached, puts)
                     for session in self._conversations]
            if self._attached:
                tasks.append(pool.submit(self._write, self._attached, "", puts))
            tasks += [pool.submit(self._fork, copy) for copy in self._copies]
            others = [pool.submit(self._write_other, session, puts) for session in self._others]
            reader = pool.submit(self._read, puts)
            receipts = []
            for number in range(self._chance.randint(1, 3)):
                if number > 0 and self._chance.random() < 0.5:
                    # Not only what was just begun: whoever writes has got on by then.
                    others[0].result()
                receipts.append(self._any.EraseSubject(subject=self.marker))
            written = [task.result() for task in tasks]
            for task in (*others, reader):
                task.result()
        for each in written:
            self._written.update(each)
        self._erased = add(receipts) + self._erase_the_rest()

    def _erase_the_rest(self) -> Counter:
        """With what was counted before."""
        settled = self._chance.random() < 0.5
        if settled:
            self._wait_for_jobs()
        before = self._any.EraseSubject(subject=self.marker, dry_run=True)
        assert before.dry_run and not before.purged
        last = erase(self._servers, self.marker)
        # A job that ends meanwhile teaches a block, makes the next one of `.retrieval`, and hands
        # messages on; what is over goes. Replies do not, as they do not where a session is deleted.
        grow, shrink = set(), set()
        if not settled:
            grow |= {"block_count", "entry_count"}
            if self._embeds:
                grow |= {"job_count"}
            if self._attached:
                grow |= {"message_count", "reply_count", "job_count"}
        if self._expires:
            shrink |= {"session_count", "message_count", "content_count", "block_count",
                       "entry_count", "job_count"}
        for name in COUNTS:
            more = last[name] - getattr(before, name)
            assert more == 0 or name in (grow if more > 0 else shrink), \
                (self.kinds, settled, name, last, before)
        return last

    def _wait_for_jobs(self) -> None:
        """Returns once no job of the subject is open. Those of conversations make others in the session
        that is attached to them, which comes last."""
        for session in self.sessions:
            drained(self._any, session)

    def check(self) -> None:
        """What was erased is what was written, nobody finds it, and others have theirs."""
        least, most = self._bounds()
        for name in COUNTS:
            assert least.get(name, 0) <= self._erased[name] <= most.get(name, self._erased[name]), \
                (self.kinds, name, self._erased, least, most)
        for calls in self._servers:
            assert not add([calls.EraseSubject(subject=self.marker, dry_run=True)]).total()
            assert not calls.ListSessions(subject=self.marker).sessions
        for session in self.sessions:
            for calls in self._servers:
                assert reason(refusal(calls.GetSession, session_id=session)) == \
                    "SESSION_NOT_FOUND"
                assert not calls.ListJobs(session_id=session).jobs
            # The id is free, and its index and cache are those of the new session.
            self._any.Put(session_id=session, messages=[user("someone else's")])
            for calls in self._servers:
                for reply in (calls.Get(session_id=session, input=self.marker),
                              calls.GetAll(session_id=session, include_contents=True),
                              calls.Query(session_id=session, query=f"first {self.marker}")):
                    assert self.marker not in str(reply), reply
            self._any.DeleteSession(session_id=session)
        for session, texts in self._kept.items():
            for calls in self._servers:
                assert [m.text for m in calls.all_messages(session)] == texts
            self._any.DeleteSession(session_id=session)

    def _bounds(self) -> tuple[dict[str, int], dict[str, int]]:
        """How much must be, and may be, on the receipts. Of jobs the least is known alone where a
        message's embedding, a copy or another session makes more, of replies where they come with
        messages that were handed on."""
        written = {name: self._written[name]
                   for name in ("message_count", "content_count", "job_count", "reply_count")}
        least, most = dict(written), dict(written)
        if self._expires:
            for name in ("message_count", "content_count"):
                del least[name]
        if self._expires == "sessions":
            del least["job_count"]
        if self._embeds or self._attached or self._forks:
            del most["job_count"]
        if self._attached:
            most["message_count"] += self._written["handed_on"]
            most["reply_count"] += self._written["handed_on"]
        return least, most

    @property
    def _any(self) -> Calls:
        return self._chance.choice(self._servers)

    def _config(self, attached: str) -> memory.SessionConfig:
        fields = {}
        if self._embeds:
            fields["retrieval"] = memory.Retrieval(embedder="embed")
        if self._expires == "messages":
            fields["retention"] = memory.Retention(keep_messages=3)
        elif self._expires == "sessions":
            fields["retention"] = memory.Retention(session_ttl=Duration(seconds=1))
        return config_of(self.marker, attached, **fields)

    def _write(self, session: str, attached: str, puts: int) -> Counter:
        written: Counter = Counter()
        for number in range(puts):
            reply = self._put(session, attached, number)
            self._begun.set()
            written.update(message_count=len(reply.positions), content_count=1, reply_count=1,
                           job_count=len(reply.open_jobs))
            if attached:
                written.update(handed_on=len(reply.positions))
        return written

    def _put(self, session: str, attached: str, number: int) -> wire.PutResponse:
        request_id = uuid.uuid4().hex
        while True:
            # Over soon, and by the clock of a server, which this may find busy.
            over = None
            if self._expires == "items":
                over = Timestamp()
                over.FromMicroseconds(int(time.time() * 1e6) + 1_500_000)
            try:
                return self._any.Put(session_id=session, request_id=request_id,
                                     config=self._config(attached),
                                     **say(self.marker, f"first {number}", over))
            except grpc.RpcError as error:
                if over is None or "expire_time" not in error.details():
                    raise

    def _fork(self, copy: str) -> Counter:
        """A copy, and a Put to it, if there is something to copy."""
        written: Counter = Counter()
        self._begun.wait()
        for _ in range(10):
            try:
                made = self._any.ForkSession(session_id=self._conversations[0], new_session_id=copy,
                                             request_id=f"fork {copy}").session
            except grpc.RpcError as error:
                assert reason(error) in ("SESSION_NOT_FOUND", "SESSION_REPLACED"), error
                continue
            copied = made.active_count + made.archived_count
            written.update(message_count=copied, content_count=made.content_count, reply_count=1,
                           handed_on=copied)
            written.update(self._write(copy, self._attached, 1))
            break
        return written

    def _write_other(self, session: str, puts: int) -> None:
        """Of another subject, or of none."""
        subject = session if session == self._others[0] else ""
        for number in range(puts):
            text = f"other {number}"
            self._any.Put(session_id=session, request_id=uuid.uuid4().hex,
                          config=memory.SessionConfig(subject=subject),
                          messages=[user(text)])
            self._kept[session].append(text)

    def _read(self, times: int) -> None:
        for _ in range(times):
            for session in self.sessions:
                self._any.Get(session_id=session)
                self._any.Query(session_id=session, query=f"first {self.marker}")
