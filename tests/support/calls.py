"""The services as plain calls, without the client's retries."""

from __future__ import annotations

import grpc

from support import paths  # noqa: F401  (makes memoryd importable)

from memoryd.errors import error_info
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire
from memoryd.v1 import memory_service_pb2_grpc
from memoryd.v1 import session_service_pb2 as session_wire
from memoryd.v1 import session_service_pb2_grpc

CALL_SECONDS = 30.0


class Calls:
    """Both services over one channel; every method takes the fields of its request."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        memory_stub = memory_service_pb2_grpc.MemoryServiceStub(channel)
        session_stub = session_service_pb2_grpc.SessionServiceStub(channel)
        for module, stub, names in (
            (wire, memory_stub, ("Put", "Get", "GetAll", "Set", "Reset")),
            (
                session_wire,
                session_stub,
                ("CreateSession", "GetSession", "ListSessions", "UpdateSession", "DeleteSession"),
            ),
        ):
            for name in names:
                setattr(self, name, _method(getattr(stub, name), getattr(module, f"{name}Request")))

    def all_messages(self, session_id: str, page_size: int = 1000, **fields) -> list:
        """Every message of a session, page by page."""
        found, token = [], ""
        while True:
            page = self.GetAll(
                session_id=session_id, page_size=page_size, page_token=token, **fields
            )
            found.extend(page.messages)
            token = page.next_page_token
            if not token:
                return found


def _method(stub_method, request_type):
    def call(request=None, timeout: float = CALL_SECONDS, wait_for_ready: bool = False, **fields):
        request = request_type(**fields) if request is None else request
        return stub_method(request, timeout=timeout, wait_for_ready=wait_for_ready)

    return call


def user(text: str, **fields) -> memory.Message:
    return memory.Message(role="user", text=text, **fields)


def assistant(text: str, **fields) -> memory.Message:
    return memory.Message(role="assistant", text=text, **fields)


def refusal(call, *arguments, **fields) -> grpc.RpcError:
    """The error of a call that must fail."""
    try:
        reply = call(*arguments, **fields)
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"the call succeeded: {str(reply)[:200]}")


def reason(error: grpc.RpcError) -> str:
    return error_info(error).reason
