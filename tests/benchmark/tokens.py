"""Counting tokens beside tiktoken: processor time of one thread each."""

from __future__ import annotations

import os
import pathlib
import random
import statistics
import subprocess
import sys

from bench import MESSAGE_BYTES, Bench, Leg, Sample

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tokens"))

import compare_tiktoken

_VOCABULARIES = ("cl100k_base", "o200k_base")


def legs(bench: Bench) -> list[Leg]:
    chance = random.Random(3)
    texts = {"short": [compare_tiktoken.message(chance, MESSAGE_BYTES) for _ in range(2000)],
             "1 MB": [compare_tiktoken.message(chance, 1_000_000)]}
    vocabulary = bench.build / "share" / "memoryd"
    made = []
    for name in _VOCABULARIES:
        encoding = _encoding(name, vocabulary)
        tool = [bench.build / "bin" / "token_count", name, vocabulary]
        for length, some in texts.items():
            made.append(_leg(f"tokens {name} {length}", encoding, tool, some))
    return made


def _encoding(name: str, vocabulary: pathlib.Path):
    try:
        return compare_tiktoken.load_tiktoken(name, vocabulary)
    finally:
        # It names a folder that is gone, and LlamaIndex has one of its own.
        os.environ.pop("TIKTOKEN_CACHE_DIR", None)


def _leg(name: str, encoding, tool: list, texts: list[str], passes: int = 5) -> Leg:
    def run(_: int) -> Sample:
        theirs = statistics.median(
            compare_tiktoken.nanoseconds(
                lambda: [encoding.encode(text, allowed_special="all") for text in texts])
            for _ in range(passes))
        # The tool prints its median too.
        ours = int(subprocess.run([*tool, str(passes)], input=compare_tiktoken.framed(texts),
                                  stdout=subprocess.PIPE, check=True).stdout)
        return {"memoryd_us": ours / len(texts) / 1e3, "tiktoken_us": theirs / len(texts) / 1e3}

    return Leg(name, run)
