#!/bin/bash
# `make test-model`: blocks behind real models that run on this machine. They are installed and
# computed for minutes, hence no part of `make test`. The last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 1
export MEMORYD_TEST_RESULTS=build/results/model.jsonl
rm -f "$MEMORYD_TEST_RESULTS"
results=tools/results.py

$results step 'packages' tools/install_packages.sh build test || exit 1
$results step 'python environment' tools/python_env.sh
$results step 'release build' tools/build.sh release
$results step 'models' tools/model_env.sh
$results pytest 'real models' -rP tests/model
$results summary "$MEMORYD_TEST_RESULTS"
