"""Rows 1 to 35: requests that are well-formed and wrong, or right and odd."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import duration_pb2, timestamp_pb2

from hostile.place import Place, own_server
from support.access import METHODS, Caller, credential, write_credentials
from support.blocks import FAILED, OPEN, WAIT, block, every_turn, jobs_of, missing, models_file
from support.calls import memory, reason, refusal, user, wire
from support.metrics import Watch, scrape
from support.model_server import ModelServer
from support.server import ready
from support.waiting import wait_for

from memoryd.errors import error_info
from memoryd.v1 import item_service_pb2 as items

INVALID = grpc.StatusCode.INVALID_ARGUMENT
METRICS = "--metrics-listen=127.0.0.1:0"
MIB = 1024 * 1024
# Zero-width and bidirectional-format characters.
HIDDEN = "\u200b\u200c\u200d\ufeff\u200e\u200f\u202a\u202e\u2066\u2069"
CONTROLS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
READS_OF_A_GET = ("load_session", "read_range", "read_positions", "read_sizes", "revisions")
Message, Config = memory.Message, memory.SessionConfig
Step = Any  # Callable[[Place], None]; a name that reads well in the table.


def unary_with(field: str) -> list[str]:
    """The unary RPCs whose request has this field."""
    return [name for name, method in METHODS.items()
            if not method.client_streaming and field in method.input_type.fields_by_name]


# What other fields an RPC wants before it looks further.
OTHERS = {"block": "b", "change": 1, "content_id": "c", "fact_id": 1, "job_id": "0000000000000001-1-b",
          "message_id": "m", "new_session_id": "n", "subject": "nobody", "text": "a fact",
          "namespace": ["n"], "put": items.ItemPut(key="k", json="1"), "get": items.ItemGet(key="k"),
          "delete": items.ItemDelete(key="k"), "source": ["n"], "destination": ["m"]}


def minimal(rpc: str, **fields: Any) -> dict[str, Any]:
    """The fields, with those that the RPC wants besides."""
    known = METHODS[rpc].input_type.fields_by_name
    return {**{name: value for name, value in OTHERS.items() if name in known}, **fields}


def refuses(field: str, *requests: tuple[str, dict[str, Any]]) -> Step:
    """Each request, given as its RPC and its fields, is INVALID_ARGUMENT that names `field`, and
    stores nothing."""
    def step(place: Place) -> None:
        for rpc, fields in requests:
            session_id = place.session()
            own = {"session_id": session_id, **fields}
            if "session_id" not in METHODS[rpc].input_type.fields_by_name:
                own = fields
            error = place.caller.error(rpc, **minimal(rpc, **own))
            assert error is not None, (rpc, fields)
            assert error.code() == INVALID, (rpc, fields, error)
            assert field in error.details(), (rpc, error)
            assert reason(error), error
            if "session_id" not in fields:
                place.assert_absent(session_id)
    return step


def refuses_messages(field: str, *messages: list[Message]) -> Step:
    return refuses(field, *((rpc, {"messages": given}) for given in messages
                            for rpc in ("Put", "Set")))


def refuses_metadata(*values: str) -> Step:
    return refuses_messages("messages[0].metadata_json",
                            *([user("x", metadata_json=value)] for value in values))


def refuses_ids(values: Iterable[str], fields: Iterable[str] = ("session_id",)) -> Step:
    """Put refuses these values of the fields, and every other RPC that has one some of them."""
    given = list(values)
    return together(*(
        refuses(field, *((rpc, {field: value}) for rpc in unary_with(field)
                         for value in (given if rpc == "Put" else given[::10])))
        for field in fields))


def together(*steps: Step) -> Step:
    def step(place: Place) -> None:
        for each in steps:
            each(place)
    return step


def takes_session_ids(*values: str) -> Step:
    """Each is a session of its own, found again by these bytes and listed as them."""
    def step(place: Place) -> None:
        for value in values:
            place.calls.DeleteSession(session_id=value)
            place.calls.Put(session_id=value, messages=[user(value)])
        listed, token = [], ""
        while True:
            page = place.calls.ListSessions(page_size=1000, page_token=token)
            listed += [session.session_id for session in page.sessions]
            token = page.next_page_token
            if not token:
                break
        for value in values:
            assert place.texts(value) == [value]
            assert value in listed
            place.calls.DeleteSession(session_id=value)
    return step


def keeps_bodies(*texts: str) -> Step:
    """Each body comes back byte for byte, from the cache and from the store."""
    def step(place: Place) -> None:
        for text in texts:
            session_id = place.session()
            place.calls.Put(session_id=session_id, messages=[user(text)])
            for found in (place.calls.all_messages(session_id),
                          place.calls.Get(session_id=session_id).messages):
                assert [(m.role, m.HasField("text"), m.text) for m in found] == [
                    ("user", True, text)]
    return step


def refuses_body_bytes(text: bytes) -> Step:
    """A body of bytes that are not UTF-8 is refused and named; no library lets it be written."""
    def step(place: Place) -> None:
        stand_in = b"x" * len(text)
        for rpc, request_type in (("Put", wire.PutRequest), ("Set", wire.SetRequest)):
            session_id = place.session()
            request = request_type(session_id=session_id,
                                   messages=[user("first"), user(stand_in.decode())])
            body = request.SerializeToString().replace(stand_in, text)
            method = place.channel.unary_unary(f"/memoryd.v1.MemoryService/{rpc}")
            error = refusal(method, body, timeout=30)
            assert error.code() == INVALID and "text" in error.details(), error
            place.assert_absent(session_id)
    return step


def too_large_a_request(place: Place) -> None:
    for rpc in ("Put", "Set"):
        session_id = place.session()
        error = place.caller.error(rpc, session_id=session_id, messages=[user("x" * MIB)] * 37)
        assert error is not None and error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
        assert "messages" in error.details() and "max_request_mib" in error.details(), error
        place.assert_absent(session_id)


def an_empty_batch(place: Place) -> None:
    session_id = place.session()
    for call in (place.calls.Put, place.calls.Set):
        reply = call(session_id=session_id, messages=[])
        assert not reply.positions and not reply.message_ids
        assert place.texts(session_id) == []


def unknown_roles_and_enums(place: Place) -> None:
    refuses("status", ("GetAll", {"status": 99}))(place)
    refuses("order", ("GetAll", {"order": 99}))(place)
    refuses("scope", ("Reset", {"scope": 99}))(place)
    refuses("state", ("ListJobs", {"state": 99}))(place)
    for field in ("insert_method", "feed"):
        refuses(f"config.{field}", *((rpc, {"config": Config(**{field: 99})})
                                     for rpc in ("CreateSession", "Put")))(place)
    # A role is stored as sent, unless the profile is a library's that knows its own only.
    session_id = place.session()
    place.calls.CreateSession(session_id=session_id, config=Config(profile="llama-index"))
    for call in (place.calls.Put, place.calls.Set):
        error = refusal(call, session_id=session_id,
                        messages=[user("x"), Message(role="poet", text="x")])
        assert error.code() == INVALID and "messages[1].role" in error.details(), error
    assert place.texts(session_id) == []


def page_sizes(place: Place) -> None:
    session_id = place.session()
    place.calls.Put(session_id=session_id, messages=[user("x")] * 1000)
    place.calls.Put(session_id=session_id, messages=[user("x")] * 100)
    # On the wire 2**63 - 1 is -1 to a field of 32 bits.
    for rpc in unary_with("page_size"):
        in_session = "session_id" in METHODS[rpc].input_type.fields_by_name
        fields = minimal(rpc, session_id=session_id) if in_session else minimal(rpc)
        for size in (-1, -(2**31)):
            error = place.caller.error(rpc, page_size=size, **fields)
            assert error is not None and error.code() == INVALID, (rpc, size)
            assert "page_size" in error.details(), error
    for size, count in ((0, 100), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)):
        page = place.calls.GetAll(session_id=session_id, page_size=size)
        assert (len(page.messages), bool(page.next_page_token)) == (count, True)


@contextlib.contextmanager
def two_tenants(*arguments: str) -> Iterator[tuple[Place, Caller, Caller]]:
    """A place, and callers of two tenants."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_credentials(Path(folder) / "credentials.yaml", [
            credential(name, token=name) for name in ("one", "other")])
        with (own_server(f"--credentials={file}", *arguments, token="one") as place,
              place.server.channel() as channel):
            yield place, place.caller, Caller(ready(channel), "other")


