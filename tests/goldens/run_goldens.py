#!/usr/bin/env python3
"""Replays golden traces of the libraries' own memory classes against memoryd and compares.

usage: run_goldens.py [DIR] [--store sqlite|postgresql|both] [--models worker|http|both] [--seeds N]

DIR holds traces as goldens.py writes them. Without it traces are made from the installed
libraries: seeds 1 to 3 and N fresh ones (default 2), which are printed. An operation that memoryd
does not serve yet counts as not covered. The traces' models are the agent's, attached as a worker,
or behind OpenAI's API; both: a worker on each store, and HTTP once. Exits 1 when any answer
differs.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import grpc

from autogen_list import ListMemorySession, to_content
from autogen_list import to_dump as content_dump
from http_models import HttpAgent, HttpModels
from llama_blocks import Agent, to_block
from llama_messages import to_dump, to_message
from support.calls import Calls, memory, wire
from support.server import Server
from support.stores import fresh_store
from traces import (
    SHOWN_DIFFERENCES,
    Tally,
    command_line,
    files_of,
    given_or_made,
    stores,
)

_STATUS = {
    None: memory.MESSAGE_STATUS_UNSPECIFIED,
    "active": memory.MESSAGE_STATUS_ACTIVE,
    "archived": memory.MESSAGE_STATUS_ARCHIVED,
}
_SCOPE = {
    None: wire.RESET_SCOPE_MESSAGES,
    "active": wire.RESET_SCOPE_ACTIVE,
    "archived": wire.RESET_SCOPE_ARCHIVED,
}


def session_config(config: dict[str, Any], models_worker: str) -> memory.SessionConfig:
    """The session that behaves as Memory(**config)."""
    flush_size = config["token_flush_size"]
    if config["via"] == "from_defaults":
        flush_size = 3000 if flush_size is None else flush_size
        if flush_size > config["token_limit"]:
            flush_size = int(config["token_limit"] * 0.7)
    methods = {"system": memory.INSERT_METHOD_SYSTEM, "user": memory.INSERT_METHOD_USER}
    return memory.SessionConfig(
        profile="llama-index",
        token_limit=config["token_limit"],
        token_flush_size=flush_size,
        chat_history_token_ratio=config["chat_history_token_ratio"],
        insert_method=methods[config["insert_method"]],
        tokenizer=config["tokenizer"],
        image_token_count=config["image_token_size_estimate"],
        audio_token_count=config["audio_token_size_estimate"],
        video_token_count=config["video_token_size_estimate"],
        document_token_count=config["document_token_size_estimate"],
        blocks=[to_block(spec, models_worker) for spec in config["memory_blocks"]],
    )


class MemorySession:
    """One Memory object of a trace, as a session of the same id: models see it."""

    def __init__(self, calls: Calls, config: dict[str, Any], models_worker: str) -> None:
        self._calls = calls
        self._id = session_id = config["session_id"]
        calls.DeleteSession(session_id=session_id)
        self.config = session_config(config, models_worker)
        made = calls.CreateSession(session_id=session_id, config=self.config).session
        if made.config.token_flush_size != config["effective_token_flush_size"]:
            raise AssertionError(
                f"{session_id}: token_flush_size is {made.config.token_flush_size}, "
                f"the library's {config['effective_token_flush_size']}"
            )

    def replay(self, op: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the library's operation would have returned."""
        if op == "put":
            self._put([arguments["message"]])
        elif op == "put_messages":
            self._put(arguments["messages"])
        elif op == "set":
            messages = [to_message(dump) for dump in arguments["messages"]]
            self._calls.Set(session_id=self._id, messages=messages)
        elif op == "reset":
            self._calls.Reset(session_id=self._id)
        elif op == "areset":
            self._calls.Reset(session_id=self._id, scope=_SCOPE[arguments["status"]])
        elif op == "get":
            reply = self._calls.Get(session_id=self._id, input=arguments["input"])
            if reply.missing_blocks:
                raise AssertionError(f"{self._id}: missing {reply.missing_blocks}")
            return {"messages": [to_dump(message) for message in reply.messages]}
        elif op == "get_all":
            found = self._calls.all_messages(
                self._id, page_size=7, status=_STATUS[arguments["status"]]
            )
            return {"messages": [to_dump(message) for message in found]}
        else:
            raise ValueError(f"unknown operation {op}")
        return self._counts()

    def facts(self) -> dict[str, list[str]]:
        """What each fact block knows."""
        return {
            name: [fact.text for fact in self._calls.GetBlock(
                session_id=self._id, block=name).facts.facts]
            for name in self._blocks("fact-extraction")
        }

    def entries(self) -> list[Any]:
        """The entries of all vector blocks."""
        return [
            entry
            for name in self._blocks("vector")
            for entry in self._calls.all_entries(self._id, name, page_size=2)
        ]

    def _blocks(self, kind: str) -> list[str]:
        return [block.name for block in self.config.blocks if block.kind == kind]

    def inspect(self, entries: list[Any]) -> dict[str, Any]:
        """What the blocks hold, when `entries` are those of their vector store."""
        nodes = [
            [entry.text, json.loads(entry.metadata_json)]
            for entry in sorted(entries, key=lambda e: e.create_time.ToNanoseconds())
        ]
        return {
            "facts": self.facts(),
            "vectors": dict.fromkeys(self._blocks("vector"), nodes),
        }

    def _put(self, dumps: list[dict[str, Any]]) -> None:
        reply = self._calls.Put(
            session_id=self._id, messages=[to_message(dump) for dump in dumps]
        )
        if reply.open_jobs:
            raise AssertionError(f"{self._id}: open jobs {reply.open_jobs}")

    def _counts(self) -> dict[str, Any]:
        session = self._calls.GetSession(session_id=self._id).session
        return {
            "active_tokens": session.active_token_count,
            "n_active": session.active_count,
            "n_archived": session.archived_count,
        }


