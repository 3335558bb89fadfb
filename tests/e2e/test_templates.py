"""Templates: configurations of sessions that the settings give, and that callers name."""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import signal
import subprocess

import grpc
import pytest

from support.access import Caller, credential, write_credentials
from support.blocks import block, field_of
from support.calls import Calls, memory, reason, refusal, user
from support.paths import BINARY
from support.server import Server, failed_start
from support.stores import fresh_store
from support.waiting import wait_for

from memoryd import Client, MemorydError

Config = memory.SessionConfig
INVALID = grpc.StatusCode.INVALID_ARGUMENT
FAILED_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
RULES = "Answer in one sentence."
CHAT = {"token_limit": 1000, "time_zone": "Asia/Tokyo", "retention": {"session_ttl": "86400s"},
        "user_roles": ["client_b"], "insert_method": "INSERT_METHOD_USER",
        "blocks": [{"name": "rules", "kind": "static", "content": [{"text": RULES}]},
                   {"name": "facts", "kind": "fact-extraction",
                    "options_json": {"model": "chat", "max_facts": 20}}]}
SMALL = {"token_limit": 500}


def settings(folder: pathlib.Path, **values) -> str:
    """The argument of memoryd for a file of these settings, which it replaces at once."""
    new = folder / "new.yaml"
    new.write_text(json.dumps(values))  # JSON is YAML.
    return f"--config={new.rename(folder / 'memoryd.yaml')}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("templates")


@pytest.fixture(scope="module")
def running(store_kind, folder):
    file = write_credentials(folder / "credentials.yaml", [
        credential("default", token="app"),
        credential("default", ["read", "write", "admin"], token="admin"),
        credential("default", ["write"], token="writer"),
        credential("default", ["write", "admin"], token="importer"),
        credential("other", token="other"),
        credential("plain", token="plain"),
        {**credential("default", token="stranger"), "untrusted": True},
        {**credential("default", token="guest"), "roles": ["user"]}])
    given = settings(folder, templates={"chat": CHAT, "small": SMALL, "fr\u00fch": {}},
                     tenants=[{"name": "other", "default_template": "small"}])
    with fresh_store(store_kind) as store, \
            Server(store, arguments=[given, f"--credentials={file}"]) as server:
        yield server


@pytest.fixture(scope="module")
def channel(running):
    with running.channel() as opened:
        yield opened


@pytest.fixture(scope="module")
def app(channel):
    return Caller(channel, "app")


def command(target: str, *arguments: str) -> None:
    done = subprocess.run([BINARY, *arguments, "--target", target], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def session_of(caller, session_id: str) -> memory.Session:
    return caller("GetSession", session_id=session_id).session


def test_a_session_is_made_as_its_template_says(app, session_id):
    made = app("CreateSession", session_id=session_id, template="chat").session
    assert made.template == "chat"
    assert (made.config.token_limit, made.config.time_zone) == (1000, "Asia/Tokyo")
    assert made.config.insert_method == memory.INSERT_METHOD_USER
    assert list(made.config.user_roles) == ["client_b"]
    assert made.config.retention.session_ttl.seconds == 86400
    assert [b.name for b in made.config.blocks] == ["rules", "facts"]
    assert json.loads(made.config.blocks[1].options_json) == {"model": "chat", "max_facts": 20}
    assert session_of(app, session_id).template == "chat"
    assert RULES in str(app("Get", session_id=session_id).messages)


def test_a_put_makes_it_too_and_later_ones_may_name_it(app, session_id):
    for text in ("a", "b"):
        app("Put", session_id=session_id, template="small", messages=[user(text)])
    app("Put", session_id=session_id, messages=[user("c")])
    made = session_of(app, session_id)
    assert (made.template, made.config.token_limit, made.active_count) == ("small", 500, 3)
    # Its own configuration is the one that it has.
    app("Put", session_id=session_id, config=Config(token_limit=500), messages=[user("d")])
    wrong = app.error("Put", session_id=session_id, config=Config(token_limit=501))
    assert (wrong.code(), reason(wrong)) == (FAILED_PRECONDITION, "CONFIG_MISMATCH")


@pytest.mark.parametrize("made_from", ["small", ""])
def test_another_name_is_another_configuration(app, session_id, made_from):
    app("CreateSession", session_id=session_id, template=made_from)
    for name in ("chat", "unknown"):
        error = app.error("Put", session_id=session_id, template=name, messages=[user("a")])
        assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "CONFIG_MISMATCH")
        assert error.details().startswith("template: ")
    assert session_of(app, session_id).active_count == 0
    assert reason(app.error("CreateSession", session_id=session_id, template="chat")) \
        == "SESSION_EXISTS"


