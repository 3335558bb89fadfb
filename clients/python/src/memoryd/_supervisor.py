"""The process that keeps a server for all users of one folder, and ends it with the last of them.

usage: python -I -S _supervisor.py VERSION BINARY HTTP [FOLDER]

Started by local(); without FOLDER what is stored is in memory and gone with the server. VERSION is
that of the package. HTTP is the address at which the server speaks HTTP too, empty for none.

Each user has a connection to the supervisor, which the kernel ends however the user ends. Standard
input is the connection of the first. A connection begins with a byte: USE makes a user, which is
answered with one line of JSON as soon as the server serves; LEAVE asks to be told, by the end of
the connection, that another user is there or that the server is gone.

Two locks of the folder say who lives: `local.lock` is the supervisor's. `server.lock` is the
supervisor's and its server's: where a supervisor was killed, its server ends too, and the next one
begins behind it. Neither file is ever removed.

It needs the standard library alone, so that it starts fast and holds little.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import selectors
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

# What a supervisor and its users say to each other; raised with each change that older ones of
# either cannot leave aside.
PROTOCOL = 1
USE, LEAVE = b"u", b"l"
CONTROL_SOCKET, SERVER_SOCKET = "local.sock", "memoryd.sock"
LOG = "server.log"

_STORE = "memoryd.db"
_LOCK, _SERVER_LOCK = "local.lock", "server.lock"
# Where the folder's own path does not do for a socket, this link names one that does.
_SOCKETS = "sockets"
_PREFIX = "memoryd-"
# Without the NUL behind it.
_LONGEST_SOCKET_PATH = 107
# Paths that mean the same in a list of addresses and in a URI.
_SOCKET_PATH = re.compile(r"[A-Za-z0-9/._~+@-]+")
_HTTP, _READY = b"http on ", b"listening on "
_BACKLOG = 1024
# A server ends itself by its drain_seconds, 10, and a little.
_END_SECONDS = 30.0
_LOG_LINES = 20
# Starts that may be killed, by a system that has no memory, say.
_KILLED_STARTS = 3
_PR_SET_PDEATHSIG = 1


def control_path(folder: str) -> str | None:
    """Where users of the folder find its supervisor, if there is one."""
    if _is_usable(folder):
        return os.path.join(folder, CONTROL_SOCKET)
    try:
        return os.path.join(os.readlink(os.path.join(folder, _SOCKETS)), CONTROL_SOCKET)
    except OSError:
        return None


def _is_usable(folder: str) -> bool:
    """Whether sockets may be there: the kernel bounds their paths, settings and gRPC letters."""
    path = os.path.join(folder, SERVER_SOCKET)
    return len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH and bool(_SOCKET_PATH.fullmatch(path))


def _temporary_folder() -> str:
    """A new folder in which sockets may be."""
    places = dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp"))
    failure: OSError | None = None
    for place in places:
        # As long as what mkdtemp() makes.
        if not _is_usable(os.path.join(place, _PREFIX + "x" * 8)):
            continue
        try:
            return tempfile.mkdtemp(prefix=_PREFIX, dir=place)
        except OSError as error:
            failure = error
    raise failure or OSError(
        f"no folder for a socket: the paths of {', '.join(places)} are too long, or have letters "
        "other than A-Z, a-z, 0-9 and /._~+@-; set TMPDIR")


def _sockets_of(folder: str) -> str:
    """The folder of the sockets of `folder`, made where it is another one and not there."""
    if _is_usable(folder):
        return folder
    link = os.path.join(folder, _SOCKETS)
    with contextlib.suppress(OSError):
        linked = os.readlink(link)
        found = os.lstat(linked)
        # After a crash. Of nobody else, since /tmp is everybody's.
        if (_is_usable(linked) and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
                and not stat.S_IMODE(found.st_mode) & 0o077):
            return linked
    made = _temporary_folder()
    new = f"{link}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    os.symlink(made, new)
    os.replace(new, link)
    return made


def _locked(name: str, *, waits: bool) -> int:
    """The lock's descriptor; BlockingIOError where another has it and this one does not wait."""
    # Users import this module where there is no such thing, too.
    import fcntl

    lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    return lock


