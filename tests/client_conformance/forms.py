"""Compares the clients' forms of messages, OpenAI's and Anthropic's, with those of the Python client.

usage: forms.py CLIENT... [--seeds N]     CLIENT is a name of DRIVERS

Each client takes random conversations and odd messages. All give what each has stored, in both forms. What
they give must be equal, but for numbers beyond 2^53 in a tool's input: JavaScript has none.

A driver reads {"take": [message…]} and answers the stored messages in base64, and for {"give": [stored…],
"form": "openai" or "anthropic"} the messages. A JSON object a line, and one line of answer each.
"""

from __future__ import annotations

import argparse
import base64
import json
import pathlib
import subprocess
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.conversations import AnthropicTeller, OpenAITeller
from support.odd_messages import ODD_MESSAGES
from support.paths import NODE, REPOSITORY

import memoryd
from memoryd.v1 import memory_pb2

# With halves of characters, and numbers that JavaScript has.
ODD: list[dict[str, Any]] = [
    *ODD_MESSAGES,
    {"role": "user", "content": "\ud83d lone, \U0001f600 whole, \udfff"},
    {"role": "user", "content": "\U0001f600" * 400_000},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": 5, "type": "function", "function": {"name": None, "arguments": {"a": 1.5}}},
        {"function": "f"}, {"type": "custom", "custom": {}}, {"id": "", "type": None}]},
    {"role": "tool", "tool_call_id": "c\u0000", "content": [
        {"type": "text", "text": "a\ud83d\U0001f600"}, {"type": "text", "text": "x" * 1_200_000},
        {"type": "image_url", "image_url": {"url": "https://a.example"}}, {"type": "text"}]},
    {"role": "user", "content": "hi", "nul": "\u0000"},
]


DRIVERS: dict[str, list[str]] = {
    "typescript": [str(NODE), str(REPOSITORY / "build/typescript/build-test/forms_driver.js")],
    "go": [str(REPOSITORY / "build/go/forms_driver")],
}


class Driver:
    """A client in another language."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def take(self, messages: list[dict[str, Any]]) -> list[bytes]:
        return [base64.b64decode(one) for one in self._ask(take=messages)]

    def give(self, stored: list[bytes], form: str) -> Any:
        return self._ask(give=[base64.b64encode(one).decode() for one in stored], form=form)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _ask(self, **command: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class Python:
    """The client of this process."""

    def take(self, messages: list[dict[str, Any]]) -> list[bytes]:
        return [one.SerializeToString() for one in memoryd.forms.stored(messages)]

    def give(self, stored: list[bytes], form: str) -> Any:
        messages = [memory_pb2.Message.FromString(one) for one in stored]
        return memoryd.to_openai(messages) if form == "openai" else dict(memoryd.to_anthropic(messages))


def differences(clients: dict[str, Driver | Python], told: list[dict[str, Any]], name: str) -> list[str]:
    found = []
    for taker, client in clients.items():
        stored = client.take(told)
        for form in ("openai", "anthropic"):
            given = {giver: one.give(stored, form) for giver, one in clients.items()}
            wanted = plain(given["python"])
            for giver, made in given.items():
                if plain(made) != wanted:
                    found.append(f"{name}, taken by {taker}, in {form}'s form:\n"
                                 f"  python: {json.dumps(given['python'])[:600]}\n"
                                 f"  {giver}: {json.dumps(made)[:600]}")
    return found


def plain(value: Any) -> Any:
    """As JavaScript has it, whose numbers are doubles, also in a tool's input."""
    return json.loads(json.dumps(value), parse_int=float)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("clients", nargs="+", choices=DRIVERS)
    parser.add_argument("--seeds", type=int, default=100)
    given = parser.parse_args()
    drivers = {name: Driver(DRIVERS[name]) for name in given.clients}
    clients: dict[str, Driver | Python] = {"python": Python(), **drivers}
    found = []
    for index, odd in enumerate(ODD):
        found += differences(clients, [odd], f"odd {index}")
    for seed in range(given.seeds):
        found += differences(clients, OpenAITeller(seed).conversation(), f"OpenAI's, seed {seed}")
        found += differences(clients, AnthropicTeller(seed).conversation(), f"Anthropic's, seed {seed}")
    for driver in drivers.values():
        driver.close()
    for one in found[:10]:
        print(one)
    print(f"forms of {', '.join(clients)}: {len(ODD)} odd messages, {2 * given.seeds} conversations, "
          f"{len(found)} different")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