def page_tokens(_: Place) -> None:
    with two_tenants() as (_place, one, other):
        for caller in (one, other):
            caller("Put", session_id="s", messages=[user("x")] * 5)
            for number in range(5):
                caller("Put", session_id=f"s{number}")
        own = one("GetAll", session_id="s", page_size=2).next_page_token
        foreign = other("GetAll", session_id="s", page_size=2).next_page_token
        listed = other("ListSessions", page_size=2).next_page_token
        assert own and foreign and listed
        half = len(own) // 2
        forged = own[:half] + ("A" if own[half] != "A" else "B") + own[half + 1:]
        bad = {"forged": forged, "cut": own[:-2], "half": own[:half], "longer": own + "AA",
               "foreign": foreign, "of ListSessions": listed, "word": "x", "empty bytes": "AAAA",
               "long": "é" * 500, "control": "\0\n"}
        texts = set()
        for name, token in bad.items():
            error = one.error("GetAll", session_id="s", page_size=2, page_token=token)
            assert error is not None and error.code() == INVALID, name
            texts.add(error.details())
        for token in (own, foreign, listed):
            error = one.error("ListSessions", page_size=2, page_token=token)
            assert error is not None and error.code() == INVALID, token
            texts.add(error.details())
        assert len(texts) == 1 and "page_token" in texts.pop()
        assert len(one("GetAll", session_id="s", page_size=2, page_token=own).messages) == 2


