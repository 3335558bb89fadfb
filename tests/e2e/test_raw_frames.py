"""Request bodies that no gRPC library sends."""

from __future__ import annotations

import struct

import grpc
import pytest

from support.calls import refusal, user, wire
from support.http2 import Connection, block, literal, prefixed, raw_call

PUT = "/memoryd.v1.MemoryService/Put"
INVALID = grpc.StatusCode.INVALID_ARGUMENT.value[0]
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]


def put_bytes(session_id: str, text: str) -> bytes:
    return wire.PutRequest(session_id=session_id, messages=[user(text)]).SerializeToString()


@pytest.mark.parametrize("body", (
    struct.pack(">BI", 0, 5) + b"ab",
    b"",
    b"\x00\x00",
), ids=("body cut short", "no message", "prefix cut short"))
def test_a_broken_body_is_invalid_and_others_are_served(server, calls, session_id, body):
    assert raw_call(server.target, PUT, body) == INVALID
    calls.Put(session_id=session_id, messages=[user("good")])


def test_a_promise_of_4_gib_is_too_large(server, calls, session_id):
    assert raw_call(server.target, PUT, struct.pack(">BI", 0, 2**32 - 1)) == EXHAUSTED
    calls.Put(session_id=session_id, messages=[user("good")])


def test_a_well_formed_raw_call_is_a_put(server, calls, session_id):
    assert raw_call(server.target, PUT, prefixed(put_bytes(session_id, "raw"))) == 0
    assert [m.text for m in calls.all_messages(session_id)] == ["raw"]


def test_of_two_messages_in_one_unary_call_one_is_stored(server, calls, session_id):
    body = prefixed(put_bytes(session_id, "one")) + prefixed(put_bytes(session_id, "two"))
    raw_call(server.target, PUT, body)
    assert [m.text for m in calls.all_messages(session_id)] in (["one"], [])


def test_compressed_requests_are_refused_without_inflating(server, session_id):
    with server.channel() as channel:
        put = channel.unary_unary(PUT)
        payload = put_bytes(session_id, "x" * 1000)
        error = refusal(put, payload, compression=grpc.Compression.Gzip, timeout=30)
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED


def test_headers_that_are_too_large_leave_the_table_as_the_caller_has_it(server):
    """CVE-2023-32731, CVE-2024-7246: else those behind a proxy are taken for one another."""
    connection = Connection(server.target)
    usual = block(server.target, PUT)
    large = usual + literal("x-a", "a" * 9000) + literal("x-request-id", "behind", indexed=True)
    answer = connection.finish(connection.start_with(large), b"")
    assert answer.status == EXHAUSTED, answer
    newest = bytes([0x80 | 62])
    answer = connection.finish(connection.start_with(usual + newest), prefixed(put_bytes("", "")))
    assert answer.status == INVALID and answer.headers["x-request-id"] == "behind", answer
