"""Blocks behind real models on this machine: a weak one for chat, MiniLM for embeddings.

What a weak model says is not looked at; what must hold whatever it says is.
"""

from __future__ import annotations

import collections
import json
import time
import urllib.request

import pytest

from support.blocks import DONE, FAILED, OPEN, block, drained, jobs_of, memory_text, missing, section
from support.calls import Calls, memory
from support.server import Server
from support.stores import fresh_store
from support.waiting import wait_for

# Many times what a Put takes, and a part of what the model does.
PUT_SECONDS = 2
# Ten minutes of jobs.
DRAIN_ATTEMPTS = 60_000
ATTEMPTS = 8

CONVERSATION = (
    ("Hi! I'm Nora, I teach chemistry at a school in Bergen.",
     "Hello Nora! Teaching chemistry in Bergen sounds lovely. How can I help you today?"),
    ("Our cat Miso has stopped eating her dry food since Monday.",
     "That is worth watching. Offer wet food, and see a vet if she eats nothing for a day."),
    ("I am allergic to peanuts, so please leave them out of every recipe.",
     "Noted: no peanuts in any recipe. I will also look out for peanut oil."),
    ("What could I cook for six people on Friday evening?",
     "A mild fish soup with fennel is quick, feeds six, and can be made the day before."),
    ("My brother Anders is moving to Lisbon in March to work for a shipping company.",
     "A big step for Anders! Spring is a good time to arrive in Lisbon."),
    ("The choir rehearses on Wednesdays at seven in the old church.",
     "Wednesdays at seven, in the old church. What are you singing?"),
    ("The doctor told me to take the iron tablets before breakfast.",
     "Before breakfast it is; orange juice helps the body to take up iron."),
    ("My grandmother turns ninety on the second of June.",
     "Ninety years! A book of family photographs would make a fine present."),
    ("The bicycle needs a new chain, the old one slips in third gear.",
     "Measure the chain's wear first; a worn cassette slips in the same way."),
    ("I have paid the electricity bill of 840 crowns this morning.",
     "Good, that is done then. Shall I remind you of the next one?"),
    ("For the lesson on acids I need a safe experiment with red cabbage.",
     "Boil the cabbage, then add vinegar or soda: its juice turns pink or green."),
    ("I would like to read more novels, but I fall asleep after two pages.",
     "Try short stories, or listen to a novel while you walk to school."),
    ("We are thinking about painting the kitchen dark green.",
     "Dark green goes well with brass and wood. Try a small patch first."),
    ("My password manager locked me out after five attempts.",
     "Wait for the time it names, then use the recovery code that you printed."),
    ("Can you explain why ice floats on water?",
     "Its molecules form an open lattice, so ice is less dense than water."),
    ("The neighbours' drilling wakes the baby every afternoon.",
     "Ask them for their plan; many are glad to move the noise to another hour."),
)
# What is asked, and what the message says that answers it. The words are others.
QUESTIONS = (
    ("Which pet of mine refuses its meals?", "Our cat Miso"),
    ("What must you never put into my food?", "allergic to peanuts"),
    ("Who is going to live in Portugal?", "moving to Lisbon"),
    ("When is the old lady's birthday?", "turns ninety"),
    ("What medicine do I swallow in the morning?", "iron tablets"),
    ("On which day of the week do I sing?", "choir rehearses"),
)


def session_config(profile: str) -> memory.SessionConfig:
    return memory.SessionConfig(
        profile=profile, token_limit=1200, chat_history_token_ratio=0.3, token_flush_size=200,
        feed=memory.FEED_AFTER_COMMIT,
        blocks=[
            block("core", "static", content=["Nora lives in Norway."]),
            block("facts", "fact-extraction", 1, model="chat", max_facts=20),
            # What is asked for is the question alone.
            block("vectors", "vector", 2, embedder="embed", retrieval_context_window=1),
            block("summary", "summary", 3, model="chat", max_tokens=96),
            block("entities", "entity", 4, model="chat"),
        ])


CHAT_BLOCKS = ("facts", "summary", "entities")


@pytest.fixture(scope="module")
def calls(chat_model, embedder, tmp_path_factory):
    file = tmp_path_factory.mktemp("models") / "models.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"models": [
        {"name": "chat", "kind": "chat", "url": chat_model.url, "model": "gemma",
         "allow_private": True, "max_calls": 1, "temperature": 0, "timeout_ms": 240_000},
        {"name": "embed", "kind": "embedding", "url": embedder.url, "model": "minilm",
         "allow_private": True, "dimensions": 384},
    ]}))
    arguments = [f"--config={file}", f"--job-attempts={ATTEMPTS}", "--job-retry-ms=500",
                 "--job-timeout-ms=600000", "--block-timeout-ms=10000"]
    with fresh_store("sqlite") as store, Server(store, arguments=arguments) as server, \
            server.channel() as channel:
        yield Calls(channel)


