"""State of ADK as items.

A user of an app is a namespace, so that the user's state and a session's own change at once:

    (*base, APP)          state             {"k": 1}
    (*base, APP, USER)    state             {"k": 1}
                          session/ID        {"state": {...}, "user": ..., "id": ...}
                          session/ID/seen   {"position": 7, "revision": 9, "update_time": ...}

An event is stored first, with its changes of state, and then what it changes. `position` is that of
the last event whose changes are in the state. A reader that finds a later one, after a crash
between the two, makes its changes. Who changes any of the state writes `seen` too, under the
condition that nobody has: most events change nothing, and write nothing else.

`revision` is one that the session had while no message was after `position`. A reader that finds
none after it need not ask for the revision. If it has risen, an append is refused, and asks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from google.adk.sessions import State
from google.adk.sessions._session_util import extract_json_safe_state_delta

from memoryd import _item_calls, items
from memoryd._adapters.names import quoted
from memoryd._steps import Steps, every
from memoryd._wire_text import dumps, is_json
from memoryd.errors import MemorydError
from memoryd.v1 import item_service_pb2 as wire

Dict = dict[str, Any]
STATE = "state"
SESSIONS = "session/"
# Behind a session's key. No quoted name has a slash.
_SEEN = "/seen"
# Less than the server takes, for what is there already.
_MAX_BYTES = 30 << 20


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a session's state is: below `base`, which names the app."""

    base: tuple[str, ...]
    user_id: str
    session_id: str
    is_subject: bool = False

    @property
    def of_user(self) -> tuple[str, ...]:
        return (*self.base, quoted(self.user_id))

    @property
    def key(self) -> str:
        return SESSIONS + quoted(self.session_id)

    @property
    def seen(self) -> str:
        return self.key + _SEEN


class Versions(NamedTuple):
    """Of the four items. 0: there is none."""

    seen: int
    session: int
    user: int
    app: int


_NONE = Versions(0, 0, 0, 0)


@dataclasses.dataclass
class Stored:
    """The state of a session, of its user and of its app."""

    place: Place
    state: Dict
    user: Dict
    app: Dict
    position: int = 0
    revision: int = 0
    update_time: float = 0.0
    versions: Versions = _NONE

    @property
    def exists(self) -> bool:
        return self.versions.seen != 0

    def merged(self) -> Dict:
        """The state as a session shows it."""
        return merged(self.state, self.user, self.app)

    def apply(self, delta: Mapping[str, Any]) -> set[str]:
        """Makes the changes of an event, and returns which of the three they concern."""
        deltas = extract_json_safe_state_delta(dict(delta))
        touched = set()
        for scope, values in (("session", self.state), ("user", self.user), ("app", self.app)):
            if deltas[scope]:
                values.update(deltas[scope])
                touched.add(scope)
        return touched


def merged(state: Mapping[str, Any], user: Mapping[str, Any], app: Mapping[str, Any]) -> Dict:
    return {**state, **{State.APP_PREFIX + key: value for key, value in app.items()},
            **{State.USER_PREFIX + key: value for key, value in user.items()}}


def checked(delta: Mapping[str, Any]) -> None:
    """Raises ValueError for changes that the server would refuse after it has stored their event.
    """
    deltas = extract_json_safe_state_delta(dict(delta))
    if not is_json(deltas, dumps(deltas), max_bytes=_MAX_BYTES):
        raise ValueError(
            "state: must be JSON of at most 30 MiB and 60 levels, without NaN, NUL, and halves of "
            f"surrogate pairs; got changes of {', '.join(map(repr, delta))}")


def read(place: Place) -> Steps[Stored]:
    """Returns what is stored of a session; an empty state if there is none."""
    outcomes = yield _item_calls.batch_items([
        items.batch(place.of_user, [items.get(key) for key in (place.seen, place.key, STATE)]),
        items.batch(place.base, [items.get(STATE)])])
    found = [items.item_of(result.get)
             for outcome in outcomes for result in items.results(outcome)]
    seen, record, user, app = (item.value if item else {} for item in found)
    return Stored(place, record.get("state", {}), user, app, seen.get("position", 0),
                  seen.get("revision", 0), seen.get("update_time", 0.0),
                  Versions(*(item.wire.version if item else 0 for item in found)))


def listed(base: tuple[str, ...], path: Sequence[str], app: Dict) -> Steps[list[Stored]]:
    """Returns what is stored of the sessions of the user whose namespace it is."""
    user = yield _item_calls.get_item(path, STATE)
    found = {item.key: item.value for item in (yield from every(
        _item_calls.list_items(path, key_prefix=SESSIONS, page_size=1000)))}
    return [
        Stored(Place(base, record["user"], record["id"]), record["state"],
               user.value if user else {}, app, seen["position"],
               update_time=seen["update_time"])
        for key, record in found.items()
        if not key.endswith(_SEEN) and (seen := found.get(key + _SEEN))]


def write(stored: Stored, touched: set[str]) -> Steps[int]:
    """Stores what was seen, and the states that were touched, under the condition that nobody has
    written them since. Returns the new version of `seen`; 0 if another writer was faster. The app's
    state goes first: to make its changes again changes nothing."""
    place, versions = stored.place, stored.versions
    if "app" in touched:
        done = yield from _batch(place.base, [_put(STATE, stored.app, versions.app)], None)
        if not done:
            return 0
    operations = []
    if "session" in touched or not versions.session:
        record = {"state": stored.state, "user": place.user_id, "id": place.session_id}
        operations.append(_put(place.key, record, versions.session))
    if "user" in touched:
        operations.append(_put(STATE, stored.user, versions.user))
    return (yield from _seen(
        place, stored.position, stored.revision, stored.update_time, versions.seen, operations))


def saw(place: Place, position: int, revision: int, time: float, version: int) -> Steps[int]:
    """Stores that an event which changes no state was seen. Returns the new version of `seen`; 0
    if it is no longer the one that is given."""
    return (yield from _seen(place, position, revision, time, version, []))


def delete(place: Place) -> Steps[None]:
    """Deletes the session's own state."""
    yield from _batch(place.of_user, [items.delete(place.key), items.delete(place.seen)], None)


def _seen(
    place: Place, position: int, revision: int, time: float, version: int,
    others: Sequence[wire.ItemOperation],
) -> Steps[int]:
    seen = _put(place.seen, {
        "position": position, "revision": revision, "update_time": time}, version)
    config = wire.NamespaceConfig(subject=place.user_id) if place.is_subject else None
    done = yield from _batch(place.of_user, [seen, *others], config)
    return int(done[0].put.version) if done else 0


def _put(key: str, value: Dict, version: int) -> wire.ItemOperation:
    return items.put(key, value, expected_version=version, search=[])


def _batch(
    namespace: tuple[str, ...], operations: list[wire.ItemOperation],
    config: wire.NamespaceConfig | None,
) -> Steps[Sequence[wire.ItemOperationResult]]:
    """The results; none, and nothing is stored, if a version has changed."""
    outcome, = yield _item_calls.batch_items(
        [items.batch(namespace, operations, config=config)])
    try:
        return items.results(outcome)
    except MemorydError as error:
        if error.reason == "VERSION_MISMATCH":
            return ()
        raise
