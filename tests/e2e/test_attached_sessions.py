"""Blocks of kind `session`: what is said in one conversation is known in the next."""

from __future__ import annotations

import threading

import grpc
import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import (
    FAILED,
    OPEN,
    WAIT,
    block,
    drained,
    every_turn,
    field_of,
    jobs_of,
    memory_text,
    missing,
    models_file,
    section,
    turn,
)
from support.calls import Calls, memory, note, refusal, user
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store
from support.waiting import wait_for

INVALID = grpc.StatusCode.INVALID_ARGUMENT
RETRY = "--job-retry-ms=20"
FACTS = block("facts", "fact-extraction", model="chat")
TEA = '<facts><fact evidence="1">Ann drinks tea.</fact></facts>'


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
    arguments = [models_file(tmp_path_factory.mktemp("models"), models), RETRY,
                 "--job-attempts=1000"]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as running:
        yield running


@pytest.fixture(scope="module")
def calls(server):
    with server.channel() as channel:
        yield Calls(channel)


def shows(other: str, name: str = "user", **options) -> memory.Block:
    return block(name, "session", session_id=other, **options)


def attached(other: str, **fields) -> memory.SessionConfig:
    return memory.SessionConfig(blocks=[shows(other)], **fields)


def texts(calls: Calls, session_id: str) -> list[str]:
    return [m.text for m in calls.all_messages(session_id)]


def settled(calls: Calls, *sessions: str) -> None:
    for session_id in sessions:
        drained(calls, session_id)


def found(calls: Calls, session_id: str, query: str, **fields) -> list[tuple[str, str]]:
    """Texts found, and the other session they were found in."""
    results = calls.Query(session_id=session_id, query=query, **fields).results
    return [((r.message.text or r.content.text), r.session_id) for r in results]


def test_what_one_conversation_learns_the_next_one_knows(calls, models, session_id):
    ann, first, second = session_id + " ann", session_id + " 1", session_id + " 2"
    calls.CreateSession(session_id=ann, config=every_turn(FACTS))
    models.set_replies([TEA])
    calls.Put(session_id=first, config=attached(ann), wait=WAIT, messages=turn("I drink tea"))
    calls.Put(session_id=second, config=attached(ann), wait=WAIT,
              messages=[user("What do you know of me?")])
    settled(calls, ann)
    reply = calls.Get(session_id=second)
    assert section(reply, "user") == ["<fact>Ann drinks tea.</fact>"]
    assert list(reply.blocks_used) == ["user"] and not reply.missing_blocks
    assert found(calls, second, "tea")[0] == ("I drink tea", ann)
    # The first finds its own message only once, in itself.
    assert found(calls, first, "drink tea")[0] == ("I drink tea", "")
    assert [text for text, _ in found(calls, first, "tea")].count("I drink tea") == 1


def test_a_context_has_what_the_other_session_knows(calls, models, session_id):
    ann, talk = session_id + " ann", session_id + " talk"
    calls.CreateSession(session_id=ann, config=every_turn(
        block("said", "static", content=["Be brief."]), FACTS,
        block("like", "vector", embedder="embed")))
    calls.CreateSession(session_id=talk, config=memory.SessionConfig(blocks=[
        block("own", "static", content=["Here."]), shows(ann), shows(talk + " none", "none")]))
    context = [user("What do you know of me?")]
    before = calls.UpdateContext(session_id=talk, messages=context)
    assert list(before.blocks_used) == ["own", "user"]
    models.set_replies([TEA])
    for text in ("I drink tea", "Really"):
        assert not calls.Put(session_id=ann, messages=turn(text), wait=WAIT).open_jobs
    after = calls.UpdateContext(session_id=talk, messages=before.messages)
    # What answers to the question, as a vector block does, comes with a Get alone.
    assert [line for line in after.messages[0].text.split("\n") if "memoryd_" not in line] == [
        "Here.", "Be brief.", "<fact>Ann drinks tea.</fact>"]
    assert list(after.blocks_used) == ["own", "user"] and not after.blocks_dropped
    assert after.stable_prefix_hash != before.stable_prefix_hash
    again = calls.UpdateContext(session_id=talk, messages=after.messages,
                                known_prefix_hash=after.stable_prefix_hash)
    assert again.messages == after.messages and again.unchanged
    calls.DeleteSession(session_id=ann)
    last = calls.UpdateContext(session_id=talk, messages=context)
    assert list(last.blocks_used) == ["own"] and "tea" not in last.messages[0].text


