"""Memory of users: a fact from one conversation is known in the next.

    with memoryd.local("agent-memory") as memory:
        memory.remember("ann", "I drink tea, never coffee.")
        for hit in memory.recall("ann", "What may I offer to drink?"):
            print(hit.said, hit.text)
        context = memory.context("ann", "monday", [{"role": "user", "content": "A drink, please."}])
        model(context.to_openai())

The functions follow conventions over the server's sessions, which every client can follow:

- Each user has a session, `session_of(user)`: `memoryd.user/` and the user. `%` and characters that
  are not printable become the `%XX` of their UTF-8. If that is longer than 256 bytes, the session
  is `memoryd.user#` and the SHA-256 of the user's UTF-8. No two users share a session, and no
  conversation may have such a name.
- The default configuration of that session has `subject`, the user, and
  `chat_history_token_ratio=0`. Its blocks are then fed with each turn when the next one begins.
- A conversation is a session with the same `subject` and a block `user` of kind `session`, which
  names the user's session. So a Get shows the knowledge of the user's blocks, and Query searches
  the user's session. Messages put to the conversation are handed on to that session.
- Configurations and templates apply to new sessions. An existing session keeps its own, which
  `update_session` changes. Its `subject` must be the user.
- With a template the server makes the session, with the `subject` in addition. A conversation then
  gets its block by UpdateSession, before anything is put to it.
- `erase_subject(user)` removes all of these sessions.

This works without a model, by words and, where the server has word vectors, by meaning. With a
model, give the user's session a block of facts:
`memory=memoryd.config(blocks=[memoryd.blocks.facts(model="chat")])`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import re
import unicodedata
import urllib.parse
import uuid
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import grpc

from memoryd import _calls, blocks, forms
from memoryd._roles import is_human
from memoryd._steps import Steps
from memoryd._wire_text import joined, without_halves
from memoryd.contexts import UserContext
from memoryd.errors import MemorydError
from memoryd.results import Hit, Hits, Session, text_of
from memoryd.v1 import filter_pb2 as filter_wire
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire

_PREFIX = "memoryd.user"
_MAX_ID_BYTES = 256
# The block of a conversation that shows the user's session.
BLOCK = "user"
# A session whose configuration changes that often while it is being put to is not put to.
_TRIES = 12
# Why a Put with a configuration was refused, other than for what it says.
_OTHER_CONFIG = ("CONFIG_MISMATCH", "REVISION_MISMATCH", "REQUEST_ID_REUSED")
# What a template does not say: whom the session is about.
_BESIDE_TEMPLATE = ("subject", "time_zone")
# Of what is recalled unasked.
_MOST_RECALLED = 5
_LOOKED_AT = 50
_LEAST_COSINE = 0.3
_QUERY_CHARACTERS = 8000
_SHARE_OF_LIMIT = 0.1
_BYTES_OF_TOKEN = 4
_TAGS = ("memoryd_memory", "memoryd_recall", "memoryd_block", "item", "message")
# Of Unicode's property Default_Ignorable_Code_Point, as the server has it.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff")
# A `<` of what a model may read as one of the tags: in any case of letters, with spaces and what
# does not show.
_TAG = re.compile(
    rf"<(?=[/\s{_INVISIBLE}]*(?:"
    + "|".join(f"[{_INVISIBLE}]*".join(map(re.escape, tag)) for tag in _TAGS) + "))",
    re.IGNORECASE)


def session_of(user: str) -> str:
    """Returns the id of the user's own session.

    Raises TypeError if the user is no str. Raises ValueError if it is empty or blank, is longer
    than 256 bytes, or contains control or invisible characters.
    """
    plain = _checked_user(user)
    quoted = "".join(
        urllib.parse.quote(one, safe="") if one == "%" or not one.isprintable() else one
        for one in plain)
    named = f"{_PREFIX}/{quoted}"
    if len(named.encode()) <= _MAX_ID_BYTES:
        return named
    return f"{_PREFIX}#{hashlib.sha256(plain.encode()).hexdigest()}"


def memory_config(user: str, config: memory.SessionConfig | None = None) -> memory.SessionConfig:
    """Returns the configuration of the user's own session: `config` with the user as its subject
    and, by default, chat_history_token_ratio 0. Raises ValueError if `config` has another
    subject."""
    made = _config_of(user, config, "memory")
    if not made.HasField("chat_history_token_ratio"):
        made.chat_history_token_ratio = 0.0
    return made


def conversation_config(
    user: str, config: memory.SessionConfig | None = None
) -> memory.SessionConfig:
    """Returns the configuration of a conversation with the user: `config` with the user as its
    subject. Its last block, `user`, shows the user's session. Raises ValueError if `config` has
    another subject, or another block of that name."""
    made = _config_of(user, config, "config")
    own = session_of(user)
    if not _shows(made, own):
        if any(block.name == BLOCK for block in made.blocks):
            raise ValueError(f"config.blocks: {BLOCK!r} is the name of the block that shows the "
                             "user's session. Give yours another")
        made.blocks.append(blocks.session(own, name=BLOCK))
    return made


def remember(
    user: str,
    messages: str | forms.AnyMessage | Iterable[str | forms.AnyMessage],
    *,
    memory: memory.SessionConfig | None = None,
    memory_template: str = "",
    wait: float | None = None,
    request_id: str | None = None,
    timeout: float | None = None,
) -> Steps[wire.PutResponse]:
    """Puts something to remember about a user into the user's own session. `messages` is a text,
    which counts as said by the user, or a message, or a list of them.

    `memory` is the configuration of that session if this call creates it, such as
    `config(blocks=[blocks.facts(model="chat")])`. An existing session keeps its own.
    `memory_template` instead names one on the server, see `create_session`. The template's
    `chat_history_token_ratio` then applies, and `memory` may have only `time_zone`.

    Messages, `wait` (seconds) and `request_id` are as in `put`. `timeout` applies to each call. Any
    number of processes may call this in parallel: everything is stored, and once.

    Raises TypeError if the user is no str, and for anything that is no message. Raises ValueError
    for an empty user, for no message, and for a blank text; it names the place, such as
    `messages[0]`. Raises MemorydError as `put` does.
    """
    own = _users_own(user, memory, memory_template)
    given = _messages(messages)
    if not given:
        raise ValueError("messages: must not be empty. Give a text or a message")
    with _naming_the_user():
        put, _ = yield from _put(own, given, wait, request_id, timeout)
        return put


def recall(
    user: str,
    query: str,
    *,
    top_k: int = 10,
    filter: filter_wire.Filter | None = None,
    token_budget: int | None = None,
    passages: bool = False,
    timeout: float | None = None,
) -> Steps[Hits]:
    """Returns the items about a user that match `query`, the best first. They are messages of any
    conversation, with speaker and time, and facts with their evidence. Empty: nothing is known of
    the user.

    `top_k` is the most hits, and `token_budget` the most tokens of all hits. `passages` cuts long
    texts to their best passage. `filter` is as in `query`, and leaves out facts.

    Raises TypeError if the user is no str, and ValueError if it is empty.
    """
    own = session_of(user)
    if not isinstance(query, str):
        raise TypeError(f"query: must be a str; got {type(query).__name__}")
    found: Hits = yield _calls.query(
        own, query, top_k=top_k, filter=filter, token_budget=token_budget,
        passages=passages, timeout=timeout)
    return found


def context(
    user: str,
    session: str,
    messages: str | forms.AnyMessage | Iterable[str | forms.AnyMessage] = (),
    *,
    config: memory.SessionConfig | None = None,
    template: str = "",
    memory: memory.SessionConfig | None = None,
    memory_template: str = "",
    recalled: int = _MOST_RECALLED,
    wait: float | None = None,
    request_id: str | None = None,
    timeout: float | None = None,
) -> Steps[UserContext]:
    """Puts the new messages of a conversation with a user, and returns the context for the next
    model call. The context contains the conversation within its token limit and the knowledge of
    its blocks. The user's blocks stand between `<user>` tags. Matching messages of earlier
    conversations, and of earlier in this one, stand before the newest message of the user.

    `messages` are those since the last call, such as the model's last answer and the user's next
    question. A text counts as said by the user. Without messages nothing is put. `session` is the
    id of the conversation. Two users never share a conversation.

    `config` is the configuration of the conversation, and `memory` that of the user's own session,
    if this call creates them. Existing sessions keep their own. `template` and `memory_template`
    instead name templates on the server, see `remember`. The template of a conversation must have
    no block `user`.

    At most `recalled` messages are recalled, in at most a tenth of the token limit; 0: none. Each
    has its date in the conversation's `time_zone`, by default UTC. `wait` and `request_id` are as
    in `put`. `timeout` applies to each call.

    Raises TypeError if the user or session is no str, and for anything that is no message. Raises
    ValueError if one is empty, for a blank text, and for a session named like a user's own. Raises
    MemorydError FAILED_PRECONDITION `NOT_THE_USERS` if the session is not a conversation with this
    user. Other errors are those of `create_session`, `put`, `get` and `query`, such as
    INVALID_ARGUMENT for an unknown template.
    """
    own = _users_own(user, memory, memory_template)
    _check_session(session)
    conversation = _conversation(user, session, config, template)
    given = _messages(messages)
    with _naming_the_user():
        yield from _make(own, timeout)
        _, in_force = yield from _put(conversation, given, wait, request_id, timeout)
        got = yield _calls.get(session, timeout=timeout)
        reply = wire.GetResponse()
        reply.CopyFrom(got.wire)
        asked = _newest_question(reply)
        if asked is None or recalled < 1:
            return UserContext(reply, [])
        question = reply.messages[asked]
        found = yield _calls.query(
            session, text_of(question)[:_QUERY_CHARACTERS], top_k=_LOOKED_AT, passages=True,
            vector_threshold=_LEAST_COSINE, without_blocks=True, timeout=timeout)
        hits = _worth_telling(found, reply, session, recalled)
        if hits:
            _insert(reply, asked, _recall_text(hits, _zone(in_force.time_zone)))
        return UserContext(reply, hits)


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """A session of a user's, and of what it is made where there is none: `config`, or `template`
    with what may stand beside it. `shown` is the session that a conversation shows."""

    session_id: str
    user: str
    config: memory.SessionConfig
    template: str
    shown: str | None = None

    @property
    def is_made_in_steps(self) -> bool:
        """Whether it is to have a block that its template has not."""
        return bool(self.template) and self.shown is not None


def _users_own(user: str, config: memory.SessionConfig | None, template: str) -> _Wanted:
    session_id = session_of(user)
    _check_template(template, config, "memory")
    made = _config_of(user, config, "memory") if template else memory_config(user, config)
    return _Wanted(session_id, user, made, template)


def _conversation(
    user: str, session_id: str, config: memory.SessionConfig | None, template: str
) -> _Wanted:
    _check_template(template, config, "config")
    made = _config_of(user, config, "config") if template else conversation_config(user, config)
    return _Wanted(session_id, user, made, template, session_of(user))


def _put(
    wanted: _Wanted,
    messages: list[memory.Message],
    wait: float | None,
    request_id: str | None,
    timeout: float | None,
) -> Steps[tuple[wire.PutResponse, memory.SessionConfig]]:
    """Puts to a session that is the user's, and returns the configuration in force too. That goes
    along, which makes the session where there is none and has the Put refused where another one is
    in force: it is never put to a session that is somebody else's by then."""
    once = uuid.uuid4().hex if request_id is None else request_id
    in_force, template = yield from _first(wanted, timeout)
    revision: int | None = None
    for attempt in range(_TRIES):
        try:
            put: wire.PutResponse = yield _calls.put(
                wanted.session_id, messages, config=in_force if revision is None else None,
                template=template, wait=wait, request_id=once, expected_revision=revision,
                timeout=timeout)
            return put, in_force
        except MemorydError as error:
            # An id is reused too where an earlier try was done with another form of the
            # configuration than this one.
            if error.reason not in _OTHER_CONFIG or attempt == _TRIES - 1:
                raise
        revision = None
        try:
            session = yield _calls.get_session(wanted.session_id, timeout=timeout)
        except MemorydError as error:
            if error.code != grpc.StatusCode.NOT_FOUND:
                raise
            in_force, template = yield from _first(wanted, timeout)  # It was deleted meanwhile.
            continue
        in_force, template = _checked(session, wanted), ""
        if attempt % 2 == 1:
            # One that a server of a later version understands better than this client.
            revision = session.revision
    raise AssertionError("the last try returns or raises")


