"""Processes that fork after they have used a client, and those of gevent: calls work in the child,
or say at once what to do. Each case is a process of its own, see forking.py."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import pathlib
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from support.calls import user, wire
from support.scripted_server import ScriptedServer

import memoryd
from memoryd.v1 import memory_pb2 as memory
from memoryd.v1 import memory_service_pb2_grpc, session_service_pb2_grpc, worker_service_pb2_grpc
from memoryd.v1 import session_service_pb2 as session_wire
from memoryd.v1 import worker_service_pb2 as worker_wire

PROGRAM = pathlib.Path(__file__).with_name("forking.py")
SOURCE = str(pathlib.Path(memoryd.__file__).parents[1])
VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"


def _path() -> str:
    return os.pathsep.join([SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])])


def run(case: str, target: str, session_id: str = "s", **variables: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), case, target, session_id],
        env={**environment, "PYTHONPATH": _path(), **variables}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=110)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
    assert process.returncode == 0, output


@pytest.mark.parametrize("case", [
    "clients", "clients never used before", "closing", "children that make no call", "pools",
    "calls of other threads", "items of event loops", "a child that forks at once", "a call that has no time",
    "iterators", "grpc first", "llama index", "langchain", "autogen"])
def test_a_process_forks(server, session_id, case):
    run(case, server.target, session_id)


@pytest.mark.parametrize("case", ["support is off", "support is off and nothing was called"])
def test_a_process_forks_without_support(server, session_id, case):
    run(case, server.target, session_id, **{VARIABLE: "0"})


class Answering(ScriptedServer, memory_service_pb2_grpc.MemoryServiceServicer,
                session_service_pb2_grpc.SessionServiceServicer):
    """A Put waits for a session to be got by the name `answer the other`; one that comes again by
    its request id is answered. A session by the name of a worker is called what that says."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []
        self._answers = threading.Event()
        self._came = threading.Condition()

    def Put(self, request, context):
        with self._came:
            self.puts.append(request.request_id)
            came = self.puts.count(request.request_id)
            self._came.notify_all()
        if came == 1:
            context.add_callback(self._look)
            with self._came:
                self._came.wait_for(
                    lambda: self._answers.is_set() or not context.is_active(), 60)
        return wire.PutResponse(revision=1)

    def _look(self) -> None:
        with self._came:
            self._came.notify_all()

    def GetSession(self, request, context):
        name = request.session_id
        if name == "both are there":
            with self._came:
                assert self._came.wait_for(lambda: len(self.puts) == 2, 60)
        if name == "answer the other":
            with self._came:
                assert self._came.wait_for(lambda: self.puts, 60)
                self._answers.set()
                self._came.notify_all()
        if self.hello is not None and name == self.hello.name:
            complete = worker_wire.ModelComplete(model="chat", messages=[user("Hi")])
            name = self.call(complete=complete).complete.text
        return session_wire.GetSessionResponse(session=memory.Session(session_id=name))


@contextlib.contextmanager
def serving():
    server = grpc.server(ThreadPoolExecutor(32))
    service = Answering()
    worker_service_pb2_grpc.add_WorkerServiceServicer_to_server(service, server)
    memory_service_pb2_grpc.add_MemoryServiceServicer_to_server(service, server)
    session_service_pb2_grpc.add_SessionServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield service, f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture
def answering():
    with serving() as found:
        yield found


def test_a_call_of_another_thread_waits_while_a_process_forks(answering):
    service, target = answering
    run("a call that waits", target)
    # The synchronous one is interrupted and sent again.
    assert sorted(service.puts) == ["a", "r", "r"]


def test_a_worker_goes_on_in_the_parent(answering):
    with serving() as (_, of_the_child):
        run("workers", answering[1], of_the_child)


@pytest.mark.parametrize("case", ["gevent", "gevent that patches behind"])
def test_greenlets_call(answering, case):
    run(case, answering[1])


def test_no_fork_interrupts_what_may_be_done_once_only():
    async def main() -> None:
        async with memoryd.AsyncClient("unix:/dev/null/none", timeout=0.5) as client:
            calling = asyncio.create_task(client.cancel_job("s", "j"))
            await asyncio.sleep(0)  # It has begun.
            client._channel.interrupt()
            await calling

    with pytest.raises(memoryd.MemorydError, match="DEADLINE_EXCEEDED"):
        asyncio.run(main())


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_a_client_that_is_copied_says_what_to_do(copied):
    target = "unix:/dev/null/none"
    for made in (memoryd.Client(target), memoryd.AsyncClient(target),
                 memoryd.Worker(target, name="w")):
        with pytest.raises(TypeError, match="make one where it is used"):
            copied(made)
