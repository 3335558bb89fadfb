"""PgBouncer in transaction mode, or its stand-in, before a PostgreSQL server."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

from support.named_pooler import MODES
from support.paths import REPOSITORY
from support.postgres import free_port
from support.waiting import wait_for

# Set for tests whose databases are to be reached through a PgBouncer: its port.
PORT_VARIABLE = "MEMORYD_TEST_PGBOUNCER"
# What may stand before the server: the one that is installed, or named_pooler.py.
INSTALLED = "installed"
POOLERS = (INSTALLED, *MODES)

_SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 20
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
"""


class PgBouncer:
    """Runs from construction until the context is left, on a port of its own."""

    def __init__(self, server_port: int, kind: str = INSTALLED) -> None:
        self._server_port, self._kind = server_port, kind
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="memoryd-pgbouncer-"))
        self._folder.chmod(0o755)
        self.port = free_port()
        self._settings = self._folder / "pgbouncer.ini"
        self._settings.write_text(_SETTINGS.format(server=server_port, port=self.port))
        self.start()

    def start(self) -> None:
        command = self._installed() if self._kind == INSTALLED else [
            sys.executable, str(REPOSITORY / "tests" / "support" / "named_pooler.py"),
            str(self._server_port), str(self.port), self._kind]
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log)
        wait_for(self._answers)

    def _installed(self) -> list[str]:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise RuntimeError("PgBouncer is not installed")
        command = [program, "--quiet", str(self._settings)]
        if os.geteuid() == 0:  # It refuses root.
            command[1:1] = ["--user=postgres"]
        return command

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"PgBouncer ended:\n{(self._folder / 'log').read_text()}")
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except ConnectionRefusedError:
            return False
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> PgBouncer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder)
