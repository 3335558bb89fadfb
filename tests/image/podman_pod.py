#!/usr/bin/env python3
"""podman_pod.py MANIFEST [SECRETS]: prints a manifest of deploy/kubernetes/ as podman can play it.

A Deployment becomes the pod it is of, so that its name is known; of the other kinds volumes are kept.
podman 4.3, Debian 12's, knows no native sidecars: it refuses an init container with probes and waits
for one without to end. So each becomes the first of the ordinary containers. memoryd loses its probes,
which podman does not run without systemd, and its ports, which podman would publish on the host.
A Secret becomes the folder SECRETS/NAME of the host, since podman gives none to a group (fsGroup): its
files are to be root's and of the group 65532, mode 0440. All else stays as it is.

    podman kube play <(tests/image/podman_pod.py deploy/kubernetes/sidecar-sqlite.yaml)
"""

import sys

import yaml


def pod_of(deployment: dict, secrets: str | None) -> dict:
    """A pod of a Deployment, without sidecars."""
    pod = deployment["spec"]["template"]["spec"]
    first = pod.get("initContainers", [])
    sidecars = [c for c in first if c.get("restartPolicy") == "Always"]
    for sidecar in sidecars:
        sidecar.pop("restartPolicy")
    pod["containers"] = sidecars + pod["containers"]
    for container in sidecars or pod["containers"]:
        for key in ("startupProbe", "readinessProbe", "livenessProbe", "ports"):
            container.pop(key, None)
    pod["initContainers"] = [c for c in first if c not in sidecars]
    for volume in pod.get("volumes", []) if secrets else []:
        if "secret" in volume:
            name = volume.pop("secret")["secretName"]
            volume["hostPath"] = {"path": f"{secrets}/{name}", "type": "Directory"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": deployment["metadata"], "spec": pod}


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    secrets = sys.argv[2] if len(sys.argv) == 3 else None
    with open(sys.argv[1], encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    manifests = [m for m in documents if m["kind"] == "PersistentVolumeClaim"]
    manifests += [pod_of(m, secrets) for m in documents if m["kind"] == "Deployment"]
    yaml.safe_dump_all(manifests, sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