class Trace:
    """The objects of a trace as sessions, and the agent that answers for their models."""

    def __init__(self, calls: Calls, agent: Agent, trace: dict[str, Any]) -> None:
        kind = trace["id"].partition("/")[0]
        self.known = kind in ("llama_memory", "llama_multi", "autogen")
        self._calls = calls
        self._sessions: dict[str | None, Any] = {}
        if kind == "autogen":
            self._sessions[None] = ListMemorySession(calls, trace["id"], trace["config"])
        elif self.known:
            multi = kind == "llama_multi"
            configs = trace["config"] if multi else [trace["config"]]
            agent.begin((trace if multi else trace["config"])["llm_script"], configs)
            for config in configs:
                session = MemorySession(calls, config, agent.models_worker)
                self._sessions[config["session_id"] if multi else None] = session

    def replay(self, op: dict[str, Any]) -> dict[str, Any]:
        if op["op"] == "store_keys":
            return {"keys_sorted": self._keys()}
        session = self._sessions[op.get("session_id")]
        if op["op"] == "inspect":
            # The library's objects of a trace share their vector store.
            return session.inspect([e for s in self._sessions.values() for e in s.entries()])
        return session.replay(op["op"], op["args"])

    def _keys(self) -> list[str]:
        """The sessions of this trace that have messages."""
        found = self._calls.ListSessions(page_size=1000).sessions
        return sorted(
            session.session_id
            for session in found
            if session.session_id in self._sessions
            and session.active_count + session.archived_count > 0
        )


