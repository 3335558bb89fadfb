"""Mistakes of those who operate it: each ends with a line that says what is wrong."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading

import pytest

from support.calls import Calls, user
from support.paths import BINARY, server_environment
from support.server import Server
from support.waiting import wait_for

PASSWORD = "hunter2"
# What only a server that hangs takes.
SECONDS = 60


def start(*arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """A server that is to end by itself."""
    usual = [setting for setting in ("--listen=127.0.0.1:0", "--store=sqlite::memory:")
             if not any(given.startswith((setting.partition("=")[0] + "=", "--config="))
                        for given in arguments)]
    return subprocess.run([*prefix, str(BINARY), *usual, *arguments], env=server_environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=SECONDS, check=False)


def complaint(done: subprocess.CompletedProcess) -> str:
    """The one line that it ended with."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("memoryd: ")]
    assert done.returncode in (1, 2) and len(lines) == 1, done
    return lines[0]


def yaml_file(folder, text: str, mode: int = 0o600) -> str:
    path = folder / "file.yaml"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("text", ("readers: 2\n---\nreaders: 3\n", "---\nreaders: 2\n---\n",
                                  "readers: 2\n...\n---\ncredentials: c.yaml\n"))
def test_settings_of_two_documents_are_refused(tmp_path, text):
    path = yaml_file(tmp_path, text)
    assert f"{path}:" in complaint(start(f"--config={path}"))
    assert "second YAML document" in complaint(start(f"--config={path}"))


def test_credentials_of_two_documents_are_refused(tmp_path):
    entry = f"- {{tenant: t, rights: [read], token_sha256: {'0' * 64}}}\n"
    path = yaml_file(tmp_path, entry + "---\n" + entry.replace("t,", "u,"))
    assert "second YAML document" in complaint(start(f"--credentials={path}"))


@pytest.mark.parametrize("setting", ("config", "credentials"))
@pytest.mark.parametrize("text", ("[" * 100_000, "- " * 100_000, "{a: " * 100_000,
                                  "".join(" " * i + "a:\n" for i in range(2000))))
def test_deep_yaml_is_refused(tmp_path, setting, text):
    path = yaml_file(tmp_path, text)
    assert "nested too deeply" in complaint(start(f"--{setting}={path}"))


@pytest.mark.parametrize("text", (
    f"store: postgresql://u:{PASSWORD}@h/d\n",
    f"store: postgres://u:{PASSWORD}@h/d\n",
    f"store: postgresql+psycopg://u:{PASSWORD}@h/d\n",
    f"store: postgresql://h/d?%70assword={PASSWORD}\n",
    f"otlp_endpoint: http://h/v1/traces?key={PASSWORD}\n",
    f"models: [{{name: m, kind: chat, url: https://h/v1, model: x, "
    f"headers: {{Api-Key: {PASSWORD}}}}}]\n"))
def test_settings_with_a_password_that_everybody_may_read_are_refused(tmp_path, text):
    path = yaml_file(tmp_path, text, 0o644)
    line = complaint(start(f"--config={path}", "--check-config"))
    assert "chmod o-rwx" in line and PASSWORD not in line
    done = start("--config=" + yaml_file(tmp_path, text, 0o640), "--print-config")
    assert "chmod" not in done.stderr and PASSWORD not in done.stdout + done.stderr


def test_settings_without_a_password_may_be_read_by_everybody(tmp_path):
    path = yaml_file(tmp_path, "readers: 2\nstore: postgresql://u@h/d?sslmode=disable\n"
                     "models: [{name: m, kind: chat, url: https://h/v1, model: x, "
                     "headers: {X-Version: 2}}]\n", 0o644)
    assert start(f"--config={path}", "--print-config").returncode == 0


@pytest.mark.parametrize("store", (
    f"postgresql://u:{PASSWORD}@h/d", f"postgresql://u:{PASSWORD}@h1:1,h2:2/d",
    f"postgresql://u:x{PASSWORD}@{PASSWORD}@h/d", f"postgresql://u:/{PASSWORD}@h/d",
    f"postgresql://u:?{PASSWORD}@h/d", f"postgresql://u:a@b/{PASSWORD}@h/d",
    f"postgresql://u:{PASSWORD}/a?b@h/d", f"postgresql://u:a/b?{PASSWORD}@h/d",
    f"postgresql://h/d?password={PASSWORD}", f"postgresql://h/d?pass%77ord={PASSWORD}",
    f"postgresql://h/d?connect_timeout=9&PASSWORD={PASSWORD}",
    f"postgresql://h/d?sslpassword={PASSWORD}", f"postgresql://h/d?oauth_client_secret={PASSWORD}",
    f"postgresql://h/d?dbname=password%3D{PASSWORD}", f"postgresql://h/password%3D{PASSWORD}",
    f"postgresql://h/d?{PASSWORD}", f"postgresql:host=h password={PASSWORD}",
    f"host=h password={PASSWORD}", f"host=h password = '{PASSWORD}'",
    f"postgres://u:{PASSWORD}@h/d", f"postgresql+psycopg://u:{PASSWORD}@h/d",
    f"postgres+asyncpg://h/d?password={PASSWORD}", f"postgre://u:{PASSWORD}@h/d",
    f"postgresql+jdbc://u:{PASSWORD}@h/d", f"sqlite://u:{PASSWORD}@h/d"))
