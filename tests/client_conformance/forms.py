"""Reads in Python what the TypeScript client stores of messages of OpenAI's and Anthropic's form, and the
other way round.

usage: forms.py NODE FORMS_DRIVER [--seeds N]

Each client takes random conversations and odd messages, and both give what either has stored, in both
forms. What the two give must be equal, but for numbers beyond 2^53 in a tool's input: JavaScript has none.
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

from support import paths  # noqa: F401  (makes memoryd importable)
from support.conversations import AnthropicTeller, OpenAITeller
from support.odd_messages import ODD_MESSAGES

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


class Node:
    """The TypeScript client."""

    def __init__(self, node: str, driver: str) -> None:
        self._process = subprocess.Popen(
            [node, driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **command: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def differences(node: Node, told: list[dict[str, Any]], name: str) -> list[str]:
    found = []
    by = {"python": [one.SerializeToString() for one in memoryd.forms.stored(told)],
          "typescript": [base64.b64decode(one) for one in node.ask(take=told)]}
    for taken, stored in by.items():
        messages = [memory_pb2.Message.FromString(one) for one in stored]
        coded = [base64.b64encode(one).decode() for one in stored]
        for form in ("openai", "anthropic"):
            python: Any = memoryd.to_openai(messages)
            if form == "anthropic":
                python = dict(memoryd.to_anthropic(messages))
            typescript = node.ask(give=coded, form=form)
            if plain(python) != plain(typescript):
                found.append(f"{name}, taken by {taken}, in {form}'s form:\n"
                             f"  {json.dumps(python)[:600]}\n  {json.dumps(typescript)[:600]}")
    return found


def plain(value: Any) -> Any:
    """As JavaScript has it, whose numbers are doubles, also in a tool's input."""
    return json.loads(json.dumps(value), parse_int=float)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("node")
    parser.add_argument("driver")
    parser.add_argument("--seeds", type=int, default=100)
    given = parser.parse_args()
    node = Node(given.node, given.driver)
    found = []
    for index, odd in enumerate(ODD):
        found += differences(node, [odd], f"odd {index}")
    for seed in range(given.seeds):
        found += differences(node, OpenAITeller(seed).conversation(), f"OpenAI's, seed {seed}")
        found += differences(node, AnthropicTeller(seed).conversation(), f"Anthropic's, seed {seed}")
    node.close()
    for one in found[:10]:
        print(one)
    print(f"forms: {len(ODD)} odd messages, {2 * given.seeds} conversations, {len(found)} different")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
