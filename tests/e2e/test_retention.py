"""Retention: sessions and messages that go by themselves."""

from __future__ import annotations

import datetime
from time import time as now

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from support.access import credential, write_credentials
from support.calls import Calls, memory, note, reason, refusal, user
from support.metrics import scrape, value
from support.server import Server, ready
from support.stores import fresh_store
from support.waiting import wait_for

import memoryd

SECOND = Duration(seconds=1)
LONG = Duration(seconds=3600)
QUICK = "--sweep-interval-ms=100"


@pytest.fixture(scope="module")
def quick(store_kind):
    """A server that sweeps all the time."""
    with fresh_store(store_kind) as store, \
            Server(store, arguments=[QUICK, "--metrics-listen=127.0.0.1:0"]) as server:
        yield server


@pytest.fixture
def calls(quick):
    with quick.channel() as channel:
        yield Calls(ready(channel))


def keeping(**fields) -> memory.SessionConfig:
    return memory.SessionConfig(policy="buffer", retention=memory.Retention(**fields))


def texts(calls: Calls, session_id: str) -> list[str]:
    return [message.text for message in calls.all_messages(session_id)]


def is_gone(calls: Calls, session_id: str) -> bool:
    try:
        calls.GetSession(session_id=session_id)
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.NOT_FOUND
    return False


def test_a_session_expires_and_others_do_not(calls, quick, session_id):
    others = {f"{session_id} plain": None, f"{session_id} long": keeping(session_ttl=LONG)}
    for name, config in others.items():
        calls.Put(session_id=name, config=config, messages=[user("stays")])
    calls.Put(session_id=session_id, config=keeping(session_ttl=SECOND), messages=[user("goes")])
    session = calls.GetSession(session_id=session_id).session
    assert session.config.retention.session_ttl == SECOND
    after = session.expire_time.ToMicroseconds() - session.update_time.ToMicroseconds()
    assert 1_000_000 <= after <= 1_062_500
    wait_for(lambda: is_gone(calls, session_id))
    assert not calls.Get(session_id=session_id).messages
    for name in others:
        assert texts(calls, name) == ["stays"]
    assert not calls.GetSession(session_id=f"{session_id} plain").session.HasField("expire_time")
    calls.Put(session_id=session_id, messages=[user("new")])
    assert texts(calls, session_id) == ["new"]
    assert value(scrape(quick.metrics), "memoryd_expired_sessions_total") >= 1


def test_the_newest_messages_are_kept(calls, session_id):
    config = keeping(keep_messages=3)
    for number in range(7):
        calls.Put(session_id=session_id, config=config, messages=[user(str(number))])
        assert texts(calls, session_id) == [str(n) for n in range(number + 1)][-3:]
    assert [message.text for message in calls.Get(session_id=session_id).messages] == list("456")
    found = calls.Query(session_id=session_id, query="5 2", top_k=10)
    assert {result.message.text for result in found.results} <= {"4", "5", "6"}


def test_the_newest_messages_are_kept_whose_bodies_fit(calls, session_id):
    size = len(user("x" * 100).SerializeToString())
    config = keeping(keep_bytes=3 * size + size // 2)
    for number in range(7):
        calls.Put(session_id=session_id, config=config, messages=[user(f"{number:<100}")])
        kept = [int(text) for text in texts(calls, session_id)]
        assert kept == list(range(number + 1))[-3:]
    calls.Put(session_id=session_id, messages=[user("y" * 1000)])
    assert texts(calls, session_id) == ["y" * 1000]


def test_archived_messages_go_where_bytes_are_too_many(calls, session_id):
    size = len(user("x" * 100).SerializeToString())
    config = memory.SessionConfig(tokenizer="whitespace", token_limit=20, token_flush_size=1,
                                  chat_history_token_ratio=0.5,
                                  retention=memory.Retention(keep_bytes=4 * size))
    for number in range(7):
        calls.Put(session_id=session_id, config=config, messages=[user(f"{number:<100}")])
    wait_for(lambda: [int(text) for text in texts(calls, session_id)] == [3, 4, 5, 6])
    assert calls.GetSession(session_id=session_id).session.archived_count == 2


def test_it_can_be_changed_and_taken_back(calls, session_id):
    calls.Put(session_id=session_id, messages=[user(str(n)) for n in range(10)])
    calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(
        retention=memory.Retention(keep_messages=4, session_ttl=LONG)))
    wait_for(lambda: texts(calls, session_id) == list("6789"))
    session = calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(
        retention=memory.Retention(keep_messages=0, session_ttl=Duration()))).session
    assert not session.config.HasField("retention") and not session.HasField("expire_time")
    calls.Put(session_id=session_id, messages=[user("x")])
    assert texts(calls, session_id) == [*"6789", "x"]


