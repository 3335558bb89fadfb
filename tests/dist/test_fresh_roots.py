"""The README's first blocks, copied into a Debian 12 and 13 that has Python and nothing to compile with."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from conftest import VERSION, artefact
from debian_root import DebianRoot, archive
from support.documents import Block, blocks_of
from support.paths import REPOSITORY

# The Python that each has.
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
# What pip of such a Debian takes wheels for.
PLATFORMS = [f"manylinux{of}_x86_64" for of in ("_2_35", "_2_28", "_2_17", "2014")]
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "make", "cmake")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="roots of Debian want root")


def wheelhouse(python: str, folder: pathlib.Path) -> pathlib.Path:
    """What both wheels need for `python`, as wheels, so that the root downloads nothing."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
         "--only-binary=:all:", f"--python-version={python}", *(f"--platform={name}" for name in PLATFORMS),
         f"--dest={folder}",
         artefact("memoryd-*.whl"), artefact("memoryd_server-*.whl")], check=True)
    return folder


@pytest.fixture(params=PYTHONS)
def root(request, tmp_path) -> DebianRoot:
    made = DebianRoot(archive(request.param, "python3-venv"), tmp_path)
    wheelhouse(PYTHONS[request.param], made.folder / "wheelhouse")
    dist = made.folder / "root/dist"
    dist.mkdir()
    for pattern in ("memoryd-*.whl", "memoryd_server-*.whl"):
        shutil.copy(artefact(pattern), dist)
    return made


def first_blocks() -> tuple[Block, Block]:
    """How the README installs, and its first lines of Python."""
    blocks = blocks_of(REPOSITORY / "README.md")
    return (next(block for block in blocks if "pip install" in block.code),
            next(block for block in blocks if block.language == "python"))


def test_the_readmes_first_blocks_need_no_compiler(root, record_property):
    installs, five_lines = first_blocks()
    # The reader has downloaded dist/.
    commands = [line for line in installs.code.splitlines() if not line.startswith("make ")]
    assert len(commands) == installs.code.count("\n") - 1
    (root.folder / "root/five_lines.py").write_text(five_lines.code, encoding="utf-8")
    for compiler in COMPILERS:
        assert root.run("sh", "-c", f"command -v {compiler}", check=False).returncode != 0, compiler

    start = time.monotonic()
    done = root.run("sh", "-euc", "\n".join([
        "cd /root", "export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheelhouse", *commands, "python five_lines.py"]))
    seconds = time.monotonic() - start
    print(f"from nothing to the first recall in {seconds:.1f} s, without downloads")
    record_property("seconds", seconds)
    assert done.stdout.endswith(" I drink tea, never coffee.\n")
    # The commands come along.
    assert root.run("/root/.venv/bin/memoryd", "--version").stdout == f"memoryd {VERSION}\n"
