"""Makes the gRPC stubs before the package is built, and reads the version of all of memoryd from
CMakeLists.txt; everything else is in pyproject.toml."""

import pathlib
import re
import sys

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "tools"))

import generate_stubs  # noqa: E402  (found through the path set above)

# Before setup() looks for packages, so that memoryd.v1 is among them.
generate_stubs.generate(HERE / "src")
_PROJECT = (HERE.parents[1] / "CMakeLists.txt").read_text(encoding="utf-8")
setup(version=re.search(r"^project\(memoryd VERSION ([0-9.]+)", _PROJECT, re.MULTILINE)[1])
