"""Row 70: memory that runs out in the middle of a call, at every place that a test can name.

The server is `memoryd_failpoints`, in which std::bad_alloc is thrown where MEMORYD_TEST_FAILPOINT
says, once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import grpc

from hostile.frames import METRICS
from hostile.place import MEMORY, Place, own_server
from support.blocks import DONE, WAIT, block, every_turn, jobs_of
from support.calls import memory, reason, user
from support.metrics import Watch
from support.paths import FAILING_BINARY
from support.postgres import temporary_database

import memoryd

INTERNAL = grpc.StatusCode.INTERNAL
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE

# Where it is thrown in a Put of one message to a new session, and what the caller may hear.
# Nothing is stored where that is INTERNAL, but for the last: its reply was lost.
BEFORE_THE_COMMIT = ("request_parsed", "session_loaded", "write_queued", "batch_drafted")
# The store may have it or not: the caller hears just that.
IN_THE_COMMIT = ("commit_begun", "commit_sent", "commit_answered")
AFTER_THE_COMMIT = ("session_applied", "reply_given")


@contextlib.contextmanager
def throwing(failpoint: str, store: str) -> Iterator[Place]:
    with own_server(METRICS, "--job-retry-ms=10", store=store, binary=FAILING_BINARY,
                    environment={"MEMORYD_TEST_FAILPOINT": f"{failpoint}:1:throw"}) as place:
        yield place


def thrown(_: Place) -> None:
    with temporary_database() as url:
        for store in (MEMORY, url):
            for failpoint in BEFORE_THE_COMMIT:
                _ends_internal(failpoint, store)
            for failpoint in IN_THE_COMMIT:
                _is_in_doubt(failpoint, store)
            for failpoint in AFTER_THE_COMMIT:
                _is_stored(failpoint, store)
            _loses_its_reply(store)
    _job_is_tried_again()


def _put(place: Place, session_id: str) -> grpc.RpcError | None:
    error = place.caller.error("Put", session_id=session_id, messages=[user("one")], timeout=20)
    if error is not None:
        assert "bad_alloc" not in error.details(), error
        assert dict(error.trailing_metadata()).get("x-request-id"), error
    return error


def _goes_on(place: Place, session_id: str, before: int) -> None:
    """The session that was hit takes writes as any other."""
    place.calls.Put(session_id=session_id, messages=[user("two")])
    texts = place.texts(session_id)
    assert texts == ["one"] * before + ["two"], texts
    assert [m.text for m in place.calls.Get(session_id=session_id).messages] == texts


def _ends_internal(failpoint: str, store: str) -> None:
    with throwing(failpoint, store) as place:
        session_id = place.session()
        error = _put(place, session_id)
        assert error is not None and error.code() == INTERNAL, (failpoint, error)
        _goes_on(place, session_id, before=0)


def _is_in_doubt(failpoint: str, store: str) -> None:
    with throwing(failpoint, store) as place:
        session_id = place.session()
        watch = Watch(place.server.metrics)
        error = _put(place, session_id)
        assert error is not None and error.code() == UNAVAILABLE, (failpoint, error)
        assert reason(error) == "OUTCOME_UNKNOWN", error
        assert watch.moved("memoryd_exceptions_total") == 1
        place.calls.Put(session_id=session_id, messages=[user("two")])
        texts = place.texts(session_id)
        assert texts == ["one", "two"] or (
            texts == ["two"] and failpoint != "commit_answered"), (failpoint, texts)
        assert [m.text for m in place.calls.Get(session_id=session_id).messages] == texts


def _is_stored(failpoint: str, store: str) -> None:
    with throwing(failpoint, store) as place:
        session_id = place.session()
        assert _put(place, session_id) is None, failpoint
        _goes_on(place, session_id, before=1)


def _loses_its_reply(store: str) -> None:
    with throwing("reply_ready", store) as place:
        session_id = place.session()
        error = place.caller.error("Put", session_id=session_id, messages=[user("one")])
        assert error is not None and error.code() == INTERNAL, error
        _goes_on(place, session_id, before=1)


class Counting(memoryd.Block):
    """Counts the messages that it took in."""

    name = "counting"

    def put(self, messages, state):
        return (state or 0) + len(messages)

    def get(self, messages, state):
        return f"{state} messages"


def _job_is_tried_again() -> None:
    with throwing("job_answered", MEMORY) as place:
        session_id = place.session()
        place.calls.CreateSession(session_id=session_id, config=every_turn(
            block("counting", "worker", worker="w")))
        with memoryd.Worker(place.server.target, name="w", blocks=[Counting()]):
            put = place.calls.Put(session_id=session_id, wait=WAIT, messages=[
                user("one"), memory.Message(role="assistant", text="two"), user("three")])
            assert not put.open_jobs, put
            jobs = jobs_of(place.calls, session_id)
            assert jobs and all(job.state == DONE for job in jobs)
            assert max(job.attempts for job in jobs) == 2
            said = str(place.calls.Get(session_id=session_id))
            assert "2 messages" in said, said
