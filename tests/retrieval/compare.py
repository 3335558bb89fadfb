#!/usr/bin/env python3
"""Holds the server's ranking against reference.py, question by question.

The same messages must be the ten best, with scores that differ by at most 0.001. Where the scores
of two messages are closer than that, either may come first; such ties are counted. The index keeps
numbers of 16 bits here, but for the last runs: those show what the 8 bits of the server cost.
"""

import argparse
import dataclasses
import datetime
import json
import pathlib
import subprocess
import sys

import chats
import reference

TOP = 10
TOLERANCE = 1e-3

# Without what questions and threads count.
LITE = {"answer_factor": 1, "thread_weight": 0}
# And without what is for chats of a user with an assistant.
PLAIN = {**LITE, "length_weight": 0, "neighbour_tokens": 0, "user_weight": 0}


def microseconds(day):
    time = datetime.datetime.combine(day, datetime.time(12), datetime.timezone.utc)
    return int(time.timestamp()) * 1_000_000


def rank(tool, vectors, conversations, options, bits):
    workload = {"options": dataclasses.asdict(options), "precision": bits, "chats": []}
    for chat in conversations:
        messages = []
        for message in chat.messages:
            sent = {"name": message.speaker, "thread_id": message.thread, "text": message.text}
            if message.day:
                sent["create_us"] = microseconds(message.day)
            messages.append(sent)
        workload["chats"].append(
            {"messages": messages, "questions": [question.text for question in chat.questions]})
    run = subprocess.run([tool, vectors or "none"], input=json.dumps(workload), text=True,
                         stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)


class Comparison:
    """What is equal, and what is not."""

    def __init__(self, name, tolerance):
        self.name, self.tolerance = name, tolerance
        self.places = self.ties = self.off = 0
        self.largest = 0.0
        self.complaints = []
        self.recalls = []

    def add(self, where, expected, found, score_of):
        """`expected` and `found`: pairs of id and score, best first. `score_of`: ids' scores as
        expected, to tell ties; ids without one are no ties."""
        if len(found) < len(expected):
            self.complaints.append(f"{where}: {len(found)} hits instead of {len(expected)}")
            self.off += 1
        pairs = zip(expected, found, strict=False)
        for place, ((wanted, score), (got, got_score)) in enumerate(pairs):
            self.places += 1
            difference = abs(score - got_score)
            self.largest = max(self.largest, difference)
            tie = wanted != got and abs(score_of.get(got, 1e9) - score) <= self.tolerance
            self.ties += tie
            if difference > self.tolerance or (wanted != got and not tie):
                self.off += 1
                self.complaints.append(f"{where}: place {place + 1} is {got} {got_score:.4f} "
                                       f"instead of {wanted} {score:.4f}")

    def add_recall(self, question, expected, found):
        if question.counts:
            evidence = set(question.evidence)
            self.recalls.append([len(evidence & set(ranked[:TOP])) / len(evidence)
                                 for ranked in (expected, found)])

    def report(self):
        text = (f"{self.name}: {self.places} places, {self.off} off, {self.ties} ties, "
                f"largest difference {self.largest:.6f}")
        if self.recalls:
            means = [100 * sum(column) / len(column) for column in zip(*self.recalls, strict=True)]
            text += f"; recall at {TOP}: reference {means[0]:.1f}, memoryd {means[1]:.1f}"
        print(text, flush=True)
        for complaint in self.complaints[:10]:
            print("  " + complaint)


def compare(arguments, name, conversations, changes, *, bits, table):
    options = dataclasses.replace(reference.Options(), **changes)
    vectors = arguments.vectors if table is not None else None
    answers = rank(arguments.tool, vectors, conversations, options, bits)
    # With numbers of 8 bits the order of roundings shows.
    comparison = Comparison(f"{name}, {bits} bits" if table is not None else f"{name}, words alone",
                            TOLERANCE if bits == 16 else 0.02)
    for chat, answer in zip(conversations, answers, strict=True):
        session = reference.Session(chat.messages, options, table)
        for question, hits in zip(chat.questions, answer, strict=True):
            ranking = session.ranking(question.text)
            comparison.add(f"{chat.name} {question.text!r}", ranking[:TOP], hits[:TOP],
                           dict(ranking))
            comparison.add_recall(question, [i for i, score in ranking], [i for i, score in hits])
    comparison.report()
    return comparison


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", default="build/bin/rank")
    parser.add_argument("--vectors", default="build/share/memoryd/l2_supercat_256.safetensors")
    parser.add_argument("--locomo", type=pathlib.Path, help="locomo10.json")
    parser.add_argument("--beam", type=pathlib.Path, help="the folder of BEAM's 100K chats")
    arguments = parser.parse_args()
    table = reference.Table(arguments.vectors)
    done = []

    def run(name, conversations, changes, **how):
        done.append(compare(arguments, name, conversations, changes, **how))

    if arguments.locomo:
        conversations = list(chats.locomo(arguments.locomo))
        run("LoCoMo, length rules off", conversations, PLAIN, bits=16, table=table)
        run("LoCoMo, questions and threads off", conversations, LITE, bits=16, table=table)
        run("LoCoMo", conversations, {}, bits=16, table=table)
        run("LoCoMo", conversations, {}, bits=16, table=None)
        run("LoCoMo", conversations, {}, bits=8, table=table)
    if arguments.beam:
        conversations = list(chats.beam(arguments.beam))
        run("BEAM, questions and threads off", conversations, LITE, bits=16, table=table)
        run("BEAM", conversations, {}, bits=16, table=table)
        run("BEAM, no expansion", conversations, {"expansion": False}, bits=16, table=table)
        run("BEAM", conversations, {}, bits=16, table=None)
        run("BEAM, no expansion", conversations, {"expansion": False}, bits=8, table=table)
    if not done:
        parser.error("neither --locomo nor --beam")
    sys.exit(any(comparison.off for comparison in done))


if __name__ == "__main__":
    main()
