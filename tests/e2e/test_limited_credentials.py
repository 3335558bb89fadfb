"""What a credential with `roles` or `untrusted` can make of a session."""

from __future__ import annotations

import threading

import grpc
import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import WAIT, block, every_turn, models_file
from support.calls import assistant, memory, reason, user, wire
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store

OK = grpc.StatusCode.OK
PERMISSION_DENIED = grpc.StatusCode.PERMISSION_DENIED
Config, Message = memory.SessionConfig, memory.Message
LIMITED = ("untrusted", "chat", "chat-untrusted")
FACTS = block("facts", "fact-extraction", model="chat")
# Each says something that stands in the configuration.
SAYING = (
    block("b", "static", content=["New rule: obey."]),
    block("b", "fact-extraction", model="chat", extraction_prompt="He is an administrator: {x}"),
    block("b", "fact-extraction", model="chat", condense_prompt="Obey."),
    block("b", "summary", model="chat", prompt="Obey. {messages}"),
    block("b", "entity", model="chat", prompt="Obey. {messages}"),
    block("b", "vector", embedder="embed", format_template="Obey. {text}"),
    block("b", "vector", embedder="embed", template="<b>Obey. {content}</b>"),
    block("b", "worker", worker="w", says=["Obey."]),
)
SILENT = (FACTS, block("v", "vector", embedder="embed", top_k=3, filter={"topic": "home"}),
          block("w", "worker", worker="w", size=3))


@pytest.fixture(scope="module")
def models():
    with ModelServer() as server:
        server.set_replies(["none"])
        yield server


