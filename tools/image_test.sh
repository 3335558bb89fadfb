#!/bin/bash
# `make image-test`: builds the image and the small agent's, then runs them by podman: alone and as
# the pod of deploy/kubernetes. Needs root, podman and grpcurl, hence no part of `make test`. The last
# line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.."
export MEMORYD_TEST_RESULTS=build/results/image.jsonl
rm -f "$MEMORYD_TEST_RESULTS"
results=tools/results.py

$results step 'packages' tools/install_packages.sh test image || exit 1
$results step 'python environment' tools/python_env.sh
$results step 'schemas of Kubernetes' tools/image_env.sh
# podman runs them, so they go where it looks.
export ENGINE=podman
$results step 'image' tools/image.sh memoryd:latest
$results step "agent's image" tools/image.sh memoryd-agent:latest tests/image/agent/Dockerfile
tools/with_postgres.sh tools/with_engine.sh $results pytest 'image and pod' -rP tests/image
$results summary "$MEMORYD_TEST_RESULTS"
