"""Where the server's binary is."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
from typing import Any

import grpc

from memoryd.errors import MemorydError

VARIABLE = "MEMORYD_BINARY"
_NAME = "memoryd"
_PACKAGE = "memoryd_server"
_CONTAINER = (
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
    system = f"{platform.system()} {platform.machine()}"
    has_wheel = (sys.platform, platform.machine()) == ("linux", "x86_64")
    if has_wheel and platform.libc_ver()[0] != "glibc":
        system, has_wheel = f"{system} without glibc", False
    why = (f"no memoryd server is installed on this machine ({system}): pip install memoryd-server"
           if has_wheel else
           f"there is no package with the memoryd server for this platform ({system}), only for "
           "Linux x86_64 with glibc: build the server")
    return (f"{why}, then name its binary by binary= or {VARIABLE} where it is not on PATH; or run "
            f"`{_CONTAINER}` and use memoryd.Client(\"localhost:50051\")")
