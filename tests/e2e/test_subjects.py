"""What a credential of one subject reaches: every RPC, with sessions of its own, of another and of
nobody. Another's session must answer as one that never was, and stay as it is."""

from __future__ import annotations

import grpc
import pytest

from support.access import METHODS, READS, SUBJECT_TOKENS, Caller, request_of, write_subjects
from support.blocks import block, models_file
from support.calls import memory, reason, user
from support.changing import read_beside
from support.http import GRPC_ONLY, LISTEN, HttpChannel, HttpError
from support.model_server import ModelServer
from support.server import Server
from support.stores import fresh_store

NOT_FOUND = grpc.StatusCode.NOT_FOUND
OK, PERMISSION_DENIED = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
NOT_GRANTED = "SUBJECT_NOT_GRANTED"
SECRET = "the canary of another subject"
# Those that name no session. All others are tried with one of another subject.
OF_TENANT = {"ImportSession", "ImportNamespace", "GetUsage", "Attach"}
OF_SUBJECT = {"ListSessions", "EraseSubject"}
OF_SERVER = {"GetServerInfo"}
# See test_item_subjects.py.
ITEMS = {name for name, method in METHODS.items()
         if method.containing_service.name == "ItemService"} - OF_TENANT
# See test_put_batch.py.
OF_PARTS = {"PutBatch"}
OF_SESSION = sorted(set(METHODS) - OF_TENANT - OF_SUBJECT - OF_SERVER - ITEMS - OF_PARTS)
RIGHTS = ("read", "write", "admin", "worker")


