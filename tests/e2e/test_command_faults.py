"""memoryd's commands where the server answers late, oddly or not at all, or nobody reads them."""

from __future__ import annotations

import json
import subprocess
import threading

import grpc
import pytest

from support.calls import job_service_pb2_grpc as job_grpc
from support.calls import job_wire, memory, session_wire, user, wire
from support.calls import memory_service_pb2_grpc as memory_grpc
from support.calls import session_service_pb2_grpc as session_grpc
from support.commands import SECONDS, on_terminal, serving

HOSTILE = "a\x1b[2Jb"
SHOWN = "a\\u{1B}[2Jb"


class Putting(memory_grpc.MemoryServiceServicer):
    """Answers each Put with `reply`."""

    def __init__(self, reply: wire.PutResponse) -> None:
        self.reply = reply
        self.request: wire.PutRequest | None = None
        self.seconds = 0.0  # That the call had.

    def Put(self, request, context):
        self.request, self.seconds = request, context.time_remaining()
        return self.reply


STORED = wire.PutResponse(revision=1, message_ids=["m"], positions=[1])


@pytest.mark.parametrize("wait, milliseconds", (
    ("0", 0), ("0.0001", 1), ("0.25", 250), ("3600", 3_600_000)))
def test_a_call_lasts_as_long_as_it_waits_and_its_timeout(wait, milliseconds):
    service = Putting(STORED)
    with serving(service) as commands:
        commands.text("put", "s", "x", "--wait", wait, "--timeout", 50)
    assert service.request.HasField("wait") and service.request.wait.ToMilliseconds() == milliseconds
    assert milliseconds / 1000 < service.seconds <= milliseconds / 1000 + 50


def test_what_a_server_says_can_not_drive_a_terminal():
    job = wire.OpenJob(job_id=HOSTILE, block=HOSTILE, state=HOSTILE, error=HOSTILE)
    with serving(Putting(wire.PutResponse(message_ids=[HOSTILE], positions=[1],
                                          open_jobs=[job]))) as commands:
        assert commands.text("put", "s", "x") == (
            f"stored {SHOWN} at position 1 of session s\n"
            f"job {SHOWN} of block {SHOWN}: {SHOWN} {SHOWN}\n")

    class Getting(memory_grpc.MemoryServiceServicer):
        def Get(self, request, context):
            return wire.GetResponse(revision=1, missing_blocks=[
                wire.MissingBlock(block=HOSTILE, reason=HOSTILE)])

    with serving(Getting()) as commands:
        assert f"missing block: {SHOWN} ({SHOWN})\n" in commands.text("get", "s")


def test_a_reply_that_names_nothing_is_an_error():
    with serving(Putting(wire.PutResponse(revision=1))) as commands:
        assert "does not say" in commands.fails(1, "put", "s", "x")