def test_no_password_of_a_store_is_printed(store):
    done = start(f"--store={store}", "--print-config")
    assert PASSWORD not in done.stdout + done.stderr, done
    done = start(f"--stor={store}")
    assert "postgresql:" not in store or PASSWORD not in done.stdout + done.stderr, done


def test_what_is_no_password_is_printed():
    url = ("postgresql://u@h1:1,h2:2/d?connect_timeout=9&target_session_attrs=read-write"
           "&options=-c%20search_path%3Da")
    assert url in start(f"--store={url}", "--print-config").stdout


@contextlib.contextmanager
def taken_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("setting", ("listen", "metrics_listen", "health_listen"))
def test_a_port_that_is_in_use_is_named_in_one_line(setting):
    with taken_port() as address:
        done = start(f"--{setting.replace('_', '-')}={address}")
    line = complaint(done)
    assert address in line and "in use" in line and setting in line
    assert [each for each in done.stderr.splitlines() if address in each] == [line]


def test_a_socket_that_is_in_use_is_named_in_one_line(tmp_path):
    path = tmp_path / "socket"
    with Server("sqlite::memory:", listen=f"unix:{path}"):
        for setting in ("listen", "health_listen"):
            line = complaint(start(f"--{setting.replace('_', '-')}=unix:{path}"))
            assert f"{setting}: can't listen on unix:{path}: " in line and "in use" in line
        assert path.is_socket()


@pytest.mark.parametrize("setting, words", (
    ("listen", ("no credentials", "allow_plaintext")),
    ("health_listen", ("plaintext without credentials",)),
    ("metrics_listen", ("plaintext without credentials",))))
def test_a_listener_that_others_reach_unguarded_is_said_at_start(setting, words):
    def warned(address: str) -> list[str]:
        done = start(f"--{setting.replace('_', '-')}={address}", "--allow-plaintext=true",
                     "--check-config")
        assert done.returncode == 0, done
        return [line for line in done.stderr.splitlines() if f"{setting}: " in line]
    assert warned("127.0.0.1:0") == []
    lines = warned("0.0.0.0:0")
    assert len(lines) == len(words)
    assert all(f"{setting}: 0.0.0.0:0: " in line for line in lines)
    assert all(word in line for word, line in zip(words, lines, strict=True))


@pytest.mark.parametrize("limit", (64, 20, 10))
def test_a_start_with_few_descriptors_says_so(limit, tmp_path):
    line = complaint(start(f"--store=sqlite:{tmp_path}/memory.db",
                           prefix=("prlimit", f"--nofile={limit}:{limit}")))
    assert f"may open {limit} files" in line and "ulimit -n" in line


@pytest.mark.parametrize("setting", ("config", "credentials", "jwks-file", "tls-cert", "audit-log"))
def test_a_fifo_in_place_of_a_file_ends_the_start(tmp_path, setting):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    more = {"jwks-file": ("--jwt-issuer=i", "--jwt-audience=a"),
            "tls-cert": (f"--tls-key={fifo}",)}.get(setting, ())
    line = complaint(start(f"--{setting}={fifo}", *more))
    assert str(fifo) in line


@pytest.mark.parametrize("setting", ("config", "credentials", "audit-log"))
def test_a_folder_in_place_of_a_file_ends_the_start(tmp_path, setting):
    assert str(tmp_path) in complaint(start(f"--{setting}={tmp_path}"))


def test_an_audit_log_into_a_fifo_that_is_read_is_written(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(fifo.read_text().splitlines()))
    # Opened for both, so that it waits for nobody.
    keeper = os.open(fifo, os.O_RDWR)
    reader.start()
    with Server("sqlite::memory:", arguments=[f"--audit-log={fifo}"]) as server, \
            server.channel() as channel:
        Calls(channel).Put(session_id="s", messages=[user("x")])
        assert server.stop() == 0
    os.close(keeper)
    reader.join(SECONDS)
    assert len(lines) == 1 and "Put" in lines[0]


@pytest.mark.parametrize("which", ("", ".tokenizer.json"))
def test_word_vectors_that_are_a_fifo_do_not_hang_the_start(tmp_path, which):
    table = tmp_path / "table.safetensors"
    os.mkfifo(table if not which else table.with_suffix(which))
    with Server("sqlite::memory:", arguments=[f"--word-vectors={table}"]) as server:
        wait_for(lambda: "is not a regular file" in server.output())


@pytest.mark.parametrize("value", ("[" * 1_000_000 + "]" * 1_000_000, "[" * 1_000_000,
                                   '{"a":' * 300 + "1" + "}" * 300))
@pytest.mark.parametrize("kind", ("session", "message", "memoryd_export", "end"))
def test_an_import_of_a_deeply_nested_line_ends_with_an_error(tmp_path, kind, value):
    path = tmp_path / "export.jsonl"
    begin = '{"memoryd_export":1}\n{"session":{"sessionId":"s"}}\n' if kind == "message" else \
        "" if kind == "memoryd_export" else '{"memoryd_export":1}\n'
    path.write_text(begin + f'{{"{kind}":{value}}}\n')
    done = subprocess.run([str(BINARY), "import", str(path), "--dry-run", "--target",
                           "127.0.0.1:1"], capture_output=True, text=True, timeout=SECONDS,
                          check=False)
    assert done.returncode > 0, done.returncode
    assert "is nested deeper than 200 levels" in done.stderr and len(done.stderr) < 500