@pytest.mark.parametrize("method", ["CreateSession", "Put"])
def test_an_unknown_name_is_refused_with_those_there_are(app, session_id, method):
    error = app.error(method, session_id=session_id, template="chta")
    assert (error.code(), field_of(error)) == (INVALID, "template")
    assert error.details().endswith("there are: chat, fr\u00fch, small")
    assert app.code("GetSession", session_id=session_id) == grpc.StatusCode.NOT_FOUND
    for name in ("a\nb", "x" * 129):
        error = app.error(method, session_id=session_id, template=name)
        assert (error.code(), field_of(error)) == (INVALID, "template")


@pytest.mark.parametrize("method", ["CreateSession", "Put"])
def test_beside_a_template_whom_it_is_about_may_be_said_and_no_more(app, session_id, method):
    for config, field in ((Config(token_limit=1000), "config.token_limit"),
                          (Config(profile="default"), "config.profile"),
                          (Config(blocks=[block("b", "static")]), "config.blocks"),
                          (Config(subject="ann", retention={}), "config.retention")):
        error = app.error(method, session_id=session_id, template="chat", config=config)
        assert (error.code(), field_of(error)) == (INVALID, "template")
        assert field in error.details()
    about = Config(subject=session_id, time_zone="Europe/Lisbon")
    app(method, session_id=session_id, template="chat", config=about)
    made = session_of(app, session_id)
    assert (made.config.subject, made.config.time_zone) == (session_id, "Europe/Lisbon")
    assert (made.config.token_limit, made.template) == (1000, "chat")
    for same in (None, Config(), about, Config(subject=session_id)):
        app("Put", session_id=session_id, template="chat", config=same)
    for other in (Config(subject="bob"), Config(time_zone="UTC"), Config(subject="")):
        error = app.error("Put", session_id=session_id, template="chat", config=other)
        assert reason(error) == "CONFIG_MISMATCH"


def test_a_tenant_has_its_own_for_sessions_of_which_nothing_is_said(channel, session_id):
    other, plain = Caller(channel, "other"), Caller(channel, "plain")
    for caller, limit, name in ((other, 500, "small"), (plain, 30000, "")):
        caller("CreateSession", session_id=f"{session_id}-create")
        caller("Put", session_id=f"{session_id}-put", messages=[user("a")])
        caller("Set", session_id=f"{session_id}-set", messages=[user("a")])
        for made in (session_of(caller, f"{session_id}-{how}") for how in ("create", "put", "set")):
            assert (made.config.token_limit, made.template) == (limit, name)
        # A later Put that says nothing says nothing against it.
        caller("Put", session_id=f"{session_id}-set", messages=[user("b")])
        info = caller("GetServerInfo")
        assert (list(info.templates), info.default_template) == (
            ["chat", "fr\u00fch", "small"], name)
    other("CreateSession", session_id=f"{session_id}-own", config=Config())
    other("CreateSession", session_id=f"{session_id}-chat", template="chat")
    assert [(made.config.token_limit, made.template)
            for made in (session_of(other, f"{session_id}-{how}") for how in ("own", "chat"))] \
        == [(30000, ""), (1000, "chat")]


