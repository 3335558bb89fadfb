"""Workers: the stream as the server keeps it, and the client's half of it."""

from __future__ import annotations

import json
import queue
import threading
import time

import grpc
import pytest

from support.access import Caller, bearer, credential, write_credentials
from support.blocks import WAIT, block, every_turn, memory_text
from support.calls import assistant, memory, reason, user
from support.http2 import prefixed, raw_call
from support.metrics import scrape, value
from support.scripted_server import attaching
from support.server import Server, ready
from support.stores import fresh_store
from support.waiting import wait_for

import memoryd
from memoryd.errors import error_info
from memoryd.v1 import worker_service_pb2 as wire
from memoryd.v1 import worker_service_pb2_grpc

INVALID = grpc.StatusCode.INVALID_ARGUMENT
ATTACH = "/memoryd.v1.WorkerService/Attach"


class Stream:
    """A worker's stream by hand."""

    def __init__(self, channel: grpc.Channel, *requests: wire.AttachRequest, token=None) -> None:
        self._outgoing: queue.SimpleQueue = queue.SimpleQueue()
        for request in requests:
            self.say(request)
        stub = worker_service_pb2_grpc.WorkerServiceStub(channel)
        self.responses = stub.Attach(iter(self._outgoing.get, None), timeout=60,
                                     metadata=bearer(token) if token else ())

    def say(self, request: wire.AttachRequest) -> None:
        self._outgoing.put(request)

    def hear(self) -> wire.AttachResponse:
        return next(self.responses)

    def close(self) -> None:
        self._outgoing.put(None)

    def end(self) -> grpc.RpcError | None:
        """How the server ends it; None for OK."""
        try:
            for _ in self.responses:
                pass
        except grpc.RpcError as error:
            return error
        finally:
            self.close()
        return None


def hello(name: str = "w", **fields) -> wire.AttachRequest:
    return wire.AttachRequest(hello=wire.WorkerHello(name=name, **fields))


@pytest.fixture(scope="module")
def measured():
    with Server("sqlite::memory:", arguments=["--metrics-listen=127.0.0.1:0"]) as server:
        yield server


@pytest.fixture
def channel(measured):
    with measured.channel() as opened:
        yield ready(opened)


def attached(server: Server) -> float:
    return value(scrape(server.metrics), "memoryd_workers")


def test_a_worker_attaches_and_goes(measured, channel):
    stream = Stream(channel, hello(models=["m"], max_concurrent_calls=3))
    welcome = stream.hear().welcome
    assert welcome.server_version and welcome.max_concurrent_calls == 3
    assert welcome.max_message_bytes == 36 << 20 and welcome.keepalive.seconds == 30
    wait_for(lambda: attached(measured) == 1)
    stream.close()
    assert stream.end() is None
    wait_for(lambda: attached(measured) == 0)


def test_a_worker_that_vanishes_is_detached(measured, channel):
    with measured.channel() as other:
        stream = Stream(other, hello())
        stream.hear()
        wait_for(lambda: attached(measured) == 1)
    wait_for(lambda: attached(measured) == 0)
    cancelled = Stream(channel, hello())
    cancelled.hear()
    cancelled.responses.cancel()
    wait_for(lambda: attached(measured) == 0)


@pytest.mark.parametrize("request_, field", (
    (hello(""), "hello.name"),
    (hello("w" * 129), "hello.name"),
    (hello("a\nb"), "hello.name"),
    (hello(blocks=[{"name": "b"}, {"name": "b"}]), "hello.blocks[1].name"),
    (hello(blocks=[{"name": ""}]), "hello.blocks[0].name"),
    (hello(blocks=[{"name": "a/b"}]), "hello.blocks[0].name"),
    (hello(blocks=[{"name": "b" * 65}]), "hello.blocks[0].name"),
    (hello(blocks=[{"name": f"b{i}"} for i in range(257)]), "hello.blocks"),
    (hello(models=["m", "m"]), "hello.models[1]"),
    (hello(embedders=["e", ""]), "hello.embedders[1]"),
    (hello(max_concurrent_calls=-1), "hello.max_concurrent_calls"),
    (hello(max_concurrent_calls=257), "hello.max_concurrent_calls"),
))
def test_a_wrong_hello_names_its_field(channel, request_, field):
    error = Stream(channel, request_).end()
    assert error.code() == INVALID
    assert error_info(error).metadata["field"] == field