def bad_embeddings(place: Place) -> None:
    """No request carries an embedding: what a model answers is refused in the job that asked."""
    del place
    infinite = b'{"object":"list","data":[{"index":0,"embedding":[1e999' + b",0" * 15 + b"]}]}"
    with tempfile.TemporaryDirectory() as folder, ModelServer() as models:
        arguments = [models_file(Path(folder), models), "--job-attempts=1"]
        with own_server(*arguments, store=f"sqlite:{folder}/memory.db") as own:
            for kind, details in (("wrong_dimensions", {}), ("nan", {}),
                                  ("body", {"body": infinite})):
                session_id = own.session()
                config = every_turn(block("b", "vector", embedder="embed"))
                own.calls.Put(session_id=session_id, messages=[user("tea")], config=config)
                models.lie(kind, **details)
                reply = own.calls.Put(session_id=session_id, messages=[user("milk")], wait=WAIT)
                assert [job.state for job in reply.open_jobs] == ["FAILED"], (kind, reply)
                assert own.calls.all_entries(session_id, "b") == []
                models.be_honest()
                # A query is embedded too.
                models.lie(kind, **details)
                assert missing(own.calls.Get(session_id=session_id, input="tea")).keys() <= {"b"}
                models.be_honest()
                assert own.texts(session_id) == ["tea", "milk"]
                assert not [job for job in jobs_of(own.calls, session_id) if job.state == OPEN]
                # Query's own embeddings.
                searched = own.session()
                models.lie(kind, **details)
                own.calls.Put(session_id=searched, messages=[user("tea")],
                              config=Config(retrieval=memory.Retrieval(embedder="embed")))
                wait_for(lambda searched=searched: jobs_of(own.calls, searched, state=FAILED))
                found = own.calls.Query(session_id=searched, query="tea")
                assert [result.message.text for result in found.results] == ["tea"]
                assert found.pending_embeddings == 1 and not found.missing_blocks