@pytest.mark.parametrize("token", ["stranger", "guest"])
@pytest.mark.parametrize("method", ["CreateSession", "Put"])
def test_whoever_may_say_no_texts_may_name_them(channel, app, session_id, token, method):
    limited = Caller(channel, token)
    own = Config(blocks=[block("rules", "static", content=[RULES])])
    error = limited.error(method, session_id=session_id, config=own)
    assert reason(error) == "CONFIG_NOT_GRANTED"
    limited(method, session_id=session_id, template="chat")
    assert RULES in str(app("Get", session_id=session_id).messages)
    # What it says is the operator's from then on too.
    error = limited.error("UpdateSession", session_id=session_id, config=Config(
        blocks=[block("rules", "static", content=["Obey."])]))
    assert reason(error) == "CONFIG_NOT_GRANTED"
    limited("UpdateSession", session_id=session_id, config=Config(token_limit=900))
    changed = session_of(app, session_id)
    assert (changed.config.token_limit, changed.template) == (900, "chat")
    limited("Put", session_id=session_id, template="chat", messages=[user("a")])


def test_who_may_not_read_is_told_the_name_alone(channel, session_id):
    writer = Caller(channel, "writer")
    made = writer("CreateSession", session_id=session_id, template="chat").session
    assert made.template == "chat"
    assert not made.HasField("config")
    own = Config(token_limit=77)
    told = writer("CreateSession", session_id=f"{session_id}-own", config=own).session
    assert told.config.token_limit == 77
    # And what it said itself.
    about = Config(subject=session_id)
    told = writer("CreateSession", session_id=f"{session_id}-about", template="chat",
                  config=about).session
    assert (told.template, told.config) == ("chat", about)


def test_nor_is_who_imports_and_may_not_read(running, channel, session_id):
    with Client(running.target, token="importer") as importer:
        told = importer.import_session(session_id, [user("a", message_id="m1", position=1)], template="chat")
        assert (told.template, told.HasField("config")) == ("chat", False)
        # What it brought is its own.
        told = importer.import_session(f"{session_id}-own", config=Config(token_limit=77),
                                       template="elsewhere")
        assert (told.template, told.config.token_limit) == ("elsewhere", 77)
    made = session_of(Caller(channel, "app"), session_id)
    assert (made.template, made.config.token_limit) == ("chat", 1000)


def test_an_import_by_name_has_the_templates_retention(running, app, session_id):
    with Client(running.target, token="admin") as admin:
        made = admin.import_session(session_id, [user("a", message_id="m1", position=1)], template="chat")
    assert made.config.retention.session_ttl.seconds == 86400
    assert made.HasField("expire_time")
    assert session_of(app, session_id).config.retention == made.config.retention


def test_a_repeated_request_has_its_reply_again(app, session_id):
    first = app("CreateSession", session_id=session_id, template="chat", request_id="r")
    again = app("CreateSession", session_id=session_id, template="chat", request_id="r")
    assert (again.replayed, again.session) == (True, first.session)
    error = app.error("CreateSession", session_id=session_id, template="small", request_id="r")
    assert reason(error) == "REQUEST_ID_REUSED"


def test_copies_keep_the_name(app, session_id):
    app("Put", session_id=session_id, template="chat", messages=[user("a"), user("b")])
    copy = app("ForkSession", session_id=session_id, new_session_id=f"{session_id}-f").session
    assert copy.template == "chat"
    assert session_of(app, f"{session_id}-f").config == session_of(app, session_id).config
    app("Put", session_id=f"{session_id}-f", template="chat", messages=[user("c")])
    app("Reset", session_id=session_id)
    app("Set", session_id=session_id, messages=[user("d")])
    assert session_of(app, session_id).template == "chat"
    listed = app("ListSessions", page_size=1000).sessions
    assert {s.session_id: s.template for s in listed}[session_id] == "chat"
    app("DeleteSession", session_id=session_id)
    app("Put", session_id=session_id, template="small", messages=[user("e")])
    assert session_of(app, session_id).template == "small"


