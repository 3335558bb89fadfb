"""Two tenants with the same ids everywhere: what one does, the other neither sees nor feels.

A cell is one RPC of one tenant, B, with one of its id fields holding what only the other tenant, A,
knows or has in use. What B gets must equal what it gets from a server that has never heard of A, must
hold nothing of A's, and must leave A as it was. RPCs and fields come from the descriptors, so new ones
join by themselves.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from support.access import METHODS, Caller, credential, request_of, write_credentials
from support.blocks import WAIT, block, every_turn, models_file
from support.calls import memory, reason, user
from support.http import LISTEN, HttpChannel
from support.model_server import ModelServer
from support.server import Server, ready
from support.stores import fresh_store
from support.waiting import wait_for

ID_FIELDS = {"session_id", "request_id", "message_id", "thread_id", "content_id", "page_token",
             "known_prefix_hash", "job_id", "subject", "source_session_id"}
# These say of which namespaces a call about items is, and of which sessions a batch of Puts.
NAMESPACE_FIELDS = {"namespace", "namespace_prefix", "batches", "puts"}
# What differs from run to run.
VOLATILE = {"generation", "next_page_token", "job_id", "attempts", "version"}
NAMES = ("s", "a_b", "a%b", "a:b", "a/b", "a*b", "a\\b", "a'b", "%", "_", "*", "'", "a b", "é")
CANARY = "canary of the other tenant"
# The matrix takes minutes: workers share it.
PARTS = 6
# Of the places, over HTTP.
HTTP_STEP = 12
# Of all sessions, of both tenants.
SUBJECT = "a subject"


@dataclasses.dataclass(frozen=True)
class Place:
    """A session of A and one of B."""

    tenant_a: str
    session_a: str
    tenant_b: str
    session_b: str


def config(text: str, fed: bool) -> memory.SessionConfig:
    """Messages leave short-term memory, for blocks whose worker never comes: their jobs stay open.
    Or `fed`, for one that takes them in. What blocks know has `text` in it."""
    blocks = [block("facts", "fact-extraction", worker="nobody", model="m", facts=[text]),
              block("one", "worker", worker="nobody"), block("two", "worker", worker="nobody")]
    if fed:
        blocks = [block("vectors", "vector", embedder="embed")]
    return every_turn(*blocks, chat_history_token_ratio=0.02, subject=SUBJECT)


def places() -> list[Place]:
    pairs = [("alpha", "beta", name, name) for name in NAMES]
    for one, other in (("t%", "t_"), ("T", "t"), ("te", "t"), ("*", "x"), ("'", "''")):
        pairs += [(one, other, "s", "s"), (other, one, "%", "%")]
    # Tenant and session joined are the same text.
    for separator in (":", "/", "_", "|", "\\", " ", "%", "'", ""):
        longer, shorter = ("a" + separator + "b", "c"), ("a", "b" + separator + "c")
        pairs += [(longer[0], shorter[0], longer[1], shorter[1]),
                  (shorter[0], longer[0], shorter[1], longer[1])]
    # A number in front, so that nobody is A in one place and B in another.
    return [Place(f"{number}{a}", session_a, f"{number}{b}", session_b)
            for number, (a, b, session_a, session_b) in enumerate(pairs)]


def id_fields(descriptor: Descriptor, seen: tuple = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the id fields of a message, such as (`messages`, `message_id`)."""
    for field in descriptor.fields:
        if field.name in ID_FIELDS:
            yield (field.name,)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type not in seen:
            for path in id_fields(field.message_type, (*seen, descriptor)):
                yield (field.name, *path)


def put_at(request: Message, path: tuple[str, ...], value: str) -> None:
    """Sets a field; on its way in the first element of a repeated one, which is made if absent."""
    for name in path[:-1]:
        inner = getattr(request, name)
        if hasattr(inner, "add"):
            request = inner[0] if len(inner) else inner.add()
        else:
            inner.SetInParent()
            request = inner
    setattr(request, path[-1], value)