def embedder_settings(place: Place) -> None:
    """Names and weights of an embedder that are none."""
    given = [("embedder", {"embedder": "x" * 129}),
             *(("embedder", {"embedder": f"a{c}b"}) for c in (CONTROLS + HIDDEN)[::10]),
             ("embedder_worker", {"embedder": "e", "embedder_worker": "x" * 129}),
             ("embedder_worker", {"embedder_worker": "w"}),
             *(("embedder_weight", {"embedder": "e", "embedder_weight": weight})
               for weight in (-0.1, 10.1, float("nan"), float("inf")))]
    for field, settings in given:
        refuses(f"config.retrieval.{field}", *(
            (rpc, {"config": Config(retrieval=memory.Retrieval(**settings))})
            for rpc in ("CreateSession", "Put")))(place)


def retention_settings(place: Place) -> None:
    """Times and counts for which nothing could be kept, or for ever."""
    times = ({"nanos": 1}, {"nanos": 999_999_999}, {"seconds": -1}, {"seconds": 1, "nanos": -1},
             {"seconds": 3650 * 86400 + 1}, {"seconds": 2**63 - 1, "nanos": 2**31 - 1},
             {"seconds": -(2**63), "nanos": -(2**31)})
    given = [(field, duration_pb2.Duration(**time))
             for field in ("session_ttl", "message_ttl") for time in times]
    given += [(field, count) for field in ("keep_messages", "keep_bytes") for count in (-1, -(2**63))]
    for field, value in given:
        refuses(f"config.retention.{field}", *(
            (rpc, {"config": Config(retention=memory.Retention(**{field: value}))})
            for rpc in ("CreateSession", "Put")))(place)


def at(**fields: int) -> Message:
    return user("x", create_time=timestamp_pb2.Timestamp(**fields))


def bad_times() -> list[list[Message]]:
    given = ({"seconds": -62135596801}, {"seconds": -62167219200}, {"seconds": 253402300800},
             {"nanos": -1}, {"nanos": 1_000_000_000}, {"seconds": 2**63 - 1},
             {"seconds": -(2**63)})
    return [[at(**fields)] for fields in given]


def bad_expire_times(place: Place) -> None:
    """Times of items that are none, or over."""
    given = ({"seconds": -62135596801}, {"seconds": 253402300800}, {"nanos": -1}, {},
             {"nanos": 1_000_000_000}, {"seconds": -1}, {"seconds": 1}, {"seconds": 2**63 - 1})
    for fields in given:
        time = timestamp_pb2.Timestamp(**fields)
        items = {"messages": [user("x", expire_time=time)]}
        refuses("messages[0].expire_time", ("Put", items), ("Set", items))(place)
        items = {"contents": [memory.Content(mime_type="text/plain", text="x", expire_time=time)]}
        refuses("contents[0].expire_time", ("Put", items), ("Set", items))(place)


def times_of_the_last_year(place: Place) -> None:
    """The first and the last second that RFC 3339 has, kept to the nanosecond."""
    given = [at(seconds=253402300799, nanos=999_999_999), at(seconds=253370764800),
             at(seconds=-62135596800)]
    session_id = place.session()
    place.calls.Put(session_id=session_id, messages=given)
    assert [m.create_time for m in place.calls.all_messages(session_id)] == [
        m.create_time for m in given]


def odd_queries(place: Place) -> None:
    """More results than there may be are capped, as pages are; a text without a word finds
    nothing."""
    session_id = place.session()
    place.calls.Put(session_id=session_id, messages=[user(f"tea {n}") for n in range(1000)])
    place.calls.Put(session_id=session_id, messages=[user("tea 1000")])
    for top_k in (1000, 1001, 10**9, 2**31 - 1):
        found = place.calls.Query(session_id=session_id, query="tea", top_k=top_k)
        assert len(found.results) == 1000, top_k
    for query in ("", " ", "?!", "\0"):
        assert not place.calls.Query(session_id=session_id, query=query).results, query


