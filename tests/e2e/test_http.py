"""The HTTP port: the same calls, rights and answers as on gRPC's, and what comes that is no call."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.parse

import grpc
import jsonschema
import pytest
from google.protobuf.descriptor_pb2 import MethodOptions

from support.access import FOR_ANY, METHODS, READS, Caller, credential, request_of, write_credentials
from support.calls import reason, user
from support.documents import blocks_of
from support.http import GRPC_ONLY, IN_LINES, LINES, LISTEN, HttpCaller, path_of, reason_of
from support.paths import BINARY, REPOSITORY, server_environment
from support.server import Server, failed_start, ready

NO_SIDE_EFFECTS = MethodOptions.NO_SIDE_EFFECTS
TOKENS = {"reader": ["read"], "writer": ["write"], "operator": ["admin"],
          "all": ["read", "write", "admin", "worker"]}


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


def test_calls_that_make_a_session_answer_with_all_of_it(guarded):
    caller = HttpCaller(guarded.http, "all")
    replies = [
        caller("CreateSession", sessionId="whole", requestId="r1"),
        caller("CreateSession", sessionId="whole", requestId="r1"),
        caller("UpdateSession", sessionId="whole", config={"tokenLimit": 5000}),
        caller("ForkSession", sessionId="whole", newSessionId="whole-2"),
        caller.send_lines("ImportSession", {"begin": {"sessionId": "whole-3"}}, {"end": {}})]
    for (status, reply), session_id in zip(
            replies, ("whole", "whole", "whole", "whole-2", "whole-3"), strict=True):
        assert status == 200, reply
        assert reply["session"]["sessionId"] == session_id
        assert reply["session"]["createTime"]
        assert reply["session"]["config"]["profile"] == "default"
    assert replies[1][1]["replayed"] is True


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


def test_a_get_is_for_methods_without_side_effects(guarded):
    caller = HttpCaller(guarded.http, "all")
    caller("CreateSession", sessionId="got")
    for method in sorted(METHODS):
        query = urllib.parse.urlencode({"encoding": "json", "message": '{"sessionId": "got"}'
                                        if "session_id" in METHODS[method].input_type.fields_by_name
                                        else "{}"})
        status, answer = caller.raw(f"{path_of(method)}?{query}", b"", method="GET")
        if METHODS[method].GetOptions().idempotency_level == NO_SIDE_EFFECTS:
            assert method in READS | FOR_ANY
            assert status not in (405, 501), method
        else:
            assert status == (501 if method in GRPC_ONLY else 405), method
    query = urllib.parse.urlencode({"encoding": "json", "message": '{"sessionId": "got"}'})
    status, answer = caller.raw(f"{path_of('GetSession')}?{query}", b"", method="GET")
    assert (status, json.loads(answer)["session"]["sessionId"]) == (200, "got")
    status, _ = HttpCaller(guarded.http).raw(f"{path_of('GetSession')}?{query}", b"", method="GET")
    assert status == 401


def test_the_description_is_of_what_is_served(guarded):
    """Each example is taken, and each reply is as its schema has it."""
    caller = HttpCaller(guarded.http, "all")
    status, text = HttpCaller(guarded.http).raw("/openapi.json", b"", method="GET")
    assert status == 200
    described = json.loads(text)
    assert described["openapi"].startswith("3.1.")
    assert set(described["paths"]) == {path_of(method) for method in METHODS.keys() - GRPC_ONLY}
    caller("Put", sessionId="chat-7", messages=[{"role": "user", "text": "a", "messageId": "m1"}])
    schemas = described["components"]["schemas"]
    for name, schema in schemas.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        for reference in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(schema)):
            assert reference in schemas, name
    answered = set()
    for path, operations in described["paths"].items():
        assert operations["post"]["summary"], path
        if path.rpartition("/")[2] in IN_LINES:
            continue  # No schema describes lines.
        request = operations["post"]["requestBody"]["content"]["application/json"]
        check(request["example"], request["schema"], schemas)
        if path.endswith("/WatchSession"):
            continue  # Its reply has no end; test_watch_session.py reads its lines.
        status, body = caller.raw(path, json.dumps(request["example"]).encode(),
                                  {"Content-Type": "application/json", "Accept": LINES})
        content = operations["post"]["responses"]["200"]["content"]
        reply = json.loads(body)
        if LINES in content:
            assert status == 200, reply
            line = METHODS[path.rpartition("/")[2]].output_type.name
            check(reply, {"$ref": f"#/components/schemas/{line}"}, schemas)
        elif status == 200:
            answered.add(path.rsplit("/", 1)[-1])
            check(reply, content["application/json"]["schema"], schemas)
        else:
            assert reason_of(reply) not in ("MALFORMED_JSON", "INVALID_FIELD"), (path, reply)
            check(reply, {"$ref": "#/components/schemas/Error"}, schemas)
    assert {"Put", "Get", "GetSession", "Query", "PutItem", "GetItem", "ListSessions"} <= answered


def check(value: object, schema: object, schemas: object) -> None:
    jsonschema.validate(value, {**schema, "components": {"schemas": schemas}},
                        jsonschema.Draft202012Validator)


def test_what_the_page_says(tmp_path):
    start, *typed = [found for found in blocks_of(REPOSITORY / "docs" / "HTTP.md")
                     if (found.language in ("sh", "python") and "elsewhere" not in found.words)
                     or "output" in found.words]
    assert start.words == ("serves",) or "serves" in start.words
    environment = server_environment(PYTHONPATH=str(REPOSITORY / "clients" / "python" / "src"),
                                     MEMORYD_BINARY=str(BINARY))
    with Server("sqlite::memory:", arguments=[LISTEN]) as server:
        printed = ""
        for found in typed:
            if "output" in found.words:
                assert printed == found.code
                continue
            code = found.code.replace("127.0.0.1:50080", server.http)
            command = [sys.executable, "-c"] if found.language == "python" else ["bash", "-euc"]
            printed = subprocess.run([*command, code], cwd=tmp_path, text=True, check=True,
                                     env=environment, stdout=subprocess.PIPE, timeout=60).stdout
            assert '"code"' not in printed


def test_a_site_that_is_named_may_call():
    site = "https://app.example"
    with Server("sqlite::memory:",
                arguments=[LISTEN, f"--http-allowed-origins={site}"]) as server:
        caller = HttpCaller(server.http)
        for method, body in (("POST", b"{}"), ("OPTIONS", b"")):
            caller.connection.request(method, path_of("GetServerInfo"), body,
                                      {"Content-Type": "application/json", "Origin": site})
            answer = caller.connection.getresponse()
            answer.read()
            assert (answer.status, answer.getheader("Access-Control-Allow-Origin")) == (200, site)


def test_probes_need_no_credential(guarded):
    caller = HttpCaller(guarded.http)
    assert caller.raw("/healthz", b"", method="GET") == (200, b"ok\n")
    assert caller.raw("/readyz", b"", method="GET") == (200, b"ok\n")
    # As load balancers may ask; the answer has no body, or the next one would begin with it.
    assert caller.raw("/readyz", b"", method="HEAD") == (200, b"")
    assert caller.raw(path_of("Put"), b"", method="HEAD") == (405, b"")
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
