"""The Python client against the server."""

from __future__ import annotations

import threading

import grpc
import pytest

from support.calls import memory
from support.server import Server

from memoryd import Client, MemorydError, message


@pytest.fixture
def client(server):
    with Client(server.target) as connected:
        yield connected


def test_the_round_of_a_session(client, session_id):
    config = memory.SessionConfig(token_limit=500)
    assert client.create_session(session_id, config).config.token_limit == 500
    client.put(session_id, [message("user", "a", metadata={"b": 1.0, "a": "é"}),
                            message("assistant", parts=[memory.Part(json="[1]")])])
    found = list(client.get_all(session_id, page_size=1))
    assert found[0].metadata_json == '{"b": 1.0, "a": "é"}'
    assert [p.json for p in found[1].parts] == ["[1]"]
    assert [m.role for m in client.get(session_id, input="x").messages] == ["user", "assistant"]
    assert client.set(session_id, [message("user", "c")]).removed_count == 2
    assert client.reset(session_id).active_count == 1
    updated = client.update_session(session_id, memory.SessionConfig(token_limit=600))
    assert client.get_session(session_id) == updated
    assert session_id in [s.session_id for s in client.list_sessions(page_size=2)]
    assert client.delete_session(session_id).message_count == 0


def test_an_error_has_code_reason_and_field(client, session_id):
    with pytest.raises(MemorydError) as caught:
        client.put(session_id, [message("user", "x"), message("", "y")])
    error = caught.value
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT
    assert error.field == "messages[1].role" and error.reason
    with pytest.raises(MemorydError) as caught:
        client.get_session(session_id)
    assert caught.value.code == grpc.StatusCode.NOT_FOUND
    assert caught.value.reason == "SESSION_NOT_FOUND"
    revision = client.put(session_id, [message("user", "x")]).revision
    with pytest.raises(MemorydError) as caught:
        client.put(session_id, [message("user", "x")], expected_revision=revision + 1)
    assert caught.value.reason == "REVISION_MISMATCH"
    assert str(revision) in caught.value.details.values()


def test_nobody_there_is_unavailable_at_the_deadline():
    with Client("unix:/nonexistent/memoryd.sock", timeout=0.5) as client:
        with pytest.raises(MemorydError) as caught:
            client.get("s")
    assert caught.value.code in (
        grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    assert caught.value.reason == "" and caught.value.field == ""


def test_puts_go_on_over_a_kill_and_restart_and_are_stored_once(store, tmp_path):
    listen = f"unix:{tmp_path}/memoryd.sock"
    server = Server(store, listen=listen)
    started = threading.Event()
    enough = 300

    def write():
        with Client(listen, timeout=60) as client:
            for number in range(enough):
                client.put("s", [message("user", str(number))])
                if number == enough // 3:
                    started.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert started.wait(60)
    server.kill()
    with Server(store, listen=listen) as server:
        writer.join()
        with Client(server.target) as client:
            texts = [m.text for m in client.get_all("s")]
    assert texts == [str(n) for n in range(enough)]


def test_any_number_of_threads_share_a_client(client, session_id):
    threads = [threading.Thread(target=client.put, args=(session_id, [message("user", str(i))]))
               for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(m.text) for m in client.get_all(session_id)) == list(range(20))
