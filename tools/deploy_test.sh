#!/bin/bash
# `make deploy-test`: the chart with helm, kube-score and the schemas of Kubernetes, the alerts with promtool,
# and every query of the dashboard on a Prometheus that scrapes a server at work. Needs Go for helm and
# kube-score, hence no part of `make test`. The last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 1
export MEMORYD_TEST_RESULTS=build/results/deploy.jsonl
rm -f "$MEMORYD_TEST_RESULTS"
results=tools/results.py
TMPDIR=$(tools/scratch.sh)
export TMPDIR

$results step 'packages' tools/install_packages.sh build test deploy || exit 1
$results step 'python environment' tools/python_env.sh
$results step 'schemas of Kubernetes' tools/deploy_env.sh
$results step 'release build' tools/build.sh release memoryd
$results step 'helm' tools/deploy_tools.sh helm
$results step 'kube-score' tools/deploy_tools.sh kube-score
tools/with_postgres.sh $results pytest 'chart, alerts, dashboard' tests/deploy
$results summary "$MEMORYD_TEST_RESULTS"