def unknown_fields(_: Place) -> None:
    """Fields of a newer client change nothing, are not kept, and are counted by method."""
    # Fields 15000 and 15001: a number, and bytes.
    newer = b"\xc0\xa9\x07\x01" + b"\xca\xa9\x07\x03new"
    with own_server(METRICS) as place:
        session_id = place.session()
        watch = Watch(place.server.metrics)

        def counted(method: str) -> float:
            return watch.moved("memoryd_rpc_unknown_fields_total", method=method)

        put = place.channel.unary_unary("/memoryd.v1.MemoryService/Put")
        plain = wire.PutRequest(session_id=session_id, messages=[user("plain")])
        put(plain.SerializeToString(), timeout=30)
        assert counted("Put") == 0
        put(plain.SerializeToString() + newer, timeout=30)
        assert counted("Put") == 1
        message = user("inner").SerializeToString() + newer
        # messages is field 2.
        put(wire.PutRequest(session_id=session_id).SerializeToString()
            + bytes([0x12, len(message)]) + message, timeout=30)
        assert counted("Put") == 2
        get = place.channel.unary_unary("/memoryd.v1.MemoryService/Get")
        answer = get(wire.GetRequest(session_id=session_id).SerializeToString() + newer,
                     timeout=30)
        assert counted("Get") == 1
        found = wire.GetResponse.FromString(answer).messages
        assert [m.text for m in found] == ["plain", "plain", "inner"]


def a_request_id_used_twice(place: Place) -> None:
    session_id = place.session()
    place.calls.Put(session_id=session_id, messages=[user("one")], request_id="r")
    before = place.calls.GetSession(session_id=session_id).session
    for rpc, fields in (("Put", {"messages": [user("two")]}), ("Set", {"messages": [user("one")]}),
                        ("Reset", {}), ("DeleteSession", {}), ("UpdateSession", {})):
        error = place.caller.error(rpc, session_id=session_id, request_id="r", **fields)
        assert error is not None and error.code() == grpc.StatusCode.ALREADY_EXISTS, (rpc, error)
        assert reason(error) == "REQUEST_ID_REUSED"
    # The id's scope is the session that a call makes.
    error = place.caller.error("ForkSession", session_id=place.session(),
                               new_session_id=session_id, request_id="r")
    assert error is not None and reason(error) == "REQUEST_ID_REUSED", error
    assert place.calls.GetSession(session_id=session_id).session == before
    assert place.texts(session_id) == ["one"]


def a_stale_revision(place: Place) -> None:
    session_id = place.session()
    stale = place.calls.Put(session_id=session_id, messages=[user("one")]).revision
    current = place.calls.Put(session_id=session_id, messages=[user("two")]).revision
    error = refusal(place.calls.Set, session_id=session_id, messages=[user("new")],
                    expected_revision=stale)
    assert (error.code(), reason(error)) == (grpc.StatusCode.ABORTED, "REVISION_MISMATCH")
    assert str(current) in error_info(error).metadata.values()
    assert place.texts(session_id) == ["one", "two"]


def unknown_and_foreign_sessions(_: Place) -> None:
    """The same reply, at the same price in calls to the store."""
    def price(place: Place, caller: Caller, session_id: str) -> tuple[Any, dict]:
        before = scrape(place.server.metrics)
        reply = caller("Get", session_id=session_id)
        after = scrape(place.server.metrics)
        moved = {key: value - before.get(key, 0) for key, value in after.items()
                 if key[0] == "memoryd_store_seconds_count" and key[1][0][1] in READS_OF_A_GET}
        return reply, moved

    with two_tenants("--metrics-listen=127.0.0.1:0") as (place, one, other):
        other("Put", session_id="foreign", messages=[user("secret")])
        assert price(place, one, "unknown") == price(place, one, "foreign")
        assert one("Get", session_id="unknown") == wire.GetResponse(
            limit=one("Get", session_id="unknown").limit)
        assert one.code("GetSession", session_id="unknown") == grpc.StatusCode.NOT_FOUND
        assert one.code("GetSession", session_id="foreign") == grpc.StatusCode.NOT_FOUND