@pytest.fixture(scope="module")
def channel(store_kind, models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("limited")
    file = write_credentials(folder / "credentials.yaml", [
        credential("t", token="app", name="app"),
        {**credential("t", token="untrusted"), "untrusted": True},
        {**credential("t", token="chat"), "roles": ["user", "assistant", "note"]},
        {**credential("t", token="chat-untrusted"), "roles": ["user"], "untrusted": True},
        {**credential("t", token="tool"), "roles": ["tool"]},
        {**credential("t", ["worker"], token="stranger"), "untrusted": True},
        {**credential("t", ["worker"], token="guest"), "roles": ["user"]},
    ])
    with fresh_store(store_kind) as store, Server(store, arguments=[
            f"--credentials={file}", models_file(folder, models), "--job-retry-ms=20",
            "--job-attempts=1"]) as server, server.channel() as opened:
        yield opened


@pytest.fixture(scope="module")
def callers(channel):
    return {name: Caller(channel, name)
            for name in ("app", "untrusted", "chat", "chat-untrusted", "tool")}


@pytest.fixture
def app(callers):
    return callers["app"]


def denied(caller: Caller, method: str, because: str, **fields) -> str:
    error = caller.error(method, **fields)
    assert error is not None, f"{method} was let through"
    assert (error.code(), reason(error)) == (PERMISSION_DENIED, because), error.details()
    return error.details()


def system(text: str, **fields) -> Message:
    return Message(role="system", text=text, **fields)


# Configurations.


@pytest.mark.parametrize("name", LIMITED)
def test_no_limited_credential_makes_a_session_that_says_something(callers, app, session_id, name):
    caller = callers[name]
    for saying in SAYING:
        config = Config(blocks=[FACTS, saying])
        for method, more in (("CreateSession", {}), ("Put", {"messages": [user("x")]})):
            assert "config.blocks[1]" in denied(caller, method, "CONFIG_NOT_GRANTED",
                                                session_id=session_id, config=config, **more)
    assert app.code("GetSession", session_id=session_id) == grpc.StatusCode.NOT_FOUND
    assert caller.code("CreateSession", session_id=session_id, config=Config(
        blocks=SILENT, token_limit=500, subject="ann")) == OK
    assert caller.code("Put", session_id=session_id + "p", messages=[user("x")],
                       config=Config(blocks=SILENT)) == OK


@pytest.mark.parametrize("name", LIMITED)
def test_no_limited_credential_changes_what_a_session_says(callers, app, session_id, name):
    caller = callers[name]
    rules = block("rules", "static", content=["Be kind."])
    kept = Config(blocks=[rules, FACTS], token_limit=500)
    app("CreateSession", session_id=session_id, config=kept)
    app("AddFact", session_id=session_id, block="facts", text="He is a guest.", trust=1)
    before = app("GetSession", session_id=session_id).session.config
    # A Put that brings the configuration there is is as good as one without.
    assert caller.code("Put", session_id=session_id, messages=[user("x")], config=kept) == OK
    for blocks in (
            [rules, FACTS, SAYING[0]], [FACTS], [rules],
            [block("rules", "static", content=["Be cruel."]), FACTS],
            [rules, block("facts", "fact-extraction", model="chat", facts=["He is an admin."])],
            [rules, block("facts", "fact-extraction", model="chat", facts_trust=1)],
            # Fewer facts than there are, or for a second only: what is known would go.
            [rules, block("facts", "fact-extraction", model="chat", max_facts=1)],
            [rules, block("facts", "fact-extraction", model="chat", ttl=1)]):
        denied(caller, "UpdateSession", "CONFIG_NOT_GRANTED", session_id=session_id,
               config=Config(blocks=blocks))
    assert app("GetSession", session_id=session_id).session.config == before
    # What says nothing may be changed, and added.
    assert caller.code("UpdateSession", session_id=session_id,
                       config=Config(token_limit=600)) == OK
    assert caller.code("UpdateSession", session_id=session_id,
                       config=Config(blocks=[rules, FACTS, SILENT[1]])) == OK
    assert app.code("UpdateSession", session_id=session_id, config=Config(blocks=[rules])) == OK


def test_retention_takes_no_message_for_a_credential_with_roles(callers, app, session_id):
    app("Put", session_id=session_id, messages=[system("Be kind."), user("x")])
    short = Config(retention={"keep_messages": 1})
    for name in ("chat", "chat-untrusted"):
        assert "config.retention" in denied(callers[name], "UpdateSession", "CONFIG_NOT_GRANTED",
                                            session_id=session_id, config=short)
    assert callers["untrusted"].code("UpdateSession", session_id=session_id, config=short) == OK


def test_no_limited_credential_attaches_a_worker(channel):
    for name in ("stranger", "guest"):
        denied(Caller(channel, name), "Attach", "WORKER_NOT_GRANTED")


# Messages.


def test_roles_hold_for_what_is_taken_out(callers, app, session_id):
    chat = callers["chat"]
    app("Put", session_id=session_id, messages=[
        system("Be kind.", message_id="s"), user("a", message_id="u"), assistant("b"),
        Message(role="note", text="c", message_id="n"),
        Message(role="notes", text="d", message_id="ns")])
    for method, fields in (
            ("DeleteMessage", {"message_id": "s"}), ("DeleteMessage", {"message_id": "ns"}),
            ("UpdateMessage", {"message_id": "s", "text": "Be cruel."}),
            ("UpdateMessage", {"message_id": "ns", "text": "Be cruel."}),
            ("Set", {"messages": [user("x")]}), ("Set", {}), ("DeleteSession", {}), ("Reset", {}),
            ("Reset", {"scope": wire.RESET_SCOPE_MESSAGES}),
            ("Reset", {"scope": wire.RESET_SCOPE_EVERYTHING}),
            ("Reset", {"scope": wire.RESET_SCOPE_ACTIVE})):
        denied(chat, method, "ROLE_NOT_GRANTED", session_id=session_id, **fields)
    assert [m.text for m in app("GetAll", session_id=session_id).messages] == [
        "Be kind.", "a", "b", "c", "d"]
    # Nothing is archived, so nothing of other roles goes.
    assert chat.code("Reset", session_id=session_id, scope=wire.RESET_SCOPE_ARCHIVED) == OK
    assert chat("UpdateMessage", session_id=session_id, message_id="n", text="e").position == 4
    for message_id in ("u", "n"):
        assert chat.code("DeleteMessage", session_id=session_id, message_id=message_id) == OK
    for message_id in ("s", "ns"):
        app("DeleteMessage", session_id=session_id, message_id=message_id)
    assert chat("Reset", session_id=session_id).active_count == 1


@pytest.mark.parametrize("method", ("Set", "Reset", "DeleteSession"))
def test_own_messages_go_whole_and_a_retry_hears_the_same(callers, app, session_id, method):
    chat = callers["chat"]
    for _ in range(3):
        chat("Put", session_id=session_id, messages=[user("a"), assistant("b")] * 400)
    first = chat(method, session_id=session_id, request_id="once")
    app("Put", session_id=session_id, messages=[system("Be kind.")])
    again = chat(method, session_id=session_id, request_id="once")
    assert again.replayed and not first.replayed
    denied(chat, method, "ROLE_NOT_GRANTED", session_id=session_id)
    assert len(app("GetAll", session_id=session_id).messages) == 1
    assert chat.code(method, session_id=session_id + "-none") == OK
    error = chat.error(method, session_id=session_id, expected_revision=1)
    assert reason(error) == "REVISION_MISMATCH"


def test_what_comes_while_roles_are_looked_at_does_not_go(callers, app, session_id):
    """Others put all the while; whatever a Reset takes, it was of the roles that may go."""
    chat = callers["chat"]
    chat("Put", session_id=session_id, messages=[user("a")] * 1000)
    put = []

    def others() -> None:
        for number in range(40):
            put.append(f"rule {number}")
            app("Put", session_id=session_id, messages=[system(put[-1])])

    thread = threading.Thread(target=others)
    thread.start()
    codes = {chat.code("Reset", session_id=session_id) for _ in range(20)}
    thread.join()
    assert codes <= {OK, PERMISSION_DENIED, grpc.StatusCode.ABORTED}
    rules = [m.text for m in app("GetAll", session_id=session_id, page_size=1000,
                                 filter={"roles": ["system"]}).messages]
    assert rules == put


def test_archived_messages_count_and_a_scope_without_them_does_not(callers, app, session_id):
    chat = callers["chat"]
    app("CreateSession", session_id=session_id, config=every_turn())
    app("Put", session_id=session_id, messages=[user("a"), Message(role="tool", text="b")])
    app("Put", session_id=session_id, messages=[user("c")])
    assert app("GetSession", session_id=session_id).session.archived_count == 2
    for scope in (wire.RESET_SCOPE_ARCHIVED, wire.RESET_SCOPE_MESSAGES):
        denied(chat, "Reset", "ROLE_NOT_GRANTED", session_id=session_id, scope=scope)
    assert chat("Reset", session_id=session_id, scope=wire.RESET_SCOPE_ACTIVE).active_count == 1


def test_a_pair_of_tools_goes_only_where_both_may(callers, app, session_id):
    call = memory.Part(tool_call=memory.ToolCall(call_id="c", name="f", arguments_json="{}"))
    result = memory.Part(tool_result=memory.ToolResult(call_id="c", name="f", text="r"))
    app("Put", session_id=session_id, messages=[
        user("a"), Message(role="assistant", parts=[call], message_id="call"),
        Message(role="tool", parts=[result], message_id="result")])
    for name, message_id in (("chat", "call"), ("tool", "result")):
        denied(callers[name], "DeleteMessage", "ROLE_NOT_GRANTED", session_id=session_id,
               message_id=message_id, with_tool_messages=True)
    assert len(app("DeleteMessage", session_id=session_id, message_id="call",
                   with_tool_messages=True).message_ids) == 2


def test_an_erasure_takes_all_roles(callers, app, session_id):
    app("Put", session_id=session_id, messages=[user("a")],
        config=Config(subject=session_id))
    for name in ("chat", "chat-untrusted"):
        assert callers[name]("EraseSubject", subject=session_id, dry_run=True).session_count == 1
        denied(callers[name], "EraseSubject", "ROLE_NOT_GRANTED", subject=session_id)
    assert app("EraseSubject", subject=session_id).session_count == 1


def test_a_fork_keeps_who_wrote_and_how_far_it_is_trusted(callers, app, session_id):
    app("Put", session_id=session_id, messages=[system("Be kind."), user("x", untrusted=True)])
    callers["chat-untrusted"]("ForkSession", session_id=session_id,
                              new_session_id=session_id + "f")
    for found, kept in zip(app("GetAll", session_id=session_id + "f").messages,
                           app("GetAll", session_id=session_id).messages, strict=True):
        assert (found.role, found.text, found.writer, found.untrusted) == (
            kept.role, kept.text, kept.writer, kept.untrusted)


# Facts.


@pytest.mark.parametrize("name, most", (("untrusted", 0.1), ("chat", 0.8), ("tool", 0.4)))
def test_first_facts_are_trusted_so_far_too(callers, app, session_id, name, most):
    caller = callers[name]
    first = block("facts", "fact-extraction", model="chat", facts=["He is an admin."])
    sure = block("sure", "fact-extraction", model="chat", facts=["He is."], facts_trust=1)

    def trust(own: str, block_name: str = "facts") -> float:
        fact, = app("GetBlock", session_id=own, block=block_name).facts.facts
        return fact.trust

    config = every_turn(first)
    caller("CreateSession", session_id=session_id, config=config)
    assert trust(session_id) == most
    # It is the same configuration, for the same credential.
    for _ in range(2):
        assert caller.code("Put", session_id=session_id, config=config,
                           messages=[Message(role="tool" if name == "tool" else "user",
                                             text="x")], wait=WAIT) == OK
    assert caller.code("UpdateSession", session_id=session_id,
                       config=Config(blocks=[first, sure])) == OK
    assert trust(session_id) == trust(session_id, "sure") == most
    # Whoever reads the configuration and writes it back vouches for nothing.
    read = app("GetSession", session_id=session_id).session.config
    app("UpdateSession", session_id=session_id, config=read)
    app("ForkSession", session_id=session_id, new_session_id=session_id + "f")
    assert trust(session_id, "sure") == trust(session_id + "f", "sure") == most
    app("CreateSession", session_id=session_id + "t", config=Config(blocks=[sure]))
    assert trust(session_id + "t", "sure") == 1
    assert "config.blocks[0]" in denied(
        caller, "CreateSession", "CONFIG_NOT_GRANTED", session_id=session_id + "l",
        config=Config(profile="llama-index", blocks=[first]))


@pytest.mark.parametrize("name, most", (("untrusted", 0.1), ("chat", 0.8), ("tool", 0.4),
                                        ("chat-untrusted", 0.1)))
def test_facts_are_trusted_as_what_the_credential_could_say(callers, app, session_id, name, most):
    common = {"session_id": session_id, "block": "facts"}
    caller = callers[name]
    app("CreateSession", session_id=session_id, config=every_turn(FACTS))
    sure = app("AddFact", **common, text="sure", trust=1)
    own = caller("AddFact", **common, text="own", trust=1).fact
    assert own.trust == most
    for method, fields in (("UpdateFact", {"fact_id": sure.fact.fact_id, "text": "x"}),
                           ("DeleteFact", {"fact_id": sure.fact.fact_id}),
                           ("UndoBlockChange", {"change": sure.change})):
        denied(caller, method, "FACT_TRUSTED", **common, **fields)
    assert caller("UpdateFact", **common, fact_id=own.fact_id, text="y").fact.trust == most
    assert caller.code("DeleteFact", **common, fact_id=own.fact_id) == OK
