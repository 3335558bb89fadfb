#!/usr/bin/env python3
"""Clients that call memoryd at random, by a seed, and write down what they see.

usage: generator.py SETTINGS     a JSON file, see Settings

Says `ready`, and begins when it is told on standard input when to end (CLOCK_MONOTONIC in ns).

Each client belongs to one tenant and has one request under way at a time, but for those that it
sends twice at once. Sessions have equal names in all tenants, and so have requests. A process runs
its clients on one event loop; several processes share the clients between them. What the servers do
about it, and when they are killed, is not its affair.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import pathlib
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import grpc

from support.access import bearer
from support.calls import (
    block_service_pb2_grpc,
    block_wire,
    item_service_pb2_grpc,
    memory,
    memory_service_pb2_grpc,
    session_service_pb2_grpc,
    session_wire,
    wire,
)
from support.server import CHANNEL_OPTIONS
from torture import bodies, facts, history, item_load
from torture.history import Record

from memoryd.errors import error_info
from memoryd.v1 import filter_pb2 as filter_wire

ORDERS = (wire.MESSAGE_ORDER_OLDEST_FIRST, wire.MESSAGE_ORDER_NEWEST_FIRST)
# In percent.
OPERATIONS = {"put": 50, "batch": 5, "puts": 4, "get": 18, "getall": 5, "stream": 1,
              "filtered": 1, "set": 3, "reset": 2, "query": 5, "update": 2, "delete": 2,
              "contents": 2, "configure": 0.5, "configuration": 0.5, "kept": 3, "brief": 2, "notes": 2,
              "fork": 0.3, "import": 0.3, "items": 30}
RETRIED, CONCURRENT, OTHER_BODY = 0.10, 0.05, 0.01
# Puts without a request_id, that nobody may send twice.
KEYLESS = 0.4
# Puts that give the revision they expect.
CONDITIONAL = 0.02
SHORTEST_SECONDS, LONGEST_SECONDS = 0.05, 5.0
MOST_ATTEMPTS = 6
# After a server has said that it or its store is away: else clients would do little but ask.
AWAY_SECONDS = 0.02
# Sizes of bodies in bytes, and how many of them. Within each, small ones are as likely as large.
SIZES = (((0, 1 << 10), 0.97), ((1 << 10, 1 << 16), 0.029), ((1 << 16, 900_000), 0.001))
SMALL = ((0, 200), 1.0)
MOST_OF_A_BATCH, MOST_OF_A_SET = 20, 6
# Puts of one call.
MOST_PUTS = 5
# Reads of a whole session that ask for contents too; writes of contents that have messages too.
WITH_CONTENTS, WITH_MESSAGES = 0.3, 0.5
# What the sessions of `kept` keep.
KEPT = 40
# The block of the sessions of `noted`, and how many facts are enough.
NOTES, MOST_NOTES = "notes", 20
# Sessions of `brief` are gone after so long without a write, the second half of them read or write;
# nobody calls them for PAUSE_SECONDS after as long a time in which all do.
BRIEF_SECONDS, PAUSE_SECONDS = 1, 3
# Less what clocks of one machine may be apart.
BRIEF_NS = int(BRIEF_SECONDS * 1e9) - 20_000_000
ROLES = ("user", "assistant")
CODES = {code.value[0]: code for code in grpc.StatusCode}
# A longer session is read from its beginning, or rarely as a whole.
WHOLE_SESSION, RARELY = 500, 0.01
# A longer one takes too long to be copied.
MOST_COPIED = 3000
# Of a piece of an import; a piece that is as large has room for one message more.
IMPORTED_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Settings:
    """What one process is to do."""

    seed: int
    process: int
    processes: int
    clients: int  # Of all processes.
    targets: list[str]  # One for each replica.
    tokens: dict[str, str]  # By tenant.
    # Names; each session may be in several. Those of `turning` are set and reset; those of
    # `with_jobs` are fed to blocks with every turn, so they get fewer and smaller messages.
    sessions: list[str]
    turning: list[str]
    with_jobs: list[str]
    # Apart from all these.
    kept: list[str]
    brief: list[str]
    noted: list[str]
    spaces: list[str]  # Keys of item_load.SPACES.
    history: str

    @classmethod
    def read(cls, path: pathlib.Path) -> Settings:
        return cls(**json.loads(path.read_text()))

    def write(self, path: pathlib.Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self)))


class Replica:
    """One server's calls by operation."""

    def __init__(self, target: str) -> None:
        self.channel = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
        stub = memory_service_pb2_grpc.MemoryServiceStub(self.channel)
        sessions = session_service_pb2_grpc.SessionServiceStub(self.channel)
        blocks = block_service_pb2_grpc.BlockServiceStub(self.channel)
        items = item_service_pb2_grpc.ItemServiceStub(self.channel)
        self.calls = {"put": stub.Put, "puts": stub.PutBatch, "get": stub.Get,
                      "getall": stub.GetAll, "set": stub.Set,
                      "reset": stub.Reset, "query": stub.Query, "update": stub.UpdateMessage,
                      "delete": stub.DeleteMessage, "fork": sessions.ForkSession,
                      "drop": sessions.DeleteSession, "import": sessions.ImportSession,
                      "erase": sessions.EraseSubject, "stream": stub.StreamAll,
                      "filtered": stub.GetAll, "configure": sessions.UpdateSession,
                      "configuration": sessions.GetSession, "add_fact": blocks.AddFact,
                      "update_fact": blocks.UpdateFact, "delete_fact": blocks.DeleteFact,
                      "undo": blocks.UndoBlockChange, "facts": blocks.GetBlock,
                      "put_item": items.PutItem, "get_item": items.GetItem,
                      "delete_item": items.DeleteItem, "list_items": items.ListItems,
                      "search_items": items.SearchItems, "batch_items": items.BatchItems,
                      "list_spaces": items.ListNamespaces, "copy_space": items.CopyNamespace,
                      "drop_space": items.DeleteNamespace}