def _first(wanted: _Wanted, timeout: float | None) -> Steps[tuple[memory.SessionConfig, str]]:
    """The configuration and the template to put with first."""
    if not wanted.is_made_in_steps:
        return wanted.config, wanted.template
    # A Put would make it without its block.
    return (yield from _make(wanted, timeout)), ""


def _make(wanted: _Wanted, timeout: float | None) -> Steps[memory.SessionConfig]:
    """Makes the session where there is none. Returns the configuration in force."""
    for attempt in range(_TRIES):
        is_last = attempt == _TRIES - 1
        is_new = False
        try:
            session = yield _calls.get_session(wanted.session_id, timeout=timeout)
        except MemorydError as error:
            if error.code != grpc.StatusCode.NOT_FOUND:
                raise
            try:
                session = yield _calls.create_session(
                    wanted.session_id, wanted.config, template=wanted.template, timeout=timeout)
            except MemorydError as refused:
                if refused.reason != "SESSION_EXISTS" or is_last:
                    raise
                continue  # Another process was faster.
            is_new = True
        if not _lacks_its_block(session, wanted):
            return _checked(session, wanted)
        try:
            changed_config = _with_block(session.config, wanted)
        except ValueError:
            if is_new:  # Nobody asked for a session that shows no user.
                yield _calls.delete_session(
                    wanted.session_id, expected_revision=session.revision, timeout=timeout)
            raise
        try:
            session = yield _calls.update_session(
                wanted.session_id, changed_config,
                expected_revision=session.revision, timeout=timeout)
            return _checked(session, wanted)
        except MemorydError as error:
            changed = (error.reason == "REVISION_MISMATCH"
                       or error.code == grpc.StatusCode.NOT_FOUND)
            if not changed or is_last:
                raise
    raise AssertionError("the last try returns or raises")


