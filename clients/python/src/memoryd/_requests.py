"""How much goes into one request, by the server's word."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TypeVar

import grpc

from memoryd.aio import AsyncClient
from memoryd.client import Client
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import server_service_pb2 as wire

Item = TypeVar("Item", memory.Message, memory.Content)

_MAX_ITEMS = 1000
# Every server takes so much.
_UNASKED_BYTES = 3 << 20
# Of a request, for what is around its items.
_OTHER_BYTES = 1 << 20
# What an item costs beside its own bytes.
_ITEM_BYTES = 8
# What does not say whether a call was done.
UNKNOWN = (
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
)
# What the server of a client has said.
_rooms: weakref.WeakKeyDictionary[Client | AsyncClient, int] = weakref.WeakKeyDictionary()


def requests(client: Client, items: Iterable[Item]) -> list[list[Item]]:
    """The items, in order, as requests hold them; at least one list. One item that no request holds
    is alone, for the server to say so."""
    items = list(items)
    if _bytes(items) > _UNASKED_BYTES and client not in _rooms:
        _rooms[client] = _room(client.server_info())
    return _split(items, _rooms.get(client, _UNASKED_BYTES))


async def arequests(client: AsyncClient, items: Iterable[Item]) -> list[list[Item]]:
    """As `requests`."""
    items = list(items)
    if _bytes(items) > _UNASKED_BYTES and client not in _rooms:
        _rooms[client] = _room(await client.server_info())
    return _split(items, _rooms.get(client, _UNASKED_BYTES))


def _room(info: wire.GetServerInfoResponse) -> int:
    return int(info.limits.request_bytes) - _OTHER_BYTES


def _bytes(items: list[Item]) -> int:
    return sum(item.ByteSize() + _ITEM_BYTES for item in items)


def _split(items: list[Item], room: int) -> list[list[Item]]:
    made: list[list[Item]] = [[]]
    size = 0
    for item in items:
        added = item.ByteSize() + _ITEM_BYTES
        if made[-1] and (len(made[-1]) == _MAX_ITEMS or size + added > room):
            made.append([])
            size = 0
        made[-1].append(item)
        size += added
    return made
