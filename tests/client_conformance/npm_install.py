"""Installs the packed TypeScript client into an empty folder, and runs the first lines of its README there,
as an ES module and by require.

usage: npm_install.py NODE NPM_CLI PACKAGE.tgz
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.paths import REPOSITORY
from support.server import Server

README = REPOSITORY / "clients/typescript/README.md"


def main() -> int:
    node, npm, package = sys.argv[1:]
    found = re.search(r"```js\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    lines = found[1].strip().split("\n")
    assert len(lines) == 5, lines
    with Server("sqlite::memory:") as server, tempfile.TemporaryDirectory() as folder:
        install = [node, npm, "install", "--silent", "--no-audit", "--no-fund"]
        subprocess.run([*install, pathlib.Path(package).resolve()], cwd=folder, check=True)
        module = found[1].replace("localhost:50051", server.target)
        required = "const { Client } = require(\"memoryd\");\n" + module.split("\n", 1)[1]
        for name, code in (("chat.mjs", module),
                           ("chat.cjs", f"(async () => {{\n{required}}})();\n".replace('"s1"', '"s2"'))):
            (pathlib.Path(folder) / name).write_text(code, encoding="utf-8")
            done = subprocess.run([node, name], cwd=folder, check=True, capture_output=True, text=True)
            assert done.stdout == "[ { role: 'user', content: 'Hello, world!' } ]\n", done.stdout
        # Frameworks are optional, and the rest does without them.
        for name in ("@langchain", "@openai"):
            assert not (pathlib.Path(folder) / "node_modules" / name).exists(), name
        (pathlib.Path(folder) / "worker.mjs").write_text('import "memoryd/worker";', encoding="utf-8")
        subprocess.run([node, "worker.mjs"], cwd=folder, check=True)
    print("installed: README's five lines run, as an ES module and by require")
    return 0


if __name__ == "__main__":
    sys.exit(main())
