"""How a binary was compiled and linked, by what readelf says of it."""

import pathlib
import re
import subprocess


def readelf(binary: pathlib.Path, *arguments: str) -> str:
    return subprocess.run(["readelf", "-W", *arguments, binary], capture_output=True, text=True,
                          check=True).stdout


def check_hardened(binary: pathlib.Path) -> None:
    assert "Position-Independent Executable" in readelf(binary, "--file-header")
    segments = readelf(binary, "--segments")
    assert re.search(r"GNU_STACK .* RW ", segments)  # Not executable.
    assert "GNU_RELRO" in segments
    dynamic = readelf(binary, "--dynamic")
    assert "BIND_NOW" in dynamic  # With RELRO: nothing to overwrite once it runs.
    assert "TEXTREL" not in dynamic
    symbols = readelf(binary, "--dyn-syms")
    assert "__stack_chk_fail" in symbols
    assert re.search(r"__\w+_chk@", symbols)  # Buffers whose size is known are checked.
