#!/usr/bin/env python3
"""The end-to-end tests with PgBouncer in transaction mode before PostgreSQL.

usage: through_pgbouncer.py [--pooler=installed|keeps|forgets|loses] [ARGUMENT...]

The arguments are pytest's; run it by tools/with_postgres.sh. `keeps` is the stand-in for a PgBouncer
from 1.21 on, which keeps named statements; named_pooler.py tells of the other two.
Servers that tests give a PostgreSQL of their own talk to that directly, in the same mode.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.pgbouncer import INSTALLED, POOLERS, PORT_VARIABLE, PgBouncer
from support.postgres import run_sql, server_url

# They set `coherence: exclusive`, which wants a direct connection and refuses a pooler.
EXCLUSIVE = ("tests/e2e/test_lifecycle.py::test_an_exclusive_server_keeps_others_out[postgresql]",
             "tests/e2e/test_server_info.py::test_settings_show[postgresql]")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pooler", choices=POOLERS, default=INSTALLED)
    options, arguments = parser.parse_known_args()
    with PgBouncer(int(run_sql(server_url(), "SHOW port")), options.pooler) as pooler:
        command = [sys.executable, "-m", "pytest",
                   *(f"--deselect={test}" for test in EXCLUSIVE), *arguments]
        environment = {**os.environ, PORT_VARIABLE: str(pooler.port)}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
