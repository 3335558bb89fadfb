"""What `make dist` made, in dist/ or the folder that MEMORYD_DIST names."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass

import pytest

_TESTS = pathlib.Path(__file__).resolve().parents[1]
# The image runs as its own tests run it.
sys.path[:0] = [str(_TESTS), str(_TESTS / "image")]

from support.paths import REPOSITORY

DIST = pathlib.Path(os.environ.get("MEMORYD_DIST", REPOSITORY / "dist"))
VERSION = re.search(r"^project\(memoryd VERSION ([0-9.]+)",
                    (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
TREE = f"memoryd-{VERSION}-linux-x86_64"


def artefact(pattern: str) -> pathlib.Path:
    """The one file of dist/ that is called so."""
    (found,) = DIST.glob(pattern)
    return found


@dataclass(frozen=True)
class Installed:
    """A server that was installed: `command` starts it, `environment` is all that it is given."""

    binary: pathlib.Path
    command: list[str]
    environment: dict[str, str]


def bare_environment(folder: pathlib.Path) -> dict[str, str]:
    """One in which no compiler is found, and no module of this repository."""
    tools = folder / "path"
    tools.mkdir()
    for name in ("sh", "env"):
        (tools / name).symlink_to(f"/bin/{name}")
    kept = {name: value for name, value in os.environ.items()
            if name.startswith(("PIP_", "SSL_", "REQUESTS_")) or name.lower().endswith("_proxy")}
    return {**kept, "PATH": str(tools), "HOME": str(folder), "CC": "/bin/false", "CXX": "/bin/false"}


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> pathlib.Path:
    """The Python of an environment in which both wheels are installed, and what they need, as wheels."""
    folder = tmp_path_factory.mktemp("wheels")
    environment = bare_environment(folder)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], env=environment, check=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
         artefact("memoryd-*.whl"), artefact("memoryd_server-*.whl")],
        env=environment, cwd=folder, check=True)
    return python


@pytest.fixture(scope="session", params=["wheel", "tarball", "deb"])
def installed(request, tmp_path_factory) -> Installed:
    folder = tmp_path_factory.mktemp(request.param)
    plain = {"HOME": str(folder), "STATE_DIRECTORY": str(folder / "state")}
    (folder / "state").mkdir()
    if request.param == "wheel":
        python = request.getfixturevalue("environment")
        told = subprocess.run([python, "-c", "import memoryd_server; print(memoryd_server.binary())"],
                              capture_output=True, text=True, check=True)
        binary = pathlib.Path(told.stdout.strip())
        return Installed(binary, [str(binary)], plain)
    if request.param == "tarball":
        with tarfile.open(artefact("*.tar.gz")) as archive:
            archive.extractall(folder)
        # Found by a link, as one of /usr/local/bin would be.
        (folder / "memoryd").symlink_to(folder / TREE / "bin" / "memoryd")
        return Installed(folder / TREE / "bin" / "memoryd", [str(folder / "memoryd")], plain)
    root = folder / "root"
    subprocess.run(["dpkg-deb", "--extract", artefact("memoryd_*.deb"), root], check=True)
    unit = (root / "usr/lib/systemd/system/memoryd.service").read_text(encoding="utf-8")
    # No systemd runs here: its unit's command, with the paths of where the package was unpacked.
    command = re.search("^ExecStart=(.*)$", unit, re.MULTILINE)[1]
    command = command.replace("/usr/", f"{root}/usr/").replace("=/etc/", f"={root}/etc/").split()
    return Installed(root / "usr/lib/memoryd/bin/memoryd", command, plain)
