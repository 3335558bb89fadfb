"""Code in the documentation, and a reader who types it in.

A fence's language says what it is: none, `sh` and `python` are run, `sql` asks the store, `yaml` is
a file of settings, which is checked, or of credentials; `json`, `text`, `cmake` and `cpp` are for
the eye. A word behind the language says what a block wants: `elsewhere` is for what no test machine
has (a cluster, an engine for containers), `serves` for a program that does not end by itself, `tls`
for a server with a certificate and tokens, `postgresql` for that store. `output` is what the block
before it prints.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
from collections.abc import Mapping

from support import grpcurl
from support.access import credential, write_credentials
from support.metrics import scrape, value
from support.model_server import ModelServer
from support.paths import BINARY, REPOSITORY, server_environment
from support.postgres import run_sql
from support.server import Server
from support.tls import SERVER_NAMES, Authority
from support.waiting import wait_for

HERE, OTHER = "localhost:50051", "other:50051"
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOWN = ("json", "text", "cmake", "cpp")
_SECONDS = 120
_KEY_FILE = "/run/secrets/openai"


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, under which heading, its language, and the words behind that."""

    place: str
    heading: str
    language: str
    words: frozenset[str]
    code: str


def blocks_of(document: pathlib.Path) -> list[Block]:
    """The fenced blocks of a Markdown file, in order."""
    text = document.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        language, *words = fence[1].split() or ["sh"]
        headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text[:fence.start()]), re.MULTILINE)
        found.append(Block(f"{document.name}:{text.count(chr(10), 0, fence.start()) + 1}",
                           headings[-1] if headings else "", language, frozenset(words), fence[2]))
    return found


def code_of(document: pathlib.Path, language: str, target: str) -> list[str]:
    """The code of a document in one language, for the server at `target`."""
    return [block.code.replace(HERE, target) for block in blocks_of(document)
            if block.language == language]


class Reader:
    """Types blocks in, in a folder of his own, with the server `here` at the address that the
    documentation has, and an empty one as the other."""

    def __init__(self, folder: pathlib.Path, here: Server, other: Server,
                 models: ModelServer, store: str) -> None:
        """`here` serves metrics, over `store`. `models` is where OpenAI's package finds its models."""
        self.folder = folder
        self._store = store
        self._here = here
        self._other = other
        programs = folder / "programs"
        programs.mkdir()
        grpcurl.install(programs)
        (programs / "memoryd").symlink_to(BINARY.resolve())
        python = REPOSITORY / "clients" / "python" / "src"
        self._environment = server_environment(
            PATH=f"{programs}:{os.environ['PATH']}", PYTHONPATH=str(python),
            MEMORYD_TARGET=here.target, OPENAI_BASE_URL=models.url, OPENAI_API_KEY="x")

    def run(self, block: Block, replacements: Mapping[str, str] | None = None, *,
            target: str = "") -> str:
        """What the block says; raises AssertionError where it fails. `replacements` take the place of
        what stands for something in the block, `target` that of the server here."""
        code = block.code
        for old, new in {**(replacements or {}), HERE: target or self._here.target,
                         OTHER: self._other.target}.items():
            code = code.replace(old, new)
        if block.language in _SHOWN or "elsewhere" in block.words:
            return ""
        if block.language == "yaml":
            return self._check_settings(code)
        if block.language == "sql":
            return self._query(block, code)
        assert block.language in ("sh", "python"), f"{block.place}: {block.language}?"
        command = ([sys.executable, "-c", code] if block.language == "python" else
                   ["bash", "-euo", "pipefail", "-c", code])
        if "serves" in block.words:
            return self._attach(command)
        if "tls" in block.words and not target:
            return self._with_tls(block)
        done = subprocess.run(command, cwd=self.folder, env=self._environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS,
                              check=False)
        assert done.returncode == 0, f"{block.place}: {done.stdout}{done.stderr}"
        return done.stdout

    def _attach(self, command: list[str]) -> str:
        """Runs a worker until it is attached."""
        with contextlib.ExitStack() as ending:
            running = subprocess.Popen(command, cwd=self.folder, env=self._environment)
            ending.callback(running.wait)
            ending.callback(running.kill)
            wait_for(lambda: value(scrape(self._here.metrics), "memoryd_workers") == 1, 6000)
            assert running.poll() is None
        wait_for(lambda: value(scrape(self._here.metrics), "memoryd_workers") == 0, 6000)
        return ""

    def _with_tls(self, block: Block) -> str:
        """Runs a block that makes a client of the name `memory`, and puts with that."""
        identity = Authority(self.folder).issue(SERVER_NAMES)
        (self.folder / "token").write_text("secret\n")
        file = write_credentials(self.folder / "tls-credentials.yaml", [
            credential("team", ["read", "write"], token="secret")])
        with Server("sqlite::memory:", listen="localhost:0", arguments=[
                f"--tls-cert={identity.certificate}", f"--tls-key={identity.key}",
                f"--credentials={file}"]) as server:
            puts = dataclasses.replace(block, code=block.code + 'print(memory.put("s").revision)\n')
            return self.run(puts, target=server.target)

    def _query(self, block: Block, statement: str) -> str:
        kind, _, path = self._store.partition(":")
        try:
            if kind != "sqlite":
                return run_sql(self._store, statement)
            if "postgresql" in block.words:
                return ""
            with contextlib.closing(sqlite3.connect(path)) as database:
                return "".join(f"{row}\n" for row in database.execute(statement))
        except (RuntimeError, sqlite3.Error) as error:
            raise AssertionError(f"{block.place}: {error}") from error

    def _check_settings(self, code: str) -> str:
        if code.startswith("- "):
            return ""  # Credentials, whose digests are left out.
        key = self.folder / "key"
        key.write_text("secret\n")
        key.chmod(0o600)
        file = self.folder / "settings.yaml"
        file.write_text(code.replace(_KEY_FILE, str(key)))
        done = subprocess.run([str(BINARY), f"--config={file}", "--check-config"], text=True,
                              env=server_environment(), capture_output=True, check=False)
        assert done.returncode == 0, f"{code}: {done.stderr}"
        return done.stdout
