"""Jobs: models may hang, fail and lie, and nothing is lost, doubled or held up."""

from __future__ import annotations

import contextlib
import itertools
import threading

import grpc
import pytest

from support import job_load
from support.access import Caller, credential, write_credentials
from support.blocks import (
    CANCELLED,
    DONE,
    FAILED,
    OPEN,
    WAIT,
    block,
    drained,
    every_turn,
    field_of,
    jobs_of,
    memory_text,
    missing,
    models_file,
    section,
    turn,
)
from support.calls import Calls, memory, reason, refusal, user
from support.job_load import kill_amid_jobs
from support.metrics import scrape, value
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store
from support.waiting import wait_for

import memoryd

NOT_FOUND = grpc.StatusCode.NOT_FOUND
FAILED_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
INVALID = grpc.StatusCode.INVALID_ARGUMENT
# A test's own jobs are tried again soon; those that must fail for good have a server of their own.
RETRY = "--job-retry-ms=20"


@pytest.fixture(scope="module")
def models():
    with ModelServer() as server:
        yield server


@pytest.fixture(autouse=True)
def honest(models):
    models.be_honest()
    models.set_replies(["<facts></facts>"])


def running(store: str, models: ModelServer, folder, *arguments: str, **settings) -> Server:
    return Server(store, arguments=[
        models_file(folder, models, {"timeout_ms": 2000, **settings}), RETRY,
        "--metrics-listen=127.0.0.1:0", *arguments])


@pytest.fixture(scope="module")
def patient(store_kind, models, tmp_path_factory):
    """A server that never gives a job up."""
    with fresh_store(store_kind) as store, \
            running(store, models, tmp_path_factory.mktemp("patient"), "--job-attempts=1000",
                    timeout_ms=60000) as server:
        yield server


@pytest.fixture(scope="module")
def calls(patient):
    with patient.channel() as channel:
        yield Calls(channel)


@pytest.fixture(scope="module")
def hasty_calls(store_kind, models, tmp_path_factory):
    """Calls to a server that gives a job up after its second attempt, and an answer soon."""
    with fresh_store(store_kind) as store, \
            running(store, models, tmp_path_factory.mktemp("hasty"), "--job-attempts=2") as server, \
            server.channel() as channel:
        yield Calls(channel)


FACTS = block("facts", "fact-extraction", model="chat")
VECTORS = block("vectors", "vector", embedder="embed", top_k=100)


def fact(text: str) -> str:
    return f'<facts><fact evidence="1">{text}</fact></facts>'


def facts_of(calls: Calls, session_id: str) -> list[str]:
    lines = section(calls.Get(session_id=session_id), "facts")
    return [line.removeprefix("<fact>").removesuffix("</fact>") for line in lines]


def texts_of(calls: Calls, session_id: str) -> list[str]:
    return [m.text for m in calls.all_messages(session_id)]


def settled(server: Server) -> None:
    """Returns when no model is asked any more."""
    def open_calls() -> float:
        series = scrape(server.metrics)
        return sum(value(series, "memoryd_model_calls_open", model=m) for m in ("chat", "embed"))

    wait_for(lambda: open_calls() == 0)


# Models that hang, fail and lie.


