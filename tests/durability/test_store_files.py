"""What becomes of SQLite's files under a server, and who may open them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import subprocess

import grpc
import pytest
from grpc_health.v1 import health_pb2

from support.calls import Calls, refusal, user
from support.documents import blocks_of
from support.paths import BINARY, REPOSITORY, server_environment
from support.server import Server, failed_start, wait_for_health
from support.sqlite_check import sqlite_damage
from support.waiting import wait_for

# The health's last good answer counts for 3 s.
SHUT_SECONDS = 20.0
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
FRAME = 24 + 4096


@pytest.fixture
def file(tmp_path) -> pathlib.Path:
    return tmp_path / "memory.db"


def log_of(file: pathlib.Path) -> pathlib.Path:
    return file.with_name(file.name + "-wal")


def put(calls: Calls, number: int) -> None:
    calls.Put(session_id="s", messages=[user(str(number))])


def stored(file: pathlib.Path, *arguments: str) -> int:
    """Messages that the next server finds."""
    with Server(f"sqlite:{file}", arguments=arguments) as server, server.channel() as channel:
        return len(Calls(channel).all_messages("s"))


def remove(path: pathlib.Path) -> None:
    path.unlink()


def replace(path: pathlib.Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def truncate(path: pathlib.Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("damage, which", [
    (remove, "-wal"), (replace, "-wal"), (truncate, "-wal"), (remove, ""), (replace, "")])
def test_nothing_is_acknowledged_once_a_file_is_lost(file, damage, which):
    with Server(f"sqlite:{file}") as server, server.channel() as channel:
        calls = Calls(channel)
        for number in range(50):
            put(calls, number)
        damage(file.with_name(file.name + which))
        for number in range(3):
            error = refusal(put, calls, number)
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            assert str(file) not in error.details()
        wait_for_health(channel, NOT_SERVING, SHUT_SECONDS)
        wait_for(lambda: file.name + which in server.output())
        server.kill()
    # Of a log that only lost its name, nothing is lost at all. The first Put that was not
    # acknowledged may be there.
    if damage is not truncate and which:
        assert stored(file) in (50, 51)


@pytest.mark.parametrize("as_it_was", (True, False))
def test_a_second_server_is_refused_without_the_lock_file(file, tmp_path, as_it_was):
    with Server(f"sqlite:{file}") as server, server.channel() as channel:
        calls = Calls(channel)
        put(calls, 1)
        file.with_name(file.name + ".lock").unlink()
        other = file
        if not as_it_was:
            other = tmp_path / "link.db"
            os.link(file, other)
        code, output = failed_start(f"sqlite:{other}")
        assert code == 1 and ("one process at a time" in output or "hard links" in output)
        put(calls, 2)
        assert len(calls.all_messages("s")) == 2


def test_two_names_of_a_file_are_refused(file, tmp_path):
    with Server(f"sqlite:{file}"):
        pass
    os.link(file, tmp_path / "link.db")
    for name in (file, tmp_path / "link.db"):
        code, output = failed_start(f"sqlite:{name}")
        assert code == 1 and "2 hard links" in output


def test_a_file_that_is_mounted_by_itself_is_refused(file, tmp_path):
    """Its log would be in the folder that it is mounted into."""
    with Server(f"sqlite:{file}"):
        pass
    other = tmp_path / "other.db"
    other.touch()
    script = ('mount --bind "$1" "$2" || exit 77; exec "$3" --store="sqlite:$2" '
              "--listen=127.0.0.1:0")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", file, other, BINARY],
                          env=server_environment(), capture_output=True, text=True, timeout=60,
                          check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("nothing may be mounted here")
    assert done.returncode == 1 and "mount its folder" in done.stderr


def damaged(file: pathlib.Path) -> bytes:
    """A log of 50 Puts of which one of the first has a flipped bit; the file's server was killed."""
    with Server(f"sqlite:{file}") as server, server.channel() as channel:
        calls = Calls(channel)
        for number in range(50):
            put(calls, number)
        server.kill()
    log = bytearray(log_of(file).read_bytes())
    log[len(log) // FRAME // 2 * FRAME + 2000] ^= 4
    log_of(file).write_bytes(log)
    return bytes(log)


def test_a_flipped_bit_in_the_log_stops_the_start_until_its_loss_is_accepted(file):
    log = damaged(file)
    code, output = failed_start(f"sqlite:{file}")
    assert code == 1 and "is damaged at byte" in output
    assert log_of(file).read_bytes() == log
    flag = next(word for word in output.split() if word.startswith("--accept-lost-commits="))
    lost = int(flag.partition("=")[2].partition("@")[0])
    code, _ = failed_start(f"sqlite:{file}", arguments=["--accept-lost-commits=1@2"])
    assert code == 1 and log_of(file).read_bytes() == log
    left = stored(file, flag)
    assert 0 < left < 50 and lost > 0
    assert stored(file) == left


def test_a_database_that_others_may_read_is_said(file):
    said = f"{file} has mode 0644, so every user of this machine may use it"
    with Server(f"sqlite:{file}") as server:
        assert server.stop() == 0
        assert "every user" not in server.output()
    file.chmod(0o644)
    with Server(f"sqlite:{file}") as server:
        wait_for(lambda: said in server.output())


def test_a_backup_as_documented_is_read_by_nobody_else(tmp_path):
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    backup.mkdir()
    restored.mkdir()
    blocks = [block.code for block in blocks_of(REPOSITORY / "docs" / "STORES.md")]

    def follow(words: str, folder: pathlib.Path) -> None:
        (code,) = (code for code in blocks if words in code)
        code = code.replace("/var/lib/memoryd", str(folder)).replace("/backup", str(backup))
        subprocess.run(["sh", "-euc", code], check=True, umask=0o022)

    with Server(f"sqlite:{tmp_path}/memoryd.db") as server, server.channel() as channel:
        put(Calls(channel), 1)
        follow("VACUUM INTO", tmp_path)
    follow("cp /backup/memoryd.db /var/lib/memoryd", restored)
    for copy in (backup / "memoryd.db", restored / "memoryd.db"):
        assert copy.stat().st_mode & 0o077 == 0
    assert stored(restored / "memoryd.db") == 1


def test_large_values_that_do_not_fit_their_rows_are_found(file):
    with Server(f"sqlite:{file}") as server, server.channel() as channel:
        Calls(channel).Put(session_id="s", messages=[user("x" * 2000), user("x" * 2000)])
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        assert not sqlite_damage(database)
        database.execute("INSERT INTO memoryd_values (value) VALUES (x'00')")
        assert sqlite_damage(database) == ["value 3 belongs to no row"]
        database.execute("DELETE FROM memoryd_values WHERE id IN (1, 3)")
        assert sqlite_damage(database) == ["value 1 is missing"]
        database.execute("UPDATE memoryd_messages SET body = 2")
        # The triggers delete what no row names any more.
        assert sqlite_damage(database) == ["value 2 belongs to 2 rows"]
