"""Histories of a server that keeps every promise, made without one, for the checker's own tests."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

from torture.bodies import original
from torture.history import Record

TENANTS = ("t0", "t1")
SESSIONS = ("s0", "s1", "s2")
# Only this one is set and reset.
_TURNING = "s0"
_WINDOW = 12
# Every so many revisions all but the newest item leave what Get shows.
_FLUSHED = 5
_PAGE = 8
_CALL_TIME = 1000


@dataclasses.dataclass
class State:
    """A session as the server has it."""

    revision: int = 1
    generation: int = 1
    next_position: int = 1
    watermark: int = 1
    items: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    replies: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    next_content: int = 1
    contents: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    roles: dict[str, str] = dataclasses.field(default_factory=dict)  # First letters, by item.
    value: str = ""
    keeps: int = 0  # Newest messages; 0: all.

    def write(self, record: Record) -> dict[str, Any]:
        """Does a write, unless its request is done already, and says what the reply says."""
        if record["request"] in self.replies:
            return {**self.replies[record["request"]], "replayed": True}
        removed = None
        if record["op"] == "delete":
            if not self.delete(record["target"]):
                return {"outcome": "fail", "code": "NOT_FOUND"}
        elif record["op"] == "update":
            found = self.update(record["target"], record["edition"])
            if not found:
                return {"outcome": "fail", "code": "NOT_FOUND"}
        elif record["op"] == "configure":
            self.configure(record["value"])
        elif record["op"] != "put":
            if record.get("wipes_contents"):
                self.contents = []
            removed = len(self.items)
            self.wipe()
        positions = self.append(record["items"])
        self.roles.update(zip(record["items"], record.get("roles", ""), strict=False))
        self.put_contents(record.get("contents", []))
        self.revision += 1
        reply = {"revision": self.revision, "generation": str(self.generation),
                 "positions": positions, "removed": removed, "replayed": False}
        if record["op"] == "update":
            reply["position"] = found
        self.replies[record["request"]] = reply
        return reply

    def configure(self, value: str) -> None:
        self.value = value

    def put_contents(self, contents: list[str]) -> None:
        for content in contents:
            self.contents.append((self.next_content, content))
            self.next_content += 1

    def retire(self) -> None:
        """Takes out what is more than is kept."""
        if self.keeps:
            self.items = self.items[-self.keeps:]

    def wipe(self) -> None:
        self.items = []
        self.generation += 1

    def delete(self, target: str) -> bool:
        """Whether there was such an item."""
        before = len(self.items)
        self.items = [pair for pair in self.items if original(pair[1]) != target]
        return len(self.items) < before

    def update(self, target: str, edition: str) -> int:
        """Where the item is; 0 when it is nowhere."""
        at = next((i for i, pair in enumerate(self.items) if original(pair[1]) == target), None)
        if at is None:
            return 0
        self.items[at] = (self.items[at][0], edition)
        return self.items[at][0]

    def append(self, items: list[str]) -> list[int]:
        """Stores items and says where they are."""
        first = self.next_position
        self.next_position += len(items)
        positions = list(range(first, self.next_position))
        self.items += zip(positions, items, strict=True)
        if items and self.revision % _FLUSHED == 0:
            self.watermark = positions[-1]
        self.retire()
        return positions

    def read(self, record: Record, chance: random.Random) -> dict[str, Any]:
        shown = self.items
        reply: dict[str, Any] = {}
        if record["op"] == "configuration":
            return {"revision": self.revision, "value": self.value}
        if record["op"] == "get":
            # As the end of a job does.
            self.revision += chance.random() < 0.2
            shown = [pair for pair in shown if pair[0] >= self.watermark][-_WINDOW:]
        elif record["op"] == "getall":
            reply["complete"] = chance.random() < 0.7
            shown = shown if reply["complete"] else shown[:_PAGE]
        elif record["op"] == "query":
            shown = [pair for pair in shown
                     if original(pair[1]) == record["wanted"] or chance.random() < 0.1]
            chance.shuffle(shown)
        elif record["op"] == "filtered":
            shown = self.of_role(record["role"])
        if record.get("with_contents"):
            reply["content_positions"] = [position for position, _ in self.contents]
            reply["contents"] = [item for _, item in self.contents]
        if record["op"] in ("get", "query"):
            reply["revision"] = self.revision
        reply["positions"] = [position for position, _ in shown]
        reply["items"] = [item for _, item in shown]
        return reply


    def of_role(self, role: str) -> list[tuple[int, str]]:
        return [pair for pair in self.items if self.roles[original(pair[1])] == role[0]]


class SimulatedServer:
    """Clients and a server in simulated time. A call takes effect at one moment between its begin
    and its end, or, when its outcome is unknown, at any time from its begin on, or never."""

    def __init__(self, seed: int, unknown: float = 0.1, state: Callable[[], State] = State,
                 deletes: int = 4, updates: int = 4, others: int = 0, keeps: int = 0) -> None:
        """Of a hundred calls so many delete or update a message; about as many more as `others` write
        contents and configurations, and read these and the messages of a role. With `keeps` sessions
        have their newest messages alone, and are put to and read only."""
        self._chance = random.Random(seed)
        self._unknown = unknown
        self._deletes = deletes
        self._updates = updates
        self._others = others
        self._keeps = keeps
        self._states = {(t, s): state() for t in TENANTS for s in SESSIONS}
        for kept in self._states.values():
            kept.keeps = keeps
        self._records: list[Record] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._ties = itertools.count()
        self._numbers = itertools.count()
        self._time = 0
        self._left = 0

    def run(self, calls: int, clients: int = 6) -> list[Record]:
        """The history of about so many calls, and of a final read of every session."""
        self._left = calls
        for client in range(clients):
            self._later(client, functools.partial(self._begin, client))
        while self._events:
            self._time, _, event = heapq.heappop(self._events)
            event()
        for tenant, session in self._states:
            final = self._record("final", 0, tenant, session)
            self._attempt({**final, "with_contents": True} if self._others else final,
                          lambda: None, certain=True)
        while self._events:
            self._time, _, event = heapq.heappop(self._events)
            event()
        return self._records

    def _later(self, delay: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._time + 1 + int(delay), next(self._ties), event))

    def _record(self, op: str, client: int, tenant: str, session: str) -> Record:
        record = {"op": op, "tenant": tenant, "session": session, "client": client, "replica": 0}
        if self._keeps:
            record["keeps"] = self._keeps
        return record

    def _begin(self, client: int) -> None:
        """The next call of a client, or several of one request."""
        if self._left <= 0:
            return
        self._left -= 1
        record = self._choose(client)
        again = functools.partial(self._begin, client)
        if "request" not in record:
            self._attempt(record, again)
            return
        kind = self._chance.random()
        if kind < 0.1:
            self._attempt(record, lambda: self._attempt(dict(record), again))
        elif kind < 0.15:
            self._attempt(dict(record), lambda: None)
            self._attempt(record, again)
        elif kind < 0.17 and record["items"]:
            other = {**record, "request": record["request"] + "!", "must_fail": True,
                     "items": [self._item(client)], "roles": "u"}
            self._attempt(record, lambda: self._attempt(other, again, refused=True), certain=True)
        else:
            self._attempt(record, again)

    def _choose(self, client: int) -> Record:
        chance = self._chance
        tenant = TENANTS[client % len(TENANTS)]
        session = chance.choice(SESSIONS)
        op = chance.choices(
            ("put", "batch", "get", "getall", "query", "set", "reset", "update", "delete",
             "contents", "filtered", "configure", "configuration"),
            (55 - self._updates - self._deletes, 8, 14, 8, *((0,) * 5 if self._keeps else (
                5, 6, 4, self._updates, self._deletes)), *(self._others / 4,) * 4))[0]
        if op == "contents":
            return self._put_of_contents(client, tenant, session)
        record = self._record("put" if op == "batch" else op, client, tenant, session)
        if op in ("query", "update", "delete"):
            sent = [r for r in self._records if r["op"] == "put" and r["session"] == session
                    and r["tenant"] == tenant and r["outcome"] == "ok" and r["items"]]
            record["wanted" if op == "query" else "target"] = (
                chance.choice(sent)["items"][0] if sent else "")
        if op == "filtered":
            record["role"] = chance.choice(("user", "assistant"))
        if op == "getall" and self._others:
            record["with_contents"] = True
        if op in ("get", "getall", "query", "filtered", "configuration"):
            return record
        if op == "reset":
            record["wipes_contents"] = bool(self._others) and chance.random() < 0.5
        elif op == "set":
            record["wipes_contents"] = True
        if op in ("set", "reset"):
            record["session"] = _TURNING
        if op == "update":
            record["edition"] = f"{record['target']}+{self._item(client)}"
        counts = {"put": (1, 1), "batch": (2, 5), "set": (0, 4), "reset": (0, 0),
                  "update": (0, 0), "delete": (0, 0), "configure": (0, 0)}
        record["items"] = [self._item(client) for _ in range(chance.randint(*counts[op]))]
        record["roles"] = "".join("ua"[int(item[-1], 16) % 2] for item in record["items"])
        record["request"] = f"{client}-{next(self._numbers)}"
        if op == "configure":
            record["value"] = record["request"]
        return record

    def _put_of_contents(self, client: int, tenant: str, session: str) -> Record:
        contents = [self._item(client) for _ in range(self._chance.randint(1, 3))]
        return {**self._record("put", client, tenant, session), "items": [], "roles": "",
                "contents": contents, "request": f"{client}-{next(self._numbers)}"}

    def _item(self, client: int) -> str:
        number = next(self._numbers)
        return f"{client}.{number}:{number:08x}"

    def _attempt(self, record: Record, then: Callable[[], None], *, certain: bool = False,
                 refused: bool = False) -> None:
        chance = self._chance
        record["invoke_ns"] = self._time
        outcome = "fail" if refused else "ok"
        if not certain and not refused:
            outcome = chance.choices(("ok", "unknown", "fail"),
                                     (0.97 - self._unknown, self._unknown, 0.03))[0]
        effect = chance.randrange(_CALL_TIME)
        took = effect + chance.randrange(_CALL_TIME)
        if outcome == "unknown":
            took = chance.randrange(_CALL_TIME)
            effect = chance.randrange(10 * _CALL_TIME)
        reply: dict[str, Any] = {}

        def act() -> None:
            state = self._states[record["tenant"], record["session"]]
            if "request" in record:
                reply.update(state.write(record))
            else:
                reply.update(state.read(record, chance))

        def end() -> None:
            record.update(outcome=outcome, return_ns=self._time)
            if outcome == "ok":
                record.update(reply)
            self._records.append(record)
            then()

        if outcome == "ok" or (outcome == "unknown" and chance.random() < 0.5):
            self._later(effect, act)
        self._later(took + 1, end)
