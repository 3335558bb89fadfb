"""Replies to credentials that may write and not read: they hold no stored text."""

from __future__ import annotations

import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import WAIT, block, every_turn, models_file
from support.calls import memory, note, user
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store

Config = memory.SessionConfig
FACTS = block("facts", "fact-extraction", model="chat")


@pytest.fixture(scope="module")
def channel(store_kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("write_only")
    file = write_credentials(folder / "credentials.yaml", [
        credential("t", token="app", name="app"),
        credential("t", ["write"], token="writer", name="writer")])
    with ModelServer() as models, fresh_store(store_kind) as store:
        models.set_replies(["none"])
        with Server(store, arguments=[f"--credentials={file}", models_file(folder, models),
                                      "--job-retry-ms=20", "--job-attempts=1"]) as server, \
                server.channel() as opened:
            yield opened


@pytest.fixture
def app(channel):
    return Caller(channel, "app")


@pytest.fixture
def writer(channel):
    return Caller(channel, "writer")


def test_replies_hold_no_stored_text(app, writer, session_id):
    secret = "The vault is under the oak."
    rules = block("rules", "static", content=[secret])
    config = every_turn(rules, FACTS, subject=session_id)
    common = {"session_id": session_id, "block": "facts"}
    app("CreateSession", session_id=session_id, config=config)
    app("Put", session_id=session_id, messages=[user(secret, message_id="m")],
        contents=[note(secret, content_id="c")])
    first = app("AddFact", **common, text=secret, message_ids=["m"])
    second = app("AddFact", **common, text=f"{secret} Still.")
    replies = [
        writer("UpdateSession", session_id=session_id, config=Config(token_limit=900)),
        writer("ForkSession", session_id=session_id, new_session_id=session_id + "f"),
        writer("UpdateFact", **common, fact_id=second.fact.fact_id, text="Mine."),
        writer("DeleteFact", **common, fact_id=first.fact.fact_id),
        writer("UndoBlockChange", **common, change=second.change + 1),
        writer("UpdateMessage", session_id=session_id, message_id="m", metadata_json="{}"),
        writer("UpdateContent", session_id=session_id, content_id="c", metadata_json="{}"),
        writer("DeleteMessage", session_id=session_id, message_id="m"),
    ]
    for reply in replies:
        assert secret not in str(reply) and "token:app" not in str(reply), reply
    assert replies[0].session.revision > 0 and not replies[0].session.HasField("config")
    assert replies[2].fact.text == "Mine."
    assert replies[3].fact.fact_id == first.fact.fact_id
    assert {fact.fact_id for fact in replies[4].facts} == {second.fact.fact_id}
    # A caller with `read` sees it as before.
    update = app("UpdateSession", session_id=session_id, config=Config(token_limit=901))
    assert update.session.config.blocks[0].content[0].text == secret


def test_repeated_replies_hold_no_stored_text_either(app, writer, session_id):
    secret = "The vault is under the oak."
    common = {"session_id": session_id, "block": "facts", "request_id": "once"}
    app("CreateSession", session_id=session_id, config=every_turn(FACTS))
    fact = app("AddFact", session_id=session_id, block="facts", text=secret).fact
    told = app("DeleteFact", **common, fact_id=fact.fact_id)
    assert told.fact.text == secret
    again = writer("DeleteFact", **common, fact_id=fact.fact_id)
    assert again.replayed and again.change == told.change and secret not in str(again)
    assert app("DeleteFact", **common, fact_id=fact.fact_id).fact == told.fact


def test_errors_of_jobs_need_the_right_read(app, writer, session_id):
    failing = block("facts", "fact-extraction", model="nobody")
    app("CreateSession", session_id=session_id, config=every_turn(failing))
    app("Put", session_id=session_id, messages=[user("a")])
    put = {"session_id": session_id, "messages": [user("b")], "wait": WAIT}
    assert app("Put", **put).open_jobs[0].error
    hidden = writer("Put", **put).open_jobs
    assert hidden and not any(job.error for job in hidden)
    job = app("ListJobs", session_id=session_id).jobs[0]
    assert job.last_error
    assert not writer("RetryJob", session_id=session_id, job_id=job.job_id).job.last_error
