"""deploy/: valid for every Kubernetes meant, and the pod played by podman."""

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

MANIFESTS = sorted((REPOSITORY / "deploy" / "kubernetes").glob("*.yaml"))
POD = REPOSITORY / "deploy" / "kubernetes" / "pod.yaml"
# From the first with native sidecars on by default.
KUBERNETES = [f"1.{minor}" for minor in range(29, 36)]
VALIDATOR = REPOSITORY / "build" / "image-venv" / "bin" / "kubernetes-validate"


def documents(path) -> list[dict]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def pod_specs(path) -> list[dict]:
    specs = [document["spec"] for document in documents(path)]
    specs = [spec.get("template", {}).get("spec", spec) for spec in specs]
    return [spec for spec in specs if "containers" in spec]


def validate(version: str, *files) -> subprocess.CompletedProcess:
    return subprocess.run(
        [VALIDATOR, "--strict", "-k", version, *files], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("version", KUBERNETES)
def test_manifests_are_valid(version):
    done = validate(version, *MANIFESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_misspelt_key_is_found(tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(POD.read_text(encoding="utf-8").replace("periodSeconds", "periodSecond"))
    assert validate(KUBERNETES[-1], wrong).returncode != 0


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_pods_meet_the_restricted_standard(path):
    specs = pod_specs(path)
    assert len(specs) == 1
    for spec in specs:
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not any(key in spec for key in ("hostNetwork", "hostPID", "hostIPC"))
        for container in spec["initContainers"] + spec["containers"]:
            security = container["securityContext"]
            assert security["runAsNonRoot"] and security["runAsUser"] > 0
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_the_api_is_on_loopback_and_probes_are_not(path):
    (sidecar,) = pod_specs(path)[0]["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    settings = {entry["name"]: entry.get("value") for entry in sidecar["env"]}
    assert settings["MEMORYD_LISTEN"].startswith("127.0.0.1:")
    assert "MEMORYD_ALLOW_PLAINTEXT" not in settings
    health = int(settings["MEMORYD_HEALTH_LISTEN"].rsplit(":", 1)[1])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert sidecar[probe]["grpc"]["port"] == health
    assert sidecar["livenessProbe"]["grpc"]["service"] == "liveness"


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
    manifests[1]["metadata"]["name"] = pod

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


def test_compose_keeps_to_the_same_rules():
    services = documents(REPOSITORY / "deploy" / "compose.yaml")[0]["services"]
    assert set(services) == {"memoryd", "postgres"}
    memoryd = services["memoryd"]
    assert (REPOSITORY / "deploy" / memoryd["build"]["context"] / "Dockerfile").resolve().exists()
    assert memoryd["read_only"] is True and memoryd["cap_drop"] == ["ALL"]
    assert memoryd["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    # Plaintext stays on this machine.
    assert all(port.startswith("127.0.0.1:") for port in memoryd["ports"])
