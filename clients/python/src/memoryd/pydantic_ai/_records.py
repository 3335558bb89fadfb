"""Where the store keeps what.

A conversation is a session, whose id is the conversation's. Each entry is a message, whose id is
the entry's. Its metadata names the entry before it, and the save that stored it. What the messages
do not say is items of one namespace, which a save writes at once, or not at all:

    c/CONVERSATION    the record, as text, and what conversations are listed by
    e/ENTRY           the conversation that an entry was saved in

A save puts its messages, and then the items, on the condition that the record is as it was found.
Messages whose save never came to that are not in any record's history. The next save deletes them.
A record that is being deleted stays, marked, until all that belongs to it is gone.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pydantic
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from memoryd._adapters import names, own_forms
from memoryd._wire_text import without_halves
from memoryd.items import Item
from memoryd.pydantic_ai._form import FORM
from memoryd.v1 import memory_pb2 as memory

KEY = "pydantic_ai"
CONVERSATIONS = "c/"
_RECORDS: pydantic.TypeAdapter[list[ConversationRecord]] = pydantic.TypeAdapter(
    list[ConversationRecord],
    config=pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))


class EntryId(str):
    """An entry's id, which knows the conversation that it was read from."""

    conversation_id: str

    def __new__(cls, entry_id: str, conversation_id: str) -> EntryId:
        made = super().__new__(cls, entry_id)
        made.conversation_id = conversation_id
        return made

    def __reduce__(self) -> tuple[type[EntryId], tuple[str, str]]:
        return EntryId, (str(self), self.conversation_id)


@dataclasses.dataclass(frozen=True)
class StoredRecord:
    """A record as its item has it. `version` is the item's; 0: there is none."""

    record: ConversationRecord | None = None
    version: int = 0
    is_deleted: bool = False


def record_key(conversation_id: str) -> str:
    return CONVERSATIONS + names.quoted(conversation_id)


def entry_key(entry_id: str) -> str:
    return "e/" + names.quoted(entry_id)


def record_value(record: ConversationRecord, *, is_deleted: bool = False) -> dict[str, Any]:
    dumped = _RECORDS.dump_python([record], mode="json")
    return {"scope": record.scope, "forked_from": record.forked_from, "deleted": is_deleted,
            "record": json.dumps(dumped)}


def stored_record(item: Item | None) -> StoredRecord:
    if item is None:
        return StoredRecord()
    (record,) = _RECORDS.validate_json(item.value["record"])
    of = record.conversation_id
    return StoredRecord(
        dataclasses.replace(
            record, head_id=None if record.head_id is None else EntryId(record.head_id, of),
            branches=[EntryId(tip, of) for tip in record.branches]),
        item.wire.version, item.value["deleted"])


def message_of(entry: ConversationEntry, save: str) -> memory.Message:
    """The message of an entry. Halves of characters, which Pydantic AI's own JSON can't hold,
    become U+FFFD."""
    dumped = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")[0]
    value = json.loads(without_halves(json.dumps(dumped, ensure_ascii=False))[0])
    return own_forms.stored(
        FORM, value, message_id=entry.id,
        metadata={KEY: {"parent": entry.parent_id, "save": save}})


def about(message: memory.Message) -> dict[str, Any] | None:
    """What a save says about its message: `parent` and `save`. None: no save has stored it."""
    if f'"{KEY}"' not in message.metadata_json:
        return None
    metadata = json.loads(message.metadata_json)
    said = metadata.get(KEY) if isinstance(metadata, dict) else None
    return said if isinstance(said, dict) and "save" in said else None


def model_messages(values: Sequence[Any]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_json(json.dumps(values))
