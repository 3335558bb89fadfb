"""What the repository does, as steps that its client runs.

A session of Strands is a namespace, whose items are what the messages do not say:

    s            the session
    a/AGENT      an agent's state
    m/AGENTS     the state of a graph or a swarm

The messages of an agent are a session of memoryd, see `conversation`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from memoryd import _calls, _item_calls
from memoryd._adapters import names, own_forms, session_steps
from memoryd._steps import Steps
from memoryd.errors import MemorydError
from memoryd.items import Item
from memoryd.strands import _messages
from memoryd.strands._form import FORM, ChangedForm
from memoryd.v1 import item_service_pb2 as wire
from memoryd.v1 import memory_pb2 as memory

_SESSION = "s"
_AGENTS = "a/"
_GROUPS = "m/"
_DEFAULT_AGENT = "default"
_BYTES_OF_TOKEN = 4


def conversation(session_id: str, agent_id: str) -> str:
    """The session of memoryd with an agent's messages: of the agent `default` the one with the
    session's id, of any other the one with both ids, joined by a slash, which Strands allows in
    neither."""
    return session_id if agent_id == _DEFAULT_AGENT else f"{session_id}/{agent_id}"


class SessionSteps:
    """The sessions below a namespace."""

    def __init__(
        self,
        namespace: Sequence[str],
        template: str,
        subject: str,
        conversation: Callable[[str, str], str],
    ) -> None:
        self._base = tuple(namespace)
        self._template = template
        self._subject = subject
        self._conversation = conversation

    def session_created(self, session: Session) -> Steps[None]:
        try:
            yield self._put(session.session_id, _SESSION, session.to_dict(), 0)
        except MemorydError as error:
            if error.reason != "VERSION_MISMATCH":
                raise
            raise SessionException(f"Session {session.session_id} already exists") from error

    def session(self, session_id: str) -> Steps[Session | None]:
        """The session; also one that only has messages, which another framework has begun."""
        item = yield _item_calls.get_item(self._path(session_id), _SESSION)
        if item is not None:
            return Session.from_dict(_record(item))
        of = self._conversation(session_id, _DEFAULT_AGENT)
        if not (yield from session_steps.newest(of, 1)):
            return None
        begun = yield _calls.get_session(of)
        time = begun.created.isoformat()
        return Session(session_id, SessionType.AGENT, created_at=time, updated_at=time)

    def session_deleted(self, session_id: str) -> Steps[None]:
        if (yield from self.session(session_id)) is None:
            raise SessionException(f"Session {session_id} does not exist")
        path = self._path(session_id)
        pages = _item_calls.list_items(path, key_prefix=_AGENTS)
        call: Any = pages.first
        while call is not None:
            page = yield call
            for item in pages.items(page):
                agent_id = _record(item)["agent_id"]
                yield _calls.delete_session(self._conversation(session_id, agent_id))
            call = pages.next(page)
        yield _calls.delete_session(self._conversation(session_id, _DEFAULT_AGENT))
        yield _item_calls.delete_namespace(path)

    def agent_created(self, session_id: str, agent: SessionAgent) -> Steps[None]:
        record = agent.to_dict()
        json.dumps(record)  # Else the session would begin, and the agent would not.
        if self._template or self._subject:
            config = memory.SessionConfig(subject=self._subject) if self._subject else None
            of = self._conversation(session_id, agent.agent_id)
            yield from session_steps.begun(of, template=self._template, config=config)
        yield self._put(session_id, _agent_key(agent.agent_id), record)

    def agent(self, session_id: str, agent_id: str) -> Steps[SessionAgent | None]:
        item = yield _item_calls.get_item(self._path(session_id), _agent_key(agent_id))
        return None if item is None else SessionAgent.from_dict(_record(item))

    def agent_updated(self, session_id: str, agent: SessionAgent) -> Steps[None]:
        key = _agent_key(agent.agent_id)
        while True:
            item = yield _item_calls.get_item(self._path(session_id), key)
            if item is None:
                raise SessionException(
                    f"Agent {agent.agent_id} in session {session_id} does not exist")
            agent.created_at = _record(item)["created_at"]
            try:
                yield self._put(session_id, key, agent.to_dict(), item.wire.version)
            except MemorydError as error:
                if error.reason != "VERSION_MISMATCH":
                    raise
            else:
                return

    def is_begun(self, session_id: str, agent_id: str) -> Steps[bool]:
        """Whether there are messages for an agent that there is no record of."""
        if (yield from self.agent(session_id, agent_id)) is not None:
            return False
        return bool((yield from session_steps.newest(self._conversation(session_id, agent_id), 1)))

    def group_created(self, session_id: str, group_id: str, state: Any) -> Steps[None]:
        yield self._put(session_id, _group_key(group_id), state)

    def group(self, session_id: str, group_id: str) -> Steps[dict[str, Any] | None]:
        item = yield _item_calls.get_item(self._path(session_id), _group_key(group_id))
        return None if item is None else _record(item)

    def group_updated(self, session_id: str, group_id: str, state: Any) -> Steps[None]:
        if (yield from self.group(session_id, group_id)) is None:
            raise SessionException(
                f"MultiAgent state {group_id} in session {session_id} does not exist")
        yield self._put(session_id, _group_key(group_id), state)

    def message_created(
        self, session_id: str, agent_id: str, message: SessionMessage
    ) -> Steps[None]:
        made = own_forms.stored(FORM, _messages.value_of(message),
                                message_id=_messages.message_id(message.message_id))
        try:
            yield from session_steps.put(self._conversation(session_id, agent_id), [made])
        except MemorydError as error:
            if error.reason != "MESSAGE_ID_EXISTS":
                raise
            raise SessionException(
                f"Message {message.message_id} of agent {agent_id} in session {session_id} already "
                "exists: another object writes to this session. Create a new agent, which reads "
                "what was stored since.") from error

    def messages(
        self, session_id: str, agent_id: str, limit: int | None, offset: int
    ) -> Steps[list[SessionMessage]]:
        of = self._conversation(session_id, agent_id)
        found = yield from _messages.entries(of, offset)
        if not found and (yield from self.agent(session_id, agent_id)) is None:
            raise SessionException(
                f"There are no messages of agent {agent_id} in session {session_id}: neither "
                "exists. Create the agent first.")
        if offset > 0:
            found, offset = found[:None if limit is None else max(limit, 0)], 0
            limit = None
        end = None if limit is None else offset + limit
        return [entry.session_message() for entry in found[offset:end]]

    def message(
        self, session_id: str, agent_id: str, number: int
    ) -> Steps[SessionMessage | None]:
        entry = yield from _entry(self._conversation(session_id, agent_id), number)
        return None if entry is None else entry.session_message()

    def message_updated(
        self, session_id: str, agent_id: str, message: SessionMessage
    ) -> Steps[None]:
        of, number = self._conversation(session_id, agent_id), message.message_id
        entry = yield from _entry(of, number)
        if entry is None:
            raise SessionException(f"Message {number} does not exist")
        if entry.message is None:
            raise SessionException(
                f"Message {number} is of another framework, where it is several messages: it can't "
                "be changed here")
        message.created_at = entry.value["created_at"]
        value = _messages.value_of(message)
        made = own_forms.stored(FORM, value)
        try:
            if not made.HasField("text") and not made.parts:  # Which would leave the old ones.
                made = own_forms.stored(ChangedForm(memory.Message()), value)
            yield from _updated(of, entry.message.message_id, made)
        except MemorydError as error:
            if error.reason != "TOOL_PAIR":
                raise
            yield from _updated(of, entry.message.message_id, own_forms.stored(
                ChangedForm(entry.message), value))

    def _path(self, session_id: str) -> tuple[str, ...]:
        return (*self._base, names.quoted(session_id))

    def _put(
        self, session_id: str, key: str, record: Any, expected_version: int | None = None
    ) -> _calls.Call[Any]:
        # As text, which has NUL and halves of characters too.
        return _item_calls.put_item(
            self._path(session_id), key, {"record": json.dumps(record)}, search=[],
            expected_version=expected_version,
            config=wire.NamespaceConfig(subject=self._subject) if self._subject else None)


def _agent_key(agent_id: str) -> str:
    return _AGENTS + names.quoted(agent_id)


def _group_key(group_id: str) -> str:
    return _GROUPS + names.quoted(group_id)


def _record(item: Item) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(item.value["record"])
    return record


def _entry(session_id: str, number: int) -> Steps[_messages.Entry | None]:
    found = yield from _messages.entries(session_id, number)
    same = [entry for entry in found if entry.number == number]
    return max(same, key=lambda entry: entry.is_own, default=None)


def _updated(session_id: str, message_id: str, made: memory.Message) -> Steps[None]:
    def call(token_count: int | None) -> _calls.Call[Any]:
        return _calls.update_message(
            session_id, message_id, made.text if made.HasField("text") else None, parts=made.parts,
            metadata_json=made.metadata_json, token_count=token_count)

    try:
        yield call(None)
    except MemorydError as error:
        if not error.field.endswith("token_count"):  # Where LlamaIndex counts them.
            raise
        yield call(made.ByteSize() // _BYTES_OF_TOKEN)