def test_a_session_of_somebody_else_learns_nothing(calls, models, session_id):
    ann, bob = session_id + " ann", session_id + " bob"
    for name in (ann, bob):
        calls.CreateSession(session_id=name, config=every_turn(FACTS))
    models.set_replies([TEA])
    calls.Put(session_id=session_id, config=attached(ann), wait=WAIT, messages=turn("I drink tea"))
    calls.Put(session_id=session_id, wait=WAIT, messages=turn("Yes"))
    settled(calls, ann, bob)
    other = session_id + " other"
    calls.Put(session_id=other, config=attached(bob), messages=[user("Hello")])
    assert memory_text(calls.Get(session_id=other)) == ""
    assert found(calls, other, "tea") == [("Hello", "")]
    settled(calls, other)
    assert texts(calls, bob) == ["Hello"]


def test_a_session_of_the_same_name_in_another_tenant_is_another(store_kind, tmp_path):
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        credential("a", token="a"), credential("b", token="b")])
    arguments = [f"--credentials={credentials}", RETRY]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server, \
            server.channel() as channel:
        a, b = Caller(channel, "a"), Caller(channel, "b")
        for caller in (a, b):
            caller("CreateSession", session_id="user")
            caller("Put", session_id="talk", config=attached("user"), wait=WAIT,
                   messages=[user(f"secret of {'a' if caller is a else 'b'}")])
        for caller, said in ((a, "secret of a"), (b, "secret of b")):
            messages = caller("GetAll", session_id="user").messages
            assert [m.text for m in messages] == [said]
            caller("CreateSession", session_id="next", config=attached("user"))
            results = caller("Query", session_id="next", query="secret").results
            assert [r.message.text for r in results] == [said]


def test_messages_arrive_as_they_are_and_tell_where_they_come_from(store_kind, tmp_path):
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        {**credential("t", token="web"), "name": "web", "untrusted": True},
        {**credential("t", token="app"), "name": "app"}])
    arguments = [f"--credentials={credentials}", RETRY]
    with fresh_store(store_kind) as store, Server(store, arguments=arguments) as server, \
            server.channel() as channel:
        app, web = Caller(channel, "app"), Caller(channel, "web")
        app("CreateSession", session_id="user")
        app("CreateSession", session_id="talk", config=attached("user"))
        sent = [
            memory.Message(role="user", text="hi", name="Ann", thread_id="t",
                           metadata_json='{"b":1.0,"a":1}', message_id="m1",
                           source_session_id="forged", source_message_id="forged"),
            memory.Message(role="assistant", parts=[memory.Part(tool_call=memory.ToolCall(
                call_id="k", name="f", arguments_json='{"z":1}'))]),
            memory.Message(role="tool", parts=[memory.Part(tool_result=memory.ToolResult(
                call_id="k", name="f", text="nul \0"))])]
        app("Put", session_id="talk", messages=sent[:1], wait=WAIT)
        web("Put", session_id="talk", messages=sent[1:], wait=WAIT)
        here = app("GetAll", session_id="talk").messages
        there = app("GetAll", session_id="user").messages
        assert [m.source_session_id for m in here] == ["", "", ""]
        assert [(m.source_session_id, m.source_message_id) for m in there] == [
            ("talk", m.message_id) for m in here]
        assert [(m.writer, m.untrusted) for m in there] == [(m.writer, m.untrusted) for m in here]
        assert [m.untrusted for m in there] == [False, True, True]
        for one, other in zip(here, there, strict=True):
            for name in ("role", "text", "parts", "name", "thread_id", "metadata_json",
                         "token_count"):
                assert getattr(one, name) == getattr(other, name)
        # A change keeps it.
        app("UpdateMessage", session_id="user", message_id=there[0].message_id, text="hello")
        assert app("GetAll", session_id="user").messages[0].source_message_id == "m1"


def test_only_what_is_put_is_handed_on(calls, session_id):
    other = session_id + " other"
    calls.CreateSession(session_id=other)
    calls.Put(session_id=session_id, config=attached(other), contents=[note("a note")],
              messages=[user("put", message_id="m")], wait=WAIT)
    calls.Set(session_id=session_id, messages=[user("set")])
    calls.Put(session_id=session_id, messages=[user("more", message_id="n")], wait=WAIT)
    calls.UpdateMessage(session_id=session_id, message_id="n", text="changed")
    calls.DeleteMessage(session_id=session_id, message_id="n")
    assert texts(calls, other) == ["put", "more"]
    # Shown, and fed no more.
    calls.UpdateSession(session_id=session_id, config=memory.SessionConfig(
        blocks=[shows(other, accept_short_term_memory=False)]))
    calls.Put(session_id=session_id, messages=[user("kept")], wait=WAIT)
    assert texts(calls, other) == ["put", "more"]
    assert ("more", other) in found(calls, session_id, "more")