@pytest.mark.parametrize("requests", (
    [wire.AttachRequest()],
    [wire.AttachRequest(result=wire.WorkerResult(call_id=1))],
    [hello(), hello()],
    [hello(), wire.AttachRequest()],
))
def test_what_is_said_out_of_turn_ends_the_stream(channel, requests):
    error = Stream(channel, *requests).end()
    assert (error.code(), reason(error)) == (INVALID, "WORKER_PROTOCOL")


def test_results_that_nobody_asked_for_are_ignored(measured, channel):
    stream = Stream(channel, hello())
    stream.hear()
    before = value(scrape(measured.metrics), "memoryd_worker_results_ignored_total")
    for call_id in (0, -1, 1, 2**63 - 1):
        stream.say(wire.AttachRequest(result=wire.WorkerResult(call_id=call_id)))
    stream.close()
    assert stream.end() is None
    after = value(scrape(measured.metrics), "memoryd_worker_results_ignored_total")
    assert after - before == 4


def test_garbage_ends_the_stream_that_sent_it(measured, channel):
    good = Stream(channel, hello())
    good.hear()
    raw = channel.stream_stream(ATTACH)
    for garbage in (b"\xff\xff\xff", b"\x0a\x05w", b"\x0a\x03\x0a\x01\xff"):
        for frames in ([garbage], [hello().SerializeToString(), garbage]):
            with pytest.raises(grpc.RpcError) as error:
                list(raw(iter(frames), timeout=30))
            assert error.value.code() == INVALID, garbage
    for body in (b"\x00\x00", b"\x00\x00\x00\x00\x05ab", prefixed(b"\xff" * 9)):
        assert raw_call(measured.target, ATTACH, body) in (INVALID.value[0], 0, 13), body
    assert attached(measured) == 1
    good.close()
    assert good.end() is None


def test_a_message_that_is_too_large_ends_the_stream(measured, channel):
    stream = Stream(channel, hello())
    stream.hear()
    put = wire.BlockPutResult(state=b"x" * (37 << 20))
    stream.say(wire.AttachRequest(result=wire.WorkerResult(call_id=1, put=put)))
    assert stream.end().code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    wait_for(lambda: attached(measured) == 0)


def test_the_streams_of_a_tenant_are_bounded(measured, channel):
    streams = [Stream(channel, hello(f"w{i}")) for i in range(64)]
    for stream in streams:
        stream.hear()
    error = Stream(channel, hello()).end()
    assert (error.code(), reason(error)) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WORKERS")
    for stream in streams:
        stream.close()
        assert stream.end() is None
    wait_for(lambda: attached(measured) == 0)
    again = Stream(channel, hello())
    again.hear()
    again.close()


def test_a_worker_needs_its_right_and_has_no_other(tmp_path):
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential("team", ["worker"], token="worker"),
        credential("team", ["read", "write", "admin"], token="agent"),
    ])
    with Server("sqlite::memory:", arguments=[f"--credentials={file}"]) as server, \
            server.channel() as opened:
        ready(opened)
        for token, code, why in ((None, "UNAUTHENTICATED", "UNAUTHENTICATED"),
                                 ("nobody", "UNAUTHENTICATED", "UNAUTHENTICATED"),
                                 ("agent", "PERMISSION_DENIED", "RIGHT_MISSING")):
            error = Stream(opened, hello(), token=token).end()
            assert (error.code().name, reason(error)) == (code, why)
        worker = Caller(opened, "worker")
        for method in ("Get", "Put", "ListSessions"):
            assert worker.code(method) == grpc.StatusCode.PERMISSION_DENIED
        with pytest.raises(memoryd.MemorydError) as refused:
            memoryd.Worker(server.target, name="w", token="agent").start()
        assert refused.value.reason == "RIGHT_MISSING"

        # A credential that is withdrawn ends what it opened.
        stream = Stream(opened, hello(), token="worker")
        stream.hear()
        write_credentials(file, [credential("team", token="agent")])
        error = stream.end()
        assert error.code() == grpc.StatusCode.UNAUTHENTICATED


