"""The commands of the server's binary, as people type them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import termios
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

from support.calls import job_service_pb2_grpc as job_grpc
from support.calls import memory_service_pb2_grpc as memory_grpc
from support.calls import session_service_pb2_grpc as session_grpc
from support.paths import BINARY, server_environment

SECONDS = 120


class Commands:
    """memoryd's commands for one server."""

    def __init__(self, target: str) -> None:
        self.environment = server_environment(MEMORYD_TARGET=target)

    def run(self, *arguments: object, **options) -> subprocess.CompletedProcess:
        if "input" not in options:
            options["stdin"] = subprocess.DEVNULL
        return subprocess.run([str(BINARY), *map(str, arguments)], env=self.environment, text=True,
                              capture_output=True, timeout=SECONDS, check=False, **options)

    def text(self, *arguments: object) -> str:
        done = self.run(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def json(self, *arguments: object) -> list[dict]:
        return [json.loads(line) for line in self.text(*arguments, "--json").splitlines()]

    def fails(self, code: int, *arguments: object) -> str:
        """The one line of a command that ends with `code`."""
        done = self.run(*arguments)
        assert done.returncode == code, done
        line, = done.stderr.splitlines()
        assert line.startswith("memoryd: "), line
        return line.removeprefix("memoryd: ")

    def start(self, *arguments: object, **options) -> subprocess.Popen:
        return subprocess.Popen([str(BINARY), *map(str, arguments)], env=self.environment,
                                **{"stdin": subprocess.DEVNULL, **options})


def on_terminal(commands: Commands, answer: str, *arguments: object, seen: str = "",
                then: Callable[[], None] = lambda: None, columns: int = 80,
                **options) -> tuple[int, str]:
    """Exit code and screen of a command whose standard input and error are a terminal. When `seen`
    stands on the screen, `then` is called."""
    own, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (25, columns))
    with contextlib.closing(os.fdopen(own, "r+b", buffering=0)) as terminal:
        process = commands.start(*arguments, stdin=theirs, stderr=theirs,
                                 **{"stdout": subprocess.DEVNULL, **options})
        os.close(theirs)
        if answer:
            terminal.write(answer.encode())
        screen = b""
        with contextlib.suppress(OSError):  # EIO when the last one has closed it.
            while piece := terminal.read(4096):
                screen += piece
                if seen and seen.encode() in screen:
                    seen = ""
                    then()
        return process.wait(SECONDS), screen.decode()


SERVICES = (
    (memory_grpc.MemoryServiceServicer, memory_grpc.add_MemoryServiceServicer_to_server),
    (session_grpc.SessionServiceServicer, session_grpc.add_SessionServiceServicer_to_server),
    (job_grpc.JobServiceServicer, job_grpc.add_JobServiceServicer_to_server),
)


@contextlib.contextmanager
def serving(service: object) -> Iterator[Commands]:
    """Commands for a server that is `service` alone, which inherits from what it serves."""
    server = grpc.server(ThreadPoolExecutor(4))
    for kind, add in SERVICES:
        if isinstance(service, kind):
            add(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield Commands(f"127.0.0.1:{port}")
    finally:
        server.stop(None).wait()
