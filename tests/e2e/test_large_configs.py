"""Sessions whose configuration is large, such as one with long static texts."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from support.calls import Calls, memory, reason, refusal, user
from support.server import Server, ready
from support.stores import fresh_store
from support.waiting import wait_for

KIB = 1 << 10
MIB = 1 << 20


def rules(size: int) -> memory.Block:
    return memory.Block(name="rules", kind="static", content=[memory.Part(text="x" * size)])


def test_a_page_of_sessions_is_bounded_in_bytes(store_kind, session_id):
    block = rules(400 * KIB)
    with fresh_store(store_kind) as store, Server(store) as server, server.channel() as channel:
        calls = Calls(ready(channel))
        names = [f"{session_id} {number}" for number in range(7)]
        for name in names:
            config = memory.SessionConfig(blocks=[block], subject="ada")
            calls.CreateSession(session_id=name, config=config)
        for subject in ("", "ada"):
            listed, token, pages = [], "", 0
            while True:
                page = calls.ListSessions(page_size=1000, page_token=token, subject=subject)
                assert page.ByteSize() < 1.5 * MIB
                listed += [session.session_id for session in page.sessions]
                pages += 1
                token = page.next_page_token
                if not token:
                    break
            assert listed == names
            assert pages > 2
        receipt = calls.EraseSubject(subject="ada", dry_run=True)
        assert receipt.session_count == 7
        assert calls.EraseSubject(subject="ada").session_count == 7


def test_static_texts_count_for_the_tenants_quota(store_kind, session_id):
    with fresh_store(store_kind) as store, Server(store, arguments=["--tenant-mib=1"]) as server, \
            server.channel() as channel:
        calls = Calls(ready(channel))
        config = memory.SessionConfig(blocks=[rules(400 * KIB)])
        calls.CreateSession(session_id=session_id, config=config)
        error = refusal(calls.CreateSession, session_id=f"{session_id} 2", config=config)
        assert reason(error) == "QUOTA_EXCEEDED"
        larger = memory.SessionConfig(blocks=[rules(900 * KIB)])
        error = refusal(calls.UpdateSession, session_id=session_id, config=larger)
        assert reason(error) == "QUOTA_EXCEEDED"
        calls.DeleteSession(session_id=session_id)
        calls.CreateSession(session_id=f"{session_id} 2", config=config)


def test_sessions_with_large_configurations_expire_and_let_go(store_kind, session_id):
    with fresh_store(store_kind) as store, \
            Server(store, arguments=["--sweep-interval-ms=100"]) as server, \
            server.channel() as channel:
        calls = Calls(ready(channel))
        soon = Duration(seconds=1)
        for name, retention in (("whole", memory.Retention(session_ttl=soon)),
                                ("old", memory.Retention(message_ttl=soon))):
            config = memory.SessionConfig(blocks=[rules(200 * KIB)], retention=retention)
            calls.Put(session_id=f"{session_id} {name}", config=config, messages=[user("a")])
        for name in ("whole", "old"):
            wait_for(lambda name=name: not calls.GetAll(session_id=f"{session_id} {name}").messages)
        assert calls.GetSession(session_id=f"{session_id} old")