def test_a_server_that_goes_says_so_and_does_not_wait():
    with Server("sqlite::memory:") as server, server.channel() as opened:
        stream = Stream(opened, hello())
        assert stream.hear().HasField("welcome")
        silent = Stream(opened)
        ready(opened)
        begin = time.monotonic()
        server.terminate()
        assert stream.hear().HasField("drain")
        error = stream.end()
        assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert silent.end().code() == grpc.StatusCode.UNAVAILABLE
        assert server.wait() == 0
        assert time.monotonic() - begin < 10


# The client.


def test_a_worker_comes_back_when_its_connection_grows_too_old():
    """Its stream ends with the connection and is made again; no job is lost or done twice, and a
    client, which repeats a call that met the end of its connection, hears nothing of it."""
    arguments = ["--metrics-listen=127.0.0.1:0", "--max-connection-age-s=1",
                 "--max-connection-age-grace-s=1"]
    with Server("sqlite::memory:", arguments=arguments) as server, \
            memoryd.Client(server.target) as client, memoryd.Worker(server.target, name="w",
                                                                    blocks=[Mentions()]):
        client.create_session("s", every_turn(block("mentions", "worker", worker="w")))

        def ended() -> float:
            return sum(count for (name, labels), count in scrape(server.metrics).items()
                       if name == "memoryd_rpc_total" and ("method", "Attach") in labels)

        turns = 0
        while ended() < 3:
            put = client.put("s", [user("Logan"), assistant("Who?")],
                             wait=WAIT.ToTimedelta())
            assert not put.open_jobs, put
            turns += 1
        # The newest turn has not left short-term memory. A Put whose reply was cut off has its
        # stored reply, which does not wait.
        expected = f"Logan was mentioned {turns - 1} times."
        wait_for(lambda: expected in memory_text(client.get("s")))


class Mentions(memoryd.Block):
    name = "mentions"

    def put(self, messages, state):
        return (state or 0) + sum(m.text.count("Logan") for m in messages)

    def get(self, messages, state):
        return f"Logan was mentioned {state or 0} times."

    def truncate(self, content, tokens):
        return ""


class Raw(memoryd.Block):
    name = "raw"
    state_is_bytes = True

    async def put(self, messages, state):
        call = memoryd.current_call()
        return (state or b"") + f"\0{call.session_id}/{call.job_id}".encode()

    async def get(self, messages, state):
        return [memory.Part(json="[1]"), memory.Message(role="system", text="before")]


class Silent(memoryd.Block):
    name = "silent"

    def get(self, messages, state):
        return None


def shout(messages, max_tokens):
    return " ".join(m.text.upper() for m in messages)[: max_tokens or None]


async def whisper(messages, max_tokens):
    return memoryd.Answer(messages[-1].text.lower(), prompt_tokens=5, completion_tokens=2)


def lengths(texts, purpose):
    return [[float(len(text)), 1.0 if purpose == "query" else 0.0] for text in texts]


def broken(*_):
    raise ValueError("it broke")


def unavailable(*_):
    raise memoryd.MemorydError(grpc.StatusCode.UNAVAILABLE, "later")


@pytest.fixture
def scripted():
    """A scripted server and its address."""
    with attaching() as (service, target):
        yield service, target


@pytest.fixture
def service(scripted):
    """The scripted server with a worker attached."""
    script, target = scripted
    models = {"shout": shout, "whisper": whisper, "broken": broken, "unavailable": unavailable,
              "endless": lambda *_: "x" * 200_000}
    with memoryd.Worker(target, name="w", blocks=[Mentions(), Raw(), Silent()], models=models,
                        embedders={"lengths": lengths}):
        yield script


def test_the_client_says_what_its_blocks_do(service):
    assert service.hello.name == "w" and service.hello.max_concurrent_calls == 8
    assert [(b.name, b.takes_messages, b.truncates) for b in service.hello.blocks] == [
        ("mentions", True, True), ("raw", True, False), ("silent", False, False)]
    assert "shout" in service.hello.models and list(service.hello.embedders) == ["lengths"]


def test_a_block_counts_in_json(service):
    put = wire.BlockPut(messages=[user("Logan and Logan"), user("x")])
    state = service.call(block="mentions", put=put).put.state
    assert json.loads(state) == 2
    state = service.call(block="mentions", put=wire.BlockPut(
        state=state, messages=[user("Logan")])).put.state
    assert json.loads(state) == 3
    said = service.call(block="mentions", get=wire.BlockGet(state=state)).content
    assert said.parts[0].text == "Logan was mentioned 3 times."
    truncated = service.call(block="mentions",
                             truncate=wire.BlockTruncate(content=said, token_count=3))
    assert truncated.WhichOneof("result") == "content" and not truncated.content.parts


