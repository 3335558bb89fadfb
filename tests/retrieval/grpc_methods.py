"""A server as a method of a harness: `METHODS` has `memoryd` and `memoryd, passages`.

A method is called with the turns of a conversation, a list of dictionaries with `id`, `speaker`, `text`
and perhaps `session`, `caption` and `date` (a datetime), and a question. It returns the turns' ids, the
best first, or pairs of an id and the tokens of the part that is shown. `prepare(turns)` stores the turns,
each list as a session of its own; a list that was not prepared is, when it is first asked.

The server is the one at MEMORYD_TARGET, or one on SQLite in memory that is started from MEMORYD_TEST_BINARY
(build/bin/memoryd).
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import sys
import uuid
from datetime import timezone

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls, memory
from support.server import Server, open_channel
from support.waiting import wait_for

ROLES = {"user", "assistant", "system", "tool", "developer", "function", "human", "ai"}
TOP = 200  # As many as a budget of tokens may pass over.
PUT = 500
PUT_BYTES = 2 << 20


@functools.cache
def calls() -> Calls:
    """Of the server, which is started when it is first needed."""
    if target := os.environ.get("MEMORYD_TARGET"):
        return Calls(open_channel(target))
    server = Server("sqlite::memory:")
    atexit.register(server.stop)
    return Calls(server.channel())


def message(turn: dict) -> memory.Message:
    """What is stored of a turn."""
    text = turn["text"].strip()
    if turn.get("caption"):
        text = f"{text} [image: {turn['caption'].strip()}]"
    said = memory.Message(text=text or ".", thread_id=str(turn.get("session", "")))
    speaker = turn["speaker"]
    if speaker.lower() in ROLES:
        said.role = speaker.lower()
    else:
        said.role, said.name = "user", speaker
    if turn.get("date"):
        said.create_time.FromDatetime(turn["date"].astimezone(timezone.utc)
                                      if turn["date"].tzinfo else turn["date"])
    return said


class Method:
    """Query, with what is given, of sessions with this configuration."""

    def __init__(self, config: memory.SessionConfig | None = None, **fields: object) -> None:
        self._config = config
        self._fields = {"top_k": TOP, **fields}
        self._sessions: dict[int, tuple[str, list]] = {}

    def prepare(self, turns: list) -> None:
        """Stores the turns, in order, and waits until an embedder has seen them."""
        session = f"eval-{uuid.uuid4().hex}"
        # The list is kept, so that no other gets its id().
        self._sessions[id(turns)] = session, turns
        calls().CreateSession(session_id=session, config=self._config)
        batch: list[memory.Message] = []
        size = 0
        for turn in turns:
            said = message(turn)
            if batch and (len(batch) == PUT or size + said.ByteSize() > PUT_BYTES):
                calls().Put(session_id=session, messages=batch)
                batch, size = [], 0
            batch.append(said)
            size += said.ByteSize()
        calls().Put(session_id=session, messages=batch)
        wait_for(lambda: calls().Query(session_id=session, query="a").pending_embeddings == 0,
                 attempts=360_000)

    def __call__(self, turns: list, question: str) -> list:
        """Ids of the turns found, or pairs with the tokens of what is shown of each."""
        if id(turns) not in self._sessions:
            self.prepare(turns)
        session, _ = self._sessions[id(turns)]
        reply = calls().Query(session_id=session, query=question, **self._fields)
        found = []
        for result in reply.results:
            turn = turns[result.message.position - 1]["id"]
            found.append((turn, max(1, len(result.passage) / 4)) if result.passage else turn)
        return found


METHODS = {"memoryd": Method(), "memoryd, passages": Method(passages=True)}
