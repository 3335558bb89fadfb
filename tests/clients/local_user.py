#!/usr/bin/env python3
"""A process that uses memoryd.local() as it is told; test_local.py runs some.

usage: local_user.py     commands on standard input, an answer of one line to each

  open [PATH]     `opened TARGET START`; without PATH ephemeral; START is when the server began
  put TEXT        `put`
  texts           what was put, as a JSON list
  close           `closed`
  fork            `forked`; `child COMMAND` then has the child do COMMAND
  exit            ends the process at once, without a close
Whatever fails is answered `failed: ` and the error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO

import memoryd

SESSION = "s"


class User:
    def __init__(self) -> None:
        self._memory: memoryd.LocalClient | None = None
        self._to_child: IO[str] | None = None

    def obey(self, command: str) -> str | None:
        """The answer; None where a child gives it."""
        verb, _, rest = command.partition(" ")
        if verb == "open":
            self._memory = memoryd.local(rest) if rest else memoryd.local(ephemeral=True)
            began = self._memory.server_info().start_time
            return f"opened {self._memory.target} {began.seconds}.{began.nanos:09}"
        if verb == "fork":
            read, write = os.pipe()
            if os.fork() == 0:
                os.close(write)
                serve(self, os.fdopen(read))
                os._exit(0)
            os.close(read)
            self._to_child = os.fdopen(write, "w")
            return "forked"
        if verb == "child":
            print(rest, file=self._to_child, flush=True)
            return None
        if verb == "exit":
            os._exit(0)
        if verb == "put":
            self._memory.put(SESSION, [memoryd.message("user", rest)], timeout=60)
            return "put"
        if verb == "texts":
            return json.dumps([m.text for m in self._memory.get_all(SESSION, timeout=60)])
        if verb == "close":
            self._memory.close()
            return "closed"
        raise ValueError(command)


def serve(user: User, commands: IO[str]) -> None:
    for line in iter(commands.readline, ""):
        try:
            answer = user.obey(line.rstrip("\n"))
        except Exception as error:
            answer = f"failed: {type(error).__name__}: {error}".replace("\n", " ")
        if answer is not None:
            print(answer, flush=True)


if __name__ == "__main__":
    serve(User(), sys.stdin)
