#!/bin/bash
# `make dist-test`, or test.sh [ARG...]: installs every artefact of dist/ and uses it. ARGs are pytest's.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/install_packages.sh build dist-test
tools/python_env.sh
exec build/venv/bin/python -m pytest -q tests/dist "$@"
