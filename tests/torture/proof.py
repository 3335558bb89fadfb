#!/usr/bin/env python3
"""Shows that the torture finds bugs: those of seeded_bugs.py, each in a server built with it.

usage: proof.py [--runs N] [--times N] [--seconds N] [--clients N] [--sessions N] [BUG]...

A bug is caught when a run of at most `--runs`, each with a seed of its own, reports a broken
promise; it is looked for `--times` times. First the server without a bug has to pass a run with the
options of every bug. Sources and builds are in build/seeded; nothing else is changed. The last line
is `seeded bugs: caught N of N, runs median N, max N`. Exits 1 when a bug was not caught, or when a
promise was broken without one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from torture import checker
from torture.seeded_bugs import BUGS, SeededBug

ROOT = pathlib.Path(__file__).resolve().parents[2]
_COPY = ROOT / "build" / "seeded"
# What is of no use in a copy, or is made there anew.
_LEFT_OUT = {".git", ".pytest_cache", "build"}
_COUNT = re.compile(rf"\b({'|'.join(checker.COUNTS)}) (\d+)")


def edited(bug: SeededBug) -> dict[str, str]:
    """The files with the bug in them, by path. Raises ValueError when it does not fit them."""
    texts: dict[str, str] = {}
    for edit in bug.edits:
        text = texts.get(edit.path) or (ROOT / edit.path).read_text()
        if text.count(edit.old) != 1:
            raise ValueError(f"{bug.name}: what it replaces stands {text.count(edit.old)} times in "
                             f"{edit.path}:\n{edit.old}")
        texts[edit.path] = text.replace(edit.old, edit.new)
    return texts


def _sources(root: pathlib.Path) -> dict[pathlib.Path, pathlib.Path]:
    """Its files by their paths below it."""
    files = itertools.chain.from_iterable(
        [entry] if entry.is_file() else entry.rglob("*")
        for entry in root.iterdir() if entry.name not in _LEFT_OUT)
    return {file.relative_to(root): file for file in files
            if file.is_file() and "__pycache__" not in file.parts}


def copy_sources(changed: Mapping[str, str]) -> None:
    """Makes the copy equal to the sources but for what is changed. Files that stay as they are keep
    their times, so that they are not built again."""
    _COPY.mkdir(parents=True, exist_ok=True)
    sources = _sources(ROOT)
    for path, source in sources.items():
        text = changed.get(str(path))
        content = source.read_bytes() if text is None else text.encode()
        target = _COPY / path
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)
    for path, target in _sources(_COPY).items():
        if path not in sources:
            target.unlink()


def build(changed: Mapping[str, str]) -> pathlib.Path:
    """The server of the copy."""
    copy_sources(changed)
    done = subprocess.run(["tools/build.sh", "release", "memoryd_failpoints"], cwd=_COPY, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the build failed:\n{done.stdout[-4000:]}")
    return _COPY / "build" / "bin" / "memoryd_failpoints"


def run(binary: pathlib.Path, options: tuple[str, ...], common: list[str],
        seed: int) -> tuple[int, dict[str, int], str]:
    """The exit code of a run, what it counted, `damage` for what the store's own checks say, and
    all that it printed."""
    with tempfile.TemporaryDirectory(prefix="memoryd-proof-") as folder:
        command = [sys.executable, str(ROOT / "tests/torture/run.py"), *common, f"--seed={seed}",
                   f"--history={folder}", *options]
        done = subprocess.run(command, env={**os.environ, "MEMORYD_TEST_BINARY": str(binary)},
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
    lines = done.stdout.splitlines()
    if not lines or not lines[-1].startswith("torture: "):
        return done.returncode, {}, done.stdout
    figures = [line for line in lines if line.startswith(("store ", "torture: "))]
    found = {name: int(count) for name, count in _COUNT.findall(" ".join(figures)) if count != "0"}
    if done.returncode == 1 and not found:
        found = {"damage": 1}
    return done.returncode, found, done.stdout


def is_clean(binary: pathlib.Path, options: tuple[str, ...], common: list[str], seed: int) -> bool:
    """Whether a server without a bug passes. A run that is invalid says nothing and is done again,
    once."""
    for attempt in (seed, seed + 1):
        code, _, printed = run(binary, options, common, attempt)
        if code == 0:
            print(f"without a bug, {' '.join(options)}: clean (seed {attempt})", flush=True)
            return True
        if code != 2:
            break
    print(f"without a bug, {' '.join(options)}: exit code {code} (seed {attempt})\n{printed}",
          flush=True)
    return False


def runs_to_catch(bug: SeededBug, binary: pathlib.Path, common: list[str], most: int) -> int:
    """0: it was not caught."""
    first = random.SystemRandom().randrange(2**31)
    printed = ""
    for number in range(most):
        _, found, printed = run(binary, bug.options, common, first + number)
        if found:
            counts = ", ".join(f"{name} {count}" for name, count in found.items())
            print(f"{bug.name}: caught in run {number + 1} by {counts} (seed {first + number})",
                  flush=True)
            return number + 1
    print(f"{bug.name}: NOT CAUGHT in {most} runs (seeds from {first}), the last one said\n"
          f"{printed[-4000:]}", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("bugs", nargs="*", metavar="BUG")
    options = parser.parse_args()
    unknown = set(options.bugs) - {bug.name for bug in BUGS}
    if unknown:
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    bugs = [bug for bug in BUGS if bug.name in (options.bugs or (bug.name,))]
    common = ["--processes=1", f"--seconds={options.seconds}", f"--clients={options.clients}",
              f"--sessions={options.sessions}"]
    binary = build({})
    seed = random.SystemRandom().randrange(2**31)
    clean = [is_clean(binary, kind, common, seed)
             for kind in dict.fromkeys(bug.options for bug in bugs)]
    needed: list[int] = []
    caught = 0
    for bug in bugs:
        binary = build(edited(bug))
        runs = [runs_to_catch(bug, binary, common, options.runs) for _ in range(options.times)]
        caught += all(runs)
        needed += filter(None, runs)
        if options.times > 1 and all(runs):
            print(f"{bug.name}: runs median {statistics.median(runs):g}, max {max(runs)}")
    if not all(clean):
        print(f"{clean.count(False)} of {len(clean)} kinds of runs were not clean without a bug")
    print(f"seeded bugs: caught {caught} of {len(bugs)}, runs median "
          f"{statistics.median(needed or [0]):g}, max {max(needed, default=0)}")
    return 0 if all(clean) and caught == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