def test_old_messages_go(calls, session_id):
    calls.Put(session_id=session_id, config=keeping(message_ttl=SECOND),
              messages=[memory.Message(role="system", text="pinned"), user("old")])
    wait_for(lambda: texts(calls, session_id) == ["pinned"])
    assert calls.GetSession(session_id=session_id).session.active_count == 1


def test_a_read_counts_where_it_is_to(calls, session_id):
    names = {name: f"{session_id} {name}" for name in ("read", "unread")}
    for name, read in (("read", True), ("unread", False)):
        calls.Put(session_id=names[name], messages=[user("a")],
                  config=keeping(session_ttl=Duration(seconds=3), refresh_on_read=read))

    def both_read() -> bool:
        for name in names.values():
            calls.Get(session_id=name)
        return is_gone(calls, names["unread"])
    wait_for(both_read)
    assert texts(calls, names["read"]) == ["a"]


def test_copies_have_it_too_and_begin_anew(calls, session_id):
    config = keeping(session_ttl=LONG, keep_messages=5)
    calls.Put(session_id=session_id, config=config, messages=[user("a")])
    copy = calls.ForkSession(session_id=session_id, new_session_id=f"{session_id} fork").session
    assert copy.config.retention == config.retention
    assert copy.expire_time.ToMicroseconds() >= copy.update_time.ToMicroseconds() + 3600 * 10**6
    imported = calls.import_session(f"{session_id} import", calls.all_messages(session_id),
                                    config=config)
    assert imported.config.retention == config.retention and imported.HasField("expire_time")


def test_a_tenant_has_one_for_sessions_that_say_nothing(store_kind, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("tenant_keep_messages: 1\ntenant_session_ttl_s: 3600\n"
                    "tenants:\n- {name: default, keep_messages: 2, keep_bytes: 1000}\n")
    three = [user(text) for text in "abc"]
    said = memory.SessionConfig(policy="buffer")
    given = memory.Retention(keep_messages=2, session_ttl=LONG, keep_bytes=1000)
    with fresh_store(store_kind) as store:
        with Server(store, arguments=[f"--config={file}"]) as server, server.channel() as channel:
            calls = Calls(channel)
            for name, method in (("put", calls.Put), ("set", calls.Set)):
                method(session_id=name, messages=three)
                assert texts(calls, name) == ["b", "c"]
            calls.Put(session_id="said", messages=three, config=said)
            session = calls.GetSession(session_id="said").session
            assert session.config.retention == given and session.HasField("expire_time")
            # 0 is none, whatever the tenant has.
            own = calls.CreateSession(session_id="own", config=memory.SessionConfig(
                retention=memory.Retention(keep_messages=0, keep_bytes=0))).session
            assert own.config.retention == memory.Retention(session_ttl=LONG)
            # As what they were made of.
            copy = calls.ForkSession(session_id="said", new_session_id="fork").session
            assert copy.config.retention == given
            imported = calls.import_session("import", calls.all_messages("said"))
            assert not imported.config.HasField("retention")
        with Server(store) as server, server.channel() as channel:
            calls = Calls(channel)
            # It is the session's now, and a Put that repeats its config need not know.
            calls.Put(session_id="said", messages=[user("d")], config=said)
            assert texts(calls, "said") == ["c", "d"]
            other = memory.SessionConfig(policy="buffer",
                                         retention=memory.Retention(keep_messages=3))
            error = refusal(calls.Put, session_id="said", config=other, messages=three)
            assert reason(error) == "CONFIG_MISMATCH"
            calls.Put(session_id="new", messages=three)
            assert texts(calls, "new") == ["a", "b", "c"]


def soon(seconds: float) -> Timestamp:
    time = Timestamp()
    time.FromMicroseconds(int((now() + seconds) * 1e6))
    return time


def listed(calls: Calls, session_id: str) -> list[str]:
    page = calls.GetAll(session_id=session_id, page_size=1000, include_contents=True,
                        include_total=True)
    assert page.total_count == len(page.messages) + len(page.contents)
    messages = [message.text for message in page.messages]
    assert [message.text for message in calls.streamed(session_id)] == messages
    return messages + [content.text for content in page.contents]


def test_items_go_by_themselves_wherever_they_stand(calls, session_id):
    until = soon(5)
    config = memory.SessionConfig(tokenizer="whitespace", token_limit=20, token_flush_size=1,
                                  chat_history_token_ratio=0.5)
    for text in ("a", "b tea", "c", "d", "e tea", "f"):
        time = until if "tea" in text else None
        calls.Put(session_id=session_id, config=config, messages=[user(text, expire_time=time)])
    calls.Put(session_id=session_id, contents=[note("n"), note("o tea", expire_time=until),
                                               note("p")])
    assert calls.GetSession(session_id=session_id).session.archived_count >= 3
    stored = {message.text: message for message in calls.all_messages(session_id)}
    assert stored["b tea"].expire_time == until and not stored["a"].HasField("expire_time")
    copy = f"{session_id} fork"
    calls.ForkSession(session_id=session_id, new_session_id=copy)
    imported = f"{session_id} import"
    page = calls.GetAll(session_id=session_id, page_size=1000, include_contents=True)
    calls.import_session(imported, page.messages, page.contents, config=config)
    wait_for(lambda: now() > until.seconds + until.nanos / 1e9)
    for name in (session_id, copy, imported):
        assert listed(calls, name) == ["a", "c", "d", "f", "n", "p"]
        assert not [m for m in calls.Get(session_id=name).messages if "tea" in m.text]
        for result in calls.Query(session_id=name, query="tea", top_k=10).results:
            assert "tea" not in result.message.text + result.content.text
    for name in (session_id, copy, imported):
        def swept(name: str = name) -> bool:
            session = calls.GetSession(session_id=name).session
            count = session.active_count + session.archived_count
            return (count, session.content_count) == (4, 2)
        wait_for(swept)
        assert listed(calls, name) == ["a", "c", "d", "f", "n", "p"]


def test_an_update_gives_a_message_a_time_and_takes_it(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("a", message_id="1"), user("b")])
    update = {"session_id": session_id, "message_id": "1"}
    calls.UpdateMessage(expire_time=soon(3600), **update)
    calls.UpdateMessage(text="c", **update)
    assert calls.all_messages(session_id)[0].HasField("expire_time")
    calls.UpdateMessage(expire_time=Timestamp(), **update)
    assert not calls.all_messages(session_id)[0].HasField("expire_time")
    error = refusal(calls.UpdateMessage, expire_time=soon(-5), **update)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "expire_time" in error.details()
    calls.UpdateMessage(expire_time=soon(1), **update)
    wait_for(lambda: texts(calls, session_id) == ["b"])
    error = refusal(calls.UpdateMessage, text="d", **update)
    assert reason(error) == "MESSAGE_NOT_FOUND"