@pytest.fixture(scope="module", params=("grpc", "http"))
def callers(request, store_kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("subjects")
    file = write_subjects(folder, RIGHTS)
    with ModelServer() as models, fresh_store(store_kind) as store, Server(store, arguments=[
            f"--credentials={file}", LISTEN, models_file(folder, models)]) as server, \
            server.channel() if request.param == "grpc" else HttpChannel(server.http) as channel:
        yield {name: Caller(channel, name) for name in SUBJECT_TOKENS}


@pytest.fixture
def everybody(callers):
    return callers["all"]


@pytest.fixture
def ann(callers):
    return callers["ann"]


@pytest.fixture
def bob(callers):
    return callers["bob"]


def fill(call: Caller, session_id: str, subject: str | None = None) -> None:
    """Makes the session anew, with something for every RPC to find."""
    call.error("DeleteSession", session_id=session_id)
    blocks = [block("facts", "fact-extraction", worker="nobody", model="m", facts=[SECRET]),
              block("vectors", "vector", embedder="embed")]
    config = memory.SessionConfig(blocks=blocks)
    if subject is not None:
        config.subject = subject
    call("Put", session_id=session_id, config=config,
         messages=[user(f"{SECRET} {i}", message_id=f"m{i}") for i in range(3)],
         contents=[memory.Content(content_id="c0", mime_type="text/plain", text=SECRET)])


def asked(method: str, session_id: str):
    """A request that would do something."""
    request = request_of(method, session_id=session_id)
    fields = request.DESCRIPTOR.fields_by_name
    if method in ("Put", "Set"):
        request.messages.append(user("new"))
    if method == "UpdateContext":
        request.messages.append(user("what of the canary?"))
    if "message_id" in fields:
        request.message_id = "m0"
    if "content_id" in fields:
        request.content_id = "c0"
    if method in ("UpdateMessage", "UpdateContent", "AddFact", "UpdateFact"):
        request.text = "changed"
    if "fact_id" in fields:
        request.fact_id = 1
    if method == "Query":
        request.query = "canary another subject"
    if "block" in fields:
        request.block = "vectors" if method == "ListBlockEntries" else "facts"
    if "change" in fields:
        request.change = 1
    if "job_id" in fields:
        request.job_id = "1.1.facts"
    if method == "ForkSession":
        request.new_session_id = f"fork of {session_id}"
    if method == "UpdateSession":
        request.config.token_limit = 12345
    if "include_contents" in fields:
        request.include_contents = True
    return request


def outcome(call: Caller, method: str, request) -> object:
    try:
        reply = call(method, request)
    except grpc.RpcError as error:
        return error.code(), reason(error), error.details()
    return reply


def state(call: Caller, session_id: str) -> list[bytes]:
    return [call(method, session_id=session_id).SerializeToString(deterministic=True)
            for method in ("GetAll", "GetSession", "ListJobs")]


@pytest.mark.parametrize("whose", ("bob", None))
@pytest.mark.parametrize("method", OF_SESSION)
def test_anothers_session_is_unknown_and_stays_as_it_is(everybody, ann, method, whose):
    fill(everybody, "theirs", whose)
    before = state(everybody, "theirs")
    got = outcome(ann, method, asked(method, "theirs"))
    if method in READS:
        assert got == outcome(ann, method, asked(method, "nobody's"))
    else:
        assert got[:2] == (PERMISSION_DENIED, NOT_GRANTED)
    assert SECRET not in str(got)
    assert state(everybody, "theirs") == before
    assert everybody.code("GetSession", session_id="fork of theirs") == NOT_FOUND


@pytest.mark.parametrize("method", OF_SESSION)
def test_his_own_answers_as_it_does_for_all(everybody, ann, method):
    """But for what is of the credential: who wrote it, and when."""
    fill(ann, "own of ann")
    own = outcome(ann, method, asked(method, "own of ann"))
    ann.error("DeleteSession", session_id="fork of own of ann")
    fill(everybody, "own of ann", "ann")
    other = outcome(everybody, method, asked(method, "own of ann"))
    everybody.error("DeleteSession", session_id="fork of own of ann")
    assert type(own) is type(other)
    if isinstance(own, tuple):
        assert own[:2] == other[:2]


@pytest.mark.parametrize("method", sorted(OF_TENANT))
def test_what_is_of_the_tenant_is_refused(ann, everybody, method):
    error = ann.error(method)
    if isinstance(error, HttpError) and method in GRPC_ONLY:
        assert reason(error) == "GRPC_ONLY"
        return
    assert (error.code(), reason(error)) == (PERMISSION_DENIED, NOT_GRANTED)
    refused = everybody.error(method) if method != "Attach" else None
    assert refused is None or reason(refused) != NOT_GRANTED


def test_every_rpc_stands_in_one_of_the_lists():
    lists = (OF_TENANT, OF_SUBJECT, OF_SERVER, ITEMS, OF_PARTS, set(OF_SESSION))
    assert sum(map(len, lists)) == len(METHODS)
    for method in OF_SESSION:
        assert "session_id" in METHODS[method].input_type.fields_by_name, method


def test_a_session_is_made_with_the_callers_subject(ann, everybody):
    for method, fields in (("CreateSession", {}), ("Put", {"messages": [user("a")]}),
                           ("Set", {"messages": [user("a")]})):
        everybody("DeleteSession", session_id="made")
        ann(method, session_id="made", **fields)
        assert everybody("GetSession", session_id="made").session.config.subject == "ann", method
    for subject in ("bob", ""):
        error = ann.error("CreateSession", session_id="not made",
                          config=memory.SessionConfig(subject=subject))
        assert reason(error) == NOT_GRANTED
        assert "config.subject" in error.details()
        error = ann.error("UpdateSession", session_id="made",
                          config=memory.SessionConfig(subject=subject))
        assert reason(error) == NOT_GRANTED
    assert everybody.code("GetSession", session_id="not made") == NOT_FOUND


def test_a_caller_is_told_who_he_is(callers, ann, everybody):
    for call, subject, rights in ((ann, "ann", RIGHTS), (everybody, "", RIGHTS),
                                  (callers["writer"], "ann", ("write",))):
        told = call("GetServerInfo").caller
        assert (told.tenant, told.subject, tuple(told.rights)) == ("t", subject, rights)


def test_lists_are_of_the_subject(ann, bob, everybody):
    for name in ("a1", "a2"):
        ann("CreateSession", session_id=name)
    bob("CreateSession", session_id="b1")
    listed = {entry.session_id for entry in ann("ListSessions", subject="ann").sessions}
    assert {"a1", "a2"} <= listed
    assert "b1" not in listed
    for subject in ("", "bob", "an", "ann "):
        error = ann.error("ListSessions", subject=subject)
        assert (error.code(), reason(error)) == (PERMISSION_DENIED, NOT_GRANTED), subject
        assert "subject" in error.details()


def test_an_erasure_is_of_the_subject(ann, bob, everybody):
    ann("CreateSession", session_id="goes")
    bob("CreateSession", session_id="stays")
    for dry_run in (True, False):
        assert reason(ann.error("EraseSubject", subject="bob", dry_run=dry_run)) == NOT_GRANTED
    ann("EraseSubject", subject="ann")
    assert everybody.code("GetSession", session_id="goes") == NOT_FOUND
    assert everybody.code("GetSession", session_id="stays") == OK


def test_a_fork_is_of_his_own_into_his_own(ann, bob, everybody):
    ann("Put", session_id="source", messages=[user("a")])
    bob("CreateSession", session_id="taken")
    error = ann.error("ForkSession", session_id="source", new_session_id="taken")
    assert reason(error) == NOT_GRANTED
    ann("ForkSession", session_id="source", new_session_id="copy")
    assert everybody("GetSession", session_id="copy").session.config.subject == "ann"


def test_no_other_session_is_shown(ann, bob, everybody):
    fill(bob, "shown")
    showing = memory.SessionConfig(blocks=[block("other", "session", session_id="shown")])
    for method, fields in (("CreateSession", {}), ("Put", {"messages": [user("a")]})):
        error = ann.error(method, session_id="shows", config=showing, **fields)
        assert reason(error) == NOT_GRANTED
    ann("CreateSession", session_id="shows")
    assert reason(ann.error("UpdateSession", session_id="shows", config=showing)) == NOT_GRANTED


def test_a_kept_reply_is_replayed_to_its_subject_alone(ann, everybody):
    request = {"session_id": "replayed", "request_id": "r", "messages": [user("a")]}
    ann("CreateSession", session_id="replayed")
    everybody("Put", **request)
    assert reason(ann.error("Put", **request)) == "REQUEST_ID_REUSED"
    ann("Put", **{**request, "request_id": "own"})
    assert ann("Put", **{**request, "request_id": "own"}).replayed


def test_a_session_that_is_given_away_is_gone_at_once(ann, bob, everybody):
    ann("Put", session_id="given", messages=[user("a")])
    assert len(ann("Get", session_id="given").messages) == 1
    everybody("UpdateSession", session_id="given", config=memory.SessionConfig(subject="bob"))
    assert not ann("Get", session_id="given").messages
    assert reason(ann.error("Put", session_id="given", messages=[user("b")])) == NOT_GRANTED
    assert len(bob("Get", session_id="given").messages) == 1


def test_who_may_not_read_still_writes_only_his_own(callers, everybody):
    fill(everybody, "of bob", "bob")
    writer = callers["writer"]
    assert reason(writer.error("Put", session_id="of bob", messages=[user("a")])) == NOT_GRANTED
    writer("Put", session_id="of ann", messages=[user("a")])
    assert everybody("GetSession", session_id="of ann").session.config.subject == "ann"


def test_an_id_that_changes_hands_shows_nothing_of_the_other(ann, bob, everybody):
    """The look at whose it is, and the read: nothing comes between."""

    def change_hands() -> None:
        for call, text in ((bob, SECRET), (ann, "own")):
            everybody("DeleteSession", session_id="hot")
            call("Put", session_id="hot", messages=[user(text)])

    def read(method: str) -> str:
        got = outcome(ann, method, asked(method, "hot"))
        assert SECRET not in str(got), method
        if not isinstance(got, tuple):
            return "own" if "own" in str(got) else "none"
        assert got[:2] == (grpc.StatusCode.ABORTED, "SESSION_REPLACED")
        return "refused"

    seen = read_beside(change_hands, read, ("Get", "GetAll", "StreamAll", "Query"), {"own", "none"})
    assert seen["own"] and seen["none"], seen
