"""Requests of 4 MiB that would take some hundred MiB once they are parsed."""

from __future__ import annotations

import dataclasses

from google.protobuf.message import Message

from support.calls import item_wire, memory, session_wire, wire

from memoryd.v1 import filter_pb2 as filter_wire
from memoryd.v1 import worker_service_pb2 as worker_wire

_REQUEST_BYTES = 4_190_000
_UNKNOWN = b"\x7b\x7c"  # An empty group, of field 15.


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _delimited(message: type[Message], field: str, value: bytes) -> bytes:
    number = message.DESCRIPTOR.fields_by_name[field].number
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _filled(entry: bytes) -> bytes:
    return entry * (_REQUEST_BYTES // len(entry))


_PUT = wire.PutRequest(session_id="s").SerializeToString()
_QUERY = wire.QueryRequest(session_id="s", query="x").SerializeToString()


@dataclasses.dataclass(frozen=True)
class Swelling:
    """`field` is the one at fault; empty: fields that the server does not know."""

    method: str
    field: str
    encoded: bytes

    def SerializeToString(self) -> bytes:
        return self.encoded


SWELLING = (
    Swelling("Put", "messages", _PUT + _filled(_delimited(wire.PutRequest, "messages", b""))),
    Swelling("Put", "messages.parts", _PUT + _delimited(
        wire.PutRequest, "messages", _filled(_delimited(memory.Message, "parts", b"")))),
    Swelling("Query", "filter.any_of", _QUERY + _delimited(
        wire.QueryRequest, "filter", _filled(_delimited(filter_wire.Filter, "any_of", b"")))),
    Swelling("StreamAll", "filter.metadata", _PUT + _delimited(
        wire.StreamAllRequest, "filter",
        _filled(_delimited(filter_wire.Filter, "metadata", b"")))),
    Swelling("CreateSession", "config.blocks", _delimited(
        session_wire.CreateSessionRequest, "config",
        _filled(_delimited(memory.SessionConfig, "blocks", b"")))),
    Swelling("ImportSession", "items.messages", _delimited(
        session_wire.ImportSessionRequest, "items",
        _filled(_delimited(session_wire.ImportItems, "messages", b"")))),
    Swelling("ImportNamespace", "items.items", _delimited(
        item_wire.ImportNamespaceRequest, "items",
        _filled(_delimited(item_wire.ImportNamespaceItems, "items", b"")))),
    Swelling("Attach", "hello.blocks", _delimited(
        worker_wire.AttachRequest, "hello",
        _filled(_delimited(worker_wire.WorkerHello, "blocks", b"")))),
    Swelling("Get", "", wire.GetRequest(session_id="s").SerializeToString() + _filled(_UNKNOWN)),
    Swelling("GetServerInfo", "", _filled(_UNKNOWN)),
)
