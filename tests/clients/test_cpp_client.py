"""The C++ client against the server over TLS; restarts are test_restarts.py's, all else that of its
unit tests."""

from __future__ import annotations

import subprocess

import grpc
import pytest

from support.access import METHODS, credential, write_credentials
from support.paths import CLIENT_WRITER, REPOSITORY
from support.server import Server
from support.tls import SERVER_NAMES, Authority, server_arguments

from memoryd import Client


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority, tmp_path_factory):
    file = write_credentials(tmp_path_factory.mktemp("credentials") / "credentials.yaml",
                             [credential("team", token="secret")])
    arguments = [*server_arguments(authority.issue(SERVER_NAMES)), f"--credentials={file}"]
    with Server("sqlite::memory:", arguments=arguments) as running:
        yield running


def test_every_rpc_has_a_method():
    header = (REPOSITORY / "clients/cpp/memoryd/client.h").read_text(encoding="utf-8")
    connection = (REPOSITORY / "clients/cpp/memoryd/connection.cc").read_text(encoding="utf-8")
    rpcs = {name for name in METHODS if name != "Attach"}
    assert len(rpcs) > 30
    for name in rpcs:
        assert f" {name}(" in header and f"Connection::{name}(" in connection, name


def put(server: Server, authority: Authority, token: str, text: str,
        seconds: float = 60.0) -> subprocess.CompletedProcess:
    return subprocess.run(
        [CLIENT_WRITER, f"--target={server.target}", f"--authority={authority.certificate}",
         f"--token={token}", f"--timeout={seconds}"],
        input=f"0\ts\t{text}\n", capture_output=True, text=True, check=False, timeout=120)


def test_a_token_is_sent_over_tls(server, authority):
    done = put(server, authority, "secret", "over TLS")
    assert done.returncode == 0, done.stderr
    session, text, message_id, replayed = done.stdout.rstrip("\n").split("\t")
    assert (session, text, replayed) == ("s", "over TLS", "0")
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    with Client(server.target, credentials=credentials, token="secret") as client:
        assert (message_id, text) in [(m.message_id, m.text) for m in client.get_all("s")]


def test_a_wrong_token_is_refused(server, authority):
    done = put(server, authority, "guessed", "x")
    assert done.returncode == 1 and "UNAUTHENTICATED" in done.stderr


def test_a_server_signed_by_a_stranger_is_not_believed(server, authority, tmp_path):
    done = put(server, Authority(tmp_path), "secret", "x", seconds=2.0)
    assert done.returncode == 1 and "UNAVAILABLE" in done.stderr
    assert put(server, authority, "secret", "believed").returncode == 0