def test_a_put_does_not_wait_for_a_model_that_hangs(calls, models, session_id):
    models.set_replies([fact("Logan has a dog.")])
    texts = [f"Message {number}" for number in range(20)]
    with models.hanging():
        before = len(models.requests)
        for number, text in enumerate(texts):
            reply = calls.Put(session_id=session_id, messages=[user(text)],
                              config=every_turn(FACTS, VECTORS))
            assert {(job.block, job.state) for job in reply.open_jobs} == (
                {("facts", "OPEN"), ("vectors", "OPEN")} if number else set())
            got = calls.Get(session_id=session_id)
            assert [m.text for m in got.messages] == [text]
            assert not got.missing_blocks
        # One job of a block at a time.
        models.wait_for_requests(before + 2)
        assert len(models.requests) == before + 2
        waited = calls.Put(session_id=session_id, messages=[user("Last")],
                           wait={"nanos": 200_000_000})
        assert [(job.block, job.state, job.error) for job in waited.open_jobs] == [
            ("facts", "OPEN", ""), ("vectors", "OPEN", "")]
        assert texts_of(calls, session_id) == [*texts, "Last"]
        jobs = jobs_of(calls, session_id)
        assert [(job.block, job.state) for job in jobs] == (
            [("facts", OPEN)] * 20 + [("vectors", OPEN)] * 20)
        assert {job.job_id for job in waited.open_jobs} <= {job.job_id for job in jobs}
    jobs = drained(calls, session_id)
    assert [(job.state, job.attempts, job.last_error) for job in jobs] == [(DONE, 1, "")] * 40
    assert facts_of(calls, session_id) == ["Logan has a dog."]
    found = section(calls.Get(session_id=session_id), "vectors")
    assert sorted(line for line in found if line.startswith("user: ")) == sorted(
        f"user: {text}" for text in texts)


LIES = (
    ("status", {}), ("status", {"code": 429}), ("status", {"code": 503, "retry_after": "3600"}),
    ("status", {"code": 401}), ("half_json", {}), ("large", {}), ("endless", {}), ("redirect", {}),
    ("cut", {}), ("short_length", {}), ("empty_choices", {}),
)


@pytest.mark.parametrize("lie, details", LIES, ids=lambda v: str(v).strip("{}").replace(" ", ""))
def test_a_model_that_lies_loses_nothing(calls, models, session_id, lie, details):
    models.set_replies([fact("Logan has a dog.")])
    models.lie(lie, 1000, **details)
    calls.Put(session_id=session_id, messages=turn("My dog is Rex"), config=every_turn(FACTS))
    reply = calls.Put(session_id=session_id, messages=[user("Hi")])
    assert [job.block for job in reply.open_jobs] == ["facts"]
    job_id = reply.open_jobs[0].job_id
    job = wait_for(lambda: (j := calls.GetJob(session_id=session_id, job_id=job_id).job).last_error
                   and j)
    assert (job.job_id, job.block, job.state) == (job_id, "facts", OPEN)
    (behind,) = reply.positions
    assert (job.begin_position, job.end_position) == (behind - 2, behind)
    assert job.attempts >= 1 and job.HasField("due_time")
    assert not any(secret in job.last_error for secret in ("127.0.0.1", "Rex", "Logan"))
    got = calls.Get(session_id=session_id)
    assert [m.text for m in got.messages] == ["Hi"] and not got.missing_blocks
    models.be_honest()
    (job,) = drained(calls, session_id)
    assert (job.state, job.attempts >= 2) == (DONE, True)
    assert facts_of(calls, session_id) == ["Logan has a dog."]
    assert texts_of(calls, session_id) == ["My dog is Rex", "I see.", "Hi"]


@pytest.mark.parametrize("lie", ("wrong_dimensions", "nan", "half_json", "status"))
def test_an_embedder_that_lies_loses_nothing(calls, models, session_id, lie):
    models.lie(lie, 1000)
    calls.Put(session_id=session_id, messages=[user("My dog is Rex")], config=every_turn(VECTORS))
    calls.Put(session_id=session_id, messages=[user("Who is Rex")])
    wait_for(lambda: jobs_of(calls, session_id)[0].last_error)
    assert memory_text(calls.Get(session_id=session_id)) == ""
    models.be_honest()
    assert [job.state for job in drained(calls, session_id)] == [DONE]
    assert section(calls.Get(session_id=session_id), "vectors") == [
        "<messages>", "user: My dog is Rex", "</messages>"]
    # As the answer to a query.
    models.lie(lie)
    got = calls.Get(session_id=session_id)
    assert set(missing(got)) == {"vectors"} and [m.text for m in got.messages] == ["Who is Rex"]


