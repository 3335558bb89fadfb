#!/usr/bin/env python3
"""Starts many servers at once on an empty PostgreSQL database, over and over.

usage: first_starts.py [--rounds N] [--servers N] [--seed N]

In every second round one of them, whichever it is, is killed within its first moments, perhaps in
the middle of the migration. All others must serve, and every database must end with the same schema.
The last line is `first starts: started N, failed N, killed N, schemas N`. Exits 1 when one failed or
schemas differ.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import Calls, user
from support.postgres import run_sql, temporary_database
from support.server import Server

# How long a server lives that is killed: from before its first connection to after its migration.
LONGEST_LIFE_SECONDS = 0.15
SCHEMA = """SELECT md5(string_agg(line, ';' ORDER BY line)) FROM (
  SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default)
  FROM information_schema.columns WHERE table_schema = 'public'
  UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
  UNION ALL SELECT concat('version ', version) FROM memoryd_schema) AS lines (line)"""


def start_together(store: str, count: int, life: float | None) -> tuple[int, int, list[str]]:
    """How many servers served, how many were killed, and what those said that did not serve. With
    `life` the first of them lives so many seconds."""
    servers = [Server(store, wait=False) for _ in range(count)]
    served, killed, failures = 0, 0, []
    try:
        if life is not None:
            threading.Event().wait(life)
            servers.pop(0).kill()
            killed = 1
        for number, server in enumerate(servers):
            try:
                server.wait_until_ready()
                with server.channel() as channel:
                    Calls(channel).Put(session_id="s", messages=[user(str(number))])
                served += 1
            except Exception as error:  # Counted, and shown.
                failures.append(str(error))
    finally:
        for server in servers:
            server.kill()
    return served, killed, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--servers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    served, killed, failures, schemas = 0, 0, [], set()
    for number in range(options.rounds):
        life = chance.uniform(0, LONGEST_LIFE_SECONDS) if number % 2 else None
        with temporary_database() as store:
            counts = start_together(store, options.servers, life)
            schemas.add(run_sql(store, SCHEMA))
        served += counts[0]
        killed += counts[1]
        failures += counts[2]
    for failure in failures:
        print(failure)
    print(f"first starts: started {served}, failed {len(failures)}, killed {killed}, "
          f"schemas {len(schemas)}", flush=True)
    return 1 if failures or len(schemas) != 1 else 0


if __name__ == "__main__":
    sys.exit(main())
