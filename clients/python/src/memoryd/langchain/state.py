"""Knowledge of a memory besides its messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from memoryd import MemorydError
from memoryd._wire_text import dumps
from memoryd.langchain.connection import Connection, connection_of
from memoryd.langchain.messages import text_message, text_of
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire

Result = TypeVar("Result")
Values = dict[str, Any]


class State:
    """A JSON object, at most as large as a request. It is the only message of a session of its own.

    It is read together with the session's revision, and written only if that revision is still
    current.
    """

    def __init__(self, session_id: str, target: str | Connection | None) -> None:
        self.session_id = session_id
        self._target = target

    def read(self) -> tuple[Values, int]:
        """Returns the object, empty if there is none, and its revision."""
        return _values(connection_of(self._target).client.get(self.session_id))

    async def aread(self) -> tuple[Values, int]:
        return _values(await connection_of(self._target).async_client.get(self.session_id))

    def write(self, values: Values, revision: int) -> bool:
        """Writes the object. Returns False, and does nothing, if another client has written since
        that revision."""
        try:
            connection_of(self._target).client.set(
                self.session_id, [_message(values)], expected_revision=revision)
        except MemorydError as error:
            return _or_raise(error)
        return True

    async def awrite(self, values: Values, revision: int) -> bool:
        try:
            await connection_of(self._target).async_client.set(
                self.session_id, [_message(values)], expected_revision=revision)
        except MemorydError as error:
            return _or_raise(error)
        return True

    def change(self, changed: Callable[[Values], Result]) -> Result:
        """Calls `changed` with the object, to change it; again if another client was faster."""
        while True:
            values, revision = self.read()
            before = json.dumps(values)
            result = changed(values)
            if json.dumps(values) == before or self.write(values, revision):
                return result

    async def achange(self, changed: Callable[[Values], Result]) -> Result:
        while True:
            values, revision = await self.aread()
            before = json.dumps(values)
            result = changed(values)
            if json.dumps(values) == before or await self.awrite(values, revision):
                return result


def _values(reply: wire.GetResponse) -> tuple[Values, int]:
    values: Values = json.loads(text_of(reply.messages[0])) if reply.messages else {}
    return values, reply.revision


def _message(values: Values) -> memory.Message:
    return text_message("state", dumps(values))


def _or_raise(error: MemorydError) -> bool:
    if error.reason != "REVISION_MISMATCH":
        raise error
    return False
