#!/usr/bin/env python3
"""clang-tidy over all C++ of the repository, tests included.

usage: clang_tidy.py [--analyzer] [--minutes N] [FILE...]

A file is read as the preset `tidy` would compile it. Files that were clean are remembered in
~/.cache/memoryd/clang-tidy by a hash of the file, of what it includes, of its command and of the
checks; they are not read again. Files that a commit changed last come first. With --minutes no file
is begun after that time, and the last line says how many were left. With --analyzer the static
analyzer runs too, which takes five times as long. Exits with 1 when there was a finding.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "tidy"
CACHE_HOME = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
CACHE = CACHE_HOME / "memoryd" / "clang-tidy"
TOOL = ROOT / "build" / "venv" / "bin" / "clang-tidy"
INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def configure() -> None:
    """Writes the database of commands and what the protos generate; compiles nothing."""
    BUILD.mkdir(parents=True, exist_ok=True)
    generate = "cmake_object_order_depends_target_memoryd_proto"
    for command in (["cmake", "--preset", "tidy"],
                    ["cmake", "--build", "--preset", "tidy", "--target", generate]):
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.exit(f"{shlex.join(command)} failed:\n{done.stdout[-4000:]}")


def commands() -> dict[pathlib.Path, str]:
    """The command of each file that is ours, by its path from the root."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    files = {pathlib.Path(entry["file"]): entry["command"] for entry in entries}
    return {path.relative_to(ROOT): command for path, command in sorted(files.items())
            if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build")}


def installed() -> str:
    """The versions of the headers that are not ours, and of clang-tidy."""
    return "".join(subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL).stdout
                   for command in (["dpkg-query", "--show", "*-dev"], [str(TOOL), "--version"]))


@functools.cache
def included(path: pathlib.Path) -> tuple[bytes, tuple[bytes, ...]]:
    """The hash of a file and the names that it includes."""
    content = path.read_bytes()
    return hashlib.sha256(content).digest(), tuple(INCLUDE.findall(content))


@functools.cache
def found(name: bytes, folders: tuple[pathlib.Path, ...]) -> pathlib.Path | None:
    candidates = (folder / os.fsdecode(name) for folder in folders)
    return next((path for path in candidates if path.is_file()), None)


def key(path: pathlib.Path, command: str, common: bytes) -> str:
    """Of the file, of what it includes of ours, of its command, and of what is `common` to all."""
    folders = tuple(folder for folder in map(pathlib.Path, re.findall(r"(?:-I|-isystem )(\S+)", command))
                    if folder.is_relative_to(ROOT))
    seen: dict[pathlib.Path, bytes] = {}
    open_files = [ROOT / path]
    while open_files:
        file = open_files.pop()
        if file in seen:
            continue
        seen[file], names = included(file)
        open_files += filter(None, (found(name, (file.parent, *folders)) for name in names))
    hashed = hashlib.sha256(common + command.replace(str(ROOT), "").encode())
    for file in sorted(seen):
        hashed.update(str(file.relative_to(ROOT)).encode() + seen[file])
    return hashed.hexdigest()


def last_changed() -> dict[pathlib.Path, int]:
    """How many commits ago each file was changed."""
    log = subprocess.run(["git", "log", "--format=%x00", "--name-only"], cwd=ROOT, text=True,
                         stdout=subprocess.PIPE, check=False).stdout
    order: dict[pathlib.Path, int] = {}
    for age, commit in enumerate(log.split("\0")):
        for name in commit.split():
            order.setdefault(pathlib.Path(name), age)
    return order


def is_test(path: pathlib.Path) -> bool:
    return path.parts[0] == "tests" or path.stem.endswith("_test")


def without(path: pathlib.Path, analyzer: bool) -> str:
    """The checks that a file is spared. How fast a test is matters to nobody."""
    spared = [] if analyzer else ["clang-analyzer-*"]
    if is_test(path):
        spared.append("performance-*")
    return ",".join(f"-{name}" for name in spared)


def check(path: pathlib.Path, checks: str) -> str:
    """What clang-tidy says of a file, empty when it is clean."""
    done = subprocess.run([TOOL, "-p", str(BUILD), "--quiet", f"--checks={checks}", str(path)], cwd=ROOT,
                          text=True, capture_output=True, check=False)
    if done.returncode == 0:
        return ""
    return done.stdout or done.stderr or f"{path}: clang-tidy ended with {done.returncode}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--analyzer", action="store_true")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    configure()
    known = commands()
    named = {file.resolve().relative_to(ROOT) for file in options.files}
    if unknown := named - known.keys():
        parser.error(f"no target compiles {', '.join(map(str, sorted(unknown)))}")
    checks = {path: without(path, options.analyzer) for path in known
              if not named or path in named}
    common = installed() + (ROOT / ".clang-tidy").read_text()
    CACHE.mkdir(parents=True, exist_ok=True)
    keys = {path: CACHE / key(path, known[path], (common + checks[path]).encode()) for path in checks}
    age = last_changed()
    due = sorted((path for path in keys if not keys[path].exists()),
                 key=lambda path: age.get(path, -1))

    def run(path: pathlib.Path) -> str | None:
        if time.monotonic() > end:
            return None
        findings = check(path, checks[path])
        if findings:
            print(findings, end="", flush=True)
        else:
            keys[path].touch()
        return findings

    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(run, due))
    bad = sum(1 for result in results if result)
    left = results.count(None)
    print(f"clang-tidy: {len(keys)} files, {len(keys) - len(due)} known to be clean, "
          f"{len(due) - left} read, {bad} with findings, {left} left for lack of time")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
