"""memoryd beside the libraries that it replaces, on the same PostgreSQL, or on SQLite as they are:
loaded by memoryd_load, and once more through its Python adapters."""

from __future__ import annotations

import os
import pathlib
import sys
import warnings
from collections.abc import Callable

import callers
import processes
from bench import Bench, Leg, Sample

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import paths  # noqa: F401  (makes the adapters importable)

_CALLERS = 8
# What LlamaIndex flushes at: 0.7 of a token_limit of 30,000, some 20 tokens a message.
_FULL_QUEUE = 1100
_ACTIVE = (100, 800)
_LANGCHAIN_READ = 500
_READ = 20


def legs(bench: Bench) -> list[Leg]:
    warnings.simplefilter("ignore")  # The libraries', of what they deprecate.
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(bench.folder / "mem0")}
    server = bench.memoryd(bench.postgres.database("memoryd"))
    return [*_llama_index(bench, server), *_langchain(bench, server), *_langgraph(bench, server),
            *_mem0(bench)]


def _put(bench: Bench, server: processes.Server, name: str, outstanding: int = _CALLERS,
         sessions: int = _CALLERS, **flags: object) -> Leg:
    def run(number: int) -> Sample:
        prefix = f"{name} {number}"
        if "fill" in flags:
            bench.load(server, "get", count=1, sessions=sessions, session_prefix=prefix, **flags)
        rest = {key: value for key, value in flags.items() if key != "fill"}
        return bench.measure(server, "put", outstanding=outstanding, sessions=sessions,
                             session_prefix=prefix, postgres=bench.postgres, **rest)

    return Leg(name, run)


def _get(bench: Bench, server: processes.Server, name: str, messages: int,
         outstanding: int = _CALLERS, **flags: object) -> Leg:
    def run(number: int) -> Sample:
        if number == 0:
            bench.load(server, "get", count=1, sessions=_CALLERS, session_prefix=name,
                       fill=messages, **flags)
        sample = bench.measure(server, "get", outstanding=outstanding, sessions=_CALLERS,
                               session_prefix=name, postgres=bench.postgres)
        if sample["reply_bytes"] < messages * len(callers.TEXT):
            raise RuntimeError(f"{sample['reply_bytes']:.0f} bytes are not {messages} messages")
        return sample

    return Leg(name, run)


def _coroutines(bench: Bench, name: str, user: callers.AsyncUser, count: int = _CALLERS) -> Leg:
    return Leg(name, lambda _: callers.coroutines(user, count, bench.seconds))


def _threads(bench: Bench, name: str, user: callers.User, count: int = _CALLERS) -> Leg:
    return Leg(name, lambda _: callers.threads(user, count, bench.seconds))


def _llama_index(bench: Bench, server: processes.Server) -> list[Leg]:
    """The library's legs follow memoryd's, so that what slows a minute slows both."""
    sides = {"library": callers.llama_library(bench.postgres.database("llama_index")),
             "python": callers.llama_memoryd(server.target)}
    profile = {"profile": "llama-index"}

    def beside(name: str, user: Callable[..., callers.AsyncUser], count: int = _CALLERS,
               **options: int) -> list[Leg]:
        return [_coroutines(bench, f"{side} {name}", user(memory, **options), count)
                for side, memory in sides.items()]

    made = [
        _put(bench, server, "memoryd llama put", **profile),
        *beside("llama put", callers.llama_put),
        _put(bench, server, "memoryd llama put 10", messages_per_put=10, **profile),
        *beside("llama put 10", callers.llama_put, messages=10),
        _put(bench, server, "memoryd llama put full", outstanding=1, sessions=1,
             fill=_FULL_QUEUE, **profile),
        *beside("llama put full", callers.llama_put, 1, before=_FULL_QUEUE),
    ]
    for active in _ACTIVE:
        made += [_get(bench, server, f"memoryd llama get {active}", active, **profile),
                 *beside(f"llama get {active}", callers.llama_get, messages=active)]
    return made


def _langchain(bench: Bench, server: processes.Server) -> list[Leg]:
    database, seconds = bench.postgres.database("langchain"), bench.seconds
    callers.langchain_create_table(database)
    sides = {"library": (callers.langchain_library(database),
                         callers.langchain_alibrary(database)),
             "python": (callers.langchain_memoryd(server.target),
                        callers.langchain_amemoryd(server.target))}
    # Over its one connection, as many calls as it likes.
    made = [_put(bench, server, "memoryd langchain put", outstanding=32, sessions=64)]
    for side, (history, ahistory) in sides.items():
        put = callers.langchain_put(history)
        made += [
            _threads(bench, f"{side} langchain put, one connection", put, 1),
            _threads(bench, f"{side} langchain put, threads", put),
            _coroutines(bench, f"{side} langchain put, coroutines",
                        callers.langchain_aput(ahistory)),
        ]
    made += [
        Leg("library langchain put, processes", lambda _: callers.two_processes(
            callers.langchain_library_put, (database,), _CALLERS, seconds)),
        _get(bench, server, f"memoryd langchain get {_LANGCHAIN_READ}", _LANGCHAIN_READ),
    ]
    made += [_coroutines(bench, f"{side} langchain get {_LANGCHAIN_READ}, coroutines",
                         callers.langchain_aget(ahistory, _LANGCHAIN_READ))
             for side, (_, ahistory) in sides.items()]
    made.append(Leg(f"library langchain get {_LANGCHAIN_READ}, processes",
                    lambda _: callers.two_processes(callers.langchain_library_get,
                                                    (database, _LANGCHAIN_READ), _CALLERS,
                                                    seconds)))
    return made


def _langgraph(bench: Bench, server: processes.Server) -> list[Leg]:
    database = bench.postgres.database("langgraph")
    return [
        _put(bench, server, "memoryd put 8"),
        _coroutines(bench, "library langgraph put", callers.langgraph(database, _CALLERS)),
        _get(bench, server, f"memoryd get {_READ} 8", _READ),
        _coroutines(bench, f"library langgraph get {_READ}",
                    callers.langgraph(database, _CALLERS, _READ)),
    ]


def _mem0(bench: Bench) -> list[Leg]:
    """One caller: its store serves one at a time."""
    server = bench.memoryd(bench.sqlite("mem0"))
    return [
        _put(bench, server, "memoryd sqlite put 1", outstanding=1, sessions=1),
        _threads(bench, "library mem0 put", callers.mem0(bench.folder), 1),
        _get(bench, server, f"memoryd sqlite get {_READ} 1", _READ, outstanding=1),
        _threads(bench, f"library mem0 get {_READ}", callers.mem0(bench.folder, _READ), 1),
    ]
