#!/bin/bash
# Makes build/deploy-venv from tests/deploy/requirements.txt, unless it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=tests/deploy/requirements.txt
cmp -s "$requirements" build/deploy-venv/requirements.txt && exit 0
rm -rf build/deploy-venv
python3 -m venv build/deploy-venv
build/deploy-venv/bin/pip install --quiet --disable-pip-version-check -r "$requirements"
cp "$requirements" build/deploy-venv/requirements.txt
