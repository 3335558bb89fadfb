"""The command `memoryd` of the Python package: the server's binary under another name."""

from __future__ import annotations

import importlib
import os
import pathlib
import re
import signal
import subprocess
import sys

from support.paths import BINARY, REPOSITORY, server_environment

SECONDS = 120


def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
    environment = server_environment(PYTHONPATH=str(REPOSITORY / "clients/python/src"), **variables)
    return subprocess.run([sys.executable, "-m", "memoryd", *arguments], env=environment, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)


def test_it_is_the_binary_with_the_same_arguments():
    for arguments in (("--version",), ("help", "sessions", "fork"), ("sesions",),
                      ("sessions", "list", "--target", "127.0.0.1:1")):
        here = command(*arguments, MEMORYD_BINARY=str(BINARY))
        there = subprocess.run([BINARY, *arguments], env=server_environment(), text=True,
                               capture_output=True, timeout=SECONDS, check=False)
        assert (here.returncode, here.stdout, here.stderr) == (
            there.returncode, there.stdout, there.stderr)


def test_it_ends_with_whoever_reads_it():
    reader, writer = os.pipe()
    os.close(reader)
    for command_line in ([sys.executable, "-m", "memoryd"], [str(BINARY)]):
        for arguments in (("help", "sessions"), ("completion", "fish"), ("serve", "--help"),
                          ("--print-config",)):
            done = subprocess.run(
                [*command_line, *arguments], text=True, stdin=subprocess.DEVNULL, stdout=writer,
                stderr=subprocess.PIPE, timeout=SECONDS, check=False,
                env=server_environment(PYTHONPATH=str(REPOSITORY / "clients/python/src"),
                                       MEMORYD_BINARY=str(BINARY)))
            assert (done.returncode, done.stderr) == (-signal.SIGPIPE, ""), arguments
    os.close(writer)
    done = subprocess.run(
        ["bash", "-c", '"$0" -m memoryd help | head -1', sys.executable], text=True,
        capture_output=True, timeout=SECONDS, check=True,
        env=server_environment(PYTHONPATH=str(REPOSITORY / "clients/python/src"),
                               MEMORYD_BINARY=str(BINARY)))
    assert done.stdout.startswith("memoryd ") and done.stderr == ""


def test_without_a_binary_it_says_what_to_do(tmp_path):
    done = command("dev", PATH=str(tmp_path))
    assert done.returncode == 1 and done.stdout == ""
    line, = done.stderr.splitlines()
    assert line.startswith("memoryd: ") and "docker run" in line and "MEMORYD_BINARY" in line
    # What can't be run, such as one of another machine.
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    done = command("dev", MEMORYD_BINARY=str(broken))
    assert done.returncode == 1 and str(broken) in done.stderr


def test_the_package_names_it():
    text = (REPOSITORY / "clients/python/pyproject.toml").read_text(encoding="utf-8")
    module, function = re.search(r'^memoryd = "([\w.]+):(\w+)"$', text, re.MULTILINE).groups()
    assert callable(getattr(importlib.import_module(module), function))
    assert pathlib.Path(importlib.import_module(module).__file__).is_relative_to(
        REPOSITORY / "clients/python/src")
    assert os.access(BINARY, os.X_OK)
