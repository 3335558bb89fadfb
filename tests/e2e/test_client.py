"""The Python client against the server."""

from __future__ import annotations

import threading

import grpc
import pytest

from support.calls import memory, wire
from support.server import Server

from memoryd import Client, MemorydError, content, message
from memoryd.v1 import filter_pb2 as filter_wire


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


def test_contents_are_put_listed_replaced_and_removed(client, session_id):
    values = ("Likes tea.", b"\0\xff", {"b": 1.0, "a": "é"}, memory.Media(data=b"png"))
    reply = client.put(session_id, [message("user", "m")], contents=[
        *map(content, values), content("# é", "text/markdown", metadata={"b": 1.0, "a": 1},
                                       content_id="mine")])
    found = list(client.get_all_contents(session_id, page_size=1))
    assert [c.content_id for c in found] == list(reply.content_ids)
    assert found[4].content_id == "mine" and found[4].metadata_json == '{"b": 1.0, "a": 1}'
    assert [c.mime_type for c in found] == ["text/plain", "application/octet-stream",
                                            "application/json", "image/*", "text/markdown"]
    assert (found[0].text, found[1].bytes_value, found[2].json, found[3].image.data) == (
        "Likes tea.", b"\0\xff", '{"b": 1.0, "a": "é"}', b"png")
    assert [m.text for m in client.get_all(session_id)] == ["m"]
    assert client.set(session_id, [], contents=[content("new")]).removed_content_count == 5
    assert client.reset(session_id, wire.RESET_SCOPE_EVERYTHING).content_count == 1
    assert list(client.get_all_contents(session_id)) == []


def test_query_finds_and_update_context_inserts(client, session_id):
    client.put(session_id, [message("user", "What is the capital of France?"),
                            message("assistant", "Paris.")], contents=[content("Likes France.")])
    found = client.query(session_id, "france", top_k=1, neighbours=1,
                         filter=filter_wire.Filter(roles=["user"])).results
    assert [r.message.text for r in found] == ["What is the capital of France?"]
    assert [m.text for m in found[0].neighbours] == ["Paris."]
    # Behind these, with a table of vectors, what is like them.
    assert {r.message.text or r.content.text for r in
            client.query(session_id, "france").results[:2]} == {
                "What is the capital of France?", "Likes France."}
    context = [message("user", "And Spain?")]
    updated = client.update_context(session_id, context)
    assert "Likes France." in updated.messages[0].text and updated.messages[1] == context[0]
    again = client.update_context(session_id, updated.messages,
                                  known_prefix_hash=updated.stable_prefix_hash)
    assert again.unchanged and again.messages == updated.messages
    with pytest.raises(MemorydError) as caught:
        client.query(session_id, "x", neighbours=11)
    assert caught.value.field == "neighbours"


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
    with Client("unix:/nonexistent/memoryd.sock", timeout=0.5) as client, \
            pytest.raises(MemorydError) as caught:
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
