"""Query in languages other than English, over chats of our own."""

from __future__ import annotations

import json

import pytest

from support.calls import memory, user
from support.paths import REPOSITORY

CHATS = json.loads((REPOSITORY / "core/retrieval/testdata/languages.json").read_text("utf-8"))


def ask(calls, session_id: str, query: str, **fields) -> list[str]:
    reply = calls.Query(session_id=session_id, query=query, **fields)
    return [result.message.text for result in reply.results]


def said(language: str) -> list[memory.Message]:
    return [user(m["text"], name=m["name"]) for m in CHATS[language]["messages"]]


@pytest.mark.parametrize("language", CHATS)
def test_the_answer_comes_first(calls, session_id, language):
    messages = said(language)
    calls.Put(session_id=session_id, messages=messages)
    for question in CHATS[language]["questions"]:
        found = ask(calls, session_id, question["text"])
        assert found[0] == messages[question["answer"]].text, question["text"]


@pytest.mark.parametrize("language", CHATS)
def test_a_turn_of_100_000_tokens_and_a_question_of_2_000_words(calls, session_id, language):
    messages = said(language)
    everything = " ".join(message.text for message in messages)
    turn = everything * (400_000 // len(everything.encode()) + 1)
    config = memory.SessionConfig(token_limit=1_000_000)
    calls.Put(session_id=session_id, messages=messages, config=config)
    calls.Put(session_id=session_id, messages=[user(turn, name="Zeno")])
    for question in CHATS[language]["questions"]:
        found = ask(calls, session_id, question["text"], passages=True)
        assert found[0] == messages[question["answer"]].text, question["text"]
    words = " ".join(f"w{number}x" for number in range(2000))
    found = ask(calls, session_id, f"{messages[2].text} {words}", top_k=3)
    assert messages[2].text in found