def test_exports_keep_the_name_where_nobody_knows_it(running, folder, store_kind, session_id):
    with Client(running.target, token="admin") as here:
        here.put(session_id, [user("a")], template="chat")
        kept = here.get_session(session_id)
        token = folder / "token"
        token.touch(0o600)
        token.write_text("admin")
        file = folder / "export.jsonl"
        command(running.target, "export", session_id, "--output", str(file),
                "--token-file", str(token))
        messages = here.get_all(session_id)
        with fresh_store(store_kind) as other, Server(other) as elsewhere, \
                Client(elsewhere.target) as there:
            command(elsewhere.target, "import", str(file))
            there.import_session("again", messages, config=kept.config, template=kept.template)
            for name in (session_id, "again"):
                moved = there.get_session(name)
                assert (moved.template, moved.config) == ("chat", kept.config)
                there.put(name, [user("b")], template="chat")
            with pytest.raises(MemorydError, match=r"INVALID_ARGUMENT.*there are none"):
                there.import_session("unknown", messages, template="chat")
        # Without a configuration it is as in CreateSession.
        here.import_session(f"{session_id}-i", messages, template="small")
        made = here.get_session(f"{session_id}-i")
        assert (made.template, made.config.token_limit) == ("small", 500)


def test_many_at_once_make_one(running, app, session_id):
    def put(at: int) -> None:
        with running.channel() as own:
            Caller(own, "app")("Put", session_id=session_id, template="chat",
                               messages=[user(str(at))])

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(put, range(16)))
    made = session_of(app, session_id)
    assert (made.template, made.active_count) == ("chat", 16)


def test_of_two_names_at_once_one_is_refused(running, app, session_id):
    def put(at: int) -> str:
        name = ("chat", "small")[at % 2]
        with running.channel() as own:
            error = Caller(own, "app").error("Put", session_id=session_id, template=name,
                                             messages=[user(str(at))])
            return name if error is None else reason(error)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        ends = sorted(pool.map(put, range(16)))
    assert ends == sorted(["CONFIG_MISMATCH"] * 8 + [session_of(app, session_id).template] * 8)


def test_whom_a_template_shows_does_not_show_itself(store, tmp_path):
    shows = {"token_limit": 700, "blocks": [
        {"name": "team", "kind": "session", "options_json": '{"session_id": "team"}'},
        {"name": "rules", "kind": "static", "content": [{"text": RULES}]}]}
    given = settings(tmp_path, templates={"talk": shows}, tenant_default_template="talk")
    with Server(store, arguments=[given]) as server, server.channel() as channel:
        calls = Calls(channel)

        def blocks(session_id: str) -> list[str]:
            made = calls.GetSession(session_id=session_id).session
            assert (made.template, made.config.token_limit) == ("talk", 700)
            return [b.name for b in made.config.blocks]

        makes = (lambda: calls.Put(session_id="team", messages=[user("I live in Porto.")]),
                 lambda: calls.Set(session_id="team", messages=[user("I live in Porto.")]),
                 lambda: calls.CreateSession(session_id="team", template="talk"),
                 lambda: calls.import_session("team", []),
                 lambda: calls.Put(session_id="team", template="talk",
                                   messages=[user("I live in Porto.")]))
        for make in makes:
            calls.DeleteSession(session_id="team")
            make()
            assert blocks("team") == ["rules"]
        calls.UpdateSession(session_id="team", template="talk")
        assert blocks("team") == ["rules"]
        calls.Put(session_id="s", messages=[user("Hello")])
        assert blocks("s") == ["team", "rules"]
        assert "<team>" in str(calls.Get(session_id="s").messages)
        # Who says it himself is told so.
        error = refusal(calls.UpdateSession, session_id="team", config=Config(blocks=[
            block("team", "session", session_id="team")]))
        assert (error.code(), field_of(error)) == (INVALID, "config.blocks[0].options_json")
        # Nor does a copy.
        calls.DeleteSession(session_id="team")
        error = refusal(calls.ForkSession, session_id="s", new_session_id="team")
        assert (error.code(), field_of(error)) == (INVALID, "new_session_id")
        assert "block `team`" in error.details()
        calls.ForkSession(session_id="s", new_session_id="t")


