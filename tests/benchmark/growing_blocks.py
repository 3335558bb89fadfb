#!/usr/bin/env python3
"""Measures what Get and feeding cost the server as the messages that have left grow.

For each kind of block a session of few archived messages and one of many, else alike; the models
answer at once with the same words, and embeddings are hashes. Server CPU (user and system time) per
Get, and per Put that flushes a turn, its job and the model's call included. Batches of calls
alternate between the two sessions. The tables go to docs/BENCHMARKS.md, unless --short.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

import processes
import report

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "tests"))

from support.blocks import WAIT, block, drained, missing
from support.calls import Calls, assistant, memory, user
from support.model_server import DIMENSIONS, ModelServer
from support.server import open_channel

_STORES = ("sqlite", "postgresql")
_BLOCKS = {
    "no block": (),
    "facts": (block("b", "fact-extraction", model="chat"),),
    "summary": (block("b", "summary", model="chat"),),
    "vector": (block("b", "vector", embedder="embed"),),
}
# The blocks know the same whatever their session's length: the answer is always the same.
_ANSWER = "<facts>" + "".join(
    f'<fact evidence="1">Fact {n} of the user</fact>' for n in range(20)) + "</facts>"
_MESSAGES_PER_PUT = 200
_WORDS = ("tea coffee Saskatoon works red blue paper moon river seven buy tomorrow dog phone cat"
          " mat weather sunny rain train ticket Paris Berlin code review merge test cache").split()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gets", type=int, default=1_000, help="Gets in a batch")
    parser.add_argument("--feeds", type=int, default=200, help="flushes in a batch")
    parser.add_argument("--stores", nargs="+", default=_STORES, choices=_STORES)
    parser.add_argument("--short", action="store_true", help="small; writes no page")
    parser.add_argument("--page", type=pathlib.Path, default=_ROOT / "docs" / "BENCHMARKS.md")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.many, arguments.rounds = 10_000, 2
    return arguments


class Bench:
    def __init__(self, store, arguments, folder, stack):
        self._arguments = arguments
        self._random = random.Random(1)
        models = stack.enter_context(ModelServer([_ANSWER]))
        common = {"url": models.url, "model": "m", "allow_private": True}
        file = folder / "models.yaml"
        # JSON is YAML.
        file.write_text(json.dumps({"models": [
            {"name": "chat", "kind": "chat", **common},
            {"name": "embed", "kind": "embedding", "dimensions": DIMENSIONS, **common}]}))
        self._server = processes.Server(
            [arguments.build / "bin" / "memoryd", "--listen=127.0.0.1:0", f"--config={file}",
             f"--store={store}"], folder / "log")
        stack.callback(self._server.stop)
        self._calls = Calls(stack.enter_context(open_channel(self._server.target)))

    def _turn(self):
        return [user(" ".join(self._random.choices(_WORDS, k=16))),
                assistant(" ".join(self._random.choices(_WORDS, k=16)))]

    def fill(self, session, blocks, archived):
        config = memory.SessionConfig(
            tokenizer="whitespace", token_limit=10_000, chat_history_token_ratio=0.0,
            token_flush_size=1, blocks=blocks)
        self._calls.CreateSession(session_id=session, config=config)
        for _ in range(archived // _MESSAGES_PER_PUT):
            messages = [m for _ in range(_MESSAGES_PER_PUT // 2) for m in self._turn()]
            self._calls.Put(session_id=session, messages=messages)
        jobs = drained(self._calls, session, 60_000)
        # The newest turn stays.
        session_now = self._calls.GetSession(session_id=session).session
        if session_now.archived_count != archived - 2 or any(job.last_error for job in jobs):
            raise RuntimeError(f"{session}: {session_now}, {jobs[-1:]}")

    def get(self, session):
        reply = self._calls.Get(session_id=session)
        if reply.missing_blocks:
            raise RuntimeError(f"{session}: {missing(reply)}")

    def feed(self, session):
        reply = self._calls.Put(session_id=session, messages=self._turn(), wait=WAIT)
        if reply.archived_count != 2 or reply.open_jobs:
            raise RuntimeError(f"{session}: {reply}")

    def cost(self, call, session, count):
        """Server CPU per call in microseconds."""
        before = self._server.cpu_seconds()
        for _ in range(count):
            call(session)
        return (self._server.cpu_seconds() - before) / count * 1e6


def measure(store, arguments, folder):
    """`{(kind, call): {length: a figure per round}}`."""
    samples = {}
    lengths = {"few": arguments.few, "many": arguments.many}
    with contextlib.ExitStack() as stack:
        url = f"sqlite:{folder}/memoryd.db"
        if store == "postgresql":
            url = os.environ["MEMORYD_TEST_POSTGRES"]
        bench = Bench(url, arguments, folder, stack)
        for kind, blocks in _BLOCKS.items():
            for length, archived in lengths.items():
                begin = time.monotonic()
                bench.fill(f"{kind}-{length}", blocks, archived)
                print(f"{store} {kind}: {archived:,} messages in"
                      f" {time.monotonic() - begin:.0f} s", flush=True)
        for round_number in range(arguments.rounds + 1):
            for kind in _BLOCKS:
                for name, call, count in (("Get", bench.get, arguments.gets),
                                          ("feed", bench.feed, arguments.feeds)):
                    for length in lengths if round_number % 2 else reversed(lengths):
                        cost = bench.cost(call, f"{kind}-{length}", count)
                        if round_number > 0:  # The first round warms up.
                            found = samples.setdefault((kind, name), {})
                            found.setdefault(length, []).append(cost)
        for (kind, name), costs in samples.items():
            print(f"{store} {kind} {name}:", ", ".join(
                f"{length} {statistics.median(values):.0f} µs" for length, values in costs.items()),
                flush=True)
    return samples


def table(samples_of, arguments):
    lines = [
        report.row("store", "session with", "call", f"µs at {arguments.few:,}",
                   f"µs at {arguments.many:,}", "ratio"),
        report.row("---", "---", "---", "---:", "---:", "---:"),
    ]  # fmt: skip
    for store, samples in samples_of.items():
        for (kind, name), costs in samples.items():
            ratios = [m / f for m, f in zip(costs["many"], costs["few"], strict=True) if f]
            lines.append(report.row(store, kind, name, report.with_spread(costs["few"]),
                                    report.with_spread(costs["many"]),
                                    report.with_spread(ratios, 2)))
    return lines


def main():
    arguments = parse_arguments()
    if os.environ.get("MEMORYD_TEST_POSTGRES_PARENT") != "/dev/shm":
        processes.run_with_postgres()
    load_average = os.getloadavg()[0]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="memoryd-bench.", dir="/dev/shm"))
    try:
        samples_of = {}
        for store in arguments.stores:
            own = folder / store
            own.mkdir()
            samples_of[store] = measure(store, arguments, own)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = [
        f"- {datetime.date.today():%d %B %Y}, `tests/benchmark/growing_blocks.py --many"
        f" {arguments.many} --rounds {arguments.rounds} --gets {arguments.gets} --feeds"
        f" {arguments.feeds}`, {report.revision(arguments.build)}",
        f"- {report.machine()}; load average before the run {load_average:.1f}",
        "", *table(samples_of, arguments),
    ]
    print("\n".join(["", *lines]))
    if not arguments.short:
        report.replace_results(arguments.page, "growing_blocks.py", lines)


if __name__ == "__main__":
    main()
