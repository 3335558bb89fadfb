"""Entries of vector blocks do not outlive the messages that they were made of."""

from __future__ import annotations

import contextlib

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from support.blocks import DONE, WAIT, block, drained, every_turn, memory_text, models_file, turn
from support.calls import Calls, assistant, memory, refusal, user
from support.model_server import ModelServer
from support.server import Server
from support.waiting import wait_for

VECTORS = block("vectors", "vector", embedder="embed", top_k=50, retrieval_context_window=1)
QUICK = "--sweep-interval-ms=100"


@pytest.fixture(scope="module")
def models():
    with ModelServer() as running:
        yield running


@pytest.fixture
def start(store, models, tmp_path):
    """Starts a server with the models, for a with statement that has calls to it."""
    arguments = [models_file(tmp_path, models, {"timeout_ms": 60000}), "--job-retry-ms=20", QUICK]

    @contextlib.contextmanager
    def started():
        with Server(store, arguments=arguments) as running, running.channel() as channel:
            yield Calls(channel)

    return started


def put(calls: Calls, text: str, **fields) -> list[str]:
    """A turn, fed when the next one has been put; the ids of its messages."""
    return list(calls.Put(session_id="s", messages=turn(text), wait=WAIT, **fields).message_ids)


def entries(calls: Calls) -> list[str]:
    return [entry.text for entry in calls.all_entries("s", "vectors")]


def told(calls: Calls, text: str) -> bool:
    """Whether any reply about the block has it, which must agree."""
    listed = any(text in entry for entry in entries(calls))
    assert (text in memory_text(calls.Get(session_id="s"))) == listed
    return listed


def test_what_is_deleted_or_changed_is_said_by_no_server_and_after_no_restart(start, store_kind):
    with contextlib.ExitStack() as stack:
        calls = stack.enter_context(start())
        servers = [calls]
        ids = {text: put(calls, text, config=every_turn(VECTORS))
               for text in ("a parrot", "a hamster", "a tortoise", "a goldfish")}
        if store_kind == "postgresql":
            # It has the entries in memory from now on.
            servers.append(stack.enter_context(start()))
        assert all(told(each, "parrot") and told(each, "hamster") for each in servers)
        gone = calls.DeleteMessage(session_id="s", message_id=ids["a parrot"][0])
        assert list(gone.message_ids) == ids["a parrot"][:1]
        calls.UpdateMessage(session_id="s", message_id=ids["a hamster"][0], text="a squirrel")
        for each in servers:
            assert not told(each, "parrot") and not told(each, "hamster")
            assert told(each, "tortoise")
        # The rest of the turn, and the text as it is now, are embedded by jobs.
        wait_for(lambda: sorted(entries(calls)) == [
            "assistant: I see.", "user: a squirrel\nassistant: I see.",
            "user: a tortoise\nassistant: I see."])
        known = calls.GetBlock(session_id="s", block="vectors")
        assert known.entries.entry_count == 3
        for each in servers:
            assert not told(each, "parrot") and not told(each, "hamster")
            assert told(each, "squirrel")
        assert {job.state for job in drained(calls, "s")} == {DONE}
    with start() as calls:
        assert not told(calls, "parrot") and not told(calls, "hamster")
        assert told(calls, "squirrel") and told(calls, "tortoise")


def test_a_job_under_way_does_not_bring_it_back(start, models):
    with start() as calls:
        first = put(calls, "a secret", config=every_turn(VECTORS))
        asked = len(models.requests)
        with models.hanging():
            calls.Put(session_id="s", messages=turn("What else?"))
            models.wait_for_requests(asked + 1)
            calls.DeleteMessage(session_id="s", message_id=first[0])
        assert {job.state for job in drained(calls, "s")} == {DONE}
        assert entries(calls) == ["assistant: I see."]
        assert not told(calls, "secret")


def test_llama_index_makes_a_flush_anew_without_the_message(start):
    config = every_turn(VECTORS, profile="llama-index", token_limit=40,
                        token_flush_size=20, chat_history_token_ratio=0.5)
    with start() as calls:
        names = [f"m{number}" for number in range(30)]
        for name in names:
            calls.Put(session_id="s", config=config, wait=WAIT,
                      messages=[user(f"{name} said.", message_id=name)])
        first = calls.all_entries("s", "vectors")[0]
        of_first = [source.message_id for source in first.sources]
        assert of_first == names[:len(of_first)] and len(of_first) > 2
        calls.DeleteMessage(session_id="s", message_id="m1")
        assert not told(calls, "m1 said.") and not told(calls, "m0 said.")
        wait_for(lambda: any("m0 said." in entry for entry in entries(calls)))
        assert told(calls, "m0 said.") and not told(calls, "m1 said.")
        made = calls.all_entries("s", "vectors")[-1]
        assert [source.message_id for source in made.sources] == [
            name for name in of_first if name != "m1"]
        assert made.text == first.text.replace("<message role='user'>m1 said.</message>\n", "")


def test_entries_go_with_what_retention_takes(start):
    config = every_turn(VECTORS, retention=memory.Retention(keep_messages=6))
    with start() as calls:
        for number in range(6):
            put(calls, f"line {number}.", config=config)
            for older in range(number):
                assert told(calls, f"line {older}.") == (older > number - 3), (number, older)
        wait_for(lambda: calls.GetBlock(session_id="s", block="vectors").entries.entry_count == 2)
        assert [entry.split("\n")[0] for entry in entries(calls)] == [
            "user: line 3.", "user: line 4."]


def test_what_holds_a_message_whose_time_is_over_is_hidden(start):
    with start() as calls:
        soon = Timestamp()
        soon.GetCurrentTime()
        soon.FromMilliseconds(soon.ToMilliseconds() + 5000)
        calls.Put(session_id="s", config=every_turn(VECTORS), wait=WAIT, messages=[
            user("for an hour", expire_time=soon), assistant("I see.")])
        put(calls, "for good")
        assert told(calls, "for an hour")
        wait_for(lambda: entries(calls) == ["assistant: I see."], attempts=3000)
        assert not told(calls, "for an hour")


def test_entries_that_are_too_old_are_hidden_and_go(start):
    lasting = block("vectors", "vector", embedder="embed", top_k=50, retrieval_context_window=1,
                    ttl=4)
    with start() as calls:
        put(calls, "for a while", config=every_turn(lasting))
        put(calls, "another")
        assert told(calls, "for a while")
        wait_for(lambda: not entries(calls))
        wait_for(lambda: calls.GetBlock(session_id="s", block="vectors").entries.entry_count == 0)
        put(calls, "later")
        assert not told(calls, "for a while")
    with start() as calls:
        assert not told(calls, "for a while")


def test_a_ttl_is_checked(start):
    with start() as calls:
        for ttl in (0, -1, 315_360_001, 1.5, "1"):
            config = every_turn(block("vectors", "vector", embedder="embed", ttl=ttl))
            error = refusal(calls.CreateSession, session_id="s", config=config)
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "config.blocks[0].options_json" in error.details()
