#!/usr/bin/env python3
"""Makes golden traces of the installed libraries; also what the programs that replay them share.

usage: traces.py DIR [--seeds N]

Writes traces of seeds 1 to 3 and of N fresh ones (default 2), which are printed, into DIR, which is
made, or emptied of the traces it has.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from support.stores import STORES

SHOWN_DIFFERENCES = 10


@dataclasses.dataclass
class Tally:
    equal: int = 0
    different: int = 0
    not_covered: int = 0

    def add(self, other: Tally) -> None:
        self.equal += other.equal
        self.different += other.different
        self.not_covered += other.not_covered

    def __str__(self) -> str:
        return (
            f"goldens: {self.equal} equal, {self.different} different, "
            f"{self.not_covered} not covered"
        )


def make_traces(folder: pathlib.Path, fresh: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl"):
        old.unlink()
    seeds = [1, 2, 3] + [random.SystemRandom().randrange(4, 2**31) for _ in range(fresh)]
    print(f"seeds: {' '.join(map(str, seeds))}", flush=True)
    for seed in seeds:
        command = [sys.executable, str(HERE / "goldens.py"), str(seed), str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def files_of(folder: pathlib.Path, *patterns: str) -> list[pathlib.Path]:
    """The traces whose names match, sorted; raises FileNotFoundError when there are none."""
    files = sorted(file for pattern in patterns for file in folder.glob(pattern))
    if not files:
        raise FileNotFoundError(f"no traces ({', '.join(patterns)}) in {folder}")
    return files


def command_line(description: str) -> argparse.ArgumentParser:
    """What every program that replays traces takes."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--seeds", type=int, default=2, help="fresh seeds to make traces of")
    return parser


def stores(name: str) -> tuple[str, ...]:
    """The stores that --store names."""
    return STORES if name == "both" else (name,)


@contextlib.contextmanager
def given_or_made(options: argparse.Namespace) -> Iterator[pathlib.Path]:
    """The folder that the command line names, or one with traces made for now."""
    if options.folder is not None:
        yield options.folder
        return
    with tempfile.TemporaryDirectory(prefix="memoryd-goldens-") as made:
        make_traces(pathlib.Path(made), options.seeds)
        yield pathlib.Path(made)


def run(description: str, replay_folder: Callable[[pathlib.Path, str], Tally]) -> int:
    """A program that replays the traces on each store: 1 when any answer differs."""
    options = command_line(description).parse_args()
    total = Tally()
    with given_or_made(options) as folder:
        for kind in stores(options.store):
            total.add(replay_folder(folder, kind))
    print(total)
    return 1 if total.different else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=2, help="fresh seeds to make traces of")
    options = parser.parse_args()
    make_traces(options.folder, options.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