def base_request(method: str, session_id: str) -> Message:
    """A request of this method that does something."""
    request = request_of(method)
    fields = request.DESCRIPTOR.fields_by_name
    if "session_id" in fields:
        request.session_id = session_id
    if method == "PutBatch":
        request.puts.add(session_id=session_id)
    for part in getattr(request, "puts", [request] if method in ("Put", "Set") else ()):
        part.messages.append(user("new", message_id="new", thread_id="thread-new"))
        part.contents.append(memory.Content(content_id="new", mime_type="text/plain", text="new"))
    if method == "UpdateContext":
        request.messages.append(user("what was in the canary's cage?"))
    if method in ("UpdateMessage", "DeleteMessage"):
        request.message_id = "m0"
    if method in ("GetContent", "UpdateContent", "DeleteContent"):
        request.content_id = "c0"
    if method in ("UpdateMessage", "UpdateContent", "AddFact", "UpdateFact"):
        request.text = "changed"
    if method in ("UpdateFact", "DeleteFact"):
        request.fact_id = 1
    if method == "Query":
        request.query = "canary message other tenant"
    if "block" in fields:
        request.block = "vectors" if method == "ListBlockEntries" else "facts"
    if "change" in fields:
        request.change = 1
    if method == "ForkSession":
        request.new_session_id = f"fork of {session_id}"
    if method == "EraseSubject":
        request.subject = SUBJECT
    if method == "UpdateSession":
        request.config.token_limit = 12345
    if "namespace" in fields:
        request.namespace.append(session_id)
    if "namespace_prefix" in fields:
        request.namespace_prefix.append(session_id)
    if method == "CopyNamespace":
        request.new_namespace.append(f"copy of {session_id}")
    if method == "PutItem":
        request.put.key, request.put.json = "new", '"new"'
    if method in ("GetItem", "DeleteItem"):
        getattr(request, "get" if method == "GetItem" else "delete").key = "k0"
    if method == "BatchItems":
        for operation in ("get", "delete"):
            batch = request.batches.add(namespace=[session_id])
            getattr(batch.operations.add(), operation).key = "k0"
    if "include_contents" in fields:
        request.include_contents = True
    return request


def move(request: Message, session_id: str) -> None:
    """Makes a request one about another session, or the namespace of that name."""
    for part in [request, *getattr(request, "batches", ()), *getattr(request, "puts", ())]:
        if "session_id" in part.DESCRIPTOR.fields_by_name:
            part.session_id = session_id
        elif "namespace" in part.DESCRIPTOR.fields_by_name:
            part.namespace[:] = [session_id]


class World:
    """A server with both tenants, or with B alone, on one of its ports."""

    def __init__(self, channel: grpc.Channel | HttpChannel) -> None:
        self._channel = channel
        self._callers: dict[str, Caller] = {}

    def caller(self, tenant: str) -> Caller:
        if tenant not in self._callers:
            self._callers[tenant] = Caller(self._channel, token_of(tenant))
        return self._callers[tenant]

    def refill(self, tenant: str, session_id: str, text: str, count: int,
               fed: bool = False) -> None:
        """Makes a session with `count` messages anew; without any it is only removed."""
        call = self.caller(tenant)
        call("DeleteSession", session_id=session_id)
        call("DeleteNamespace", namespace=[session_id], recursive=True)
        call("DeleteNamespace", namespace=[f"copy of {session_id}"], recursive=True)
        for i in range(count):
            call("PutItem", namespace=[session_id],
                 put={"key": f"k{i}", "json": json.dumps(f"{text} item {i}")})
        if count:
            messages = [user(f"{text} {i}", message_id=f"m{i}", thread_id=f"thread-{i}", name=text)
                        for i in range(count)]
            contents = [memory.Content(content_id=f"c{i}", mime_type="text/plain",
                                       text=f"{text} kept {i}") for i in range(count)]
            reply = call("Put", session_id=session_id, messages=messages, contents=contents,
                         config=config(text, fed), wait=WAIT if fed else None)
            assert not (fed and reply.open_jobs)
            # Else one whose messages go meanwhile has nothing to feed, and ends.
            wait_for(lambda: fed or not any(job.attempts for job in self.listed_jobs(
                tenant, session_id)))

    def listed_jobs(self, tenant: str, session_id: str):
        """The jobs of a session. The attempts of one that waits for its worker are 0."""
        return self.caller(tenant)("ListJobs", session_id=session_id, page_size=1000).jobs

    def jobs(self, tenant: str, session_id: str) -> list[tuple[str, int]]:
        """The jobs of a session and their states."""
        return [(job.job_id, job.state) for job in self.listed_jobs(tenant, session_id)]

    def state(self, tenant: str, session_id: str) -> list[bytes]:
        """All that a tenant can read of a session and of which sessions there are."""
        call = self.caller(tenant)
        found = [call("GetAll", session_id=session_id, include_contents=True).SerializeToString(
            deterministic=True)]
        listed = call("ListSessions", page_size=1000)
        found.append(listed.SerializeToString(deterministic=True))
        error = call.error("GetSession", session_id=session_id)
        found.append(str(error.code() if error else call("GetSession", session_id=session_id))
                     .encode())
        found.append(str(self.jobs(tenant, session_id)).encode())
        for method in ("GetBlock", "ListItems", "GetNamespace", "ListNamespaces"):
            found.append(outcome(call, method, base_request(method, session_id))[1])
        return found