def test_an_update_gives_a_session_a_template(app, session_id):
    about = Config(token_limit=77, subject=session_id, time_zone="Europe/Lisbon",
                   retention={"keep_messages": 9})
    app("Put", session_id=session_id, config=about, messages=[user("a")])
    wrong = app.error("Put", session_id=session_id, template="chat", messages=[user("b")])
    assert reason(wrong) == "CONFIG_MISMATCH"
    assert "UpdateSession" in wrong.details()
    before = session_of(app, session_id)
    given = app("UpdateSession", session_id=session_id, template="chat", request_id="r",
                expected_revision=before.revision).session
    assert (given.template, given.config.token_limit, given.active_count) == ("chat", 1000, 1)
    assert (given.config.subject, given.config.time_zone) == (session_id, "Europe/Lisbon")
    assert (given.config.retention.keep_messages,
            given.config.retention.session_ttl.seconds) == (9, 86400)
    assert [b.name for b in given.config.blocks] == ["rules", "facts"]
    again = app("UpdateSession", session_id=session_id, template="chat", request_id="r",
                expected_revision=before.revision)
    assert again.replayed
    app("Put", session_id=session_id, template="chat", messages=[user("b")])
    # Another one, and whom it is about beside it.
    given = app("UpdateSession", session_id=session_id, template="small",
                config=Config(time_zone="UTC")).session
    assert (given.template, given.config.token_limit, given.config.time_zone) == (
        "small", 500, "UTC")
    assert (given.config.subject, list(given.config.blocks)) == (session_id, [])
    # What is wrong changes nothing.
    for fields, said in (
            ({"template": "chta"}, "there are: chat, fr\u00fch, small"),
            ({"template": "chat", "config": Config(token_limit=5)}, "config.token_limit"),
            ({"template": "x" * 129}, "template")):
        error = app.error("UpdateSession", session_id=session_id, **fields)
        assert (error.code(), field_of(error)) == (INVALID, "template")
        assert said in error.details()
    error = app.error("UpdateSession", session_id=f"{session_id}-none", template="chat")
    assert reason(error) == "SESSION_NOT_FOUND"
    assert session_of(app, session_id).config == given.config


def test_an_update_keeps_what_blocks_of_that_name_know(app, session_id):
    app("Put", session_id=session_id, config=Config(blocks=[
        block("facts", "fact-extraction", model="chat"),
        block("mine", "fact-extraction", model="chat")]), messages=[user("a")])
    for name in ("facts", "mine"):
        app("AddFact", session_id=session_id, block=name, text="Ann lives in Porto.")
    app("UpdateSession", session_id=session_id, template="chat")
    facts = app("GetBlock", session_id=session_id, block="facts").facts.facts
    assert [fact.text for fact in facts] == ["Ann lives in Porto."]
    assert app.code("GetBlock", session_id=session_id, block="mine") == grpc.StatusCode.NOT_FOUND


def test_an_update_can_not_count_anew(app, session_id):
    app("Put", session_id=session_id, config=Config(tokenizer="whitespace"), messages=[user("a")])
    error = app.error("UpdateSession", session_id=session_id, template="chat")
    assert (error.code(), reason(error)) == (FAILED_PRECONDITION, "CONFIG_FIXED")
    assert error.details().startswith("template: ")
    app("Reset", session_id=session_id)
    assert app("UpdateSession", session_id=session_id, template="chat").session.template == "chat"


