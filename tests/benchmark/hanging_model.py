#!/usr/bin/env python3
"""Measures Put and Get of sessions whose model hangs, beside a model that answers and one at rest.

Three servers with the same settings and sessions, which have a fact block. `at rest`: nothing
leaves short-term memory, so the model is never asked. `answers`: about every tenth Put flushes, and
the model answers at once. `hangs`: the same flushes, and the model takes requests and answers none.
Calls arrive at a steady rate. Every round runs every leg once. At the end the model answers again,
and every job must end. The tables go to docs/BENCHMARKS.md, unless --short.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import processes
import report

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "tests"))

from steady_load import TEXT
from support.blocks import DONE, block, drained
from support.calls import Calls, memory, user
from support.model_server import ModelServer
from support.server import open_channel

_LOAD = pathlib.Path(__file__).with_name("steady_load.py")
_STORES = ("sqlite", "postgresql")
_LEGS = ("at rest", "answers", "hangs")
_METHODS = ("put", "get")
_SESSIONS = 200
_WORDS = len(TEXT.split()) + 4  # A message adds 4 tokens.
_KEPT = 20  # Messages in short-term memory; half of them leave at once.
_ANSWER = "<facts>" + "".join(
    f'<fact evidence="1">Fact {n} of the user</fact>' for n in range(10)) + "</facts>"


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5, help="length of a leg")
    parser.add_argument("--rate", type=int, default=400, help="calls a second that arrive")
    parser.add_argument("--stores", nargs="+", default=_STORES, choices=_STORES)
    parser.add_argument("--short", action="store_true", help="1 round of 1 s; writes no page")
    parser.add_argument("--page", type=pathlib.Path, default=_ROOT / "docs" / "BENCHMARKS.md")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.rounds, arguments.seconds = 1, 1
    return arguments


class Leg:
    """A server with a store and a model of its own."""

    def __init__(self, name, store, arguments, folder, stack):
        self.name = name
        self._arguments = arguments
        self.model = stack.enter_context(ModelServer([_ANSWER]))
        file = folder / "models.yaml"
        # JSON is YAML.
        file.write_text(json.dumps({"models": [
            {"name": "chat", "kind": "chat", "url": self.model.url, "model": "m",
             "allow_private": True, "timeout_ms": 20_000}]}))
        self._server = processes.Server(
            [arguments.build / "bin" / "memoryd", "--listen=127.0.0.1:0", f"--config={file}",
             f"--store={store}", "--job-attempts=1000", "--job-retry-ms=100"],
            folder / "log")
        stack.callback(self._server.stop)
        self.calls = Calls(stack.enter_context(open_channel(self._server.target)))
        self.sessions = []

    def fill(self, round_number):
        """Sessions of their own for a round, at different distances from their next flush."""
        prefix = f"round{round_number}"
        rests = self.name == "at rest"
        config = memory.SessionConfig(
            tokenizer="whitespace", token_limit=10**6 if rests else 10 * _KEPT * _WORDS,
            chat_history_token_ratio=0.1, token_flush_size=_KEPT // 2 * _WORDS,
            blocks=[block("facts", "fact-extraction", model="chat")])
        for number in range(_SESSIONS):
            session = f"{prefix}-{number}"
            self.calls.CreateSession(session_id=session, config=config)
            # A round's Gets return as much in every leg.
            count = number % (_KEPT // 2) + (0 if rests else _KEPT // 2)
            if count:
                self.calls.Put(session_id=session, messages=[user(TEXT)] * count)
            self.sessions.append(session)
        return prefix

    def run(self, method, prefix):
        before = self._server.cpu_seconds()
        command = [sys.executable, _LOAD, self._server.target, method, prefix, _SESSIONS,
                   self._arguments.rate, self._arguments.seconds]
        run = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise RuntimeError(run.stderr)
        result = json.loads(run.stdout)
        if result["errors"]:
            raise RuntimeError(f"{result['errors']} errors: {result['first_error']}")
        result["server_us"] = (self._server.cpu_seconds() - before) / result["ops"] * 1e6
        return result

    def drain(self):
        """How many jobs there were, and how many of them are done, once none is open."""
        jobs = [job for session in self.sessions for job in drained(self.calls, session, 60_000)]
        return len(jobs), sum(job.state == DONE for job in jobs)


def measure(store, arguments, folder):
    """`{(leg, method): a dict per round}`, and a line about the jobs."""
    with contextlib.ExitStack() as stack:
        legs = []
        for number, name in enumerate(_LEGS):
            own = folder / f"{store}{number}"
            own.mkdir()
            url = processes.new_store(store, own, f"hanging{number}")
            legs.append(Leg(name, url, arguments, own, stack))
        samples = {(leg.name, method): [] for leg in legs for method in _METHODS}
        hanging = legs[-1].model
        with hanging.hanging():
            for round_number in range(arguments.rounds):
                prefixes = {leg.name: leg.fill(round_number) for leg in legs}
                for method in _METHODS:
                    for leg in legs if round_number % 2 == 0 else reversed(legs):
                        sample = leg.run(method, prefixes[leg.name])
                        samples[leg.name, method].append(sample)
                        print(f"{store} {method} {leg.name:<8} p50 {sample['p50_us']:>7,.0f} µs"
                              f"  p99 {sample['p99_us']:>8,.0f} µs  server"
                              f" {sample['server_us']:>6,.0f} µs", flush=True)
            asked = len(hanging.requests)
        begin = time.monotonic()
        jobs, done = legs[-1].drain()
        jobs_line = (f"{store}: {jobs} jobs waited for the model that hung, {asked} requests were"
                     f" taken; once it answered, {done} were done within"
                     f" {time.monotonic() - begin:.0f} s")
        if not jobs or jobs != done or legs[0].model.requests:
            raise RuntimeError(f"{jobs_line}; at rest: {len(legs[0].model.requests)} requests")
        return samples, jobs_line


def table(samples_of):
    fields = (("p50_us", "p50 µs"), ("p99_us", "p99 µs"), ("server_us", "server CPU µs/op"))
    beside = ("at rest", "answers")
    lines = [
        report.row("store", "call", *(f"{title}: {leg}" for _, title in fields for leg in _LEGS)),
        report.row("---", "---", *["---:"] * (len(fields) * len(_LEGS))),
    ]
    ratios = [
        report.row("store", "call",
                   *(f"{title}: hangs / {leg}" for _, title in fields for leg in beside)),
        report.row("---", "---", *["---:"] * (len(fields) * len(beside))),
    ]  # fmt: skip
    for store, samples in samples_of.items():
        for method in _METHODS:
            cells, quotients = [], []
            for field, _ in fields:
                values = {leg: [s[field] for s in samples[leg, method]] for leg in _LEGS}
                cells += [report.with_spread(values[leg]) for leg in _LEGS]
                quotients += [
                    report.with_spread(
                        [a / b for a, b in zip(values["hangs"], values[leg], strict=True)], 2)
                    for leg in beside
                ]
            lines.append(report.row(store, method.capitalize(), *cells))
            ratios.append(report.row(store, method.capitalize(), *quotients))
    return [*ratios, "", *lines]


def main():
    arguments = parse_arguments()
    if os.environ.get("MEMORYD_TEST_POSTGRES_PARENT") != "/dev/shm":
        processes.run_with_postgres()
    load_average = os.getloadavg()[0]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="memoryd-bench.", dir="/dev/shm"))
    samples_of, jobs = {}, []
    try:
        for store in arguments.stores:
            samples_of[store], line = measure(store, arguments, folder)
            jobs.append(f"- {line}")
            print(line, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = [
        f"- {datetime.date.today():%d %B %Y}, `tests/benchmark/hanging_model.py --rounds"
        f" {arguments.rounds} --seconds {arguments.seconds:g} --rate {arguments.rate}`,"
        f" {report.revision(arguments.build)}",
        f"- {report.machine()}; load average before the run {load_average:.1f}",
        *jobs, "", *table(samples_of),
    ]
    print("\n".join(["", *lines]))
    if not arguments.short:
        report.replace_results(arguments.page, "hanging_model.py", lines)


if __name__ == "__main__":
    main()
