#!/usr/bin/env python3
"""Generates memoryd/v1/*_pb2*.py from the protos of this repository.

usage: generate_stubs.py [DIR]     DIR holds the package `memoryd`; default: ../src

The stubs are made when the package is built or first used by the tests, and never committed.
"""

import importlib.resources
import os
import pathlib
import sys
import tempfile

CLIENT = pathlib.Path(__file__).resolve().parents[1]
PROTO = CLIENT.parents[1] / "proto"


def generate(destination: pathlib.Path) -> None:
    """Writes the stubs below `destination`, unless those there are as new as the protos."""
    sources = sorted((PROTO / "memoryd" / "v1").glob("*.proto"))
    if not sources:
        raise FileNotFoundError(f"no proto files below {PROTO}")
    package = destination / "memoryd" / "v1"
    stamp = package / "__init__.py"
    if stamp.exists() and all(s.stat().st_mtime <= stamp.stat().st_mtime for s in sources):
        return

    from grpc_tools import protoc

    package.mkdir(parents=True, exist_ok=True)
    # Written elsewhere and moved, so that another process never imports half a file.
    with tempfile.TemporaryDirectory(dir=destination, prefix=".stubs-") as scratch:
        well_known = str(importlib.resources.files("grpc_tools") / "_proto")
        arguments = ["protoc", f"-I{PROTO}", f"-I{well_known}"]
        arguments += [f"--{kind}_out={scratch}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(arguments + [str(source) for source in sources]) != 0:
            raise RuntimeError("protoc failed")
        for made in sorted((pathlib.Path(scratch) / "memoryd" / "v1").iterdir()):
            os.replace(made, package / made.name)
    stamp.write_text('"""Generated from proto/memoryd/v1."""\n', encoding="utf-8")


if __name__ == "__main__":
    generate(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else CLIENT / "src")