def test_whoever_is_limited_may_give_a_template_that_takes_nothing_away(channel, session_id):
    limited = Caller(channel, "stranger")
    limited("Put", session_id=session_id, messages=[user("a")])
    limited("UpdateSession", session_id=session_id, template="chat")
    error = limited.error("UpdateSession", session_id=session_id, template="small")
    assert reason(error) == "CONFIG_NOT_GRANTED"
    own = Caller(channel, "writer")("UpdateSession", session_id=session_id, template="chat").session
    assert (own.template, own.HasField("config")) == ("chat", False)


def test_a_tenant_may_be_kept_to_some(store, tmp_path):
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential(tenant, ["read", "write", "admin"], token=tenant)
        for tenant in ("all", "some", "none")])
    given = settings(
        tmp_path, templates={"chat": CHAT, "small": SMALL}, tenant_default_template="small",
        tenants=[{"name": "some", "templates": ["chat"], "default_template": "chat"},
                 {"name": "none", "templates": [], "default_template": ""}])
    with Server(store, arguments=[given, f"--credentials={file}"]) as server, \
            server.channel() as channel:
        for tenant, names, default in (("all", ["chat", "small"], "small"),
                                       ("some", ["chat"], "chat"), ("none", [], "")):
            caller = Caller(channel, tenant)
            info = caller("GetServerInfo")
            assert (list(info.templates), info.default_template) == (names, default)
            caller("Put", session_id="default", messages=[user("a")])
            assert session_of(caller, "default").template == default
            for name in ("chat", "small"):
                for method in ("CreateSession", "Put", "UpdateSession"):
                    session_id = "default" if method == "UpdateSession" else f"{method}-{name}"
                    error = caller.error(method, session_id=session_id, template=name)
                    if name in names:
                        assert error is None
                        continue
                    assert (error.code(), field_of(error)) == (INVALID, "template")
                    there_are = "there are: chat" if names else "there are none"
                    assert error.details() \
                        == f"template: there is no such template; {there_are}"
            with Client(server.target, token=tenant) as client:
                # Beside a configuration it is a name alone.
                assert client.import_session("i", config=Config(), template="small").template \
                    == "small"
                if "small" not in names:
                    with pytest.raises(MemorydError, match="INVALID_ARGUMENT"):
                        client.import_session("j", template="small")


def test_an_edited_template_is_for_sessions_that_are_made_after_it(store, tmp_path):
    edited = {"token_limit": 700, "blocks": []}
    with Server(store, arguments=[settings(tmp_path, templates={"chat": CHAT})]) as server, \
            server.channel() as channel:
        Calls(channel).Put(session_id="old", template="chat", messages=[user("a")])
        before = Calls(channel).GetSession(session_id="old").session.config
    given = settings(tmp_path, templates={"chat": edited}, tenant_default_template="chat")
    with Server(store, arguments=[given]) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="old", template="chat", messages=[user("b")])
        calls.Put(session_id="new", template="chat", messages=[user("b")])
        assert calls.GetSession(session_id="old").session.config == before
        assert calls.GetSession(session_id="new").session.config.token_limit == 700
        assert refusal(calls.Put, session_id="old",
                       config=Config(token_limit=700)).code() == FAILED_PRECONDITION
    # Nor when it is gone.
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="old", template="chat", messages=[user("c")])
        assert calls.GetSession(session_id="old").session.template == "chat"
        error = refusal(calls.Put, session_id="newest", template="chat")
        assert (error.code(), error.details()) == (
            INVALID, "template: there is no such template; there are none")


