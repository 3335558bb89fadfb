"""What callers have the server hold is given back, however their calls end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import pathlib
import random
import socket
from collections.abc import Callable

import grpc
import pytest
from google.protobuf.message import Message

from support.access import METHODS, Caller, bearer, credential, request_of, write_credentials
from support.blocks import block, every_turn, models_file
from support.calls import assistant, item_wire, memory, session_wire, user
from support.http2 import DATA, END_STREAM, Connection, frame, prefixed
from support.metrics import Series, scrape, value
from support.model_server import ModelServer
from support.server import Server
from support.swelling import SWELLING
from support.waiting import wait_for

from memoryd.v1 import worker_service_pb2 as worker_wire

TENANTS = ("a", "b", "c")
RIGHTS = ("read", "write", "admin", "worker")
STEPS, THREADS = 120, 6
USES = ("requests", "replies", "jobs", "answers")


class Mix:
    """Calls of every kind, of which some succeed and others fail, are cancelled or cut off."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self._token = self._chance.choice(TENANTS)
        self._channel = grpc.insecure_channel(
            server.target, options=[("grpc.use_local_subchannel_pool", 1)])
        self._caller = Caller(self._channel, self._token)
        self._steps: tuple[Callable[[], None], ...] = (
            self.put, self.put, self.read, self.read, self.late, self.cancelled, self.garbage,
            self.any_method, self.half_a_request, self.unread_reply, self.half_a_stream,
            self.half_an_import, self.half_a_namespace, self.worker_that_goes, self.swelling,
            self.stranger)

    def run(self) -> None:
        with self._channel:
            for _ in range(STEPS):
                # A connection that the server has ended.
                with contextlib.suppress(OSError):
                    self._chance.choice(self._steps)()

    def session(self) -> str:
        return f"s{self._chance.randrange(4)}"

    def messages(self) -> list[memory.Message]:
        size = self._chance.choice((1, 10, 1000, 40_000, 300_000))
        many = 1 if size > 1000 else self._chance.choice((1, 2, 300))
        return [message for _ in range(many) for message in (user("word " * (size // 5 + 1)),
                                                             assistant("seen"))]

    def put(self) -> None:
        method = self._chance.choice(("Put", "Put", "Put", "Set"))
        self._caller.error(method, session_id=self.session(), messages=self.messages())

    def read(self) -> None:
        session_id = self.session()
        method, fields = self._chance.choice((
            ("Get", {"input": "word"}), ("GetAll", {}), ("StreamAll", {}), ("GetSession", {}),
            ("Query", {"query": "word seen"}), ("UpdateContext", {"messages": [user("word")]}),
            ("GetBlock", {"block": "b"}), ("ListJobs", {})))
        self._caller.error(method, session_id=session_id, **fields)

    def late(self) -> None:
        """A call whose time is over before it is answered, or soon after."""
        self._caller.error(self._chance.choice(("Put", "Get", "Query", "Reset")),
                           session_id=self.session(), timeout=self._chance.choice((0.0005, 0.005)))

    def cancelled(self) -> None:
        method = self._chance.choice(("Put", "GetAll"))
        fields = {"messages": self.messages()} if method == "Put" else {}
        call = self._channel.unary_unary(f"/memoryd.v1.MemoryService/{method}").future(
            request_of(method, session_id=self.session(), **fields).SerializeToString(),
            metadata=tuple(bearer(self._token)), timeout=30)
        call.cancel()

    def garbage(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            self._channel.unary_unary("/memoryd.v1.MemoryService/Put")(
                self._chance.randbytes(self._chance.choice((3, 300, 50_000))),
                metadata=tuple(bearer(self._token)), timeout=30)

    def any_method(self) -> None:
        """One of all methods, of a session or of none."""
        method = self._chance.choice(sorted(METHODS))
        request = request_of(method)
        if "session_id" in request.DESCRIPTOR.fields_by_name:
            request.session_id = self.session()
        self._caller.error(method, request, timeout=5)

    def swelling(self) -> None:
        request = self._chance.choice(SWELLING)
        self._caller.error(request.method, request)

    def half_a_request(self) -> None:
        body = prefixed(request_of("Put", session_id=self.session(), messages=self.messages())
                        .SerializeToString())
        with Connection(self._server.target) as connection:
            stream = connection.settle().start("/memoryd.v1.MemoryService/Put",
                                               bearer(self._token))
            connection.send(frame(DATA, 0, stream, body[:min(len(body) - 1, 16_000)]))
            if self._chance.random() < 0.5:
                connection.reset(stream)

    def unread_reply(self) -> None:
        body = prefixed(request_of("GetAll", session_id=self.session()).SerializeToString())
        with Connection(self._server.target) as connection:
            connection.take_nothing()
            connection.settle()
            for _ in range(3):
                stream = connection.start("/memoryd.v1.MemoryService/GetAll", bearer(self._token))
                connection.send(frame(DATA, END_STREAM, stream, body))
            # Answered and not read.
            self._caller.error("GetServerInfo")

    def half_a_stream(self) -> None:
        call = self._channel.unary_stream("/memoryd.v1.MemoryService/StreamAll")(
            request_of("StreamAll", session_id=self.session(), page_size=1).SerializeToString(),
            metadata=tuple(bearer(self._token)), timeout=30)
        with contextlib.suppress(grpc.RpcError):
            next(call)
        call.cancel()

    def half_an_import(self) -> None:
        begin = session_wire.ImportSessionRequest()
        begin.begin.session_id = f"import{self._chance.randrange(1 << 30)}"
        items = session_wire.ImportSessionRequest()
        items.items.messages.extend(self.messages())
        self.broken_off("SessionService/ImportSession", begin, items)

    def half_a_namespace(self) -> None:
        begin = item_wire.ImportNamespaceRequest()
        begin.begin.namespace.append(f"import{self._chance.randrange(1 << 30)}")
        items = item_wire.ImportNamespaceRequest()
        for number, message in enumerate(self.messages()):
            items.items.items.add(key=str(number), json=json.dumps(message.text),
                                  vector=[1.0] * 256)
        self.broken_off("ItemService/ImportNamespace", begin, items)

    def broken_off(self, method: str, *requests: Message) -> None:
        call = self._channel.stream_unary(f"/memoryd.v1.{method}").future(
            iter([request.SerializeToString() for request in requests]),
            metadata=tuple(bearer(self._token)), timeout=30)
        if self._chance.random() < 0.5:
            call.cancel()
        with contextlib.suppress(grpc.RpcError, grpc.FutureCancelledError):
            call.result()

    def worker_that_goes(self) -> None:
        hello = worker_wire.AttachRequest()
        hello.hello.name = "w"
        hello.hello.blocks.add().name = "worker"
        call = self._channel.stream_stream("/memoryd.v1.WorkerService/Attach")(
            iter([hello.SerializeToString()]), metadata=tuple(bearer(self._token)), timeout=30)
        with contextlib.suppress(grpc.RpcError, StopIteration):
            next(call)
        call.cancel()

    def stranger(self) -> None:
        """Somebody without a credential."""
        Caller(self._channel, "nobody").error("Put", session_id=self.session(),
                                              messages=self.messages())
        with socket.create_connection(("127.0.0.1", int(self._server.target.rpartition(":")[2]))):
            pass


def held(series: Series) -> dict[str, float]:
    """What is not 0 of all that callers can have the server hold, but for its caches."""
    found = {use: value(series, "memoryd_memory_held_bytes", use=use) for use in USES}
    found |= {name: value(series, f"memoryd_{name}") for name in (
        "rpc_in_flight", "pending_calls", "pending_bytes", "unauthenticated_bytes",
        "exceptions_total")}
    return {name: amount for name, amount in found.items() if amount}


@pytest.mark.parametrize("limit_mib", [0, 512], ids=["without a limit", "with a limit"])
def test_all_that_was_held_is_given_back(store, tmp_path: pathlib.Path, limit_mib: int):
    credentials = write_credentials(tmp_path / "credentials.yaml", [
        credential(tenant, RIGHTS, token=tenant) for tenant in TENANTS])
    with ModelServer(["a summary", "another"]) as models, Server(store, arguments=[
            models_file(tmp_path, models), f"--credentials={credentials}",
            f"--memory-limit-mib={limit_mib}", "--job-retry-ms=10", "--job-attempts=2",
            "--metrics-listen=127.0.0.1:0"]) as server, server.channel() as channel:
        callers = [Caller(channel, tenant) for tenant in TENANTS]
        for caller in callers:
            for number in range(4):
                fed = (block("b", "summary", model="chat"), block("b", "vector", embedder="embed"))
                caller("CreateSession", session_id=f"s{number}", config=every_turn(fed[number % 2]))
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(Mix(server, seed).run) for seed in range(THREADS)]:
                done.result()
        for caller in callers:
            for session in caller("ListSessions", page_size=1000).sessions:
                caller.error("DeleteSession", session_id=session.session_id)
        # A connection takes some from those that nobody is known of.
        channel.close()
        # Jobs that are open are dropped with their sessions, or end.
        wait_for(lambda: not held(scrape(server.metrics)), 3000)
        series = scrape(server.metrics)
        for use, cache in (("sessions", "memoryd_cache_bytes"), ("indexes", "memoryd_index_bytes")):
            assert value(series, "memoryd_memory_held_bytes", use=use) == value(series, cache)
