"""Source distributions with the tests that libraries have of themselves, and packages that only
a comparison needs, under build/upstream. The folder tests/ is on the module search path."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tarfile

from support import paths
from support.server import Server

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "upstream"


def fetch(distribution: str) -> pathlib.Path:
    """The unpacked source distribution of the version that is installed."""
    version = importlib.metadata.version(distribution)
    name = f"{distribution.replace('-', '_')}-{version}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    archive = FOLDER / f"{name}.tar.gz"
    if not archive.exists():
        _pip("download", "--no-deps", f"--no-binary={distribution}", f"--dest={FOLDER}",
             f"{distribution}=={version}")
    unpacked = FOLDER / name
    if not unpacked.exists():
        with tarfile.open(archive) as source:
            # As the filter "data" of newer Pythons: nothing is written outside of the folder.
            for member in source.getmembers():
                if member.issym():
                    continue  # To a file for people; tests need none.
                place = (FOLDER / member.name).resolve()
                if not (member.isfile() or member.isdir()) or FOLDER.resolve() not in place.parents:
                    raise RuntimeError(f"{archive.name} has the member {member.name}")
            source.extractall(FOLDER)
    return unpacked


def packages(requirements: pathlib.Path = HERE / "requirements.txt") -> pathlib.Path:
    """A folder for the module search path with these requirements, for what need not be in
    build/venv."""
    folder = FOLDER / hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            made = folder.with_suffix(".new")
            _pip("install", "--no-deps", "--use-pep517", f"--target={made}",
                 f"--requirement={requirements}")
            made.rename(folder)
    return folder


def run(distribution: str, classes: str, *arguments: str) -> int:
    """Runs pytest over the source distribution, with the plugin `classes` that puts ours in place of
    the library's, beside a server. Returns pytest's exit code."""
    source = fetch(distribution)
    search_path = [packages(), HERE, paths.REPOSITORY / "clients/python/src"]
    with Server("sqlite::memory:") as server:
        print(f"{distribution}: {source.name}", flush=True)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", classes,
             *arguments],
            cwd=source, check=False,
            env={**os.environ, "MEMORYD_TARGET": server.target,
                 "PYTHONPATH": os.pathsep.join(map(str, search_path))}).returncode


def _pip(command: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", command, "--quiet",
                    "--disable-pip-version-check", *arguments], check=True)
