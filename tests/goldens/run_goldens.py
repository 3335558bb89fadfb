#!/usr/bin/env python3
"""Replays golden traces of the libraries' own memory classes against memoryd and compares.

usage: run_goldens.py [DIR] [--store sqlite|postgresql|both] [--seeds N]

DIR holds traces as goldens.py writes them. Without it traces are made from the installed
libraries: seeds 1 to 3 and N fresh ones (default 2), which are printed. An operation that memoryd
does not serve yet counts as not covered. Exits 1 when any answer differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import grpc  # noqa: E402

from llama_messages import to_dump, to_message  # noqa: E402
from support.calls import Calls, memory, wire  # noqa: E402
from support.server import Server  # noqa: E402
from support.stores import STORES, fresh_store  # noqa: E402

SHOWN_DIFFERENCES = 10

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


def session_config(config: dict[str, Any]) -> memory.SessionConfig:
    """The session that behaves as Memory(**config), less the blocks."""
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
    )


class Session:
    """One Memory object of a trace, as a session."""

    def __init__(self, calls: Calls, session_id: str, config: dict[str, Any]) -> None:
        self._calls = calls
        self._id = session_id
        made = calls.CreateSession(session_id=session_id, config=session_config(config)).session
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
            return {"messages": [to_dump(message) for message in reply.messages]}
        elif op == "get_all":
            found = self._calls.all_messages(
                self._id, page_size=7, status=_STATUS[arguments["status"]]
            )
            return {"messages": [to_dump(message) for message in found]}
        else:
            raise ValueError(f"unknown operation {op}")
        return self._counts()

    def _put(self, dumps: list[dict[str, Any]]) -> None:
        self._calls.Put(session_id=self._id, messages=[to_message(dump) for dump in dumps])

    def _counts(self) -> dict[str, Any]:
        session = self._calls.GetSession(session_id=self._id).session
        return {
            "active_tokens": session.active_token_count,
            "n_active": session.active_count,
            "n_archived": session.archived_count,
        }


def messages_of(op: dict[str, Any]) -> list[dict[str, Any]]:
    """Every dumped message that an operation of a Memory trace was given."""
    arguments = op["args"]
    return arguments.get("messages", []) + [arguments[k] for k in ("message",) if k in arguments]


def replay_trace(calls: Calls, trace: dict[str, Any], differences: list[str]) -> Tally:
    tally = Tally()
    if not trace["id"].startswith("llama_memory/"):
        tally.not_covered = len(trace["ops"])
        return tally
    session = Session(calls, trace["id"], trace["config"])
    has_blocks = bool(trace["config"]["memory_blocks"])
    for index, op in enumerate(trace["ops"]):
        for dump in messages_of(op):
            if text(to_dump(to_message(dump))) != text(dump):
                differences.append(f"{trace['id']} op {index}: not mapped exactly: {text(dump)}")
                tally.different += 1
        # What blocks hold and what they add to a context is theirs to answer.
        if op["op"] == "inspect" or (has_blocks and op["op"] == "get"):
            tally.not_covered += 1
            continue
        try:
            answer = session.replay(op["op"], op["args"])
        except grpc.RpcError as error:
            answer = {"error": f"{error.code().name}: {error.details()}"}
        if text(answer) == text(op["expect"]):
            tally.equal += 1
        else:
            tally.different += 1
            differences.append(
                f"{trace['id']} op {index} {op['op']}:\n"
                f"  library {text(op['expect'])[:600]}\n  memoryd {text(answer)[:600]}"
            )
    return tally


def text(value: Any) -> str:
    """JSON in which the order of keys and the difference of 1 and 1.0 show."""
    return json.dumps(value, ensure_ascii=False)


def make_traces(folder: pathlib.Path, fresh: int) -> None:
    seeds = [1, 2, 3] + [random.SystemRandom().randrange(4, 2**31) for _ in range(fresh)]
    print(f"seeds: {' '.join(map(str, seeds))}", flush=True)
    for seed in seeds:
        command = [sys.executable, str(HERE / "goldens.py"), str(seed), str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def replay_folder(folder: pathlib.Path, kind: str) -> Tally:
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(f"no traces (*.jsonl) in {folder}")
    total, differences = Tally(), []
    with fresh_store(kind) as store, Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        for file in files:
            tally = Tally()
            for line in file.read_text(encoding="utf-8").splitlines():
                tally.add(replay_trace(calls, json.loads(line), differences))
            print(f"{kind} {file.name}: {tally}", flush=True)
            total.add(tally)
    for difference in differences[:SHOWN_DIFFERENCES]:
        print(difference)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--seeds", type=int, default=2, help="fresh seeds to make traces of")
    options = parser.parse_args()
    total = Tally()
    with tempfile.TemporaryDirectory(prefix="memoryd-goldens-") as made:
        folder = options.folder
        if folder is None:
            folder = pathlib.Path(made)
            make_traces(folder, options.seeds)
        for kind in STORES if options.store == "both" else (options.store,):
            total.add(replay_folder(folder, kind))
    print(total)
    return 1 if total.different else 0


if __name__ == "__main__":
    sys.exit(main())
