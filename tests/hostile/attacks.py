"""Attacks that last: what is prepared, and what an attacker's process does over and over.

An attack is a function of an Assailant that ends soon after the phase does. Floods are those of
the catalogue, over as many connections at once as the attack says.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import socket
import struct
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
from google.protobuf.duration_pb2 import Duration

from hostile import floods
from hostile.attacker import (
    PAUSE,
    SOURCE,
    TOKEN,
    Act,
    Assailant,
    CountingCaller,
    Over,
    crowd,
)
from hostile.site import ENDING, LOOPING, RESTING, Site
from support.access import Caller, bearer, request_of
from support.blocks import block, every_turn
from support.calls import assistant, memory, user
from support.http2 import (
    DATA,
    END_STREAM,
    WINDOW_UPDATE,
    Connection,
    frame,
    prefixed,
)
from support.paths import BINARY
from support.swelling import SWELLING

from memoryd.v1 import worker_service_pb2 as worker_wire

MIB = 1 << 20
METHODS = "/memoryd.v1.MemoryService/"
ATTACH = "/memoryd.v1.WorkerService/Attach"
MODEL, WORKER = "hangs", "w"


@dataclasses.dataclass(frozen=True)
class Attack:
    """`prepare` fills the store, by way of a server without a limit. `seconds` is how long one bout
    lasts, more where the server is to run out of patience first."""

    name: str
    kind: int
    act: Act
    ports: tuple[str, ...] = ("main",)
    tls: bool = False
    prepare: Callable[[Caller], None] | None = None
    seconds: float = 5.0


def attack(name: str, port: str, site: Site, number: int) -> None:
    """The attacker's process: loops, attacks or rests, as the phase says."""
    os.nice(19)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    assailant, act = Assailant(site, port, number), ATTACKS[name].act
    while (phase := site.phase.value) != ENDING:
        site.states[number] = phase
        if phase == LOOPING:
            for _ in range(100_000):
                pass
        elif phase == RESTING:
            time.sleep(PAUSE)
        else:
            # What the server refuses or ends is begun again.
            with contextlib.suppress(Over, OSError, grpc.RpcError, grpc.FutureTimeoutError):
                act(assailant)
            time.sleep(0.001)


# Kind 1: replies that nobody reads.

LARGE, IMAGE_BYTES = "large", 3_000_000


def fill_large(caller: Caller) -> None:
    """A session whose reply has 36 MB."""
    _images(caller, LARGE, 12, IMAGE_BYTES)


def _images(caller: Caller, session_id: str, count: int, size: int, text: str = "") -> None:
    image = memory.Media(data=os.urandom(1000) * (size // 1000), token_count=0)
    parts = [memory.Part(text=text)] if text else []
    for _ in range(count):
        if caller.error("Put", session_id=session_id, timeout=60, messages=[
                memory.Message(role="user", parts=[*parts, memory.Part(image=image)])]) is not None:
            return  # As much as the server takes.


def reading(method: str, calls: int = 40, **fields) -> floods.Flood:
    """Calls whose replies have no window to be sent in."""
    body = prefixed(request_of(method, **fields).SerializeToString())

    def flood(connection: Connection, _: str) -> None:
        connection.take_nothing()
        connection.settle()
        for _number in range(calls):
            stream = connection.start(METHODS + method, bearer(TOKEN))
            connection.send(frame(DATA, END_STREAM, stream, body))
    return flood


def a_byte_of_window(connection: Connection) -> None:
    connection.send(b"".join(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 1))
                             for stream in range(1, 81, 2)))