def test_a_time_that_is_over_is_refused_but_not_a_repeated_request(calls, session_id):
    error = refusal(calls.Put, session_id=session_id, messages=[user("a", expire_time=soon(-1))])
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "messages[0].expire_time" in error.details()
    put = {"session_id": session_id, "messages": [user("a", expire_time=soon(1))],
           "request_id": "once"}
    first = calls.Put(**put)
    wait_for(lambda: not texts(calls, session_id))
    again = calls.Put(**put)
    assert again.replayed and again.positions == first.positions


@pytest.mark.parametrize("field, bad", [
    ("session_ttl", Duration(nanos=999_999_999)), ("session_ttl", Duration(seconds=-1)),
    ("session_ttl", Duration(seconds=3650 * 86400 + 1)), ("session_ttl", Duration(nanos=1)),
    ("session_ttl", Duration(seconds=2**63 - 1, nanos=2**31 - 1)),
    ("message_ttl", Duration(nanos=5)), ("message_ttl", Duration(seconds=-(2**63))),
    ("keep_messages", -1), ("keep_messages", -(2**63)), ("keep_bytes", -1)])
def test_what_is_out_of_range_is_refused(calls, session_id, field, bad):
    config = keeping(**{field: bad})
    calls.CreateSession(session_id=f"{session_id} there")
    for method, name, more in ((calls.CreateSession, session_id, {}),
                               (calls.UpdateSession, f"{session_id} there", {}),
                               (calls.Put, session_id, {"messages": [user("a")]})):
        error = refusal(method, session_id=name, config=config, **more)
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert f"config.retention.{field}" in error.details()
    assert is_gone(calls, session_id)


def test_the_python_client_and_a_session_of_the_same_id_elsewhere(store_kind, tmp_path):
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        credential("a", token="a"), credential("b", token="b")])
    arguments = [f"--credentials={credentials}", QUICK]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server, \
            server.channel() as channel:
        ready(channel)
        with memoryd.Client(server.target, token="a") as mine, \
                memoryd.Client(server.target, token="b") as theirs:
            hour = Duration()
            hour.FromTimedelta(datetime.timedelta(hours=1))
            theirs.put("s", [user("b")], config=keeping(session_ttl=hour))
            mine.put("s", [user("a")], config=keeping(session_ttl=SECOND))
            wait_for(lambda: not mine.get("s").messages)
            assert [message.text for message in theirs.get("s").messages] == ["b"]