def test_an_answer_that_comes_too_late_is_none(hasty_calls, models, session_id):
    calls = hasty_calls
    models.set_replies([fact("Logan has a dog.")])
    models.lie("late")
    calls.Put(session_id=session_id, messages=[user("One")], config=every_turn(FACTS))
    assert not calls.Put(session_id=session_id, messages=[user("Two")], wait=WAIT).open_jobs
    (job,) = jobs_of(calls, session_id)
    assert (job.state, job.attempts) == (DONE, 2)
    assert "DEADLINE_EXCEEDED" in job.last_error
    assert facts_of(calls, session_id) == ["Logan has a dog."]


@pytest.mark.parametrize("nonsense", ("", "I can't do that.", "{}", "<facts>", "\x00\x07",
                                      "<fact></fact>", "[[[[", "</facts></memory>"))
def test_nonsense_takes_no_fact_away(calls, models, session_id, nonsense):
    config = every_turn(block("facts", "fact-extraction", model="chat", max_facts=2,
                              facts=["Told at first."]))
    calls.Put(session_id=session_id, messages=[user("One")], config=config)
    known = ["Told at first."]
    # The second one is one too many: what is to condense them answers nonsense.
    for number, replies in enumerate(([fact("A dog.")], [nonsense], [fact("A cat."), nonsense],
                                      [nonsense])):
        models.set_replies(replies)
        reply = calls.Put(session_id=session_id, messages=[user(str(number))], wait=WAIT)
        assert not reply.open_jobs
        if replies[0] != nonsense:
            known.append(replies[0].split(">")[2].removesuffix("</fact"))
        assert facts_of(calls, session_id) == known
    assert [job.state for job in jobs_of(calls, session_id)] == [DONE] * 4


# Giving up, and what follows.


def give_up(calls: Calls, models: ModelServer, session_id: str) -> str:
    """A session whose first job has failed and whose second is done; the first one's id."""
    models.set_replies([fact("Second.")])
    models.lie("status", 2)
    calls.Put(session_id=session_id, messages=[user("One")], config=every_turn(FACTS))
    failed = calls.Put(session_id=session_id, messages=[user("Two")], wait=WAIT)
    (job,) = failed.open_jobs
    assert (job.block, job.state) == ("facts", "FAILED") and job.error
    assert not calls.Put(session_id=session_id, messages=[user("Three")], wait=WAIT).open_jobs
    return job.job_id


def test_a_job_is_given_up_and_later_ones_go_on(hasty_calls, models, session_id):
    calls = hasty_calls
    job_id = give_up(calls, models, session_id)
    first, second = jobs_of(calls, session_id)
    assert (first.job_id, first.state, first.attempts) == (job_id, FAILED, 2)
    assert first.last_error and not first.HasField("due_time")
    assert first.end_position == second.begin_position == first.begin_position + 1
    assert (second.state, second.attempts, second.last_error) == (DONE, 1, "")
    assert facts_of(calls, session_id) == ["Second."]

    # Its messages are fed after all, behind the others.
    models.set_replies([fact("First.")])
    before = len(models.requests)
    retried = calls.RetryJob(session_id=session_id, job_id=job_id).job
    assert retried.job_id != job_id and retried.state in (OPEN, DONE)
    assert (retried.begin_position, retried.end_position) == (
        first.begin_position, first.end_position)
    states = [(job.job_id, job.state) for job in drained(calls, session_id)]
    assert states == [(job_id, FAILED), (second.job_id, DONE), (retried.job_id, DONE)]
    assert facts_of(calls, session_id) == ["Second.", "First."]
    asked = "".join(models.requests[before].texts)
    assert "One" in asked and "Two" not in asked


