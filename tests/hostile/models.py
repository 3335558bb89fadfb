"""Rows 87 and 88: models that lie, hang, or answer with what nobody should keep."""

from __future__ import annotations

import contextlib
import json
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostile.place import Place, own_server
from support.blocks import (
    WAIT,
    block,
    every_turn,
    memory_text,
    missing,
    models_file,
)
from support.calls import memory, user
from support.model_server import DIMENSIONS, ModelServer
from support.process_memory import PeakMemory
from support.tls import SERVER_NAMES, Authority

FAILED = "FAILED"
# An answer as large as may be, in a buffer that grows by doubling, and what else a server takes.
GROWTH_MIB = {"summary": 2 * 8 + 16, "vector": 2 * 64 + 16}


@contextlib.contextmanager
def with_models(models: ModelServer, **settings: Any) -> Iterator[Place]:
    """A place whose blocks ask these models, and give up after one attempt."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = models_file(folder, models, {"timeout_ms": 2000, **settings})
        with own_server(file, "--job-attempts=1", "--block-timeout-ms=500",
                        store=f"sqlite:{folder / 'memory.db'}") as place:
            yield place


def blocks_of(kind: str) -> list[memory.Block]:
    if kind == "vector":
        return [block("b", "vector", embedder="embed")]
    return [block("b", kind, model="chat")]


def fed(place: Place, models: ModelServer, kind: str, lie: str, **details: Any):
    """A session whose turn the lying model is asked about: its id and the open jobs of the Put."""
    session_id = place.session()
    place.calls.Put(session_id=session_id, messages=[user("My dog is Rex")],
                    config=every_turn(*blocks_of(kind)))
    models.lie(lie, **details)
    reply = place.calls.Put(session_id=session_id, messages=[user("Who is Rex?")], wait=WAIT)
    models.be_honest()
    # The memory of the agent is what it said, whatever became of it in blocks.
    assert place.texts(session_id) == ["My dog is Rex", "Who is Rex?"]
    return session_id, list(reply.open_jobs)


LIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("status", {"code": 500}), ("status", {"code": 429}),
    ("status", {"code": 429, "retry_after": "100000"}), ("half_json", {}), ("large", {}),
    ("endless", {}), ("redirect", {"to": "http://169.254.169.254/latest/meta-data/"}), ("cut", {}),
    ("short_length", {}), ("late", {}), ("empty_choices", {}),
)


def lying_models(_: Place) -> None:
    with ModelServer(["They spoke of Rex."]) as models, with_models(models) as place:
        for kind in ("vector", "summary"):
            for lie, details in LIES:
                if kind == "vector" and lie in ("short_length", "empty_choices"):
                    continue  # These are about chats.
                peak = PeakMemory(place.server.pid)
                session_id, jobs = fed(place, models, kind, lie, **details)
                assert [job.state for job in jobs] == [FAILED], (kind, lie, jobs)
                assert "169.254" not in jobs[0].error and "127.0.0.1" not in jobs[0].error
                assert peak.grown_mib() < GROWTH_MIB[kind], (kind, lie)
                assert memory_text(place.calls.Get(session_id=session_id)) == "", (kind, lie)
        # A Get that asks a model which does not answer says so, and serves the rest.
        session_id = place.session()
        place.calls.Put(session_id=session_id, messages=[user("tea")], wait=WAIT,
                        config=every_turn(*blocks_of("vector")))
        place.calls.Put(session_id=session_id, messages=[user("milk")], wait=WAIT)
        with models.hanging():
            reply = place.calls.Get(session_id=session_id, input="tea")
            assert missing(reply).keys() == {"b"} and [m.text for m in reply.messages] == ["milk"]
            place.assert_serves()


def a_self_signed_model(_: Place) -> None:
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        identity = authority.issue(SERVER_NAMES)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        with ModelServer(["They spoke of Rex."], tls=context) as models:
            with with_models(models) as place:
                _id, jobs = fed(place, models, "summary", "late")
                assert [job.state for job in jobs] == [FAILED]
                assert not models.requests
            # So that what failed was the certificate.
            with with_models(models, ca_file=str(authority.certificate)) as place:
                session_id = place.session()
                place.calls.Put(session_id=session_id, messages=[user("My dog is Rex")],
                                config=every_turn(*blocks_of("summary")))
                reply = place.calls.Put(session_id=session_id, messages=[user("?")], wait=WAIT)
                assert not reply.open_jobs and models.requests


def chat_answer(content: bytes) -> bytes:
    """A whole answer whose content is this piece of JSON, whatever it is."""
    return (b'{"id":"1","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,'
            b'"finish_reason":"stop","message":{"role":"assistant","content":' + content + b'}}]}')


def vectors(count: int) -> bytes:
    data = [{"index": i, "embedding": [1.0] * DIMENSIONS} for i in range(count)]
    return json.dumps({"object": "list", "model": "m", "data": data}).encode()


def unreadable_answers(_: Place) -> None:
    deep = b"[" * 1_000_000
    with ModelServer(["They spoke of Rex."]) as models, with_models(models) as place:
        for body in (chat_answer(b'"\xff\xfe"'), chat_answer(b'"\xc0\x80"'),
                     chat_answer(b'"\xed\xa0\x80"'), chat_answer(b'"\\ud800"'),
                     chat_answer(b'"' + b"\0" + b'"'), chat_answer(deep),
                     deep + b"]" * 1_000_000, b'{"choices":' * 100_000, b"\0" * 1000):
            session_id, jobs = fed(place, models, "summary", "body", body=body)
            assert [job.state for job in jobs] == [FAILED], body[:100]
            assert memory_text(place.calls.Get(session_id=session_id)) == ""
        for body in (vectors(0), vectors(1000), b'{"data":' + deep,
                     vectors(1).replace(b"1.0", b"1e999"), vectors(1).replace(b"1.0", b"NaN"),
                     vectors(1).replace(b"1.0", b'"\xff"')):
            session_id, jobs = fed(place, models, "vector", "body", body=body)
            assert [job.state for job in jobs] == [FAILED], body[:100]
            assert place.calls.all_entries(session_id, "b") == []
        # U+0000 is legal in JSON; what comes of it is text like any other.
        session_id, jobs = fed(place, models, "summary", "body",
                               body=chat_answer(b'"a summary\\u0000 with NUL"'))
        for job in jobs:
            assert job.state == FAILED
