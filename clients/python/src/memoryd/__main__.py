"""The command `memoryd`, also `python -m memoryd`: the server's binary, with the same arguments.
`memoryd mcp` alone is done here, since the MCP SDK is Python's."""

from __future__ import annotations

import os
import signal
import sys

from memoryd import _server_binary
from memoryd.errors import MemorydError


def main() -> int:
    """Replaces this process by the server's binary. Returns 1 with advice if this machine has
    none, and for `memoryd mcp` without the extra `mcp`."""
    if sys.argv[1:2] == ["mcp"]:
        return _mcp(sys.argv[2:])
    try:
        binary = _server_binary.find()
    except MemorydError as error:
        print(f"memoryd: {error.message}", file=sys.stderr)
        return 1
    # What was printed before would be lost with this process.
    sys.stdout.flush()
    # Python ignores these, and what it ignores the binary would too.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execv(binary, [binary, *sys.argv[1:]])
    except OSError as error:
        print(f"memoryd: {binary}: {error.strerror}", file=sys.stderr)
    return 1


def _mcp(arguments: list[str]) -> int:
    try:
        from memoryd.mcp import command
    except ImportError as error:
        print(f"memoryd: {error}", file=sys.stderr)
        return 1
    return command.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
