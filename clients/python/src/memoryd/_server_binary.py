"""Where the server's binary is."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
from typing import Any

import grpc

from memoryd.errors import MemorydError

VARIABLE = "MEMORYD_BINARY"
_NAME = "memoryd"
_PACKAGE = "memoryd_server"
# Of the package memoryd_server, as its name says: manylinux_2_35.
_LEAST_GLIBC = (2, 35)
_CONTAINER = (
    "docker build -t memoryd:0.1.0 . && "
    "docker run --rm -p 127.0.0.1:50051:50051 -v memoryd:/var/lib/memoryd memoryd:0.1.0 "
    "--listen=0.0.0.0:50051 --allow-plaintext=true"
)


def find(given: str | os.PathLike[str] | None = None) -> str:
    """The absolute path of the server's binary: `given`, else the variable MEMORYD_BINARY, else the
    one of the package memoryd_server, else the first `memoryd` on PATH that is no Python script.

    Raises MemorydError FAILED_PRECONDITION where there is none, or where the named one is no file
    that can be executed.
    """
    if given is not None:
        return _executable(os.fspath(given), "binary=")
    named = os.environ.get(VARIABLE)
    if named:
        return _executable(named, f"{VARIABLE}=")
    found = _of_package() or _on_path()
    if found is None:
        raise MemorydError(grpc.StatusCode.FAILED_PRECONDITION, missing())
    return found


def _executable(path: str, name: str) -> str:
    expanded = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(expanded) or not os.access(expanded, os.X_OK):
        raise MemorydError(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"{name}{path}: no file that can be executed; name the server's binary")
    return expanded


def _of_package() -> str | None:
    try:
        package: Any = importlib.import_module(_PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        return None
    binary: str = os.path.abspath(os.fspath(package.binary()))
    return binary


def _on_path() -> str | None:
    for folder in os.get_exec_path():
        # A folder of its own, so that one that has no server does not hide the next.
        found = shutil.which(_NAME, path=folder or os.curdir)
        if found is not None and not _is_python_script(found):
            return os.path.abspath(found)
    return None


def _is_python_script(path: str) -> bool:
    """Whether it is a console script, such as the one of this package."""
    try:
        with open(path, "rb") as file:
            # Where the interpreter's path is long, pip writes `#!/bin/sh` and names it below.
            start = file.read(512)
    except OSError:
        return False
    return start.startswith(b"#!") and b"python" in start


def missing() -> str:
    """Why this machine has no server, and what to do."""
    system, has_wheel = _platform()
    elsewhere = f"name a binary that is elsewhere by binary= or {VARIABLE}; or "
    if has_wheel:
        why = (f"no memoryd server is installed on this machine ({system}): `pip install "
               "dist/memoryd_server-*.whl` installs what `make dist` makes in a clone of memoryd, "
               f"nothing is published yet; {elsewhere}")
    else:
        why = (f"there is no memoryd server for this platform ({system}), only for Linux x86_64 "
               f"with glibc {_least_glibc()} or newer: {elsewhere if _is_linux() else ''}")
    return (f"{why}run it in a container, in a clone of memoryd: `{_CONTAINER}`, and use "
            "memoryd.Client(\"localhost:50051\")")


def _platform() -> tuple[str, bool]:
    """What this machine is, and whether there is a package with the server for it."""
    system = f"{platform.system()} {platform.machine()}"
    if not _is_linux():
        return system, False
    library, version = platform.libc_ver()
    if library != "glibc":
        return f"{system} without glibc", False
    numbers = tuple(int(number) for number in re.findall(r"[0-9]+", version)[:2])
    is_new = numbers >= _LEAST_GLIBC
    return f"{system}, glibc {version}", is_new and platform.machine() == "x86_64"


def _least_glibc() -> str:
    return ".".join(map(str, _LEAST_GLIBC))


def _is_linux() -> bool:
    return platform.system() == "Linux"
