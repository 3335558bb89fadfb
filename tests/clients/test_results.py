"""Replies as objects that say what they are, with the proto messages' fields as before."""

import asyncio
import copy
import datetime
import pickle

import pytest

import memoryd
from memoryd import Fact, FactChange, Hit, Hits, Job, KnownBlock, KnownFacts, Session, blocks, config
from memoryd.v1 import block_service_pb2, job_service_pb2, memory_pb2, memory_service_pb2
from memoryd.v1.job_service_pb2 import JOB_STATE_FAILED

UTC = datetime.timezone.utc
A_DAY = datetime.datetime(2024, 5, 24, 10, tzinfo=UTC)


@pytest.fixture
def client(server):
    with memoryd.Client(server.target) as memory:
        yield memory


@pytest.fixture
def facts(client, session_id):
    """A session with two facts; its model is not there."""
    client.create_session(session_id, config(subject="ann", blocks=[
        blocks.facts(model="nobody's", facts=["Ann drinks tea."]), blocks.static("Be brief.")]))
    client.add_fact(session_id, "facts", "Ann lives in Lyon.", trust=0.5)
    return session_id


def said(role: str, text: str, day: datetime.datetime = A_DAY) -> memory_pb2.Message:
    made = memoryd.message(role, text)
    made.create_time.FromDatetime(day)
    return made


def test_what_a_query_found(client, session_id):
    client.put(session_id, [said("user", "I drink tea."), said("assistant", "Noted.")],
               contents=[memoryd.content("Tea is a plant."), memoryd.content({"tea": "green"})])
    found = client.query(session_id, "tea")
    assert type(found) is Hits and type(found.wire) is memory_service_pb2.QueryResponse
    assert [type(hit) for hit in found] == [Hit] * len(found) and len(found) >= 3
    assert list(found) == found.results == list(found.wire.results) and found[0] == found.results[0]
    assert found[:2] == found.results[:2] and found.revision == found.wire.revision
    by_kind = {hit.kind: hit for hit in found}
    message = next(hit for hit in found if hit.role == "user")
    assert (message.kind, message.text, message.said) == ("message", "I drink tea.", A_DAY)
    assert message.message.text == message.wire.message.text == "I drink tea."
    assert message.conversation == "" and message.fact is None
    assert {hit.text for hit in found if hit.kind == "content"} >= {"Tea is a plant."}
    assert by_kind["content"].said is not None and by_kind["content"].role == ""
    assert repr(message) == f"Hit({message.score:.2f}, user: 'I drink tea.', said=2024-05-24 10:00Z)"
    assert repr(found).startswith("Hits([Hit(1.00, ")


def test_nothing_found_is_false(client, session_id):
    found = client.query(session_id, "tea")
    assert not found and list(found) == [] and len(found) == 0
    assert repr(found).startswith("Hits([]")


def test_a_fact_that_a_query_found(client, facts):
    found = client.query(facts, "Lyon")
    assert found[0].kind == "fact" and found[0].text == "Ann lives in Lyon."
    assert found[0].fact == found[0].block_item.fact and type(found[0].fact) is Fact
    brief = client.query(facts, "brief")[0]
    assert (brief.kind, brief.text, brief.fact, brief.said) == ("text", "Be brief.", None, None)


def test_a_long_text_is_short_in_a_repr(client, session_id):
    client.put(session_id, [memoryd.message("user", "tea " * 1000)])
    [hit] = client.query(session_id, "tea")
    assert len(repr(hit)) < 150 and "…" in repr(hit) and hit.text == "tea " * 1000
    [passage] = client.query(session_id, "tea", passages=True)
    assert passage.text == passage.passage and 0 < len(passage.text) <= 700