def test_only_what_failed_or_was_cancelled_can_be_retried(hasty_calls, models, session_id):
    calls = hasty_calls
    job_id = give_up(calls, models, session_id)
    done = jobs_of(calls, session_id)[1].job_id
    error = refusal(calls.RetryJob, session_id=session_id, job_id=done)
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "JOB_NOT_FAILED")
    # Neither when its block is gone.
    other = every_turn(block("other", "static"))
    calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(blocks=other.blocks))
    error = refusal(calls.RetryJob, session_id=session_id, job_id=job_id)
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "JOB_OBSOLETE")


@pytest.mark.parametrize("scope", ("RESET_SCOPE_ARCHIVED", "RESET_SCOPE_MESSAGES"))
def test_a_job_whose_messages_are_gone_is_obsolete(hasty_calls, models, session_id, scope):
    calls = hasty_calls
    job_id = give_up(calls, models, session_id)
    calls.Reset(session_id=session_id, scope=scope)
    before = len(models.requests)
    error = refusal(calls.RetryJob, session_id=session_id, job_id=job_id)
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "JOB_OBSOLETE")
    assert facts_of(calls, session_id) == ["Second."]
    assert len(models.requests) == before


def test_a_job_can_be_cancelled_and_retried(calls, models, patient, session_id):
    models.set_replies([fact("Late.")])
    with models.hanging():
        before = len(models.requests)
        calls.Put(session_id=session_id, messages=[user("One")], config=every_turn(FACTS))
        for text in ("Two", "Three"):
            calls.Put(session_id=session_id, messages=[user(text)])
        models.wait_for_requests(before + 1)
        first, second = jobs_of(calls, session_id)
        error = refusal(calls.CancelJob, session_id=session_id, job_id=second.job_id)
        assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "JOB_NOT_FIRST")
        cancelled = calls.CancelJob(session_id=session_id, job_id=first.job_id).job
        assert (cancelled.job_id, cancelled.state) == (first.job_id, CANCELLED)
        error = refusal(calls.CancelJob, session_id=session_id, job_id=first.job_id)
        assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "JOB_NOT_FIRST")
    assert [job.state for job in drained(calls, session_id)] == [CANCELLED, DONE]
    settled(patient)
    # What was answered to the cancelled one is forgotten; the second has asked with no fact known.
    asked = ["".join(request.texts) for request in models.requests[before:]]
    assert len(asked) == 2 and "Late." not in asked[1] and "Two" in asked[1]
    models.set_replies([fact("Retried.")])
    retried = calls.RetryJob(session_id=session_id, job_id=first.job_id).job
    assert drained(calls, session_id)[-1].job_id == retried.job_id
    assert facts_of(calls, session_id) == ["Late.", "Retried."]


# What replaces a session also ends what was under way.


def replace_by_set(calls: Calls, session_id: str) -> None:
    calls.Set(session_id=session_id, messages=[user("New")])


def replace_by_reset(calls: Calls, session_id: str) -> None:
    calls.Reset(session_id=session_id)
    calls.Put(session_id=session_id, messages=[user("New")])


def replace_by_delete(calls: Calls, session_id: str) -> None:
    calls.DeleteSession(session_id=session_id)
    calls.Put(session_id=session_id, messages=[user("New")], config=every_turn(FACTS, VECTORS))


def replace_blocks(calls: Calls, session_id: str) -> None:
    for blocks in ([block("core", "static")], [FACTS, VECTORS]):
        calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(blocks=blocks))


@pytest.mark.parametrize("replace", (replace_by_set, replace_by_reset, replace_by_delete,
                                     replace_blocks))