def exports(assailant: Assailant) -> None:
    """Exports whose output nobody takes."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        token = folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        command = [str(BINARY), "export", "--all", f"--target={assailant.site.target}",
                   f"--token-file={token}", "--timeout=60"]
        if assailant.site.ca is not None:
            command.append(f"--ca-file={assailant.site.ca}")
        begun = []
        try:
            for _ in range(8):
                assailant.count("calls")
                begun.append(subprocess.Popen(command, stdout=subprocess.PIPE,
                                              stderr=subprocess.DEVNULL))
            while any(each.poll() is None for each in begun):
                assailant.pause()
        finally:
            for each in begun:
                each.kill()
                each.communicate()


def fill_for_worker(caller: Caller) -> None:
    """Jobs for a worker, of 4 MiB each."""
    for number in range(30):
        _fed(caller, f"worker-{number}", 4, block("b", "worker", worker=WORKER))


def _fed(caller: Caller, session_id: str, mib: int, made: memory.Block) -> None:
    """A session whose first turn, of so many MiB, is fed to a block once the next one begins."""
    if caller.error("CreateSession", session_id=session_id, config=every_turn(made)) is not None:
        return
    text = "x" * (MIB - 100)
    for first in range(0, mib, 4):
        messages = [(assistant if first + n else user)(text) for n in range(4)]
        if caller.error("Put", session_id=session_id, messages=messages, timeout=30) is not None:
            return
    caller.error("Put", session_id=session_id, messages=[user("next")], timeout=30)


def attached(connection: Connection, _: str) -> None:
    """A worker that reads nothing of what it is to do."""
    connection.take_nothing()
    connection.settle()
    hello = worker_wire.AttachRequest(hello=worker_wire.WorkerHello(
        name=WORKER, max_concurrent_calls=256,
        blocks=[worker_wire.WorkerBlock(name="b", takes_messages=True)]))
    for _number in range(4):
        connection.send_body(connection.start(ATTACH, bearer(TOKEN)),
                             prefixed(hello.SerializeToString()), end=False)


# Kind 2: requests that are half there.

def with_credential(connection: Connection, method: str) -> None:
    floods.half_bodies(connection, method, bearer(TOKEN))


def begun_bodies(connection: Connection, method: str) -> None:
    """Bodies of 4 MiB of which nearly all is left to come."""
    for _ in range(90):
        connection.send_body(connection.start(method, bearer(TOKEN)),
                             prefixed(b"x" * (4 * MIB))[:40_000], end=False)


def a_byte_of_body(connection: Connection) -> None:
    connection.send(b"".join(frame(DATA, 0, stream, b"x") for stream in range(1, 181, 2)))


# Kind 3: frames.

def gets_ahead(connection: Connection, _: str) -> None:
    """Complete calls with a credential, whose answers nobody reads."""
    floods.whole_calls(connection, METHODS + "Get", bearer(TOKEN),
                       request_of("Get", session_id=LARGE).SerializeToString())


def silent(connection: Connection, _: str) -> None:
    """A connection that says no more than hello."""


def half_scrapes(assailant: Assailant) -> None:
    """Connections to the metrics port with half a request each."""
    host, _, port = assailant.address.rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(2000):
            assailant.check()
            each = stack.enter_context(socket.create_connection((host, int(port)), 1.0,
                                                                (SOURCE, 0)))
            each.sendall(b"GET /met")
            assailant.count("connections")
        while True:
            assailant.pause()


# Kind 2 too: what requests become once they are parsed.

def swell(assailant: Assailant) -> None:
    with assailant.caller() as caller:
        for request in SWELLING:
            assailant.check()
            caller.error(request.method, request, timeout=30)


def tiny_messages(connection: Connection, _: str) -> None:
    body = prefixed(request_of("Put", session_id="tiny", messages=[user("a b")] * 1000)
                    .SerializeToString())
    for _number in range(80):
        stream = connection.start(METHODS + "Put", bearer(TOKEN))
        connection.send(frame(DATA, END_STREAM, stream, body))


# Kind 4: sessions that are loaded whole.

LOADED = "loaded"


def fill_loaded(caller: Caller) -> None:
    """A session of 560 MB with a job that no start can do."""
    caller("CreateSession", session_id=LOADED, config=memory.SessionConfig(
        retrieval=memory.Retrieval(embedder="nobody", embedder_worker=WORKER)))
    _images(caller, LOADED, 140, 4_000_000, "my dog is Rex")


def load_whole(assailant: Assailant) -> None:
    with assailant.caller() as caller:
        for method in ("Get", "GetSession", "ListJobs", "GetAll", "StreamAll"):
            assailant.check()
            caller.error(method, session_id=LOADED, timeout=30)
        assailant.check()
        caller.error("Query", session_id=LOADED, query="dog", timeout=30)
        _images(caller, LOADED, 1, 4_000_000)


# Kind 5: configurations that are read with every message.

def fill_configured(caller: Caller) -> None:
    for number in range(8):
        name = f"configured-{number}"
        if caller.error("CreateSession", session_id=name, config=memory.SessionConfig(
                tokenizer="whitespace", blocks=[_static(1)])) is None:
            caller("Put", session_id=name, messages=[user("x")] * 700)


def load_configured(assailant: Assailant) -> None:
    def load(number: int) -> None:
        with assailant.caller() as caller:
            while assailant.going():
                caller.error("Get", session_id=f"configured-{number}")
                caller.error("Put", session_id=f"configured-{number}", messages=[user("x")])
    _at_once(load, 8)


def _static(mib: int) -> memory.Block:
    return block("b", "static", content=["x" * (MIB - 4096)] * mib)


def _at_once(act: Callable[[int], None], threads: int) -> None:
    begun = [threading.Thread(target=act, args=(number,)) for number in range(threads)]
    for thread in begun:
        thread.start()
    for thread in begun:
        thread.join()


# Kind 6: jobs.

def feed_hanging_model(assailant: Assailant) -> None:
    with assailant.caller() as caller:
        for _ in range(10):
            assailant.check()
            _fed(caller, f"fed-{uuid.uuid4().hex}", 40, block("b", "summary", model=MODEL))


def fill_jobs(caller: Caller) -> None:
    for number in range(10):
        _fed(caller, f"started-{number}", 40, block("b", "summary", model=MODEL))


def look_at_jobs(assailant: Assailant) -> None:
    with assailant.caller() as caller:
        for number in range(10):
            assailant.check()
            caller.error("ListJobs", session_id=f"started-{number}")
            caller.error("Get", session_id=f"started-{number}")


# Kind 7: configurations and lists.

def fill_lists(caller: Caller) -> None:
    for number in range(100):
        config = memory.SessionConfig(blocks=[_static(4)], subject="listed")
        if caller.error("CreateSession", session_id=f"listed-{number}", config=config,
                        timeout=60) is not None:
            return


def list_sessions(assailant: Assailant) -> None:
    with assailant.caller() as caller:
        assailant.check()
        caller.error("ListSessions", page_size=1000, timeout=30)
        caller.error("EraseSubject", subject="listed", dry_run=True, timeout=30)


def fill_expiring(caller: Caller) -> None:
    for number in range(100):
        config = memory.SessionConfig(blocks=[_static(4)], retention=memory.Retention(
            session_ttl=Duration(seconds=30)))
        if caller.error("CreateSession", session_id=f"expiring-{number}", config=config,
                        timeout=60) is not None:
            return


def create_expiring(assailant: Assailant) -> None:
    config = memory.SessionConfig(blocks=[_static(4)], retention=memory.Retention(
        session_ttl=Duration(seconds=2)))
    with assailant.caller() as caller:
        for _ in range(20):
            assailant.check()
            caller.error("CreateSession", session_id=uuid.uuid4().hex, config=config)


# Kind 8: one budget.

def fill_caches(assailant: Assailant) -> None:
    """Sessions that are written, asked and read, ever new ones."""
    with assailant.caller() as caller:
        names = [uuid.uuid4().hex for _ in range(100)]
        for name in names:
            assailant.check()
            caller.error("Put", session_id=name, messages=[user("tea " * (MIB // 8))] * 4)
            caller.error("Query", session_id=name, query="tea")
            caller.error("Get", session_id=name)
        for name in names:
            assailant.check()
            caller.error("DeleteSession", session_id=name)


def get_at_once(assailant: Assailant) -> None:
    """No attack at all: clients that get a large session at once, and read it."""
    def get(_: int) -> None:
        with assailant.caller() as caller:
            while assailant.going():
                caller.error("Get", session_id=LARGE, timeout=5)
    _at_once(get, 16)


def overflow_usage(assailant: Assailant) -> None:
    """A worker that says that it took 2^63 - 1 tokens, at each attempt."""
    most = 2**63 - 1
    usage = worker_wire.WorkerUsage(calls=most, prompt_token_count=most,
                                    completion_token_count=most)
    answers: list[worker_wire.AttachRequest] = [worker_wire.AttachRequest(
        hello=worker_wire.WorkerHello(name=WORKER, blocks=[
            worker_wire.WorkerBlock(name="b", takes_messages=True)]))]
    came = threading.Condition()

    def said() -> Iterator[worker_wire.AttachRequest]:
        while assailant.going():
            with came:
                came.wait_for(lambda: answers, PAUSE)
                now = answers[:]
                answers.clear()
            yield from now

    def answer() -> None:
        with contextlib.suppress(grpc.RpcError):
            for message in stream:
                if message.WhichOneof("kind") == "call":
                    result = worker_wire.WorkerResult(call_id=message.call.call_id, usage=usage)
                    if message.call.put.attempt < 2:
                        result.error.code, result.error.message = 14, "again"
                    else:
                        result.put.state = b"done"
                    with came:
                        answers.append(worker_wire.AttachRequest(result=result))
                        came.notify()

    with assailant.site.channel() as channel:
        attach: grpc.StreamStreamMultiCallable = channel.stream_stream(
            ATTACH, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=worker_wire.AttachResponse.FromString)
        stream = attach(said(), metadata=tuple(bearer(TOKEN)))
        thread = threading.Thread(target=answer)
        thread.start()
        caller = CountingCaller(assailant, channel)
        try:
            while True:
                name = uuid.uuid4().hex
                caller.error("CreateSession", session_id=name,
                             config=every_turn(block("b", "worker", worker=WORKER)))
                for text in ("one", "two"):
                    caller.error("Put", session_id=name, messages=[user(text)])
                assailant.pause(0.1)
        finally:
            stream.cancel()
            thread.join()


FRAMES = ("main", "health")
ATTACKS = {attack.name: attack for attack in (
    Attack("slow_get", 1, crowd(reading("Get", session_id=LARGE), 2, acknowledge=True, lasts=40),
           tls=True, prepare=fill_large, seconds=20),
    Attack("slow_get_new", 1, crowd(reading("Get", session_id=LARGE), 4, acknowledge=True, lasts=1),
           tls=True, prepare=fill_large),
    Attack("slow_pages", 1, crowd(reading("GetAll", session_id=LARGE, page_size=1000), 2,
                                  acknowledge=True, lasts=40),
           tls=True, prepare=fill_large, seconds=20),
    Attack("slow_stream", 1, crowd(reading("StreamAll", session_id=LARGE), 2, acknowledge=True,
                                   lasts=40), tls=True, prepare=fill_large, seconds=20),
    Attack("slow_trickle", 1, crowd(reading("Get", session_id=LARGE), 2, acknowledge=True,
                                    lasts=40, nudge=a_byte_of_window),
           tls=True, prepare=fill_large, seconds=20),
    Attack("slow_export", 1, exports, tls=True, prepare=fill_large, seconds=20),
    Attack("slow_worker", 1, crowd(attached, 4, acknowledge=True, lasts=40),
           tls=True, prepare=fill_for_worker, seconds=20),
    Attack("half_bodies", 2, crowd(floods.half_bodies, 20, acknowledge=True, lasts=12), FRAMES,
           tls=True, seconds=15),
    Attack("half_bodies_with_credential", 2, crowd(with_credential, 20, acknowledge=True),
           tls=True, seconds=15),
    Attack("trickled_bodies", 2, crowd(begun_bodies, 20, acknowledge=True, nudge=a_byte_of_body),
           tls=True, seconds=15),
    Attack("swelling_requests", 2, swell),
    Attack("tiny_messages", 2, crowd(tiny_messages, 20, acknowledge=True, lasts=5), seconds=10),
    Attack("rapid_reset", 3, crowd(floods.rapid_reset), FRAMES, tls=True),
    Attack("rapid_reset_20", 3, crowd(floods.rapid_reset, 20), FRAMES, tls=True),
    Attack("continuation", 3, crowd(floods.continuation_flood), FRAMES, tls=True),
    Attack("small_fields", 3, crowd(floods.small_fields), FRAMES, tls=True),
    Attack("huge_string", 3, crowd(floods.huge_string), FRAMES, tls=True),
    Attack("header_bombs", 3, crowd(floods.header_bombs, 4), FRAMES, tls=True),
    Attack("half_headers", 3, crowd(floods.half_a_header_block, 500), FRAMES, tls=True, seconds=15),
    Attack("priorities", 3, crowd(floods.priorities), FRAMES, tls=True),
    Attack("calls_ahead", 3, crowd(floods.whole_calls, 4), FRAMES, tls=True, seconds=10),
    Attack("calls_ahead_acknowledged", 3, crowd(floods.whole_calls, 4, acknowledge=True), FRAMES,
           tls=True, seconds=10),
    Attack("gets_ahead", 3, crowd(gets_ahead, 4, acknowledge=True), tls=True, prepare=fill_large,
           seconds=10),
    Attack("streams_left_open", 3, crowd(floods.half_open_streams, 100), FRAMES, tls=True,
           seconds=10),
    Attack("provoked_resets", 3, crowd(floods.provoked_resets, 4), FRAMES, tls=True),
    Attack("pings", 3, crowd(floods.ping_flood, 4), FRAMES, tls=True),
    Attack("settings", 3, crowd(floods.settings_flood, 4), FRAMES, tls=True),
    Attack("empty_data", 3, crowd(floods.empty_data, 4), FRAMES, tls=True),
    Attack("connections", 3, crowd(silent, 1500), FRAMES, tls=True, seconds=15),
    Attack("half_scrapes", 3, half_scrapes, ("metrics",)),
    Attack("large_session", 4, load_whole, prepare=fill_loaded),
    Attack("large_configurations", 5, load_configured, prepare=fill_configured),
    Attack("jobs_of_hanging_model", 6, feed_hanging_model, seconds=10),
    Attack("jobs_at_start", 6, look_at_jobs, prepare=fill_jobs),
    Attack("listed_configurations", 7, list_sessions, prepare=fill_lists),
    Attack("expiring_configurations", 7, create_expiring, prepare=fill_expiring, seconds=10),
    Attack("full_caches", 8, fill_caches),
    Attack("gets_at_once", 8, get_at_once, prepare=fill_large),
    Attack("worker_usage", 8, overflow_usage),
)}
