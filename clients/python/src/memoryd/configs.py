"""How a session remembers: what `put`, `create_session`, `update_session` and `import_session` take
as `config`.

    from memoryd import Client, blocks, config, retention

    with Client() as memory:
        memory.create_session("s1", config(
            token_limit=8000, blocks=[blocks.static("Answer in French.")],
            retention=retention(session_ttl=datetime.timedelta(days=30), keep_messages=1000)))

What is None is not sent: a new session has the default, and `update_session` leaves it as it is. A
keyword that there is not raises TypeError; values are checked by the server, INVALID_ARGUMENT names
the field. Times are seconds or a timedelta.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from google.protobuf import duration_pb2

from memoryd.v1 import memory_pb2 as memory

Duration: TypeAlias = "float | datetime.timedelta"

_INSERT_METHODS = {"system": memory.INSERT_METHOD_SYSTEM, "user": memory.INSERT_METHOD_USER}
_FEEDS = {"after-commit": memory.FEED_AFTER_COMMIT, "before-reply": memory.FEED_BEFORE_REPLY}


def config(
    *,
    profile: Literal["default", "llama-index", "autogen-list"] | None = None,
    token_limit: int | None = None,
    token_flush_size: int | None = None,
    chat_history_token_ratio: float | None = None,
    insert_method: Literal["system", "user"] | None = None,
    tokenizer: Literal["cl100k_base", "o200k_base", "whitespace", "caller"] | None = None,
    policy: Literal["fifo", "buffer"] | None = None,
    blocks: Iterable[memory.Block] = (),
    feed: Literal["after-commit", "before-reply"] | None = None,
    image_token_count: int | None = None,
    audio_token_count: int | None = None,
    video_token_count: int | None = None,
    document_token_count: int | None = None,
    retrieval: memory.Retrieval | None = None,
    subject: str | None = None,
    retention: memory.Retention | None = None,
    user_roles: Iterable[str] = (),
    time_zone: str | None = None,
    cut_highest_first: bool | None = None,
) -> memory.SessionConfig:
    """A session's configuration. Profile, tokenizer and the token estimates are fixed once the
    session has a message or content.

    - `profile`: the rules that it follows. Default `default`.
    - `token_limit`: the most tokens that a Get returns, 1 to 2^31-1. Default 30,000.
    - `token_flush_size`: the least number of tokens that leave short-term memory at once. Default:
      a tenth of token_limit.
    - `chat_history_token_ratio`: share of token_limit that short-term memory may fill before it is
      flushed, 0 to 1. Default 0.7.
    - `insert_method`: where a Get puts what the blocks say: into the first system message or the
      last one of the user. Default `system`.
    - `tokenizer`: default `cl100k_base`; with `caller` each message brings its token_count.
    - `policy`: what leaves short-term memory: the oldest messages, or with `buffer` nothing.
      Default `fifo`, in profile `autogen-list` `buffer`.
    - `blocks`: long-term memory, at most 32, see memoryd.blocks. Default: none.
    - `feed`: when blocks take in what has left short-term memory. Default `after-commit`, in
      profile `llama-index` `before-reply`.
    - `image_token_count`, `audio_token_count`, `video_token_count`, `document_token_count`: tokens
      that one counts for. Default 256, a document 2,048.
    - `retrieval`: how Query ranks, see memoryd.retrieval.
    - `subject`: whom the session is about, at most 256 bytes; EraseSubject removes all sessions of
      one. Default: nobody.
    - `retention`: how long session and messages are kept, see memoryd.retention. Default: as the
      server's settings say, for ever.
    - `user_roles`: roles that count as a human's beside `user`, `human` and the like; at most 16.
    - `time_zone`: an IANA name such as `Asia/Tokyo`. Default `UTC`.
    - `cut_highest_first`: whether a Get over the limit cuts the highest priority number first.
      Default true, in profile `llama-index` false.
    """
    return memory.SessionConfig(**_given(
        profile=profile,
        token_limit=token_limit,
        token_flush_size=token_flush_size,
        chat_history_token_ratio=chat_history_token_ratio,
        insert_method=_choice("insert_method", insert_method, _INSERT_METHODS),
        tokenizer=tokenizer,
        policy=policy,
        blocks=blocks,
        feed=_choice("feed", feed, _FEEDS),
        image_token_count=image_token_count,
        audio_token_count=audio_token_count,
        video_token_count=video_token_count,
        document_token_count=document_token_count,
        retrieval=retrieval,
        subject=subject,
        retention=retention,
        user_roles=user_roles,
        time_zone=time_zone,
        cut_highest_first=cut_highest_first,
    ))


def retention(
    *,
    session_ttl: Duration | None = None,
    refresh_on_read: bool | None = None,
    keep_messages: int | None = None,
    message_ttl: Duration | None = None,
    keep_bytes: int | None = None,
) -> memory.Retention:
    """How long a session and its messages are kept.

    - `session_ttl`: the session is deleted once nothing was written to it for that long, 1 second
      to 3,650 days. Default: as the server's settings say, never.
    - `refresh_on_read`: whether reads count too. Default false.
    - `keep_messages`: the newest so many messages are kept, at least 1. Default: all.
    - `message_ttl`: messages expire this long after they were put, 1 second to 3,650 days. Default:
      never.
    - `keep_bytes`: the newest messages are kept that take at most so many bytes. Default: all.
    """
    return memory.Retention(**_given(
        session_ttl=_duration(session_ttl),
        refresh_on_read=refresh_on_read,
        keep_messages=keep_messages,
        message_ttl=_duration(message_ttl),
        keep_bytes=keep_bytes,
    ))


def retrieval(
    *,
    embedder: str | None = None,
    embedder_worker: str | None = None,
    embedder_weight: float | None = None,
    vector_weight: float | None = None,
    vector_threshold: float | None = None,
    bm25_k1: float | None = None,
    bm25_b: float | None = None,
    author_weight: float | None = None,
    user_weight: float | None = None,
    neighbour_weight: float | None = None,
    neighbour_tokens: float | None = None,
    answer_factor: float | None = None,
    thread_weight: float | None = None,
    length_weight: float | None = None,
    length_tokens: float | None = None,
    recency_weight: float | None = None,
    expansion: bool | None = None,
    dates: bool | None = None,
) -> memory.Retrieval:
    """How Query, and what UpdateContext recalls, are ranked. memory_pb2.Retrieval has the ranges.

    - `embedder`: its name in the server's settings, or of the worker `embedder_worker`. Default:
      none.
    - `embedder_weight`: for likeness by the embedder. Default 1; 0: queries are not sent.
    - `vector_weight`: for likeness by the server's word vectors. Default 0.6, with an embedder 0.3.
    - `vector_threshold`: the cosine from which a text is found that has no word of the query.
      Default -1: all are.
    - `bm25_k1`, `bm25_b`: default 0.9 and 0.4.
    - `author_weight`: for messages of the speaker whom the query names. Default 0.8.
    - `user_weight`: for messages of the user, where no message has a name. Default 0.2.
    - `neighbour_weight`: share of the scores of the messages before and after. Default 0.2; less
      for messages longer than `neighbour_tokens`, default 100.
    - `answer_factor`: how many times that share a message gets of a question before it. Default 2.
    - `thread_weight`: for threads whose best messages are less like the query. Default 0.2.
    - `length_weight`: taken away of texts longer than `length_tokens`. Default 0.35 and 100.
    - `recency_weight`: for the newest. Default 0.
    - `expansion`: whether words of like meaning are looked for too. Default: where that helps.
    - `dates`: whether the day of a message is among its words. Default true.
    """
    return memory.Retrieval(**_given(
        embedder=embedder,
        embedder_worker=embedder_worker,
        embedder_weight=embedder_weight,
        vector_weight=vector_weight,
        vector_threshold=vector_threshold,
        bm25_k1=bm25_k1,
        bm25_b=bm25_b,
        author_weight=author_weight,
        user_weight=user_weight,
        neighbour_weight=neighbour_weight,
        neighbour_tokens=neighbour_tokens,
        answer_factor=answer_factor,
        thread_weight=thread_weight,
        length_weight=length_weight,
        length_tokens=length_tokens,
        recency_weight=recency_weight,
        expansion=expansion,
        dates=dates,
    ))


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _choice(name: str, given: str | None, choices: Mapping[str, Any]) -> Any:
    if given is None:
        return None
    if given not in choices:
        raise ValueError(f"{name}: must be {' or '.join(map(repr, choices))}; got {given!r:.60}")
    return choices[given]


def _duration(given: Duration | None) -> duration_pb2.Duration | None:
    if given is None:
        return None
    made = duration_pb2.Duration()
    made.FromTimedelta(given if isinstance(given, datetime.timedelta)
                       else datetime.timedelta(seconds=given))
    return made
