"""Replies of the server as objects with a readable repr.

Each object has the fields of its proto message, `wire`: `hit.score` is `hit.wire.score`. Pass
`wire` where a proto message is needed. The objects have further properties, described below. Their
times, such as `fact.first_said`, are datetimes of UTC; the times of the proto message are
Timestamps.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

from google.protobuf import timestamp_pb2

from memoryd.v1 import block_service_pb2 as block_wire
from memoryd.v1 import job_service_pb2 as job_wire
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire

if TYPE_CHECKING:
    # For checkers of types each has the fields and methods of the proto message.
    _Session = memory.Session
    _Job = job_wire.Job
    _Fact = block_wire.Fact
    _Result = wire.QueryResult
else:
    # protobuf's classes can't be derived from.
    _Session = _Job = _Fact = _Result = object

# Of a text in a repr.
_SHOWN = 60


class Wrapped:
    """A proto message, `wire`, whose fields and methods are this object's too."""

    wire: Any

    def __init__(self, wire: Any) -> None:
        self.wire = wire

    def __getattr__(self, name: str) -> Any:
        # `wire` is asked for while an object is unpickled, the others by copy and pickle.
        if name in ("wire", "recalled") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.wire, name)

    def __eq__(self, other: object) -> bool:
        return bool(self.wire == (other.wire if isinstance(other, Wrapped) else other))

    # As of the proto message, which can be changed.
    __hash__ = None  # type: ignore[assignment]

    def _shown(self) -> Iterator[str]:
        yield repr(self.wire)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"


class Session(Wrapped, _Session):
    """A session as the server stores it: a memory_pb2.Session."""

    @property
    def created(self) -> datetime.datetime | None:
        """When the session was created."""
        return _time(self.wire, "create_time")

    @property
    def updated(self) -> datetime.datetime | None:
        """When the session last changed."""
        return _time(self.wire, "update_time")

    @property
    def expires(self) -> datetime.datetime | None:
        """When the session is deleted unless a write comes first. None: never."""
        return _time(self.wire, "expire_time")

    def _shown(self) -> Iterator[str]:
        yield repr(self.wire.session_id)
        if self.wire.config.subject:
            yield f"subject={self.wire.config.subject!r}"
        if self.wire.template:
            yield f"template={self.wire.template!r}"
        yield f"active={self.wire.active_count}, archived={self.wire.archived_count}"
        if self.wire.content_count:
            yield f"contents={self.wire.content_count}"
        if self.wire.config.blocks:
            yield f"blocks={[block.name for block in self.wire.config.blocks]}"
        if self.expires:
            yield f"expires={_day(self.expires)}"


class Job(Wrapped, _Job):
    """A job that feeds a block: a job_service_pb2.Job."""

    @property
    def status(self) -> str:
        """The state in a word: `open`, `done`, `failed` or `cancelled`."""
        return _word(job_wire.JobState, self.wire.state, "JOB_STATE_")

    @property
    def created(self) -> datetime.datetime | None:
        """When the job was made."""
        return _time(self.wire, "create_time")

    @property
    def due(self) -> datetime.datetime | None:
        """When the next attempt may begin. None: the job has ended."""
        return _time(self.wire, "due_time")

    def _shown(self) -> Iterator[str]:
        yield repr(self.wire.job_id)
        yield f"block={self.wire.block!r}, {self.status}, attempts={self.wire.attempts}"
        if self.wire.last_error:
            yield f"last_error={shortened(self.wire.last_error)}"


class Fact(Wrapped, _Fact):
    """A fact: a block_service_pb2.Fact."""

    @property
    def first_said(self) -> datetime.datetime | None:
        """When the fact was first said, or a caller added it."""
        return _time(self.wire, "first_time")

    @property
    def last_said(self) -> datetime.datetime | None:
        """When the fact was last said."""
        return _time(self.wire, "last_time")

    def _shown(self) -> Iterator[str]:
        yield f"{self.wire.fact_id}, {shortened(self.wire.text)}, trust={self.wire.trust:.2g}"
        if self.wire.message_ids:
            yield f"message_ids={list(self.wire.message_ids)}"
        if self.last_said:
            yield f"last_said={_day(self.last_said)}"


class PastFact(Wrapped):
    """A fact that no longer holds: a block_service_pb2.PastFact."""

    @property
    def fact(self) -> Fact:
        """The fact as it was."""
        return Fact(self.wire.fact)

    @property
    def why(self) -> str:
        """Why the fact no longer holds, in a word: `replaced`, `condensed`, `evicted`, `undone`,
        `retired`, `corrected` or `deleted`."""
        return _word(block_wire.FactEnd, self.wire.end, "FACT_END_")

    def _shown(self) -> Iterator[str]:
        yield f"{self.fact!r}, {self.why}"


class KnownFacts(Wrapped):
    """The facts of a block: a block_service_pb2.KnownFacts. Iterates over the facts that hold."""

    @property
    def facts(self) -> list[Fact]:
        """The facts that hold."""
        return [Fact(one) for one in self.wire.facts]

    @property
    def history(self) -> list[PastFact]:
        """The facts that no longer hold."""
        return [PastFact(one) for one in self.wire.history]

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.wire.facts)

    def _shown(self) -> Iterator[str]:
        yield f"{self.facts}, past={len(self.wire.history)}"


