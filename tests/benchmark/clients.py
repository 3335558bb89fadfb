#!/usr/bin/env python3
"""Measures the Python adapters beside what they replace, on the same PostgreSQL, in one run.

usage: clients.py [--rounds N] [--seconds S] [--short]

ChatMessageHistory of memoryd.langchain beside PostgresChatMessageHistory of langchain-postgres, and
Memory of memoryd.llama_index, if there is one, beside LlamaIndex's: one message put, 20 messages
read, by one caller and in eight sessions at once. Every round runs every leg once, every second
round backwards. Everything durable lies on tmpfs, with PostgreSQL's fsync on. The table goes to
docs/BENCHMARKS.md, unless --short.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import datetime
import importlib.metadata
import os
import pathlib
import statistics
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "upstream"), str(HERE)]

import report  # noqa: E402
import upstream  # noqa: E402
from langchain_core.messages import HumanMessage  # noqa: E402
from support.postgres import temporary_database  # noqa: E402
from support.server import Server  # noqa: E402

REQUIREMENTS = HERE / "clients_requirements.txt"
PAGE = HERE.parents[1] / "docs" / "BENCHMARKS.md"
BEGIN = "<!-- clients: written by tests/benchmark/clients.py -->"
END = "<!-- end of clients -->"
SESSIONS = 8
READ = 20
TEXT = "What is said here has eighty-eight bytes, as many as in the other figures of this page.."
assert len(TEXT) == 88

# A leg: what one call is, for a session of its own, made anew for each round.
Leg = Callable[[], Any]


class LangChain:
    """A history and what is measured of it, by threads."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make

    def put(self) -> Callable[[], object]:
        history = self._make(str(uuid.uuid4()))
        return lambda: history.add_messages([HumanMessage(TEXT)])

    def get(self) -> Callable[[], object]:
        history = self._make(str(uuid.uuid4()))
        history.add_messages([HumanMessage(TEXT) for _ in range(READ)])
        return lambda: _expect(READ, history.messages)


class AsyncLangChain:
    """A history and what is measured of it, by coroutines."""

    def __init__(self, make: Callable[[str], Awaitable[Any]]) -> None:
        self._make = make

    async def put(self) -> Callable[[], Awaitable[object]]:
        history = await self._make(str(uuid.uuid4()))
        return lambda: history.aadd_messages([HumanMessage(TEXT)])

    async def get(self) -> Callable[[], Awaitable[object]]:
        history = await self._make(str(uuid.uuid4()))
        await history.aadd_messages([HumanMessage(TEXT) for _ in range(READ)])

        async def read() -> None:
            _expect(READ, await history.aget_messages())

        return read


class LlamaIndex:
    """A Memory and what is measured of it, by coroutines."""

    def __init__(self, memory_class: Any, uri: str) -> None:
        self._class, self._uri = memory_class, uri

    async def put(self) -> Callable[[], Awaitable[object]]:
        from llama_index.core.llms import ChatMessage

        memory = self._made()
        return lambda: memory.aput(ChatMessage(role="user", content=TEXT))

    async def get(self) -> Callable[[], Awaitable[object]]:
        from llama_index.core.llms import ChatMessage

        memory = self._made()
        await memory.aput_messages([ChatMessage(role="user", content=TEXT) for _ in range(READ)])

        async def read() -> None:
            _expect(READ, await memory.aget())

        return read

    def _made(self) -> Any:
        return self._class.from_defaults(session_id=str(uuid.uuid4()),
                                         async_database_uri=self._uri, token_limit=10**9)


def threads(make: Leg, sessions: int, seconds: float) -> float:
    """Calls a second, over so many sessions of one thread each."""
    calls = [make() for _ in range(sessions)]
    for call in calls:
        call()
    end = time.perf_counter() + seconds

    def repeat(call: Callable[[], object]) -> tuple[int, float]:
        count, start = 0, time.perf_counter()
        while time.perf_counter() < end:
            call()
            count += 1
        return count, time.perf_counter() - start

    with concurrent.futures.ThreadPoolExecutor(sessions) as pool:
        return sum(count / took for count, took in pool.map(repeat, calls))


def coroutines(make: Leg, sessions: int, seconds: float) -> float:
    async def measure() -> float:
        calls = [await make() for _ in range(sessions)]
        for call in calls:
            await call()
        end = time.perf_counter() + seconds

        async def repeat(call: Callable[[], Awaitable[object]]) -> float:
            count, start = 0, time.perf_counter()
            while time.perf_counter() < end:
                await call()
                count += 1
            return count / (time.perf_counter() - start)

        return sum(await asyncio.gather(*map(repeat, calls)))

    return asyncio.run(measure())


def _expect(count: int, found: list[Any]) -> None:
    if len(found) != count:
        raise AssertionError(f"{len(found)} messages, not {count}")


