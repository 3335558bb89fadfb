"""A store that is too slow for what is asked of it."""

from __future__ import annotations

import grpc

from support.calls import CALL_SECONDS, Calls, memory_service_pb2_grpc, reason, refusal, user, wire
from support.metrics import scrape
from support.postgres import run_sql, temporary_database
from support.server import Server
from support.waiting import wait_for

_SLOW = """CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END $$"""
_TRIGGER = ("CREATE TRIGGER slow BEFORE INSERT ON memoryd_messages "
            "FOR EACH ROW EXECUTE FUNCTION slow()")
PENDING = ("memoryd_pending_calls", ())
LATE = ("memoryd_admission_rejected_total", (("reason", "late"),))


def test_a_put_that_could_not_be_stored_in_its_time_is_refused_at_once():
    with temporary_database() as store, \
            Server(store, arguments=("--metrics-listen=127.0.0.1:0", "--committers=1")) as server, \
            server.channel() as channel:
        calls = Calls(channel)
        for statement in (_SLOW, _TRIGGER):
            run_sql(store, statement)
        for _ in range(2):  # From which the server knows how slow the store is.
            calls.Put(session_id="s", messages=[user("x")])
        put = memory_service_pb2_grpc.MemoryServiceStub(channel).Put
        waiting = [put.future(wire.PutRequest(session_id="s", messages=[user("x")]),
                              timeout=CALL_SECONDS) for _ in range(20)]
        wait_for(lambda: scrape(server.metrics)[PENDING] == len(waiting))
        # As far as the server knows four of these take 400 ms.
        error = refusal(calls.Put, session_id="s", messages=[user("late")], timeout=1.0)
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error.details()
        assert reason(error) == "QUEUE_FULL" and "nothing was started" in error.details()
        assert scrape(server.metrics)[LATE] == 1
        for future in waiting:
            future.result()
        texts = [message.text for message in calls.GetAll(session_id="s").messages]
        assert texts == ["x"] * 22
