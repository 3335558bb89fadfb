#!/usr/bin/env python3
"""podman_pod.py MANIFEST: prints a manifest of deploy/kubernetes/ as podman can play it.

A Deployment becomes the pod it is of, so that its name is known; of the other kinds volumes are kept.
podman 4.3, Debian 12's, knows no native sidecars: it refuses an init container with probes and waits
for one without to end. So each becomes the first of the ordinary containers, and loses its probes,
which podman does not run without systemd, and its ports, which podman would publish on the host.
All else stays as it is.

    podman kube play <(tests/image/podman_pod.py deploy/kubernetes/sidecar-sqlite.yaml)
"""

import sys

import yaml


def pod_of(deployment: dict) -> dict:
    """A pod of a Deployment, without sidecars."""
    pod = deployment["spec"]["template"]["spec"]
    first = pod.get("initContainers", [])
    sidecars = [c for c in first if c.get("restartPolicy") == "Always"]
    for sidecar in sidecars:
        for key in ("restartPolicy", "startupProbe", "readinessProbe", "livenessProbe", "ports"):
            sidecar.pop(key, None)
    pod["containers"] = sidecars + pod["containers"]
    pod["initContainers"] = [c for c in first if c not in sidecars]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": deployment["metadata"], "spec": pod}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    manifests = [m for m in documents if m["kind"] == "PersistentVolumeClaim"]
    manifests += [pod_of(m) for m in documents if m["kind"] == "Deployment"]
    yaml.safe_dump_all(manifests, sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
