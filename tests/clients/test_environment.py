"""The variables that say where the server is: one set for every client, page and manifest, none of which
keeps a server from starting."""

import asyncio
import os
import pathlib
import pickle
import re
import subprocess
import sys
import warnings

import pytest

from support.access import credential, write_credentials
from support.paths import BINARY, REPOSITORY, server_environment
from support.server import Server
from support.tls import SERVER_NAMES, Authority

import memoryd
from memoryd import _environment
from memoryd.autogen.connection import Connection as AutoGenConnection
from memoryd.importers.__main__ import _client, _parser
from memoryd.langchain import connection as langchain_connection
from memoryd.langchain.connection import Connection, connection_of
from memoryd.llama_index import ChatStore, Memory
from memoryd.llama_index._target import default_uri

TARGET, ADDRESS, URI = "MEMORYD_TARGET", "MEMORYD_ADDRESS", "MEMORYD_URI"
# Of the clients, by what each is for.
CLIENTS = {TARGET, ADDRESS, URI, "MEMORYD_TOKEN_FILE", "MEMORYD_CA_FILE", "MEMORYD_CLIENT_CERT_FILE",
           "MEMORYD_CLIENT_KEY_FILE", "MEMORYD_BINARY"}
# Of the build, and the settings file's, which is no setting.
OTHERS = {"MEMORYD_INSTALL_WORD_VECTORS", "MEMORYD_OPENTELEMETRY", "MEMORYD_CLIENT", "MEMORYD_CONFIG"}
# Macros and guards.
CODE = (".h", ".cc", ".cmake")
EARLIER_NAMES_MAY_STAND_IN = {"clients/python/src/memoryd/_environment.py", "clients/python/README.md",
                              "clients/python/LLAMA_INDEX.md", "cli/target.cc", "cli/target_test.cc",
                              "docs/COMMAND_LINE.md"}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in CLIENTS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_environment, "_warned", set())
    # What a page that was run has connected.
    monkeypatch.setattr(langchain_connection, "_default", None)