class KnownBlock(Wrapped):
    """A block and its knowledge: the reply of GetBlock, a block_service_pb2.GetBlockResponse."""

    @property
    def facts(self) -> KnownFacts:
        """The knowledge of a block of kind `fact-extraction`. Empty for other kinds."""
        return KnownFacts(self.wire.facts)

    def _shown(self) -> Iterator[str]:
        yield f"{self.wire.block.name!r}, kind={self.wire.block.kind!r}"
        kind = self.wire.WhichOneof("knowledge")
        if kind == "facts":
            yield f"facts={self.facts.facts}"
        elif kind == "summary":
            yield f"summary={shortened(self.wire.summary.text)}"
        elif kind == "entities":
            yield f"entities={[one.name for one in self.wire.entities.entities]}"
        elif kind == "entries":
            yield f"entries={self.wire.entries.entry_count}"
        yield f"jobs={self.wire.jobs_ended} of {self.wire.jobs_made}"


class FactChange(Wrapped):
    """The reply of AddFact, UpdateFact or DeleteFact."""

    @property
    def fact(self) -> Fact:
        """The fact after the change; a deleted one as it was before."""
        return Fact(self.wire.fact)

    def _shown(self) -> Iterator[str]:
        yield f"{self.fact!r}, change={self.wire.change}"


class UndoneChange(Wrapped):
    """The reply of UndoBlockChange: a block_service_pb2.UndoBlockChangeResponse."""

    @property
    def facts(self) -> list[Fact]:
        """The facts that hold now."""
        return [Fact(one) for one in self.wire.facts]

    def _shown(self) -> Iterator[str]:
        yield f"facts={self.facts}"


class Hit(Wrapped, _Result):
    """An item that a query found: a memory_service_pb2.QueryResult. `message`, `content` or
    `block_item` has the whole item."""

    @property
    def kind(self) -> str:
        """The kind of item: `message`, `content`, `fact`, `entity`, or `text` of a summary or a
        static block."""
        kind = self.wire.WhichOneof("item") or ""
        return (self.wire.block_item.WhichOneof("item") or "") if kind == "block_item" else kind

    @property
    def text(self) -> str:
        """The item's text: for a message the texts of all its parts, and with `passages` the
        passage. Empty: it has no text."""
        if self.wire.passage:
            return str(self.wire.passage)
        item = self.wire.WhichOneof("item")
        if item == "message":
            return text_of(self.wire.message)
        if item == "content":
            return str(self.wire.content.text or self.wire.content.json)
        known = self.wire.block_item
        return str(getattr(known, self.kind).text if self.kind in ("fact", "entity")
                   else known.text)

    @property
    def fact(self) -> Fact | None:
        """The fact, with its evidence. None: the item is no fact."""
        return Fact(self.wire.block_item.fact) if self.kind == "fact" else None

    @property
    def role(self) -> str:
        """The role of the message. Empty: the item is no message."""
        return str(self.wire.message.role)

    @property
    def said(self) -> datetime.datetime | None:
        """When the item was said: the message's create_time, else when it was put; for a fact or
        entity when it was last said. None: not known."""
        kind = self.kind
        if kind == "message":
            return (_time(self.wire.message, "create_time")
                    or _time(self.wire.message, "ingest_time"))
        if kind == "content":
            return _time(self.wire.content, "ingest_time")
        if kind in ("fact", "entity"):
            return _time(getattr(self.wire.block_item, kind), "last_time")
        return None

    @property
    def conversation(self) -> str:
        """The session in which the item was said, if it is not the one of the query; else empty."""
        return str(self.wire.message.source_session_id or self.wire.session_id)

    def _shown(self) -> Iterator[str]:
        yield f"{self.wire.score:.2f}, {self.role or self.kind}: {shortened(self.text)}"
        if self.said:
            yield f"said={_day(self.said)}"
        if self.conversation:
            yield f"conversation={self.conversation!r}"


class Hits(Wrapped):
    """The results of a query, the best first: a memory_service_pb2.QueryResponse. Iterates over
    `results`."""

    @property
    def results(self) -> list[Hit]:
        """The hits, the best first."""
        return [Hit(one) for one in self.wire.results]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.wire.results)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        return self.results[index]

    def _shown(self) -> Iterator[str]:
        yield str(self.results)
        if self.wire.notices:
            yield f"notices={list(self.wire.notices)}"


def text_of(message: memory.Message) -> str:
    """Returns the texts of a message and of its parts, a line each."""
    texts = [message.text, *(part.text for part in message.parts)]
    return "\n".join(text for text in texts if text)


def _time(message: Any, field: str) -> datetime.datetime | None:
    if not message.HasField(field):
        return None
    time: timestamp_pb2.Timestamp = getattr(message, field)
    return time.ToDatetime(tzinfo=datetime.timezone.utc)


def _day(time: datetime.datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%MZ")


def _word(enum: Any, value: int, prefix: str) -> str:
    name: str = enum.Name(value) if value in enum.values() else str(value)
    return name.removeprefix(prefix).lower().replace("_", " ")


def shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN - 1]}…")
