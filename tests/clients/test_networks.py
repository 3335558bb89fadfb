"""Clients in networks with proxies, with middleboxes that forget connections, and with servers that
send clients elsewhere."""

import asyncio
import os
import pathlib
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from support.calls import user, wire
from support.paths import CLIENT_WRITER
from support.scripted_server import ScriptedServer
from support.server import Server
from support.waiting import wait_for

import memoryd
from memoryd.v1 import memory_service_pb2_grpc, worker_service_pb2_grpc
from memoryd.v1 import worker_service_pb2 as worker_wire

SOURCE = str(pathlib.Path(memoryd.__file__).parents[1])
COMPLETE = worker_wire.ModelComplete(model="chat", messages=[user("Hi")])
KINDS = ("sync", "async", "worker")
_CALL = """
import asyncio, sys
from memoryd import AsyncClient, Client, Worker, message
kind, target, session, use_proxy = sys.argv[1:]
options = [("grpc.enable_http_proxy", 1)] if use_proxy else []
async def put():
    async with AsyncClient(target, timeout=60, options=options) as client:
        await client.put(session, [message("user", "x")])
if kind == "sync":
    with Client(target, timeout=60, options=options) as client:
        client.put(session, [message("user", "x")])
elif kind == "async":
    asyncio.run(put())
else:
    models = {"chat": lambda messages, max_tokens: "x"}
    Worker(target, name=session, models=models, options=options).start(60).close()
"""


def call(kind: str, target: str, session_id: str, *, use_proxy: bool = False, **variables) -> None:
    """One call, or one attachment, in a process with these variables."""
    subprocess.run([sys.executable, "-c", _CALL, kind, target, session_id, "1" * use_proxy],
                   env={**os.environ, "PYTHONPATH": SOURCE, "no_proxy": "", **variables},
                   check=True, timeout=100)


class Proxy:
    """An HTTP proxy that leads to where CONNECT says."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._box = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._box.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._box.close()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._box.accept()
            except OSError:
                return
            head = b""
            while b"\r\n\r\n" not in head:
                head += one.recv(4096)
            target = head.split()[1].decode()
            self.asked.append(target)
            host, port = target.rsplit(":", 1)
            other = socket.create_connection((host, int(port)))
            one.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            for pair in ((one, other), (other, one)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.fixture
def proxy():
    made = Proxy()
    yield made
    made.close()


class Forgetful:
    """A way to a server that can lose what its connections of now carry, in silence."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._server = (host, int(port))
        self._age = 0
        self.connections = 0
        self._box = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._box.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def forget(self) -> None:
        self._age += 1

    def close(self) -> None:
        self._box.close()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._box.accept()
            except OSError:
                return
            self.connections += 1
            other = socket.create_connection(self._server)
            for pair in ((one, other), (other, one)):
                threading.Thread(
                    target=self._pump, args=(*pair, self._age), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, age: int) -> None:
        try:
            while data := source.recv(65536):
                if age == self._age:
                    sink.sendall(data)
        except OSError:
            pass


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy", "grpc_proxy"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_proxy_of_the_environment_is_asked(server, session_id, proxy, kind, variable, host):
    call(kind, server.target.replace("127.0.0.1", host), session_id, **{variable: proxy.url})
    assert proxy.asked == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_proxy_is_asked_where_the_options_say_so(server, session_id, proxy, kind):
    call(kind, server.target, session_id, use_proxy=True, http_proxy=proxy.url)
    assert set(proxy.asked) == {server.target}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_proxy", [False, True])
def test_a_unix_socket_is_reached_without_a_proxy(tmp_path, proxy, kind, use_proxy):
    target = f"unix:{tmp_path}/memoryd.sock"
    with Server("sqlite::memory:", listen=target):
        call(kind, target, "s", use_proxy=use_proxy, http_proxy=proxy.url)
    assert proxy.asked == []


@pytest.fixture
def way(server):
    made = Forgetful(server.target)
    yield made
    made.close()


