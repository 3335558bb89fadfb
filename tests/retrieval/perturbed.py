#!/usr/bin/env python3
"""Asks a server about LoCoMo's conversations as they are, and changed in ways that real ones are.

usage: perturbed.py LOCOMO          locomo10.json

For each change a line: recall at 10 over the questions, and the time a question takes. A recall that
is not sensible beside the first line, or a call that fails, is a fault of the server's.
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import random
import statistics
import sys
import time

import chats
import grpc_methods

TOP = 10
SEED = 1


def turns_of(chat: chats.Chat) -> list[dict]:
    return [{"id": place, "speaker": said.speaker, "session": said.thread, "text": said.text,
             "date": said.day and datetime.datetime.combine(said.day, datetime.time(12))}
            for place, said in enumerate(chat.messages)]


def without_names(turns: list[dict]) -> list[dict]:
    """Everybody is a user: nothing says who speaks."""
    return [{**turn, "speaker": "user"} for turn in turns]


def twice(turns: list[dict]) -> list[dict]:
    """Half of what there is was said before."""
    return [{**turn, "session": f"{turn['session']}{again}"} for again in ("", "-") for turn in turns]


def with_a_long_turn(turns: list[dict]) -> list[dict]:
    """All that was said once more, in one turn of 400,000 bytes in the middle."""
    everything = "\n".join(turn["text"] for turn in turns)
    long = {**turns[0], "id": -1, "text": (everything * (400_000 // len(everything) + 1))[:400_000]}
    return [*turns[:len(turns) // 2], long, *turns[len(turns) // 2:]]


def one_word(question: str, said_in: dict[str, int]) -> str:
    """The rarest word of the question, of those that were said."""
    words = [word.strip("?.,!'\"").lower() for word in question.split()]
    return min(words, key=lambda word: said_in.get(word, 1 << 30))


def two_thousand_words(question: str, words: list[str], chance: random.Random) -> str:
    """The question in the middle of 2,000 words of the conversation's own."""
    around = chance.choices(words, k=2000)
    return " ".join([*around[:1000], question, *around[1000:]])


@dataclasses.dataclass
class Outcome:
    recalls: list[float] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)

    def ask(self, method: grpc_methods.Method, turns: list[dict], asked: str,
            question: chats.Question) -> None:
        begin = time.perf_counter()
        found = method(turns, asked)[:TOP]
        self.seconds.append(time.perf_counter() - begin)
        evidence = set(question.evidence)
        self.recalls.append(len(evidence.intersection(found)) / len(evidence))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    chance = random.Random(SEED)
    outcomes: dict[str, Outcome] = {}
    for chat in chats.locomo(pathlib.Path(sys.argv[1])):
        words = [word for said in chat.messages for word in said.text.split()]
        said_in: dict[str, int] = {}
        for word in words:
            key = word.strip("?.,!'\"").lower()
            said_in[key] = said_in.get(key, 0) + 1
        turns = turns_of(chat)
        questions = [question for question in chat.questions if question.counts]
        for name, changed, rewrite in (
                ("as it is", turns, None),
                ("no names", without_names(turns), None),
                ("everything said twice", twice(turns), None),
                ("one turn of 400,000 bytes more", with_a_long_turn(turns), None),
                ("one word of each question", turns, lambda text, said_in=said_in: one_word(text, said_in)),
                ("each question amid 2,000 words", turns,
                 lambda text, words=words: two_thousand_words(text, words, chance))):
            method = grpc_methods.Method(top_k=TOP)
            method.prepare(changed)
            outcome = outcomes.setdefault(name, Outcome())
            for question in questions:
                asked = question.text if rewrite is None else rewrite(question.text)
                outcome.ask(method, changed, asked, question)
    for name, outcome in outcomes.items():
        seconds = sorted(outcome.seconds)
        print(f"{name}: recall at {TOP} {100 * statistics.mean(outcome.recalls):.1f}, "
              f"{len(seconds)} questions, median {seconds[len(seconds) // 2] * 1e3:.1f} ms, "
              f"99th of 100 {seconds[len(seconds) * 99 // 100] * 1e3:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
