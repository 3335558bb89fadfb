"""Installs the packed TypeScript client beside the frameworks that it has adapters of. Runs the frameworks'
own tests on the adapters, the examples, whose first process kills itself, and the code of the pages.

usage: node_frameworks.py NODE NPM_CLI PACKAGE.tgz
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.paths import REPOSITORY
from support.server import Server
from support.stores import STORES, fresh_store

FOLDER = REPOSITORY / "build/typescript-frameworks"
TESTS = REPOSITORY / "clients/typescript/frameworks"
PAGES = ("LANGGRAPH.md", "OPENAI_AGENTS.md")
# What the two processes of each example print.
EXAMPLES = {
    "langgraph_agent.mjs": ["now: boil", "now: brew", "now: pour", "done: boil, brew, pour"],
    "openai_agents_agent.mjs": [
        "My name is Ann. -> Hello!",
        "Tea, please. -> Here: one pot of tea.",
        'What was my name, and what did I drink? -> You said "My name is Ann.", and had one pot of tea.',
    ],
}


def main() -> int:
    node, npm, package = sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    for file in (*TESTS.iterdir(), *(REPOSITORY / "examples" / name for name in EXAMPLES)):
        shutil.copy(file, FOLDER)
    install = [node, npm, "--prefix", str(FOLDER), "install", "--loglevel=error", "--no-audit", "--no-fund",
               "--no-package-lock", "--no-save"]
    # The peer dependencies of the packed client are those installed here.
    subprocess.run([*install, pathlib.Path(package).resolve()], check=True)
    for kind in STORES:
        if kind == "postgresql" and "MEMORYD_TEST_POSTGRES" not in os.environ:
            print("postgresql: left out, since there is no server")
            continue
        with fresh_store(kind) as store, Server(store) as server:
            environment = {**os.environ, "MEMORYD_TEST_TARGET": server.target}
            print(kind, flush=True)
            subprocess.run([node, "node_modules/vitest/vitest.mjs", "run", "--globals", "--reporter=default",
                            "--testTimeout=60000", "--hookTimeout=60000"],
                           cwd=FOLDER, env=environment, check=True)
            for name, lines in EXAMPLES.items():
                assert printed([node, name, server.target], environment).splitlines() == lines, name
                print(f"{name} was killed, and went on", flush=True)
            for page in PAGES:
                run_page(node, page, {**environment, "MEMORYD_TARGET": server.target})
    return 0


def run_page(node: str, page: str, environment: dict[str, str]) -> None:
    """Runs the code of a page, and compares its output with the page's."""
    text = (REPOSITORY / "clients/typescript" / page).read_text(encoding="utf-8")
    found = re.search(r"```js\n(.*?)```\n```text output\n(.*?)```", text, re.DOTALL)
    assert found is not None, page
    (FOLDER / "page.mjs").write_text(found[1], encoding="utf-8")
    assert printed([node, "page.mjs"], environment) == found[2], page
    print(f"{page}: its code runs", flush=True)


def printed(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=FOLDER, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
