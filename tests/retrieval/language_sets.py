#!/usr/bin/env python3
"""Asks the chats of languages/ their questions, and writes how many have their answer first.

The rankings are those of build/bin/rank, with the table of word vectors and without it. Each is held against
reference.py as in compare.py. Beside them: BM25 over words as they are (k1 1.2, b 0.75; pairs of characters
where a script has no spaces), and the same for the questions that were held out.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys

import numpy as np

import reference
import words
from compare import Comparison

SETS = pathlib.Path(__file__).parent / "languages"
NAMES = ("german", "french", "spanish", "italian", "portuguese", "russian", "turkish", "chinese", "japanese",
         "thai")
TOP = 10
TOLERANCE = {16: 1e-3, 8: 0.02}


@dataclasses.dataclass
class Question:
    text: str
    answer: int
    shares: str
    held_out: bool


@dataclasses.dataclass
class Chat:
    name: str
    messages: list
    questions: list


def load(name):
    lines = [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text().splitlines()]
    said = [line for line in lines if "id" in line]
    places = {line["id"]: place for place, line in enumerate(said)}
    asked = [line for line in lines if "question" in line]
    return Chat(name, [reference.Message(line["role"], line["text"]) for line in said],
                [Question(line["question"], places[line["answer"]], line["shares"], number % 4 == 3)
                 for number, line in enumerate(asked)])


def rank(tool, vectors, chats, bits):
    workload = {"options": {}, "precision": bits, "chats": [
        {"messages": [{"role": message.speaker, "text": message.text} for message in chat.messages],
         "questions": [question.text for question in chat.questions]} for chat in chats]}
    run = subprocess.run([tool, vectors or "none"], input=json.dumps(workload), text=True,
                         stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)


def plain_words(text):
    for _, run in words.runs(text.lower()):
        if isinstance(run, str):
            yield run
        else:
            yield from [a + b for a, b in itertools.pairwise(run)] or run


def plain_bm25(chat):
    """For each question the messages, the best first."""
    texts = [collections.Counter(plain_words(message.text)) for message in chat.messages]
    lengths = np.array([text.total() for text in texts], float)
    norms = 1.2 * (0.25 + 0.75 * lengths / lengths.mean())
    found = []
    for question in chat.questions:
        scores = np.zeros(len(texts))
        for word in set(plain_words(question.text)):
            counts = np.array([text[word] for text in texts], float)
            having = np.count_nonzero(counts)
            rarity = np.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
            scores += rarity * 2.2 * counts / (counts + norms)
        order = sorted(range(len(texts)), key=lambda i: (-scores[i], -i))
        found.append([(i, scores[i]) for i in order if scores[i] > 0])
    return found


def differences(chats, table, answers, bits):
    of = Comparison(f"{'with' if table else 'without'} vectors, {bits} bits", TOLERANCE[bits])
    options = dataclasses.replace(reference.Options(), expansion=False)
    for chat, answer in zip(chats, answers, strict=True):
        session = reference.Session(chat.messages, options, table)
        for question, hits in zip(chat.questions, answer, strict=True):
            ranking = session.ranking(question.text)
            of.add(f"{chat.name} {question.text!r}", ranking[:TOP], hits[:TOP], dict(ranking))
    of.report()
    return of.off


def is_first(question, hits):
    return bool(hits) and hits[0][0] == question.answer


def share(questions, found, *, held_out):
    """Of the questions that have a word in common with their answer, in percent."""
    right = [is_first(question, hits) for question, hits in zip(questions, found, strict=True)
             if question.held_out == held_out and question.shares != "nothing"]
    return 100 * sum(right) / len(right)


def counted(questions, found, shares):
    right = [is_first(question, hits) for question, hits in zip(questions, found, strict=True)
             if question.shares == shares]
    return f"{sum(right)} of {len(right)}" if right else "–"


def table_of(chats, by_method):
    print("| language | questions | now | held out, now | without word vectors | plain BM25 | same form"
          " | another form | nothing shared |")
    print("|---|---:|---:|---:|---:|---:|---|---|---|")
    rows = []
    for number, chat in enumerate(chats):
        found = {name: of_chats[number] for name, of_chats in by_method.items()}
        row = [share(chat.questions, found["query"], held_out=False),
               share(chat.questions, found["query"], held_out=True),
               share(chat.questions, found["words"], held_out=False),
               share(chat.questions, found["plain"], held_out=False)]
        rows.append(row)
        kinds = [counted(chat.questions, found["query"], kind) for kind in ("form", "stem", "nothing")]
        print(f"| {chat.name.capitalize()} | {len(chat.questions)} | "
              + " | ".join([*(f"{value:.0f}" for value in row), *kinds]) + " |")
    print("| mean | | " + " | ".join(f"{value:.0f}" for value in np.mean(rows, axis=0)) + " | | | |")


def write_misses(path, chats, answers, *, held_out):
    with path.open("w") as file:
        for chat, answer in zip(chats, answers, strict=True):
            for question, hits in zip(chat.questions, answer, strict=True):
                if is_first(question, hits) or (question.held_out and not held_out):
                    continue
                places = [place for place, _ in hits]
                miss = {"language": chat.name, "question": question.text, "shares": question.shares,
                        "held_out": question.held_out,
                        "answer": chat.messages[question.answer].text,
                        "place": places.index(question.answer) + 1 if question.answer in places else None,
                        "first": chat.messages[places[0]].text if places else None}
                file.write(json.dumps(miss, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", default="build/bin/rank")
    parser.add_argument("--vectors", default="build/share/memoryd/l2_supercat_256.safetensors")
    parser.add_argument("--misses", type=pathlib.Path, help="write what is not found first to this file")
    parser.add_argument("--with-held-out", action="store_true", help="also those that were held out")
    arguments = parser.parse_args()
    chats = [load(name) for name in NAMES]
    table = reference.Table(arguments.vectors)
    off = 0
    for of_table, bits in ((table, 16), (table, 8), (None, 8)):
        answers = rank(arguments.tool, arguments.vectors if of_table else None, chats, bits)
        off += differences(chats, of_table, answers, bits)
        if of_table and bits == 8:
            query = answers
    table_of(chats, {"query": query, "words": answers, "plain": [plain_bm25(chat) for chat in chats]})
    if arguments.misses:
        write_misses(arguments.misses, chats, query, held_out=arguments.with_held_out)
    sys.exit(off > 0)


if __name__ == "__main__":
    main()