def _lacks_its_block(session: Session, wanted: _Wanted) -> bool:
    """Whether it was made from the template for this conversation and nothing came of it since."""
    return (wanted.is_made_in_steps
            and session.template == wanted.template
            and session.config.subject == wanted.config.subject
            and session.active_count + session.archived_count + session.content_count == 0
            and not _shows(session.config, str(wanted.shown)))


def _with_block(config: memory.SessionConfig, wanted: _Wanted) -> memory.SessionConfig:
    """The change that has a conversation show the user's session."""
    if any(block.name == BLOCK for block in config.blocks):
        raise ValueError(f"template: {wanted.template!r} has a block {BLOCK!r}, the name of that "
                         "which shows the user's session. Give its block another")
    return memory.SessionConfig(
        blocks=[*config.blocks, blocks.session(str(wanted.shown), name=BLOCK)])


def _checked(session: Session, wanted: _Wanted) -> memory.SessionConfig:
    """The configuration in force of a session that is the user's."""
    found: memory.SessionConfig = session.config
    shown = wanted.shown
    if found.subject == wanted.config.subject and (shown is None or _shows(found, shown)):
        return found
    name = session.session_id
    if shown is None:
        remedy = f"its subject is not the user: update_session({name!r}, memoryd.config(subject=…))"
    else:
        remedy = ("give another session, or make this one the user's, with all that it holds: "
                  f"update_session({name!r}, memoryd.users.conversation_config(…))")
    raise MemorydError(
        grpc.StatusCode.FAILED_PRECONDITION,
        f"session: {name!r} is there and not a conversation with this user; {remedy}"
        if shown else f"session: {name!r} is there and {remedy}",
        "NOT_THE_USERS", "session")


