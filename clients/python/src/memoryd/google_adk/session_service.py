"""The session service of Google's Agent Development Kit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

import grpc
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from memoryd import _calls, _item_calls
from memoryd._adapters import own_forms, session_steps, turns
from memoryd._adapters.connections import connection_of
from memoryd._adapters.names import MAX_NAME_BYTES, quoted
from memoryd._adapters.outcomes import ended
from memoryd._connection import Connection
from memoryd._steps import Steps, every, together
from memoryd.errors import MemorydError
from memoryd.google_adk import _state
from memoryd.google_adk._events import FORM
from memoryd.google_adk._marker import Marker
from memoryd.v1 import memory_pb2 as memory

_STALE = ("The session has been modified in storage since it was loaded. "
          "Please reload the session before appending more events.")
_PAGE = 100


def session_name(app_name: str, user_id: str, session_id: str) -> str:
    """Returns the id that an ADK session has in memoryd, for other clients of it."""
    names = [quoted(name) for name in (app_name, user_id, session_id)]
    name = "/".join(names)
    return name if len(name) <= MAX_NAME_BYTES else f"adk/{quoted(name * 2)}"


class MemorydSessionService(BaseSessionService):
    """Keeps ADK's sessions in memoryd, for any number of event loops and processes.

    Events come back as they were appended. Their texts, calls, responses, thoughts and media are
    parts of memoryd's messages, so other clients of the session read them and Query finds them.
    Messages that another framework has put into the session are read as events.
    """

    def __init__(
        self,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("adk",),
        agent_name: str = "model",
        template: str = "",
        subjects: bool = False,
        **options: Any,
    ) -> None:
        """`target` and `options` are as for memoryd.Client; without `target` the address comes from
        the environment. `namespace` is the path below which the state is. `agent_name` is the
        author of what other frameworks' assistants have said: the agent that goes on.

        `template` names a configuration on the server for sessions that this object creates. With
        `subjects` their messages are the data of their user, see Client.erase_subject."""
        self._connection = connection_of(target, options)
        self._base = (*namespace, "sessions")
        self._agent_name = agent_name
        self._template = template
        self._subjects = subjects

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Creates a session. Raises AlreadyExistsError if there is one of this id."""
        session_id = (session_id or "").strip() or str(uuid.uuid4())
        return await ended(self._connection.async_client._steps(
            self._created(self._place(app_name, user_id, session_id), app_name, state or {})))

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Returns a session with all events, or those that `config` asks for; None if there is
        none."""
        session_id = (session_id or "").strip()
        if not session_id:
            return None
        return await self._connection.async_client._steps(self._loaded(
            self._place(app_name, user_id, session_id), app_name, config or GetSessionConfig()))

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Returns the sessions of a user, or of all, without events; the one that was changed last
        comes last."""
        sessions = await self._connection.async_client._steps(self._listed(app_name, user_id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes a session with its events and its own state."""
        session_id = (session_id or "").strip()
        if session_id:
            await ended(self._connection.async_client._steps(
                self._deleted(self._place(app_name, user_id, session_id), app_name)))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Returns the state of a user, without the prefix of its keys."""
        item = await self._connection.async_client.get_item(
            (*self._base, quoted(app_name), quoted(user_id)), _state.STATE)
        return dict(item.value) if item else {}

    async def append_event(self, session: Session, event: Event) -> Event:
        """Appends an event and makes its changes of state. Raises StaleSessionError if events were
        appended since the session was loaded, and SessionNotFoundError if there is none."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        _state.checked(event.actions.state_delta)
        value = event.model_dump(mode="json", exclude_none=True)
        message = own_forms.stored(FORM, own_forms.json_value(value), message_id=event.id)
        message.create_time.FromMicroseconds(round(event.timestamp * 1e6))
        is_new = await ended(self._connection.async_client._steps(
            self._appended(session, event, value, message)))
        return self._commit_event_to_session(session, event) if is_new else event

    def _place(self, app_name: str, user_id: str, session_id: str) -> _state.Place:
        return _state.Place(
            (*self._base, quoted(app_name)), user_id, session_id, self._subjects)

    def _created(
        self, place: _state.Place, app_name: str, state: dict[str, Any]
    ) -> Steps[Session]:
        name = session_name(app_name, place.user_id, place.session_id)
        exists = AlreadyExistsError(f"Session with id {place.session_id} already exists.")
        while True:
            stored = yield from _state.read(place)
            if stored.exists or (yield from session_steps.revision_of(name)) is not None:
                raise exists
            stored.update_time = time.time()
            version = yield from _state.write(stored, stored.apply(state))
            if version:
                break
        revision = 0
        if self._template or self._subjects:
            yield from session_steps.begun(
                name, template=self._template, config=self._config(place.user_id))
            revision = (yield from session_steps.revision_of(name)) or 0
        return _session(app_name, stored, [], Marker(revision, 0, version))

    def _config(self, user_id: str) -> memory.SessionConfig | None:
        return memory.SessionConfig(subject=user_id) if self._subjects else None

    def _loaded(
        self, place: _state.Place, app_name: str, config: GetSessionConfig
    ) -> Steps[Session | None]:
        name = session_name(app_name, place.user_id, place.session_id)
        back = session_steps.Backwards(name, _PAGE)
        stored, _ = yield from together(_state.read(place), back.page())
        if _is_up_to(stored, back.messages):
            events = yield from self._read(back, stored, config)
            # Else the session was replaced between two pages.
            if _is_up_to(stored, back.messages):
                return _session(
                    app_name, stored, _chosen(events, config),
                    Marker(stored.revision, stored.position, stored.versions.seen))
        return (yield from self._loaded_in_order(name, stored, app_name, config))

    def _loaded_in_order(
        self, name: str, stored: _state.Stored, app_name: str, config: GetSessionConfig
    ) -> Steps[Session | None]:
        """Reads the revision after the state, and then the messages: these have all events whose
        changes are in the state, and all that the revision knows of."""
        while True:
            revision = yield from session_steps.revision_of(name)
            if not stored.exists and revision is None:
                return None
            back = session_steps.Backwards(name, _PAGE)
            events: list[Event] = []
            if revision is not None:
                yield from back.page()
                events = yield from self._read(back, stored, config)
            messages = back.messages
            if stored.exists and not (yield from _caught_up(stored, messages, revision or 0)):
                stored = yield from _state.read(stored.place)  # Another reader was faster.
                continue
            last = messages[-1].position if messages else 0
            if not stored.exists:
                stored.update_time = events[-1].timestamp if events else 0.0
            return _session(app_name, stored, _chosen(events, config),
                            Marker(revision or 0, last, stored.versions.seen))

    def _read(
        self, back: session_steps.Backwards, stored: _state.Stored, config: GetSessionConfig
    ) -> Steps[list[Event]]:
        """The events, of more pages than the first if it lacks any."""
        position = stored.position if stored.exists else None
        events = self._events(back.messages)
        while not back.is_over and not _suffices(events, back.messages, position, config):
            yield from back.page()
            events = self._events(back.messages)
        return events

    def _events(self, messages: Sequence[memory.Message]) -> list[Event]:
        made = []
        for one in own_forms.read(FORM, turns.whole(messages)):
            for value in one.values:
                event = Event.model_validate(value)
                if not one.is_own:
                    event.author = event.author or self._agent_name
                made.append(event)
        return made

    def _listed(self, app_name: str, user_id: str | None) -> Steps[list[Session]]:
        base = (*self._base, quoted(app_name))
        if user_id is not None:
            users = [(*base, quoted(user_id))]
        else:
            paths = yield from every(_item_calls.list_namespaces(prefix=base))
            users = [path for path in paths if len(path) == len(base) + 1]
        app = yield _item_calls.get_item(base, _state.STATE)
        made: list[Session] = []
        for path in users:
            stored = yield from _state.listed(base, path, app.value if app else {})
            made.extend(_session(app_name, one, [], None) for one in stored)
        return sorted(made, key=lambda one: (one.last_update_time, one.user_id, one.id))

    def _deleted(self, place: _state.Place, app_name: str) -> Steps[None]:
        try:
            yield _calls.delete_session(
                session_name(app_name, place.user_id, place.session_id))
        except MemorydError as error:
            if error.code != grpc.StatusCode.NOT_FOUND:
                raise
        yield from _state.delete(place)

    def _appended(
        self, session: Session, event: Event, value: Any, message: memory.Message
    ) -> Steps[bool]:
        """Returns whether the event is new: not if it is in the session already."""
        place = self._place(session.app_name, session.user_id, session.id)
        name = session_name(session.app_name, session.user_id, session.id)
        marker = Marker.of(session)
        stored: _state.Stored | None = None
        if marker is None or marker.revision == 0:
            stored = yield from self._there(place, name)
            if marker is None:
                marker = yield from self._matched(session, stored, name)
        while True:
            try:
                reply = yield from session_steps.put(
                    name, [message], expected_revision=marker.revision)
                break
            except MemorydError as error:
                if error.reason == "MESSAGE_ID_EXISTS":
                    yield from _same(name, value)
                    return False
                if error.reason != "REVISION_MISMATCH":
                    raise
            stored = yield from self._there(place, name)
            marker = yield from _still(name, marker)
        position = reply.positions[0]
        version = 0
        if marker.version and not event.actions.state_delta:
            version = yield from _state.saw(
                place, position, reply.revision, event.timestamp, marker.version)
        while not version:
            stored = yield from _state.read(place)
            if not stored.exists and marker.version:
                yield from self._deleted(place, session.app_name)
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if stored.position >= position:
                version = stored.versions.seen
                break
            touched = stored.apply(event.actions.state_delta)
            stored.position, stored.revision = position, reply.revision
            stored.update_time = event.timestamp
            version = yield from _state.write(stored, touched)
        Marker(reply.revision, position, version).put_on(session)
        session.last_update_time = event.timestamp
        return True

    def _there(self, place: _state.Place, name: str) -> Steps[_state.Stored]:
        stored = yield from _state.read(place)
        if not stored.exists and (yield from session_steps.revision_of(name)) is None:
            raise SessionNotFoundError(f"Session {place.session_id} not found.")
        return stored

    def _matched(
        self, session: Session, stored: _state.Stored, name: str
    ) -> Steps[Marker]:
        """The marker of a session that this service has not loaded, if it has the last event."""
        revision = yield from session_steps.revision_of(name)
        newest = yield from session_steps.newest(name, 1)
        last = self._events(newest)
        known = session.events[-1].id if session.events else None
        if (last[-1].id if last else None) != known:
            raise StaleSessionError(_STALE)
        return Marker(revision or 0, newest[-1].position if newest else 0,
                      stored.versions.seen)


def _session(
    app_name: str, stored: _state.Stored, events: list[Event], marker: Marker | None
) -> Session:
    made = Session(
        id=stored.place.session_id, app_name=app_name, user_id=stored.place.user_id,
        state=stored.merged(), events=events, last_update_time=stored.update_time)
    if marker is not None:
        marker.put_on(made)
    return made


def _is_up_to(stored: _state.Stored, messages: Sequence[memory.Message]) -> bool:
    """Whether the state has the changes of the messages' last event and of none after it, and a
    revision of the session when that was the last one."""
    return stored.revision > 0 and bool(messages) and messages[-1].position == stored.position


def _suffices(
    events: Sequence[Event], messages: Sequence[memory.Message], position: int | None,
    config: GetSessionConfig,
) -> bool:
    """Whether enough was read: the events that are asked for, and all that the state lacks."""
    if position is not None and messages and messages[0].position > max(position, 1):
        return False
    if config.num_recent_events is not None and len(events) >= config.num_recent_events:
        return True
    after = config.after_timestamp
    return after is not None and any(event.timestamp < after for event in events)


def _chosen(events: list[Event], config: GetSessionConfig) -> list[Event]:
    count, after = config.num_recent_events, config.after_timestamp
    if count is not None:
        events = events[-count:] if count else []
    if after is not None:
        older = [at for at, event in enumerate(events) if event.timestamp < after]
        events = events[older[-1] + 1:] if older else events
    return events


def _caught_up(
    stored: _state.Stored, messages: Sequence[memory.Message], revision: int
) -> Steps[bool]:
    """Makes the changes of events that the state lacks. `revision` is one of before the messages
    were read. False if another reader was faster."""
    touched: set[str] = set()
    late = [one for one in messages if one.position > stored.position]
    if not late:
        return True
    for one in own_forms.read(FORM, late):
        if one.is_own:
            event = Event.model_validate(one.values[0])
            touched |= stored.apply(event.actions.state_delta)
            stored.update_time = event.timestamp
    stored.position, stored.revision = late[-1].position, revision
    version = yield from _state.write(stored, touched)
    stored.versions = stored.versions._replace(seen=version)
    return version != 0


def _still(name: str, marker: Marker) -> Steps[Marker]:
    """The marker at the session's revision, if no message was stored meanwhile."""
    revision = yield from session_steps.revision_of(name)
    newest = yield from session_steps.newest(name, 1)
    if (newest[-1].position if newest else 0) != marker.position:
        raise StaleSessionError(_STALE)
    return Marker(revision or 0, marker.position, marker.version)


def _same(name: str, value: Any) -> Steps[None]:
    """Raises AlreadyExistsError unless this very event was stored."""
    messages = yield from session_steps.newest(name, _PAGE)
    stored = [value for one in own_forms.read(FORM, messages) for value in one.values]
    if own_forms.json_value(value) not in stored:
        raise AlreadyExistsError(f"Event {value['id']} is in the session, with another content")