def test_nothing_comes_back(calls, models, patient, session_id, replace):
    models.set_replies([fact("Old.")])
    with models.hanging():
        before = len(models.requests)
        calls.Put(session_id=session_id, messages=[user("Old one")],
                  config=every_turn(FACTS, VECTORS))
        for number in range(3):
            calls.Put(session_id=session_id, messages=[user(f"Old {number}")])
        models.wait_for_requests(before + 2)
        assert len(jobs_of(calls, session_id, state=OPEN)) == 6
        replace(calls, session_id)
        assert not jobs_of(calls, session_id, state=OPEN)
    settled(patient)
    # Whatever was answered has been dropped by now: the new job of each block ran behind it.
    models.set_replies([fact("New.")])
    assert not calls.Put(session_id=session_id, messages=[user("And now?")], wait=WAIT).open_jobs
    reply = calls.Get(session_id=session_id)
    assert section(reply, "facts") == ["<fact>New.</fact>"]
    fed = "New" if replace != replace_blocks else "Old 2"
    assert section(reply, "vectors") == ["<messages>", f"user: {fed}", "</messages>"]
    done = [job for job in jobs_of(calls, session_id) if job.state == DONE]
    assert [job.block for job in done] == ["facts", "vectors"]
    settled(patient)
    assert memory_text(calls.Get(session_id=session_id)) == memory_text(reply)
    # The two of before, the two of now, and the two queries of the Gets.
    assert len(models.requests) == before + 6


def test_reset_of_messages_keeps_what_blocks_know(calls, models, patient, session_id):
    models.set_replies([fact("Kept."), fact("Lost.")])
    calls.Put(session_id=session_id, messages=[user("One")], config=every_turn(FACTS))
    calls.Put(session_id=session_id, messages=[user("Two")], wait=WAIT)
    with models.hanging():
        before = len(models.requests)
        calls.Put(session_id=session_id, messages=[user("Three")])
        models.wait_for_requests(before + 1)
        calls.Reset(session_id=session_id, scope="RESET_SCOPE_MESSAGES")
        assert [job.state for job in jobs_of(calls, session_id)] == [DONE, CANCELLED]
    settled(patient)
    models.set_replies([fact("After.")])
    for text in ("Four", "Five"):
        calls.Put(session_id=session_id, messages=[user(text)], wait=WAIT)
    assert facts_of(calls, session_id) == ["Kept.", "After."]


# Before the reply.


def test_blocks_can_be_fed_before_the_reply(calls, models, session_id):
    models.set_replies([fact("Logan has a dog.")])
    config = every_turn(FACTS, VECTORS, feed=memory.FEED_BEFORE_REPLY)
    assert not calls.Put(session_id=session_id, messages=[user("One")], config=config).open_jobs
    assert not calls.Put(session_id=session_id, messages=[user("Two")]).open_jobs
    assert facts_of(calls, session_id) == ["Logan has a dog."]
    models.lie("status")
    reply = calls.Put(session_id=session_id, messages=[user("Three")])
    assert [(job.block, job.state) for job in reply.open_jobs] == [("facts", "OPEN")]
    assert reply.open_jobs[0].error
    assert texts_of(calls, session_id) == ["One", "Two", "Three"]
    assert [job.state for job in drained(calls, session_id)] == [DONE] * 4


def test_a_model_that_hangs_ends_the_wait_before_the_deadline(calls, models, session_id):
    config = every_turn(FACTS, feed=memory.FEED_BEFORE_REPLY)
    calls.Put(session_id=session_id, messages=[user("One")], config=config)
    with models.hanging():
        for text in ("Two", "Three"):
            reply = calls.Put(session_id=session_id, messages=[user(text)], timeout=1.5)
            assert [(job.block, job.state) for job in reply.open_jobs] == [("facts", "OPEN")]
        assert texts_of(calls, session_id) == ["One", "Two", "Three"]
        # A longer wait than the deadline allows ends before it, too.
        other = f"{session_id}-after"
        calls.Put(session_id=other, messages=[user("One")], config=every_turn(FACTS))
        reply = calls.Put(session_id=other, messages=[user("Two")], wait={"seconds": 60},
                          timeout=1.5)
        assert [(job.block, job.state) for job in reply.open_jobs] == [("facts", "OPEN")]
    for session in (session_id, other):
        assert {job.state for job in drained(calls, session)} == {DONE}


