"""Conversations with questions, and which messages answer them.

LoCoMo: locomo10.json of snap-research/LoCoMo. BEAM: the folder chats/100K of
mohammadtavakoli78/BEAM. Neither is part of memoryd.
"""

import dataclasses
import datetime
import json
import pathlib
import re

from reference import Message


@dataclasses.dataclass
class Question:
    text: str
    evidence: list  # Indexes of messages.
    counts: bool = True  # For the recall: LoCoMo's adversarial ones do not.
    category: str = ""
    newer: list = dataclasses.field(default_factory=list)  # Of an update's evidence.


LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop",
                     5: "adversarial"}


@dataclasses.dataclass
class Chat:
    name: str
    ids: list
    messages: list
    questions: list


def locomo_day(text):
    return datetime.datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y").date()


def locomo(path):
    for sample in json.loads(pathlib.Path(path).read_text()):
        conversation = sample["conversation"]
        chat = Chat(sample["sample_id"], [], [], [])
        numbers = sorted(int(key.split("_")[1]) for key in conversation
                         if re.fullmatch(r"session_\d+", key))
        for number in numbers:
            day = locomo_day(conversation[f"session_{number}_date_time"])
            for turn in conversation[f"session_{number}"]:
                text = turn["text"].strip()
                if turn.get("blip_caption"):
                    text += f" [image: {turn['blip_caption'].strip()}]"
                chat.ids.append(turn["dia_id"])
                chat.messages.append(
                    Message(turn["speaker"], text.strip() or ".", str(number), day))
        places = {identifier: i for i, identifier in enumerate(chat.ids)}
        for qa in sample["qa"]:
            evidence = []
            for listed in qa.get("evidence", []):
                for part in re.split(r"[;,\s]+", str(listed)):
                    match = re.fullmatch(r"D:?(\d+):(\d+)", part)
                    if match:
                        place = places.get(f"D{int(match[1])}:{int(match[2])}")
                        if place is not None and place not in evidence:
                            evidence.append(place)
            if evidence:
                chat.questions.append(Question(qa["question"], evidence, qa["category"] != 5,
                                               LOCOMO_CATEGORIES[qa["category"]]))
        yield chat


def integers(value):
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in integers(part)]
    return []


def beam(folder):
    folders = [path for path in pathlib.Path(folder).iterdir() if path.name.isdigit()]
    for path in sorted(folders, key=lambda one: int(one.name)):
        file = path / "chat_trunecated.json"  # Its name is so.
        if not file.exists():
            file = path / "chat.json"
        chat = Chat(path.name, [], [], [])
        for batch in json.loads(file.read_text()):
            turns = [message for pair in batch["turns"] for message in pair]
            anchor = next((m["time_anchor"] for m in turns if m.get("time_anchor")), None)
            try:
                day = datetime.datetime.strptime(anchor or "", "%B-%d-%Y").date()
            except ValueError:
                day = None
            for message in turns:
                text = message["content"]
                if message["role"] == "user":  # A mark of the generator's.
                    text = re.sub(r"\s*->\s*->\s*[\d, .]*\s*$", "", text)
                chat.ids.append(str(message["id"]))
                chat.messages.append(Message(message["role"], text.strip() or ".",
                                             str(batch["batch_number"]), day))
        places = {identifier: i for i, identifier in enumerate(chat.ids)}
        asked = json.loads((path / "probing_questions/probing_questions.json").read_text())

        def found(listed, places=places):
            of_messages = [str(number) for number in integers(listed)]
            return list(dict.fromkeys(places[i] for i in of_messages if i in places))

        for category, questions in asked.items():
            for question in questions:
                listed = question.get("source_chat_ids")
                evidence = found(listed)
                newer = found(listed["updated_info"]) if category == "knowledge_update" else []
                if evidence:
                    chat.questions.append(Question(question["question"], evidence,
                                                   category=category, newer=newer))
        yield chat
