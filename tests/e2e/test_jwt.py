"""JSON Web Tokens as credentials."""

from __future__ import annotations

import time
import uuid

import grpc
import pytest

from support.access import Caller, bearer, credential, write_credentials
from support.calls import reason, user
from support.jwt import SigningKey, claims, encoded, jwt_arguments, write_jwks
from support.metrics import scrape, value
from support.server import Server, ready
from support.waiting import wait_for

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
OK = grpc.StatusCode.OK


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return SigningKey(tmp_path_factory.mktemp("key"), "first")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, key):
    """A server with a credentials file beside the keys of an issuer."""
    folder = tmp_path_factory.mktemp("jwt")
    file = write_credentials(folder / "credentials.yaml", [credential("team", token="agent")])
    arguments = [f"--credentials={file}", "--metrics-listen=127.0.0.1:0",
                 *jwt_arguments(write_jwks(folder / "jwks.json", [key]))]
    with Server("sqlite::memory:", arguments=arguments) as server:
        yield server


@pytest.fixture(scope="module")
def channel(guarded):
    with guarded.channel() as opened:
        yield ready(opened)


def test_a_token_opens_its_tenant_beside_one_of_the_file(channel, key):
    signed = Caller(channel, key.sign(claims()))
    signed("Put", session_id="shared", messages=[user("a")])
    assert Caller(channel, "agent")("Get", session_id="shared").messages[0].text == "a"
    other = Caller(channel, key.sign(claims("other")))
    assert not other("Get", session_id="shared").messages


def test_a_token_grants_what_its_scope_says(channel, key):
    reader = Caller(channel, key.sign(claims(rights="openid memoryd:read")))
    assert reader.code("Get", session_id="s") == OK
    error = reader.error("Put", session_id="s")
    assert (error.code(), reason(error)) == (grpc.StatusCode.PERMISSION_DENIED, "RIGHT_MISSING")


def test_what_is_no_valid_token_has_one_answer_and_a_reason_for_the_operator(
        guarded, channel, key, tmp_path):
    stranger = SigningKey(tmp_path, "first")
    unknown = SigningKey(tmp_path, "unknown")
    good = key.sign(claims())
    header, payload, signature = good.split(".")
    forged = encoded(claims("other"))
    cases = {
        "alg none": ("algorithm", key.unsigned(claims())),
        "alg none with a signature": ("algorithm", key.unsigned(claims()) + signature),
        "HS256 by the public key": ("algorithm", key.hmac(claims())),
        "another audience": ("audience", key.sign(claims(aud="other"))),
        "another issuer": ("issuer", key.sign(claims(iss="https://other.example"))),
        "expired": ("expired", key.sign(claims(exp=int(time.time()) - 61))),
        "not yet": ("not_yet", key.sign(claims(nbf=int(time.time()) + 3600))),
        "kid unknown": ("key", unknown.sign(claims())),
        "another's key": ("signature", stranger.sign(claims())),
        "claims of another": ("signature", f"{header}.{forged}.{signature}"),
        "no signature": ("malformed", f"{header}.{payload}"),
        "no tenant": ("claims", key.sign({**claims(), "tenant": None})),
        "critical header": ("malformed", key.sign(claims(), crit=["exp"])),
    }
    texts = {Caller(channel).error("Get", session_id="s").details()}
    for name, (why, token) in cases.items():
        before = value(scrape(guarded.metrics), "memoryd_jwt_refused_total", reason=why)
        error = Caller(channel, token).error("Get", session_id="s")
        assert error is not None and error.code() == UNAUTHENTICATED, name
        texts.add(error.details())
        after = value(scrape(guarded.metrics), "memoryd_jwt_refused_total", reason=why)
        assert after == before + 1, name
    twice = (*bearer(good), *bearer(good))
    error = Caller(channel).error("Get", session_id="s", metadata=twice)
    texts.add(error.details())
    texts.add(Caller(channel, good + "x" * 4096).error("Get", session_id="s").details())
    texts.add(Caller(channel, good + "x" * 15_000).error("Get", session_id="s").details())
    assert len(texts) == 1
    # A header that HPACK can't take in ends its connection. The client sees that, or the limit first.
    with guarded.channel() as opened:
        large = Caller(ready(opened), good + "x" * 65536)
        assert large.code("Get", session_id="s") in (
            grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
    assert Caller(channel, good).code("Get", session_id="s") == OK


def signed_with_groups(key: SigningKey, groups: int) -> str:
    return key.sign({**claims(), "groups": [str(uuid.uuid4()) for _ in range(groups)]})


@pytest.mark.parametrize("groups", (70, 157, 280))
def test_a_token_may_have_many_groups(channel, key, groups):
    assert Caller(channel, signed_with_groups(key, groups)).code("Get", session_id="s") == OK


def test_a_token_with_too_many_groups_is_told_so(channel, key):
    error = Caller(channel, signed_with_groups(key, 320)).error("Get", session_id="s")
    assert (error.code(), reason(error)) == (UNAUTHENTICATED, "TOKEN_TOO_LARGE")


@pytest.mark.parametrize("size, answer", ((16_000, OK), (60_000, EXHAUSTED)))
def test_a_server_without_credentials_takes_the_token_of_another(size, answer):
    with Server("sqlite::memory:") as server, server.channel() as opened:
        assert Caller(ready(opened), "t" * size).code("Get", session_id="s") == answer


def test_keys_rotate_while_it_serves(tmp_path):
    old, new = SigningKey(tmp_path, "old"), SigningKey(tmp_path, "new")
    jwks = write_jwks(tmp_path / "jwks.json", [old])
    with Server("sqlite::memory:", arguments=jwt_arguments(jwks)) as server, \
            server.channel() as opened:
        ready(opened)
        before, after = (Caller(opened, key.sign(claims())) for key in (old, new))
        assert before.code("Get", session_id="s") == OK
        assert after.code("Get", session_id="s") == UNAUTHENTICATED
        write_jwks(jwks, [old, new])
        wait_for(lambda: after.code("Get", session_id="s") == OK)
        assert before.code("Get", session_id="s") == OK
        jwks.write_text("{}")
        wait_for(lambda: "must have a list `keys`" in server.output())
        assert before.code("Get", session_id="s") == OK
        write_jwks(jwks, [new])
        wait_for(lambda: before.code("Get", session_id="s") == UNAUTHENTICATED)
        assert after.code("Get", session_id="s") == OK