def langchains(
    target: str, database: str
) -> tuple[LangChain, LangChain, AsyncLangChain, AsyncLangChain]:
    import psycopg
    from langchain_postgres import PostgresChatMessageHistory

    from memoryd.langchain import ChatMessageHistory

    with psycopg.connect(database) as connection:
        PostgresChatMessageHistory.create_tables(connection, "history")

    def theirs(session_id: str) -> Any:  # A connection each, as eight users would have.
        return PostgresChatMessageHistory(
            "history", session_id, sync_connection=psycopg.connect(database))

    async def atheirs(session_id: str) -> Any:
        connection = await psycopg.AsyncConnection.connect(database)
        return PostgresChatMessageHistory("history", session_id, async_connection=connection)

    def ours(session_id: str) -> Any:
        return ChatMessageHistory(session_id, target=target)

    async def aours(session_id: str) -> Any:
        return ours(session_id)

    return LangChain(ours), LangChain(theirs), AsyncLangChain(aours), AsyncLangChain(atheirs)


def llama_indexes(target: str, database: str) -> tuple[LlamaIndex, LlamaIndex] | None:
    try:
        from memoryd.llama_index import Memory
    except ModuleNotFoundError:
        return None
    from llama_index.core.memory import Memory as Library

    return (LlamaIndex(Memory, f"memoryd://{target}"),
            LlamaIndex(Library, database.replace("postgresql://", "postgresql+asyncpg://")))


def legs(target: str, database: str) -> dict[str, tuple[Any, Leg, Leg]]:
    """By name: how a leg is run, with ours and with theirs."""
    ours, theirs, aours, atheirs = langchains(target, database)
    found: dict[str, tuple[Any, Leg, Leg]] = {
        "LangChain, add_messages": (threads, ours.put, theirs.put),
        "LangChain, messages": (threads, ours.get, theirs.get),
        "LangChain, aadd_messages": (coroutines, aours.put, atheirs.put),
        "LangChain, aget_messages": (coroutines, aours.get, atheirs.get),
    }
    memories = llama_indexes(target, database)
    if memories is not None:
        found["LlamaIndex, aput"] = (coroutines, memories[0].put, memories[1].put)
        found["LlamaIndex, aget"] = (coroutines, memories[0].get, memories[1].get)
    return found


def measure(target: str, database: str, rounds: int, seconds: float) -> Iterator[str]:
    """The table, a line for each leg and number of sessions."""
    runs = [(name, sessions, *leg) for name, leg in legs(target, database).items()
            for sessions in (1, SESSIONS)]
    samples: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for number in range(rounds):
        for name, sessions, run, ours, theirs in runs if number % 2 == 0 else runs[::-1]:
            pair = [run(made, sessions, seconds)
                    for made in ((ours, theirs) if number % 2 == 0 else (theirs, ours))]
            mine, other = pair if number % 2 == 0 else pair[::-1]
            samples.setdefault((name, sessions), []).append((mine, other))
            print(f"round {number + 1}: {name}, {sessions}: memoryd {mine:,.0f}/s, "
                  f"library {other:,.0f}/s", flush=True)
    yield "| call | sessions | memoryd, calls/s | library, calls/s | memoryd / library |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, sessions in sorted(samples):
        pairs = samples[name, sessions]
        mine, other = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratios = sorted(a / b for a, b in pairs)
        spread = f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if len(ratios) > 1 else ""
        yield (f"| {name} | {sessions} | {mine:,.0f} | {other:,.0f} | "
               f"{statistics.median(ratios):.2f}{spread} |")


def write_page(table: list[str], load: float, rounds: int, seconds: float) -> None:
    compared = " and ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("langchain-postgres", "llama-index-core")
        if name != "llama-index-core" or any("LlamaIndex" in line for line in table))
    today = datetime.date.today()
    lines = [
        BEGIN, "",
        f"- {today.day} {today:%B %Y}, `tests/benchmark/clients.py --rounds {rounds} --seconds "
        f"{seconds:g}`, beside {compared}",
        f"- {report.machine()}; load average before the run {load:.1f}", "",
        *table, "", END,
    ]
    text = PAGE.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    if not found:
        before = text.rstrip("\n") + "\n\n" + _HEADING
        rest = END + "\n"
    PAGE.write_text(before + "\n".join(lines) + rest.partition(END)[2], encoding="utf-8")


_HEADING = """## From Python, beside what it replaces

`make bench-clients`: a message of 88 bytes put, or a session of 20 such messages read, from Python,
by one caller and in eight sessions at once; memoryd and the library use the same PostgreSQL.
What begins with an `a` is run by coroutines, the others by threads; each session of
langchain-postgres has a connection of its own.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a leg")
    parser.add_argument("--short", action="store_true", help="1 round of 0.3 s; writes no page")
    options = parser.parse_args()
    if options.short:
        options.rounds, options.seconds = 1, 0.3
    if "MEMORYD_TEST_POSTGRES" not in os.environ:
        os.environ["MEMORYD_TEST_POSTGRES_PARENT"] = "/dev/shm"
        os.environ["MEMORYD_TEST_POSTGRES_OPTIONS"] = (
            "-c fsync=on -c full_page_writes=on -c synchronous_commit=on")
        beside = str(HERE.parents[1] / "tools" / "with_postgres.sh")
        return subprocess.run([beside, sys.executable, *sys.argv], check=False).returncode
    warnings.simplefilter("ignore")  # The libraries', of what they deprecate.
    sys.path.append(str(upstream.packages(REQUIREMENTS)))
    load = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(stack.enter_context(temporary_database())))
        database = stack.enter_context(temporary_database())
        table = list(measure(server.target, database, options.rounds, options.seconds))
    print("\n".join(table))
    if not options.short:
        write_page(table, load, options.rounds, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
