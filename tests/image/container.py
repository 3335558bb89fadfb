"""memoryd's image, run by podman as a cluster would run it."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import threading
import uuid
from collections.abc import Iterator, Sequence

from support.server import open_channel

IMAGE = os.environ.get("MEMORYD_TEST_IMAGE", "localhost/memoryd:latest")
# podman sends SIGKILL after so long, and the exit code is then 137.
GRACE_SECONDS = 30
# Whom it runs as.
USER_ID = "65532"
# What the restricted Pod Security Standard asks for. The read-only root is without the writable
# folders that podman would add to it by itself.
RESTRICTED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--memory=512m",
)
_READY = "listening on "


def podman(*arguments: str, timeout: float = 60) -> str:
    """What podman prints; raises with its error when it fails."""
    done = subprocess.run(
        ["podman", *arguments], capture_output=True, text=True, check=False, timeout=timeout
    )
    if done.returncode != 0:
        raise RuntimeError(f"podman {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def run_to_end(
    *arguments: str, options: Sequence[str] = (), timeout: float = 60
) -> subprocess.CompletedProcess:
    """Runs the image until it ends by itself."""
    return subprocess.run(
        ["podman", "run", "--rm", *options, IMAGE, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


class Container:
    """A running memoryd from construction, once it serves; leaving the context removes it.

    Shares the host's network unless `network` says otherwise, so that the API on loopback is
    reached from here as it is from the other containers of a pod. `target` is the address to dial.
    """

    def __init__(
        self,
        *arguments: str,
        volume: str | None = None,
        network: str = "host",
        listen: str = "127.0.0.1:0",
        options: Sequence[str] = (),
    ) -> None:
        self.name = f"memoryd-test-{uuid.uuid4().hex[:12]}"
        command = ["podman", "run", "--name", self.name, f"--network={network}", *RESTRICTED]
        if volume is not None:
            command += ["--volume", f"{volume}:/var/lib/memoryd"]
        command += [*options, IMAGE, f"--listen={listen}", *arguments]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.target = ""
        self._output: collections.deque[str] = collections.deque(maxlen=200)
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(60) or not self.target:
            self.remove()
            raise RuntimeError(f"the container did not start:\n{self.output()}")

    def _read(self) -> None:
        for line in self._process.stdout:
            self._output.append(line)
            if not self.target and line.startswith(_READY):
                self.target = line[len(_READY):].strip()
                self._ready.set()
        self._ready.set()

    def output(self) -> str:
        """The latest lines of stdout and stderr."""
        return "".join(list(self._output))

    def channel(self):
        return open_channel(self.target)

    def inspect(self) -> dict:
        return json.loads(podman("inspect", self.name))[0]

    def process_status(self) -> dict[str, str]:
        """/proc/PID/status of memoryd, the first process of the container."""
        pid = self.inspect()["State"]["Pid"]
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)

    def stop(self) -> int:
        """SIGTERM; the exit code, 137 when it had to be killed."""
        podman("stop", f"--time={GRACE_SECONDS}", self.name, timeout=GRACE_SECONDS + 30)
        return self._process.wait(30)

    def kill(self) -> None:
        podman("kill", self.name)
        self._process.wait(30)

    def remove(self) -> None:
        subprocess.run(
            ["podman", "rm", "--force", "--volumes", "--time=0", self.name],
            capture_output=True,
            check=False,
        )
        self._process.wait(30)
        self._reader.join()

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def temporary_volume() -> Iterator[str]:
    """The name of a new named volume, removed afterwards with all that still uses it."""
    name = f"memoryd-test-{uuid.uuid4().hex[:12]}"
    podman("volume", "create", name)
    yield name
    podman("volume", "rm", "--force", name)