def test_sessions_that_name_each_other_don_t_hand_on_for_ever(calls, session_id):
    one, other = session_id + " 1", session_id + " 2"
    calls.CreateSession(session_id=one, config=attached(other))
    calls.CreateSession(session_id=other, config=attached(one))
    calls.Put(session_id=one, messages=[user("from one")], wait=WAIT)
    calls.Put(session_id=other, messages=[user("from other")], wait=WAIT)
    settled(calls, one, other)
    assert texts(calls, one) == ["from one", "from other"]
    assert texts(calls, other) == ["from one", "from other"]
    # A block of this kind shows no other of this kind: there is an end to it.
    assert memory_text(calls.Get(session_id=one)) == ""
    assert sorted(text for text, _ in found(calls, one, "from")) == ["from one", "from other"]


def test_what_there_is_no_session_for_waits_for_it(calls, session_id):
    other = session_id + " other"
    reply = calls.Put(session_id=session_id, config=attached(other), messages=[user("early")])
    assert len(reply.open_jobs) == 1
    wait_for(lambda: "SESSION_NOT_FOUND" in jobs_of(calls, session_id)[0].last_error
             or "no session" in jobs_of(calls, session_id)[0].last_error)
    assert jobs_of(calls, session_id)[0].state == OPEN
    assert memory_text(calls.Get(session_id=session_id)) == ""
    calls.CreateSession(session_id=other)
    settled(calls, session_id)
    assert texts(calls, other) == ["early"]


def test_a_role_that_the_other_session_refuses_fails_its_job_alone(calls, session_id):
    other = session_id + " other"
    calls.CreateSession(session_id=other, config=memory.SessionConfig(profile="llama-index"))
    calls.Put(session_id=session_id, config=attached(other), wait=WAIT,
              messages=[memory.Message(role="narrator", text="once")])
    calls.Put(session_id=session_id, messages=[user("upon a time")], wait=WAIT)
    first, _ = drained(calls, session_id)
    assert first.state == FAILED and "role" in first.last_error
    assert texts(calls, other) == ["upon a time"]


def test_results_of_several_sessions_are_ranked_together(calls, session_id):
    ann, team = session_id + " ann", session_id + " team"
    calls.Put(session_id=ann, messages=[user("Ann likes green tea with jasmine blossoms"),
                                        user("The weather is fine")])
    calls.Put(session_id=team, messages=[user("The team meets on Monday for tea")],
              contents=[note("jasmine blossoms and green tea")])
    calls.Put(session_id=session_id, messages=[user("I had coffee"), user("Some tea, please")],
              config=memory.SessionConfig(blocks=[
                  shows(ann, "ann", accept_short_term_memory=False),
                  shows(team, "team", accept_short_term_memory=False)]))
    reply = calls.Query(session_id=session_id, query="green tea with jasmine blossoms",
                        parts_of_score=True)
    assert {r.session_id for r in reply.results[:2]} == {team, ann}
    scores = [r.score for r in reply.results]
    assert scores == sorted(scores, reverse=True) and scores[0] == 1
    assert {r.session_id for r in reply.results} == {"", ann, team}
    # What an item has is measured as if all stood in one session: alone each would have 1.
    own = next(r for r in reply.results if not r.session_id)
    assert own.parts_of_score.words < 0.5
    assert len(calls.Query(session_id=session_id, query="tea", top_k=2).results) == 2
    budget = calls.Query(session_id=session_id, query="tea", token_budget=12).results
    assert 0 < sum((r.message if r.HasField("message") else r.content).token_count
                   for r in budget) <= 12
    for own_only in ({"thread_id": ""}, {"status": memory.MESSAGE_STATUS_ACTIVE}):
        results = calls.Query(session_id=session_id, query="tea", filter=own_only).results
        assert {r.session_id for r in results} == {""}
    roles = calls.Query(session_id=session_id, query="tea", filter={"roles": ["user"]}).results
    assert {r.session_id for r in roles} == {"", ann, team}


def test_a_block_of_the_other_session_that_can_t_answer_is_named(calls, models, session_id):
    other = session_id + " other"
    calls.Put(session_id=other, messages=turn("I drink tea"), wait=WAIT, config=every_turn(
        block("said", "static", content=["Be brief."]),
        block("like", "vector", embedder="embed")))
    calls.Put(session_id=other, messages=[user("And you?")], wait=WAIT)
    calls.Put(session_id=session_id, config=attached(other, tokenizer="whitespace"),
              messages=[user("tea")], wait=WAIT)
    assert "Be brief." in section(calls.Get(session_id=session_id), "user")
    models.lie("status", times=1000)
    reply = calls.Get(session_id=session_id)
    assert section(reply, "user") == ["Be brief."]
    assert list(missing(reply)) == ["user/like"]


