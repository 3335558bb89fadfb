#!/usr/bin/env python3
"""Refuses a source file of the product over 500 lines, and a header over 250.

Includes are not counted: there are as many as clang-tidy asks for. LARGER has those that may be
larger, how large, and why. What has become smaller leaves it.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("core", "server", "cli", "clients/cpp")
LIMITS = {".h": 250, ".cc": 500}

LARGER = {
    "core/base/unicode_tables.h": (1100, "a table"),
    "core/storage/store.h": (450, "the contract of every store"),
}


def faults() -> list[str]:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            usual = LIMITS.get(path.suffix)
            if usual is None or name.endswith("_test.cc"):
                continue
            lines = sum(not line.startswith(b"#include") for line in path.read_bytes().splitlines())
            limit = LARGER[name][0] if name in LARGER else usual
            if lines > limit:
                found.append(f"{name}: {lines} lines, at most {limit}")
            elif name in LARGER and lines <= usual:
                found.append(f"{name}: {lines} lines, so LARGER need not have it")
    found += [f"{name}: is in LARGER and is not there" for name in LARGER
              if not (ROOT / name).is_file()]
    return found


def main() -> int:
    found = faults()
    for line in found:
        print(line)
    print(f"sizes: {len(found)} refused, {len(LARGER)} larger than usual")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
