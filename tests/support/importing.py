"""Databases for the importers to read, and what a run of them said."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import io
import pathlib
import types
from collections.abc import Iterator

from support import paths  # noqa: F401  (makes memoryd importable)
from support.postgres import temporary_database

from memoryd.importers.__main__ import main


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run ended with, and said of each session and at its end."""

    code: int
    lines: list[str]
    error: str

    @property
    def summary(self) -> str:
        return self.lines[-1]

    def line(self, key: str) -> str:
        """The one about a session."""
        (found,) = [line for line in self.lines if line[10:].startswith(f"{key}: ")]
        return found


def run(*arguments: str) -> Run:
    """`python -m memoryd.importers` with these arguments, in this process."""
    with contextlib.redirect_stdout(io.StringIO()) as said, \
            contextlib.redirect_stderr(io.StringIO()) as error:
        code = main(list(arguments))
    return Run(code, said.getvalue().splitlines(), error.getvalue())


@contextlib.contextmanager
def source_database(kind: str, folder: pathlib.Path) -> Iterator[str]:
    """SQLAlchemy's URL, without a driver, of an empty database to be read from."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'source.db'}"
    else:
        with temporary_database() as url:
            yield url


def module_alone(package: str, file: str) -> types.ModuleType:
    """One module of an installed package that does not need the rest, whose own needs are many."""
    found = importlib.metadata.distribution(package).locate_file(file)
    spec = importlib.util.spec_from_file_location(f"alone_{pathlib.Path(file).stem}", str(found))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
