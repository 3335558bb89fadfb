"""The pods of deploy/kubernetes, played by podman."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator

import pytest
import yaml

from container import USER_ID, podman
from support import tls
from support.metrics import scrape, value
from support.paths import REPOSITORY
from support.postgres import temporary_database
from support.waiting import wait_for

MANIFESTS = REPOSITORY / "deploy" / "kubernetes"
# Ends under load of each pod, calls before each, and sessions that are written at once.
ENDS = 3
CALLS = 200
WRITERS = 4
LOAD = {"PERIOD": 0, "WRITERS": WRITERS}
SOCKETS = "MEMORYD_TEST_POSTGRES_SOCKETS"
TOKEN = "a token"


def wait_for_line(container: str, pattern: str) -> str:
    """The first line of the container's log that matches, as soon as it is there."""
    with subprocess.Popen(
        ["timeout", "60", "podman", "logs", "--follow", container],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as follow:
        seen = []
        for line in follow.stdout:
            seen.append(line)
            if re.search(pattern, line):
                follow.terminate()
                return line.strip()
    raise AssertionError(f"{container}: no line like {pattern}:\n{''.join(seen)}")


class Pod:
    """A pod of a manifest, played under names of its own, so that whatever else is played here is
    left alone. Leaving the context removes it and its volume."""

    def __init__(self, manifest: str, folder: pathlib.Path, **agent: object) -> None:
        """The Secrets are those of `folder`; `agent` has further variables of the agent, which comes beside
        memoryd where the manifest has none."""
        self._folder = folder
        self.name, self._claim = (f"memoryd-test-{uuid.uuid4().hex[:8]}" for _ in range(2))
        rendered = subprocess.run(
            [sys.executable, REPOSITORY / "tests/image/podman_pod.py", MANIFESTS / f"{manifest}.yaml",
             folder],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        *self._volumes, self.pod = yaml.safe_load_all(rendered.replace("agent-memory", self._claim))
        self.pod["metadata"]["name"] = self.name
        self.grace_seconds = self.pod["spec"]["terminationGracePeriodSeconds"]
        containers = self.pod["spec"]["containers"]
        if len(containers) == 1:
            containers.append({"name": "agent", "image": "memoryd-agent:0.1.0", "env": [],
                               "imagePullPolicy": "IfNotPresent"})
        for container in containers:
            if container["name"] == "agent":
                container["env"] += [{"name": n, "value": str(v)} for n, v in agent.items()]

    def mount(self, host: pathlib.Path, path: str, to: str = "memoryd") -> None:
        """Shows a folder of the host to a container."""
        name = f"host-{host.name.replace('_', '-').lower()}"
        spec = self.pod["spec"]
        spec["volumes"].append({"name": name, "hostPath": {"path": str(host), "type": "Directory"}})
        (container,) = (c for c in spec["containers"] if c["name"] == to)
        container.setdefault("volumeMounts", []).append({"name": name, "mountPath": path})

    def play(self) -> None:
        manifest = self._folder / "pod.yaml"
        manifest.write_text(yaml.safe_dump_all([*self._volumes, self.pod]), encoding="utf-8")
        podman("kube", "play", str(manifest), timeout=180)
        self._volumes = []  # They stay.

    def address(self) -> str:
        """The pod's own, which a kubelet dials."""
        infra = json.loads(podman("pod", "inspect", self.name))
        assert not infra["InfraConfig"]["PortBindings"]  # Nothing of the pod is on the host.
        networks = json.loads(podman("inspect", infra["InfraContainerID"]))[0]["NetworkSettings"]
        (network,) = networks["Networks"].values()
        return network["IPAddress"]

    def inspect(self, container: str) -> dict:
        return json.loads(podman("inspect", f"{self.name}-{container}"))[0]

    def runs(self, container: str) -> bool:
        return self.inspect(container)["State"]["Running"]

    def stop(self, container: str) -> float:
        """SIGTERM to one container; the seconds until it had ended, with exit code 0 and unkilled."""
        begin = time.monotonic()
        podman("stop", f"--time={self.grace_seconds}", f"{self.name}-{container}",
               timeout=self.grace_seconds + 60)
        took = time.monotonic() - begin
        code = self.inspect(container)["State"]["ExitCode"]
        assert code == 0, f"{container} ended with {code}: {self.log(container)}"
        return took

    def start(self, container: str) -> None:
        podman("start", f"{self.name}-{container}")

    def log(self, container: str) -> str:
        done = subprocess.run(["podman", "logs", f"{self.name}-{container}"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.stdout[-4000:]

    def remove(self) -> None:
        subprocess.run(["podman", "pod", "rm", "--force", "--time=0", self.name],
                       capture_output=True, check=False)

    def __enter__(self) -> Pod:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind:
            for container in self.pod["spec"]["containers"]:
                print(self.log(container["name"]))
        self.remove()
        subprocess.run(["podman", "volume", "rm", "--force", self._claim], capture_output=True,
                       check=False)


def puts_of(address: str) -> float:
    """Puts that memoryd has answered since it began; 0 where it does not run."""
    try:
        series = scrape(f"{address}:9464")
    except (OSError, urllib.error.URLError):
        return 0
    return value(series, "memoryd_rpc_total", method="Put", code="OK")


def probe_as_kubelet(address: str) -> None:
    """Dials the pod's address from outside: probes and metrics answer there."""
    def answers(path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://{address}:9464{path}", timeout=20) as reply:
                return reply.status == 200
        except OSError:
            return False

    for path in ("/readyz", "/healthz"):
        wait_for(lambda path=path: answers(path), 6000)
    assert any(name.startswith("memoryd_") for name, _ in scrape(f"{address}:9464"))


def assert_restricted(pod: Pod) -> None:
    found = pod.inspect("memoryd")
    assert found["Config"]["User"].split(":")[0] == USER_ID
    assert found["HostConfig"]["ReadonlyRootfs"]


def assert_api_on_loopback(address: str) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, 50051), timeout=20).close()


def write_secret(folder: pathlib.Path, name: str, **files: bytes) -> None:
    """A Secret as Kubernetes mounts it with fsGroup and defaultMode: 0440; `_` stands for a dot."""
    secret = folder / name
    secret.mkdir()
    for file, content in files.items():
        path = secret / file.replace("_", ".")
        path.write_bytes(content)
        os.chown(path, 0, int(USER_ID))
        path.chmod(0o440)


@contextlib.contextmanager
def database_beside(pod: Pod) -> Iterator[str]:
    """The URL, as memoryd has it in the pod, of a new database. It is reached by a UNIX socket, since
    the server listens on the host's loopback alone."""
    sockets = pathlib.Path(os.environ[SOCKETS])
    with (
        temporary_database() as url,
        tempfile.TemporaryDirectory(prefix="memoryd-sockets-", dir=sockets.parent) as shared,
    ):
        parts = urllib.parse.urlsplit(url)
        os.chmod(shared, 0o755)  # For memoryd's user.
        # The socket's own folder is closed to others.
        name = f".s.PGSQL.{parts.port}"
        os.link(sockets / name, pathlib.Path(shared) / name)
        pod.mount(pathlib.Path(shared), "/run/postgresql")
        try:
            yield f"postgresql://postgres@{parts.path}?host=/run/postgresql&port={parts.port}"
        except BaseException:
            print(pod.log("memoryd"))
            raise
        finally:
            pod.remove()  # Before its database.


def write_settings(folder: pathlib.Path, store: str) -> None:
    write_secret(folder, "memoryd-settings", memoryd_yaml=f"store: {store}\n".encode())


def test_the_agent_of_the_pod_puts_and_gets_over_loopback(tmp_path):
    with Pod("sidecar-sqlite", tmp_path) as pod:
        pod.play()
        first = wait_for_line(f"{pod.name}-agent", r"turn 1 came back")
        print(first)

        address = pod.address()
        probe_as_kubelet(address)
        assert_api_on_loopback(address)
        assert_restricted(pod)

        # The pod goes, its volume stays, and the next pod remembers.
        # As with a native sidecar: the agent looks at its memory at the end, so it ends first.
        podman("stop", "--time=30", f"{pod.name}-agent")
        podman("pod", "stop", "--time=30", pod.name)
        for name in ("agent", "memoryd"):
            state = pod.inspect(name)["State"]
            assert state["ExitCode"] == 0, f"{name} ended with {state['ExitCode']}"
        podman("pod", "rm", pod.name)
        pod.play()
        again = wait_for_line(f"{pod.name}-agent", r"turn \d+ came back")
        print(again)
        assert "turn 1 " not in again


def end_under_load(manifest: str, pod: Pod) -> None:
    """Ends memoryd by SIGTERM while the agent's calls come, and starts it again as a kubelet would, over and
    over; the agent must not notice."""
    pod.play()
    wait_for_line(f"{pod.name}-agent", r"turn \d+ came back")
    address = pod.address()
    probe_as_kubelet(address)
    assert_restricted(pod)
    if manifest != "server":
        assert_api_on_loopback(address)

    def wait_for_load() -> None:
        wait_for(lambda: puts_of(address) >= CALLS or not pod.runs("agent"), attempts=2000)
        assert pod.runs("agent")

    took = []
    for _ in range(ENDS):
        wait_for_load()
        took.append(pod.stop("memoryd"))
        pod.start("memoryd")
    wait_for_load()
    # As a kubelet does: the agent first, and it says with its exit code whether it saw an error.
    pod.stop("agent")
    took.append(pod.stop("memoryd"))
    said = wait_for_line(f"{pod.name}-agent", r"\d+ turns, errors")
    print(f"{manifest}: SIGTERM {ENDS} times under load of {WRITERS}, then idle: ended in "
          f"{', '.join(f'{seconds:.1f}' for seconds in took)} s; {said}")
    assert "errors 0, lost 0" in said


def test_a_sidecar_over_sqlite_ends_under_load_and_its_agent_sees_no_error(tmp_path):
    with Pod("sidecar-sqlite", tmp_path, **LOAD) as pod:
        end_under_load("sidecar-sqlite", pod)


def test_a_sidecar_over_postgresql_ends_under_load_and_its_agent_sees_no_error(tmp_path):
    with Pod("sidecar-postgresql", tmp_path, **LOAD) as pod, \
            database_beside(pod) as store:
        write_settings(tmp_path, store)
        end_under_load("sidecar-postgresql", pod)


def test_memoryd_alone_ends_under_load_and_an_agent_sees_no_error(tmp_path):
    authority = tls.Authority(tmp_path / "ca")
    identity = authority.issue(tls.SERVER_NAMES)
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    write_secret(tmp_path, "memoryd-tls", tls_crt=identity.certificate.read_bytes(),
                 tls_key=identity.key.read_bytes())
    write_secret(tmp_path, "memoryd-credentials", credentials_yaml=(
        f"[{{tenant: team, rights: [read, write], token_sha256: {digest}}}]".encode()))
    callers = tmp_path / "callers"
    callers.mkdir()
    shutil.copy(authority.certificate, callers / "ca.pem")
    (callers / "token").write_text(TOKEN, encoding="ascii")
    with Pod("server", tmp_path, MEMORYD_TARGET="localhost:50051", CA_FILE="/run/callers/ca.pem",
             TOKEN_FILE="/run/callers/token", **LOAD) as pod, database_beside(pod) as store:
        pod.mount(callers, "/run/callers", "agent")
        write_settings(tmp_path, store)
        end_under_load("server", pod)
