"""Bodies that say who sent them, and the item that stands for one in a history.

An item is `CLIENT.NUMBER:CRC`. The CRC is of the whole text, so equal items are equal bytes. A text
that is not as it was sent gives an item that nobody sent. What an update makes of an item is an
edition of it, `ITEM+EDITOR.NUMBER:CRC`: its text tells the item that it takes the place of.
"""

from __future__ import annotations

import dataclasses
import random
import re
import zlib

# In every body and in nothing else: where it stands in an error or a log, a body has leaked.
MARKER = "memoryd-torture-body"

# What a text has to survive: NUL, quotes, escapes, every length of UTF-8, blanks that are none.
_ALPHABET = ("the agent books a table for two in a town by the sea and forgets nothing " * 3
             + "\0\t\n'\"\\%$;--{}<>&\u00e9\u00df\u4e2d\u6587\u3042\u0e01\u05d0\u200b\ufeff"
             + "\U0001f600\U0010fffd")
_POOL_CHARACTERS = 1 << 20
_HEAD = re.compile(MARKER + r" ([^/ ]+)/([^/ ]+)/(\d+)/(\d+)/(\d+) ")
_EDIT = re.compile(r"\S+ edit (\d+\.\d+):([0-9a-f]{8}) ")  # Behind the head.
_CRC_CHARACTERS = 8


@dataclasses.dataclass(frozen=True)
class Sender:
    """Who sends: a client in a session of a tenant, in a run with a seed."""

    tenant: str
    session: str
    client: int
    seed: int


class Bodies:
    """Makes texts. Equal seeds make equal ones."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(f"bodies {seed}")
        self._pool = "".join(chance.choices(_ALPHABET, k=_POOL_CHARACTERS // 16)) * 16

    def text(self, sender: Sender, number: int, size: int, edit: str = "") -> str:
        """A body of about `size` bytes, at least its head."""
        head = (f"{MARKER} {sender.tenant}/{sender.session}/{sender.client}/{number}/"
                f"{sender.seed} {word(sender.client, number)} {edit}")
        length = max(0, size - len(head) - _CRC_CHARACTERS)
        # In UTF-8 the pool is a tenth longer than it has characters.
        begin = number * 7919 % max(1, len(self._pool) - length)
        text = head + self._pool[begin:begin + length * 10 // 11]
        return text + _crc(text)

    def edition(self, editor: Sender, item: str, number: int, size: int) -> str:
        """As text(), of what takes the place of an item, or of an edition of one."""
        put, crc = original(item).split(":")
        client, of_client = map(int, put.split("."))
        sender = dataclasses.replace(editor, client=client)
        return self.text(sender, of_client, size, f"edit {editor.client}.{number}:{crc} ")


def original(item: str) -> str:
    """The item as it was put of one that may be an edition of it."""
    return item.partition("+")[0]


def word(client: int, number: int) -> str:
    """A word that stands in one body alone, to look for it."""
    return f"w{client}x{number}"


def item_of(text: str) -> str:
    """The item of a text that was made by Bodies or that came back."""
    head = _HEAD.match(text)
    if head is None:
        return f"?:{_crc(text)}"
    body, crc = text[:-_CRC_CHARACTERS], text[-_CRC_CHARACTERS:]
    if _crc(body) != crc:
        return f"{head[3]}.{head[4]}:changed-{_crc(text)}"
    edit = _EDIT.match(text, head.end())
    if edit is not None:
        return f"{head[3]}.{head[4]}:{edit[2]}+{edit[1]}:{crc}"
    return f"{head[3]}.{head[4]}:{crc}"


def is_of(text: str, sender: Sender) -> bool:
    """Whether the text is of the sender's tenant, session and run; one without a head is nobody's
    and counts as such."""
    head = _HEAD.match(text)
    return head is None or head.group(1, 2, 5) == (sender.tenant, sender.session,
                                                   str(sender.seed))


def _crc(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"
