"""How much goes into one request, by the server's word, and what follows when one of several is
refused."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TypeVar

import grpc

from memoryd.aio import AsyncClient
from memoryd.client import Client
from memoryd.errors import MemorydError
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import server_service_pb2 as wire

Item = TypeVar("Item", memory.Message, memory.Content)

_MAX_ITEMS = 1000
# Every server takes so much.
UNASKED_BYTES = 3 << 20
# What is around the items of a request takes less.
_OTHER_BYTES = 1 << 20
# What an item costs beside its own bytes.
_ITEM_BYTES = 8
# Codes of a call that may have been done.
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
    if bytes_of(items) > UNASKED_BYTES and client not in _rooms:
        _rooms[client] = room(client.server_info())
    return split(items, _rooms.get(client, UNASKED_BYTES))


async def arequests(client: AsyncClient, items: Iterable[Item]) -> list[list[Item]]:
    """As `requests`."""
    items = list(items)
    if bytes_of(items) > UNASKED_BYTES and client not in _rooms:
        _rooms[client] = room(await client.server_info())
    return split(items, _rooms.get(client, UNASKED_BYTES))


@contextlib.contextmanager
def or_taken_back(client: Client, session_id: str, taken: Sequence[str]) -> Iterator[None]:
    """Deletes these messages again when the server refuses what belongs to them."""
    try:
        yield
    except MemorydError as error:
        if error.code not in UNKNOWN:
            for message_id in taken:
                client.delete_message(session_id, message_id)
        raise


@contextlib.asynccontextmanager
async def aor_taken_back(
    client: AsyncClient, session_id: str, taken: Sequence[str]
) -> AsyncIterator[None]:
    """As `or_taken_back`."""
    try:
        yield
    except MemorydError as error:
        if error.code not in UNKNOWN:
            for message_id in taken:
                await client.delete_message(session_id, message_id)
        raise


def room(info: wire.GetServerInfoResponse) -> int:
    return int(info.limits.request_bytes) - _OTHER_BYTES


def bytes_of(items: Sequence[Item]) -> int:
    return sum(item.ByteSize() + _ITEM_BYTES for item in items)


def split(items: Sequence[Item], room: int) -> list[list[Item]]:
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