def put_all(calls: Calls, session_id: str, turns) -> list[str]:
    """Puts each turn within its deadline; the texts, in order."""
    texts, slowest = [], 0.0
    for question, answer in turns:
        pair = [memory.Message(role="user", text=question),
                memory.Message(role="assistant", text=answer)]
        begin = time.monotonic()
        calls.Put(session_id=session_id, messages=pair, timeout=PUT_SECONDS)
        slowest = max(slowest, time.monotonic() - begin)
        texts += [question, answer]
    print(f"{len(turns)} Puts, the slowest {slowest * 1000:.1f} ms")
    return texts


def ended(calls: Calls, session_id: str) -> list:
    """All jobs, once each is done or was given up for a reason."""
    begin = time.monotonic()
    jobs = drained(calls, session_id, DRAIN_ATTEMPTS)
    print(f"drained in {time.monotonic() - begin:.0f} s:",
          dict(collections.Counter((job.block, "DONE" if job.state == DONE else "FAILED")
                                   for job in jobs)))
    for job in jobs:
        assert job.state in (DONE, FAILED), job
        if job.state == FAILED:
            print(f"{job.block}: {job.last_error}")
            assert job.attempts == ATTEMPTS and job.last_error, job
    return jobs


def check_reads(calls: Calls, session_id: str, texts: list[str]) -> None:
    """Nothing is lost, and a Get keeps its limit and says what blocks know."""
    assert [m.text for m in calls.all_messages(session_id)] == texts
    reply = calls.Get(session_id=session_id, input=QUESTIONS[0][0])
    assert not reply.missing_blocks, missing(reply)
    assert 0 < reply.token_count <= reply.limit and not reply.over_limit_tokens
    assert {"core", "vectors"} <= set(reply.blocks_used)
    print(memory_text(reply))


def test_embeddings_are_those_of_the_model_card(embedder):
    texts = ["That is a happy person", "That is a happy dog", "That is a very happy person",
             "Today is a sunny day"]
    request = urllib.request.Request(
        f"{embedder.url}/embeddings", json.dumps({"model": "m", "input": texts}).encode(),
        {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        first, *others = [item["embedding"] for item in json.load(answer)["data"]]
    cosines = [sum(x * y for x, y in zip(first, other, strict=True)) for other in others]
    assert cosines == pytest.approx([0.6946, 0.9429, 0.2569], abs=2e-4)


@pytest.mark.parametrize("profile", ("default", "llama-index"))
def test_a_conversation_is_remembered(calls, session_id, profile):
    calls.CreateSession(session_id=session_id, config=session_config(profile))
    texts = put_all(calls, session_id, CONVERSATION)
    # The model is slower than the Puts: they did not wait for it.
    assert jobs_of(calls, session_id, state=OPEN)
    jobs = ended(calls, session_id)
    check_reads(calls, session_id, texts)
    assert {job.block for job in jobs} == {"vectors", *CHAT_BLOCKS}
    for job in jobs:
        if job.state == DONE:
            assert job.usage.calls > 0 and job.usage.prompt_tokens > 0, job
    assert all(job.state == DONE for job in jobs if job.block == "vectors")
    assert any(job.state == DONE for job in jobs if job.block in CHAT_BLOCKS)
    if profile == "llama-index":
        return  # Its entries are whole flushes.
    archived = {m.text for m in calls.all_messages(
        session_id, status="MESSAGE_STATUS_ARCHIVED")}
    for question, said in QUESTIONS:
        assert any(said in text for text in archived), f"{said} is still in short-term memory"
        found = section(calls.Get(session_id=session_id, input=question), "vectors")
        assert any(said in line for line in found), f"{question}: {found}"


def test_models_may_go_and_come_back(calls, chat_model, embedder, session_id):
    calls.CreateSession(session_id=session_id, config=session_config("default"))
    texts = put_all(calls, session_id, CONVERSATION[:10])
    wait_for(lambda: any(job.block == "vectors" and job.state == DONE
                         for job in jobs_of(calls, session_id)), attempts=6000)
    chat_model.kill()
    embedder.kill()
    texts += put_all(calls, session_id, CONVERSATION[10:])

    def waiting() -> bool:
        jobs = jobs_of(calls, session_id, state=OPEN)
        return {job.block for job in jobs if job.last_error} == {"vectors", *CHAT_BLOCKS}

    wait_for(waiting, attempts=6000)
    reply = calls.Get(session_id=session_id, input="Who is Nora?")
    assert "core" in reply.blocks_used and reply.messages[-1].text == texts[-1]
    assert set(missing(reply)) == {"vectors"}
    embedder.start()
    chat_model.start()
    jobs = ended(calls, session_id)
    assert all(job.state == DONE for job in jobs if job.block == "vectors")
    check_reads(calls, session_id, texts)
