"""The sessions of adapters that begin as a template says."""

from __future__ import annotations

from memoryd.aio import AsyncClient
from memoryd.client import Client
from memoryd.errors import MemorydError


def make(client: Client, session_id: str, template: str) -> None:
    """Makes the session from the template, unless it is there or the name is empty."""
    if not template:
        return
    try:
        client.create_session(session_id, template=template)
    except MemorydError as error:
        _is_there_or_raise(error)


async def amake(client: AsyncClient, session_id: str, template: str) -> None:
    """make(), without holding the event loop up."""
    if not template:
        return
    try:
        await client.create_session(session_id, template=template)
    except MemorydError as error:
        _is_there_or_raise(error)


def _is_there_or_raise(error: MemorydError) -> None:
    if error.reason != "SESSION_EXISTS":
        raise error
