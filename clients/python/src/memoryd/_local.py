"""A private server of the program: started with its first user, stopped with its last."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, TypeVar, cast

import grpc

from memoryd import _calls, _channels, _server_binary, _supervisor
from memoryd.aio import AsyncClient
from memoryd.client import Client
from memoryd.errors import MemorydError
from memoryd.v1 import server_service_pb2 as server_wire

Result = TypeVar("Result")
Item = TypeVar("Item")

# The oldest schema whose servers know all that this client asks for.
_OLDEST_SCHEMA = 11
# Longer than a supervisor gives its server to end.
_LEAVE_SECONDS = 40.0
# Between looks for a supervisor that lives and cannot be reached.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 1.0


def local(
    path: str | os.PathLike[str] | None = None,
    *,
    ephemeral: bool = False,
    binary: str | os.PathLike[str] | None = None,
    http_port: int | None = None,
    timeout: float = 30.0,
) -> LocalClient:
    """Returns a client of a private server, which keeps its memory in the folder `path`.

        with memoryd.local("~/.agent") as memory:
            memory.put("s1", [memoryd.message("user", "Hello, world!")])

    The first user of a folder starts its server, and others join it, from any process of this
    machine. The server stops with its last user: by `close()`, or by the end of the process for any
    reason. A forked child is a user too, until it closes the client or ends. No other machine can
    reach the server, and no other user of this machine except root.

    `path` is created with mode 0700 if it is missing; `~` is the home folder. It must be on a disk
    of this machine. With `ephemeral` instead, memory is in RAM, for this client alone, and lost
    with it. `memory.target` is an address that other clients may use meanwhile.

    `binary` is the path of the server's binary. By default it is the environment variable
    MEMORYD_BINARY, the binary of the package memoryd-server, or `memoryd` on PATH. Only a user that
    starts a server needs one. The server gets no variable MEMORYD_…. Its log is `path`/server.log.
    With a `path`, the next call restarts a server that ended by itself or whose supervisor was
    killed. That call may raise the exceptions of local(). Calls that were under way may fail at
    their deadline.

    With `http_port` the server speaks HTTP too, at that port of 127.0.0.1, or at a free one for 0;
    `memory.http` is the address. Every user of this machine can reach it there. The program that
    starts the server decides, and others need not ask for it.

    `timeout` is the time to start in seconds. Calls have the deadlines of Client.

    Raises ValueError without `path` and `ephemeral`, and with both, and if `http_port` is no port.
    Raises MemorydError FAILED_PRECONDITION if there is no binary, the folder cannot be used, or the
    server does not start, since another process has `http_port`, say. It raises the same if the
    running server's version does not fit this client, or if it was started without HTTP or with
    another port. Raises MemorydError DEADLINE_EXCEEDED at the timeout.
    """
    deadline = time.monotonic() + timeout
    share = _Share(_Store.of(path, ephemeral, binary, http_port, timeout))
    made = LocalClient(share)
    try:
        with share.asking():
            info = made.server_info(timeout=max(0.001, deadline - time.monotonic()))
        share.check(info)
    except BaseException:
        made.close()
        raise
    return made


async def local_async(
    path: str | os.PathLike[str] | None = None,
    *,
    ephemeral: bool = False,
    binary: str | os.PathLike[str] | None = None,
    http_port: int | None = None,
    timeout: float = 30.0,
) -> AsyncLocalClient:
    """As local(), with a client for asyncio:

        async with await memoryd.local_async("~/.agent") as memory:
            await memory.put("s1", [memoryd.message("user", "Hello, world!")])
    """
    deadline = time.monotonic() + timeout
    store = _Store.of(path, ephemeral, binary, http_port, timeout)
    sharing = asyncio.ensure_future(asyncio.to_thread(_Share, store))
    try:
        share = await asyncio.shield(sharing)
    except asyncio.CancelledError:
        sharing.add_done_callback(_abandon)
        raise
    made = AsyncLocalClient(share)
    try:
        with share.asking():
            info = await made.server_info(timeout=max(0.001, deadline - time.monotonic()))
        share.check(info)
    except BaseException:
        await made.close()
        raise
    return made


class LocalClient(Client):
    """A Client of a server that local() started or joined."""

    def __init__(self, share: _Share) -> None:
        """Use local()."""
        super().__init__(share.target)
        self._share = share

    @property
    def target(self) -> str:
        """The server's address, for other clients and for adapters. It is valid as long as the
        server has a user: this client, or another one of local()."""
        return self._share.target

    @property
    def http(self) -> str | None:
        """The address at which the server speaks HTTP, `127.0.0.1:PORT`; None if it does not."""
        return self._share.http

    def close(self) -> None:
        """Closes the connection. With its last user the server stops, and close() returns when it
        has ended. Calls under way fail CANCELLED."""
        super().close()
        self._share.leave()

    def __enter__(self) -> LocalClient:
        return self

    def _attempt(self, call: _calls.Call[Result]) -> Result:
        self._share.renew()
        return super()._attempt(call)

    def _streamed(self, stream: _calls.Stream[Item]) -> Iterator[Item]:
        self._share.renew()
        yield from super()._streamed(stream)

    def _upload(self, upload: _calls.Upload[Result]) -> Result:
        self._share.renew()
        return super()._upload(upload)


class AsyncLocalClient(AsyncClient):
    """An AsyncClient of a server that local_async() started or joined."""

    def __init__(self, share: _Share) -> None:
        """Use local_async()."""
        super().__init__(share.target)
        self._share = share

    @property
    def target(self) -> str:
        """As LocalClient.target."""
        return self._share.target

    @property
    def http(self) -> str | None:
        """As LocalClient.http."""
        return self._share.http

    async def close(self) -> None:
        """Closes the connection. With its last user the server stops, and close() returns when it
        has ended. Calls under way fail CANCELLED."""
        await super().close()
        await asyncio.to_thread(self._share.leave)

    async def __aenter__(self) -> AsyncLocalClient:
        return self

    async def _renew(self) -> None:
        if self._share.is_over():
            await asyncio.to_thread(self._share.renew)

    async def _attempt(self, call: _calls.Call[Result]) -> Result:
        await self._renew()
        return await super()._attempt(call)

    async def _streamed(self, stream: _calls.Stream[Item]) -> AsyncIterator[Item]:
        await self._renew()
        items = cast(AsyncGenerator[Item, None], super()._streamed(stream))
        async with contextlib.aclosing(items):
            async for item in items:
                yield item

    async def _upload(self, upload: _calls.Upload[Result]) -> Result:
        await self._renew()
        return await super()._upload(upload)


class _Share:
    """One user's share in a server: the connection to its supervisor."""

    def __init__(self, store: _Store) -> None:
        """Joins the store's server, which it starts where there is none."""
        self._store = store
        self._lock = _channels.Lock()
        connection, hello = store.join()
        self._connection: socket.socket | None = connection
        self._control: str = hello["control"]
        self.place = store.place
        self.target: str = hello["target"]
        # A supervisor of an earlier version says nothing of it.
        self.http: str | None = hello.get("http") or None
        if store.http_port is not None:
            try:
                self._keep_port(store.http_port)
            except BaseException:
                connection.close()
                raise

    def _keep_port(self, asked: int) -> None:
        """If this user starts the next server, that has the port of this one."""
        if self.http is None:
            raise _failed(
                f"{self.place} is served without HTTP: pass http_port in the program that starts "
                "the server, or end the programs that use it")
        port = int(self.http.rpartition(":")[2])
        if asked not in (0, port):
            raise _failed(
                f"{self.place} is served over HTTP at {self.http}, and not at port {asked}: pass "
                "http_port=0, or end the programs that use it")
        self._store = dataclasses.replace(self._store, http_port=port)

    def is_over(self) -> bool:
        """Whether the supervisor was killed, or has given its server up. Asks nobody."""
        connection = self._connection
        if connection is None:
            return False
        try:
            return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except ConnectionError:
            return True
        except OSError:  # Nothing to read; or closed meanwhile.
            return False

    def renew(self) -> None:
        """Joins again where the share is over; a server begins again where there is none."""
        if not self.is_over():
            return
        with self._lock:
            if self._connection is None or not self.is_over():  # Another thread has done it.
                return
            if self._store.folder is None:
                raise _failed(f"{self.place} has ended, since its server has")
            connection, hello = self._store.join()
            if hello["target"] != self.target:
                connection.close()
                raise _failed(f"{self.place}: its server has another address now: make the client "
                              "again")
            self._connection.close()
            self._connection, self._control = connection, hello["control"]
            self.http = hello.get("http") or None

    def abandon(self) -> bool:
        """Leaves without waiting; false where it has left before."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            # No shutdown(): the child of a fork may go on with it.
            connection.close()
        return connection is not None

    def leave(self) -> None:
        """Returns once the server has another user or is gone."""
        if not self.abandon():
            return
        waiting = _connected(self._control, _supervisor.LEAVE)
        if waiting is None:
            return
        with waiting, contextlib.suppress(OSError):
            waiting.settimeout(_LEAVE_SECONDS)
            waiting.recv(1)

    def check(self, info: server_wire.GetServerInfoResponse) -> None:
        """Raises MemorydError where this client cannot use the server."""
        schema = info.store.schema_version
        if schema < _OLDEST_SCHEMA:
            raise _failed(
                f"{self.place} is served by memoryd {info.version} with schema {schema}, and this "
                f"client, memoryd {_version()}, needs schema {_OLDEST_SCHEMA} or later: end the "
                "programs that use that server, so that a newer one can start")

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """While the server is asked what it is: errors say whose they are."""
        try:
            yield
        except MemorydError as error:
            if error.code != grpc.StatusCode.UNIMPLEMENTED:
                raise MemorydError(error.code, f"{self.place}: {error.message}") from error
            raise _failed(
                f"{self.place} is served by a program that does not know the protocol of this "
                f"client, memoryd.v1 of memoryd {_version()}: {error.message}") from error


@dataclasses.dataclass(frozen=True)
class _Store:
    """What local() was asked for."""

    folder: str | None
    binary: str | os.PathLike[str] | None
    http_port: int | None
    timeout: float

    @classmethod
    def of(cls, path: str | os.PathLike[str] | None, ephemeral: bool,
           binary: str | os.PathLike[str] | None, http_port: int | None, timeout: float) -> _Store:
        """Raises as local() does of its arguments; makes the folder where it is missing."""
        if ephemeral == (path is not None):
            raise ValueError(
                "local() takes a path, the folder of its memory, or ephemeral=True, and not both")
        if http_port is not None and not 0 <= http_port <= 65535:
            raise ValueError("http_port must be a port, or 0 for a free one")
        if not hasattr(socket, "AF_UNIX"):
            raise _failed(_server_binary.missing())
        return cls(None if path is None else _folder(path), binary, http_port, timeout)

    @property
    def place(self) -> str:
        return self.folder or "the ephemeral memory"

    def join(self) -> tuple[socket.socket, dict[str, Any]]:
        """A connection to the supervisor, and what it says of its server, which serves. The
        supervisor is started where there is none."""
        deadline = time.monotonic() + self.timeout
        pause = _FIRST_PAUSE_SECONDS
        late = (f"{self.place}: the server did not start in time; what it says is in "
                f"{_supervisor.LOG} there")
        while True:
            connection = None
            if self.folder is not None:
                connection = _connected(_supervisor.control_path(self.folder), _supervisor.USE)
            if connection is None:
                http = "" if self.http_port is None else f"127.0.0.1:{self.http_port}"
                connection = _started(self.folder, _server_binary.find(self.binary), http)
            with contextlib.ExitStack() as closing:
                closing.callback(connection.close)
                hello = _hello(connection, deadline, late)
                if "target" in hello:
                    if hello["protocol"] != _supervisor.PROTOCOL:
                        raise _failed(
                            f"{self.place}: the server there was started by memoryd "
                            f"{hello['version']}, and this is memoryd {_version()}, which can't "
                            "join it: end the programs that use it, or use one version in all")
                    closing.pop_all()
                    return connection, hello
            if "error" in hello:
                raise _failed(hello["error"])
            if not hello:  # That server has ended, or its supervisor was killed.
                _left(deadline, late)
                continue
            # Another one is just about to begin, or can't be reached from here.
            late = (f"{self.place}: another process has it in use, and its socket can't be reached "
                    "from here; is that one in another container?")
            time.sleep(min(pause, _left(deadline, late)))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _folder(path: str | os.PathLike[str]) -> str:
    """The one spelling of the path of a folder that is there."""
    given = os.fspath(path)
    if not given:
        raise ValueError("the path of local() is empty")
    folder = os.path.realpath(os.path.expanduser(given))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise _failed(f"{folder}: {error.strerror}: local() needs a folder that this process may "
                      "make or write to") from error
    return folder


def _connected(control: str | None, wish: bytes) -> socket.socket | None:
    """A connection to the supervisor that listens there; None where none does."""
    if control is None:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(control)
        connection.sendall(wish)
    except (FileNotFoundError, ConnectionError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise _failed(f"{control}: {error.strerror}") from error
    return connection


def _started(folder: str | None, binary: str, http: str) -> socket.socket:
    """A connection to a supervisor that has just been started."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise _failed("local() needs a Python interpreter, sys.executable, to keep its server: "
                      "start memoryd by other means and use Client")
    connection, first = socket.socketpair()
    with first:
        # Its streams are none of the user's: who reads those waits for their end.
        starting = subprocess.Popen(
            [sys.executable, "-I", "-S", _supervisor.__file__, _version(), binary, http,
             *([] if folder is None else [folder])],
            stdin=first.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
    # It goes on in a child of its own.
    if starting.wait() != 0:
        connection.close()
        raise _failed(f"local() could not run {_supervisor.__file__} by sys.executable, "
                      f"{sys.executable}: exit code {starting.returncode}")
    return connection


def _hello(connection: socket.socket, deadline: float, late: str) -> dict[str, Any]:
    """What the supervisor says; empty where it ends first."""
    said = b""
    while not said.endswith(b"\n"):
        connection.settimeout(_left(deadline, late))
        try:
            received = connection.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return {}
        if not received:
            return {}
        said += received
    # From now on it is only looked at.
    connection.setblocking(False)
    hello: dict[str, Any] = json.loads(said)
    return hello


def _left(deadline: float, late: str) -> float:
    """The seconds until the deadline; raises MemorydError, which says `late`, where none are."""
    left = deadline - time.monotonic()
    if left <= 0.0:
        raise MemorydError(grpc.StatusCode.DEADLINE_EXCEEDED, late)
    return left


def _version() -> str:
    """That of the package; in a folder of sources there is none."""
    try:
        return importlib.metadata.version("memoryd")
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _failed(message: str) -> MemorydError:
    return MemorydError(grpc.StatusCode.FAILED_PRECONDITION, message)


def _abandon(sharing: asyncio.Future[_Share]) -> None:
    if not sharing.cancelled() and sharing.exception() is None:
        sharing.result().abandon()
