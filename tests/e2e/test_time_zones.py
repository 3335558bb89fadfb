"""What models are told of time, and in which zone Query reads dates."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from support.blocks import WAIT, block, every_turn, models_file
from support.calls import Calls, assistant, memory, refusal, user
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture(scope="module")
def models():
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def target(store_kind, models, tmp_path_factory):
    arguments = [models_file(tmp_path_factory.mktemp("models"), models)]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server:
        yield server.target


@pytest.fixture(scope="module")
def calls(target):
    with grpc.insecure_channel(target) as channel:
        yield Calls(channel)


def at(text: str) -> Timestamp:
    time = Timestamp()
    time.FromJsonString(text)
    return time


def last_prompt(models: ModelServer) -> str:
    return models.requests[-1].body["messages"][-1]["content"]


@pytest.mark.parametrize("kind", ("fact-extraction", "summary", "entity"))
def test_models_are_told_when(calls, models, session_id, kind):
    models.set_replies(["none"])
    when = at("2023-05-24T10:00:00Z")
    calls.Put(session_id=session_id, config=every_turn(block("b", kind, model="chat")), messages=[
        user("I went to Paris last week.", create_time=when), assistant("Nice.", create_time=when)])
    calls.Put(session_id=session_id, messages=[user("ok")], wait=WAIT)
    prompt = last_prompt(models)
    assert 'time="Wednesday, 2023-05-24 10:00">I went' in prompt and "Today is " in prompt
    # The zone may change at any time, and counts from then on.
    calls.UpdateSession(session_id=session_id,
                        config=memory.SessionConfig(time_zone="Asia/Tokyo"))
    calls.Put(session_id=session_id,
              messages=[user("And to Rome.", create_time=at("2023-05-24T23:00:00Z"))], wait=WAIT)
    calls.Put(session_id=session_id, messages=[user("Bye.")], wait=WAIT)
    assert 'time="Thursday, 2023-05-25 08:00">And to Rome' in last_prompt(models)
    assert "Asia/Tokyo" in last_prompt(models)
    assert calls.GetSession(session_id=session_id).session.config.time_zone == "Asia/Tokyo"


@pytest.mark.parametrize("zone", ("Mars/Olympus", "../../../etc/passwd", "/etc/localtime",
                                  "Asia", "libc:localtime", "Asia/Tokyo\n", "a" * 65))
def test_an_unknown_zone_is_refused(calls, session_id, zone):
    config = memory.SessionConfig(time_zone=zone)
    for refused in (lambda: calls.CreateSession(session_id=session_id, config=config),
                    lambda: calls.Put(session_id=session_id, messages=[user("x")], config=config)):
        error = refusal(refused)
        assert error.code() == INVALID and "config.time_zone" in error.details()
    calls.CreateSession(session_id=session_id)
    error = refusal(lambda: calls.UpdateSession(session_id=session_id, config=config))
    assert error.code() == INVALID and "config.time_zone" in error.details()
    assert calls.GetSession(session_id=session_id).session.config.time_zone == "UTC"


def test_query_finds_days_of_the_sessions_zone(calls, session_id):
    """08:00 of 30 March in Tokyo is 23:00 of 29 March in UTC."""
    config = memory.SessionConfig(time_zone="Asia/Tokyo",
                                  retrieval=memory.Retrieval(vector_weight=0, expansion=False))
    said = [user("Ramen.", create_time=at("2023-03-29T23:00:00Z")),
            user("Soba.", create_time=at("2023-03-28T23:00:00Z"))]
    calls.Put(session_id=session_id, messages=said, config=config)

    def first(query: str) -> str:
        return calls.Query(session_id=session_id, query=query, top_k=1).results[0].message.text

    assert (first("30 March 2023"), first("29 March 2023")) == ("Ramen.", "Soba.")
    calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(time_zone="UTC"))
    assert (first("29 March 2023"), first("28 March 2023")) == ("Ramen.", "Soba.")
