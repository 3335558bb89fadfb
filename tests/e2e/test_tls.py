"""TLS: who gets in, what is replaced while calls go on, what is refused at start."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from support.access import Caller, bearer, credential, write_credentials
from support.background import Background
from support.calls import user
from support.metrics import scrape, value
from support.server import Server, failed_start, open_channel, ready
from support.tls import SERVER_NAMES, Authority, Identity, secure_channel, server_arguments

OK = grpc.StatusCode.OK
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
MEMORY = "sqlite::memory:"


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory) -> Authority:
    """An authority that nobody trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def server(authority):
    with Server(MEMORY, arguments=server_arguments(authority.issue(SERVER_NAMES))) as running:
        yield running


@pytest.fixture(scope="module")
def mutual(authority):
    arguments = server_arguments(authority.issue(SERVER_NAMES), authority.certificate)
    with Server(MEMORY, arguments=arguments) as running:
        yield running


def code_of(opened: grpc.Channel) -> grpc.StatusCode:
    with opened:
        return Caller(opened).code("Get", session_id="s", timeout=10)


# Who gets in.


def test_tls_serves_loopback_and_other_addresses(authority):
    arguments = server_arguments(authority.issue(SERVER_NAMES))
    with Server(MEMORY, listen="0.0.0.0:0", arguments=arguments) as running:
        target = running.target.replace("0.0.0.0", "127.0.0.1")
        assert code_of(secure_channel(target, authority.certificate)) == OK


def test_metrics_say_when_the_certificate_ends(authority):
    identity = authority.issue(SERVER_NAMES)
    told = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", identity.certificate],
                          capture_output=True, text=True, check=True).stdout.strip()
    arguments = [*server_arguments(identity), "--metrics-listen=127.0.0.1:0"]
    with Server(MEMORY, arguments=arguments) as running:
        assert value(scrape(running.metrics), "memoryd_tls_certificate_expiry_seconds") == \
            ssl.cert_time_to_seconds(told.removeprefix("notAfter="))


def test_a_unix_socket_stays_plain(authority, tmp_path):
    arguments = server_arguments(authority.issue(SERVER_NAMES), authority.certificate)
    with Server(MEMORY, listen=f"unix:{tmp_path}/s,127.0.0.1:0", arguments=arguments) as running:
        assert code_of(ready(open_channel(f"unix:{tmp_path}/s"))) == OK
        assert running.stop() == 0


def test_plaintext_to_the_tls_port_is_closed(server, authority):
    assert code_of(open_channel(server.target)) == UNAVAILABLE
    assert code_of(secure_channel(server.target, authority.certificate)) == OK


def test_tls_to_a_plaintext_port_is_closed(authority):
    with Server(MEMORY) as running:
        assert code_of(secure_channel(running.target, authority.certificate)) == UNAVAILABLE
        assert code_of(ready(open_channel(running.target))) == OK


def test_a_server_of_another_authority_is_not_believed(server, stranger):
    assert code_of(secure_channel(server.target, stranger.certificate)) == UNAVAILABLE


def test_with_a_client_authority_clients_need_its_certificate(mutual, authority, stranger):
    cases = {
        "of the authority": (authority.issue("DNS:client"), OK),
        "none": (None, UNAVAILABLE),
        "of another authority": (stranger.issue("DNS:client"), UNAVAILABLE),
        "expired": (authority.issue("DNS:client", days=-1), UNAVAILABLE),
    }
    for name, (client, expected) in cases.items():
        opened = secure_channel(mutual.target, authority.certificate, client)
        assert code_of(opened) == expected, name


def test_any_client_of_the_authority_may_do_all_where_there_are_no_credentials(mutual, authority):
    client = authority.issue("DNS:client")
    with secure_channel(mutual.target, authority.certificate, client) as opened:
        caller = Caller(opened)
        caller("Put", session_id="all", messages=[user("a")])
        assert caller("Get", session_id="all").messages[0].text == "a"
        assert caller.code("DeleteSession", session_id="all") == OK


@pytest.mark.parametrize("version, accepted", (
    (ssl.TLSVersion.TLSv1, False), (ssl.TLSVersion.TLSv1_1, False),
    (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True),
))
def test_tls_before_1_2_is_refused(server, authority, version, accepted):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.certificate)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version
    host, _, port = server.target.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as plain:
        if accepted:
            with context.wrap_socket(plain, server_hostname="localhost") as wrapped:
                assert wrapped.selected_alpn_protocol() == "h2"
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(plain, server_hostname="localhost")