class Client:
    """One caller. `run` is called once and returns at the end of the run."""

    def __init__(self, settings: Settings, number: int, end_ns: int, replicas: list[Replica],
                 texts: bodies.Bodies, writer: history.Writer) -> None:
        tenants = sorted(settings.tokens)
        self._settings = settings
        self._end_ns = end_ns
        self._replicas = replicas
        self._texts = texts
        self._writer = writer
        self._tenant = tenants[number % len(tenants)]
        self._number = number // len(tenants)
        self._metadata = bearer(settings.tokens[self._tenant])
        self._chance = random.Random(f"client {settings.seed} {number}")
        self._sent = 0
        self._latest: dict[str, tuple[int, int, str]] = {}  # Position, number, item of a session.
        self._revisions: dict[str, int] = {}
        self._shown: dict[str, tuple[str, str]] = {}  # Id and item of a message read, by session.
        self._facts: list[int] = []  # Ids and changes that were read a while ago.
        self._changes: list[int] = []
        self._weights = [self._weight(session) for session in settings.sessions]
        self._item_load = item_load.ItemLoad(
            item_load.Caller(self._call, writer.add, self._next_number, self._two_replicas,
                             self._sender(""), texts, self._chance), settings.spaces)

    def _weight(self, session: str) -> float:
        if session in self._settings.with_jobs:
            return 0.2
        # The first is hot.
        return 8.0 if session == self._settings.sessions[0] else 1.0

    async def run(self) -> None:
        names, shares = list(OPERATIONS), list(OPERATIONS.values())
        while time.monotonic_ns() < self._end_ns:
            operation = self._chance.choices(names, shares)[0]
            await getattr(self, f"_{operation}")()

    # Operations.

    async def _put(self, most: int = 1) -> None:
        session = self._session()
        items, messages = self._messages(session, self._chance.randint(min(2, most), most))
        request = wire.PutRequest(session_id=session, messages=messages)
        if self._chance.random() < CONDITIONAL:
            request.expected_revision = self._revisions.get(session, 1)
        await self._write("put", session, items, request, self._chance.random() >= KEYLESS)

    async def _batch(self) -> None:
        await self._put(MOST_OF_A_BATCH)

    async def _puts(self) -> None:
        """Puts of several sessions in one call, which is made again while one is in doubt."""
        puts, writes = [], []
        for _ in range(self._chance.randint(2, MOST_PUTS)):
            session = self._session()
            items, messages = self._messages(session, self._chance.randint(1, 2))
            name = f"c{self._number}-{self._next_number()}"
            puts.append(wire.PutRequest(session_id=session, messages=messages, request_id=name))
            writes.append({"request": name, "items": items, "keyed": True,
                           "roles": "".join(message.role[0] for message in messages)})
        for _ in range(MOST_ATTEMPTS):
            reply, called = await self._call("puts", "", wire.PutBatchRequest(puts=puts))
            outcomes = [None] * len(puts) if reply is None else reply.outcomes
            records = [{**called, **write, "op": "put", "session": put.session_id}
                       for put, write in zip(puts, writes, strict=True)]
            for record, write, outcome in zip(records, writes, outcomes, strict=True):
                if outcome is not None and outcome.HasField("error"):
                    code = CODES[outcome.error.code].name
                    record.update(outcome=history.outcome_of(code, outcome.error.reason),
                                  code=code, reason=outcome.error.reason)
                elif outcome is not None:
                    self._note_write(record, outcome.reply, write)
                self._writer.add(record)
            if all(record["outcome"] != "unknown" for record in records):
                return

    async def _set(self) -> None:
        session = await self._session_to_wipe()
        items, messages = self._messages(session, self._chance.randint(0, MOST_OF_A_SET))
        held, contents = self._contents_of(session, self._chance.choice((0, 0, 0, 2)))
        request = wire.SetRequest(session_id=session, messages=messages, contents=contents)
        await self._write("set", session, items, request, keyed=True, contents=held,
                          wipes_contents=True)

    async def _reset(self) -> None:
        session = await self._session_to_wipe()
        scope = self._chance.choice((wire.RESET_SCOPE_UNSPECIFIED, wire.RESET_SCOPE_MESSAGES))
        request = wire.ResetRequest(session_id=session, scope=scope)
        await self._write("reset", session, [], request, keyed=True,
                          wipes_contents=scope == wire.RESET_SCOPE_UNSPECIFIED)

    async def _contents(self) -> None:
        """Puts contents, and often messages with them."""
        session = self._session()
        items, messages = self._messages(session, int(self._chance.random() < WITH_MESSAGES))
        held, contents = self._contents_of(session, self._chance.randint(1, 3))
        request = wire.PutRequest(session_id=session, messages=messages, contents=contents)
        await self._write("put", session, items, request, self._chance.random() >= KEYLESS,
                          contents=held)

    async def _configure(self) -> None:
        """Gives a session another subject, which nothing depends on."""
        session = self._session()
        self._sent += 1
        value = f"c{self._number}-{self._sent}"
        request = session_wire.UpdateSessionRequest(
            session_id=session, config=memory.SessionConfig(subject=value))
        await self._write("configure", session, [], request, keyed=True, value=value)

    async def _configuration(self) -> None:
        session = self._session()
        reply, record = await self._call("configuration", session,
                                         session_wire.GetSessionRequest(session_id=session))
        if reply is not None:
            record.update(revision=reply.session.revision, value=reply.session.config.subject)
        self._writer.add(record)

    async def _update(self) -> None:
        session, message_id, item = self._message_read()
        if not message_id:
            return
        self._sent += 1
        text = self._texts.edition(self._sender(session), item, self._sent, self._size(session))
        request = wire.UpdateMessageRequest(session_id=session, message_id=message_id, text=text)
        await self._write("update", session, [], request, keyed=True, target=item,
                          edition=bodies.item_of(text))

    async def _delete(self) -> None:
        session, message_id, item = self._message_read()
        if not message_id:
            return
        request = wire.DeleteMessageRequest(session_id=session, message_id=message_id)
        await self._write("delete", session, [], request, keyed=True, target=item)

    def _message_read(self) -> tuple[str, str, str]:
        """Session, id and item of a message that was read a while ago, perhaps changed, deleted or
        wiped since; no id where there is none. What blocks took in is counted at the end, so it
        stays as it is."""
        session = self._session()
        message_id, item = self._shown.pop(session, ("", ""))
        if item == "foreign" or session in self._settings.with_jobs:
            return session, "", ""
        return session, message_id, bodies.original(item)

    async def _get(self) -> None:
        session = self._session()
        reply, record = await self._call("get", session, wire.GetRequest(session_id=session))
        if reply is not None:
            record["revision"] = reply.revision
            self._note_messages(record, reply.messages)
            shown = [message.message_id for message in reply.messages if message.message_id]
            if shown:
                at = self._chance.randrange(len(shown))
                self._shown[session] = shown[at], record["items"][at]
        self._writer.add(record)

    async def _getall(self, session: str = "") -> None:
        session = session or self._session()
        latest = self._latest.get(session, (0, 0, ""))[0]
        whole = (session in self._settings.turning or latest < WHOLE_SESSION
                 or self._chance.random() < RARELY)
        size = 1000 if whole else self._chance.randint(1, 100)
        with_contents = whole and self._chance.random() < WITH_CONTENTS
        record: Record = {}
        messages, contents, token = [], [], ""
        while True:
            request = wire.GetAllRequest(session_id=session, page_size=size, page_token=token,
                                         include_contents=with_contents)
            reply, page = await self._call("getall", session, request)
            record = {**page, "invoke_ns": record.get("invoke_ns", page["invoke_ns"])}
            if reply is None:
                break
            messages += reply.messages
            contents += reply.contents
            token = reply.next_page_token
            if not token or not whole:
                record["complete"] = not token
                self._note_messages(record, messages)
                if with_contents:
                    note_contents(record, contents, self._sender(session))
                break
        self._writer.add(record)

    async def _stream(self) -> None:
        """What GetAll would show page by page, in either order."""
        session, _ = self._session_to_copy()
        with_contents = self._chance.random() < WITH_CONTENTS
        order = self._chance.choice(ORDERS)
        pages, record = await self._call("stream", session, wire.StreamAllRequest(
            session_id=session, page_size=self._chance.randint(1, 1000),
            include_contents=with_contents, order=order))
        record.update(op="getall", complete=True)
        if pages is not None:
            messages = [m for page in pages for m in page.messages]
            self._note_messages(record, oldest_first(messages, order))
            if with_contents:
                contents = [c for page in pages for c in page.contents]
                note_contents(record, oldest_first(contents, order), self._sender(session))
        self._writer.add(record)

    async def _filtered(self) -> None:
        """All messages of one role, by GetAll or StreamAll."""
        session, _ = self._session_to_copy()
        role = self._chance.choice(ROLES)
        chosen = filter_wire.Filter(roles=[role])
        order = self._chance.choice(ORDERS)
        if self._chance.random() < 0.5:
            pages, record = await self._call("stream", session, wire.StreamAllRequest(
                session_id=session, filter=chosen, order=order))
            messages = [m for page in pages or () for m in page.messages]
            record["op"] = "filtered"
        else:
            found, record, last = await self._whole(
                session, "filtered", filter=chosen, order=order,
                page_size=self._chance.randint(10, 1000))
            record["return_ns"], messages = last["return_ns"], found or []
            record["outcome"] = last["outcome"]
        record["role"] = role
        self._note_messages(record, oldest_first(messages, order))
        self._writer.add(record)

    async def _kept(self) -> None:
        """A session that keeps its newest messages alone: nothing else than puts and reads."""
        session = self._chance.choice(self._settings.kept)
        chance = self._chance.random()
        if chance < 0.6:
            items, messages = self._messages(session, self._chance.randint(1, 6))
            await self._write("put", session, items,
                              wire.PutRequest(session_id=session, messages=messages),
                              self._chance.random() >= KEYLESS, keeps=KEPT)
            return
        if chance < 0.8:
            reply, record = await self._call("get", session, wire.GetRequest(session_id=session))
            if reply is not None:
                record["revision"] = reply.revision
                self._note_messages(record, reply.messages)
        else:
            messages, record, last = await self._whole(session)
            record.update(outcome=last["outcome"], return_ns=last["return_ns"], complete=True)
            self._note_messages(record, messages or [])
        self._writer.add({**record, "keeps": KEPT})

    async def _brief(self) -> None:
        """A session that is gone when nobody has called it for a while, and is made anew."""
        if not self._settings.brief or int(time.monotonic() / PAUSE_SECONDS) % 2:
            return
        index = self._chance.randrange(len(self._settings.brief))
        session = self._settings.brief[index]
        if self._chance.random() < 0.6:
            config = memory.SessionConfig(tokenizer="whitespace", retention=memory.Retention(
                session_ttl={"seconds": BRIEF_SECONDS},
                refresh_on_read=index >= len(self._settings.brief) // 2))
            items, messages = self._messages(session, self._chance.randint(1, 3))
            await self._write("put", session, items, wire.PutRequest(
                session_id=session, messages=messages, config=config),
                self._chance.random() >= KEYLESS, expires_ns=BRIEF_NS)
            return
        messages, record, last = await self._whole(session)
        record.update(outcome=last["outcome"], return_ns=last["return_ns"])
        note_brief(record, messages or [], self._sender(session))
        self._writer.add(record)

    async def _items(self) -> None:
        await self._item_load.one()

    async def _notes(self) -> None:
        """Changes a fact, undoes a change, or reads all of them."""
        session = self._chance.choice(self._settings.noted)
        place = {"session_id": session, "block": NOTES}
        chance = self._chance.random()
        if chance < 0.4 or not self._changes:
            reply, record = await self._call("facts", session, block_wire.GetBlockRequest(**place))
            record["notes"] = True
            if reply is not None:
                note_facts(record, reply, self._tenant)
                self._facts = [fact.fact_id for fact in reply.facts.facts]
                self._changes = [fact.change for fact in reply.facts.facts]
                self._changes += [past.change for past in reply.facts.history[-10:]]
            self._writer.add(record)
            if reply is None or self._changes:
                return
        self._sent += 1
        text = f"{note_of(self._tenant)} client {self._number} number {self._sent}"
        if chance < 0.6 and self._changes:
            undone = self._chance.choice(self._changes)
            await self._write("undo", session, [], block_wire.UndoBlockChangeRequest(
                **place, change=undone), keyed=True, undone=undone, notes=True)
        elif (chance < 0.8 and len(self._facts) < MOST_NOTES) or not self._facts:
            await self._write("add_fact", session, [], block_wire.AddFactRequest(
                **place, text=text), keyed=True, text=text, notes=True)
        elif chance < 0.9:
            fact_id = self._chance.choice(self._facts)
            await self._write("update_fact", session, [], block_wire.UpdateFactRequest(
                **place, fact_id=fact_id, text=text), keyed=True, fact_id=fact_id, text=text,
                notes=True)
        else:
            fact_id = self._chance.choice(self._facts)
            await self._write("delete_fact", session, [], block_wire.DeleteFactRequest(
                **place, fact_id=fact_id), keyed=True, fact_id=fact_id, notes=True)

    async def _fork(self) -> None:
        """Copies a session. What the copy shows is what the session held at one moment of the call,
        so it is noted as a read of the session."""
        session, copy = self._session_to_copy()
        reply, record = await self._call("fork", session, session_wire.ForkSessionRequest(
            session_id=session, new_session_id=copy))
        messages, _, last = await self._whole(copy)
        if messages is None or (reply is None and not messages):
            return
        if record["outcome"] == "fail":
            record["foreign"] = [f"a copy that was refused: {messages[0].text}"]
        if reply is None:
            # It was made after all, at some time.
            record["return_ns"] = last["return_ns"]
        self._note_copy(record, messages)
        await self._call("drop", copy, session_wire.DeleteSessionRequest(session_id=copy))

    async def _import(self) -> None:
        """Reads a session, imports it under another id, and erases that. What the copy shows is
        noted as what the read has shown."""
        session, copy = self._session_to_copy()
        read, first, last = await self._whole(session)
        if not read:
            return
        reply, record = await self._call("import", session, list(_import_of(copy, read)))
        messages, _, _ = await self._whole(copy)
        if messages is None or (reply is None and not messages):
            return
        record["invoke_ns"], record["return_ns"] = first["invoke_ns"], last["return_ns"]
        if record["outcome"] == "fail":
            record["foreign"] = [f"an import that was refused: {messages[0].text}"]
        elif [m.message_id for m in messages] != [m.message_id for m in read]:
            record["foreign"] = [f"{len(messages)} messages of an import of {len(read)}"]
        self._note_copy(record, messages)
        erased = None
        for _ in range(MOST_ATTEMPTS):
            erased, _ = await self._call("erase", copy,
                                         session_wire.EraseSubjectRequest(subject=copy))
            if erased is not None and erased.purged:
                break
        # One whose outcome is not known may come yet.
        if reply is not None and erased is not None and erased.purged:
            left, first, last = await self._whole(copy)
            if left:
                self._writer.add({**first, "session": session, "return_ns": last["return_ns"],
                                  "outcome": "ok", "items": [], "positions": [], "op": "query",
                                  "foreign": [f"what was erased: {left[0].text[:100]}"]})

    def _session_to_copy(self) -> tuple[str, str]:
        """A session of some length at most, and an id for its copy."""
        session = self._session()
        if (session in self._settings.with_jobs
                or self._latest.get(session, (0, 0, ""))[0] > MOST_COPIED):
            session = self._chance.choice(self._settings.turning)
        self._sent += 1
        return session, f"{session}-copy-c{self._number}-{self._sent}"

    def _note_copy(self, record: Record, messages: list[memory.Message]) -> None:
        record.update(op="getall", outcome="ok", complete=True, copy=True)
        self._note_messages(record, messages)
        self._writer.add(record)

    async def _whole(self, session: str, operation: str = "getall", page_size: int = 1000, **fields: Any
                     ) -> tuple[list[memory.Message] | None, Record, Record]:
        """All messages of a session, None when it could not be read; and its first and last call."""
        messages: list[memory.Message] = []
        token, failed = "", 0
        first: Record = {}
        while True:
            request = wire.GetAllRequest(session_id=session, page_size=page_size, page_token=token,
                                         **fields)
            reply, page = await self._call(operation, session, request)
            if reply is None:
                failed += 1
                if failed == MOST_ATTEMPTS or page["reason"] == "SESSION_REPLACED":
                    return None, first or page, page
                continue
            first = first or page
            messages += reply.messages
            token = reply.next_page_token
            if not token:
                return messages, first, page

    async def _query(self) -> None:
        session = self._session()
        _, number, item = self._latest.get(session, (0, 0, ""))
        # What blocks know may stand before what is wanted.
        with_blocks = self._chance.random() < 0.3
        request = wire.QueryRequest(session_id=session, query=bodies.word(self._number, number),
                                    top_k=3, without_blocks=not with_blocks)
        reply, record = await self._call("query", session, request)
        record["wanted"] = "" if with_blocks else item
        if reply is not None:
            record["revision"] = reply.revision
            self._note_messages(record, [result.message for result in reply.results
                                         if result.HasField("message") and not result.session_id])
        self._writer.add(record)

    # What they have in common.

    def _session(self) -> str:
        return self._chance.choices(self._settings.sessions, self._weights)[0]

    async def _session_to_wipe(self) -> str:
        """One of those that are wiped, often read as a whole before."""
        session = self._chance.choice(self._settings.turning)
        if self._chance.random() < 0.5:
            await self._getall(session)
        return session

    def _messages(self, session: str, count: int) -> tuple[list[str], list[memory.Message]]:
        """Items, and messages that hold them."""
        messages = []
        for _ in range(count):
            self._sent += 1
            text = self._texts.text(self._sender(session), self._sent, self._size(session))
            role = self._chance.choice(ROLES)
            messages.append(memory.Message(role=role, text=text))
        return [bodies.item_of(message.text) for message in messages], messages

    def _contents_of(self, session: str, count: int) -> tuple[list[str], list[memory.Content]]:
        """As _messages()."""
        items, messages = self._messages(session, count)
        return items, [memory.Content(mime_type="text/plain", text=m.text) for m in messages]

    def _sender(self, session: str) -> bodies.Sender:
        return bodies.Sender(self._tenant, session, self._number, self._settings.seed)

    def _size(self, session: str) -> int:
        sizes = (SMALL,) if session in self._settings.with_jobs else SIZES
        least, most = self._chance.choices([s for s, _ in sizes], [w for _, w in sizes])[0]
        return int(math.exp(self._chance.uniform(math.log(max(1, least)), math.log(most))))

    async def _write(self, operation: str, session: str, items: list[str], request: Any,
                     keyed: bool, **fields: Any) -> None:
        """Sends a write; one with a key perhaps several times, and certainly again where a wipe is
        in doubt: what nobody knows of it excuses too much."""
        self._sent += 1
        name = f"c{self._number}-{self._sent}"
        if keyed:
            request.request_id = name
        write = {"request": name, "items": items, "keyed": keyed, **fields}
        if items:
            write["roles"] = "".join(message.role[0] for message in request.messages)
        chance = self._chance.random()
        if keyed and chance < CONCURRENT:
            outcomes = await asyncio.gather(
                *(self._attempt(operation, session, request, write, replica)
                  for replica in self._two_replicas()))
        else:
            outcomes = [await self._attempt(operation, session, request, write)]
        again = keyed and CONCURRENT <= chance < CONCURRENT + RETRIED
        settle = keyed and (operation != "put" or self._chance.random() < 0.7)
        for _ in range(MOST_ATTEMPTS):
            if not again and not (settle and "ok" not in outcomes and "unknown" in outcomes):
                break
            again = False
            outcomes.append(await self._attempt(operation, session, request, write))
        if keyed and operation == "put" and "ok" in outcomes and chance > 1 - OTHER_BODY:
            others, messages = self._messages(session, 1)
            other = wire.PutRequest(session_id=session, messages=messages, request_id=name)
            await self._attempt("put", session, other, {
                **fields, "request": name + "!", "items": others, "contents": [], "keyed": True,
                "must_fail": True})

    def _next_number(self) -> int:
        self._sent += 1
        return self._sent

    def _two_replicas(self) -> list[int]:
        numbers = range(len(self._replicas))
        return self._chance.sample(numbers, 2) if len(numbers) > 1 else [0, 0]

    async def _attempt(self, operation: str, session: str, request: Any, write: Record,
                       replica: int | None = None) -> str:
        reply, record = await self._call(operation, session, request, replica)
        record.update(write)
        if reply is not None:
            self._note_write(record, reply, write)
        self._writer.add(record)
        return record["outcome"]

    def _note_write(self, record: Record, reply: Any, write: Record) -> None:
        """Notes what an acknowledged write says."""
        operation, session = record["op"], record["session"]
        if operation == "configure":
            record.update(revision=reply.session.revision, replayed=reply.replayed)
        elif operation in facts.CHANGES:
            note_change(record, reply)
        else:
            record.update(revision=reply.revision, replayed=reply.replayed)
            if operation not in ("update", "delete"):
                record["generation"] = f"{reply.generation:x}"
            if operation == "reset":
                record["removed"] = reply.active_count + reply.archived_count
            elif operation == "update":
                record["position"] = reply.position
            elif operation != "delete":
                record["positions"] = list(reply.positions)
            if operation == "set":
                record["removed"] = reply.removed_count
            self._revisions[session] = reply.revision
            if write["items"] and not write.get("must_fail") and record["positions"]:
                number = int(write["items"][-1].split(":")[0].split(".")[1])
                self._latest[session] = (record["positions"][-1], number, write["items"][-1])

    async def _call(self, operation: str, session: str, request: Any,
                    replica: int | None = None) -> tuple[Any, Record]:
        """The reply, None for an error, and the record so far."""
        if replica is None:
            replica = self._chance.randrange(len(self._replicas))
        seconds = math.exp(self._chance.uniform(math.log(SHORTEST_SECONDS),
                                                math.log(LONGEST_SECONDS)))
        record: Record = {"op": operation, "tenant": self._tenant, "session": session,
                          "client": self._number, "replica": replica,
                          "invoke_ns": time.monotonic_ns()}
        reply, code, reason = None, "OK", ""
        try:
            # A server that is down is waited for: what was never sent has an unknown outcome too.
            call = self._replicas[replica].calls[operation](
                request, timeout=seconds, metadata=self._metadata, wait_for_ready=True)
            reply = [page async for page in call] if operation == "stream" else await call
        except grpc.aio.AioRpcError as error:
            info = error_info(error)
            code, reason = error.code().name, info.reason
            if reason == "VERSION_MISMATCH":
                record["stored"] = int(info.metadata["version"])
            said = f"{error.details()} {error.trailing_metadata()}"
            if bodies.MARKER in said:
                record["leaks"] = [said]
        except asyncio.CancelledError:
            # A stream that the server ends between two of its requests is cancelled by gRPC's own
            # writer, and what the server said is lost.
            task = asyncio.current_task()
            if operation != "import" or task is None or task.cancelling():
                raise
            code = "CANCELLED"
        record["return_ns"] = time.monotonic_ns()
        record["outcome"] = history.outcome_of(code, reason)
        if reply is None:
            record.update(code=code, reason=reason)
        if code == "UNAVAILABLE":
            await asyncio.sleep(AWAY_SECONDS)
        return reply, record

    def _note_messages(self, record: Record, messages: Any) -> None:
        note_messages(record, messages, self._sender(record["session"]))


def _import_of(copy: str, messages: list[memory.Message]
               ) -> Iterator[session_wire.ImportSessionRequest]:
    """A session of these messages, whose subject has its own id as the name."""
    yield session_wire.ImportSessionRequest(begin=session_wire.ImportBegin(
        session_id=copy, config=memory.SessionConfig(subject=copy)))
    piece = session_wire.ImportItems()
    for message in messages:
        piece.messages.append(message)
        if piece.ByteSize() > IMPORTED_BYTES or len(piece.messages) == 1000:
            yield session_wire.ImportSessionRequest(items=piece)
            piece = session_wire.ImportItems()
    yield session_wire.ImportSessionRequest(items=piece)
    yield session_wire.ImportSessionRequest(
        end=session_wire.ImportEnd(message_count=len(messages)))


def oldest_first(items: list[Any], order: wire.MessageOrder) -> list[Any]:
    """What a read in this order returned, as the checker wants it; it tells items out of order."""
    return items[::-1] if order == wire.MESSAGE_ORDER_NEWEST_FIRST else items


def note_contents(record: Record, contents: Any, sender: bodies.Sender) -> None:
    """As note_messages(), of all contents of a session."""
    record["content_positions"] = [content.position for content in contents]
    record["contents"] = [bodies.item_of(c.text) if bodies.is_of(c.text, sender) else "foreign"
                          for c in contents]
    foreign = [c.text[:200] for c in contents if not bodies.is_of(c.text, sender)]
    if foreign:
        record["foreign"] = record.get("foreign", []) + foreign


def note_brief(record: Record, messages: Any, sender: bodies.Sender) -> None:
    """As note_messages(), of a session that expires."""
    note_messages(record, messages, sender)
    record["expires_ns"] = BRIEF_NS
    record["generations"] = sorted({f"{int(message.message_id.rpartition('-')[0], 16):x}"
                                    for message in messages})


def note_of(tenant: str) -> str:
    """How the facts of a tenant begin."""
    return f"{bodies.MARKER} of {tenant}"


def note_change(record: Record, reply: Any) -> None:
    """Notes what an acknowledged change of facts says."""
    record.update(revision=reply.revision, replayed=reply.replayed)
    if record["op"] == "undo":
        record["facts"] = [[fact.fact_id, fact.text, fact.change] for fact in reply.facts]
    else:
        record.update(change=reply.change, fact_id=reply.fact.fact_id)


def note_facts(record: Record, reply: Any, tenant: str) -> None:
    """Notes what a GetBlock shows of a tenant's facts."""
    record.update(
        notes=True, revision=reply.revision,
        facts=[[fact.fact_id, fact.text, fact.change] for fact in reply.facts.facts],
        past=[[past.change, past.fact.fact_id, past.fact.text, past.fact.change,
               list(past.brought)] for past in reply.facts.history])
    foreign = [fact.text for fact in reply.facts.facts
               if not fact.text.startswith(f"{note_of(tenant)} client ")]
    if foreign:
        record["foreign"] = foreign


def note_messages(record: Record, messages: Any, sender: bodies.Sender) -> None:
    """Notes in the record of a read the messages of its reply that were put. `sender` is of their
    tenant, session and run. What is foreign joins what the record has of that."""
    positions, items, foreign = [], [], []
    for message in messages:
        if not message.message_id:  # What blocks say.
            continue
        # What blocks say may stand ahead of the message's own part.
        text = message.text if message.HasField("text") else message.parts[-1].text
        positions.append(message.position)
        if bodies.is_of(text, sender):
            items.append(bodies.item_of(text))
        else:
            items.append("foreign")
            foreign.append(text[:200])
    if positions and positions == list(range(positions[0], positions[0] + len(positions))):
        record["first"] = positions[0]
    else:
        record["positions"] = positions
    record["items"] = items
    if foreign:
        record["foreign"] = record.get("foreign", []) + foreign


async def _run(settings: Settings, end_ns: int, texts: bodies.Bodies,
               writer: history.Writer) -> None:
    replicas = [Replica(target) for target in settings.targets]
    numbers = range(settings.process, settings.clients, settings.processes)
    clients = [Client(settings, number, end_ns, replicas, texts, writer) for number in numbers]
    try:
        await asyncio.gather(*(client.run() for client in clients))
    finally:
        for replica in replicas:
            await replica.channel.close()


def main() -> int:
    settings = Settings.read(pathlib.Path(sys.argv[1]))
    texts = bodies.Bodies(settings.seed)
    print("ready", flush=True)
    end_ns = int(sys.stdin.readline())
    with history.Writer(pathlib.Path(settings.history)) as writer:
        asyncio.run(_run(settings, end_ns, texts, writer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
