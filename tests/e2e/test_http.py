"""The HTTP port: the same calls, rights and answers as on gRPC's, and what comes that is no call."""

from __future__ import annotations

import json

import grpc
import pytest

from support.access import METHODS, Caller, credential, request_of, write_credentials
from support.calls import reason, user
from support.http import LISTEN, HttpCaller, path_of, reason_of
from support.server import Server, failed_start, ready

TOKENS = {"reader": ["read"], "writer": ["write"], "operator": ["admin"],
          "all": ["read", "write", "admin", "worker"]}
GRPC_ONLY = {name for name, method in METHODS.items() if method.client_streaming}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    file = write_credentials(
        tmp_path_factory.mktemp("credentials") / "credentials.yaml",
        [*(credential("team", rights, token=token) for token, rights in TOKENS.items()),
         credential("other", token="other")])
    with Server("sqlite::memory:", arguments=[f"--credentials={file}", LISTEN]) as server:
        yield server


@pytest.fixture(scope="module")
def channel(guarded):
    with guarded.channel() as opened:
        yield ready(opened)


def code_of(error: grpc.RpcError | None) -> tuple[str, str]:
    """As HttpCaller.code() gives it."""
    if error is None:
        return "ok", ""
    name = error.code().name.lower()
    return ("canceled" if name == "cancelled" else name), reason(error)


def test_what_one_port_stores_the_other_reads(guarded, channel):
    caller = HttpCaller(guarded.http, "all")
    status, reply = caller("Put", sessionId="both", messages=[{"role": "user", "text": "hé"}])
    assert status == 200, reply
    assert Caller(channel, "all")("Get", session_id="both").messages[0].text == "hé"
    Caller(channel, "all")("Put", session_id="both", messages=[user("by gRPC")])
    status, reply = caller("Get", sessionId="both")
    assert status == 200
    assert [message["text"] for message in reply["messages"]] == ["hé", "by gRPC"]
    *pages, end = caller.stream("StreamAll", sessionId="both")
    assert [message["text"] for page in pages for message in page["messages"]] == ["hé", "by gRPC"]
    assert end == {}


def test_a_request_as_bytes_is_answered_with_bytes(guarded):
    body = request_of("ListSessions").SerializeToString()
    status, _ = HttpCaller(guarded.http, "all").raw(
        path_of("ListSessions"), body, {"Content-Type": "application/proto"})
    assert status == 200


@pytest.mark.parametrize("token", (*TOKENS, "other", "wrong", None))
def test_every_rpc_has_one_answer_on_both_ports(guarded, channel, token):
    over_http, over_grpc = HttpCaller(guarded.http, token), Caller(channel, token)
    for method in sorted(METHODS.keys() - GRPC_ONLY):
        assert over_http.code(method) == code_of(over_grpc.error(method)), method


@pytest.mark.parametrize("method", sorted(GRPC_ONLY))
def test_a_stream_of_requests_is_for_grpc_alone(guarded, method):
    status, answer = HttpCaller(guarded.http, "all")(method)
    assert (status, answer["code"], reason_of(answer)) == (501, "unimplemented", "GRPC_ONLY")


def test_tenants_do_not_see_each_other(guarded):
    HttpCaller(guarded.http, "all")("Put", sessionId="ours",
                                    messages=[{"role": "user", "text": "secret"}])
    status, answer = HttpCaller(guarded.http, "other")("GetSession", sessionId="ours")
    assert (status, answer["code"]) == (404, "not_found")


@pytest.mark.parametrize("body", (
    b"", b"[]", b"{", b'{"sessionId": "s"', b'{"sessionId": "s"}x', b'{"sesion": "s"}',
    b'{"sessionId": "\xff"}', b'{"sessionId": {"a": 1}}', b"\x00" * 100, b"[" * 10_000,
    b'{"sessionId":' * 10_000))
def test_json_that_is_no_request_is_refused(guarded, body):
    caller = HttpCaller(guarded.http, "all")
    status, answer = caller.raw(path_of("Get"), body, {"Content-Type": "application/json"})
    assert status == 400
    assert json.loads(answer)["code"] == "invalid_argument"
    assert caller("GetServerInfo")[0] == 200  # On the same connection.


def test_probes_need_no_credential(guarded):
    caller = HttpCaller(guarded.http)
    assert caller.raw("/healthz", b"", method="GET") == (200, b"ok\n")
    assert caller.raw("/readyz", b"", method="GET") == (200, b"ok\n")


def test_without_credentials_only_this_machine_by_name_is_answered():
    with Server("sqlite::memory:", arguments=[LISTEN]) as server:
        caller = HttpCaller(server.http)
        assert caller("GetServerInfo")[0] == 200
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"},
                        {"Origin": "null"}):
            status, answer = HttpCaller(server.http).raw(
                path_of("GetServerInfo"), b"{}", {"Content-Type": "application/json", **headers})
            assert (status, json.loads(answer)["code"]) == (403, "permission_denied")
        assert server.stop() == 0


def test_an_address_that_others_reach_needs_tls():
    code, output = failed_start("sqlite::memory:", arguments=["--http-listen=0.0.0.0:0"])
    assert code != 0 and "http_listen" in output and "allow_plaintext" in output