def token_of(tenant: str) -> str:
    return "token-" + tenant.encode().hex()


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type.GetOptions().map_entry


def stripped(message: Message) -> Message:
    """A reply without what differs from run to run."""
    for field, value in message.ListFields():
        if field.name in VOLATILE or field.full_name.endswith("_time"):
            message.ClearField(field.name)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and not is_map(field):
            if field.message_type.full_name == "google.protobuf.Timestamp":
                message.ClearField(field.name)
            else:
                for inner in value if hasattr(value, "add") else [value]:
                    stripped(inner)
    return message


def outcome(caller: Caller, method: str, request: Message) -> tuple[object, bytes]:
    """The reply or error, comparable, and all its bytes."""
    try:
        reply = caller(method, request)
    except grpc.RpcError as error:
        text = f"{error.code()} {reason(error)} {error.details()}"
        return text, text.encode()
    return stripped(type(reply).FromString(reply.SerializeToString())), reply.SerializeToString()


def cells(place: Place) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """RPC, field, and how many messages B has before: with none A has the session alone."""
    for name, method in METHODS.items():
        paths = list(id_fields(method.input_type)) or [()]
        for path in paths:
            yield name, path, 3
            if path == ("session_id",):
                yield name, path, 0
        if NAMESPACE_FIELDS & set(method.input_type.fields_by_name):
            yield name, (), 0


@pytest.fixture(scope="module", params=("sqlite", "postgresql"))
def worlds(request, tmp_path_factory):
    tenants = {t for place in places() for t in (place.tenant_a, place.tenant_b)}
    file = write_credentials(
        tmp_path_factory.mktemp("isolation") / "credentials.yaml",
        [credential(t, ("read", "write", "admin"), token=token_of(t)) for t in sorted(tenants)])
    with (ModelServer() as models, fresh_store(request.param) as both,
          fresh_store(request.param) as alone):
        arguments = [f"--credentials={file}", LISTEN,
                     models_file(tmp_path_factory.mktemp("models"), models)]
        with Server(both, arguments=arguments) as first, Server(alone, arguments=arguments) as other, \
                first.channel() as one, other.channel() as two:
            yield request.param, World(ready(one)), World(ready(two)), tuple(
                World(HttpChannel(server.http)) for server in (first, other))


def leaks_of(place: Place, both: World, alone: World, method: str, path: tuple[str, ...],
             count: int, number: int) -> list[str]:
    """What leaks in one cell."""
    a, b = both.caller(place.tenant_a), both.caller(place.tenant_b)
    fed = method == "ListBlockEntries"
    both.refill(place.tenant_a, place.session_a, CANARY, 7, fed)
    for world in (both, alone):
        world.refill(place.tenant_b, place.session_b, "own message", count, fed)
    request = base_request(method, place.session_b)
    field = path[-1] if path else ""
    if field == "request_id":
        # A has just done exactly this under the same request_id.
        put_at(request, path, f"request-{number}")
        twin = type(request).FromString(request.SerializeToString())
        move(twin, place.session_a)
        a.error(method, twin)
        if method != "DeleteSession":
            a("Put", session_id=place.session_a, messages=[user(CANARY, message_id="after")])
    elif field in ("message_id", "thread_id"):
        put_at(request, path, "m5" if field == "message_id" else "thread-5")
    elif field == "page_token":
        first = base_request(method, place.session_a)
        first.page_size = 1
        if method == "ListSessions":
            a("Put", session_id=place.session_a + "~")
        if method == "ListNamespaces":
            a("PutItem", namespace=[place.session_a + "~"], put={"key": "k", "json": "1"})
        put_at(request, path, a(method, first).next_page_token)
        assert request.page_token
    elif field == "known_prefix_hash":
        put_at(request, path, a(method, base_request(method, place.session_a)).stable_prefix_hash)
    elif field == "content_id":
        put_at(request, path, "c5")
    elif field == "subject":
        put_at(request, path, SUBJECT)
    elif field == "source_session_id":
        put_at(request, path, place.session_a)
    # A job has no name of its tenant's choice: where the session is asked for, it is B's own.
    same_request = type(request).FromString(request.SerializeToString())
    if "job_id" in request.DESCRIPTOR.fields_by_name:
        of_a = both.jobs(place.tenant_a, place.session_a)[0][0]
        for world, asks in ((both, request), (alone, same_request)):
            own = world.jobs(place.tenant_b, place.session_b)
            asks.job_id = own[0][0] if own and field != "job_id" else of_a
    before = both.state(place.tenant_a, place.session_a)

    got, data = outcome(b, method, request)
    found = []
    if CANARY.encode() in data:
        found.append("the reply holds the other's text")
    if both.state(place.tenant_a, place.session_a) != before:
        found.append("the other's state has changed")
    if field == "page_token":
        if not str(got).startswith("StatusCode.INVALID_ARGUMENT"):
            found.append(f"the other's page token was taken: {got}")
    elif {"session_id", "subject", *NAMESPACE_FIELDS} & set(request.DESCRIPTOR.fields_by_name):
        expected, _ = outcome(alone.caller(place.tenant_b), method, same_request)
        if got != expected:
            found.append(f"with the other: {got}\nwithout: {expected}")
        # What B has afterwards, too.
        for after in ("Get", "GetAll", "GetSession", "ListSessions", "ListJobs",
                      "GetBlock", "ListItems", "GetNamespace", "ListNamespaces"):
            look = base_request(after, place.session_b)
            one, bytes_of_one = outcome(b, after, look)
            two, _ = outcome(alone.caller(place.tenant_b), after, look)
            if one != two or CANARY.encode() in bytes_of_one:
                found.append(f"{after} afterwards, with the other: {one}\nwithout: {two}")
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("part", range(PARTS))
def test_no_cell_leaks(worlds, part, capsys):
    kind, both, alone, _ = worlds
    find_leaks(both, alone, places()[part::PARTS], part * 100_000, f"{kind}, part {part}", capsys)