def test_templates_are_read_again(store, tmp_path):
    log = tmp_path / "log"

    def lines(begin: str) -> list[str]:
        found = [json.loads(line)["msg"] for line in log.read_text().splitlines()]
        return [line for line in found if line.startswith(begin)]

    given = settings(tmp_path, templates={"chat": SMALL})
    with log.open("wb") as out, Server(store, arguments=[given], log=out) as server, \
            server.channel() as channel:
        calls = Calls(channel)
        calls.CreateSession(session_id="before", template="chat")

        def reload(**values) -> str:
            seen = len(lines("settings read again"))
            settings(tmp_path, **values)
            server.process.send_signal(signal.SIGHUP)
            return wait_for(lambda: lines("settings read again")[seen:])[0]

        assert reload(templates={"chat": {"token_limit": 600}, "b": {}},
                      tenant_default_template="b").endswith(
            "changed: templates, tenant_default_template")
        calls.CreateSession(session_id="after", template="chat")
        limits = {name: calls.GetSession(session_id=name).session.config.token_limit
                  for name in ("before", "after")}
        assert limits == {"before": 500, "after": 600}
        info = calls.GetServerInfo()
        assert (list(info.templates), info.default_template) == (["b", "chat"], "b")
        # One that is wrong changes nothing, the others with it neither.
        assert "templates: chat: token_limit: " in reload(
            templates={"chat": {"token_limit": 0}}, tenant_sessions=1)
        assert "tenant_default_template: there is no template `b`" in reload(
            templates={"chat": SMALL}, tenant_default_template="b")
        calls.CreateSession(session_id="later")
        assert calls.GetSession(session_id="later").session.template == "b"
        # Of models that are not there the log warns.
        assert not lines("templates: ")
        reload(templates={"b": CHAT}, tenant_default_template="b")
        assert lines("templates: ") == [
            "templates: b: blocks[1]: the setting models has no chat model `chat`"]
        # Whom the list names may use no others from then on.
        reload(templates={"a": {}, "b": CHAT},
               tenants=[{"name": "default", "templates": ["a"]}])
        assert list(calls.GetServerInfo().templates) == ["a"]


# What is wrong, on which line of the file, and what is said of it.
WRONG = (
    ("token_limt: 5", 3, "chat: token_limt: memoryd.v1.SessionConfig has no such field"),
    ("token_limit: many", 3, "chat: token_limit: must be a whole number"),
    ("token_limit: 1\n    token_limit: 2", 4, "chat: token_limit: is given twice"),
    ("cut_highest_first: maybe", 3, "chat: cut_highest_first: must be true or false"),
    ("insert_method: middle", 3,
     "chat: insert_method: must be one of INSERT_METHOD_SYSTEM, INSERT_METHOD_USER"),
    ("insert_method: 1", 3,
     "chat: insert_method: must be one of INSERT_METHOD_SYSTEM, INSERT_METHOD_USER"),
    ("blocks:\n      - options_json: {model: a, model: b}", 4,
     "chat: blocks[0].options_json.model: is given twice"),
    ("retention:\n      session_ttl: a day", 4,
     "chat: retention.session_ttl: must be seconds such as 3600s"),
    ("retrieval: 5", 3, "chat: retrieval: must be a map of fields"),
    ("blocks: {}", 3, "chat: blocks: must be a list"),
    ("blocks:\n      - name: b\n        sort: static", 5,
     "chat: blocks[0].sort: memoryd.v1.Block has no such field"),
    ("blocks:\n      - name: b\n        kind: static\n        content:\n"
     "          - {text: a, json: '1'}", 7, "only one field of `kind` may be given"),
)
# What CreateSession refuses, and where it stands in the file.
REFUSED = (
    ("token_limit: 0", 3, Config(token_limit=0)),
    ("tokenizer: mine", 3, Config(tokenizer="mine")),
    ("profile: mine", 3, Config(profile="mine")),
    ("time_zone: Europe/Atlantis", 3, Config(time_zone="Europe/Atlantis")),
    ("subject: \"a\\nb\"", 3, Config(subject="a\nb")),
    ("subject: \"a\\u3164\"", 3, Config(subject="a\u3164")),
    ("user_roles:\n      - mine\n      - assistant", 5, Config(user_roles=["mine", "assistant"])),
    ("retrieval:\n      bm25_b: 2", 4, Config(retrieval={"bm25_b": 2})),
    ("retention:\n      keep_messages: -1", 4, Config(retention={"keep_messages": -1})),
    ("blocks:\n      - {name: b, kind: static}\n      - name: b\n        kind: static", 5,
     Config(blocks=[block("b", "static"), block("b", "static")])),
    ("blocks:\n      - name: b\n        kind: mine", 5, Config(blocks=[block("b", "mine")])),
    ("blocks:\n      - name: b\n        kind: summary", 4, Config(blocks=[block("b", "summary")])),
    ("blocks:\n      - name: b\n        kind: vector\n        options_json: {embedder: e, top_k: 0}",
     6, Config(blocks=[block("b", "vector", embedder="e", top_k=0)])),
)


