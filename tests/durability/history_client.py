"""One client whose calls are a history that the checker of the torture reads."""

from __future__ import annotations

import pathlib
import sys
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls, memory
from torture import bodies, generator, history

from memoryd.errors import error_info

_TENANT, _NUMBER, _SEED = "default", 0, 1
_TEXTS = bodies.Bodies(_SEED)
# What a call may take on a store that fails: memoryd says so long before.
CALL_SECONDS = 20.0


class HistoryClient:
    """Writes one after the other; `records` is what it saw, as in tests/torture/history.py."""

    def __init__(self) -> None:
        self.records: list[history.Record] = []
        self.codes: set[str] = set()  # Of all errors.
        self._sent = 0

    def put(self, calls: Calls, session: str, sizes: list[int], attempts: int = 1) -> str:
        return self._write("put", calls.Put, session, sizes, attempts)

    def set(self, calls: Calls, session: str, sizes: list[int], attempts: int = 1) -> str:
        return self._write("set", calls.Set, session, sizes, attempts)

    def reset(self, calls: Calls, session: str, attempts: int = 1) -> str:
        return self._write("reset", calls.Reset, session, None, attempts)

    def read_all(self, calls: Calls, session: str) -> None:
        """What the session holds at the end; errors are raised."""
        record = {"op": "final", "complete": True, **self._begin(session)}
        messages = calls.all_messages(session)
        record.update(outcome="ok", return_ns=time.monotonic_ns())
        generator.note_messages(record, messages, self._sender(session))
        self.records.append(record)

    def _begin(self, session: str) -> history.Record:
        return {"tenant": _TENANT, "session": session, "client": _NUMBER, "replica": 0,
                "invoke_ns": time.monotonic_ns()}

    @staticmethod
    def _sender(session: str) -> bodies.Sender:
        return bodies.Sender(_TENANT, session, _NUMBER, _SEED)

    def _write(self, operation: str, call, session: str, sizes: list[int] | None,
               attempts: int) -> str:
        """The outcome of the last attempt. Only an unknown one is followed by another."""
        self._sent += 1
        name, items, fields = f"r{self._sent}", [], {}
        if sizes is not None:
            texts = []
            for size in sizes:
                self._sent += 1
                texts.append(_TEXTS.text(self._sender(session), self._sent, size))
            items = [bodies.item_of(text) for text in texts]
            fields["messages"] = [memory.Message(role="user", text=text) for text in texts]
        outcome = ""
        for _ in range(attempts):
            record = {"op": operation, "request": name, "items": items, "keyed": True,
                      **self._begin(session)}
            outcome = self._attempt(record, call, session_id=session, request_id=name, **fields)
            self.records.append(record)
            if outcome != "unknown":
                break
        return outcome

    def _attempt(self, record: history.Record, call, **fields) -> str:
        code, reason = "OK", ""
        try:
            reply = call(timeout=CALL_SECONDS, **fields)
        except grpc.RpcError as error:
            code, reason = error.code().name, error_info(error).reason
            record.update(code=code, reason=reason)
            self.codes.add(code)
        record["return_ns"] = time.monotonic_ns()
        record["outcome"] = history.outcome_of(code, reason)
        if record["outcome"] == "ok":
            record.update(revision=reply.revision, generation=f"{reply.generation:x}",
                          replayed=reply.replayed)
            if record["op"] == "reset":
                record["removed"] = reply.active_count + reply.archived_count
            else:
                record["positions"] = list(reply.positions)
            if record["op"] == "set":
                record["removed"] = reply.removed_count
        return record["outcome"]
