"""Runs the tests of clients/typescript against a server of the embedded store.

usage: node_tests.py NODE TEST...
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.paths import REPOSITORY
from support.server import Server

FRAMEWORKS = pathlib.Path(__file__).with_name("python_frameworks.py")


def main() -> int:
    with Server("sqlite::memory:", arguments=["--http-listen=127.0.0.1:0"]) as server:
        environment = {**os.environ, "MEMORYD_TEST_TARGET": server.target,
                       "MEMORYD_TEST_HTTP": f"http://{server.http}", "MEMORYD_TEST_PYTHON": sys.executable,
                       "MEMORYD_TEST_PYTHON_FRAMEWORKS": str(FRAMEWORKS),
                       "PYTHONPATH": str(REPOSITORY / "clients/python/src")}
        return subprocess.run([sys.argv[1], "--test", *sys.argv[2:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
