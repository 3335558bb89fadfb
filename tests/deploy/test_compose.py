"""What compose starts."""

import subprocess

import yaml

from support.paths import REPOSITORY

COMPOSE = REPOSITORY / "deploy/compose.yaml"


def test_compose_keeps_to_the_same_rules():
    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    assert set(services) == {"memoryd", "postgres", "prometheus", "grafana"}
    memoryd = services["memoryd"]
    assert (REPOSITORY / "deploy" / memoryd["build"]["context"] / "Dockerfile").resolve().exists()
    assert memoryd["read_only"] is True and memoryd["cap_drop"] == ["ALL"]
    assert memoryd["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for service in services.values():
        # What has no password stays on this machine.
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        for volume in service.get("volumes", ()):
            host = volume.split(":")[0]
            assert not host.startswith(".") or (COMPOSE.parent / host).exists(), volume


def test_promtool_takes_its_prometheus():
    subprocess.run(["promtool", "check", "config", REPOSITORY / "deploy/prometheus/prometheus.yaml"],
                   check=True)
