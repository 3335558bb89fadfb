#!/usr/bin/env python3
"""Connect's own clients, connect-node and connect-web, against the HTTP port of a server.

usage: connect_clients.py NODE FOLDER      FOLDER has the packages of package.json
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from support.http import LISTEN
from support.paths import REPOSITORY
from support.server import Server

SCRIPT = "connect_clients.mjs"


def main() -> int:
    node, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    # Node looks for packages beside the script.
    shutil.copy(HERE / SCRIPT, folder)
    protos = REPOSITORY / "proto"
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={protos}", "--include_imports",
         f"--descriptor_set_out={folder / 'memoryd.binpb'}", "google/rpc/error_details.proto",
         *(str(path.relative_to(protos)) for path in sorted((protos / "memoryd").rglob("*.proto")))],
        check=True)
    with Server("sqlite::memory:", arguments=[LISTEN]) as server:
        return subprocess.run(
            [node, SCRIPT, "memoryd.binpb", f"http://{server.http}"], cwd=folder, check=False,
            timeout=300).returncode


if __name__ == "__main__":
    sys.exit(main())
