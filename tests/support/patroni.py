"""Two PostgreSQL servers under Patroni, which promotes the one when the other is gone."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import time
import urllib.request

from support.postgres import as_server, free_port, kill_server, program
from support.standby import Failover
from support.waiting import wait_for

# Waits of 10 ms: a failover takes as long as the leader's lease.
_ATTEMPTS = 18_000
# Seconds: the leader's lease, Patroni's round, and how long it tries to reach etcd.
LEASE, ROUND, RETRIES = 20, 1, 3
_NODES = ("node0", "node1")


class PatroniCluster:
    """A leader and a synchronous standby, and one etcd, from construction until the context is
    left. Not thread-safe."""

    def __init__(self) -> None:
        self.failovers: list[Failover] = []
        self._root = pathlib.Path(tempfile.mkdtemp(prefix="memoryd-patroni-"))
        if os.geteuid() == 0:  # PostgreSQL refuses root.
            account = pwd.getpwnam("postgres")
            os.chown(self._root, account.pw_uid, account.pw_gid)
        self._ports = {name: free_port() for name in _NODES}
        self._rest_ports = {name: free_port() for name in _NODES}
        self._running: dict[str, subprocess.Popen] = {}
        self._exit = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self._root, ignore_errors=True)
            self._etcd_port = free_port()
            stack.callback(self._end, self._start_etcd())
            stack.callback(self._end_nodes)
            for name in _NODES:
                self._configure(name)
                self._start(name)
                wait_for(self._leader, _ATTEMPTS)
            wait_for(self._is_redundant, _ATTEMPTS)
            self._exit = stack.pop_all()

    def __enter__(self) -> PatroniCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @property
    def url(self) -> str:
        """The leader's, by the list of both."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def kill_leader(self) -> None:
        """SIGKILL for the leader's PostgreSQL and its Patroni. Returns when the other node leads
        and the old one is its synchronous standby."""
        old = self._leader()
        begin = time.monotonic_ns()
        self._end(self._running.pop(old))
        kill_server(self._data(old))
        gone = time.monotonic_ns()
        wait_for(lambda: self._leader() not in ("", old), _ATTEMPTS)
        promoted = (time.monotonic_ns() - begin) / 1e9
        self._start(old)
        wait_for(self._is_redundant, _ATTEMPTS)
        self.failovers.append(Failover("patroni", begin, gone, promoted,
                                       (time.monotonic_ns() - begin) / 1e9))

    def _data(self, name: str) -> pathlib.Path:
        return self._root / name

    def _leader(self) -> str:
        """Who leads and takes writes; empty for nobody."""
        return next((member["name"] for member in self._members()
                     if member["role"] == "leader" and member["state"] == "running"
                     and member["name"] in self._running), "")

    def _is_redundant(self) -> bool:
        roles = sorted(member["role"] for member in self._members()
                       if member["state"] in ("running", "streaming"))
        return roles == ["leader", "sync_standby"]

    def _members(self) -> list[dict]:
        for name in self._running:
            with contextlib.suppress(OSError, ValueError):
                url = f"http://127.0.0.1:{self._rest_ports[name]}/cluster"
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return json.load(answer)["members"]
        return []

    def _start_etcd(self) -> subprocess.Popen:
        peer = f"http://127.0.0.1:{free_port()}"
        client = f"http://127.0.0.1:{self._etcd_port}"
        return self._run("etcd", "/usr/bin/etcd", f"--data-dir={self._root}/etcd-data",
                         f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                         f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                         f"--initial-cluster=default={peer}", "--unsafe-no-fsync")

    def _configure(self, name: str) -> None:
        rest, port = f"127.0.0.1:{self._rest_ports[name]}", f"127.0.0.1:{self._ports[name]}"
        settings = {
            "scope": "memoryd", "name": name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"127.0.0.1:{self._etcd_port}"},
            "bootstrap": {
                "dcs": {"ttl": LEASE, "loop_wait": ROUND, "retry_timeout": RETRIES,
                        "maximum_lag_on_failover": 1 << 30, "synchronous_mode": True,
                        "postgresql": {"use_pg_rewind": True,
                                       "parameters": {"fsync": "off", "wal_log_hints": "on"}}},
                "initdb": [{"encoding": "UTF8"}, {"auth": "trust"}, "no-sync"]},
            "postgresql": {
                "listen": port, "connect_address": port, "data_dir": str(self._data(name)),
                "bin_dir": str(pathlib.Path(program("postgres")).parent),
                "pgpass": f"{self._root}/{name}.pgpass",
                "parameters": {"unix_socket_directories": str(self._root)},
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust",
                           "host replication all 127.0.0.1/32 trust"],
                "authentication": {"superuser": {"username": "postgres"},
                                   "replication": {"username": "postgres"},
                                   "rewind": {"username": "postgres"}}},
        }
        # JSON is YAML.
        (self._root / f"{name}.yml").write_text(json.dumps(settings))

    def _start(self, name: str) -> None:
        self._running[name] = self._run(name, "/usr/bin/patroni", f"{self._root}/{name}.yml")

    def _run(self, name: str, *command: str) -> subprocess.Popen:
        with (self._root / f"{name}.log").open("a") as log:
            return subprocess.Popen(as_server(command), cwd=self._root, stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log)

    def _end(self, process: subprocess.Popen) -> None:
        process.kill()
        process.wait()

    def _end_nodes(self) -> None:
        for process in self._running.values():
            self._end(process)
        for name in _NODES:
            with contextlib.suppress(OSError):
                kill_server(self._data(name))
