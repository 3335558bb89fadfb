"""PostgreSQL for tests: a database of one's own, or a whole server that can be stopped."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.parse
import uuid
from collections.abc import Iterator, Sequence

from support.waiting import wait_for

URL_VARIABLE = "MEMORYD_TEST_POSTGRES"


def server_url() -> str:
    """The URL of the test server. A missing server is an error: no test is left out for it."""
    url = os.environ.get(URL_VARIABLE)
    if not url:
        raise RuntimeError(
            f"{URL_VARIABLE} is not set: run this through tools/with_postgres.sh COMMAND"
        )
    return url


def run_sql(url: str, statement: str) -> str:
    """What psql prints for one statement, unaligned and without headers."""
    done = subprocess.run(
        [program("psql"), "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statement],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"psql failed: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def temporary_database(url: str | None = None) -> Iterator[str]:
    """The URL of a new database on the server at `url`; it is dropped afterwards."""
    url = url or server_url()
    name = f"memoryd_test_{uuid.uuid4().hex}"
    run_sql(url, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    try:
        yield urllib.parse.urlsplit(url)._replace(path=f"/{name}").geturl()
    finally:
        run_sql(url, f"DROP DATABASE {name} WITH (FORCE)")


def at_port(url: str, port: int) -> str:
    """The URL of the same database by way of another port."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=f"postgres@127.0.0.1:{port}").geturl()


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """A PostgreSQL server of one's own on a fixed port of the loopback interface: a new primary, or
    a standby of the primary at the URL `source`."""

    def __init__(self, *settings: str, source: str = "") -> None:
        self._settings = settings  # `name=value`, after the defaults.
        self._root = pathlib.Path(tempfile.mkdtemp(prefix="memoryd-postgres-"))
        self._data = self._root / "data"
        if os.geteuid() == 0:  # initdb refuses root.
            account = pwd.getpwnam("postgres")
            os.chown(self._root, account.pw_uid, account.pw_gid)
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        if source:
            self._copy(source)
        else:
            self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "postgres", "--no-sync")
        self.start()

    def become_standby(self, source: str) -> None:
        """Comes back, after kill() or stop(), as a standby of the primary at the URL `source`."""
        shutil.rmtree(self._data)
        self._copy(source)
        self.start()

    @property
    def data(self) -> pathlib.Path:
        """The data folder."""
        return self._data

    def _copy(self, source: str) -> None:
        self._run("pg_basebackup", "-D", str(self._data), "-R", "-c", "fast", "--no-sync", "-d",
                  source)

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self._root} -c fsync=off"
        options += "".join(f" -c {shlex.quote(setting)}" for setting in self._settings)
        log = self._root / "log"
        # Recovery after a crash takes its time on a busy machine.
        try:
            self._run("pg_ctl", "-D", str(self._data), "-l", str(log), "-w", "-t", "300",
                      "-o", options, "start")
        except RuntimeError as error:
            said = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise RuntimeError(f"{error}:\n{said}") from error

    def stop(self) -> None:
        """Ends the server at once, as a crash would."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "immediate", "stop")

    def kill(self) -> None:
        """Kills the postmaster with SIGKILL. Returns when its children, which end by themselves,
        are gone too, and start() may be called."""
        kill_server(self._data)
        (self._root / f".s.PGSQL.{self.port}.lock").unlink()

    def pause(self) -> None:
        """Freezes every process of the server: connections stay open and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        # The postmaster first, so that it can't fork while its children are listed.
        postmaster = self._postmaster()
        os.kill(postmaster, number)
        for child in _children(postmaster):
            with contextlib.suppress(ProcessLookupError):  # Backends come and go.
                os.kill(child, number)

    def _postmaster(self) -> int:
        return _postmaster(self._data)

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            as_server([program(name), *arguments]),
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed with {done.returncode}")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        if (self._data / "postmaster.pid").exists():
            self.resume()
            self.stop()
        shutil.rmtree(self._root, ignore_errors=True)


def kill_server(data: pathlib.Path) -> None:
    """Kills the postmaster of a data folder with SIGKILL. Returns when its children, which end by
    themselves, are gone too."""
    postmaster = _postmaster(data)
    # Stopped first, so that it can't fork while its children are listed.
    os.kill(postmaster, signal.SIGSTOP)
    children = _children(postmaster)
    os.kill(postmaster, signal.SIGKILL)
    wait_for(lambda: not any(_runs(process) for process in (postmaster, *children)))
    # A postmaster that nobody has reaped yet counts as running for the next one.
    (data / "postmaster.pid").unlink()


def as_server(command: Sequence[str]) -> list[str]:
    """The command, as the user of PostgreSQL when this one is root, which it refuses."""
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--", *command]


def _postmaster(data: pathlib.Path) -> int:
    return int((data / "postmaster.pid").read_text().split()[0])


def _children(parent: int) -> list[int]:
    found = []
    # Not by glob("[0-9]*/stat"), which looks at each file and fails where a process ends meanwhile.
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (process / "stat").read_text()
            # The second field is a name in parentheses that may hold blanks.
            if int(stat.rpartition(")")[2].split()[1]) == parent:
                found.append(int(process.name))
    return found


def _runs(process: int) -> bool:
    """False for a zombie: who started it may never look after it."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def program(name: str) -> str:
    """The path of one of PostgreSQL's programs."""
    installed = pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    newest = max(installed, key=lambda path: float(path.parents[1].name), default=None)
    found = str(newest) if newest else shutil.which(name)
    if not found:
        raise RuntimeError(f"PostgreSQL's {name} is not installed")
    return found
