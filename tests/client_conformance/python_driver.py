"""The driver of the Python clients; run.py says what it reads and writes.

usage: python_driver.py sync|asyncio
"""

from __future__ import annotations

import asyncio
import itertools
import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from client_conformance.scripted_server import REQUESTS
from support import paths  # noqa: F401  (makes memoryd importable)

from memoryd import AsyncClient, Client, MemorydError
from memoryd.items import Item
from memoryd.results import Hits
from memoryd.v1 import item_service_pb2, session_service_pb2

# Methods that are not named as their RPC is.
_NAMES = {"AllMessages": "get_all", "GetServerInfo": "server_info"}
_USERS = {"Remember": ("user", "messages"), "Recall": ("user", "query")}
_STREAMS = ("AllMessages", "StreamAll", "WatchSession")


def _snake(name: str) -> str:
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in name).lstrip("_")


def _request(command: dict[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    """The name of the method, and its arguments."""
    rpc = command["call"]
    named: dict[str, Any] = {"timeout": command["timeout"]} if "timeout" in command else {}
    if rpc in _USERS:
        given = dict(command["request"])
        return rpc.lower(), [given.pop(name) for name in _USERS[rpc] if name in given], {**named, **given}
    if rpc == "ImportSession":
        read = [json_format.ParseDict(one, session_service_pb2.ImportSessionRequest())
                for one in command["requests"]]
        items = [one.items for one in read if one.HasField("items")]
        named["messages"] = [message for some in items for message in some.messages]
        return "import_session", [read[0].begin.session_id], named
    request = json_format.ParseDict(command["request"], REQUESTS[{"AllMessages": "GetAll"}.get(rpc, rpc)]())
    fields = {field.name: value for field, value in request.ListFields()}
    for name in ("filter", "order"):
        fields.pop(name, None)
    if "wait" in fields:
        fields["wait"] = fields["wait"].ToTimedelta()
    if rpc in ("PutItem", "GetItem", "DeleteItem"):
        fields |= _item(fields.pop({"PutItem": "put", "GetItem": "get", "DeleteItem": "delete"}[rpc]))
    return _NAMES.get(rpc, _snake(rpc)), [], {**fields, **named}


def _item(operation: Any) -> dict[str, Any]:
    found = {"key": operation.key}
    if isinstance(operation, item_service_pb2.ItemPut):
        found["value"] = json.loads(operation.json)
    if operation.DESCRIPTOR.fields_by_name.get("expected_version") and operation.HasField("expected_version"):
        found["expected_version"] = operation.expected_version
    return found


def _json(result: Any) -> Any:
    if isinstance(result, Message):
        return json_format.MessageToDict(result)
    if isinstance(result, Item):
        return _json(result.wire)
    if isinstance(result, Sequence) and not isinstance(result, (str, Hits)):
        return {"outcomes": [_json(one) for one in result]}
    if hasattr(result, "reply"):
        return _json(result.reply)
    if hasattr(result, "wire"):
        return _json(result.wire)
    return result


def _error(error: MemorydError) -> dict[str, Any]:
    return {"error": {
        "code": error.code.name, "reason": error.reason, "field": error.field, "message": error.message,
        "details": error.details, "may_have_been_done": error.may_have_been_done}}


def _options(given: dict[str, Any]) -> dict[str, Any]:
    options = dict(given)
    tokens = options.pop("tokens", None)
    if tokens:
        left = itertools.chain(tokens, itertools.repeat(tokens[-1]))
        options["token"] = lambda: next(left)
    return options


_CANCELLED = {"error": {"code": "CANCELLED", "reason": "", "field": "", "message": "", "details": {},
                        "may_have_been_done": True}}


def _sync(client: Client, command: dict[str, Any]) -> Any:
    name, given, named = _request(command)
    if "cancel_after" in command:
        return {"unsupported": True}
    result = getattr(client, name)(*given, **named)
    if command["call"] in _STREAMS:
        return [_json(one) for one in itertools.islice(result, command.get("take"))]
    return _json(result)


async def _async(client: AsyncClient, command: dict[str, Any]) -> Any:
    name, given, named = _request(command)
    result = getattr(client, name)(*given, **named)
    if command["call"] in _STREAMS:
        found: list[Any] = []
        async for one in result:
            found.append(_json(one))
            if len(found) == command.get("take"):
                await result.aclose()
                break
        return found
    return _json(await asyncio.wait_for(result, command.get("cancel_after")))


class _Sync:
    def __init__(self) -> None:
        self._client: Client | None = None

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        if "open" in command:
            self._client = Client(**_options(command["open"]))
        elif "close" in command:
            if self._client is not None:
                self._client.close()
        else:
            assert self._client is not None
            try:
                found = _sync(self._client, command)
            except MemorydError as error:
                return _error(error)
            return found if isinstance(found, dict) and "unsupported" in found else {"ok": found}
        return {}


class _Async:
    def __init__(self) -> None:
        self._client: AsyncClient | None = None
        self._loop = asyncio.new_event_loop()

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        return self._loop.run_until_complete(self._do(command))

    async def _do(self, command: dict[str, Any]) -> dict[str, Any]:
        if "open" in command:
            self._client = AsyncClient(**_options(command["open"]))
        elif "close" in command:
            if self._client is not None:
                await self._client.close()
        else:
            assert self._client is not None
            try:
                return {"ok": await _async(self._client, command)}
            except MemorydError as error:
                return _error(error)
            except asyncio.TimeoutError:
                return _CANCELLED
        return {}


def main() -> None:
    do: Callable[[dict[str, Any]], dict[str, Any]] = (_Async() if sys.argv[1] == "asyncio" else _Sync()).do
    for line in sys.stdin:
        print(json.dumps(do(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
