#!/usr/bin/env python3
"""Writes a set of invented conversations in the shape of the LoCoMo data set.

usage: make_conversations.py FILE [--conversations N] [--sessions N] [--seed N]

The same arguments give the same bytes. The turns are of several scripts, with emoji, combining
marks, control characters, empty and very long text: what real conversations bring, and more.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
from typing import Any

SPEAKERS = (
    ("Ada", "Bruno"), ("Chiara", "Dmitri"), ("Eun-ji", "Farid"), ("Güneş", "Hana"),
    ("Иван", "Yael"), ("Zoë", "José"), ("陈伟", "佐藤"), ("Ọlá", "Nguyễn"),
)
OPENINGS = (
    "Hey {other}, how have you been since {event}?",
    "Morning! Did {event} go as you hoped?",
    "Γεια σου {other}, what's new after {event}?",
    "你好 {other}！{event} 怎么样？",
    "Привет, {other}! Как прошло: {event}?",
    "مرحبا {other}، كيف كان {event}؟",
)
EVENTS = (
    "the pottery class", "your move to the coast", "the night train", "the choir rehearsal",
    "the interview on Tuesday", "your sister's wedding", "the beekeeping course", "the marathon",
)
THOUGHTS = (
    "It was better than I feared, honestly.",
    "I painted the kitchen {colour} and then changed my mind twice.",
    "My {pet} learned to open the door 🙀.",
    "We ate {dish} until nobody could move. 😂😂",
    "I keep the {thing} in the drawer under the window, remember that.",
    "J'ai perdu mes clés près de la gare, encore une fois…",
    "昨日は{dish}を作りました。とても美味しかったです。",
    "Я купила {thing} за {number} рублей.",
    "내일 {number}시에 만나요!",
    "אני לא בטוח לגבי {thing}.",
    "ราคา {number} บาท แพงไปไหม",
    "The code is {number}-{number}; don't tell anyone 🤫.",
    "Family: 👨‍👩‍👧‍👦, flag: 🏳️‍🌈, thumbs: 👍🏽, e\u0301 and é are not the same bytes.",
    "She said \"it's fine\" \\ and left <b>quietly</b> & quickly; 100% {{sure}}.",
    "Table:\n\tname\tprice\r\n\t{thing}\t{number}\n",
    "Zero-width\u200bjoin, bidi \u202eesrever\u202c, ligature ﬁ, tag <|endoftext|>, nul \u0000 end.",
)
FILLERS = {
    "colour": ("teal", "ochre", "暗い青", "белый"),
    "pet": ("cat", "parrot", "tortoise", "Dackel"),
    "dish": ("paella", "борщ", "寿司", "փլավ"),
    "thing": ("passport", "violin", "ключ", "कैमरा"),
}
LONG_TURN_CHARACTERS = 60_000


def make_turn(chance: random.Random, speaker: str, other: str, first: bool) -> str:
    fill = {name: chance.choice(values) for name, values in FILLERS.items()}
    fill |= {"number": chance.randint(2, 9999), "other": other, "event": chance.choice(EVENTS)}
    sentences = [chance.choice(OPENINGS)] if first else []
    sentences += chance.sample(THOUGHTS, chance.randint(1, 4))
    text = " ".join(sentences)
    for name, value in fill.items():
        text = text.replace("{" + name + "}", str(value))
    kind = chance.random()
    if kind < 0.01:
        return ""
    if kind < 0.02:
        return (text + "\n") * (LONG_TURN_CHARACTERS // len(text))
    return text


def make_conversation(chance: random.Random, number: int, sessions: int) -> dict[str, Any]:
    pair = SPEAKERS[number % len(SPEAKERS)]
    conversation: dict[str, Any] = {"speaker_a": pair[0], "speaker_b": pair[1]}
    for session in range(1, sessions + 1):
        when = f"{chance.randint(1, 12)}:{chance.randint(10, 59)} pm on {session} May, 2024"
        turns = []
        for index in range(chance.randint(8, 24)):
            speaker, other = pair[index % 2], pair[1 - index % 2]
            turns.append({
                "speaker": speaker,
                "dia_id": f"D{session}:{index + 1}",
                "text": make_turn(chance, speaker, other, index == 0),
            })
        conversation[f"session_{session}_date_time"] = when
        conversation[f"session_{session}"] = turns
    return {"sample_id": f"made-{number + 1}", "conversation": conversation}


def make_conversations(conversations: int, sessions: int, seed: int) -> list[dict[str, Any]]:
    return [make_conversation(random.Random(f"{seed}/{number}"), number, sessions)
            for number in range(conversations)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--conversations", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    made = make_conversations(options.conversations, options.sessions, options.seed)
    options.file.write_text(json.dumps(made, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
