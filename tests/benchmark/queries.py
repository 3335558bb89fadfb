#!/usr/bin/env python3
"""Measures Query as a session grows: what it costs, and what others notice while an index is made.

Sessions of turns like those of WORKLOAD, a file as retrieval_cost reads it, on SQLite in memory. For
each length: the session's first Query, which makes the index, while another session is put to one
call at a time; then questions one at a time, by the clock and by the server's CPU time (user and
system), with replies of ten messages. At last Puts to sessions that nobody queries, by servers with
and without a table of word vectors, in turns. The table goes to docs/BENCHMARKS.md, unless --short.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time

import processes
import report

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "tests"))

from support.calls import Calls, memory, user
from support.server import open_channel

_MESSAGES_PER_PUT = 1_000


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=_ROOT / "build")
    parser.add_argument("--messages", type=int, nargs="+",
                        default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=500, help="of each session")
    parser.add_argument("--puts", type=int, default=5_000, help="of each server and round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--short", action="store_true", help="small; writes no page")
    parser.add_argument("--page", type=pathlib.Path, default=_ROOT / "docs" / "BENCHMARKS.md")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.messages, arguments.queries = [1_000, 10_000], 50
        arguments.puts, arguments.rounds = 500, 2
    return arguments


def texts_of(workload):
    """Messages, and questions about them."""
    messages, questions = [], []
    for chat in json.loads(workload.read_text())["chats"]:
        messages += [memory.Message(role="user", name=said.get("name", ""), text=said["text"],
                                    thread_id=said.get("thread_id", ""))
                     for said in chat["messages"]]
        questions += chat["questions"]
    return messages, questions


class Puts:
    """Puts one after the other, on a thread of its own, while the block runs."""

    def __init__(self, calls, session):
        self._calls, self._session = calls, session
        self._stop = threading.Event()
        self.enough = threading.Event()  # There are a thousand.
        self._thread = threading.Thread(target=self._run)
        self.latencies = []

    def _run(self):
        while not self._stop.is_set():
            begin = time.perf_counter()
            self._calls.Put(session_id=self._session, messages=[user("What a day it was")])
            self.latencies.append((time.perf_counter() - begin) * 1e6)
            if len(self.latencies) == 1_000:
                self.enough.set()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def server(arguments, folder, stack, *options):
    started = processes.Server(
        [arguments.build / "bin" / "memoryd", "--listen=127.0.0.1:0", "--store=sqlite::memory:",
         "--index-mib=4096", *options], folder / f"log{len(list(folder.iterdir()))}")
    stack.callback(started.stop)
    return started, Calls(stack.enter_context(open_channel(started.target)))


def measure(arguments, count, texts, folder):
    """A line of the table."""
    messages, questions = texts
    with contextlib.ExitStack() as stack:
        process, calls = server(arguments, folder, stack)
        for first in range(0, count, _MESSAGES_PER_PUT):
            put = [messages[(first + i) % len(messages)]
                   for i in range(min(_MESSAGES_PER_PUT, count - first))]
            calls.Put(session_id="s", messages=put)

        def ask(number):
            question = questions[number * 7919 % len(questions)]
            return calls.Query(session_id="s", query=question, top_k=10)

        with Puts(calls, "quiet") as puts:
            puts.enough.wait()
        quiet = processes.percentiles(puts.latencies)
        resident, begin = process.resident_bytes(), time.monotonic()
        with Puts(calls, "busy") as puts:
            ask(0)
        first = time.monotonic() - begin
        busy = processes.percentiles(puts.latencies)
        grown = process.resident_bytes() - resident
        latencies = []
        cpu = process.cpu_seconds()
        for number in range(arguments.queries):
            begin = time.perf_counter()
            reply = ask(number)
            latencies.append((time.perf_counter() - begin) * 1e6)
            if not reply.results or reply.notices:
                raise RuntimeError(f"a question without an answer: {reply}")
        cpu = (process.cpu_seconds() - cpu) / arguments.queries * 1e3
        times = processes.percentiles(latencies)
    print(f"{count:,}: {cpu:.2f} ms of CPU, p50 {times['p50_us'] / 1e3:.2f} ms", flush=True)
    return report.row(
        f"{count:,}", f"{cpu:.2f}", f"{times['p50_us'] / 1e3:.2f}", f"{times['p99_us'] / 1e3:.2f}",
        f"{first:.2f}", f"{grown / count:,.0f}",
        f"{quiet['p50_us'] / 1e3:.2f}, {quiet['p99_us'] / 1e3:.2f}",
        f"{busy['p50_us'] / 1e3:.2f}, {busy['p99_us'] / 1e3:.2f}, {max(puts.latencies) / 1e3:.1f}")


def put_costs(arguments, folder):
    """CPU of a Put with a table of word vectors over that without, of each round."""
    with contextlib.ExitStack() as stack:
        servers = [server(arguments, folder, stack),
                   server(arguments, folder, stack, "--word-vectors=off")]
        ratios = []
        for round_number in range(arguments.rounds + 1):
            costs = {}
            for place in (0, 1) if round_number % 2 else (1, 0):
                process, calls = servers[place]
                cpu = process.cpu_seconds()
                for number in range(arguments.puts):
                    calls.Put(session_id=f"s{number % 64}", messages=[user("What a day it was")])
                costs[place] = process.cpu_seconds() - cpu
            if round_number > 0:  # The first round warms up.
                ratios.append(costs[0] / costs[1])
    return ratios


def main():
    arguments = parse_arguments()
    load_average = os.getloadavg()[0]
    texts = texts_of(arguments.workload)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="memoryd-bench.", dir="/dev/shm"))
    try:
        rows = [measure(arguments, count, texts, folder) for count in arguments.messages]
        ratios = put_costs(arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = [
        f"- {datetime.date.today():%d %B %Y}, `tests/benchmark/queries.py WORKLOAD --queries"
        f" {arguments.queries} --rounds {arguments.rounds}`, {report.revision(arguments.build)}",
        f"- {report.machine()}; load average before the run {load_average:.1f}",
        f"- CPU of a Put to sessions that nobody queries, with word vectors over without:"
        f" {report.with_spread(ratios, 2)}",
        "",
        report.row("messages", "CPU a Query, ms", "Query p50, ms", "p99, ms", "first Query, s",
                   "resident bytes a message", "Put p50, p99 before, ms",
                   "Put p50, p99, longest meanwhile, ms"),
        report.row("---:", "---:", "---:", "---:", "---:", "---:", "---", "---"),
        *rows,
    ]  # fmt: skip
    print("\n".join(["", *lines]))
    if not arguments.short:
        report.replace_results(arguments.page, "queries.py", lines)


if __name__ == "__main__":
    main()
