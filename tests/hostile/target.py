"""The server under attack: its limits, how its store is filled, and what must hold afterwards."""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import time
from collections.abc import Iterator
from typing import Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hostile import attacker, bystander
from hostile.attacks import MODEL, Attack
from hostile.site import EFFORTS, RESTING, SPAWN, Site
from support.access import Caller, credential, write_credentials
from support.memory_group import MemoryGroup
from support.metrics import scrape, value
from support.paths import REPOSITORY
from support.server import Server, ready
from support.tls import SERVER_NAMES, Authority, server_arguments
from support.writers import Audit

LIMIT_MIB = 512
# Of the chart.
CACHES = ("--cache-mib=96", "--index-mib=64", "--vector-mib=64")
# A reply is given up after 30 s, and a second or two later its bytes are back.
BACK_SECONDS = 45.0
# All that says where bytes are, and why calls and connections ended.
NOTABLE = tuple(f"memoryd_{name}" for name in (
    "memory_held_bytes", "memory_refused_total", "memory_budget_bytes", "connections_ended_total",
    "rpc_given_up_total", "connections", "pending_bytes", "admission_rejected_total",
    "exceptions_total", "rpc_in_flight", "jobs_held", "unauthenticated_bytes"))


class Target:
    """A store and settings, and servers on them. Blocks ask a model that accepts connections and
    never answers while the context is entered."""

    def __init__(self, store: str, folder: pathlib.Path, tls: bool) -> None:
        self._store, self._log = store, folder / "log"
        self._model = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._arguments = [*_settings(folder, self._model.getsockname()[1]), *CACHES,
                           "--metrics-listen=127.0.0.1:0", "--health-listen=127.0.0.1:0",
                           "--sweep-interval-ms=2000"]
        self.ca: pathlib.Path | None = None
        if tls:
            authority = Authority(folder)
            self.ca = authority.certificate
            self._arguments += server_arguments(authority.issue(SERVER_NAMES))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._model.close()

    def fill(self, attack: Attack) -> None:
        """By way of a server without limits, which is killed with its jobs still open."""
        if attack.prepare is None:
            return
        arguments = [*self._arguments, *_without_bounds()]
        with self._log.open("w") as log, Server(self._store, arguments=arguments,
                                                log=log) as server:
            with self.site(server).channel() as channel:
                attack.prepare(Caller(ready(channel), attacker.TOKEN))
            server.kill()

    @contextlib.contextmanager
    def started(self) -> Iterator[tuple[Server, MemoryGroup | None]]:
        """A server with the limit, which is killed in the end, and its control group. Where none
        can be made, the limit is a setting."""
        with contextlib.ExitStack() as stack:
            group = None
            arguments, before = self._arguments, []
            with contextlib.suppress(OSError):
                group = stack.enter_context(MemoryGroup(LIMIT_MIB))
                before = group.before
            if group is None:
                arguments = [*arguments, f"--memory-limit-mib={LIMIT_MIB}"]
            log = stack.enter_context(self._log.open("w"))
            server = Server(self._store, arguments=arguments, before=before, log=log)
            stack.callback(server.kill)
            yield server, group

    def last_words(self) -> str:
        """The last line of the latest server's log."""
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1][:120] if lines else ""

    def site(self, server: Server, attackers: int = 1) -> Site:
        return Site(server.target, server.health, server.metrics, self.ca,
                    SPAWN.RawValue("i", RESTING), SPAWN.RawArray("i", attackers),
                    SPAWN.RawArray("q", len(EFFORTS) * attackers))

    def state(self, server: Server, seen: bystander.Seen) -> str:
        """`serves`, or what is wrong with a server that nobody calls any more."""
        if (code := server.process.poll()) is not None:
            return f"dead ({code}) {self.last_words()}"
        site = self.site(server)
        return _unhealthy(site) or _holds(server) or _wrong(site, seen) or "serves"


def _settings(folder: pathlib.Path, model_port: int) -> list[str]:
    credentials = write_credentials(folder / "credentials.yaml", [
        credential("attacker", ("read", "write", "worker", "admin"), token=attacker.TOKEN),
        credential("victim", token=bystander.TOKEN)])
    settings = folder / "memoryd.yaml"
    settings.write_text(json.dumps({"models": [
        {"name": MODEL, "kind": "chat", "url": f"http://127.0.0.1:{model_port}/v1", "model": "m",
         "allow_private": True, "timeout_ms": 60_000}]}))
    return [f"--credentials={credentials}", f"--config={settings}"]


def _without_bounds() -> list[str]:
    """So that a store can be filled with what a smaller server would refuse."""
    settings = (REPOSITORY / "docs" / "SETTINGS.md").read_text()
    return ["--active-mib=4096"] if "`active_mib`" in settings else []


def notable(server: Server) -> dict[str, float]:
    """Those metrics that are not 0."""
    return {" ".join((name, *(label for _, label in labels))): found
            for (name, labels), found in scrape(server.metrics).items()
            if found and name in NOTABLE}


def _unhealthy(site: Site) -> str:
    with site.channel() as channel:
        try:
            status = health_pb2_grpc.HealthStub(ready(channel)).Check(
                health_pb2.HealthCheckRequest(), timeout=10).status
        except (grpc.RpcError, grpc.FutureTimeoutError) as error:
            return f"health: {error!r}"[:120]
    return "" if status == health_pb2.HealthCheckResponse.SERVING else "not SERVING"


def _holds(server: Server) -> str:
    """What should be 0 when nobody is connected, and stays above it."""
    end = time.monotonic() + BACK_SECONDS
    while True:
        series = scrape(server.metrics)
        held = {use: value(series, "memoryd_memory_held_bytes", use=use)
                for use in ("requests", "replies")}
        held |= {name: value(series, f"memoryd_{name}") for name in (
            "rpc_in_flight", "pending_bytes", "unauthenticated_bytes", "exceptions_total")}
        held = {name: found for name, found in held.items() if found}
        if not held:
            return ""
        if time.monotonic() > end:
            return f"still held: {held}"
        time.sleep(0.2)


def _wrong(site: Site, seen: bystander.Seen) -> str:
    """What became of acknowledged messages."""
    found, invented = Audit(), 0
    with site.channel() as channel:
        caller = Caller(channel, bystander.TOKEN)
        try:
            for session, texts in seen.acknowledged.items():
                page = caller("GetAll", session_id=session, page_size=1000)
                stored = [message.text for message in page.messages]
                found.add_session(texts, stored)
                invented += len(set(stored) - seen.sent)
        except grpc.RpcError as error:
            return f"the second tenant: {error.code().name} {error.details()}"[:120]
    if found.lost or found.doubled or invented:
        return f"lost {found.lost}, doubled {found.doubled}, invented {invented}"
    return ""