def _shows(config: memory.SessionConfig, session_id: str) -> bool:
    return any(block.kind == "session"
               and json.loads(block.options_json).get("session_id") == session_id
               for block in config.blocks)


def _config_of(
    user: str, given: memory.SessionConfig | None, field: str
) -> memory.SessionConfig:
    plain = _checked_user(user)
    made = memory.SessionConfig()
    if given is not None:
        if not isinstance(given, memory.SessionConfig):
            raise TypeError(f"{field}: must be what memoryd.config(…) makes; got "
                            f"{type(given).__name__}")
        made.CopyFrom(given)
    if made.HasField("subject") and made.subject != plain:
        raise ValueError(f"{field}.subject: must be the user, {plain!r}; got {made.subject!r}. "
                         "Leave it out")
    made.subject = plain
    return made


def _check_template(template: str, config: memory.SessionConfig | None, field: str) -> None:
    """Raises where `config` says what the template says: the server would refuse it by the name of
    another argument."""
    name = "template" if field == "config" else f"{field}_template"
    if not isinstance(template, str):
        raise TypeError(f"{name}: must be a str that names one of server_info().templates; got "
                        f"{type(template).__name__}")
    if not template or not isinstance(config, memory.SessionConfig):
        return
    others = [one.name for one, _ in config.ListFields() if one.name not in _BESIDE_TEMPLATE]
    if others:
        raise ValueError(f"{field}: may have {' and '.join(_BESIDE_TEMPLATE)} alone beside {name}; "
                         f"got {others[0]}")