def test_what_does_not_fit_goes_by_the_other_session_s_priorities(calls, session_id):
    other = session_id + " other"
    calls.CreateSession(session_id=other, config=memory.SessionConfig(
        tokenizer="whitespace", blocks=[
            block("less", "static", 2, content=["least " * 40]),
            block("more", "static", 1, content=["most " * 20])]))
    calls.Put(session_id=session_id, messages=[user("hello")], config=memory.SessionConfig(
        token_limit=60, tokenizer="whitespace",
        blocks=[block("user", "session", 1, session_id=other)]))
    text = memory_text(calls.Get(session_id=session_id))
    assert "most" in text and "least" not in text


@pytest.mark.parametrize("blocks, named", (
    ([block("b", "session")], "config.blocks[0].options_json"),
    ([block("b", "session", session_id=7)], "config.blocks[0].options_json"),
    ([block("b", "session", session_id="x" * 257)], "config.blocks[0].options_json"),
    ([block("b", "session", session_id="x", top_k=1)], "config.blocks[0].options_json"),
    ([block("b", "session", worker="w", session_id="x")], "config.blocks[0].worker"),
    ([block(f"b{i}", "session", session_id=f"x{i}") for i in range(9)], "config.blocks[8].kind"),
))
def test_bad_settings_are_named(calls, session_id, blocks, named):
    error = refusal(calls.CreateSession, session_id=session_id,
                    config=memory.SessionConfig(blocks=blocks))
    assert (error.code(), field_of(error)) == (INVALID, named)


def test_no_session_names_itself(calls, session_id):
    error = refusal(calls.CreateSession, session_id=session_id, config=attached(session_id))
    assert (error.code(), field_of(error)) == (INVALID, "config.blocks[0].options_json")
    # Nor does a copy of one that names it.
    source = session_id + " source"
    calls.Put(session_id=source, config=attached(session_id), messages=[user("hello")])
    error = refusal(calls.ForkSession, session_id=source, new_session_id=session_id)
    assert (error.code(), field_of(error)) == (INVALID, "new_session_id")


def test_each_message_arrives_once_whatever_is_killed(store_kind, tmp_path):
    """Servers are killed while conversations go on: what was acknowledged is in the user's session
    in the end, once, each conversation's in order."""
    talks, rounds, each = 4, 6, 12
    with fresh_store(store_kind) as store:
        arguments = [RETRY, "--job-lease-ms=1000", "--job-attempts=1000"]
        address = f"unix:{tmp_path}/memoryd.sock"
        acknowledged: list[list[str]] = [[] for _ in range(talks)]
        for number in range(rounds):
            server = Server(store, listen=address, arguments=arguments)
            with server.channel() as channel:
                calls = Calls(channel)
                if number == 0:
                    calls.CreateSession(session_id="user")
                begun = threading.Barrier(talks + 1)

                def talk(index: int, calls: Calls, number: int, begun: threading.Barrier) -> None:
                    for i in range(each):
                        text = f"{index} {number} {i}"
                        try:
                            calls.Put(session_id=f"talk {index}", config=attached("user"),
                                      request_id=text, messages=[user(text)])
                        except grpc.RpcError:
                            return
                        finally:
                            if i == 2:
                                begun.wait()
                        acknowledged[index].append(text)

                threads = [threading.Thread(target=talk, args=(i, calls, number, begun))
                           for i in range(talks)]
                for thread in threads:
                    thread.start()
                begun.wait()
                server.kill()
                for thread in threads:
                    thread.join()
        with Server(store, listen=address, arguments=arguments) as server, \
                server.channel() as channel:
            calls = Calls(channel)
            for i in range(talks):
                settled(calls, f"talk {i}")
            arrived = calls.all_messages("user")
            for i in range(talks):
                own = texts(calls, f"talk {i}")
                assert [m.text for m in arrived if m.source_session_id == f"talk {i}"] == own
                assert set(acknowledged[i]) <= set(own)
            assert sum(len(texts(calls, f"talk {i}")) for i in range(talks)) == len(arrived)


def test_what_is_late_for_a_session_that_was_replaced_is_not_put_to_the_next(calls, session_id):
    """A job whose conversation is gone hands nothing on, even to a session that is there anew."""
    other = session_id + " other"
    calls.Put(session_id=session_id, config=attached(other), messages=[user("secret")])
    wait_for(lambda: jobs_of(calls, session_id)[0].attempts > 0)
    calls.DeleteSession(session_id=session_id)
    calls.CreateSession(session_id=other)
    calls.Put(session_id=session_id, config=attached(other), messages=[user("new")], wait=WAIT)
    settled(calls, session_id)
    assert texts(calls, other) == ["new"]
