"""Whom a server talks to: nobody but its store."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import urllib.parse

import pytest

from support.calls import Calls, user
from support.metrics import scrape
from support.paths import BINARY
from support.server import Server

# Of connect, sendto and their like: the address that is asked for.
ADDRESS = re.compile(r"(?:connect|sendto|sendm?msg)\(.*?\{sa_family=(AF_\w+), ?(.*?)\}")


def addressed(trace: pathlib.Path) -> set[tuple[str, str]]:
    """Family and address of everybody that a process spoke to, by strace's word for it."""
    return set(ADDRESS.findall(trace.read_text()))


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_server_talks_to_its_store_alone(store, tmp_path):
    trace = tmp_path / "trace"
    program = tmp_path / "memoryd"
    program.write_text(f'#!/bin/sh\nexec strace -f -qq -e trace=network -o {trace} {BINARY} "$@"\n')
    program.chmod(0o755)
    # Leaks can't be looked for in a process that is traced.
    environment = {"ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"}
    with Server(store, binary=program, arguments=["--metrics-listen=127.0.0.1:0"],
                environment=environment) as server, \
            server.channel() as channel:
        calls = Calls(channel)
        calls.Put(session_id="s", messages=[user("I like tea")])
        assert calls.Query(session_id="s", query="tea").results
        calls.GetServerInfo()
        scrape(server.metrics)
        # strace hands no signal on.
        (child,) = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        assert server.wait() == 0
    # glibc asks the name service cache of the machine for its user, if there is one.
    spoken = {(family, address) for family, address in addressed(trace) if "nscd" not in address}
    url = urllib.parse.urlsplit(store)
    if url.scheme == "sqlite":
        assert spoken == set()
    else:
        assert spoken == {
            ("AF_INET", f'sin_port=htons({url.port}), sin_addr=inet_addr("{url.hostname}")')}


def test_what_strace_says_is_read(tmp_path):
    trace = tmp_path / "trace"
    trace.write_text(
        '7 connect(3, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("1.2.3.4")}, 16) = 0\n'
        '7 sendto(3, "x", 1, 0, {sa_family=AF_UNIX, sun_path="/a"}, 9) = 1\n'
        '7 bind(3, {sa_family=AF_INET, sin_port=htons(0), sin_addr=inet_addr("127.0.0.1")}, 16) = 0\n')
    assert addressed(trace) == {
        ("AF_INET", 'sin_port=htons(443), sin_addr=inet_addr("1.2.3.4")'),
        ("AF_UNIX", 'sun_path="/a"')}
