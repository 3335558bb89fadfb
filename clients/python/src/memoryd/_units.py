"""What a history leaves out once something was taken from it: calls without their results, and
results without their call, which providers refuse.

Only what retention or DeleteMessage has taken counts. A half that was stored as a half is shown, as
the frameworks' own stores show it. Positions tell: those of a session's messages follow each other
but where some were removed. They do not begin at 1 where a session was set anew or its oldest
messages were taken; which of the two, its retention tells as far as a client can know. Without a
retention, in an adapter that resets active messages alone, only what is missing between active ones
was taken for certain.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Sequence

from memoryd._roles import is_human, is_system
from memoryd.v1 import memory_pb2 as memory


@dataclasses.dataclass(frozen=True)
class Said:
    """What matters of a message. `calls` and `results` are ids of calls made and answered."""

    position: int
    role: str = ""
    calls: Sequence[str] = ()
    results: Sequence[str] = ()
    archived: bool = False


class History:
    """All stored messages of a session, oldest first. `resets` says that the adapter removes active
    messages alone, by Reset."""

    def __init__(self, said: Sequence[Said], *, resets: bool = False) -> None:
        self._said = said
        self._resets = resets
        # Per message the one that begins its unit, None for a result whose call is not there.
        self._unit_of: list[int | None] = []
        self._waiting: dict[int, set[str]] = {}
        # Units of which a message answers a call that is not there as well: the latest such one.
        self._torn: dict[int, int] = {}
        maker: dict[str, int] = {}
        for index, message in enumerate(said):
            unit: int | None = index
            answers = [call for call in message.results if call not in message.calls]
            if answers:
                units = [maker[call] for call in answers if call in maker]
                unit = max(units, default=None)
                if unit is not None:
                    self._waiting[unit].difference_update(answers)
                    if len(units) < len(answers):
                        self._torn[unit] = index
            if unit is not None:
                new = {call for call in message.calls if call not in message.results}
                self._waiting.setdefault(unit, set()).update(new)
                maker.update(dict.fromkeys(new, unit))
            self._unit_of.append(unit)

    def left_out(self, session: memory.Session | None, *, headless: bool = False) -> set[int]:
        """Which messages are not shown: halves, and where `headless` what stands before the first
        of a human's because something before that was taken. `session` is the session as it is."""
        # Whether something was taken right before each message.
        taken = self._taken(session)
        gone = self._lost(taken)
        return gone | self._headless(taken, session) if headless else gone

    def may_leave_out(self, *, headless: bool = False) -> bool:
        """Whether left_out may say anything, so that the session is worth asking for."""
        if None in self._unit_of or self._torn or any(self._waiting.values()):
            return True
        return headless and self._first_human(frozenset()) != next(
            (index for index, said in enumerate(self._said) if not is_system(said.role)), None)

    def _taken(self, session: memory.Session | None) -> list[bool]:
        takes = _takes_messages(session)
        taken = [takes and said.position > 1 for said in self._said[:1]]
        for one, next_one in itertools.pairwise(self._said):
            certain = takes or not self._resets or not (one.archived or next_one.archived)
            taken.append(certain and next_one.position != one.position + 1)
        return taken

    def _lost(self, taken: list[bool]) -> set[int]:
        before = list(itertools.accumulate(taken, operator.or_))
        last = max((index for index, was in enumerate(taken) if was), default=0)
        units = {unit for unit, waiting in self._waiting.items() if waiting and last > unit}
        units.update(unit for unit, index in self._torn.items() if before[index])
        return {index for index, unit in enumerate(self._unit_of)
                if (before[index] if unit is None else unit in units)}

    def _headless(self, taken: list[bool], session: memory.Session | None) -> set[int]:
        roles = frozenset(session.config.user_roles) if session is not None else frozenset()
        human = self._first_human(roles)
        if human is None or not any(taken[:human + 1]):
            return set()
        return {index for index in range(human) if not is_system(self._said[index].role)}

    def _first_human(self, roles: frozenset[str]) -> int | None:
        for index, said in enumerate(self._said):
            if (is_human(said.role) or said.role in roles) and not said.results:
                return index
        return None


def lacks(positions: Sequence[int]) -> bool:
    """Whether messages may have been taken, by the positions of those that there are: what is not
    so lacks nothing, and no History is needed."""
    return bool(positions) and positions[-1] != len(positions)


def _takes_messages(session: memory.Session | None) -> bool:
    if session is None:
        return False
    kept = session.config.retention
    return (kept.keep_messages > 0 or kept.keep_bytes > 0
            or kept.message_ttl.ToNanoseconds() > 0)