def test_wait_must_not_be_negative(calls, session_id):
    error = refusal(calls.Put, session_id=session_id, messages=[user("a")], wait={"seconds": -1})
    assert (error.code(), field_of(error)) == (INVALID, "wait")
    assert texts_of(calls, session_id) == []


def test_a_request_that_is_repeated_causes_no_second_job(calls, models, session_id):
    models.set_replies([fact("Logan has a dog.")])
    calls.Put(session_id=session_id, messages=[user("One")], config=every_turn(FACTS))
    fields = {"session_id": session_id, "messages": [user("Two")], "request_id": "r"}
    first = calls.Put(**fields, wait=WAIT)
    again = calls.Put(**fields)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.positions == first.positions
    assert [job.state for job in jobs_of(calls, session_id)] == [DONE]


# JobService.


def test_jobs_are_listed_by_block_then_as_made(hasty_calls, models, session_id):
    calls = hasty_calls
    models.set_replies([fact("x")])
    config = every_turn(VECTORS, block("a", "worker", worker="nobody"), FACTS)
    calls.Put(session_id=session_id, messages=[user("0")], config=config)
    for number in range(1, 8):
        calls.Put(session_id=session_id, messages=[user(str(number))])
    wait_for(lambda: len(jobs_of(calls, session_id, state=DONE)) == 14)
    every = jobs_of(calls, session_id)
    assert [job.block for job in every] == ["a"] * 7 + ["facts"] * 7 + ["vectors"] * 7
    for name in ("a", "facts", "vectors"):
        begins = [job.begin_position for job in every if job.block == name]
        assert begins == sorted(set(begins)) and len(begins) == 7
    assert len({job.job_id for job in every}) == 21
    ids = [job.job_id for job in every]
    for size in (1, 4, 20, 21, 1000):
        assert [job.job_id for job in jobs_of(calls, session_id, page_size=size)] == ids
    for state, expected in ((OPEN, ids[:7]), (DONE, ids[7:]), (FAILED, []), (CANCELLED, [])):
        found = jobs_of(calls, session_id, page_size=3, state=state)
        assert [job.job_id for job in found] == expected
    page = calls.ListJobs(session_id=session_id, page_size=4)
    assert len(page.jobs) == 4 and page.next_page_token
    for fields in ({"session_id": session_id, "state": DONE}, {"session_id": session_id + "x"}):
        error = refusal(calls.ListJobs, page_token=page.next_page_token, **fields)
        assert (error.code(), field_of(error)) == (INVALID, "page_token")
    job = calls.GetJob(session_id=session_id, job_id=ids[-1]).job
    assert job == every[-1]
    assert job.create_time.ToMicroseconds() <= job.update_time.ToMicroseconds()


@pytest.mark.parametrize("method, fields, code, why", (
    ("ListJobs", {"session_id": ""}, INVALID, "session_id"),
    ("ListJobs", {"session_id": "s", "page_size": -1}, INVALID, "page_size"),
    ("ListJobs", {"session_id": "s", "page_token": "x"}, INVALID, "page_token"),
    ("ListJobs", {"session_id": "s", "state": 99}, INVALID, "state"),
    *((method, fields, INVALID, why)
      for method in ("GetJob", "RetryJob", "CancelJob")
      for fields, why in (({"session_id": "s", "job_id": ""}, "job_id"),
                          ({"session_id": "s", "job_id": "x"}, "job_id"),
                          ({"session_id": "s", "job_id": "1-0-b"}, "job_id"),
                          ({"session_id": "s", "job_id": "x" * 129}, "job_id"),
                          ({"session_id": "", "job_id": "1"}, "session_id"))),
))
def test_a_wrong_request_names_its_field(calls, method, fields, code, why):
    error = refusal(getattr(calls, method), **fields)
    assert (error.code(), field_of(error)) == (code, why), error