def test_a_forgotten_connection_is_replaced_within_a_default_timeout(way, session_id):
    with memoryd.Client(way.target) as client:
        client.put(session_id, [memoryd.message("user", "before")])
        way.forget()
        client.put(session_id, [memoryd.message("user", "after")])
        assert client.count_messages(session_id) == 2


def test_a_forgotten_connection_is_replaced_with_asyncio(way, session_id):
    async def main():
        async with memoryd.AsyncClient(way.target) as client:
            await client.put(session_id, [memoryd.message("user", "before")])
            way.forget()
            await client.put(session_id, [memoryd.message("user", "after")])
            return await client.count_messages(session_id)

    assert asyncio.run(main()) == 2


def test_a_forgotten_connection_is_replaced_in_cpp(way, session_id):
    texts = [str(i) for i in range(2000)]
    with subprocess.Popen([CLIENT_WRITER, f"--target={way.target}", "--timeout=60"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdin.writelines(f"0\t{session_id}\t{text}\n" for text in texts)
        writer.stdin.close()
        writer.stdout.readline()
        way.forget()
        writer.stdout.read()
    assert writer.returncode == 0
    assert way.connections == 2
    with memoryd.Client(way.target) as client:
        assert [message.text for message in client.get_all(session_id)] == texts


class Serving(ScriptedServer, memory_service_pb2_grpc.MemoryServiceServicer):
    """Answers Puts, and workers that attach; notes by which connections they came."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []
        self.peers: list[str] = []
        self.attached: list[str] = []

    def Put(self, request, context):
        self.puts.append(request.request_id)
        self.peers.append(context.peer())
        return wire.PutResponse(revision=1)

    def Attach(self, requests, context):
        self.attached.append(context.peer())
        yield from super().Attach(requests, context)


def serving(**options):
    service = Serving()
    made = grpc.server(ThreadPoolExecutor(8), options=[
        (f"grpc.{name}", value) for name, value in options.items()])
    worker_service_pb2_grpc.add_WorkerServiceServicer_to_server(service, made)
    memory_service_pb2_grpc.add_MemoryServiceServicer_to_server(service, made)
    port = made.add_insecure_port("127.0.0.1:0")
    made.start()
    return service, made, f"127.0.0.1:{port}"


def test_a_worker_replaces_a_forgotten_connection():
    service, made, target = serving()
    way = Forgetful(target)
    try:
        with memoryd.Worker(way.target, name="w", models={"chat": lambda m, n: "x"}):
            assert service.call(complete=COMPLETE).complete.text == "x"
            way.forget()
            wait_for(lambda: len(service.attached) == 2)
            assert service.call(complete=COMPLETE).complete.text == "x"
    finally:
        way.close()
        made.stop(None).wait()


@pytest.fixture
def going_away():
    """A server that ends each connection by GOAWAY soon after it was made, and its calls later."""
    service, made, target = serving(max_connection_age_ms=100, max_connection_age_grace_ms=100)
    yield service, target
    made.stop(None).wait()


def test_calls_go_on_when_the_server_sends_the_client_away(going_away):
    service, target = going_away
    count = 0
    with memoryd.Client(target) as client:
        while len(set(service.peers)) < 4:
            client.put("s")
            count += 1
    assert len(set(service.puts)) == count


def test_calls_go_on_when_the_server_sends_an_asyncio_client_away(going_away):
    service, target = going_away

    async def main():
        count = 0
        async with memoryd.AsyncClient(target) as client:
            while len(set(service.peers)) < 4:
                await asyncio.gather(*(client.put("s") for _ in range(5)))
                count += 5
        return count

    assert asyncio.run(main()) == len(set(service.puts))


def test_a_worker_attaches_again_when_the_server_sends_it_away(going_away):
    service, target = going_away
    with memoryd.Worker(target, name="w", models={"chat": lambda m, n: "x"}):
        wait_for(lambda: len(set(service.attached)) >= 3)
