#!/usr/bin/env python
"""autogen-core's own tests of ListMemory, with memoryd.autogen.ListMemory in its place.

usage: autogen.py [PYTEST ARGUMENT...]

The tests come from the source distribution of the version that is installed, by pip. A component
that they load or dump by the library's name is ours; the server is a memoryd of this build.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import autogen_core.memory
import pytest

from support import paths
from support.server import Server

import memoryd.autogen

TESTS = "tests/test_memory.py"


class ListMemory(memoryd.autogen.ListMemory):
    """Under the library's own name, which the tests look for in a dump."""

    component_provider_override = "autogen_core.memory.ListMemory"


class Plugin:
    """Runs coroutine tests, each on a loop of its own, as the library's own plugin does."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None
        asyncio.run(pyfuncitem.obj())
        return True

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "asyncio: a coroutine")


def fetch(folder: pathlib.Path) -> pathlib.Path:
    """The test file of the installed version's source distribution."""
    version = importlib.metadata.version("autogen-core")
    archive = paths.REPOSITORY / f"build/upstream/autogen_core-{version}.tar.gz"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet",
                   "--disable-pip-version-check", "--no-deps", "--no-binary=autogen-core",
                   f"--dest={archive.parent}", f"autogen-core=={version}"]
        subprocess.run(command, check=True)
    with tarfile.open(archive) as source:
        member = source.extractfile(f"autogen_core-{version}/{TESTS}")
        assert member is not None
        file = folder / pathlib.Path(TESTS).name
        file.write_bytes(member.read())
    return file


def main() -> int:
    autogen_core.memory.ListMemory = ListMemory
    with (
        tempfile.TemporaryDirectory(prefix="memoryd-upstream-") as folder,
        Server("sqlite::memory:") as server,
    ):
        os.environ["MEMORYD_TARGET"] = server.target
        file = fetch(pathlib.Path(folder))
        return pytest.main(
            ["-q", f"--rootdir={folder}", "-p", "no:cacheprovider", str(file), *sys.argv[1:]],
            plugins=[Plugin()])


if __name__ == "__main__":
    sys.exit(main())
