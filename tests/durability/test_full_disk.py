"""A store whose disk is full: writes are refused, reads go on, and it heals without a restart."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator

import grpc
import pytest

from support.calls import Calls, reason, user
from support.disk import Call, Disk
from support.postgres import Cluster, run_sql
from support.server import Server
from support.waiting import wait_for

_SMALL_MIB = {"sqlite": 8, "postgresql": 32}
# More than what fits.
_MOST_PUTS = 4000
_PUT_BYTES = 30_000
_REFUSED_PUTS = 20
# What the log calls it.
_CAUSES = {"sqlite": "SQLITE_FULL", "postgresql": "53100"}


def mount(folder: pathlib.Path, mib: int) -> bool:
    """Makes a disk of its own of the folder, where this process may."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=777", "memoryd-test", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, stderr=subprocess.DEVNULL,
                                                check=False).returncode == 0


@contextlib.contextmanager
def small_disk(kind: str) -> Iterator[pathlib.Path | None]:
    """A folder that is soon full; None where nothing may be mounted."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="memoryd-small-"))
    folder.chmod(0o755)  # PostgreSQL runs as somebody else.
    mounted = mount(folder, _SMALL_MIB[kind])
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        shutil.rmtree(folder)


class Ballast:
    """A file that takes what room there is."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._file = folder / "ballast"

    def fill(self) -> None:
        with contextlib.suppress(OSError), self._file.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        self._file.unlink()


@pytest.fixture
def sqlite(tmp_path) -> Iterator[tuple[str, dict[str, str], Callable, Callable]]:
    """--store, the server's environment, and what fills the disk and makes room again."""
    with small_disk("sqlite") as folder:
        if folder:
            ballast = Ballast(folder)
            yield f"sqlite:{folder}/memory.db", {}, ballast.fill, ballast.free
        else:
            disk = Disk(tmp_path)
            yield (disk.store, disk.environment(),
                   lambda: disk.fail(Call.WRITE, errno.ENOSPC, short_first=True), disk.heal)


@pytest.fixture
def postgresql() -> Iterator[tuple[str, dict[str, str], Callable, Callable]]:
    """The tables are on the small disk and the log is not: a PostgreSQL that can't write its log is
    no full store, it is gone."""
    with small_disk("postgresql") as folder, Cluster() as cluster:
        if folder:
            space = folder / "space"
            space.mkdir()
            shutil.chown(space, "postgres", "postgres")
            run_sql(cluster.url, f"CREATE TABLESPACE small LOCATION '{space}'")
            run_sql(cluster.url, "CREATE DATABASE small TABLESPACE small")
            ballast = Ballast(folder)
            url = urllib.parse.urlsplit(cluster.url)._replace(path="/small").geturl()
            yield url, {}, ballast.fill, ballast.free
        else:
            yield cluster.url, {}, *refusing_inserts(cluster.url)


def refusing_inserts(url: str) -> tuple[Callable, Callable]:
    """What makes PostgreSQL refuse messages as with a full disk, and take them again."""
    return (
        lambda: run_sql(url, "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
                             " $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$;"
                             " CREATE TRIGGER full_disk BEFORE INSERT ON memoryd_messages"
                             " FOR EACH ROW EXECUTE FUNCTION full_disk()"),
        lambda: run_sql(url, "DROP FUNCTION full_disk CASCADE"))


class Session:
    """Puts until the store is full, and what was acknowledged."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.texts: list[str] = []
        self._chance = random.Random(1)  # What can't be compressed.

    def put(self) -> grpc.RpcError | None:
        text = f"{len(self.texts)} {self._chance.randbytes(_PUT_BYTES // 2).hex()}"
        try:
            self.calls.Put(session_id="s", messages=[user(text)])
        except grpc.RpcError as error:
            return error
        self.texts.append(text)
        return None

    def check(self, calls: Calls) -> None:
        assert [m.text for m in calls.all_messages("s", page_size=50)] == self.texts
        assert calls.Get(session_id="s").messages[-1].text == self.texts[-1]


@pytest.mark.parametrize("kind", ("sqlite", "postgresql"))
def test_a_full_store_refuses_writes_serves_reads_and_heals(kind, request):
    store, environment, fill, free = request.getfixturevalue(kind)
    with Server(store, environment=environment) as server, server.channel() as channel:
        session = Session(Calls(channel))
        for _ in range(20):
            assert session.put() is None
        fill()
        refused = next(filter(None, (session.put() for _ in range(_MOST_PUTS))))
        refusals = [refused, *filter(None, (session.put() for _ in range(_REFUSED_PUTS)))]
        assert len(refusals) > _REFUSED_PUTS // 2
        for error in refusals:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
            assert reason(error) == "RESOURCE_EXHAUSTED"
        wait_for(lambda: f'"cause_code":"{_CAUSES[kind]}"' in server.output())
        session.check(session.calls)
        free()
        wait_for(lambda: session.put() is None)
        for _ in range(20):
            assert session.put() is None
        session.check(session.calls)
        server.kill()
    with Server(store) as server, server.channel() as channel:
        session.check(Calls(channel))