def inexact(op: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The dumped messages and contents given to an operation that the wire forms don't hold."""
    arguments = op["args"]
    forms = (
        ("message", "messages", lambda dump: to_dump(to_message(dump))),
        ("content", "contents", lambda dump: content_dump(to_content(dump))),
    )
    for one, many, there_and_back in forms:
        dumps = arguments.get(many, []) + ([arguments[one]] if one in arguments else [])
        for dump in dumps:
            # A message of AutoGen's is none of memory's.
            if op["op"] != "context_add" and text(there_and_back(dump)) != text(dump):
                yield dump


def refusal(error: grpc.RpcError, expected: dict[str, Any]) -> dict[str, Any]:
    """The library's exception, when the server refused with its message."""
    said = expected.get("error", {}).get("message")
    if said and error.code() == grpc.StatusCode.INVALID_ARGUMENT and said in error.details():
        return expected
    return {"error": f"{error.code().name}: {error.details()}"}


def replay_trace(
    calls: Calls, agent: Agent, trace: dict[str, Any], differences: list[str]
) -> Tally:
    tally = Tally()
    session = Trace(calls, agent, trace)
    if not session.known:
        tally.not_covered = len(trace["ops"])
        return tally
    for index, op in enumerate(trace["ops"]):
        for dump in inexact(op):
            differences.append(f"{trace['id']} op {index}: not mapped exactly: {text(dump)}")
            tally.different += 1
        try:
            answer = session.replay(op)
        except grpc.RpcError as error:
            answer = refusal(error, op["expect"])
        except AssertionError as error:
            answer = {"error": str(error)}
        made = agent.take_calls()
        if not agent.same_calls(op.get("calls", []), made):
            tally.different += 1
            differences.append(
                f"{trace['id']} op {index} {op['op']}: calls of models\n"
                f"  library {text(op.get('calls', []))[:900]}\n  memoryd {text(made)[:900]}"
            )
        elif text(answer) == text(op["expect"]) or (op.get("ties") and same_set(answer, op)):
            tally.equal += 1
        else:
            tally.different += 1
            differences.append(
                f"{trace['id']} op {index} {op['op']}:\n"
                f"  library {text(op['expect'])[:600]}\n  memoryd {text(answer)[:600]}"
            )
    return tally


def same_set(answer: dict[str, Any], op: dict[str, Any]) -> bool:
    """Whether an answer has the lines of the library's, whose order rests on random ids."""
    return sorted(re.split(r"\\n|\n", text(answer))) == sorted(
        re.split(r"\\n|\n", text(op["expect"]))
    )


def text(value: Any) -> str:
    """JSON in which the order of keys and the difference of 1 and 1.0 show."""
    return json.dumps(value, ensure_ascii=False)


@contextlib.contextmanager
def attached(kind: str, models: str) -> Iterator[tuple[Calls, Agent]]:
    """A server with a fresh store, and the agent that answers for its models."""
    with contextlib.ExitStack() as stack:
        arguments, http = [], None
        if models == "http":
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            http = stack.enter_context(HttpModels(folder))
            arguments = [http.argument]
        store = stack.enter_context(fresh_store(kind))
        server = stack.enter_context(Server(store, arguments=arguments))
        channel = stack.enter_context(server.channel())
        agent = HttpAgent(server.target, http) if http else Agent(server.target)
        stack.enter_context(contextlib.closing(agent))
        yield Calls(channel), agent


def replay_folder(folder: pathlib.Path, kind: str, models: str) -> Tally:
    total, differences = Tally(), []
    with attached(kind, models) as (calls, agent):
        for file in files_of(folder, "*.jsonl"):
            tally = Tally()
            for line in file.read_text(encoding="utf-8").splitlines():
                tally.add(replay_trace(calls, agent, json.loads(line), differences))
            print(f"{kind} {models} {file.name}: {tally}", flush=True)
            total.add(tally)
    for difference in differences[:SHOWN_DIFFERENCES]:
        print(difference)
    return total


def runs(store: str, models: str) -> list[tuple[str, str]]:
    """Store and models of each run. Beside a worker's, HTTP's are run on one store: which one it is
    makes no difference to a request."""
    kinds = stores(store)
    if models != "both":
        return [(kind, models) for kind in kinds]
    return [(kind, "worker") for kind in kinds] + [(kinds[0], "http")]


def main() -> int:
    parser = command_line(__doc__)
    parser.add_argument("--models", choices=("worker", "http", "both"), default="both")
    options = parser.parse_args()
    total = Tally()
    with given_or_made(options) as folder:
        for kind, models in runs(options.store, options.models):
            total.add(replay_folder(folder, kind, models))
    print(total)
    return 1 if total.different else 0


if __name__ == "__main__":
    sys.exit(main())