def _checked_user(user: str) -> str:
    if not isinstance(user, str):
        raise TypeError(f"user: must be a str that names one user; got {type(user).__name__}")
    plain = joined(user)
    if not plain.strip():
        raise ValueError(f"user: must name one user; got {user!r}")
    for one in plain:
        kind = unicodedata.category(one)
        # Joiners are letters' own in Persian and Indic names: the server decides.
        if kind in ("Cc", "Cs", "Zl", "Zp") or (kind == "Cf" and one not in "\u200c\u200d"):
            raise ValueError("user: must not hold control or invisible characters, nor half ones; "
                             f"got {user!a:.80}")
    if len(plain.encode()) > _MAX_ID_BYTES:
        raise ValueError(f"user: must be at most {_MAX_ID_BYTES} bytes of UTF-8; got "
                         f"{len(plain.encode())}")
    return plain


def _check_session(session: str) -> None:
    if not isinstance(session, str):
        raise TypeError(f"session: must be a str that names one conversation; got "
                        f"{type(session).__name__}")
    if not session.strip():
        raise ValueError(f"session: must name one conversation; got {session!r}")
    if without_halves(session)[1]:
        raise ValueError("session: holds half a character, which UTF-8 has not; got "
                         f"{session!a:.80}")
    if session.startswith((f"{_PREFIX}/", f"{_PREFIX}#")):
        raise ValueError(f"session: {session!r:.80} is the name of a user's own session. Give the "
                         "conversation another, or use remember")


