"""Whether all that was done to one key can have been done in one order that agrees with the times.

A key is a register. Puts write values that differ, and their versions say in which order they were
done; deletes take away what stands there; looks tell what stood there. A condition that was refused is
a look. The search goes through the times at which calls ended. It keeps every state that the
register can be in then, together with those unfinished calls that were done already, and adds what
may be done before the next end. A call that ends and was done in no state contradicts the others.
This is exact but for calls of unknown outcome: each may be done once, at any time after it was
sent, or never.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence

_NEVER = math.inf
# What the clock of a server and that of the clients may go apart within the life of an item.
CLOCKS_NS = 20_000_000
_ABSENT, _PRESENT, _UNSEEN = range(3)


@dataclasses.dataclass(eq=False)
class Put:
    """A put that was done, since it was acknowledged or seen."""

    name: str
    item: str  # "?": all that is known is the version.
    version: int
    invoke: float
    returned: float = _NEVER
    expected: int | None = None  # The version that had to be there; 0: none.
    expires_ns: float = 0  # How long it stays; 0: for ever.


@dataclasses.dataclass(eq=False)
class Delete:
    """An acknowledged delete, of the key or of all that its namespace holds."""

    name: str
    invoke: float
    returned: float
    expected: int | None = None
    found: bool = False  # There was an item. Else nothing is said about that.


@dataclasses.dataclass(eq=False)
class Look:
    """What somebody saw under the key."""

    name: str
    invoke: float
    returned: float
    version: int = 0  # 0: there was none, or see `item`.
    item: str = ""  # Instead of the version, where only the value was shown.
    # Where values of one client alone were asked for: what was not shown may be another's.
    client: int | None = None
    final: bool = False

    @property
    def shows(self) -> bool:
        return self.version > 0 or self.item != ""

    def fits(self, put: Put | None, unseen: bool) -> bool:
        """Whether it may look so where `put` stands, or what nobody has seen."""
        if self.shows:
            return put is not None and (put.version == self.version if self.version
                                        else put.item == self.item)
        if self.client is None:
            return put is None and not unseen
        return put is None or client_of(put.item) != self.client


Call = Put | Delete | Look
# How many puts were done, what stands there, which unfinished calls were done.
_State = tuple[int, int, frozenset[Call]]
# How many deletes, and puts, of unknown outcome it took.
_Cost = tuple[int, int]


def client_of(item: str) -> int | None:
    number = item.partition(".")[0]
    return int(number) if number.isdigit() else None


class Register:
    """`puts` have different versions. `maybe_deleted` and `maybe_put` are the times at which calls of
    unknown outcome were sent: deletes, and puts that nobody has seen."""

    def __init__(self, puts: Iterable[Put], deletes: Iterable[Delete], looks: Iterable[Look],
                 maybe_deleted: Sequence[float] = (), maybe_put: Sequence[float] = ()) -> None:
        self._puts = sorted(puts, key=lambda put: put.version)
        self._index = {put: index for index, put in enumerate(self._puts)}
        self._maybe_deleted, self._maybe_put = sorted(maybe_deleted), sorted(maybe_put)
        self._pending: list[Delete | Look] = []
        self._costs: dict[_State, list[_Cost]] = {(0, _ABSENT, frozenset()): [(0, 0)]}
        # Sent before ended, where times are equal.
        self._events: list[tuple[float, int, Call]] = []
        for call in (*self._puts, *deletes, *looks):
            if not isinstance(call, Put):
                self._events.append((call.invoke, 0, call))
            elif call.expires_ns and call.returned < _NEVER:
                self._events.append((call.returned + call.expires_ns + CLOCKS_NS, 1, call))
            if call.returned < _NEVER:
                self._events.append((call.returned, 2, call))
        self._events.sort(key=lambda event: event[:2])

    def contradictions(self) -> Iterator[Call]:
        """Calls that were done in no order that the calls before them leave. Each is left out then.
        May be called once."""
        for now, kind, call in self._events:
            if kind == 0:
                self._pending.append(call)
            elif kind == 1:
                self._reach(now)  # Looks that began before see it.
                self._expire(call)
            elif isinstance(call, Put):
                yield from self._end_put(call, now)
            else:
                yield from self._end(call, now)

    def _expire(self, put: Put) -> None:
        at = (self._index[put] + 1, _PRESENT)
        before, self._costs = self._costs, {}
        for (count, stands, done), costs in before.items():
            state = (count, _ABSENT if (count, stands) == at else stands, done)
            for cost in costs:
                self._add(state, cost)

    def _end_put(self, put: Put, now: float) -> Iterator[Put]:
        count = self._index[put] + 1
        # Most often others have looked at it already.
        if all(state[0] >= count for state in self._costs):
            return
        self._reach(now)
        fitting = {state: costs for state, costs in self._costs.items() if state[0] >= count}
        if not fitting:
            yield put
            fitting = {(count, _PRESENT, frozenset()): [(0, 0)]}
        self._costs = fitting

    def _end(self, call: Delete | Look, now: float) -> Iterator[Delete | Look]:
        self._reach(now)
        fitting = {state: costs for state, costs in self._costs.items() if call in state[2]}
        if not fitting:
            yield call
            fitting = self._costs
        self._pending.remove(call)
        self._costs = {}
        for (count, stands, done), costs in fitting.items():
            for cost in costs:
                self._add((count, stands, done - {call}), cost)

    def _put_of(self, count: int, stands: int) -> Put | None:
        return self._puts[count - 1] if stands == _PRESENT else None

    def _add(self, state: _State, cost: _Cost) -> bool:
        """Whether the state was not reached before, or at a greater cost."""
        costs = self._costs.setdefault(state, [])
        if any(one[0] <= cost[0] and one[1] <= cost[1] for one in costs):
            return False
        costs[:] = [one for one in costs if one[0] < cost[0] or one[1] < cost[1]]
        costs.append(cost)
        return True

    def _reach(self, now: float) -> None:
        """Adds every state that calls sent by `now` can lead to."""
        looks = [call for call in self._pending if isinstance(call, Look)]
        waiting: collections.deque[tuple[_State, _Cost]] = collections.deque()

        def add(count: int, stands: int, done: frozenset[Call], cost: _Cost) -> None:
            # A look changes nothing, so it is done as soon as it can be.
            put = self._put_of(count, stands)
            done = done.union(look for look in looks if look.fits(put, stands == _UNSEEN))
            if self._add((count, stands, done), cost):
                waiting.append(((count, stands, done), cost))

        before, self._costs = self._costs, {}
        for (count, stands, done), costs in before.items():
            for cost in costs:
                add(count, stands, done, cost)
        while waiting:
            (count, stands, done), cost = waiting.popleft()
            for state, spent in self._next(count, stands, done, cost, now):
                add(*state, spent)

    def _next(self, count: int, stands: int, done: frozenset[Call], cost: _Cost, now: float
              ) -> Iterator[tuple[_State, _Cost]]:
        """The states that one call more leads to."""
        put = self._put_of(count, stands)
        version = put.version if put is not None else -1 if stands == _UNSEEN else 0
        following = self._puts[count] if count < len(self._puts) else None
        if following is not None and following.invoke > now:
            following = None
        if following is not None and following.expected in (None, version):
            yield (count + 1, _PRESENT, done), cost
        deletes = [call for call in self._pending if isinstance(call, Delete) and call not in done]
        for call in deletes:
            if call.expected is not None and call.expected != version:
                continue
            if not call.found or stands != _ABSENT:
                yield (count, _ABSENT, done | {call}), cost
        # What may be done at any time is done when something needs it.
        absence = (following is not None and following.expected == 0) or any(
            isinstance(call, Look) and not call.shows and call not in done
            for call in self._pending)
        if absence and stands != _ABSENT:
            expired = (put is not None and put.expires_ns
                       and put.invoke + put.expires_ns - CLOCKS_NS <= now)
            if expired:
                yield (count, _ABSENT, done), cost
            elif _sent(self._maybe_deleted, cost[0], now):
                yield (count, _ABSENT, done), (cost[0] + 1, cost[1])
        needed = stands == _ABSENT and any(call.found and call.expected is None for call in deletes)
        needed = needed or (stands == _PRESENT and any(
            isinstance(call, Look) and call.client is not None and call not in done
            for call in self._pending))
        if needed and _sent(self._maybe_put, cost[1], now):
            yield (count, _UNSEEN, done), (cost[0], cost[1] + 1)


def _sent(times: Sequence[float], taken: int, now: float) -> bool:
    """Whether one more than `taken` was sent by `now`."""
    return taken < len(times) and times[taken] <= now
