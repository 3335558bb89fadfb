"""State of ADK as items.

A user of an app is a namespace, so that the user's state and a session's own change at once:

    (*base, APP)          state             {"k": 1}
    (*base, APP, USER)    state             {"k": 1}
                          session/ID        {"state": {...}, "user": ..., "id": ...,
                                             "update_time": ..., "position": 7}

An event is stored first, with its changes of state, and then what it changes. `position` is that of
the last event whose changes are in the state. A reader that finds a later one, after a crash
between the two, makes its changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.sessions import State
from google.adk.sessions._session_util import extract_json_safe_state_delta

from memoryd import _item_calls, items
from memoryd._adapters.names import quoted
from memoryd._steps import Steps
from memoryd._wire_text import dumps, is_json
from memoryd.errors import MemorydError
from memoryd.v1 import item_service_pb2 as wire

Dict = dict[str, Any]
STATE = "state"
SESSIONS = "session/"
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


@dataclasses.dataclass
class Stored:
    """The state of a session, of its user and of its app, and their versions. 0: there is none."""

    place: Place
    record: Dict
    user: Dict
    app: Dict
    versions: tuple[int, int, int] = (0, 0, 0)

    @property
    def exists(self) -> bool:
        return self.versions[0] != 0

    @property
    def position(self) -> int:
        return int(self.record["position"])

    def merged(self) -> Dict:
        """The state as a session shows it."""
        return merged(self.record["state"], self.user, self.app)

    def apply(self, delta: Mapping[str, Any]) -> set[int]:
        """Makes the changes of an event, and returns which of the three they concern."""
        deltas = extract_json_safe_state_delta(dict(delta))
        touched = set()
        for at, (scope, values) in enumerate(
                (("session", self.record["state"]), ("user", self.user), ("app", self.app))):
            if deltas[scope]:
                values.update(deltas[scope])
                touched.add(at)
        return touched

    def seen(self, position: int, time: float) -> None:
        self.record["position"] = position
        self.record["update_time"] = time


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
    """Returns what is stored of a session; a new record if there is none."""
    outcomes = yield _item_calls.batch_items([
        items.batch(place.of_user, [items.get(place.key), items.get(STATE)]),
        items.batch(place.base, [items.get(STATE)])])
    found = [items.item_of(result.get)
             for outcome in outcomes for result in items.results(outcome)]
    record, user, app = (item.value if item else None for item in found)
    if record is None:
        record = {"state": {}, "user": place.user_id, "id": place.session_id, "position": 0,
                  "update_time": 0.0}
    first, second, third = (item.wire.version if item else 0 for item in found)
    return Stored(place, record, user or {}, app or {}, (first, second, third))


def write(stored: Stored, touched: set[int]) -> Steps[int]:
    """Stores the record, and those of the others that were touched, under the condition that nobody
    has written them since. Returns the record's new version; 0 if another writer was faster. The
    app's state goes first: to make its changes again changes nothing."""
    place, (first, second, third) = stored.place, stored.versions
    if 2 in touched:
        done = yield from _batch(place.base, [_put(STATE, stored.app, third)], None)
        if not done:
            return 0
    operations = [_put(place.key, stored.record, first)]
    if 1 in touched:
        operations.append(_put(STATE, stored.user, second))
    config = wire.NamespaceConfig(subject=place.user_id) if place.is_subject else None
    done = yield from _batch(place.of_user, operations, config)
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
