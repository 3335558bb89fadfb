"""A memoryd process under test."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from support.paths import BINARY, server_environment
from support.pgbouncer import PORT_VARIABLE

START_SECONDS = 60.0
STOP_SECONDS = 60.0
_READY = "listening on "
_METRICS = "metrics on "
_HEALTH = "health on "
_HTTP = "http on "

CHANNEL_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    # The least time that an attempt to connect has: a busy machine may be slow to answer.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", 80 * 1024 * 1024),
    ("grpc.max_send_message_length", -1),
]


class Server:
    """Runs memoryd from construction, once it serves, until stop() or kill().

    `target` is the address to dial; `metrics`, `http` and `health` those of these ports, if any. `log` gets
    standard error, which else is part of output(). `before` is a command that becomes the server.
    Use as a context manager; leaving it ends the process, and shows what a process that has ended
    by itself had to say.
    """

    def __init__(
        self,
        store: str,
        *,
        listen: str = "127.0.0.1:0",
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
        log: int | IO = subprocess.STDOUT,
        binary: os.PathLike = BINARY,
        before: Sequence[str] = (),
    ) -> None:
        command = [*before, str(binary), f"--listen={listen}", f"--store={store}", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=server_environment(**pooling(store), **(environment or {})),
            text=True,
            errors="replace",
        )
        self.target = ""
        self.metrics = ""
        self.health = ""
        self.http = ""
        self._paused = False
        self._told_to_end = False
        self._output: collections.deque[str] = collections.deque(maxlen=200)
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if wait:
            self.wait_until_ready()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._output.append(line)
            if line.startswith(_METRICS):
                self.metrics = line[len(_METRICS):].strip()
            if line.startswith(_HTTP):
                self.http = line[len(_HTTP):].strip()
            if line.startswith(_HEALTH):
                self.health = line[len(_HEALTH):].strip()
            if not self.target and line.startswith(_READY):
                self.target = line[len(_READY):].strip()
                self._ready.set()
        self._ready.set()

    def wait_until_ready(self) -> None:
        """Returns once the process says that it serves; raises when it ends first."""
        if not self._ready.wait(START_SECONDS) or not self.target:
            self.kill()
            raise RuntimeError(f"memoryd did not start:\n{self.output()}")

    def output(self) -> str:
        """The latest lines of stdout and stderr."""
        return "".join(list(self._output))

    @property
    def pid(self) -> int:
        return self.process.pid

    def channel(self) -> grpc.Channel:
        """A connection of its own, shared with no other channel of this process."""
        return open_channel(self.target)

    def pause(self) -> None:
        """Stops the process in its tracks and returns when it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        self._paused = True

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self._paused = False

    def terminate(self) -> None:
        """Asks for an orderly end and does not wait for it."""
        self._told_to_end = True
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """The exit code, negative for a signal. TimeoutExpired when the process goes on."""
        code = self.process.wait(timeout)
        self._reader.join()
        return code

    def stop(self) -> int:
        self.terminate()
        return self.wait()

    def kill(self) -> None:
        self._told_to_end = True
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is not None and not self._told_to_end:
            code = self.wait()
            print(f"memoryd ended by itself with {code}:\n{self.output()}", file=sys.stderr)
        if self.process.poll() is None:
            if self._paused:
                self.resume()
            self.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.kill()
                raise


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """A port that nobody is given while no server listens on it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def pooling(store: str) -> dict[str, str]:
    """What a server needs to know where tests run through a PgBouncer."""
    if PORT_VARIABLE in os.environ and not store.startswith("sqlite"):
        return {"MEMORYD_TRANSACTION_POOLING": "true"}
    return {}


def terminated_under_load(
    store: str, writers: int, write: Callable[[int, str, threading.Barrier], None],
) -> float:
    """Ends a server by SIGTERM while so many threads run write(writer, target, warm), each of which
    waits at `warm` once it is under way. The server must end well: in how many seconds it did."""
    warm = threading.Barrier(writers + 1)
    with Server(store) as server:
        threads = [threading.Thread(target=write, args=(writer, server.target, warm))
                   for writer in range(writers)]
        for thread in threads:
            thread.start()
        warm.wait(60)
        begin = time.monotonic()
        server.terminate()
        assert server.wait() == 0
        seconds = time.monotonic() - begin
        for thread in threads:
            thread.join()
    return seconds


def failed_start(store: str, **options) -> tuple[int, str]:
    """Exit code and output of a server that must not come to serve."""
    server = Server(store, wait=False, **options)
    try:
        code = server.wait()
    except subprocess.TimeoutExpired:
        server.kill()
        raise
    return code, server.output()


def open_channel(target: str) -> grpc.Channel:
    return grpc.insecure_channel(target, options=CHANNEL_OPTIONS)


def ready(channel: grpc.Channel) -> grpc.Channel:
    """The channel, connected."""
    grpc.channel_ready_future(channel).result(START_SECONDS)
    return channel


@contextlib.contextmanager
def restarted(store: str) -> Iterator[tuple[str, Callable[..., None]]]:
    """Yields the address of a server and what starts another one there, once it has ended the one
    before by Server.kill, or by what it is given."""
    with reserved_port() as port:
        listen = f"127.0.0.1:{port}"
        servers = [Server(store, listen=listen)]

        def restart(end: Callable[[Server], object] = Server.kill) -> None:
            end(servers[-1])
            servers.append(Server(store, listen=listen))

        try:
            yield listen, restart
        finally:
            servers[-1].kill()


def wait_for_health(channel: grpc.Channel, status: int, timeout: float, service: str = "") -> None:
    """Returns when the health stream says `status`; raises grpc.RpcError at the timeout."""
    stub = health_pb2_grpc.HealthStub(channel)
    stream = stub.Watch(
        health_pb2.HealthCheckRequest(service=service), timeout=timeout, wait_for_ready=True
    )
    for update in stream:
        if update.status == status:
            stream.cancel()
            return
    raise RuntimeError("the health stream ended")
