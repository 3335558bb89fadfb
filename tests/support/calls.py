"""The services as plain calls, without the client's retries."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from support import paths  # noqa: F401  (makes memoryd importable)

from memoryd.errors import error_info
from memoryd.v1 import block_service_pb2 as block_wire
from memoryd.v1 import (
    block_service_pb2_grpc,
    item_service_pb2_grpc,
    job_service_pb2_grpc,
    memory_service_pb2_grpc,
    server_service_pb2_grpc,
    session_service_pb2_grpc,
)
from memoryd.v1 import item_service_pb2 as item_wire
from memoryd.v1 import job_service_pb2 as job_wire
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2 as wire
from memoryd.v1 import server_service_pb2 as server_wire
from memoryd.v1 import session_service_pb2 as session_wire

# What only a call that hangs takes, on a machine however busy.
CALL_SECONDS = 120.0


class Calls:
    """All services over one channel; every method takes the fields of its request."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        memory_stub = memory_service_pb2_grpc.MemoryServiceStub(channel)
        session_stub = session_service_pb2_grpc.SessionServiceStub(channel)
        job_stub = job_service_pb2_grpc.JobServiceStub(channel)
        block_stub = block_service_pb2_grpc.BlockServiceStub(channel)
        item_stub = item_service_pb2_grpc.ItemServiceStub(channel)
        server_stub = server_service_pb2_grpc.ServerServiceStub(channel)
        for module, stub, names in (
            (wire, memory_stub, ("Put", "PutBatch", "Get", "GetAll", "Set", "Reset", "Query",
                                 "UpdateContext", "StreamAll", "UpdateMessage", "DeleteMessage",
                                 "GetContent", "UpdateContent", "DeleteContent")),
            (
                session_wire,
                session_stub,
                ("CreateSession", "GetSession", "ListSessions", "WatchSession", "UpdateSession",
                 "DeleteSession", "ForkSession", "EraseSubject"),
            ),
            (job_wire, job_stub, ("ListJobs", "GetJob", "RetryJob", "CancelJob", "GetUsage")),
            (block_wire, block_stub, ("GetBlock", "ListBlockEntries", "UndoBlockChange",
                                       "AddFact", "UpdateFact", "DeleteFact")),
            (item_wire, item_stub, ("PutItem", "GetItem", "DeleteItem", "ListItems", "SearchItems",
                                     "BatchItems", "GetNamespace", "UpdateNamespace",
                                     "ListNamespaces", "CopyNamespace", "DeleteNamespace")),
            (server_wire, server_stub, ("GetServerInfo",)),
        ):
            for name in names:
                setattr(self, name, _method(getattr(stub, name), getattr(module, f"{name}Request")))

        self.import_stream = session_stub.ImportSession

    def import_session(self, session_id: str, messages=(), contents=(), *, config=None,
                       create_time=None, size: int = 100, timeout: float = CALL_SECONDS):
        """ImportSession, `size` messages or contents at a time."""
        def steps():
            yield session_wire.ImportSessionRequest(begin=session_wire.ImportBegin(
                session_id=session_id, config=config, create_time=create_time))
            for name, items in (("messages", messages), ("contents", contents)):
                for at in range(0, len(items), size):
                    yield session_wire.ImportSessionRequest(items=session_wire.ImportItems(
                        **{name: items[at:at + size]}))
            yield session_wire.ImportSessionRequest(end=session_wire.ImportEnd(
                message_count=len(messages), content_count=len(contents)))
        return self.import_stream(steps(), timeout=timeout).session

    def pages(self, session_id: str, page_size: int = 1000, **fields) -> Iterator:
        """Every page of a GetAll."""
        token = ""
        while True:
            page = self.GetAll(
                session_id=session_id, page_size=page_size, page_token=token, **fields
            )
            yield page
            token = page.next_page_token
            if not token:
                return

    def all_messages(self, session_id: str, page_size: int = 1000, **fields) -> list:
        """Every message of a session, page by page."""
        return [m for page in self.pages(session_id, page_size, **fields) for m in page.messages]

    def streamed(self, session_id: str, **fields) -> list:
        """Every message of a session, as a stream."""
        return [m for page in self.StreamAll(session_id=session_id, **fields)
                for m in page.messages]

    def all_contents(self, session_id: str, page_size: int = 1000) -> list:
        """Every content of a session, page by page."""
        pages = self.pages(session_id, page_size, include_contents=True)
        return [content for page in pages for content in page.contents]

    def all_entries(self, session_id: str, block: str, page_size: int = 1000) -> list:
        """Every entry of a vector block, page by page."""
        found, token = [], ""
        while True:
            page = self.ListBlockEntries(session_id=session_id, block=block, page_size=page_size,
                                         page_token=token)
            found += page.entries
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


def note(text: str, mime_type: str = "text/plain", **fields) -> memory.Content:
    """A content of text."""
    return memory.Content(mime_type=mime_type, text=text, **fields)


def refusal(call, *arguments, **fields) -> grpc.RpcError:
    """The error of a call that must fail."""
    try:
        reply = call(*arguments, **fields)
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"the call succeeded: {str(reply)[:200]}")


def reason(error: grpc.RpcError) -> str:
    return error_info(error).reason
