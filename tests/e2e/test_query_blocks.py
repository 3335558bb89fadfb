"""What blocks know answers a Query, beside messages and contents."""

from __future__ import annotations

import math

import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import WAIT, block, drained, every_turn, models_file, turn
from support.calls import Calls, assistant, memory, note, user
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store
from support.waiting import wait_for

from memoryd.v1 import filter_pb2 as filter_wire

RETRY = "--job-retry-ms=20"
FACTS = block("facts", "fact-extraction", model="chat")
TEA = '<facts><fact evidence="1">Ann drinks oolong.</fact></facts>'


@pytest.fixture(scope="module")
def models():
    with ModelServer() as server:
        yield server


@pytest.fixture(autouse=True)
def honest(models):
    models.be_honest()
    models.set_replies(["<facts></facts>"])


@pytest.fixture(scope="module")
def server(store_kind, models, tmp_path_factory):
    arguments = [models_file(tmp_path_factory.mktemp("models"), models), RETRY]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as running:
        yield running


@pytest.fixture(scope="module")
def calls(server):
    with server.channel() as channel:
        yield Calls(channel)


def fed(calls: Calls, session_id: str, *blocks: memory.Block, text: str = "My usual, please"):
    """A session whose blocks have taken one turn in; returns the ids of its messages."""
    calls.CreateSession(session_id=session_id, config=every_turn(*blocks))
    put = calls.Put(session_id=session_id, messages=turn(text))
    calls.Put(session_id=session_id, wait=WAIT, messages=[user("Next")])
    drained(calls, session_id)
    return list(put.message_ids)


def items(calls: Calls, session_id: str, query: str, **fields) -> list:
    results = calls.Query(session_id=session_id, query=query, **fields).results
    return [result.block_item for result in results if result.HasField("block_item")]


def facts(calls: Calls, session_id: str, query: str, **fields) -> list[str]:
    return [item.fact.text for item in items(calls, session_id, query, **fields)]


def test_a_fact_that_does_not_tell_its_language_is_in_the_sessions(calls, models, session_id):
    models.set_replies(['<facts><fact evidence="1">Bücher</fact></facts>'])
    fed(calls, session_id, FACTS, text="Ich habe die alten Sachen noch.")
    assert facts(calls, session_id, "Buch") == ["Bücher"]


def test_a_fact_is_found_with_where_it_comes_from(calls, models, session_id):
    models.set_replies([TEA])
    ids = fed(calls, session_id, FACTS)
    reply = calls.Query(session_id=session_id, query="oolong", parts_of_score=True)
    best = reply.results[0]
    assert best.score == 1 and best.block_item.block == "facts"
    fact = best.block_item.fact
    assert (fact.text, list(fact.message_ids)) == ("Ann drinks oolong.", [ids[0]])
    assert fact.fact_id == 1 and fact.trust > 0 and fact.HasField("last_time")
    parts = best.parts_of_score
    assert parts.words > 0 and parts.HasField("cosine")
    assert math.isclose(parts.words + parts.vector + parts.user + parts.length, 1, rel_tol=1e-6)
    scores = [result.score for result in reply.results]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("kind, options, answer, query, expected", (
    ("entity", {"model": "chat"}, '<entities><entity name="Rex">A beagle.</entity></entities>',
     "beagle", ("entity", "A beagle.")),
    ("entity", {"model": "chat"}, '<entities><entity name="Rex">A beagle.</entity></entities>',
     "Rex", ("entity", "A beagle.")),
    ("summary", {"model": "chat"}, "Ann asked for a beagle.", "beagle",
     ("text", "Ann asked for a beagle.")),
    ("static", {}, "", "harbour", ("text", "The harbour opens at nine.")),
))
def test_each_kind_is_found(calls, models, session_id, kind, options, answer, query, expected):
    models.set_replies([answer])
    content = ["The harbour opens at nine."] if kind == "static" else ()
    fed(calls, session_id, block("b", kind, content=content, **options))
    best = items(calls, session_id, query)[0]
    which = best.WhichOneof("item")
    said = best.entity.text if which == "entity" else best.text
    assert (best.block, which, said) == ("b", *expected)


