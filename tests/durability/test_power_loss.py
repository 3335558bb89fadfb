"""What a loss of power leaves of SQLite's files, and that it would be seen to lose something."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kill import Restarts
from support.calls import Calls, user
from support.disk import Disk

# Says how many rows are committed, and goes on until it is killed.
_INSERTS = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
database.execute(f"PRAGMA synchronous={sys.argv[2]}")
database.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, text)")
while True:
    number = database.execute("INSERT INTO rows (text) VALUES (zeroblob(2000))").lastrowid
    print(number, flush=True)
"""
_COUNT = """
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT coalesce(max(number), 0) FROM rows").fetchone()[0])
"""


def lost(disk: Disk, synchronous: str) -> int:
    """Committed rows that a loss of power takes."""
    file = disk.store.removeprefix("sqlite:")
    inserts = subprocess.Popen([sys.executable, "-c", _INSERTS, file, synchronous], text=True,
                               stdout=subprocess.PIPE, env={**os.environ, **disk.environment()})
    for _ in range(50):
        committed = int(inserts.stdout.readline())
    inserts.send_signal(signal.SIGKILL)
    committed = max([committed, *map(int, inserts.stdout.read().split())])
    inserts.wait()
    disk.lose_power()
    assert synchronous == "OFF" or not disk.damage()
    done = subprocess.run([sys.executable, "-c", _COUNT, file], capture_output=True, text=True,
                          check=False)
    # What was never synced may be no database any more.
    return committed - int(done.stdout) if done.returncode == 0 else committed


@pytest.mark.parametrize(("synchronous", "loses"), (("FULL", False), ("NORMAL", True), ("OFF", True)))
def test_what_was_not_synced_may_be_lost_and_nothing_else(tmp_path, synchronous, loses):
    disks = []
    for seed in range(4):
        (tmp_path / str(seed)).mkdir()
        disks.append(Disk(tmp_path / str(seed), seed))
    losses = [lost(disk, synchronous) for disk in disks]
    # Below zero: a row was committed whose number was never printed.
    assert any(loss > 0 for loss in losses) == loses, losses


def test_a_new_store_survives_a_loss_of_power_after_each_put(tmp_path):
    disk = Disk(tmp_path)
    with Restarts(disk.store, f"unix:{tmp_path}/memoryd.sock", disk) as servers:
        for number in range(5):
            with servers.server.channel() as channel:
                Calls(channel).Put(session_id="s", messages=[user(str(number))])
            servers.kill()
            with servers.server.channel() as channel:
                texts = [m.text for m in Calls(channel).all_messages("s")]
            assert texts == [str(n) for n in range(number + 1)]
    assert disk.losses == 5
