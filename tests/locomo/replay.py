#!/usr/bin/env python3
"""Puts every turn of a set of conversations, kills the server on the way, reads all back.

usage: replay.py [FILE] [--store sqlite|postgresql|both] [--kills N]

FILE is JSON of the LoCoMo shape: a list of conversations, each with `conversation.session_1`, ...
of turns with `speaker`, `dia_id` and `text`; without it the conversations are those that
make_conversations.py makes. Every turn is one Put, repeated by its request_id until acknowledged;
the server is killed with SIGKILL and started again N times in between. Then GetAll must give every
turn, byte for byte and in order. The last line of a store is
`locomo: store S, conversations N, turns N, kills N, different N`. Exits 1 on a difference.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from make_conversations import make_conversations
from support.calls import Calls, memory
from support.server import Server, open_channel
from support.stores import STORES, fresh_store
from support.writers import Progress, until_acknowledged

SENT_FIELDS = ("role", "name", "text", "metadata_json")


def turns(conversation: dict[str, Any]) -> Iterator[memory.Message]:
    """The turns in order; the first speaker is the user, the other one the assistant."""
    numbers = (re.fullmatch(r"session_(\d+)", key) for key in conversation)
    for number in sorted(int(match[1]) for match in numbers if match):
        when = conversation.get(f"session_{number}_date_time", "")
        for turn in conversation[f"session_{number}"]:
            # Whatever else a turn has (images, captions) goes along as metadata.
            metadata = {k: v for k, v in turn.items() if k not in ("speaker", "text")}
            metadata["date_time"] = when
            first = turn["speaker"] == conversation["speaker_a"]
            yield memory.Message(
                role="user" if first else "assistant",
                name=turn["speaker"],
                text=turn["text"],
                metadata_json=json.dumps(metadata, ensure_ascii=False),
            )


def put_conversation(target: str, name: str, messages: list[memory.Message],
                     progress: Progress, given_up: threading.Event) -> None:
    try:
        with open_channel(target) as channel:
            calls = Calls(channel)
            for number, message in enumerate(messages):
                until_acknowledged(calls.Put, given_up=given_up, session_id=name,
                                   messages=[message], request_id=f"turn-{number}")
                progress.add(1)
    except BaseException as error:  # Shown by whoever waits for progress.
        progress.fail(error)


def count_differences(calls: Calls, name: str, messages: list[memory.Message]) -> int:
    found = calls.all_messages(name, page_size=97)
    different = abs(len(found) - len(messages))
    for sent, stored in zip(messages, found, strict=False):
        different += any(getattr(sent, field).encode() != getattr(stored, field).encode()
                         for field in SENT_FIELDS)
    return different


def run(kind: str, conversations: dict[str, list[memory.Message]], kills: int) -> bool:
    total = sum(map(len, conversations.values()))
    progress, given_up = Progress(), threading.Event()
    with fresh_store(kind) as store, tempfile.TemporaryDirectory(prefix="memoryd-locomo-") as made:
        listen = f"unix:{made}/memoryd.sock"
        server = Server(store, listen=listen)
        try:
            threads = [
                threading.Thread(target=put_conversation,
                                 args=(listen, name, messages, progress, given_up))
                for name, messages in conversations.items()
            ]
            for thread in threads:
                thread.start()
            for number in range(kills):
                progress.wait_for(total * (number + 1) // (kills + 1))
                server.kill()
                server = Server(store, listen=listen)
            for thread in threads:
                thread.join()
            progress.check()
            server.kill()
            server = Server(store, listen=listen)
            with server.channel() as channel:
                different = sum(count_differences(Calls(channel), name, messages)
                                for name, messages in conversations.items())
        finally:
            given_up.set()
            server.kill()
    print(f"locomo: store {kind}, conversations {len(conversations)}, turns {total}, "
          f"kills {kills + 1}, different {different}", flush=True)
    return different == 0 and total > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=pathlib.Path)
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--kills", type=int, default=3)
    options = parser.parse_args()
    if options.file:
        data = json.loads(options.file.read_text(encoding="utf-8"))
    else:
        data = make_conversations(conversations=8, sessions=6, seed=1)
    conversations = {
        f"locomo-{item.get('sample_id', number)}": list(turns(item["conversation"]))
        for number, item in enumerate(data)
    }
    kinds = STORES if options.store == "both" else (options.store,)
    results = [run(kind, conversations, options.kills) for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
