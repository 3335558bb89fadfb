"""Another model for what a session or a vector block has embedded: that serves until it has made all."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading

import grpc
import pytest

from support.blocks import (
    CANCELLED,
    DONE,
    FAILED,
    OPEN,
    block,
    drained,
    every_turn,
    jobs_of,
    memory_text,
    missing,
)
from support.calls import Calls, refusal, user
from support.embedders import BLOCK, LINES, config, cosine, embed, found, put, query, settled
from support.model_server import ModelServer
from support.postgres import run_sql
from support.server import Server
from support.waiting import wait_for

COUNT = 300
# With LINES before them; none is more like a dog than those, as a number of the same hash would be.
TEXTS = [text for text in (f"line {i}" for i in range(2 * COUNT))
         if cosine(embed(text), embed("dog")) < cosine(embed(LINES[0]), embed("dog"))][:COUNT]
assert len(TEXTS) == COUNT


def embed_otherwise(text: str) -> list[float]:
    """As like each other as those of embed(), but not like those."""
    return embed(text)[::-1]


@pytest.fixture
def first():
    with ModelServer(embed=embed) as server:
        yield server


@pytest.fixture
def second():
    with ModelServer(embed=embed_otherwise) as server:
        yield server


class Models:
    """The file of settings, with the embedders `embed`, of model `m`, and `other`, of model `n`."""

    def __init__(self, folder, first: ModelServer, second: ModelServer) -> None:
        self._file = folder / "models.yaml"
        self._models = {
            name: {"name": name, "kind": "embedding", "url": server.url, "model": model,
                   "allow_private": True, "retries": 0}
            for name, server, model in (("embed", first, "m"), ("other", second, "n"))}
        self._write()

    def _write(self) -> None:
        # JSON is YAML.
        self._file.write_text(json.dumps({"models": list(self._models.values())}))

    def put_behind(self, name: str, other: str) -> None:
        """Under `name` the server finds, from its next start on, what is called `other` now."""
        self._models[name] = {**self._models[other], "name": name}
        self._write()

    def remove(self, name: str) -> None:
        del self._models[name]
        self._write()

    @property
    def arguments(self) -> list[str]:
        return [f"--config={self._file}", "--job-retry-ms=20", "--sweep-interval-ms=100",
                "--job-lease-ms=1000"]


@pytest.fixture
def models(tmp_path, first, second) -> Models:
    return Models(tmp_path, first, second)


@contextlib.contextmanager
def serving(store, models, *arguments: str):
    with (Server(store, arguments=[*models.arguments, *arguments]) as server,
          server.channel() as channel):
        yield Calls(channel)


@pytest.fixture
def calls(store, models):
    with serving(store, models) as calls:
        yield calls


@contextlib.contextmanager
def held_at(server: ModelServer, text: str):
    """While in it, requests for `text` are not answered; gives what tells that one waits."""
    honest, waits, go = server.embed, threading.Event(), threading.Event()

    def hold(asked: str) -> list[float]:
        if asked == text:
            waits.set()
            go.wait()
        return honest(asked)

    server.embed = hold
    try:
        yield waits
    finally:
        server.embed = honest
        go.set()


def fill(calls, session_id: str) -> None:
    put(calls, session_id, *LINES, *TEXTS, config=config())
    settled(calls, session_id)


def embeddings(calls, session_id: str):
    return calls.GetBlock(session_id=session_id, block=BLOCK).embeddings


def change(calls, session_id: str, embedder: str = "other") -> None:
    calls.UpdateSession(session_id=session_id, config=config(embedder=embedder))


def swapped(calls, session_id: str, source=("other", "n")) -> None:
    """Waits until what `source` made serves, and nothing waits to be embedded."""
    def serves():
        known = embeddings(calls, session_id)
        return (known.source.embedder, known.source.model) == source and not known.HasField("next")
    wait_for(serves, 6000)
    settled(calls, session_id)


def likenesses_hold(calls, session_id: str) -> None:
    """What is found is as like the query as its text is, by whatever model."""
    results = query(calls, session_id, top_k=100).results
    assert results
    for result in results:
        likeness = cosine(embed("hound"), embed(result.message.text))
        assert result.parts_of_score.embedding_cosine == pytest.approx(likeness, abs=0.01)


def asked(server: ModelServer) -> list[str]:
    return [text for request in server.requests for text in request.texts]


def stored_rows(store: str) -> int:
    """Messages and embeddings of all sessions."""
    statement = "SELECT count(*) FROM memoryd_messages"
    if not store.startswith("sqlite:"):
        return int(run_sql(store, statement))
    with contextlib.closing(sqlite3.connect(store.removeprefix("sqlite:"))) as database:
        return database.execute(statement).fetchone()[0]


def test_the_old_serve_until_the_new_are_complete(store, calls, session_id, first, second):
    fill(calls, session_id)
    before = found(calls, session_id)
    with held_at(second, TEXTS[200]) as waits:
        change(calls, session_id)
        assert waits.wait(60)
        known = embeddings(calls, session_id)
        assert (known.source.embedder, known.source.model, known.source.dimensions) == (
            "embed", "m", 16)
        made = known.next
        assert (made.source.embedder, made.source.model) == ("other", "n")
        assert (made.done_count, made.total_count) == (128, len(LINES) + COUNT)
        assert [job.state for job in jobs_of(calls, session_id)][-2:] == [DONE, OPEN]
        # As good as before, by the model that made them.
        assert found(calls, session_id) == before and first.requests[-1].texts == ["hound"]
        likenesses_hold(calls, session_id)
        # What comes meanwhile is found by its words.
        put(calls, session_id, "a puppy")
        reply = query(calls, session_id)
        assert list(reply.notices) == ["EMBEDDINGS_PENDING"] and reply.pending_embeddings == 1
        assert [r.message.text for r in reply.results] == before
        assert query(calls, session_id, "puppy").results[0].message.text == "a puppy"
        assert embeddings(calls, session_id).next.total_count == len(LINES) + COUNT + 1
    swapped(calls, session_id)
    count = len(first.requests)
    assert set(found(calls, session_id)[:2]) == {LINES[0], "a puppy"}
    likenesses_hold(calls, session_id)
    assert second.requests[-1].texts == ["hound"] and len(first.requests) == count
    # Each text was asked for once, and the old ones' rows go.
    texts = [text for text in asked(second) if text != "hound"]
    assert sorted(texts) == sorted([*LINES, *TEXTS, "a puppy"])
    wait_for(lambda: stored_rows(store) == 2 * (len(LINES) + COUNT + 1), 6000)


def test_a_swap_under_queries_loses_none_of_them(calls, session_id):
    """Each finds by what it means, whichever serves."""
    fill(calls, session_id)
    for embedder in ("other", "embed", "other"):
        change(calls, session_id, embedder)
        while embeddings(calls, session_id).HasField("next"):
            assert found(calls, session_id)[0] == LINES[0]
        assert found(calls, session_id)[0] == LINES[0]


@pytest.mark.parametrize("noticed_by", ("query", "put"))
def test_a_model_that_has_changed_behind_its_name(store, models, session_id, second, noticed_by):
    with serving(store, models) as calls:
        fill(calls, session_id)
    models.put_behind("embed", "other")
    with serving(store, models) as calls, held_at(second, TEXTS[200]) as waits:
        if noticed_by == "put":
            put(calls, session_id, "a puppy")
        else:
            query(calls, session_id)
        assert waits.wait(60)
        # The old model can't be asked any more: words rank, and the reply says so.
        reply = query(calls, session_id, "hound likes cheese")
        assert missing(reply) == {BLOCK: "EMBEDDING_MODEL"} and "NO_EMBEDDING" in reply.notices
        assert reply.results[0].message.text == LINES[2]
        assert not reply.results[0].parts_of_score.embedding
        known = embeddings(calls, session_id)
        assert (known.source.model, known.next.source.model) == ("m", "n")
    with serving(store, models) as calls:
        swapped(calls, session_id, ("embed", "n"))
        assert found(calls, session_id)[0] in (LINES[0], "a puppy")
        likenesses_hold(calls, session_id)


def test_a_change_that_is_taken_back_keeps_what_there_is(store, models, session_id, first, second):
    with serving(store, models) as calls:
        fill(calls, session_id)
    before = len(asked(first))
    with serving(store, models) as calls, held_at(second, TEXTS[200]) as waits:
        change(calls, session_id)
        assert waits.wait(60)
        put(calls, session_id, "a puppy")
        first_id = calls.all_messages(session_id)[0].message_id
        calls.UpdateMessage(session_id=session_id, message_id=first_id, text="It is a downpour")
        change(calls, session_id, "embed")
        assert not embeddings(calls, session_id).HasField("next")
    with serving(store, models) as calls:
        swapped(calls, session_id, ("embed", "m"))
        assert found(calls, session_id)[0] == "a puppy"
        likenesses_hold(calls, session_id)
        texts = [text for text in asked(first)[before:] if text != "hound"]
        assert sorted(texts) == ["It is a downpour", "a puppy"]
        wait_for(lambda: stored_rows(store) == 2 * (len(LINES) + COUNT + 1), 6000)


def test_a_kill_in_the_middle(store, models, session_id, second):
    with Server(store, arguments=models.arguments) as server, server.channel() as channel:
        calls = Calls(channel)
        fill(calls, session_id)
        with held_at(second, TEXTS[200]) as waits:
            change(calls, session_id)
            assert waits.wait(60)
            put(calls, session_id, "a puppy")
            server.kill()
    with serving(store, models) as calls:
        # The new ones may be complete by now.
        assert found_or_pending(calls, session_id)[0] in (LINES[0], "a puppy")
        swapped(calls, session_id)
        assert set(found(calls, session_id)[:2]) == {LINES[0], "a puppy"}
        likenesses_hold(calls, session_id)
        texts = asked(second)
        assert texts.count(LINES[0]) == 1, "what was made before is not asked for again"
        assert set(texts) == {*LINES, *TEXTS, "a puppy", "hound"}
        wait_for(lambda: stored_rows(store) == 2 * (len(LINES) + COUNT + 1), 6000)


def found_or_pending(calls, session_id: str) -> list[str]:
    reply = query(calls, session_id)
    assert not reply.missing_blocks
    return [result.message.text for result in reply.results]


def test_a_new_model_that_is_down_delays_nothing(store, models, session_id, second):
    with serving(store, models, "--job-attempts=2") as calls:
        fill(calls, session_id)
        second.lie("status", times=1_000_000, code=500)
        change(calls, session_id)
        # It is not given up, however often it fails: the session would have none.
        job = wait_for(lambda: next((j for j in jobs_of(calls, session_id, state=OPEN)
                                     if j.attempts > 3), None), 6000)
        assert job.block == BLOCK and "UNAVAILABLE" in job.last_error
        assert found(calls, session_id)[0] == LINES[0]
        put(calls, session_id, "a puppy")
        other = f"{session_id}-other"
        put(calls, other, *LINES, config=config())
        settled(calls, other)
        assert found(calls, other)[0] == LINES[0]
        second.be_honest()
        swapped(calls, session_id)
        assert set(found(calls, session_id)[:2]) == {LINES[0], "a puppy"}
        assert not jobs_of(calls, session_id, state=FAILED)


def test_an_embedder_that_is_gone_leaves_words(store, models, session_id, second):
    with serving(store, models) as calls:
        fill(calls, session_id)
    models.remove("embed")
    with serving(store, models) as calls, held_at(second, TEXTS[200]):
        change(calls, session_id)
        reply = query(calls, session_id, "hound likes cheese")
        assert missing(reply) == {BLOCK: "MODEL_NOT_FOUND"}
        assert reply.results[0].message.text == LINES[2]
    with serving(store, models) as calls:
        swapped(calls, session_id)
        assert found(calls, session_id)[0] == LINES[0]


def test_a_batch_that_can_never_be_embedded_is_skipped_by_hand(calls, session_id, second):
    fill(calls, session_id)
    with held_at(second, TEXTS[0]) as waits:
        change(calls, session_id)
        assert waits.wait(60)
        job = jobs_of(calls, session_id, state=OPEN)[0]
        calls.CancelJob(session_id=session_id, job_id=job.job_id)
    wait_for(lambda: not embeddings(calls, session_id).HasField("next"), 6000)
    assert query(calls, session_id).pending_embeddings == 128
    assert [j.job_id for j in jobs_of(calls, session_id, state=CANCELLED)] == [job.job_id]
    calls.RetryJob(session_id=session_id, job_id=job.job_id)
    settled(calls, session_id)
    assert found(calls, session_id)[0] == LINES[0]


def test_messages_that_are_changed_and_deleted_meanwhile(store, calls, session_id, second):
    fill(calls, session_id)
    ids = [message.message_id for message in calls.all_messages(session_id)]
    with held_at(second, TEXTS[200]) as waits:
        change(calls, session_id)
        assert waits.wait(60)
        # Some that the new model has had, and some that it has not.
        for index, text in ((1, "one puppy"), (2, None), (150, "two kittens"), (151, None),
                            (len(ids) - 1, "my puppy"), (len(ids) - 2, None)):
            if text is None:
                calls.DeleteMessage(session_id=session_id, message_id=ids[index])
            else:
                calls.UpdateMessage(session_id=session_id, message_id=ids[index], text=text)
        texts = [result.message.text for result in query(calls, session_id).results]
        assert texts[0] == LINES[0] and "one puppy" not in texts and "my puppy" not in texts
        assert LINES[2] not in texts
        likenesses_hold(calls, session_id)
    swapped(calls, session_id)
    assert set(found(calls, session_id)[:3]) == {LINES[0], "one puppy", "my puppy"}
    likenesses_hold(calls, session_id)
    wait_for(lambda: stored_rows(store) == 2 * (len(LINES) + COUNT - 3), 6000)


@pytest.mark.parametrize("how", ("Set", "Reset", "DeleteSession"))
def test_what_is_gone_meanwhile_comes_back_from_neither(store, calls, session_id, second, how):
    fill(calls, session_id)
    with held_at(second, TEXTS[200]) as waits:
        change(calls, session_id)
        assert waits.wait(60)
        if how == "Set":
            calls.Set(session_id=session_id, messages=[user("a hound")])
        else:
            getattr(calls, how)(session_id=session_id)
            put(calls, session_id, "a hound", config=None if how == "Reset" else config())
    settled(calls, session_id)
    assert found(calls, session_id, "puppy") == ["a hound"]
    wait_for(lambda: stored_rows(store) == 2, 6000)


def test_a_copy_goes_on_by_itself(calls, session_id, second):
    fill(calls, session_id)
    copy = f"{session_id}-copy"
    with held_at(second, TEXTS[200]) as waits:
        change(calls, session_id)
        assert waits.wait(60)
        calls.ForkSession(session_id=session_id, new_session_id=copy)
        assert found(calls, copy)[0] == LINES[0]
        calls.DeleteSession(session_id=session_id)
    swapped(calls, copy)
    assert found(calls, copy)[0] == LINES[0]
    likenesses_hold(calls, copy)


def test_the_state_is_shown_from_the_beginning(calls, session_id):
    def refused():
        return refusal(calls.GetBlock, session_id=session_id, block=BLOCK).code()

    assert refused() == grpc.StatusCode.NOT_FOUND
    calls.CreateSession(session_id=session_id, config=config(embedder=""))
    assert refused() == grpc.StatusCode.NOT_FOUND
    change(calls, session_id, "embed")
    reply = calls.GetBlock(session_id=session_id, block=BLOCK)
    assert (reply.block.name, reply.embeddings.source.embedder) == (BLOCK, "embed")
    assert not reply.embeddings.source.dimensions and not reply.jobs_made
    put(calls, session_id, *LINES)
    settled(calls, session_id)
    reply = calls.GetBlock(session_id=session_id, block=BLOCK)
    assert reply.embeddings.source.dimensions == 16 and reply.jobs_ended == reply.jobs_made == 1


# ---- Entries of vector blocks ----

VECTORS = "vectors"
OTHER = ("other", "n")


def vectors(embedder: str = "embed", **options):
    """A session whose one block tells the entry that is most like the input."""
    return every_turn(block(VECTORS, "vector", embedder=embedder, top_k=1,
                            retrieval_context_window=1, **options))


def fill_block(calls, session_id: str) -> None:
    put(calls, session_id, *LINES, *TEXTS, "the end", config=vectors())
    jobs = drained(calls, session_id)
    assert {job.state for job in jobs} == {DONE}, jobs
    # ListJobs reads the store, which may be ahead of what a GetBlock sees by a moment.
    wait_for(lambda: known_entries(calls, session_id).entry_count == len(LINES) + COUNT)


def change_block(calls, session_id: str, embedder: str = "other") -> None:
    calls.UpdateSession(session_id=session_id, config=vectors(embedder))


def known_entries(calls, session_id: str):
    return calls.GetBlock(session_id=session_id, block=VECTORS).entries


def told(calls, session_id: str, text: str = "hound") -> str:
    reply = calls.Get(session_id=session_id, input=text)
    assert not reply.missing_blocks
    return memory_text(reply)


def shown(calls, session_id: str) -> list[tuple]:
    return [(entry.position, entry.text, [source.message_id for source in entry.sources])
            for entry in calls.all_entries(session_id, VECTORS)]


def served_by(calls, session_id: str, source=OTHER) -> None:
    """Waits until what `source` made serves, and no job is open."""
    def serves():
        known = known_entries(calls, session_id)
        return (known.source.embedder, known.source.model) == source and not known.HasField("next")
    wait_for(serves, 6000)
    drained(calls, session_id)


def test_entries_serve_until_the_new_are_complete(store, calls, session_id, first, second):
    fill_block(calls, session_id)
    before = shown(calls, session_id)
    with held_at(second, f"user: {TEXTS[200]}") as waits:
        change_block(calls, session_id)
        assert waits.wait(60)
        known = known_entries(calls, session_id)
        assert (known.source.embedder, known.source.model) == ("embed", "m")
        assert (known.next.source.embedder, known.next.source.model) == OTHER
        assert (known.next.done_count, known.next.total_count) == (128, len(before))
        # As good as before, by the model that made them, though more has been said.
        put(calls, session_id, "a puppy")
        put(calls, session_id, "another end")
        assert LINES[0] in told(calls, session_id) and first.requests[-1].texts == ["hound"]
    served_by(calls, session_id)
    assert "a puppy" in told(calls, session_id) and second.requests[-1].texts == ["hound"]
    after = shown(calls, session_id)
    assert after[:len(before)] == before and len(after) == len(before) + 2
    # Each text was asked for once, and the old ones' rows go.
    texts = [text for text in asked(second) if text != "hound"]
    assert sorted(texts) == sorted(text for _, text, _ in after)
    wait_for(lambda: stored_rows(store) == 2 * len(after) + 1, 6000)
    assert {job.state for job in jobs_of(calls, session_id)} == {DONE}


def test_entries_by_a_model_that_has_changed_behind_its_name(store, models, session_id, second):
    with serving(store, models) as calls:
        fill_block(calls, session_id)
    models.put_behind("embed", "other")
    with serving(store, models) as calls, held_at(second, f"user: {TEXTS[200]}") as waits:
        # What made them can't be asked any more, and vectors of two models are never compared.
        assert missing(calls.Get(session_id=session_id, input="hound")) == {
            VECTORS: "EMBEDDING_MODEL"}
        put(calls, session_id, "a puppy")
        assert waits.wait(60)
        known = known_entries(calls, session_id)
        assert (known.source.model, known.next.source.model) == ("m", "n")
        put(calls, session_id, "another end")
    with serving(store, models) as calls:
        served_by(calls, session_id, ("embed", "n"))
        assert "a puppy" in told(calls, session_id)
        assert known_entries(calls, session_id).entry_count == len(LINES) + COUNT + 2


@pytest.mark.parametrize("fed", (False, True))
def test_entries_of_a_change_that_is_taken_back(store, models, session_id, first, second, fed):
    with serving(store, models) as calls:
        fill_block(calls, session_id)
        before = len(asked(first))
        second.lie("status", times=1_000_000, code=500)
        change_block(calls, session_id)
        wait_for(lambda: any(job.attempts > 1 for job in jobs_of(calls, session_id, state=OPEN)))
        put(calls, session_id, "a puppy")
        put(calls, session_id, "another end")
        if fed:
            # Then all of it is to be made anew once more.
            second.be_honest()
            served_by(calls, session_id)
        change_block(calls, session_id, "embed")
        served_by(calls, session_id, ("embed", "m"))
        assert "a puppy" in told(calls, session_id)
        texts = [text for text in asked(first)[before:] if text != "hound"]
        assert len(texts) == (len(LINES) + COUNT + 2 if fed else 2)
        wait_for(lambda: stored_rows(store) == 2 * (len(LINES) + COUNT + 2) + 1, 6000)


def test_entries_after_a_kill_in_the_middle(store, models, session_id, second):
    with Server(store, arguments=models.arguments) as server, server.channel() as channel:
        calls = Calls(channel)
        fill_block(calls, session_id)
        with held_at(second, f"user: {TEXTS[200]}") as waits:
            change_block(calls, session_id)
            assert waits.wait(60)
            put(calls, session_id, "a puppy")
            put(calls, session_id, "another end")
            server.kill()
    with serving(store, models) as calls:
        served_by(calls, session_id)
        assert "a puppy" in told(calls, session_id)
        assert asked(second).count(f"user: {LINES[0]}") == 1, "what was made is not made again"
        assert known_entries(calls, session_id).entry_count == len(LINES) + COUNT + 2
        wait_for(lambda: stored_rows(store) == 2 * (len(LINES) + COUNT + 2) + 1, 6000)


def test_entries_by_a_new_model_that_is_down(store, models, session_id, second):
    with serving(store, models, "--job-attempts=2") as calls:
        fill_block(calls, session_id)
        second.lie("status", times=1_000_000, code=500)
        change_block(calls, session_id)
        # It is not given up, however often it fails.
        job = wait_for(lambda: next((j for j in jobs_of(calls, session_id, state=OPEN)
                                     if j.attempts > 3), None), 6000)
        put(calls, session_id, "a puppy")
        assert LINES[0] in told(calls, session_id)
        # By hand it is: the old ones go on to serve, until more has been said.
        calls.CancelJob(session_id=session_id, job_id=job.job_id)
        assert not known_entries(calls, session_id).HasField("next")
        assert LINES[0] in told(calls, session_id)
        second.be_honest()
        put(calls, session_id, "another end")
        served_by(calls, session_id)
        assert "a puppy" in told(calls, session_id)
        assert known_entries(calls, session_id).entry_count == len(LINES) + COUNT + 2


def test_entries_without_a_vector_get_one_of_the_old_model(calls, session_id, second):
    fill_block(calls, session_id)
    second.lie("status", times=1_000_000, code=500)
    change_block(calls, session_id)
    put(calls, session_id, "a puppy")
    put(calls, session_id, "another end")
    job = jobs_of(calls, session_id, state=OPEN)[0]
    calls.CancelJob(session_id=session_id, job_id=job.job_id)
    # The attempt that was cancelled is over once the next job asks.
    wait_for(lambda: "user: the end" in asked(second))
    with held_at(second, f"user: {LINES[0]}") as waits:
        # The jobs behind it are answered by the new model, and begin it once more.
        second.be_honest()
        assert waits.wait(60)
        job, = jobs_of(calls, session_id, state=OPEN)
        calls.CancelJob(session_id=session_id, job_id=job.job_id)
        assert not known_entries(calls, session_id).HasField("next")
        change_block(calls, session_id, "embed")
        assert known_entries(calls, session_id).HasField("next")
    served_by(calls, session_id, ("embed", "m"))
    assert "a puppy" in told(calls, session_id)
    assert "the end" in told(calls, session_id, "the end")


def test_a_text_that_the_new_model_refuses_holds_up_no_other(store, models, session_id, second):
    with serving(store, models, "--job-attempts=6") as calls:
        fill_block(calls, session_id)
        second.refused.add(f"user: {TEXTS[40]}")
        change_block(calls, session_id)
        put(calls, session_id, "a puppy")
        put(calls, session_id, "another end")
        served_by(calls, session_id)
        assert "a puppy" in told(calls, session_id)
        entries = calls.all_entries(session_id, VECTORS)
        assert [entry.text for entry in entries if not entry.dimensions] == [
            f"user: {TEXTS[40]}"]
        assert len(entries) == len(LINES) + COUNT + 2


def test_entries_that_are_taken_out_meanwhile(store, calls, session_id, second):
    fill_block(calls, session_id)
    ids = [message.message_id for message in calls.all_messages(session_id)]
    with held_at(second, f"user: {TEXTS[200]}") as waits:
        change_block(calls, session_id)
        assert waits.wait(60)
        # Some that the new model has had, one that it is asked for, and some that it has not.
        for index in (1, 2, len(LINES) + 200, len(LINES) + 201, len(ids) - 2):
            calls.DeleteMessage(session_id=session_id, message_id=ids[index])
        calls.UpdateMessage(session_id=session_id, message_id=ids[3], text="my own puppy")
        left = len(LINES) + COUNT - 5
        wait_for(lambda: known_entries(calls, session_id).entry_count == left - 1, 6000)
        assert LINES[0] in told(calls, session_id)
    served_by(calls, session_id)
    assert "my own puppy" in told(calls, session_id)
    texts = [text for _, text, _ in shown(calls, session_id)]
    assert len(texts) == known_entries(calls, session_id).entry_count == left
    assert f"user: {LINES[1]}" not in texts and f"user: {TEXTS[200]}" not in texts
    wait_for(lambda: stored_rows(store) == 2 * left + 1, 6000)


@pytest.mark.parametrize("how", ("Set", "DeleteSession"))
def test_entries_that_are_gone_meanwhile(store, calls, session_id, second, how):
    fill_block(calls, session_id)
    with held_at(second, f"user: {TEXTS[200]}") as waits:
        change_block(calls, session_id)
        assert waits.wait(60)
        if how == "Set":
            calls.Set(session_id=session_id, messages=[user("a hound")])
        else:
            calls.DeleteSession(session_id=session_id)
            put(calls, session_id, "a hound", config=vectors())
    wait_for(lambda: stored_rows(store) == 1, 6000)
    put(calls, session_id, "the end")
    drained(calls, session_id)
    assert [text for _, text, _ in shown(calls, session_id)] == ["user: a hound"]


def test_a_copy_makes_its_entries_by_itself(calls, session_id, second):
    fill_block(calls, session_id)
    before = shown(calls, session_id)
    copy = f"{session_id}-copy"
    with held_at(second, f"user: {TEXTS[200]}") as waits:
        change_block(calls, session_id)
        assert waits.wait(60)
        calls.ForkSession(session_id=session_id, new_session_id=copy)
        assert LINES[0] in told(calls, copy)
        calls.DeleteSession(session_id=session_id)
    served_by(calls, copy)
    assert LINES[0] in told(calls, copy)
    assert [entry[:2] for entry in shown(calls, copy)] == [entry[:2] for entry in before]
