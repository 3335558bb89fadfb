#!/usr/bin/env python3
"""Writes docs/SETTINGS.md from what a memoryd says of its settings: write_reference.py [BINARY]

`--check` instead fails where the file is not that. BINARY is build/bin/memoryd unless named.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "SETTINGS.md"

INTRODUCTION = """\
# Settings

Written by `tools/write_reference.py` from `memoryd --print-reference`: what is to be changed here stands in
`server/config.cc` and `server/model_config.cc`.

Every key of the first table is a key of the YAML file (`--config FILE` or `MEMORYD_CONFIG`), an environment
variable and a flag: `store_timeout_ms`, `MEMORYD_STORE_TIMEOUT_MS`, `--store-timeout-ms`.
[More](OPERATIONS.md#settings). Where *values* is empty any text may stand, and without a default there is none.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", nargs="?", default=ROOT / "build" / "bin" / "memoryd")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    printed = subprocess.run([arguments.binary, "--print-reference"], stdout=subprocess.PIPE,
                             text=True, check=True).stdout
    if not arguments.check:
        REFERENCE.write_text(INTRODUCTION + printed, encoding="utf-8")
    elif not REFERENCE.exists() or REFERENCE.read_text(encoding="utf-8") != INTRODUCTION + printed:
        sys.exit("docs/SETTINGS.md is not what memoryd says, run tools/write_reference.py")


if __name__ == "__main__":
    main()
