"""What the store does, as steps that its client runs. `_records` says where everything is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import grpc
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
)

from memoryd import _calls, _item_calls, items
from memoryd._adapters import session_steps
from memoryd._requests import UNASKED_BYTES, UNKNOWN, bytes_of, room, split
from memoryd._steps import Steps
from memoryd.errors import MemorydError
from memoryd.pydantic_ai import _history
from memoryd.pydantic_ai._records import (
    CONVERSATIONS,
    EntryId,
    StoredRecord,
    about,
    entry_key,
    message_of,
    record_key,
    record_value,
    stored_record,
)
from memoryd.v1 import item_service_pb2 as wire
from memoryd.v1 import memory_pb2 as memory

_PAGE = 1000
# Of the messages that are looked at for the last entry.
_AT_END = 2
# Of one batch, with room for the record.
_ENTRIES_AT_ONCE = 900


@dataclasses.dataclass(frozen=True)
class Found:
    """A conversation. `record` is as it is shown; None: there is none to show. `newest` is the last
    entry of the session."""

    stored: StoredRecord
    record: ConversationRecord | None
    newest: _history.Link | None

    @property
    def revision(self) -> str | None:
        return self.record.revision if self.record is not None else None

    @property
    def tips(self) -> set[str]:
        """The last entries of what the record reaches."""
        if self.record is None:
            return set()
        return {*self.record.branches, *([self.record.head_id] if self.record.head_id else [])}


class ConversationSteps:
    """The conversations below a namespace."""

    def __init__(self, namespace: Sequence[str], template: str) -> None:
        self._path = tuple(namespace)
        self._template = template

    def read(self, of: str) -> Steps[Found]:
        item = yield _item_calls.get_item(self._path, record_key(of))
        stored = stored_record(item)
        newest = yield from self._newest(of)
        record = _shown(of, stored, newest)
        if record is not None and record.head_id is not None and newest is not None:
            known = (newest.entry_id, *record.branches)
            if record.head_id not in known and not (yield from self._exists(record.head_id)):
                # Somebody has deleted it.
                record = dataclasses.replace(record, head_id=EntryId(newest.entry_id, of))
        return Found(stored, record, newest)

    def _newest(self, of: str) -> Steps[_history.Link | None]:
        back = session_steps.Backwards(of, _AT_END)
        links: list[_history.Link] = []
        while not links and not back.is_over:
            yield from back.page()
            links = _history.links_of(back.messages)
        return links[-1] if links else None

    def listed(self, scope: str | None, limit: int | None) -> Steps[list[ConversationRecord]]:
        if limit == 0:
            return []
        wanted = {"deleted": False, **({} if scope is None else {"scope": scope})}
        pages = _item_calls.list_items(
            self._path, order="newest-first", key_prefix=CONVERSATIONS, filter=wanted,
            page_size=_PAGE if limit is None else min(limit, _PAGE))
        found: list[ConversationRecord] = []
        call: Any = pages.first
        while call is not None and (limit is None or len(found) < limit):
            page = yield call
            read = (stored_record(item).record for item in pages.items(page))
            found.extend(record for record in read if record is not None)
            call = pages.next(page)
        return sorted(found[:limit], key=lambda record: record.updated_at, reverse=True)

    def write(
        self, record: ConversationRecord, entries: Sequence[ConversationEntry], expected: str | None
    ) -> Steps[None]:
        of = record.conversation_id
        while True:
            revision = (yield from session_steps.revision_of(of)) or 0
            found = yield from self.read(of)
            if found.stored.is_deleted:
                yield from self._purged(of, found.stored.version)
                continue
            if found.revision != expected:
                raise ConversationConflict(of)
            lost = yield from self._lost(of, found)
            base = entries[0].parent_id if entries else record.head_id
            if base is not None and not (yield from self._has(of, base, found, lost)):
                revision = yield from self._forked(record, base, entries, revision, lost)
                lost = []
            elif revision == 0 and self._template:
                yield from session_steps.begun(of, template=self._template)
                revision = (yield from session_steps.revision_of(of)) or 0
            messages = [message_of(entry, record.revision) for entry in entries]
            put = yield from self._put(of, messages, revision)
            if not put:
                continue  # Another caller has written meanwhile, which the record will say.
            yield from self._recorded(record, messages, found.stored.version)
            yield from session_steps.taken_back(of, lost)
            return

    def delete(self, of: str, expected: str) -> Steps[None]:
        found = yield from self.read(of)
        if found.record is None or found.revision != expected:
            raise ConversationConflict(of)
        version = found.stored.version
        marked = record_value(found.record, is_deleted=True)
        try:
            write = yield _item_calls.put_item(
                self._path, record_key(of), marked, expected_version=version)
        except MemorydError as error:
            if error.reason != "VERSION_MISMATCH":
                raise
            raise ConversationConflict(of) from error
        yield from self._purged(of, write.version)

    def history(self, head_id: str, limit: int | None) -> Steps[list[ConversationEntry]]:
        if limit == 0:
            return []
        of = yield from self._conversation_of(head_id)
        back = session_steps.Backwards(of, _PAGE if limit is None else limit + 1)
        while True:
            yield from back.page()
            if back.is_over or limit is not None:
                chain = _history.chain(back.messages, str(head_id), limit, is_whole=back.is_over)
                if chain is not None:
                    return _history.entries(chain, of)

    def _conversation_of(self, entry_id: str) -> Steps[str]:
        if isinstance(entry_id, EntryId):
            return entry_id.conversation_id
        item = yield _item_calls.get_item(self._path, entry_key(entry_id))
        if item is None:
            raise KeyError(entry_id)
        return str(item.value["conversation"])

    def _has(
        self, of: str, entry_id: str, found: Found, lost: Sequence[memory.Message]
    ) -> Steps[bool]:
        """Whether an entry is the conversation's, other than by a save that was cut."""
        if any(one.message_id == entry_id for one in lost):
            return False
        return entry_id in found.tips or (yield from self._exists(EntryId(entry_id, of)))

    def _exists(self, entry_id: str) -> Steps[bool]:
        try:
            yield from self.history(entry_id, 1)
        except KeyError:
            return False
        return True

    def _lost(self, of: str, found: Found) -> Steps[list[memory.Message]]:
        """The messages at the end that a save has put which never came to its record."""
        tips = found.tips
        if found.newest is None or found.newest.follows or found.newest.entry_id in tips:
            return []
        back = session_steps.Backwards(of)
        lost: list[memory.Message] = []
        while not back.is_over:
            yield from back.page()
            lost = []
            for message in reversed(back.messages):
                if not _is_lost(message, tips):
                    return lost[::-1]
                lost.append(message)
        return lost[::-1]

    def _forked(
        self,
        record: ConversationRecord,
        base: str,
        entries: Sequence[ConversationEntry],
        revision: int,
        lost: Sequence[memory.Message],
    ) -> Steps[int]:
        """Makes the conversation of another one's messages up to `base`, and returns the revision
        of its session."""
        of = record.conversation_id
        try:
            source = yield from self._conversation_of(base)
        except KeyError:
            source = record.forked_from or ""
        if not source or source == of:
            if entries:
                return revision  # What comes before them was removed.
            raise ConversationConflict(of)
        if lost:  # Of a fork that was cut.
            yield _calls.delete_session(of, expected_revision=revision)
        try:
            reply = yield _calls.fork_session(
                source, of, up_to_message_id=_history.message_id(base),
                request_id=record.revision)
        except MemorydError as error:
            if error.code not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ALREADY_EXISTS):
                raise
            raise ConversationConflict(of) from error
        return int(reply.session.revision)

    def _put(self, of: str, messages: Sequence[memory.Message], revision: int) -> Steps[bool]:
        """Puts the messages to a session that is at the revision. False, and none is there: it is
        not."""
        if not messages:
            return True
        requests = split(messages, UNASKED_BYTES)
        if len(requests) > 1 and bytes_of(messages) > UNASKED_BYTES:
            info = yield _calls.server_info()
            requests = split(messages, room(info))
        done: list[memory.Message] = []
        for some in requests:
            try:
                reply = yield from session_steps.put(of, some, expected_revision=revision)
            except MemorydError as error:
                if error.code not in UNKNOWN:
                    yield from session_steps.taken_back(of, done)
                if error.reason == "REVISION_MISMATCH":
                    return False
                raise
            revision = reply.revision
            done.extend(some)
        return True

    def _recorded(
        self, record: ConversationRecord, messages: Sequence[memory.Message], version: int
    ) -> Steps[None]:
        of = record.conversation_id
        places = [items.put(entry_key(one.message_id), {"conversation": of}, search=[])
                  for one in messages]
        while len(places) > _ENTRIES_AT_ONCE:  # An entry that is in no history harms nobody.
            yield _item_calls.batch_items([items.batch(self._path, places[:_ENTRIES_AT_ONCE])])
            places = places[_ENTRIES_AT_ONCE:]
        made = items.put(record_key(of), record_value(record), expected_version=version, search=[])
        outcomes: Sequence[wire.ItemBatchOutcome]
        outcomes = yield _item_calls.batch_items([items.batch(self._path, [made, *places])])
        try:
            items.results(outcomes[0])
        except MemorydError as error:
            yield from session_steps.taken_back(of, messages)
            if error.reason != "VERSION_MISMATCH":
                raise
            raise ConversationConflict(of) from error

    def _purged(self, of: str, version: int) -> Steps[None]:
        """Deletes a conversation whose record is marked, and the record last."""
        found = yield from session_steps.every(of)
        keys = [entry_key(one.message_id) for one in found if about(one) is not None]
        for start in range(0, len(keys), _ENTRIES_AT_ONCE):
            asked = [items.get(key) for key in keys[start:start + _ENTRIES_AT_ONCE]]
            outcomes = yield _item_calls.batch_items([items.batch(self._path, asked)])
            read = map(items.item_of, (one.get for one in items.results(outcomes[0])))
            # A fork's first messages are also the other conversation's.
            own = [items.delete(item.wire.key) for item in read
                   if item is not None and item.value["conversation"] == of]
            if own:
                yield _item_calls.batch_items([items.batch(self._path, own)])
        yield _calls.delete_session(of)
        try:
            yield _item_calls.delete_item(self._path, record_key(of), expected_version=version)
        except MemorydError as error:
            if error.reason != "VERSION_MISMATCH":
                raise  # Else another caller has deleted it as well.


def _is_lost(message: memory.Message, tips: set[str]) -> bool:
    return about(message) is not None and message.message_id not in tips


def _shown(
    of: str, stored: StoredRecord, newest: _history.Link | None
) -> ConversationRecord | None:
    """The record of a conversation whose last entry is this one. What another framework has said
    since continues it, and is a revision of its own."""
    record = None if stored.is_deleted else stored.record
    if newest is None:
        # Messages that were erased are no conversation any more.
        return None if record is None or record.head_id is not None else record
    if stored.is_deleted or not newest.follows:
        return record
    head = EntryId(newest.entry_id, of)
    if record is None:
        return ConversationRecord(
            conversation_id=of, head_id=head, revision=f"+{head}", updated_at=newest.time)
    return dataclasses.replace(record, head_id=head, revision=f"{record.revision}+{head}")
