"""The tour with grpcurl as the quickstart types it, and the same answers on both stores."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import pytest

from support import grpcurl
from support.calls import memory, user
from support.documents import blocks_of
from support.paths import REPOSITORY
from support.reflection import snake_case
from support.server import Server
from support.stores import STORES, fresh_store

TOUR = (
    ("MemoryService/Put",
     '{"session_id":"s1","messages":[{"role":"user","text":"Hello, world!"}]}'),
    ("MemoryService/Get", '{"session_id":"s1"}'),
    ("MemoryService/GetAll", '{"session_id":"s1","page_size":50}'),
    ("MemoryService/Put",
     '{"session_id":"s1","messages":[{"role":"user","text":"What is the capital of France?"},'
     '{"role":"assistant","text":"The capital of France is Paris."}],"contents":'
     '[{"mime_type":"text/plain","text":"The user is planning a journey."}]}'),
    ("MemoryService/Query", '{"session_id":"s1","query":"capital of France","top_k":3}'),
    ("MemoryService/UpdateContext",
     '{"session_id":"s1","messages":[{"role":"user","text":"And Spain?"}]}'),
    ("MemoryService/Set",
     '{"session_id":"s1","messages":[{"role":"system","text":"Fresh start."}]}'),
    ("MemoryService/GetAll", '{"session_id":"s1"}'),
    ("MemoryService/Reset", '{"session_id":"s1"}'),
    ("MemoryService/Get", '{"session_id":"s1"}'),
    ("SessionService/CreateSession",
     '{"session_id":"s2","config":{"profile":"llama-index","token_limit":50,'
     '"token_flush_size":10,"chat_history_token_ratio":0.7}}'),
    ("SessionService/GetSession", '{"session_id":"s2"}'),
    ("SessionService/ListSessions", "{}"),
    ("MemoryService/Put",
     '{"session_id":"s3","messages":[{"message_id":"m1","role":"user","text":"I live in Lyon.",'
     '"metadata_json":"{\\"topic\\":\\"home\\"}"},{"role":"assistant","text":"Noted."}]}'),
    ("MemoryService/GetAll",
     '{"session_id":"s3","filter":{"roles":["user"],"metadata":[{"key":"topic",'
     '"string_value":"home"}]},"include_total":true}'),
    ("MemoryService/GetAll",
     '{"session_id":"s3","order":"MESSAGE_ORDER_NEWEST_FIRST","page_size":1}'),
    ("MemoryService/StreamAll", '{"session_id":"s3"}'),
    ("MemoryService/UpdateMessage",
     '{"session_id":"s3","message_id":"m1","text":"I live in Paris."}'),
    ("SessionService/ForkSession",
     '{"session_id":"s3","new_session_id":"s3-fork","up_to_message_id":"m1"}'),
    ("MemoryService/DeleteMessage", '{"session_id":"s3","message_id":"m1"}'),
)
TYPED_CALL = re.compile(r"^grpcurl -plaintext -d '(.*)' localhost:50051 memoryd\.v1\.(\S+)$", re.M)


class Grpcurl:
    """The command line tool, or what stands in for it."""

    def __init__(self, program: pathlib.Path, target: str) -> None:
        self._program, self._target = program, target

    def _run(self, *arguments: str) -> str:
        command = [str(self._program), "-plaintext", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, method: str, body: str) -> dict:
        return snake_case(json.loads(self._run("-d", body, self._target, f"memoryd.v1.{method}")))

    def services(self) -> set[str]:
        return set(self._run(self._target, "list").split())

    def describe(self, symbol: str) -> str:
        return self._run(self._target, "describe", symbol)


def without_chance(answer):
    """The answer less what differs from run to run: generations, ids and tokens made of them, times."""
    text = json.dumps(answer, sort_keys=True)
    chance = "generation|create_time|update_time|ingest_time|message_id|content_id|next_page_token"
    text = re.sub(rf'("(?:{chance})"): "[^"]*"', r'\1: "*"', text)
    return json.loads(re.sub(r'("(?:message|content)_ids"): \[[^]]*\]', r'\1: "*"', text))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return grpcurl.install(tmp_path_factory.mktemp("grpcurl"))


@pytest.fixture(scope="module")
def tours(program):
    """Per store, the answers of the tour on an empty store."""
    answers = {}
    for kind in STORES:
        with fresh_store(kind) as store, Server(store) as server:
            client = Grpcurl(program, server.target)
            answers[kind] = [client.call(method, body) for method, body in TOUR]
    return answers


def test_the_quickstart_types_the_tour():
    page = REPOSITORY / "docs" / "quickstart" / "grpc.md"
    block = next(b for b in blocks_of(page) if TYPED_CALL.search(b.code))
    typed = [(method, body) for body, method in TYPED_CALL.findall(block.code)]
    tour = iter(TOUR)
    assert len(typed) == 16 and all(call in tour for call in typed)


def test_the_tour_gives_the_same_answers_on_both_stores(tours):
    first, second = ([without_chance(a) for a in tours[kind]] for kind in STORES)
    assert first == second


def test_the_tour_reads_as_the_documentation_says(tours):
    (put, get, get_all, more, query, context, replaced, after_set, reset, after_reset, created,
     found, listed, _, filtered, newest, streamed, updated, forked, gone) = tours["sqlite"]
    assert put["positions"] == ["1"]
    assert [m["text"] for m in get["messages"]] == ["Hello, world!"]
    assert get["messages"][0]["token_count"] == "8"  # 4 of text and 4 for the message.
    assert get["limit"] == "30000"
    assert [m["text"] for m in get_all["messages"]] == ["Hello, world!"]
    assert len(more["message_ids"]) == 2 and len(more["content_ids"]) == 1
    assert {r["message"]["text"] for r in query["results"][:2]} == {
        "What is the capital of France?", "The capital of France is Paris."}
    assert query["results"][0]["score"] == 1
    inserted, asked = context["messages"]
    assert "<item>The user is planning a journey.</item>" in inserted["text"]
    assert asked == {"role": "user", "text": "And Spain?"}
    assert context["insertions"] == [{"message": inserted}]
    assert (replaced["removed_count"], replaced["removed_content_count"]) == ("3", "1")
    assert [(m["role"], m["text"]) for m in after_set["messages"]] == [("system", "Fresh start.")]
    assert reset["active_count"] == "1"
    assert "messages" not in after_reset
    config = created["session"]["config"]
    assert (config["profile"], config["token_limit"], config["token_flush_size"],
            config["chat_history_token_ratio"]) == ("llama-index", "50", "10", 0.7)
    assert found["session"] == created["session"]
    assert [s["session_id"] for s in listed["sessions"]] == ["s1", "s2"]
    assert [m["text"] for m in filtered["messages"]] == ["I live in Lyon."]
    assert filtered["total_count"] == "1"
    assert [m["text"] for m in newest["messages"]] == ["Noted."] and newest["next_page_token"]
    assert [m["text"] for m in streamed["messages"]] == ["I live in Lyon.", "Noted."]
    assert updated["position"] == "1"
    assert (forked["session"]["session_id"], forked["session"]["active_count"]) == ("s3-fork", "1")
    assert (gone["message_ids"], gone["active_count"]) == (["m1"], "1")


def typed(document: str, heading: str) -> list[tuple[str, str]]:
    """Methods and bodies of the calls that a section of a document types."""
    text = (REPOSITORY / "docs" / document).read_text(encoding="utf-8")
    section = text.split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    return [(method, body) for body, method in TYPED_CALL.findall(section)]


def test_facts_and_contents_by_hand_as_the_documents_type_them(store, program):
    with Server(store) as server:
        client = Grpcurl(program, server.target)
        _, added, corrected, known, deleted, undone = (
            client.call(*call) for call in typed("BLOCKS.md", "### Facts by hand"))
        assert (added["fact"]["fact_id"], added["change"], deleted["change"]) == ("1", "1", "3")
        assert known["facts"]["facts"] == [corrected["fact"]]
        assert known["facts"]["history"][0]["end"] == "FACT_END_CORRECTED"
        assert undone["facts"] == [deleted["fact"]] == [corrected["fact"]]
        _, _, shown, _ = (client.call(*call) for call in
                          typed("COMMAND_LINE.md", "## Contents and messages one by one"))
        assert shown["content"]["text"] == "Prefers kilometres."


def test_list_and_describe_show_the_services(server, program):
    client = Grpcurl(program, server.target)
    services = client.services()
    assert {"memoryd.v1.MemoryService", "memoryd.v1.SessionService", "grpc.health.v1.Health"} <= (
        services
    )
    described = client.describe("memoryd.v1.MemoryService")
    for rpc in ("Put", "Get", "GetAll", "Set", "Reset", "Query", "UpdateContext"):
        assert rpc in described
    assert "token_flush_size" in client.describe("memoryd.v1.SessionConfig")
    assert "Check" in client.describe("grpc.health.v1.Health")


def test_the_worked_example(calls, session_id):
    turns = (
        memory.Message(role="user", text="Hello, world!"),
        memory.Message(role="assistant", text="Hello, world to you too!"),
        memory.Message(role="user", text="What is the capital of France?"),
        memory.Message(role="assistant", text="The capital of France is Paris."),
    )
    config = memory.SessionConfig(profile="llama-index", token_limit=50, token_flush_size=10,
                                  chat_history_token_ratio=0.7)
    calls.CreateSession(session_id=session_id, config=config)
    for _ in range(100):
        for turn in turns:
            calls.Put(session_id=session_id, messages=[turn])
    context = calls.Get(session_id=session_id).messages
    assert [(m.role, m.text) for m in context] == [(m.role, m.text) for m in turns]
    found = calls.all_messages(session_id, page_size=33)
    assert [m.text for m in found] == [m.text for m in turns] * 100
    positions = [m.position for m in found]
    assert positions == sorted(set(positions))
    archived = memory.MESSAGE_STATUS_ARCHIVED
    assert [m.status for m in found[:-4]] == [archived] * 396
    assert [m.status for m in found[-4:]] == [memory.MESSAGE_STATUS_ACTIVE] * 4
    reset = calls.Reset(session_id=session_id)
    assert (reset.active_count, reset.archived_count) == (4, 396)
    assert calls.all_messages(session_id) == []
    assert list(calls.Get(session_id=session_id).messages) == []
    calls.Put(session_id=session_id, messages=[user("again")])
    assert [m.text for m in calls.Get(session_id=session_id).messages] == ["again"]