@pytest.mark.matrix
def test_no_cell_leaks_over_http(worlds, capsys):
    """The calls are the same as above; what is else is how they come in. So a few places do."""
    kind, _, _, over_http = worlds
    find_leaks(*over_http, places()[::HTTP_STEP], PARTS * 100_000, f"{kind}, HTTP", capsys)


def find_leaks(both: World, alone: World, of: list[Place], first: int, name: str, capsys) -> None:
    leaking, served = [], set()
    number = first
    unserved = {name for name in METHODS
                if both.caller(places()[0].tenant_a).code(name) == grpc.StatusCode.UNIMPLEMENTED}
    for place in of:
        for method, path, count in cells(place):
            if method in unserved:
                continue
            number += 1
            served.add(method)
            for leak in leaks_of(place, both, alone, method, path, count, number):
                leaking.append(f"{place} {method} {'.'.join(path)}: {leak}")
    with capsys.disabled():
        print(f"\nisolation, {name}: leaks {len(leaking)} of {number - first} cells, "
              f"{len(served)} RPCs")
    assert not leaking, "\n".join(leaking[:5])
    assert number - first > 20 * len(of) and len(served) >= 10


def test_the_matrix_has_the_fields_that_matter():
    """The walk through the descriptors finds what a reader of the protos finds."""
    found = {(name, ".".join(path))
             for name, method in METHODS.items() for path in id_fields(method.input_type)}
    assert {("Put", "session_id"), ("Put", "request_id"), ("Put", "messages.message_id"),
            ("Put", "messages.thread_id"), ("Set", "messages.message_id"),
            ("GetAll", "page_token"), ("ListSessions", "page_token"),
            ("DeleteSession", "request_id"), ("CancelJob", "job_id"),
            ("ListJobs", "page_token"), ("ListBlockEntries", "page_token"),
            ("UndoBlockChange", "request_id"), ("EraseSubject", "subject"),
            ("ListSessions", "subject"), ("CreateSession", "config.subject"),
            ("PutItem", "request_id"), ("BatchItems", "batches.request_id"),
            ("ListItems", "page_token"), ("ListNamespaces", "subject")} <= found


def test_a_leak_would_be_seen(worlds):
    """The comparison itself: B reading as A is a leak in every way that is looked for."""
    _, both, alone, _ = worlds
    tenant = places()[0].tenant_a
    place = Place(tenant, "seen", tenant, "seen")
    leaks = leaks_of(place, both, alone, "Put", ("messages", "message_id"), 3, 1)
    assert any("changed" in leak for leak in leaks)
    both.refill(tenant, "seen", CANARY, 7)
    alone.refill(tenant, "seen", "own message", 3)
    request = base_request("GetAll", "seen")
    got, data = outcome(both.caller(tenant), "GetAll", request)
    assert CANARY.encode() in data
    assert got != outcome(alone.caller(tenant), "GetAll", request)[0]
