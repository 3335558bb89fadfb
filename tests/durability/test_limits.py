"""A server that is out of descriptors."""

from __future__ import annotations

import contextlib
import pathlib
import resource
from collections.abc import Iterator

import grpc

from support.calls import Calls, user
from support.server import Server

OK = grpc.StatusCode.OK
CONNECTIONS = 60
FEW_DESCRIPTORS = 48
# How long a call waits for a connection that the server can't accept.
REFUSED_SECONDS = 2.0


def put(calls: Calls, text: str, session_id: str = "s", **fields) -> grpc.StatusCode:
    try:
        calls.Put(session_id=session_id, messages=[user(text)], **fields)
    except grpc.RpcError as error:
        return error.code()
    return OK


@contextlib.contextmanager
def few_descriptors() -> Iterator[None]:
    """What a server is given that begins in it, though it may have more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_DESCRIPTORS, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_server_takes_all_the_descriptors_it_may_have(store):
    with few_descriptors():
        server = Server(store, wait=False)
    with server, contextlib.ExitStack() as stack:
        server.wait_until_ready()
        for number in range(CONNECTIONS):
            calls = Calls(stack.enter_context(server.channel()))
            assert put(calls, str(number)) == OK


def test_without_descriptors_those_who_are_connected_are_served(store):
    """Others are as soon as there are descriptors again."""
    with Server(store) as server, server.channel() as channel:
        first, acknowledged = Calls(channel), []
        assert put(first, "first") == OK
        open_now = len(list(pathlib.Path(f"/proc/{server.pid}/fd").iterdir()))
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (open_now + 5, open_now + 5))
        with contextlib.ExitStack() as many:
            codes = [OK]
            while codes[-1] == OK and len(codes) < CONNECTIONS:
                calls = Calls(many.enter_context(server.channel()))
                codes.append(put(calls, str(len(codes)), timeout=REFUSED_SECONDS))
            assert codes[-1] in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            acknowledged = ["first", *(str(n) for n in range(1, len(codes) - 1)), "while"]
            assert put(first, "while") == OK
        with server.channel() as later:
            assert put(Calls(later), "later") == OK
            acknowledged.append("later")
        server.stop()
    with Server(store) as server, server.channel() as channel:
        calls = Calls(channel)
        assert [m.text for m in calls.all_messages("s")] == acknowledged
        assert put(calls, "after") == OK