def test_a_job_of_nobody_is_not_found(calls, models, session_id):
    assert not jobs_of(calls, session_id)
    calls.Put(session_id=session_id, messages=[user("One")], config=every_turn(FACTS))
    calls.Put(session_id=session_id, messages=[user("Two")], wait=WAIT)
    (job,) = jobs_of(calls, session_id)
    generation, _, _ = job.job_id.split("-")
    for session, job_id in ((session_id, f"{generation}-7-facts"),
                            (session_id, f"{generation}-1-other"),
                            (session_id + "x", job.job_id)):
        for method in (calls.GetJob, calls.RetryJob, calls.CancelJob):
            error = refusal(method, session_id=session, job_id=job_id)
            assert (error.code(), reason(error)) == (NOT_FOUND, "JOB_NOT_FOUND")
    # None of it has made a session or a job.
    error = refusal(calls.GetSession, session_id=session_id + "x")
    assert error.code() == NOT_FOUND
    assert jobs_of(calls, session_id) == [job]


def test_what_models_took_is_counted(calls, models, patient, session_id):
    models.set_replies(["<facts> <fact>one two three</fact> </facts>"])
    series = scrape(patient.metrics)
    calls.Put(session_id=session_id, messages=[user("One")], config=every_turn(FACTS, VECTORS))
    before, used = len(models.requests), calls.GetUsage()
    calls.Put(session_id=session_id, messages=[user("Two")], wait=WAIT)
    asked = models.requests[before:]
    prompt = {"facts": 0, "vectors": 0}
    for request in asked:
        name = "vectors" if request.path.endswith("/embeddings") else "facts"
        prompt[name] += sum(len(text.split()) for text in request.texts)
    assert prompt["facts"] > 100 and prompt["vectors"] > 0
    facts, vectors = jobs_of(calls, session_id)
    answered = len("<facts> <fact>one two three</fact> </facts>".split())
    assert (facts.usage.calls, facts.usage.prompt_tokens, facts.usage.completion_tokens) == (
        1, prompt["facts"], answered)
    assert (vectors.usage.calls, vectors.usage.prompt_tokens) == (1, prompt["vectors"])
    after = scrape(patient.metrics)
    for model, kind, grown in (("chat", "prompt", prompt["facts"]),
                               ("chat", "completion", answered),
                               ("embed", "prompt", prompt["vectors"])):
        moved = [value(s, "memoryd_model_tokens_total", model=model, kind=kind)
                 for s in (series, after)]
        assert moved[1] - moved[0] == grown
    for name, labels, grown in (("memoryd_jobs_ended_total", {"state": "DONE"}, 2),
                                ("memoryd_jobs_ended_total", {"state": "FAILED"}, 0),
                                ("memoryd_job_attempt_failures_total", {}, 0),
                                ("memoryd_block_answers_total", {}, 1)):
        assert value(after, name, **labels) - value(series, name, **labels) == grown, name
    assert value(after, "memoryd_jobs_held") == 0
    now = calls.GetUsage()
    assert now.start_time == used.start_time == calls.GetServerInfo().start_time
    assert (now.usage.calls - used.usage.calls,
            now.usage.prompt_tokens - used.usage.prompt_tokens,
            now.usage.completion_tokens - used.usage.completion_tokens) == (
        2, prompt["facts"] + prompt["vectors"], answered)


def test_answers_that_change_nothing_are_counted(calls, models, patient, session_id):
    models.set_replies(["I am a teapot."])
    series = scrape(patient.metrics)
    calls.Put(session_id=session_id, messages=[user("One")], config=every_turn(FACTS))
    calls.Put(session_id=session_id, messages=[user("Two")], wait=WAIT)
    after = scrape(patient.metrics)
    name = "memoryd_block_answers_rejected_total"
    moved = {reason: value(after, name, reason=reason) - value(series, name, reason=reason)
             for reason in ("unreadable", "loses_facts")}
    assert moved == {"unreadable": 1, "loses_facts": 0}


