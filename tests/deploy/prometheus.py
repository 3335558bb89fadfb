"""Debian's Prometheus over a memoryd that has something to do."""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc

from support.blocks import block, every_turn, models_file, turn
from support.calls import Calls, user
from support.model_server import ModelServer
from support.paths import REPOSITORY
from support.server import Server
from support.stores import fresh_store
from support.tls import SERVER_NAMES, Authority, server_arguments

import memoryd

ALERTS = REPOSITORY / "deploy/prometheus/alerts.yaml"
DASHBOARD = REPOSITORY / "deploy/grafana/memoryd.json"
START_SECONDS = 60.0
# What Grafana would put in for the time shown and its steps.
VARIABLES = {"$__rate_interval": "10s", "$__range": "10m", "$instance": ".*"}
AGENTS = 4


class Prometheus:
    """Scrapes `target` every second, with our alert rules, while it lives."""

    def __init__(self, folder: pathlib.Path, target: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        settings = folder / "prometheus.yaml"
        settings.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "memoryd", "static_configs": [{"targets": [target]}]}],
        }))
        self._log = (folder / "prometheus.log").open("w+")
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self.address}", "--log.level=warn"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Prometheus:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._log.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """The data of an answer; waits for a Prometheus that starts."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        begin = time.monotonic()
        while True:
            try:
                with urllib.request.urlopen(url, timeout=30) as reply:
                    return json.load(reply)["data"]
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise RuntimeError(f"{parameters}: {error.read().decode()}") from error
            except urllib.error.URLError:
                pass
            if self._process.poll() is not None or time.monotonic() > begin + START_SECONDS:
                self._log.seek(0)
                raise RuntimeError(f"Prometheus does not answer:\n{self._log.read()}")
            time.sleep(0.1)

    def samples(self, expression: str) -> list[float]:
        """What a query says now, without what is no number."""
        found = [float(series["value"][1])
                 for series in self.get("query", query=expression)["result"]]
        return [value for value in found if math.isfinite(value)]

    def wait_for(self, expression: str, timeout: float = 120.0) -> None:
        """Returns once a query says something."""
        end = time.monotonic() + timeout
        while not self.samples(expression):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.5)


def dashboard_queries(variables: dict[str, str]) -> Iterator[tuple[dict, str, str]]:
    """Every panel with each of its queries, and how its series are called."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for name, value in variables.items():
                query = query.replace(name, value)
            yield panel, query, target["legendFormat"]


def metrics_in(expression: str) -> set[str]:
    """The names of metrics in an expression, those of histograms without their endings."""
    names = re.findall(r"\b((?:memoryd|process)_\w+|up)\b", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


class Notes(memoryd.Block):
    """A block of a worker."""

    name = "notes"

    def put(self, messages, state):
        return (state or 0) + len(messages)

    def get(self, messages, state):
        return f"{state or 0} messages"


def _agent(server: Server, number: int, stop: threading.Event) -> None:
    with server.channel() as channel:
        calls = Calls(channel)
        session, turns = f"agent-{number}", 0
        calls.CreateSession(session_id=session, config=every_turn(
            block("facts", "fact-extraction", model="chat"),
            block("vectors", "vector", embedder="embed"),
            block("notes", "worker", worker="notes")))
        while not stop.is_set():
            turns += 1
            calls.Put(session_id=session, messages=turn(f"Where is my tea, number {turns}?"))
            calls.Get(session_id=session)
            calls.Query(session_id=session, query="tea", top_k=3)
            calls.UpdateContext(session_id=session, messages=[user("Tea or coffee?")])
            calls.Put(session_id=f"{session}-{turns}", messages=[user("A session of its own.")])
            with contextlib.suppress(grpc.RpcError):  # Refused: what does not end OK has a panel.
                calls.Put(session_id="", messages=[user("nobody's")])


@contextlib.contextmanager
def busy_server(store_kind: str) -> Iterator[tuple[Server, ModelServer]]:
    """A server with TLS, an audit log, models and a worker, and agents that talk to it."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models = stack.enter_context(ModelServer(
            ['<facts><fact evidence="1">Drinks tea.</fact></facts>', "what?"]))
        identity = Authority(folder / "ca").issue(SERVER_NAMES, days=30)
        server = stack.enter_context(Server(
            stack.enter_context(fresh_store(store_kind)),
            # Agents are on the socket, which has no TLS.
            listen=f"unix:{folder}/memoryd.sock,127.0.0.1:0",
            arguments=[models_file(folder, models, {"retries": 1}), "--job-retry-ms=50",
                       "--metrics-listen=127.0.0.1:0", f"--audit-log={folder}/audit.log",
                       *server_arguments(identity)]))
        stack.enter_context(memoryd.Worker(f"unix:{folder}/memoryd.sock", name="notes",
                                           blocks=[Notes()]))
        stop = threading.Event()
        agents = [threading.Thread(target=_agent, args=(server, number, stop))
                  for number in range(AGENTS)]
        for agent in agents:
            agent.start()
        try:
            yield server, models
        finally:
            stop.set()
            for agent in agents:
                agent.join()
