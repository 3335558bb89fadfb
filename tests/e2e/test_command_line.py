"""Flags, environment, YAML, and what is refused before serving."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest

from support.calls import Calls, user
from support.paths import BINARY, REPOSITORY, server_environment
from support.server import Server, open_channel, pooling


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(BINARY), *arguments], env=server_environment(**environment),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)


def assert_refused(done: subprocess.CompletedProcess, name: str) -> None:
    assert done.returncode == 2, done
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert len(lines) == 1, lines
    assert name in lines[0]


def test_version_is_one_line():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("memoryd ") and done.stdout.count("\n") == 1


def test_the_help_of_serve_names_the_flags():
    for arguments in (("serve", "--help"), ("help", "serve"), ("--listen=127.0.0.1:0", "--help")):
        done = run(*arguments)
        assert done.returncode == 0
        for flag in ("--listen", "--store", "--config", "--check-config", "--print-config"):
            assert flag in done.stdout


def test_serve_takes_what_memoryd_alone_takes():
    flags = ("--print-config", "--listen=127.0.0.1:3333")
    assert run("serve", *flags).stdout == run(*flags).stdout
    assert_refused(run("serve", "--listen=nowhere"), "listen")
    assert_refused(run("serve", "me"), "me")
    assert_refused(run("serve", "migrate", "--store=sqlite::memory:"), "memoryd migrate")
    assert_refused(run("serve", "--xyzzy"), "memoryd help serve")
    assert_refused(run("dev", "--xyzzy"), "memoryd help dev")


def test_a_mistyped_flag_is_asked_about():
    done = run("--lisetn=127.0.0.1:0")
    assert done.stderr == "memoryd: unknown flag --lisetn: did you mean --listen?\n"
    done = run("serve", "--sotre=postgresql://u:hunter2@127.0.0.1/x")
    assert done.stderr == "memoryd: unknown flag --sotre: did you mean --store?\n"
    done = run("--target", "127.0.0.1:1", "sessions", "list")
    assert "memoryd sessions --target" in done.stderr and done.returncode == 2


@pytest.mark.parametrize("arguments, name", (
    (("--no-such-flag",), "no-such-flag"),
    (("--no-such-flag=1", "--listen=127.0.0.1:0"), "no-such-flag"),
    (("serve-me",), "serve-me"),
    (("--store=oracle://x",), "store"),
    (("--store=",), "store"),
    (("--listen=nowhere",), "listen"),
    (("--listen=127.0.0.1:99999",), "listen"),
    (("--coherence=maybe",), "coherence"),
    (("--metrics-listen=nowhere:1",), "metrics_listen"),
    (("--metrics-listen=127.0.0.1:80,127.0.0.1:81",), "metrics_listen"),
    (("--metrics-listen=127.0.0.1:80s",), "metrics_listen"),
    (("--otlp-endpoint=localhost:4318",), "otlp_endpoint"),
    (("--otlp-endpoint=https://user:secret@localhost",), "otlp_endpoint"),
    (("--log-format=xml",), "log_format"),
    (("--log-requests=some",), "log_requests"),
    (("--config=/does/not/exist.yaml",), "/does/not/exist.yaml"),
))
def test_a_bad_flag_ends_with_two_and_one_line_that_names_it(arguments, name):
    for extra in ((), ("--check-config",)):
        assert_refused(run(*arguments, *extra), name)


@pytest.mark.parametrize("name, value", (
    ("MEMORYD_STORE", "oracle://x"), ("MEMORYD_LISTEN", "nowhere"),
    ("MEMORYD_NO_SUCH_KEY", "1"),
))
def test_a_bad_variable_is_named(name, value):
    assert_refused(run("--check-config", **{name: value}), name)


@pytest.mark.parametrize("text, name", (
    ("no_such_key: 1\n", "no_such_key"),
    ("store: oracle://x\n", "store"),
    ("listen: [1, 2]\n", "listen"),
    ("a: [\n", "memoryd.yaml"),
    ("- 1\n", "memoryd.yaml"),
))
def test_a_bad_key_of_the_file_is_named(tmp_path, text, name):
    path = tmp_path / "memoryd.yaml"
    path.write_text(text)
    assert_refused(run(f"--config={path}", "--check-config"), name)


def test_flags_win_over_variables_and_those_over_the_file(tmp_path):
    path = tmp_path / "memoryd.yaml"
    path.write_text('listen: 127.0.0.1:1111\nstore: "sqlite::memory:"\n')
    arguments = [f"--config={path}", "--print-config"]
    assert "127.0.0.1:1111" in run(*arguments).stdout
    by_variable = run(*arguments, MEMORYD_LISTEN="127.0.0.1:2222")
    assert "127.0.0.1:2222" in by_variable.stdout and "sqlite::memory:" in by_variable.stdout
    by_flag = run(*arguments, "--listen=127.0.0.1:3333", MEMORYD_LISTEN="127.0.0.1:2222")
    assert "127.0.0.1:3333" in by_flag.stdout and "2222" not in by_flag.stdout


def documented_settings() -> dict[str, str]:
    """The keys of docs/SETTINGS.md, but those of its lists, with their defaults."""
    text = (REPOSITORY / "docs/SETTINGS.md").read_text(encoding="utf-8").partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (?:`(.*?)`(.*?) )?\|", text, re.MULTILINE)
    return {key: default + words for key, default, words in rows}


def test_the_reference_has_every_setting_and_its_default():
    done = run("--print-config")
    told = {key: value.removesuffix("  # default").strip('"') for key, value in
            (line.split(": ", 1) for line in done.stdout.splitlines())}
    # Those that depend on the machine are told in words.
    words = {"store": "sqlite:memoryd.db in the state directory",
             "vocabulary_dir": "../share/memoryd beside the binary",
             "word_vectors": "../share/memoryd/l2_supercat_256.safetensors beside the binary"}
    assert documented_settings() == {**told, **words}


def test_only_vectors_that_were_asked_for_are_missed(tmp_path):
    binary = tmp_path / "bin/memoryd"
    binary.parent.mkdir()
    shutil.copy(BINARY, binary)
    vocabularies = BINARY.parent.parent / "share/memoryd"
    for asked, level in (((), "info"), ((f"--word-vectors={tmp_path}/none.safetensors",), "warning")):
        with Server("sqlite::memory:", binary=binary,
                    arguments=[f"--vocabulary-dir={vocabularies}", *asked]) as server:
            server.stop()
            said = [line for line in server.output().splitlines() if "no word vectors" in line]
            assert len(said) == 1 and level in said[0], server.output()


def test_the_reference_is_what_the_binary_says():
    subprocess.run([REPOSITORY / "tools/write_reference.py", "--check", BINARY], check=True)


def test_every_setting_is_in_the_help():
    help_text = run("serve", "--help").stdout
    for key in documented_settings():
        assert f"--{key.replace('_', '-')} " in help_text, key


def test_what_print_config_prints_is_a_configuration(tmp_path):
    printed = run("--print-config", "--listen=127.0.0.1:3333", "--store=sqlite::memory:")
    assert printed.returncode == 0
    path = tmp_path / "memoryd.yaml"
    path.write_text(printed.stdout)
    again = run(f"--config={path}", "--print-config")
    assert again.returncode == 0
    origin = re.compile(r" *#.*")
    assert origin.sub("", again.stdout) == origin.sub("", printed.stdout)
    assert run(f"--config={path}", "--check-config").returncode == 0


def test_print_config_hides_a_password():
    done = run("--print-config", "--store=postgresql://u:hunter2@127.0.0.1/x")
    assert done.returncode == 0
    assert "hunter2" not in done.stdout + done.stderr


def test_a_good_configuration_is_checked_without_serving():
    done = run("--check-config", "--store=sqlite::memory:")
    assert done.returncode == 0


def parsed(done: subprocess.CompletedProcess) -> dict:
    line, = done.stdout.splitlines()
    return json.loads(line)


def test_what_was_checked_is_told_in_json():
    flags = ("--check-config", "--json")
    good = run(*flags, "--store=sqlite::memory:")
    assert good.returncode == 0 and parsed(good) == {"valid": True, "warnings": []}
    assert parsed(run("dev", *flags)) == {"valid": True, "warnings": []}
    warned = run(*flags, "--listen=0.0.0.0:1", "--allow-plaintext=true", "--health-listen=0.0.0.0:2")
    assert warned.returncode == 0
    assert [line.split(":")[0] for line in parsed(warned)["warnings"]] == [
        "listen", "listen", "health_listen"]
    for wrong in ("--listen=nowhere", "--xyzzy", "--credentials=/does/not/exist"):
        bad = run(*flags, wrong)
        assert bad.returncode == 2
        told = parsed(bad)
        assert told["valid"] is False and bad.stderr.splitlines()[-1] == f"memoryd: {told['error']}"
    for other in ("--version", "--print-config", "--print-reference"):
        assert_refused(run("--json", other), "--json: goes with ")


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen([str(BINARY), *arguments], text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=server_environment())
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_where_a_server_listens_is_told_in_json(tmp_path):
    path = f"unix:{tmp_path}/a b.sock"
    with serving("--store=sqlite::memory:", f"--listen=127.0.0.1:0,{path}", "--json",
                 "--health-listen=127.0.0.1:0") as server:
        told = json.loads(server.stdout.readline())
        assert told["target"] == told["listen"][0] and told["listen"][1] == path
        assert len(told["health"]) == 1 and "metrics" not in told
        with open_channel(told["target"]) as channel:
            Calls(channel).Put(session_id="s", messages=[user("a")])
        server.send_signal(signal.SIGTERM)
        assert server.stdout.read() == ""


def test_the_pages_have_the_objects_that_are_printed(tmp_path):
    page = (REPOSITORY / "docs/COMMAND_LINE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `memoryd ([^`]*--json)` \| `(\{.*?\})`", page, re.MULTILINE)
    shown = {command: json.loads(example) for command, example in rows}
    with serving("dev", "--port=0", "--json") as server:
        printed = {
            "dev --json": json.loads(server.stdout.readline()),
            "migrate --json": parsed(run("migrate", "--json", f"--store=sqlite:{tmp_path}/a.db")),
            "--check-config --json": parsed(run("--check-config", "--json")),
        }
    assert {command: list(example) for command, example in shown.items()} == {
        command: list(example) for command, example in printed.items()}


@pytest.mark.parametrize("command", ("migrate", "serve", "dev"))
def test_a_start_that_takes_its_time_says_what_for(command):
    # The kernel takes the connection, and nobody answers.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/x"
        with serving(command, f"--store={url}", "--log-format=text") as process:
            assert "still opening the store" in process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            # What was stopped before it was done has not migrated.
            assert process.wait(60) == (1 if command == "migrate" else 0)


def test_metrics_are_off_in_a_file_too(tmp_path):
    path = tmp_path / "memoryd.yaml"
    path.write_text("metrics_listen: off\n")
    with Server("sqlite::memory:", arguments=[f"--config={path}"]) as server:
        assert not server.metrics
    with serving("dev", "--port=0", "--json", f"--config={path}") as process:
        assert "metrics" not in json.loads(process.stdout.readline())
    with serving("dev", "--port=0", "--json", "--metrics-listen=off") as process:
        assert "metrics" not in json.loads(process.stdout.readline())


def test_a_yaml_file_configures_a_server(tmp_path):
    path = tmp_path / "memoryd.yaml"
    path.write_text("coherence: exclusive\n")
    with Server("sqlite::memory:", arguments=[f"--config={path}"]) as server, \
            server.channel() as channel:
        Calls(channel).Put(session_id="s", messages=[user("a")])
        assert [m.text for m in Calls(channel).all_messages("s")] == ["a"]


def test_the_default_store_is_a_file_in_the_state_directory(tmp_path):
    environment = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = run("--print-config", **environment)
    assert done.returncode == 0
    assert f"sqlite:{tmp_path}" in done.stdout


def test_migrate_prepares_a_store_and_ends(store):
    for _ in range(2):
        done = run("migrate", f"--store={store}", **pooling(store))
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"the store's schema is \d+\n", done.stdout)
    told = parsed(run("migrate", "--json", f"--store={store}", **pooling(store)))
    assert store.startswith(told["kind"]) and f"schema is {told['schema_version']}\n" in done.stdout
    with Server(store) as server, server.channel() as channel:
        Calls(channel).Put(session_id="s", messages=[user("a")])
