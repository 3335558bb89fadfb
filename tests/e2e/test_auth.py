"""Tokens, certificates' names and rights; reflection and health beside them."""

from __future__ import annotations

import threading
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from support.access import (
    METHODS,
    Caller,
    bearer,
    credential,
    request_of,
    right_of,
    rights_of,
    write_credentials,
)
from support.calls import Calls, reason, refusal, user
from support.http import LISTEN, HttpChannel
from support.http2 import prefixed, raw_call
from support.server import Server, open_channel, ready
from support.tls import SERVER_NAMES, Authority, secure_channel, server_arguments

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
PERMISSION_DENIED = grpc.StatusCode.PERMISSION_DENIED
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED
OK = grpc.StatusCode.OK

# Every combination of rights that matters, by the token that has it.
TOKENS = {"reader": ["read"], "writer": ["write"], "operator": ["admin"],
          "agent": ["read", "write"], "worker": ["worker"],
          "all": ["read", "write", "admin", "worker"]}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A plaintext server on loopback that knows TOKENS."""
    file = write_credentials(
        tmp_path_factory.mktemp("credentials") / "credentials.yaml",
        [*(credential("team", rights, token=token) for token, rights in TOKENS.items()),
         credential("team", token="expired", expires="2020-01-01T00:00:00Z"),
         credential("team", token="lasting", expires="2999-01-01T00:00:00Z"),
         credential("team", token="t" * 16384),
         credential("team", token="t" * 16385)])
    with Server("sqlite::memory:", arguments=[f"--credentials={file}", LISTEN]) as server:
        yield server


@pytest.fixture(scope="module")
def channel(guarded):
    with guarded.channel() as opened:
        yield ready(opened)


@pytest.fixture(params=("grpc", "http"))
def port(request, guarded, channel):
    """Either of the two, as a channel."""
    return channel if request.param == "grpc" else HttpChannel(guarded.http)


# Who calls.


def test_a_token_is_enough_whatever_the_case_of_its_scheme(channel):
    for header in ("Bearer agent", "bearer agent", "BEARER   agent", "Bearer lasting",
                   "Bearer " + "t" * 16384):
        assert Caller(channel).code("Get", session_id="s",
                                    metadata=(("authorization", header),)) == OK, header


def test_what_is_no_valid_token_has_one_answer(channel):
    cases = {
        "none": (),
        "unknown": bearer("nobody"),
        "cut": bearer("agen"),
        "expired": bearer("expired"),
        "empty": bearer(""),
        "16,383 bytes": bearer("t" * 16383),
        "two headers": (*bearer("agent"), *bearer("agent")),
        "two different headers": (*bearer("reader"), *bearer("writer")),
        "two in one": (("authorization", "Bearer agent, Bearer agent"),),
        "no scheme": (("authorization", "agent"),),
        "basic": (("authorization", "Basic YWdlbnQ6YWdlbnQ="),),
        "digest": (("authorization", "Bearer " + TOKENS_SHA["agent"]),),
        "another header": (("x-authorization", "Bearer agent"),),
        "binary header": (("authorization-bin", b"Bearer agent"),),
    }
    texts = set()
    for name, metadata in cases.items():
        error = Caller(channel).error("Get", session_id="s", metadata=metadata)
        assert error is not None and error.code() == UNAUTHENTICATED, name
        assert reason(error) == "UNAUTHENTICATED", name
        texts.add(error.details())
    assert len(texts) == 1


@pytest.mark.parametrize("size", (16_385, 20_000, 60_000))
def test_a_token_that_is_too_large_is_told_so(guarded, size):
    with guarded.channel() as opened:
        error = Caller(ready(opened)).error("Get", session_id="s", metadata=bearer("t" * size))
    assert (error.code(), reason(error)) == (UNAUTHENTICATED, "TOKEN_TOO_LARGE")
    assert "16384 bytes" in error.details()


TOKENS_SHA = {token: credential("x", token=token)["token_sha256"] for token in TOKENS}


@pytest.mark.parametrize("value", ("Bearer agent\0", "Bearer ag\0ent", "Bearer agent\n",
                                   "Bearer " + "t" * 17_000, "Bearer " + "t" * 60_000),
                         ids=("NUL", "NUL inside", "LF", "17 KB", "60 KB"))
def test_headers_that_no_library_sends_are_no_credential(guarded, value):
    body = prefixed(request_of("Get", session_id="s").SerializeToString())
    path = "/memoryd.v1.MemoryService/Get"
    status = raw_call(guarded.target, path, body, {"authorization": value})
    assert status == UNAUTHENTICATED.value[0]
    assert raw_call(guarded.target, path, body, {"authorization": "Bearer agent"}) == 0


def test_a_64_kib_token_costs_its_sender_the_connection_and_nobody_else_anything(guarded, channel):
    # Above the limit of one header, so that it ends before anybody asks whose it is.
    with guarded.channel() as opened:
        ready(opened)
        code = Caller(opened).code("Get", session_id="s", metadata=bearer("t" * 65536))
    assert code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
    assert Caller(channel, "agent").code("Get", session_id="s") == OK


def test_nobody_gets_as_far_as_the_parser_without_a_credential(guarded):
    path = "/memoryd.v1.MemoryService/Put"
    assert raw_call(guarded.target, path, prefixed(b"\xff" * 8)) == UNAUTHENTICATED.value[0]
    assert raw_call(guarded.target, path, prefixed(b"\xff" * 8),
                    {"authorization": "Bearer writer"}) == 3


# What it may do.


def may(rights: list[str], method: str) -> bool:
    return rights_of(method) <= set(rights)


@pytest.mark.parametrize("token", TOKENS)
def test_every_rpc_needs_its_right(port, token):
    refused = []
    for method in METHODS:
        code = Caller(port, "all").code(method)
        if code == UNIMPLEMENTED:  # An RPC that this build does not serve.
            continue
        assert code not in (UNAUTHENTICATED, PERMISSION_DENIED), method
        error = Caller(port, token).error(method)
        if may(TOKENS[token], method):
            assert error is None or error.code() not in (UNAUTHENTICATED, PERMISSION_DENIED), method
            continue
        assert error is not None and error.code() == PERMISSION_DENIED, method
        assert reason(error) == "RIGHT_MISSING", method
        lacking = rights_of(method) - set(TOKENS[token])
        assert any(f"`{right}`" in error.details() for right in lacking), method
        refused.append(method)
    if token == "reader":
        assert {"Put", "Set", "Reset", "CreateSession", "DeleteSession"} <= set(refused)
    if token == "writer":
        assert {"Get", "GetAll", "GetSession", "ListSessions"} <= set(refused)


def test_a_refused_write_changes_nothing(port):
    agent = Caller(port, "agent")
    agent("Put", session_id="kept", messages=[user("a")])
    before = agent("GetSession", session_id="kept")
    for method in METHODS:
        if right_of(method) == "write":
            names_session = "session_id" in METHODS[method].input_type.fields_by_name
            request = request_of(method, **({"session_id": "kept"} if names_session else {}))
            assert Caller(port, "reader").code(method, request) in (
                PERMISSION_DENIED, UNIMPLEMENTED), method
    assert agent("GetSession", session_id="kept") == before
    assert Caller(port, "reader")("Get", session_id="kept").messages[0].text == "a"


def test_health_is_open_to_all(channel):
    answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_without_credentials_a_token_is_not_looked_at(calls, session_id):
    caller = Caller(calls.channel)
    for metadata in ((), bearer("nobody"), (*bearer("a"), *bearer("b"))):
        assert caller.code("Put", session_id=session_id, metadata=metadata) == OK


# Names in certificates.


@pytest.fixture(scope="module")
def mutual(tmp_path_factory):
    """A server that wants client certificates and knows some of their names."""
    folder = tmp_path_factory.mktemp("mutual")
    authority = Authority(folder)
    file = write_credentials(folder / "credentials.yaml", [
        credential("team", ["read"], certificate="spiffe://example.org/agent"),
        credential("team", ["write"], certificate="agent.example.org"),
        credential("common", certificate="Common Name"),
        credential("other", certificate="other.example.org"),
        credential("team", ["admin"], token="team-token"),
        credential("other", token="other-token"),
    ])
    arguments = [*server_arguments(authority.issue(SERVER_NAMES), authority.certificate),
                 f"--credentials={file}"]
    with Server("sqlite::memory:", arguments=arguments) as server:
        yield server, authority


@pytest.mark.parametrize("names, common_name, token, read, write", (
    ("URI:spiffe://example.org/agent", "x", None, OK, PERMISSION_DENIED),
    ("DNS:agent.example.org", "x", None, PERMISSION_DENIED, OK),
    ("URI:spiffe://example.org/agent,DNS:agent.example.org", "x", None, OK, OK),
    ("", "Common Name", None, OK, OK),
    # Where there are other names the common name is not looked at.
    ("DNS:x.example.org", "Common Name", None, UNAUTHENTICATED, UNAUTHENTICATED),
    ("DNS:x.example.org", "x", None, UNAUTHENTICATED, UNAUTHENTICATED),
    # Names that only look like one of another kind.
    ("DNS:spiffe://example.org/agent", "x", None, UNAUTHENTICATED, UNAUTHENTICATED),
    ("email:agent.example.org", "x", None, UNAUTHENTICATED, UNAUTHENTICATED),
    ("", "spiffe://example.org/agent", None, UNAUTHENTICATED, UNAUTHENTICATED),
    ("DNS:x.example.org", "x", "other-token", OK, OK),
    ("DNS:agent.example.org", "x", "team-token", PERMISSION_DENIED, OK),
    ("DNS:agent.example.org", "x", "other-token", PERMISSION_DENIED, PERMISSION_DENIED),
    ("DNS:agent.example.org,DNS:other.example.org", "x", None, PERMISSION_DENIED,
     PERMISSION_DENIED),
    ("DNS:agent.example.org", "x", "wrong", UNAUTHENTICATED, UNAUTHENTICATED),
))
def test_a_certificate_names_its_tenant(mutual, names, common_name, token, read, write):
    server, authority = mutual
    client = authority.issue(names, common_name)
    with secure_channel(server.target, authority.certificate, client, token) as opened:
        caller = Caller(opened)
        assert (caller.code("Get", session_id="s"), caller.code("Put", session_id="s")) == (
            read, write)


def test_a_certificate_and_a_token_of_two_tenants_are_refused_by_name(mutual):
    server, authority = mutual
    client = authority.issue("DNS:agent.example.org")
    with secure_channel(server.target, authority.certificate, client, "other-token") as opened:
        error = refusal(Calls(opened).Put, session_id="s")
        assert (error.code(), reason(error)) == (PERMISSION_DENIED, "CREDENTIALS_DISAGREE")


# Reflection.


def reflected(opened: grpc.Channel, token: str | None = None) -> grpc.StatusCode | int:
    """How many services reflection lists, or its error."""
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    metadata = () if token is None else bearer(token)
    try:
        answers = list(reflection_pb2_grpc.ServerReflectionStub(opened).ServerReflectionInfo(
            iter([request]), metadata=metadata, timeout=30, wait_for_ready=True))
    except grpc.RpcError as error:
        return error.code()
    return len(answers[0].list_services_response.service)


def test_reflection_is_for_the_right_admin_where_there_are_credentials(channel):
    assert reflected(channel) == UNAUTHENTICATED
    assert reflected(channel, "wrong") == UNAUTHENTICATED
    assert reflected(channel, "agent") == PERMISSION_DENIED
    assert reflected(channel, "operator") >= 3


def test_reflection_is_for_the_right_admin_over_tls_too(mutual):
    server, authority = mutual
    for names, token, expected in (("URI:spiffe://example.org/agent", None, PERMISSION_DENIED),
                                   ("URI:spiffe://example.org/agent", "team-token", 4),
                                   ("DNS:x.example.org", None, UNAUTHENTICATED)):
        with secure_channel(server.target, authority.certificate, authority.issue(names),
                            token) as opened:
            found = reflected(opened)
            assert found >= 3 if expected == 4 else found == expected


@pytest.mark.parametrize("listen, setting, served", (
    ("127.0.0.1:0", "auto", True), ("127.0.0.1:0", "on", True), ("127.0.0.1:0", "off", False),
    ("0.0.0.0:0", "auto", False), ("0.0.0.0:0", "on", True),
))
def test_reflection_without_credentials_is_as_set(listen, setting, served):
    arguments = [f"--reflection={setting}", "--allow-plaintext=true"]
    with Server("sqlite::memory:", listen=listen, arguments=arguments) as server, \
            open_channel(server.target.replace("0.0.0.0", "127.0.0.1")) as opened:
        found = reflected(opened)
        assert found >= 3 if served else found == UNIMPLEMENTED


def test_reflection_that_is_set_asks_for_a_credential_where_there_are_any(tmp_path):
    file = write_credentials(tmp_path / "c.yaml", [
        credential("team", rights, token=token) for token, rights in TOKENS.items()])
    for setting, expected in (("on", UNAUTHENTICATED), ("off", UNIMPLEMENTED)):
        arguments = [f"--credentials={file}", f"--reflection={setting}"]
        with Server("sqlite::memory:", arguments=arguments) as server, server.channel() as opened:
            assert reflected(opened) == expected
            if setting == "on":
                assert reflected(opened, "agent") == PERMISSION_DENIED
                assert reflected(opened, "operator") >= 3


# A file that changes.


def wait_for(condition, attempts: int = 400, pause: float = 0.01) -> float:
    """How long it took `condition` to hold."""
    begin = time.monotonic()
    for _ in range(attempts):
        if condition():
            return time.monotonic() - begin
        threading.Event().wait(pause)
    raise AssertionError("it never held")


def test_tokens_rotate_under_load_without_a_failed_call(tmp_path):
    rotations, writers = 20, 8
    file = tmp_path / "credentials.yaml"

    def replace(*tokens: str) -> None:
        write_credentials(file, [credential("team", token=token) for token in tokens])

    replace("token-0")
    current = ["token-0"]
    stop = threading.Event()
    used: list[str] = [""] * writers
    calls_made = [0] * writers
    failures: list[grpc.RpcError] = []

    def write(writer: int, target: str) -> None:
        with open_channel(target) as opened:
            caller = Caller(ready(opened))
            while not stop.is_set():
                token = current[0]
                error = caller.error("Put", session_id=f"s{writer}", metadata=bearer(token))
                if error is not None:
                    failures.append(error)
                calls_made[writer] += 1
                used[writer] = token

    with Server("sqlite::memory:", arguments=[f"--credentials={file}"]) as server:
        threads = [threading.Thread(target=write, args=(writer, server.target))
                   for writer in range(writers)]
        for thread in threads:
            thread.start()
        slowest = 0.0
        try:
            with server.channel() as opened:
                probe = Caller(ready(opened))
                for number in range(1, rotations // 2 + 1):
                    old, new = f"token-{number - 1}", f"token-{number}"
                    replace(old, new)
                    slowest = max(slowest, wait_for(
                        lambda new=new: probe.code("Get", session_id="s", metadata=bearer(new)) == OK))
                    current[0] = new
                    wait_for(lambda new=new: all(token == new for token in used))
                    replace(new)
                    slowest = max(slowest, wait_for(
                        lambda old=old: probe.code("Get", session_id="s",
                                                   metadata=bearer(old)) == UNAUTHENTICATED))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert not failures, failures[:3]
    assert min(calls_made) >= rotations
    assert slowest < 2, slowest


def test_a_bad_file_changes_nothing_and_is_logged(tmp_path):
    file = write_credentials(tmp_path / "credentials.yaml", [credential("team", token="good")])
    with Server("sqlite::memory:", arguments=[f"--credentials={file}"]) as server, \
            server.channel() as opened:
        caller = Caller(ready(opened), "good")
        file.write_text("- tenant: team\n  colour: red\n")
        wait_for(lambda: f"{file}:2: unknown key colour" in server.output())
        assert caller.code("Get", session_id="s") == OK
        file.unlink()
        wait_for(lambda: "No such file" in server.output())
        assert caller.code("Get", session_id="s") == OK
        write_credentials(file, [])
        wait_for(lambda: caller.code("Get", session_id="s") == UNAUTHENTICATED)
