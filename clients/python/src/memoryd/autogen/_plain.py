"""Python values as JSON holds them, and what it takes to have them back as they were.

JSON has no dates, enumerations, tuples, sets, bytes, and no keys but strings. Each is written as
its nearest kin, such as a date as text, and noted as [path, kind, ...], where the path leads to it
from the outermost value. What is further inside is noted first.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import math
import sys
import uuid
import zoneinfo
from typing import Any

from memoryd._wire_text import joined, with_halves, without_halves

Notes = list[list[Any]]

_LARGE = 10**4000


def plain(value: Any, what: str) -> tuple[Any, Notes]:
    """The value as JSON holds it, and notes for `restored`. TypeError for a type that is none of
    those above, and for a value that holds itself or is hundreds of levels deep; it says where in
    `what`."""
    notes: Notes = []
    try:
        return _plain(value, [], notes), notes
    except _Unknown as error:
        where = "".join(f"[{key!r}]" for key in error.path)
        raise TypeError(
            f"{what}{where}: {error.kind.__name__} is no type that can be stored") from None
    except RecursionError:
        raise TypeError(f"{what}: it holds itself, or is too deep") from None


def restored(value: Any, notes: Notes) -> Any:
    """What `plain` was given. A member of an enumeration whose class is not there, as a process has
    it that never imported its module, stays its value."""
    root = [value]
    for path, kind, *further in notes:
        at: Any = root
        keys: list[Any] = [0, *path]
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = _restored(at[keys[-1]], kind, further)
    return root[0]


class _Unknown(Exception):
    def __init__(self, kind: type, path: list[Any]) -> None:
        self.kind = kind
        self.path = path


def _plain(value: Any, path: list[Any], notes: Notes) -> Any:
    made, note = _scalar(value)
    if note is None:
        if isinstance(value, dict):
            if all(isinstance(key, str) and not isinstance(key, enum.Enum)
                   and not without_halves(key)[1] for key in value):
                return {(name := joined(key)): _plain(item, [*path, name], notes)
                        for key, item in value.items()}
            made, note = _items(value.items(), path, notes), ["dict"]
        elif isinstance(value, list):
            return _items(value, path, notes)
        elif isinstance(value, (tuple, set, frozenset)):
            kind = next(kind for kind in (tuple, set, frozenset) if isinstance(value, kind))
            made, note = _items(value, path, notes), [kind.__name__]
        else:
            raise _Unknown(type(value), path)
    if note:
        notes.append([path, *note])
    return made


def _items(values: Any, path: list[Any], notes: Notes) -> list[Any]:
    return [_plain(list(item) if isinstance(values, type({}.items())) else item,
                   [*path, index], notes) for index, item in enumerate(values)]


def _scalar(value: Any) -> tuple[Any, list[Any] | None]:
    """A value that has none inside, with its note, which is empty where JSON has it; None for the
    note of any other."""
    if value is None or isinstance(value, bool):
        return value, []
    if isinstance(value, enum.Enum):
        kin = value.value if isinstance(value.value, (str, int, float)) else value.name
        note = ["enum", type(value).__module__, type(value).__qualname__, value.name or ""]
        return _scalar(kin)[0], note
    if isinstance(value, str):
        text, halves = without_halves(value)
        return text, ["halves", halves] if halves else []
    if isinstance(value, int):
        # Python neither writes nor reads larger ones as decimals.
        return (int(value), []) if abs(value) < _LARGE else (hex(value), ["int"])
    if isinstance(value, float):
        return (float(value), []) if math.isfinite(value) else (repr(float(value)), ["float"])
    if isinstance(value, bytes):
        return base64.b64encode(value).decode(), ["bytes"]
    if isinstance(value, datetime.datetime):
        zone = value.tzinfo.key if isinstance(value.tzinfo, zoneinfo.ZoneInfo) else None
        return value.isoformat(), ["datetime", zone, value.fold]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat(), [type(value).__name__]
    if isinstance(value, datetime.timedelta):
        return str(value), ["timedelta", value.days, value.seconds, value.microseconds]
    if isinstance(value, decimal.Decimal):
        return str(value), ["Decimal"]
    if isinstance(value, uuid.UUID):
        return str(value), ["UUID"]
    return None, None


def _restored(value: Any, kind: str, further: list[Any]) -> Any:
    if kind == "enum":
        return _member(value, *further)
    if kind == "halves":
        return with_halves(value, *further)
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "datetime":
        return _datetime(value, *further)
    if kind == "timedelta":
        return datetime.timedelta(*further)
    if kind == "int":
        return int(value, 16)
    return _MADE[kind](value)


_MADE: dict[str, Any] = {
    "dict": dict,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "float": float,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "Decimal": decimal.Decimal,
    "UUID": uuid.UUID,
}


def _datetime(text: str, zone: str | None, fold: int) -> datetime.datetime:
    made = datetime.datetime.fromisoformat(text).replace(fold=fold)
    if zone is None:
        return made
    try:
        return made.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    except zoneinfo.ZoneInfoNotFoundError:
        return made  # With the zone's offset of then.


def _member(value: Any, module: str, name: str, member: str) -> Any:
    # Nothing is imported by what is stored, and nothing but an enumeration is looked for.
    found: Any = sys.modules.get(module)
    for step in name.split("."):
        found = getattr(found, step, None)
    if not (isinstance(found, type) and issubclass(found, enum.Enum)):
        return value
    try:
        # Flags together are no member by name.
        return found[member] if member in found.__members__ else found(value)
    except ValueError:
        return value