class _Server:
    """A memoryd that ends with this process. It holds `lock` for as long as it lives."""

    def __init__(self, binary: str, store: str, listen: str, http: str, log: int,
                 lock: int) -> None:
        self.is_ready = False
        # Where it speaks HTTP, once it is ready.
        self.http = ""
        self._said = b""
        libc = ctypes.CDLL(None)
        parent = os.getpid()

        def end_with_parent() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

        self._process = subprocess.Popen(
            [binary, f"--listen={listen}", f"--store={store}", "--log-format=text",
             *([f"--http-listen={http}"] if http else [])],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, pass_fds=[lock],
            env={name: value for name, value in os.environ.items()
                 if not name.startswith("MEMORYD_")},
            preexec_fn=end_with_parent)
        assert self._process.stdout is not None
        self.output: int = self._process.stdout.fileno()

    def read(self) -> bool:
        """Takes what it has said; false where it has ended."""
        said = os.read(self.output, 65536)
        self._said = (self._said + said)[-65536:]
        for line in self._said.split(b"\n")[:-1]:
            if line.startswith(_HTTP):
                self.http = line[len(_HTTP):].decode()
            if line.startswith(_READY):
                self.is_ready = True
        return bool(said)

    def wait(self) -> int:
        """Its exit code, once it has closed its output."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self._process.wait()

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Supervisor:
    """Works in `folder`, which is the working folder. Users are told the `version`."""

    def __init__(self, version: str, binary: str, http: str, folder: str, is_ephemeral: bool,
                 first: socket.socket) -> None:
        self._version = version
        self._binary = binary
        self._http = http
        self._folder = folder
        self._is_ephemeral = is_ephemeral
        self._sockets = folder
        self._locks: list[int] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._selector = selectors.DefaultSelector()
        # Connections that have not said what they want, those of users, and of those who leave.
        self._silent: set[socket.socket] = set()
        self._users: set[socket.socket] = set()
        self._leaving: set[socket.socket] = set()
        self._greeted: set[socket.socket] = set()
        self._add(first, self._users)

    def run(self) -> None:
        """Returns when the last user and the server are gone. Connections are left to the end of
        the process: who waits for theirs to end, waits for what is tidied up too."""
        try:
            try:
                self._locks.append(_locked(_LOCK, waits=False))
            except BlockingIOError:
                self._tell({"taken": True})
                return
            log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC,
                          0o600)
            os.dup2(log, 2)
            self._sockets = _sockets_of(self._folder)
            control = self._named(CONTROL_SOCKET)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(control)
            self._listener.bind(control)
            self._listener.listen(_BACKLOG)
            self._listener.setblocking(False)
            self._selector.register(self._listener, selectors.EVENT_READ)
            try:
                self._serve(log)
            finally:
                # While the lock is held: no other supervisor has made this socket.
                with contextlib.suppress(OSError):
                    os.unlink(control)
                self._remove_sockets()
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            self._tell({"error": f"{self._folder}: {error.strerror or error}{place}"})
        finally:
            if self._is_ephemeral:
                shutil.rmtree(self._folder, ignore_errors=True)
            # Before a user learns of the end, and may start another supervisor.
            for lock in self._locks:
                os.close(lock)

    def _named(self, socket_name: str) -> str:
        """The path of a socket, for this process and its server. A relative one names what they
        have made also where the folder was deleted and another has come to its place."""
        is_here = self._sockets == self._folder
        return socket_name if is_here else os.path.join(self._sockets, socket_name)

    def _remove_sockets(self) -> None:
        if self._sockets != self._folder:
            with contextlib.suppress(OSError):
                os.unlink(_SOCKETS)
            shutil.rmtree(self._sockets, ignore_errors=True)

    def _serve(self, log: int) -> None:
        """Runs the server until the last user is gone."""
        # The server of a supervisor that was killed has it until it has ended.
        lock = _locked(_SERVER_LOCK, waits=True)
        self._locks.append(lock)
        store = "sqlite::memory:" if self._is_ephemeral else f"sqlite:{_STORE}"
        listen = f"unix:{self._named(SERVER_SOCKET)}"
        server = _Server(self._binary, store, listen, self._http, log, lock)
        self._selector.register(server.output, selectors.EVENT_READ)
        starts = 1
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj != server.output:
                    self._hear(key.fileobj)
                elif not server.read():
                    self._selector.unregister(server.output)
                    code = server.wait()
                    if self._gives_up(server, code, starts):
                        self._tell({"error": f"{self._folder}: memoryd ended with {code}:\n"
                                             f"{_end_of_log()}"})
                        return
                    server = _Server(self._binary, store, listen, self._http, log, lock)
                    self._selector.register(server.output, selectors.EVENT_READ)
                    starts += 1
            if server.is_ready:
                starts = 0
                # The next server gets the same port.
                self._http = server.http
                self._tell({
                    "protocol": PROTOCOL, "version": self._version, "http": server.http,
                    "target": f"unix:{os.path.join(self._sockets, SERVER_SOCKET)}",
                    "control": os.path.join(self._sockets, CONTROL_SOCKET)})
            if not self._users and not self._silent and not self._accept():
                break
            if self._users:
                for connection in list(self._leaving):
                    self._drop(connection)
        # Whoever connects from here on hears nothing until this process is gone, and begins anew.
        server.end()

    def _gives_up(self, server: _Server, code: int, starts: int) -> bool:
        """Whether no other server follows one that has ended; `starts` were in vain so far."""
        if server.is_ready:
            # What was in memory is lost, and another server would hide that.
            return self._is_ephemeral
        return code != -signal.SIGKILL or starts == _KILLED_STARTS

    def _accept(self) -> bool:
        """Whether somebody had come."""
        has_come = False
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self._listener.accept()
                self._add(connection, self._silent)
                has_come = True
        return has_come

    def _add(self, connection: socket.socket, to: set[socket.socket]) -> None:
        connection.setblocking(False)
        to.add(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, connection: Any) -> None:
        try:
            said = connection.recv(64)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._drop(connection)
        elif connection in self._silent:
            self._silent.discard(connection)
            (self._users if said.startswith(USE) else self._leaving).add(connection)

    def _drop(self, connection: socket.socket) -> None:
        for connections in (self._silent, self._users, self._leaving, self._greeted):
            connections.discard(connection)
        self._selector.unregister(connection)
        connection.close()

    def _tell(self, what: Mapping[str, object]) -> None:
        """To the users who have heard nothing yet."""
        line = json.dumps(what).encode() + b"\n"
        for connection in self._users - self._greeted:
            self._greeted.add(connection)
            # One that is gone is found when it is heard.
            with contextlib.suppress(OSError):
                connection.sendall(line)


def _end_of_log() -> str:
    with open(LOG, encoding="utf-8", errors="replace") as file:
        return "".join(file.readlines()[-_LOG_LINES:]).rstrip()


def main(arguments: Iterable[str]) -> None:
    # So that init waits for this process, whatever becomes of the first user.
    if os.fork():
        os._exit(0)
    version, binary, http, *folders = arguments
    first = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.umask(0o077)
    # As the user has set them they would be the server's too.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(end, lambda *_: sys.exit())
    try:
        folder = folders[0] if folders else _temporary_folder()
        os.chdir(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            first.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    _Supervisor(version, binary, http, folder, not folders, first).run()


if __name__ == "__main__":
    main(sys.argv[1:])
    # Closes all at once.
    os._exit(0)
