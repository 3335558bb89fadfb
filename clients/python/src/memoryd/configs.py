"""How a session remembers: the `config` of `put`, `create_session`, `update_session` and
`import_session`.

    from memoryd import Client, blocks, config, retention

    with Client() as memory:
        memory.create_session("s1", config(
            token_limit=8000, blocks=[blocks.static("Answer in French.")],
            retention=retention(session_ttl=datetime.timedelta(days=30), keep_messages=1000)))

None is not sent: a new session has the default, and `update_session` leaves the field as it is. An
unknown keyword raises TypeError. The server checks the values; INVALID_ARGUMENT names the field.
Durations are seconds or a timedelta.
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
    """Returns a session's configuration. Profile, tokenizer and token estimates are fixed once the
    session has a message or content.

    - `profile`: the rules that the session follows. Default `default`.
    - `token_limit`: the most tokens that a Get returns, 1 to 2^31-1. Default 30,000.
    - `token_flush_size`: the least number of tokens that leave short-term memory at once. Default:
      a tenth of token_limit.
    - `chat_history_token_ratio`: share of token_limit that short-term memory may fill before
      messages leave it, 0 to 1. Default 0.7.
    - `insert_method`: where a Get inserts the text of the blocks: into the first system message, or
      into the last user message. Default `system`.
    - `tokenizer`: default `cl100k_base`. With `caller` each message brings its token_count.
    - `policy`: which messages leave short-term memory: `fifo`, the oldest, or `buffer`, none.
      Default `fifo`, in profile `autogen-list` `buffer`.
    - `blocks`: long-term memory, at most 32 blocks, see memoryd.blocks. Default: none.
    - `feed`: when blocks are fed the messages that left short-term memory. Default `after-commit`,
      in profile `llama-index` `before-reply`.
    - `image_token_count`, `audio_token_count`, `video_token_count`, `document_token_count`: tokens
      that each counts for. Default 256, for a document 2,048.
    - `retrieval`: how Query ranks, see memoryd.retrieval.
    - `subject`: the user, team or agent that the session is about, at most 256 bytes. EraseSubject
      removes all sessions of a subject. Default: none.
    - `retention`: how long session and messages are kept, see memoryd.retention. Default: the
      server's settings, which by default keep them forever.
    - `user_roles`: roles of the human side besides `user`, `human` and the like; at most 16.
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
    """Returns how long a session and its messages are kept.

    - `session_ttl`: the session is deleted when no write has reached it for this long, 1 second to
      3,650 days. Default: the server's settings, which by default never delete it.
    - `refresh_on_read`: whether reads also postpone the deletion. Default false.
    - `keep_messages`: the number of newest messages to keep, at least 1. Default: all.
    - `message_ttl`: messages expire this long after they were put, 1 second to 3,650 days. Default:
      never.
    - `keep_bytes`: the most bytes of the newest messages to keep. Default: all.
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
    language: str | None = None,
) -> memory.Retrieval:
    """Returns how Query, and the recall of UpdateContext, rank. memory_pb2.Retrieval has the
    ranges.

    - `embedder`: its name in the server's settings, or of the worker `embedder_worker`. Default:
      none.
    - `embedder_weight`: weight of the embedder's likeness. Default 1; 0: queries are not sent to
      it.
    - `vector_weight`: weight of the likeness by the server's word vectors. Default 0.6, or 0.3 with
      an embedder.
    - `vector_threshold`: the cosine from which a text without a word of the query is found. Default
      -1: every text.
    - `bm25_k1`, `bm25_b`: default 0.9 and 0.4.
    - `author_weight`: added for messages of the speaker whom the query names. Default 0.8.
    - `user_weight`: added for messages of the user, in sessions where speakers have no names.
      Default 0.2.
    - `neighbour_weight`: share of the scores of the messages before and after. Default 0.2. The
      share is smaller for messages longer than `neighbour_tokens`, default 100.
    - `answer_factor`: multiplies that share when the message before is a question. Default 2.
    - `thread_weight`: penalty for threads whose best messages match less. Default 0.2.
    - `length_weight`: penalty for texts longer than `length_tokens`. Default 0.35 and 100.
    - `recency_weight`: added for the newest item, less for older ones. Default 0.
    - `expansion`: whether to search for words of similar meaning too. Default: where that helps.
    - `dates`: whether a message is also found by its day. Default true.
    - `language`: of all texts, such as `de`. Default: each text tells its own.
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
        language=language,
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
