"""Makes the gRPC stubs before the package is built; everything else is in pyproject.toml."""

import pathlib
import sys

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "tools"))

import generate_stubs  # noqa: E402  (found through the path set above)

# Before setup() looks for packages, so that memoryd.v1 is among them.
generate_stubs.generate(HERE / "src")
setup()