def test_usage_is_the_tenants_own(models, tmp_path):
    models.set_replies(["<facts></facts>"])
    file = write_credentials(tmp_path / "credentials.yaml",
                             [credential(name, token=f"token-{name}") for name in ("a", "b")])
    with fresh_store("sqlite") as store, running(
            store, models, tmp_path, f"--credentials={file}") as server, \
            server.channel() as channel:
        one, other = (Caller(channel, f"token-{name}") for name in ("a", "b"))
        one("Put", session_id="s", messages=[user("One")], config=every_turn(FACTS))
        one("Put", session_id="s", messages=[user("Two")], wait=WAIT)
        assert one("GetUsage").usage.calls == 1
        assert other("GetUsage").usage == memory.Usage()


# Servers that die, and servers beside one another.


def test_jobs_count_once_whenever_the_server_dies(store):
    found = kill_amid_jobs(store, kills=5, sessions=3, turns=5, seed=1)
    assert found.clean and found.jobs == 3 * 9 * len(job_load.BLOCKS), found


@pytest.fixture
def pair():
    """Two servers of one store, and calls to each."""
    with fresh_store("postgresql") as store, contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Server(store, arguments=job_load.ARGUMENTS))
                   for _ in range(2)]
        yield servers, [Calls(stack.enter_context(server.channel())) for server in servers]


def test_two_servers_feed_one_session_and_count_once(pair):
    servers, (first, second) = pair
    agent = job_load.Agent()
    names = ["a", "b"]
    with agent.worker(servers[0].target), agent.worker(servers[1].target):
        with job_load.Turns([server.target for server in servers], names, turns=20):
            pass
        for calls in (first, second):
            found = job_load.Findings()
            for name in names:
                found.add_session(calls, name)
            assert found.clean and found.jobs == 2 * 39 * len(job_load.BLOCKS), found


def test_jobs_are_run_by_the_server_that_their_worker_is_attached_to(pair):
    servers, (first, second) = pair
    agent = job_load.Agent()
    config = every_turn(job_load.BLOCKS[0])
    turns = itertools.count()

    def put(calls):
        calls.Put(session_id="s", messages=[user(str(next(turns)))], config=config)

    put(first)
    put(first)
    # Nobody has the worker: nothing is counted, nothing given up.
    job, = jobs_of(second, "s")
    assert (job.state, job.attempts <= 1) == (OPEN, True)
    with agent.worker(servers[1].target):
        for _ in range(5):
            put(first)
        assert {job.state for job in drained(second, "s")} == {DONE}
        put(second)
        assert missing(first.Get(session_id="s")) == {"ledger": "WORKER_ELSEWHERE"}
        drained(first, "s")
        assert section(second.Get(session_id="s"), "ledger") == ["0 1 2 3 4 5 6"]


def test_the_jobs_of_a_server_that_dies_are_run_by_another(pair):
    servers, (first, second) = pair
    agent = job_load.Agent()
    held = threading.Event()

    class Held(job_load.Ledger):
        def put(self, messages, state):
            assert held.wait(60)
            return super().put(messages, state)

    with memoryd.Worker(servers[0].target, name=job_load.WORKER, blocks=[Held(agent.progress)]):
        config = every_turn(job_load.BLOCKS[0])
        for number in range(5):
            first.Put(session_id="s", messages=[user(str(number))], config=config)
        assert [job.state for job in jobs_of(second, "s")] == [OPEN] * 4
        servers[0].kill()
        held.set()
    with agent.worker(servers[1].target):
        assert [job.state for job in drained(second, "s")] == [DONE] * 4
        assert section(second.Get(session_id="s"), "ledger") == ["0 1 2 3"]
