"""Query in languages other than English, over chats of our own."""

from __future__ import annotations

import json

import grpc
import pytest

from support.calls import memory, note, refusal, user
from support.paths import REPOSITORY

INVALID = grpc.StatusCode.INVALID_ARGUMENT
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


def test_texts_tell_their_language_unless_it_is_given(calls, session_id):
    def say(to: str, *texts: str, **fields) -> None:
        config = memory.SessionConfig(retrieval=memory.Retrieval(vector_weight=0, **fields))
        calls.Put(session_id=to, config=config, messages=[user(text) for text in texts])

    say(session_id, "Bücher", "Gärten", language="de")
    assert ask(calls, session_id, "Buch") == ["Bücher"]
    say(f"{session_id}-untold", "Bücher", "Gärten")
    assert ask(calls, f"{session_id}-untold", "Buch") == []
    say(f"{session_id}-told", "Ich habe die alten Bücher noch.", "Gärten")
    assert ask(calls, f"{session_id}-told", "Garten") == ["Gärten"]

    calls.UpdateSession(session_id=f"{session_id}-untold", config=memory.SessionConfig(
        retrieval=memory.Retrieval(language="de")))
    assert ask(calls, f"{session_id}-untold", "Buch") == ["Bücher"]


def test_a_language_that_is_not_known_is_refused(calls, session_id):
    config = memory.SessionConfig(retrieval=memory.Retrieval(language="german"))
    error = refusal(lambda: calls.CreateSession(session_id=session_id, config=config))
    assert error.code() == INVALID and "config.retrieval.language" in error.details()


def test_capitals_in_turkish_find_english_texts(calls, session_id):
    english = "The invoices are in the drawer that you have."
    calls.Put(session_id=session_id,
              config=memory.SessionConfig(retrieval=memory.Retrieval(vector_weight=0)),
              messages=[user(english), user("Bu akşam sinemaya gidecek misin?"),
                        user("Mama almak için bir markete gideceğiz.")])
    assert ask(calls, session_id, "INVOICES bu mu?") == [english]


def test_a_language_may_be_taken_back(calls, session_id):
    def config(**fields) -> memory.SessionConfig:
        return memory.SessionConfig(retrieval=memory.Retrieval(**fields))

    without = calls.CreateSession(session_id=f"{session_id}-without").session.config
    calls.CreateSession(session_id=session_id, config=config(language="de"))
    taken_back = calls.UpdateSession(session_id=session_id, config=config(language=""))
    assert taken_back.session.config == without


def test_what_does_not_tell_is_as_its_own_kind(calls, session_id):
    config = memory.SessionConfig(retrieval=memory.Retrieval(vector_weight=0))
    calls.Put(session_id=session_id, config=config,
              messages=[user("Where is the car that you have?"), user("Books")],
              contents=[note("Ich habe die alten noch."), note("Bücher")])
    reply = calls.Query(session_id=session_id, query="Buch")
    assert [result.content.text for result in reply.results] == ["Bücher"]