def test_what_a_block_learns_next_is_found_and_what_it_drops_is_not(calls, models, session_id):
    models.set_replies([TEA])
    ids = fed(calls, session_id, FACTS)
    assert facts(calls, session_id, "oolong") == ["Ann drinks oolong."]
    models.set_replies(['<facts><fact evidence="1">Ann has a beagle.</fact></facts>'])
    calls.Put(session_id=session_id, messages=[assistant("I see.")])
    calls.Put(session_id=session_id, wait=WAIT, messages=[user("And a dog")])
    drained(calls, session_id)
    assert "Ann has a beagle." in facts(calls, session_id, "beagle")
    calls.DeleteMessage(session_id=session_id, message_id=ids[0])
    assert facts(calls, session_id, "oolong") == ["Ann has a beagle."]
    calls.Reset(session_id=session_id)
    assert calls.Query(session_id=session_id, query="beagle").results == []


def test_messages_contents_and_facts_are_ranked_together(calls, models, session_id):
    models.set_replies([TEA])
    fed(calls, session_id, FACTS, text="Oolong is what I drink")
    calls.Put(session_id=session_id, contents=[note("Oolong")])
    results = calls.Query(session_id=session_id, query="oolong").results
    kinds = [result.WhichOneof("item") for result in results[:3]]
    assert sorted(kinds) == ["block_item", "content", "message"]
    assert len(calls.Query(session_id=session_id, query="oolong", top_k=1).results) == 1


def test_a_filter_or_the_caller_leaves_blocks_out(calls, models, session_id):
    models.set_replies([TEA])
    fed(calls, session_id, FACTS)
    assert facts(calls, session_id, "oolong") == ["Ann drinks oolong."]
    assert not facts(calls, session_id, "oolong", without_blocks=True)
    assert not facts(calls, session_id, "oolong", filter=filter_wire.Filter(roles=["user"]))


def test_a_long_text_counts_for_its_passage(calls, session_id):
    filler = " ".join(["Boats come and go all day."] * 100)
    text = f"{filler}\n\nThe lighthouse keeper is called Magnus.\n\n{filler}"
    calls.CreateSession(session_id=session_id, config=memory.SessionConfig(
        tokenizer="whitespace", blocks=[block("b", "static", content=[text])]))
    calls.Put(session_id=session_id, messages=[user("Hello")])
    assert items(calls, session_id, "lighthouse")[0].text == text
    reply = calls.Query(session_id=session_id, query="lighthouse", passages=True)
    result, = (result for result in reply.results if result.HasField("block_item"))
    assert "Magnus" in result.passage and len(result.passage) <= 700
    assert result.block_item.WhichOneof("item") == "text" and not result.block_item.text
    assert not items(calls, session_id, "lighthouse", token_budget=200)
    assert items(calls, session_id, "lighthouse", token_budget=200, passages=True)


def test_a_session_without_messages_finds_what_its_blocks_say(calls, session_id):
    calls.CreateSession(session_id=session_id, config=memory.SessionConfig(
        blocks=[block("b", "static", content=["The harbour opens at nine."])]))
    assert [i.text for i in items(calls, session_id, "harbour")] == ["The harbour opens at nine."]


def test_a_fact_of_one_conversation_answers_in_another_after_a_kill(store_kind, models, tmp_path):
    """Of the same user, not of another, nor of another tenant's user of the same name."""
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        credential("a", token="a"), credential("b", token="b")])
    arguments = [models_file(tmp_path, models), RETRY, f"--credentials={credentials}"]
    models.set_replies([TEA])

    def attached(to: str) -> memory.SessionConfig:
        return memory.SessionConfig(subject=to, blocks=[block("user", "session", session_id=to)])

    def known(caller: Caller, session_id: str) -> list[tuple[str, str]]:
        results = caller("Query", session_id=session_id, query="oolong").results
        return [(result.block_item.fact.text, result.session_id) for result in results
                if result.HasField("block_item")]

    with fresh_store(store_kind) as store:
        server = Server(store, arguments=arguments)
        with server.channel() as channel:
            for tenant in "ab":
                for name in ("user:ann", "user:bob"):
                    Caller(channel, tenant)("CreateSession", session_id=name,
                                            config=every_turn(FACTS, subject=name))
            caller = Caller(channel, "a")
            for messages in (turn("My usual, please"), [user("Next")]):
                caller("Put", session_id="first", config=attached("user:ann"), wait=WAIT,
                       messages=messages)
            wait_for(lambda: known(caller, "user:ann"))
        server.kill()
        with Server(store, arguments=arguments) as server, server.channel() as channel:
            for tenant, name, expected in (
                    ("a", "user:ann", [("Ann drinks oolong.", "user:ann")]),
                    ("a", "user:bob", []), ("b", "user:ann", [])):
                caller = Caller(channel, tenant)
                session = f"second {name}"
                caller("Put", session_id=session, config=attached(name), messages=[user("Hello")])
                assert known(caller, session) == expected
