"""The commands of the server's binary, as people type them."""

from __future__ import annotations

import json
import subprocess

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