def test_messages_of_parts_have_a_text(client, session_id):
    client.put(session_id, [{"role": "user", "content": [
        {"type": "text", "text": "A tea pot:"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}])
    assert client.query(session_id, "tea")[0].text == "A tea pot:"


def test_facts(client, facts):
    known = client.get_block(facts, "facts")
    assert type(known) is KnownBlock and type(known.facts) is KnownFacts
    assert [fact.text for fact in known.facts] == ["Ann drinks tea.", "Ann lives in Lyon."]
    assert known.facts.facts == list(known.wire.facts.facts) and len(known.facts) == 2
    fact = known.facts.facts[1]
    assert type(fact) is Fact and type(fact.wire) is block_service_pb2.Fact
    assert (fact.fact_id, fact.trust) == (2, 0.5)
    assert fact.first_said.tzinfo is UTC and fact.last_said >= fact.first_said
    assert repr(fact).startswith("Fact(2, 'Ann lives in Lyon.', trust=0.5")
    assert repr(known).startswith("KnownBlock('facts', kind='fact-extraction', facts=[Fact(1, ")
    assert known.block.kind == "fact-extraction" and known.jobs_made == 0
    assert "static" in repr(client.get_block(facts, "static"))


def test_changes_of_facts(client, facts):
    changed = client.update_fact(facts, "facts", 2, "Ann lives in Paris.")
    assert type(changed) is FactChange and changed.fact.text == "Ann lives in Paris."
    assert "change=" in repr(changed) and changed.change == changed.wire.change
    [past] = client.get_block(facts, "facts").facts.history
    assert (past.why, past.fact.text) == ("corrected", "Ann lives in Lyon.")
    assert repr(past).startswith("PastFact(Fact(2, 'Ann lives in Lyon.'") and "corrected" in repr(past)
    undone = client.undo_block_change(facts, "facts", changed.change)
    assert "Ann lives in Lyon." in [fact.text for fact in undone.facts] and "Lyon" in repr(undone)
    gone = client.delete_fact(facts, "facts", 1)
    assert gone.fact.text == "Ann drinks tea."
    assert len(client.get_block(facts, "facts").facts) == 1


def test_sessions(client, facts):
    session = client.get_session(facts)
    assert type(session) is Session and type(session.wire) is memory_pb2.Session
    assert session.config.subject == "ann" and session.session_id == facts
    assert session.created.tzinfo is UTC and session.updated >= session.created
    assert session.expires is None and not session.HasField("expire_time")
    assert repr(session) == (f"Session({facts!r}, subject='ann', active=0, archived=0, "
                             "blocks=['facts', 'static'])")
    assert [one.session_id for one in client.list_sessions(subject="ann")].count(facts) == 1
    ended = client.update_session(facts, config(retention=memoryd.retention(session_ttl=3600)))
    assert ended.expires > ended.created and "expires=" in repr(ended)
    # As before, for what takes the proto message.
    copied = memory_pb2.Session.FromString(session.SerializeToString())
    assert copied == session.wire and session == copied and session != ended
    client.create_session(f"{facts}-2", session.config)
    assert client.get_session(f"{facts}-2").config == session.config


def test_jobs(client, session_id):
    client.put(session_id, [memoryd.message("user", "hi")], config=config(
        subject="ann", blocks=[blocks.session(f"{session_id}-not-there")]))
    [job] = client.list_jobs(session_id)
    assert type(job) is Job and type(job.wire) is job_service_pb2.Job
    assert job.status == "open" and job.block == "session" and job.created.tzinfo is UTC
    assert repr(job).startswith(f"Job({job.job_id!r}, block='session', open, attempts=")
    cancelled = client.cancel_job(session_id, job.job_id)
    assert cancelled.status == "cancelled" and type(cancelled) is Job
    assert client.get_job(session_id, job.job_id).status == "cancelled"
    assert list(client.list_jobs(session_id, state=JOB_STATE_FAILED)) == []


def test_contexts(client, session_id):
    client.put(session_id, [memoryd.message("user", "I drink tea.")], config=config(
        blocks=[blocks.static("Be brief.")]))
    context = client.get(session_id)
    assert context.wire is context.reply and type(context.reply) is memory_service_pb2.GetResponse
    assert repr(context) == (f"Context(2 messages, last=user: 'I drink tea.', "
                             f"tokens={context.token_count} of 30000, blocks_used=['static'])")
    updated = client.update_context(session_id, [{"role": "user", "content": "Tea?"}])
    assert updated.results == list(updated.wire.results)
    assert repr(updated).startswith("UpdatedContext(2 messages, last=user: 'Tea?', results=[")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],
                         ids=["copy", "deepcopy", "pickle"])
def test_they_are_copied_and_pickled(client, facts, again):
    for one in (client.get_session(facts), client.get_block(facts, "facts"), client.query(facts, "tea"),
                client.query(facts, "tea")[0], client.get(facts)):
        assert again(one) == one and type(again(one)) is type(one)


def test_what_there_is_not_raises_attribute_error(client, facts):
    with pytest.raises(AttributeError, match="colour"):
        client.get_session(facts).colour  # noqa: B018
    with pytest.raises(TypeError):
        hash(client.get_session(facts))


def test_async(server, facts):
    async def run():
        async with memoryd.AsyncClient(server.target) as memory:
            assert type(await memory.query(facts, "tea")) is Hits
            assert type(await memory.get_session(facts)) is Session
            sessions = [one async for one in memory.list_sessions(subject="ann")]
            assert type(sessions[0]) is Session
            assert type(await memory.get_block(facts, "facts")) is KnownBlock
    asyncio.run(run())