def _messages(
    given: str | forms.AnyMessage | Iterable[str | forms.AnyMessage]
) -> list[memory.Message]:
    if isinstance(given, str):
        return list(forms.stored([_said_by_user(given, "messages")]))
    if isinstance(given, (Mapping, memory.Message)) or hasattr(given, "model_dump"):
        single: Any = given
        return list(forms.stored([single]))
    several: Any = given
    if not isinstance(several, Iterable) or isinstance(several, (bytes, bytearray)):
        raise TypeError("messages: must be a text, a message or several; got "
                        f"{type(several).__name__}")
    return list(forms.stored(
        _said_by_user(one, f"messages[{index}]") if isinstance(one, str) else one
        for index, one in enumerate(several)))


def _said_by_user(text: str, field: str) -> forms.AnyMessage:
    if not text.strip():
        raise ValueError(f"{field}: must not be blank; got {text!r:.20}. Leave it out")
    return {"role": "user", "content": text}


@contextlib.contextmanager
def _naming_the_user() -> Iterator[None]:
    """What the server does not take in a subject is the user's."""
    try:
        yield
    except MemorydError as error:
        if error.field != "config.subject" or error.code != grpc.StatusCode.INVALID_ARGUMENT:
            raise
        raise ValueError(f"user: {error.message.removeprefix('config.subject: ')}") from error


def _newest_question(reply: wire.GetResponse) -> int | None:
    """The place of the newest message of a human that has words; None without one."""
    for index in range(len(reply.messages) - 1, -1, -1):
        message = reply.messages[index]
        if message.message_id and is_human(message.role) and text_of(message).strip():
            return index
    return None


def _worth_telling(
    found: Hits, reply: wire.GetResponse, session: str, most: int
) -> list[Hit]:
    """The best hits that the context does not hold, the oldest first."""
    here = {message.message_id for message in reply.messages if message.message_id}
    said = {text_of(message) for message in reply.messages}
    room = int(max(reply.limit, 0) * _SHARE_OF_LIMIT * _BYTES_OF_TOKEN)
    taken: list[Hit] = []
    for hit in found:
        if len(taken) == most:
            break
        message = hit.message
        is_here = (
            message.message_id in here if not hit.session_id
            else message.source_session_id == session and message.source_message_id in here)
        text = hit.text
        if is_here or not text.strip() or text in said or len(text.encode()) > room:
            continue
        said.add(text)
        room -= len(text.encode())
        taken.append(hit)
    return sorted(taken, key=lambda hit: hit.said.timestamp() if hit.said else 0.0)


def _zone(name: str) -> datetime.tzinfo:
    try:
        return zoneinfo.ZoneInfo(name or "UTC")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        # As of a machine that has no zones, or not the server's.
        return datetime.timezone.utc


def _date(time: datetime.datetime, zone: datetime.tzinfo) -> str:
    with contextlib.suppress(OverflowError):  # On the first or the last day that there is.
        time = time.astimezone(zone)
    return f"{time:%Y-%m-%d}"


def _recall_text(hits: list[Hit], zone: datetime.tzinfo) -> str:
    """What is recalled, in the form in which UpdateContext inserts it."""
    lines = ["<memoryd_recall>"]
    for hit in hits:
        date = f' date="{_date(hit.said, zone)}"' if hit.said else ""
        tag = f'message role="{_attribute(hit.role)}"' if hit.role else "item"
        lines.append(f"<{tag}{date}>{_escaped(hit.text)}</{tag.split(' ', 1)[0]}>")
    lines.append("</memoryd_recall>")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return _TAG.sub("&lt;", text)


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _insert(reply: wire.GetResponse, index: int, text: str) -> None:
    """Puts a message of its own ahead of the one at `index`, of its role."""
    made = memory.Message(role=reply.messages[index].role, text=text)
    rest = [memory.Message.FromString(one.SerializeToString()) for one in reply.messages[index:]]
    del reply.messages[index:]
    reply.messages.append(made)
    reply.messages.extend(rest)
    reply.token_count += -(-len(text.encode()) // _BYTES_OF_TOKEN)
