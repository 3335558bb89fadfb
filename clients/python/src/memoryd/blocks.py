"""The blocks of a session's configuration: its long-term memory, with one function for each kind.

    from memoryd import Client, blocks, config

    with Client() as memory:
        memory.create_session("s1", config(token_limit=8000, blocks=[
            blocks.static("Answer in French."),
            blocks.facts(model="chat", max_facts=100, priority=1),
            blocks.vector(embedder="minilm", top_k=5, priority=2),
        ]))

Each function returns the memory_pb2.Block for `config(blocks=[…])`. None is not sent, so the
server's default applies. An unknown keyword raises TypeError. The server checks the values when the
session is created: INVALID_ARGUMENT names the block and the option.

Every kind takes

- `name`: unique within the session, 1 to 64 of `[A-Za-z0-9_-]`;
- `priority`: at least 0. Default 0: never cut. A Get over the token limit cuts the other blocks,
  those with the highest number first;
- `template`, except `worker`: the block's section, a text with `{content}` once, and `{name}`.
  Default: `<{name}>`, `{content}` and `</{name}>`, a line each;
- `accept_short_term_memory`, except `static` and `worker`: whether the block is fed the messages
  that leave short-term memory. Default true;
- `worker`, for kinds with a model or an embedder: the worker that serves it. Default: the server's
  own.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from memoryd._wire_text import dumps
from memoryd.v1 import memory_pb2 as memory

# Seconds, or a timedelta of whole seconds.
Seconds: TypeAlias = "int | datetime.timedelta"
Scalar: TypeAlias = "str | int | float | bool"


def static(
    *content: str | Mapping[str, Any] | memory.Part,
    name: str = "static",
    priority: int | None = None,
    template: str | None = None,
) -> memory.Block:
    """A block that always shows `content`: texts, JSON objects or parts with media, at most
    1,000."""
    parts = [_part(index, one) for index, one in enumerate(content)]
    return _block("static", name, priority, "", {"template": template}, parts)


def facts(
    *,
    model: str,
    name: str = "facts",
    worker: str = "",
    priority: int | None = None,
    max_facts: int | None = None,
    facts: Iterable[str] | None = None,
    facts_trust: float | None = None,
    ttl: Seconds | None = None,
    same_fact_similarity: float | None = None,
    extraction_prompt: str | None = None,
    condense_prompt: str | None = None,
    accept_short_term_memory: bool | None = None,
    template: str | None = None,
) -> memory.Block:
    """Facts that a chat model finds in the messages, with evidence, times and trust.

    - `model`: name of the chat model, in the server's settings or of `worker`.
    - `max_facts`: a second call condenses more facts than that. Default 50; 1 to 250, in profile
      `llama-index` to 100,000.
    - `facts`: texts to begin with. Default: none.
    - `facts_trust`: the trust of `facts`, 0 to 1. Default 1. Not in `llama-index`.
    - `ttl`: seconds after which a fact is retired that no answer has repeated, 1 to 315,360,000.
      Default: never. Not in `llama-index`.
    - `same_fact_similarity`: the cosine from which a new fact equals a known one, in a session with
      an embedder, 0.5 to 1. Default 0.92. Not in `llama-index`.
    - `extraction_prompt`, `condense_prompt`: may contain `{existing_facts}` and `{max_facts}`.
      Except in `llama-index`, the first may also contain `{messages}` or `{dated_messages}`.
      Default: the server's own.
    """
    return _block("fact-extraction", name, priority, worker, {
        "model": model,
        "max_facts": max_facts,
        "facts": None if facts is None else _texts(facts),
        "facts_trust": facts_trust,
        "ttl": _seconds("ttl", ttl),
        "same_fact_similarity": same_fact_similarity,
        "extraction_prompt": extraction_prompt,
        "condense_prompt": condense_prompt,
        "accept_short_term_memory": accept_short_term_memory,
        "template": template,
    })


def vector(
    *,
    embedder: str,
    name: str = "vector",
    worker: str = "",
    priority: int | None = None,
    top_k: int | None = None,
    retrieval_context_window: int | None = None,
    similarity_threshold: float | None = None,
    filter: Mapping[str, Scalar] | None = None,
    format_template: str | None = None,
    ttl: Seconds | None = None,
    accept_short_term_memory: bool | None = None,
    template: str | None = None,
) -> memory.Block:
    """Earlier texts that resemble the current messages.

    - `embedder`: name of the embedder, in the server's settings or of `worker`.
    - `top_k`: the most texts to find. Default 2; 1 to 100.
    - `retrieval_context_window`: how many of the last messages form the query. Default 5; 0 to
      1,000.
    - `similarity_threshold`: the least cosine, -1 to 1. Default: none.
    - `filter`: values that the metadata must contain. Default: none.
    - `format_template`: contains `{text}` once. It formats each text, in `llama-index` all texts
      together. Default: between `<messages>` tags, in `llama-index` unchanged.
    - `ttl`: seconds after which a text is no longer found, 1 to 315,360,000. Default: never.
    """
    return _block("vector", name, priority, worker, {
        "embedder": embedder,
        "top_k": top_k,
        "retrieval_context_window": retrieval_context_window,
        "similarity_threshold": similarity_threshold,
        "filter": None if filter is None else dict(filter),
        "format_template": format_template,
        "ttl": _seconds("ttl", ttl),
        "accept_short_term_memory": accept_short_term_memory,
        "template": template,
    })


def summary(
    *,
    model: str,
    name: str = "summary",
    worker: str = "",
    priority: int | None = None,
    max_tokens: int | None = None,
    prompt: str | None = None,
    accept_short_term_memory: bool | None = None,
    template: str | None = None,
) -> memory.Block:
    """A summary that a chat model rewrites from the old one and the new messages.

    - `model`: name of the chat model, in the server's settings or of `worker`.
    - `max_tokens`: the most tokens of the summary. Default 512; 16 to 8,192.
    - `prompt`: contains `{messages}` or `{dated_messages}` once; may contain `{summary}` and
      `{max_tokens}`. Default: the server's own.
    """
    return _block("summary", name, priority, worker, {
        "model": model,
        "max_tokens": max_tokens,
        "prompt": prompt,
        "accept_short_term_memory": accept_short_term_memory,
        "template": template,
    })


def entities(
    *,
    model: str,
    name: str = "entities",
    worker: str = "",
    priority: int | None = None,
    max_entities: int | None = None,
    top_k: int | None = None,
    retrieval_context_window: int | None = None,
    prompt: str | None = None,
    accept_short_term_memory: bool | None = None,
    template: str | None = None,
) -> memory.Block:
    """A line about each person, place or thing, which a chat model writes. A Get shows the entities
    whose names occur in the last messages.

    - `model`: name of the chat model, in the server's settings or of `worker`.
    - `max_entities`: beyond that the entity seen longest ago is removed. Default 50; 1 to 200.
    - `top_k`: the most entities that a Get shows. Default 10; 1 to 200.
    - `retrieval_context_window`: how many of the last messages are searched for names. Default 5; 1
      to 1,000.
    - `prompt`: contains `{messages}` or `{dated_messages}` once; may contain `{existing_entities}`.
      Default: the server's own.
    """
    return _block("entity", name, priority, worker, {
        "model": model,
        "max_entities": max_entities,
        "top_k": top_k,
        "retrieval_context_window": retrieval_context_window,
        "prompt": prompt,
        "accept_short_term_memory": accept_short_term_memory,
        "template": template,
    })


def session(
    session_id: str,
    *,
    name: str = "session",
    priority: int | None = None,
    accept_short_term_memory: bool | None = None,
    template: str | None = None,
) -> memory.Block:
    """The knowledge of another session of the tenant, such as the user's; at most 8 in a session.

    A Get shows the other session's blocks, and Query searches the other session. Every message that
    is put to this session is handed on to it, unless `accept_short_term_memory` is false.
    """
    return _block("session", name, priority, "", {
        "session_id": session_id,
        "accept_short_term_memory": accept_short_term_memory,
        "template": template,
    })


def worker(
    name: str,
    *,
    worker: str,
    priority: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> memory.Block:
    """A custom block, which the worker named `worker` serves under this block's name. The worker
    gets `options`, a JSON object, with every call."""
    return _block("worker", name, priority, worker, dict(options or {}), are_the_workers=True)


def _block(
    kind: str,
    name: str,
    priority: int | None,
    worker: str,
    options: Mapping[str, Any],
    content: Iterable[memory.Part] = (),
    *,
    are_the_workers: bool = False,
) -> memory.Block:
    given = {option: value for option, value in options.items()
             if value is not None or are_the_workers}
    return memory.Block(
        kind=kind, name=name, priority=priority, worker=worker, content=content,
        options_json=dumps(given) if given else "")


def _part(index: int, content: str | Mapping[str, Any] | memory.Part) -> memory.Part:
    if isinstance(content, memory.Part):
        return content
    if isinstance(content, str):
        return memory.Part(text=content)
    if isinstance(content, Mapping):
        return memory.Part(json=dumps(content))
    raise TypeError(f"content[{index}]: must be a text, a JSON object or a memory_pb2.Part; got "
                    f"{type(content).__name__}")


def _texts(given: Iterable[str]) -> list[str]:
    if isinstance(given, str):
        raise TypeError("facts: must be a list of texts; got a text. Give [text]")
    return list(given)


def _seconds(name: str, given: Seconds | None) -> int | None:
    if not isinstance(given, datetime.timedelta):
        return given
    if given % datetime.timedelta(seconds=1):
        raise ValueError(f"{name}: must be whole seconds; got {given}")
    return int(given.total_seconds())
