"""A conversation as a script: what its user asks, and what its model answers."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import uuid
from collections.abc import Callable, Iterator

# 100, 200 or 300.
TURNS = int(os.environ.get("MEMORYD_TEST_TURNS", "200"))
WORDS = ("Zürich", "naïve", "東京の天気", "👩‍👩‍👧 and 🏳️‍🌈", "كتاب", "it's \"quoted\"",
         "<b>&amp;</b>", "line\nbreak", "plain", "words", "Ελλάδα", "e\u0301", "\\n", "tea")
CITIES = ("Zürich", "Oslo", "東京", "São Paulo")


@dataclasses.dataclass(frozen=True)
class Call:
    """A tool call as the model sends it; `arguments` is JSON."""

    call_id: str
    name: str
    arguments: str


@dataclasses.dataclass(frozen=True)
class Reply:
    """One answer of the model. `failure` is how it is kept from arriving: "busy" (429), "broken"
    (500), "refused" (400) or "cut" (the connection ends half-way); "" where it arrives."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    failure: str = ""


@dataclasses.dataclass(frozen=True)
class Turn:
    question: str
    replies: tuple[Reply, ...]


def script() -> list[Turn]:
    """The same conversation with every call."""
    return [_turn(number) for number in range(TURNS)]


def _turn(number: int) -> Turn:
    chance = random.Random(number)
    replies: list[Reply] = []
    for step in range(chance.choice((0, 1, 1, 2))):
        replies.append(Reply(_words(chance, 4) if chance.random() < 0.3 else "",
                             tuple(_calls(chance, number, step))))
    text = "" if number % 23 == 9 else f"answer {number}: {_words(chance, chance.randint(1, 40))}"
    replies.append(Reply(text))
    return Turn(f"question {number}: {_words(chance, chance.randint(1, 25))}",
                tuple(_with_failures(number, replies)))


def _with_failures(number: int, replies: list[Reply]) -> Iterator[Reply]:
    for step, reply in enumerate(replies):
        if number % 7 == 3 and step == 0:
            yield dataclasses.replace(reply, failure="busy")
        if number % 11 == 5 and step == len(replies) - 1:
            yield dataclasses.replace(reply, failure="broken")
        if number % 13 == 6 and step <= number % 2:
            yield dataclasses.replace(reply, failure="cut")
        if number % 17 == 8 and step == len(replies) - 1:
            yield dataclasses.replace(reply, failure="refused")
        yield reply


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(count))


def _calls(chance: random.Random, number: int, step: int) -> Iterator[Call]:
    for index in range(chance.choice((1, 2, 2, 3, 4))):
        name, arguments = chance.choice(ARGUMENTS)(chance)
        # The last come again in later turns, as from gateways that count from 0.
        call_id = chance.choice((
            str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            f"call_{chance.getrandbits(96):024x}", f"functions.{name}:{step}{index}"))
        if chance.random() < 0.05:
            call_id = f"call_{number}_{index}__thought__" + f"{chance.getrandbits(8000):x}" * (
                chance.choice((1, 2)))
        yield Call(call_id, name, json.dumps(arguments, ensure_ascii=chance.random() < 0.5))


ARGUMENTS: tuple[Callable[[random.Random], tuple[str, dict]], ...] = (
    lambda chance: ("weather", {"city": chance.choice(CITIES)}),
    lambda chance: ("weather", {"city": chance.choice(CITIES)}),
    lambda chance: ("add", {"a": chance.randint(0, 99), "b": chance.random()}),
    lambda chance: ("read", {"page": _words(chance, 2), "lines": chance.choice((1, 3, 40))}),
    lambda chance: ("remember", {"fact": _words(chance, 5)}),
    lambda chance: ("fail", {"reason": _words(chance, 2)}),
)


# The tools of every agent. Coroutines that never wait, so that parallel calls end in their order.


async def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 21 °C ☀️"


async def add(a: float, b: float) -> str:
    """The sum of two numbers."""
    return str(a + b)


async def read(page: str, lines: int) -> str:
    """So many lines of a page."""
    return "\n".join(f"{line} {page}" for line in range(lines))


async def fail(reason: str) -> str:
    """Fails."""
    raise RuntimeError(f"it failed: {reason}")
