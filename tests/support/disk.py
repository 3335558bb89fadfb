"""A disk that loses power and fails on demand, under the SQLite file of a server."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import errno
import mmap
import pathlib
import random
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator

from support.paths import DISK_FAULTS
from support.sqlite_check import sqlite_damage

# What a disk writes whole or not at all.
_SECTOR = 512
# What remains of a write after a loss of power, by what the loss is like.
_KEPT = (0.0, 0.5, 1.0)
_TORN = 0.2
_FILES = {1: "", 2: "-wal", 3: "-journal"}
_FOLDER = 5
_RECORD = struct.Struct("<cB6xQQ")
_CONTROL = struct.Struct("<qqqiii")
FOREVER = 1 << 60


class Call(enum.IntFlag):
    """System calls that can fail, those of their kind included: WRITE is pwrite(2) too."""

    OPEN = 1
    WRITE = 2
    SYNC = 4
    TRUNCATE = 8


@dataclasses.dataclass(eq=False)
class _Change:
    """A write, or a new size where there is no data."""

    number: int
    offset: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.offset:]
            content.extend(bytes(self.offset - len(content)))
            return
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset:self.offset + len(self.data)] = self.data

    def apply_torn(self, content: bytearray, chance: random.Random) -> None:
        """Some sectors of a write."""
        if self.data is None:
            return
        for begin in range(0, len(self.data), _SECTOR):
            if chance.random() < 0.5:
                _Change(0, self.offset + begin, self.data[begin:begin + _SECTOR]).apply(content)


@dataclasses.dataclass(eq=False)
class _File:
    """What is on the disk for certain, what was written since, and what processes see."""

    durable: bytearray = dataclasses.field(default_factory=bytearray)
    pending: list[_Change] = dataclasses.field(default_factory=list)
    visible: bytearray = dataclasses.field(default_factory=bytearray)

    def change(self, change: _Change) -> None:
        self.pending.append(change)
        change.apply(self.visible)

    def sync(self, before: int) -> None:
        for change in self.pending:
            if change.number < before:
                change.apply(self.durable)
        self.pending = [change for change in self.pending if change.number >= before]

    def fail_sync(self, before: int, chance: random.Random) -> None:
        """Linux takes pages that could not be written for clean: no later sync writes them."""
        self.pending = [change for change in self.pending
                        if change.number >= before or chance.random() < 0.5]

    def after_power_loss(self, chance: random.Random) -> bytearray:
        kept = chance.choice(_KEPT)
        content = bytearray(self.durable)
        for change in self.pending:
            if chance.random() < kept:
                change.apply(content)
            elif kept and chance.random() < _TORN:
                change.apply_torn(content, chance)
        return content


class Disk:
    """The folder of a SQLite store, of one server at a time; see tests/disk/disk_faults.cc.

    Each server gets an environment() of its own, made when the one before it is gone. A disk that is
    a `copy_of` another, whose server is gone, begins with its files, all of them synced.
    """

    def __init__(self, folder: pathlib.Path, seed: int | str = 0,
                 copy_of: Disk | None = None) -> None:
        if not DISK_FAULTS.exists():  # Of which the loader would only warn.
            raise FileNotFoundError(f"{DISK_FAULTS}: build the target disk_faults first")
        folder = folder.resolve()
        self._database = folder / "disk" / "memory.db"
        self._database.parent.mkdir()
        self.store = f"sqlite:{self._database}"
        self.losses = 0
        self._chance = random.Random(f"disk {seed}")
        self._journals = folder / "journals"
        self._journals.mkdir()
        self._journal: pathlib.Path | None = None
        self._number = 0  # Of the latest record.
        # By name, as processes see them; as they are after a loss of power; and what has become of
        # names since the folder was last synced.
        self._files: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}
        self._renamed: list[tuple[int, str, _File | None]] = []
        control = folder / "control"
        control.write_bytes(bytes(mmap.PAGESIZE))
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._control_path = control
        if copy_of:
            for name in _FILES.values():
                if copy_of._path(name).exists():
                    content = bytearray(copy_of._path(name).read_bytes())
                    self._path(name).write_bytes(content)
                    self._files[name] = _File(durable=content, visible=bytearray(content))
            self._durable = dict(self._files)

    def environment(self) -> dict[str, str]:
        """The environment of the next server."""
        self._settle()
        self._journal = self._journals / "journal"
        return {"LD_PRELOAD": str(DISK_FAULTS), "DISK_FAULTS_FILE": str(self._database),
                "DISK_FAULTS_CONTROL": str(self._control_path),
                "DISK_FAULTS_JOURNAL": str(self._journal)}

    def fail(self, calls: Call, error: int = errno.EIO, *, good: int = 0, bad: int = FOREVER,
             short_first: bool = False) -> None:
        """Lets `good` more calls pass, then fails `bad` of them."""
        # No call is hit before all of it stands.
        self._write_control(0, 0, 0, 0, 0, 0)
        self._write_control(good, bad, 0, int(calls), error, int(short_first))

    def heal(self) -> None:
        """Lets every call pass. failed() stays."""
        _, _, failed, *_ = self._read_control()
        self._write_control(0, 0, failed, 0, 0, 0)

    def failed(self) -> int:
        """Calls that have failed since fail()."""
        return self._read_control()[2]

    def lose_power(self) -> None:
        """Leaves, of a server that is gone, what it had synced, and of the rest what chance wants."""
        self._settle()
        names = dict(self._durable)
        for _, name, file in self._renamed[:self._chance.randint(0, len(self._renamed))]:
            _rename(names, name, file)
        for name in _FILES.values():
            self._path(name).unlink(missing_ok=True)
        self._path("-shm").unlink(missing_ok=True)
        self._files = {}
        for name, file in names.items():
            content = file.after_power_loss(self._chance)
            self._path(name).write_bytes(content)
            self._files[name] = _File(durable=content, visible=bytearray(content))
        self._durable, self._renamed = dict(self._files), []
        self.losses += 1

    def damage(self) -> list[str]:
        """What is wrong with the files as they are, which stay as they are."""
        with tempfile.TemporaryDirectory(prefix="memoryd-disk-") as folder:
            for name in _FILES.values():
                if self._path(name).exists():
                    shutil.copy(self._path(name), folder)
            with contextlib.closing(
                    sqlite3.connect(pathlib.Path(folder) / self._database.name)) as database:
                return sqlite_damage(database)

    def _path(self, name: str) -> pathlib.Path:
        return self._database.with_name(self._database.name + name)

    def _read_control(self) -> tuple[int, ...]:
        return _CONTROL.unpack_from(self._control)

    def _write_control(self, *values: int) -> None:
        _CONTROL.pack_into(self._control, 0, *values)

    def _settle(self) -> None:
        """Takes in what the server has written down."""
        if self._journal is None:
            return
        begun: dict[int, int] = {}
        for op, role, offset, data in self._records():
            self._number += 1
            if op in b"BEF":
                if op == b"B":
                    begun[offset] = self._number
                elif role == _FOLDER:
                    self._sync_folder(begun[offset], op == b"E")
                elif op == b"E":
                    self._file(_FILES[role]).sync(begun[offset])
                else:
                    self._file(_FILES[role]).fail_sync(begun[offset], self._chance)
            elif op == b"C":
                self._set(_FILES[role], _File())
            elif op == b"U":
                self._set(_FILES[role], None)
            else:
                self._file(_FILES[role]).change(_Change(self._number, offset, data))
        self._journal.unlink(missing_ok=True)  # Of a server that hardly began there is none.
        self._journal = None
        for name in _FILES.values():
            self._correct(name)

    def _records(self) -> Iterator[tuple[bytes, int, int, bytes | None]]:
        """Each with the new size as its offset where it has no data."""
        journal = self._journal.read_bytes() if self._journal.exists() else b""
        at = 0
        while at + _RECORD.size <= len(journal):
            op, role, offset, size = _RECORD.unpack_from(journal, at)
            at += _RECORD.size
            data = None
            if op == b"W":
                data = journal[at:at + size]
                at += size
                if len(data) < size:  # Cut short with its process: it was never done.
                    return
            yield op, role, size if op == b"T" else offset, data

    def _correct(self, name: str) -> None:
        """A call may have been written down and not done, or a name changed and not written down:
        what is there counts, and may be lost."""
        path = self._path(name)
        if not path.exists():
            if name in self._files:
                self._set(name, None)
            return
        content = path.read_bytes()
        file = self._file(name)
        if content == file.visible:
            return
        self._number += 1
        common = min(len(content), len(file.visible))
        begin = next((i for i in range(0, common, _SECTOR)
                      if content[i:i + _SECTOR] != file.visible[i:i + _SECTOR]), common)
        file.change(_Change(self._number, len(content), None))
        file.change(_Change(self._number, begin, content[begin:]))

    def _file(self, name: str) -> _File:
        if name not in self._files:
            self._set(name, _File())
        return self._files[name]

    def _set(self, name: str, file: _File | None) -> None:
        _rename(self._files, name, file)
        self._renamed.append((self._number, name, file))

    def _sync_folder(self, before: int, done: bool) -> None:
        if not done:
            return
        for number, name, file in self._renamed:
            if number < before:
                _rename(self._durable, name, file)
        self._renamed = [entry for entry in self._renamed if entry[0] >= before]


def _rename(names: dict[str, _File], name: str, file: _File | None) -> None:
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file