def test_bad_connections_leave_no_more_than_lines_in_the_log(server, authority):
    for _ in range(5):
        assert code_of(open_channel(server.target)) == UNAVAILABLE
    assert code_of(secure_channel(server.target, authority.certificate)) == OK
    assert "Check failed" not in server.output() and "    @ " not in server.output()


# What is replaced while calls go on.


def serial_of(target: str, authority: Authority) -> str:
    """The serial number of the certificate that the server shows to a new connection."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.set_alpn_protocols(["h2"])
    host, _, port = target.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as wrapped:
        return wrapped.getpeercert()["serialNumber"]


def wait_for(condition, attempts: int = 400, pause: float = 0.01) -> None:
    for _ in range(attempts):
        if condition():
            return
        threading.Event().wait(pause)
    raise AssertionError("it never held")


class Load(Background):
    """Puts over connections that last, and over new ones for every Put."""

    def __init__(self, target: str, authority: Authority, lasting: int, fresh: int) -> None:
        self.failures: list[grpc.RpcError] = []
        self.made = [0] * (lasting + fresh)
        self._target, self._authority = target, authority
        super().__init__([functools.partial(self._run, number, number < lasting)
                          for number in range(lasting + fresh)])

    def _run(self, number: int, lasting: bool) -> None:
        while not self.ending.is_set():
            with secure_channel(self._target, self._authority.certificate) as opened:
                caller = Caller(opened)
                while not self.ending.is_set():
                    error = caller.error("Put", session_id=f"s{number}")
                    if error is not None:
                        self.failures.append(error)
                    self.made[number] += 1
                    if not lasting:
                        break


def test_certificates_rotate_under_load_without_a_failed_call(authority, tmp_path):
    """Twenty times: files renamed one after the other, and the folder's link swapped as in a
    Kubernetes secret, in turn."""
    identities = [authority.issue(SERVER_NAMES) for _ in range(21)]

    def folder(number: int) -> pathlib.Path:
        made = tmp_path / f"..{number}"
        made.mkdir()
        shutil.copy2(identities[number].certificate, made / "tls.crt")
        shutil.copy2(identities[number].key, made / "tls.key")
        return made

    link = tmp_path / "..data"
    link.symlink_to(folder(0).name)
    shown = Identity(link / "tls.crt", link / "tls.key")
    with Server(MEMORY, arguments=server_arguments(shown)) as running:
        with Load(running.target, authority, lasting=5, fresh=3) as load:
            for number in range(1, 21):
                before = serial_of(running.target, authority)
                made = folder(number)
                if number % 2:
                    (tmp_path / "next").symlink_to(made.name)
                    os.replace(tmp_path / "next", link)
                else:
                    os.replace(made / "tls.crt", link / "tls.crt")
                    if number == 10:  # Long enough for the server to look at the half of it.
                        wait_for(lambda: "is not the key of the certificate" in running.output())
                        assert serial_of(running.target, authority) == before
                    os.replace(made / "tls.key", link / "tls.key")
                wait_for(lambda before=before: serial_of(running.target, authority) != before)
        assert not load.failures, load.failures[:3]
        assert min(load.made) >= 20


def test_a_new_client_authority_is_taken_over(authority, stranger, tmp_path):
    roots = tmp_path / "roots.pem"
    shutil.copy(authority.certificate, roots)
    ours, theirs = authority.issue("DNS:client"), stranger.issue("DNS:client")
    arguments = server_arguments(authority.issue(SERVER_NAMES), roots)
    with Server(MEMORY, arguments=arguments) as running:

        def code(client: Identity) -> grpc.StatusCode:
            return code_of(secure_channel(running.target, authority.certificate, client))

        assert (code(ours), code(theirs)) == (OK, UNAVAILABLE)
        shutil.copy(stranger.certificate, tmp_path / "new")
        os.replace(tmp_path / "new", roots)
        wait_for(lambda: code(theirs) == OK)
        assert code(ours) == UNAVAILABLE


# Health in plaintext.


def test_the_health_port_serves_health_in_plaintext_and_nothing_else(authority, tmp_path):
    listen = f"unix:{tmp_path}/health"
    arguments = [*server_arguments(authority.issue(SERVER_NAMES)), f"--health-listen={listen}",
                 f"--credentials={write_credentials(tmp_path / 'c.yaml', [])}", "--reflection=on"]
    with Server(MEMORY, arguments=arguments) as running, ready(open_channel(listen)) as opened:
        stub = health_pb2_grpc.HealthStub(opened)
        for service in ("", "liveness", "memoryd.v1.MemoryService"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        for method in ("Put", "Get", "ListSessions"):
            assert Caller(opened).code(method) == grpc.StatusCode.UNIMPLEMENTED
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        with pytest.raises(grpc.RpcError) as error:
            list(reflection_pb2_grpc.ServerReflectionStub(opened).ServerReflectionInfo(
                iter([request]), timeout=30))
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        running.terminate()
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert running.wait() == 0, running.output()


def test_a_health_address_in_use_is_refused(server):
    code, output = failed_start(MEMORY, arguments=[f"--health-listen={server.target}"])
    assert code != 0 and server.target in output and "listening" not in output


# What is refused at start.


def assert_refused(arguments: list[str], *words: str) -> None:
    for more in ([], ["--check-config"]):
        code, output = failed_start(MEMORY, arguments=[*arguments, *more])
        assert code == 2, output
        assert output.count("\n") == 1, output
        for word in words:
            assert word in output


def test_secrets_that_everybody_may_read_are_refused(authority, tmp_path):
    identity = authority.issue(SERVER_NAMES)
    os.chmod(identity.key, 0o644)
    assert_refused(server_arguments(identity), "tls_key", str(identity.key), "chmod")
    file = write_credentials(tmp_path / "c.yaml", [credential("team", token="t")])
    os.chmod(file, 0o604)
    assert_refused([f"--credentials={file}"], "credentials", str(file), "chmod")


def test_settings_that_do_not_fit_are_refused(authority, stranger, tmp_path):
    ours, other = authority.issue(SERVER_NAMES), authority.issue(SERVER_NAMES)
    empty = tmp_path / "empty"
    empty.write_text("")
    empty.chmod(0o600)
    assert_refused([f"--tls-cert={ours.certificate}"], "tls_cert", "tls_key")
    assert_refused([f"--tls-client-ca={ours.certificate}"], "tls_client_ca", "tls_cert")
    assert_refused(server_arguments(Identity(ours.certificate, other.key)), "tls_key")
    assert_refused(server_arguments(Identity(empty, ours.key)), "tls_cert", str(empty))
    assert_refused(server_arguments(Identity(ours.certificate, empty)), "tls_key", str(empty))
    assert_refused(server_arguments(ours, empty), "tls_client_ca", str(empty))
    assert_refused(server_arguments(ours, tmp_path / "none"), "tls_client_ca", "none")
    assert_refused([f"--credentials={tmp_path}/none"], "credentials", "none")
    assert_refused([f"--credentials={tmp_path}"], "credentials", str(tmp_path))
    assert_refused([f"--credentials={empty}"], "credentials", f"{empty}:1")
    assert_refused(["--health-listen=nowhere"], "health_listen")


@pytest.mark.parametrize("entry, words", (
    ({"tenant": "t", "rights": ["read"]}, ("token_sha256", "certificate")),
    ({"tenant": "t", "rights": ["own"], "certificate": "c"}, ("rights",)),
    ({"tenant": "", "rights": ["read"], "certificate": "c"}, ("tenant",)),
    ({"tenant": "t", "rights": ["read"], "token_sha256": "secret"}, ("token_sha256",)),
    ({"tenant": "t", "rights": ["read"], "certificate": "c", "expires": "soon"}, ("expires",)),
    ({"tenant": "t", "rights": ["read"], "certificate": "c", "more": 1}, ("more",)),
))
def test_a_bad_entry_is_named_with_its_line(tmp_path, entry, words):
    file = write_credentials(tmp_path / "c.yaml", [credential("team", token="t"), entry])
    assert_refused([f"--credentials={file}"], "credentials", f"{file}:", *words)


def test_plaintext_beyond_loopback_is_warned_of(tmp_path):
    arguments = ["--allow-plaintext=true"]
    with Server(MEMORY, listen="0.0.0.0:0", arguments=arguments) as running:
        assert "allow_plaintext" in running.output()
    with Server(MEMORY, arguments=arguments) as running:
        assert "allow_plaintext" not in running.output()


def test_a_token_over_tls_is_all_a_client_needs(authority, tmp_path):
    file = write_credentials(tmp_path / "c.yaml", [credential("team", token="t")])
    arguments = [*server_arguments(authority.issue(SERVER_NAMES)), f"--credentials={file}"]
    with Server(MEMORY, arguments=arguments) as running, \
            secure_channel(running.target, authority.certificate) as opened:
        assert Caller(opened).code("Put", session_id="s") == grpc.StatusCode.UNAUTHENTICATED
        assert Caller(opened).code("Put", session_id="s", metadata=bearer("t")) == OK
