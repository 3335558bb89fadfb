#!/usr/bin/env python3
"""Installs clients/python as its users do, and runs the README's quick start with what is installed.

usage: fresh_install.py [--extras NAME[,NAME...]] [--beside PACKAGE]
       extras: llama-index, langchain, langgraph, openai-agents, pydantic-ai, autogen, anthropic,
               crewai, google-adk, agent-framework, strands, importers, mcp

In a fresh virtual environment, with nothing of this repository on its path. Checks that the base
package brings its types along and imports no framework, and, for each extra whose adapter there is,
that the adapter imports and that an example which needs no more runs. PACKAGE is what the
environment has before, and what it needs is there behind. The last line is `fresh install: ok`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.documents import code_of
from support.paths import BINARY, REPOSITORY
from support.server import Server

PACKAGE = REPOSITORY / "clients" / "python"
_INSPECTION = """
import pathlib, sys
import memoryd, memoryd.v1.memory_pb2
folder = pathlib.Path(memoryd.__file__).parent
assert folder.is_relative_to(sys.prefix), folder
assert (folder / "py.typed").exists() and (folder / "v1" / "memory_pb2.pyi").exists()
frameworks = [name for name in sys.modules if name.split(".")[0] in (
    "llama_index", "langchain_core", "langchain_classic", "langgraph", "ormsgpack",
    "autogen_core", "agents", "openai", "pydantic_ai", "anthropic", "crewai", "agent_framework",
    "mcp", "starlette", "strands") or name.startswith("google.adk")]
assert not frameworks, frameworks
"""

# Extras whose example needs nothing else.
_RUN = ("langgraph", "openai-agents", "pydantic-ai", "anthropic", "google-adk",
        "agent-framework")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extras", default="")
    parser.add_argument("--beside", default="")
    arguments = parser.parse_args()
    extras = [extra for extra in arguments.extras.split(",") if extra]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    with tempfile.TemporaryDirectory(prefix="memoryd-install-") as folder:
        source = pathlib.Path(folder) / "memoryd"
        # A copy, without what was built before: stubs, say, by another protoc.
        shutil.copytree(PACKAGE, source / "clients" / "python", ignore=shutil.ignore_patterns(
            "v1", "build", "*.egg-info", "__pycache__"))
        shutil.copytree(REPOSITORY / "proto", source / "proto")
        shutil.copy(REPOSITORY / "CMakeLists.txt", source)
        python = str(pathlib.Path(folder) / "venv" / "bin" / "python")

        def run(*command: str) -> None:
            subprocess.run(command, cwd=folder, env=environment, check=True)

        run(sys.executable, "-m", "venv", "venv")
        if arguments.beside:
            run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                arguments.beside)
        what = "memoryd/clients/python" + (f"[{','.join(extras)}]" if extras else "")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"./{what}")
        run(python, "-m", "pip", "check", "--disable-pip-version-check")
        run(python, "-W", "error", "-c", _INSPECTION)
        for extra in extras:
            module = extra.replace("-", "_")
            found = list((PACKAGE / "src" / "memoryd").glob(f"{module}*"))
            if found:
                run(python, "-c", f"import memoryd.{module}")
            print(f"{extra}: {'imports' if found else 'no adapter yet'}")
            if extra in _RUN:
                with Server("sqlite::memory:") as server:
                    run(python, str(REPOSITORY / f"examples/{module}_agent.py"), server.target)
        # It starts a server of its own.
        environment["MEMORYD_BINARY"] = str(BINARY)
        quick_start = code_of(REPOSITORY / "README.md", "python", "")[0]
        run(python, "-W", "error", "-c", quick_start)
    print("fresh install: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
