"""Sessions with an embedder that knows what some words mean, and what is found in them."""

from __future__ import annotations

import math
import re
from typing import Any

from support.calls import Calls, memory, user
from support.model_server import hash_embed
from support.waiting import wait_for

BLOCK = ".retrieval"
# A word for others that mean the same.
MEANINGS = {"hound": "dog", "puppy": "dog", "downpour": "rain"}
LINES = ("My dog is called Rex", "rain all day long", "I like cheese")


def embed(text: str) -> list[float]:
    """The embedding of a text."""
    return hash_embed(" ".join(MEANINGS.get(word, word)
                               for word in re.findall(r"[a-z0-9]+", text.lower())))


def cosine(a: list[float], b: list[float]) -> float:
    """How like each other two vectors are."""
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def config(**fields: Any) -> memory.SessionConfig:
    """Of a session in which nothing but words and embeddings counts."""
    given = {"embedder": "embed", "vector_weight": 0, "length_weight": 0, "user_weight": 0,
             "neighbour_weight": 0, "thread_weight": 0, **fields}
    return memory.SessionConfig(retrieval=memory.Retrieval(**given))


def query(calls: Calls, session_id: str, text: str = "hound", **fields: Any) -> Any:
    """A Query that says how each result was found."""
    return calls.Query(session_id=session_id, query=text, parts_of_score=True, **fields)


def found(calls: Calls, session_id: str, text: str = "hound") -> list[str]:
    """What a query finds in a session whose messages all have their embeddings."""
    reply = query(calls, session_id, text)
    assert not reply.notices and not reply.missing_blocks and not reply.pending_embeddings
    return [result.message.text for result in reply.results]


def settled(calls: Calls, session_id: str) -> None:
    """Waits until every message has its embedding."""
    wait_for(lambda: not query(calls, session_id).notices, 6000)


def put(calls: Calls, session_id: str, *texts: str, **fields: Any) -> Any:
    """A Put of messages of the user."""
    return calls.Put(session_id=session_id, messages=[user(text) for text in texts], **fields)
