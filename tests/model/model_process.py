"""A model server as a process of its own, which may be killed and started again."""

from __future__ import annotations

import pathlib
import socket
import subprocess
from collections.abc import Sequence

from support.paths import REPOSITORY
from support.waiting import wait_for

_PYTHON = str(REPOSITORY / "build/model-venv/bin/python")
_FOLDER = REPOSITORY / "build/model"
_HERE = pathlib.Path(__file__).parent
LLAMA = (_PYTHON, str(_HERE / "llama_server.py"), str(_FOLDER / "gemma.gguf"))
MINILM = (_PYTHON, str(_HERE / "minilm_server.py"))


class ModelProcess:
    """Runs COMMAND PORT on a port that stays the same; `url` is its API.

    Use as a context manager.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._command = [*command, str(self._port)]
        self._log = _FOLDER / f"{name}.log"
        self.url = f"http://127.0.0.1:{self._port}/v1"
        self.start()

    def start(self) -> None:
        """Returns when it serves."""
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(self._serves, attempts=30_000)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _serves(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the model server ended, see {self._log}")
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self._port)) == 0

    def __enter__(self) -> ModelProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
