"""Ids as programs have them."""

from __future__ import annotations

import uuid

from memoryd._wire_text import without_halves

# What an adapter takes for the id of a session: a database's number or a UUID is one as well.
Id = str | uuid.UUID | int


def id_text(given: Id) -> str:
    """The id as memoryd has it: a text as it is but for pairs of halves of characters, which are
    joined; a UUID and an int as str() writes them. TypeError for anything else, a bool too, which
    str() would make an id that many share; ValueError for a lone half, which UTF-8 has not."""
    if isinstance(given, str):
        text, halves = without_halves(given)
        if halves:
            raise ValueError(f"an id has no halves of characters, which UTF-8 does not hold, as "
                             f"{given!a} has")
        return text
    if isinstance(given, uuid.UUID | int) and not isinstance(given, bool):
        return str(given)
    raise TypeError(f"an id is a str, a UUID or an int, not {type(given).__name__}")