def test_a_block_may_be_async_and_keep_bytes(service):
    result = service.call(block="raw", job_id="j", put=wire.BlockPut(state=b"\xff"))
    assert result.put.state == b"\xff\0s/j"
    said = service.call(block="raw", get=wire.BlockGet()).content
    assert said.parts[0].json == "[1]" and said.messages[0].text == "before"
    assert service.call(block="silent", get=wire.BlockGet()).WhichOneof("result") == "content"


def test_models_and_embedders_answer(service):
    chat = [user("Hi"), user("There")]
    shouted = service.call(complete=wire.ModelComplete(model="shout", messages=chat,
                                                       max_token_count=4))
    assert shouted.complete.text == "HI T" and shouted.usage.calls == 1
    whispered = service.call(complete=wire.ModelComplete(model="whisper", messages=chat))
    assert whispered.complete.text == "there"
    assert whispered.usage == wire.WorkerUsage(calls=1, prompt_token_count=5,
                                               completion_token_count=2)
    embed = wire.ModelEmbed(embedder="lengths", texts=["a", "bcd"],
                            purpose=wire.EMBED_PURPOSE_QUERY)
    assert [list(v.values) for v in service.call(embed=embed).embed.vectors] == [[1, 1], [3, 1]]


@pytest.mark.parametrize("model, code, text", (
    ("broken", grpc.StatusCode.UNKNOWN, "ValueError: it broke"),
    ("unavailable", grpc.StatusCode.UNAVAILABLE, "later"),
    ("unknown", grpc.StatusCode.UNKNOWN, "KeyError: 'unknown'"),
    ("endless", grpc.StatusCode.RESOURCE_EXHAUSTED, "the answer is larger than 100000 bytes"),
))
def test_a_call_that_fails_says_how_and_the_worker_goes_on(service, model, code, text):
    error = service.call(complete=wire.ModelComplete(model=model)).error
    assert (error.code, error.message) == (code.value[0], text)
    assert service.call(complete=wire.ModelComplete(model="shout", messages=[user("a")]))


def test_what_has_not_begun_is_spared_by_a_cancellation(scripted):
    script, target = scripted
    begun, release = threading.Event(), threading.Event()

    def slow(*_):
        begun.set()
        assert release.wait(30)
        return "done"

    with memoryd.Worker(target, name="w", models={"slow": slow}, max_concurrent_calls=1):
        first = script.send(complete=wire.ModelComplete(model="slow"))
        assert begun.wait(30)
        second = script.send(complete=wire.ModelComplete(model="slow"))
        script.cancel(second)
        script.cancel(first)
        spared = script.result()
        assert (spared.call_id, spared.error.code) == (second, grpc.StatusCode.CANCELLED.value[0])
        release.set()
        assert (script.result().call_id, first) == (first, first)


def test_a_stream_that_breaks_is_opened_again(service):
    assert json.loads(service.call(block="mentions", put=wire.BlockPut()).put.state) == 0
    service.hello = None
    service.drop()
    wait_for(lambda: service.hello is not None)
    assert json.loads(service.call(block="mentions", put=wire.BlockPut()).put.state) == 0


def test_a_worker_outlives_its_server(tmp_path):
    listen = f"unix:{tmp_path}/memoryd.sock"
    arguments = ["--metrics-listen=127.0.0.1:0"]
    with fresh_store("sqlite") as store:
        with Server(store, listen=listen, arguments=arguments) as server:
            worker = memoryd.Worker(listen, name="w", blocks=[Mentions()]).start()
            wait_for(lambda: attached(server) == 1)
            server.kill()
        with Server(store, listen=listen, arguments=arguments) as server:
            wait_for(lambda: attached(server) == 1, attempts=3000)
            worker.close()
            wait_for(lambda: attached(server) == 0)


def test_a_worker_that_is_refused_raises(measured):
    for refused in (memoryd.Worker(measured.target, name=""),
                    memoryd.Worker(measured.target, name="w", blocks=[Mentions(), Mentions()])):
        with pytest.raises(memoryd.MemorydError) as error:
            refused.start()
        assert error.value.code == INVALID
        refused.close()
