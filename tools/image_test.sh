#!/bin/bash
# `make image-test`: builds the image and the small agent's, then runs them by podman: alone and in
# each pod of deploy/kubernetes, whose memoryd is ended under load. Needs root and podman, hence no part of
# `make test`. The last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 1
export MEMORYD_TEST_RESULTS=build/results/image.jsonl
rm -f "$MEMORYD_TEST_RESULTS"
results=tools/results.py

$results step 'packages' tools/install_packages.sh test image || exit 1
$results step 'python environment' tools/python_env.sh
$results step 'check of the bill of materials' tools/deploy_env.sh
# podman runs them, so they go where it looks.
export ENGINE=podman
$results step 'image' tools/image.sh memoryd:latest
$results step "agent's image" tools/image.sh memoryd-agent:0.1.0 tests/image/agent/Dockerfile
# The manifests name it by its version.
$results step 'tag' tools/with_engine.sh podman tag memoryd:latest memoryd:0.1.0
$results step 'the same image again' tools/same_image.sh memoryd:latest
tools/with_postgres.sh tools/with_engine.sh $results pytest 'image and pod' -rP tests/image
$results summary "$MEMORYD_TEST_RESULTS"