def read() -> dict[str, set[str]]:
    """The variables that each file of clients, examples, manifests and pages names."""
    listed = subprocess.run(
        ["git", "ls-files", "clients", "examples", "deploy", "docs", "README.md", "cli", "tests/image"],
        cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout.split()
    found = {}
    for name in listed:
        text = (REPOSITORY / name).read_text(encoding="utf-8", errors="replace")
        if name.endswith(CODE):  # Only texts: the rest are macros.
            text = "\n".join(re.findall(r'"[^"\n]*"', text))
        names = set(re.findall(r"\bMEMORYD_(?!TEST_)[A-Z0-9_]*[A-Z0-9]\b", text))
        if names:
            found[name] = names
    return found


def settings() -> set[str]:
    """The variables of the server's settings."""
    said = subprocess.run([BINARY, "serve", "--help"], env=server_environment(), check=True,
                          capture_output=True, text=True).stdout
    return set(re.findall(r"MEMORYD_[A-Z0-9_]+", said))


def test_every_variable_is_known():
    known = CLIENTS | OTHERS | settings()
    # Decisions and the page on code name macros.
    names = {name: sorted(variables - known) for name, variables in read().items()
             if not name.startswith("docs/adr/") and name != "docs/STYLE.md"}
    assert {name: variables for name, variables in names.items() if variables} == {}


def test_the_clients_variables_are_those_that_they_read():
    code = {variable for name, variables in read().items() if name.endswith((".py", ".cc"))
            for variable in variables}
    assert CLIENTS - code == set()
    assert code - CLIENTS - settings() - OTHERS == set()


def test_no_page_or_manifest_names_the_address_otherwise():
    for name, variables in read().items():
        if name not in EARLIER_NAMES_MAY_STAND_IN:
            assert not variables & {ADDRESS, URI}, name


def test_a_server_starts_with_the_variables_of_its_clients():
    variables = dict.fromkeys(CLIENTS, "localhost:1")
    with Server("sqlite::memory:", environment=variables) as server, \
            memoryd.Client(server.target) as memory:
        assert memory.server_info().version


def test_no_variable_of_the_clients_is_a_setting():
    assert settings() & CLIENTS == set()


def put(client) -> int:
    with client as memory:
        return memory.put("environment", [{"role": "user", "content": "hi"}]).revision


async def put_async() -> int:
    async with memoryd.AsyncClient() as memory:
        return (await memory.put("environment", [{"role": "user", "content": "hi"}])).revision


VARIABLES = {TARGET: "{}", ADDRESS: "{}", URI: "memoryd://{}/a-space"}


@pytest.mark.parametrize("variable", VARIABLES)
def test_clients_without_an_address_find_the_server(server, monkeypatch, variable):
    monkeypatch.setenv(variable, VARIABLES[variable].format(server.target))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert put(memoryd.Client()) < asyncio.run(put_async())
        assert AutoGenConnection(None, 1.0, None, None).target == server.target
        assert connection_of(None).target == server.target
        assert pickle.loads(pickle.dumps(Connection())).client.count_messages("environment") >= 2
        with _client(_parser().parse_args(["mem0", "--database", "x"])) as memory:
            assert memory.count_messages("environment") >= 2
        with memoryd.Worker(name="environment", models={"said": lambda messages, max_tokens: "yes"}):
            pass
    mine = [each for each in warned if "MEMORYD_" in str(each.message)]
    if variable == TARGET:
        assert mine == []
    else:
        assert [each.category for each in mine] == [DeprecationWarning]
        assert mine[0].filename == __file__ and TARGET in str(mine[0].message)


def test_what_is_given_wins_and_the_new_name_before_the_old(server, monkeypatch):
    for variable in (TARGET, ADDRESS):
        monkeypatch.setenv(variable, "localhost:1")
    monkeypatch.setenv(URI, "memoryd://localhost:1")
    assert put(memoryd.Client(server.target)) > 0
    monkeypatch.setenv(TARGET, server.target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert put(memoryd.Client()) > 0


def test_the_address_is_localhost_unless_it_is_set():
    assert _environment.target() == "localhost:50051"
    assert default_uri() is None
    assert ChatStore().target.address == "localhost:50051"


@pytest.mark.parametrize("address,uri", [
    ("localhost:50051", "memoryd://localhost:50051"),
    ("dns:///memory:50051", "memoryd://memory:50051"),
    ("[::1]:50051", "memoryd://[::1]:50051"),
    ("unix:/run/memoryd.sock", "memoryd:///run/memoryd.sock"),
    ("unix:///run/a space.sock", "memoryd:///run/a%20space.sock"),
])
def test_llama_index_takes_the_same_address(monkeypatch, address, uri):
    monkeypatch.setenv(TARGET, address)
    assert default_uri() == uri
    there = ChatStore().target.address
    assert there.removeprefix("unix:").removeprefix("//") == \
        address.removeprefix("dns:///").removeprefix("unix:").removeprefix("//")


def test_llama_index_keeps_a_uri_that_is_set(server, monkeypatch):
    monkeypatch.setenv(TARGET, "localhost:1")
    monkeypatch.setenv(URI, f"memoryd://{server.target}/here")
    with pytest.warns(DeprecationWarning, match=URI):
        memory = Memory.from_defaults(session_id="environment")
    assert memory.sql_store.target.space == "here"
    assert memory.sql_store.target.address == server.target


@pytest.mark.parametrize("given", ["memoryd://localhost:50051/space", "memoryd://", "memoryd:///p?timeout=1"])
def test_a_uri_is_no_address(monkeypatch, given):
    monkeypatch.setenv(TARGET, given)
    with pytest.raises(ValueError, match="MEMORYD_TARGET: must be HOST:PORT or unix:PATH"):
        memoryd.Client()


def test_a_uri_of_another_database_is_not_ours(monkeypatch):
    monkeypatch.setenv(URI, "sqlite+aiosqlite:///chat.db")
    assert _environment.target() == "localhost:50051"
    assert default_uri() == "sqlite+aiosqlite:///chat.db"


@pytest.fixture
def secured(tmp_path):
    identity = Authority(tmp_path).issue(SERVER_NAMES)
    (tmp_path / "token").write_text("secret\n")
    file = write_credentials(tmp_path / "credentials.yaml", [
        credential("team", ["read", "write"], token="secret")])
    with Server("sqlite::memory:", listen="localhost:0", arguments=[
            f"--tls-cert={identity.certificate}", f"--tls-key={identity.key}",
            f"--credentials={file}"]) as server:
        yield server


@pytest.mark.parametrize("variable", [TARGET, URI])
def test_certificates_and_token_come_with_the_address(secured, tmp_path, monkeypatch, variable):
    ca, token = str(tmp_path / "ca.pem"), str(tmp_path / "token")
    assert pathlib.Path(ca).exists()
    if variable == URI:
        monkeypatch.setenv(URI, f"memoryd://{secured.target}?ca_file={ca}&token_file={token}")
    else:
        monkeypatch.setenv(TARGET, secured.target)
        monkeypatch.setenv("MEMORYD_CA_FILE", ca)
        monkeypatch.setenv("MEMORYD_TOKEN_FILE", token)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert put(memoryd.Client()) > 0
        assert asyncio.run(put_async()) > 0
        assert put(pickle.loads(pickle.dumps(Connection())).client) > 0
        assert asyncio.run(ChatStore().client.count_messages("environment")) >= 3


def test_a_token_goes_to_no_server_that_is_named(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("secret")
    monkeypatch.setenv("MEMORYD_TOKEN_FILE", str(tmp_path / "token"))
    assert _environment.connection("elsewhere:1") == ("elsewhere:1", None, None)
    assert _environment.connection(None)[2]() == "secret"


def test_a_socket_has_no_tls(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORYD_CA_FILE", str(tmp_path / "missing"))
    monkeypatch.setenv(TARGET, f"unix:{tmp_path}/socket")
    assert _environment.connection(None)[1] is None
    assert "ca_file" not in default_uri()


def test_a_program_sees_the_warning_once():
    code = ("import memoryd\nfor _ in range(3):\n    memoryd.Client().close()\n")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(REPOSITORY / "clients/python/src"), ADDRESS: "localhost:1",
             "PATH": os.environ["PATH"]})
    assert done.stderr.count("DeprecationWarning") == 1