def refused_start(tmp_path: pathlib.Path, text: str, store: str = "sqlite::memory:") -> str:
    file = tmp_path / "memoryd.yaml"
    file.write_text(f"templates:\n  chat:\n    {text}\n")
    code, output = failed_start(store, arguments=[f"--config={file}"])
    assert code == 2, output
    said = output.splitlines()[-1].removeprefix(f"memoryd: {file}:")
    # The same beforehand.
    checked = subprocess.run([BINARY, "--check-config", f"--config={file}"], capture_output=True,
                             text=True, timeout=120, check=False)
    assert (checked.returncode, checked.stderr.splitlines()[-1]) == (2, output.splitlines()[-1])
    return said


@pytest.mark.parametrize(("text", "line", "said"), WRONG)
def test_a_template_that_is_none_is_refused_at_the_start(tmp_path, text, line, said):
    assert refused_start(tmp_path, text).startswith(f"{line}: templates: ")
    assert said in refused_start(tmp_path, text)


@pytest.mark.parametrize(("text", "line", "config"), REFUSED)
def test_it_is_checked_as_what_a_caller_sends(tmp_path, app, session_id, text, line, config):
    error = app.error("CreateSession", session_id=session_id, config=config)
    assert error is not None and error.code() == INVALID
    assert refused_start(tmp_path, text) \
        == f"{line}: templates: chat: {error.details().removeprefix('config.')}"


def test_a_default_that_is_not_there_is_refused_at_the_start(tmp_path, store):
    for values, said in (
            ({"tenant_default_template": "b"},
             "tenant_default_template: there is no template `b`; there are: a, c"),
            ({"tenants": [{"name": "t", "default_template": "b"}]},
             "tenants: t: default_template: there is no template `b`; there are: a, c"),
            ({"tenants": [{"name": "t", "templates": ["a", "b"]}]},
             "tenants: t: templates: there is no template `b`; there are: a, c"),
            ({"tenants": [{"name": "t", "templates": ["a"]}], "tenant_default_template": "c"},
             "tenants: t: templates: must have `c`, the tenant's default; or give the tenant "
             "another default_template, '' for none")):
        given = settings(tmp_path, templates={"c": {}, "a": {}}, **values)
        code, output = failed_start(store, arguments=[given])
        assert (code, output.splitlines()[-1]) == (2, f"memoryd: {said}")
    given = settings(tmp_path, templates={"a": {}}, tenant_default_template="a",
                     tenants=[{"name": "default", "default_template": ""}])
    with Server(store, arguments=[given]) as server, server.channel() as channel:
        assert Calls(channel).GetServerInfo().default_template == ""


def test_the_python_client_names_it(running, session_id):
    with Client(running.target, token="app") as client:
        assert list(client.server_info().templates) == ["chat", "fr\u00fch", "small"]
        assert client.create_session(session_id, template="chat").template == "chat"
        client.put(f"{session_id}-p", [{"role": "user", "content": "hi"}], template="small",
                   config=Config(subject="ann"))
        made = client.get_session(f"{session_id}-p")
        assert (made.template, made.config.subject) == ("small", "ann")
        assert client.update_session(f"{session_id}-p", template="chat").template == "chat"
