"""The pod of the chart, played by podman."""

import json
import re
import socket
import subprocess
import sys
import urllib.request
import uuid

import pytest
import yaml
from container import podman
from grpc_health.v1 import health_pb2
from support.paths import REPOSITORY
from support.server import open_channel, wait_for_health

POD = REPOSITORY / "deploy" / "kubernetes" / "sidecar-sqlite.yaml"


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


def probe_as_kubelet(pod: str) -> None:
    """Dials the pod's address from outside: health and metrics answer there, the API does not."""
    infra = json.loads(podman("pod", "inspect", pod))
    assert not infra["InfraConfig"]["PortBindings"]  # Nothing of the pod is on the host.
    networks = json.loads(podman("inspect", infra["InfraContainerID"]))[0]["NetworkSettings"]
    (network,) = networks["Networks"].values()
    address = network["IPAddress"]
    for service in ("", "liveness"):
        with open_channel(f"{address}:50052") as channel:
            wait_for_health(channel, health_pb2.HealthCheckResponse.SERVING, 20, service)
    with urllib.request.urlopen(f"http://{address}:9464/metrics", timeout=20) as reply:
        assert b"\nmemoryd_" in reply.read()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, 50051), timeout=20).close()


def test_the_agent_of_the_pod_puts_and_gets_over_loopback(tmp_path):
    rendered = subprocess.run(
        [sys.executable, REPOSITORY / "tests/image/podman_pod.py", POD],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # Names of its own, so that whatever else is played here is left alone.
    pod, claim = (f"memoryd-test-{uuid.uuid4().hex[:8]}" for _ in range(2))
    manifests = list(yaml.safe_load_all(rendered.replace("agent-memory", claim)))
    manifests[1]["metadata"]["name"] = pod  # After its volume.

    def play(documents: list[dict]) -> None:
        manifest = tmp_path / "pod.yaml"
        manifest.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
        podman("kube", "play", str(manifest))

    try:
        play(manifests)
        first = wait_for_line(f"{pod}-agent", r"turn 1 came back")
        print(first)

        probe_as_kubelet(pod)
        sidecar = json.loads(podman("inspect", f"{pod}-memoryd"))[0]
        assert sidecar["Config"]["User"].split(":")[0] == "65532"
        assert sidecar["HostConfig"]["ReadonlyRootfs"]

        # The pod goes, its volume stays, and the next pod remembers.
        podman("pod", "stop", "--time=30", pod)
        for name in ("agent", "memoryd"):
            state = json.loads(podman("inspect", f"{pod}-{name}"))[0]["State"]
            assert state["ExitCode"] == 0, f"{name} ended with {state['ExitCode']}"
        podman("pod", "rm", pod)
        play(manifests[1:])
        again = wait_for_line(f"{pod}-agent", r"turn \d+ came back")
        print(again)
        assert "turn 1 " not in again
    finally:
        subprocess.run(["podman", "pod", "rm", "--force", pod], capture_output=True, check=False)
        subprocess.run(
            ["podman", "volume", "rm", "--force", claim], capture_output=True, check=False
        )
