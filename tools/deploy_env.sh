#!/bin/bash
# Makes build/image-venv from tests/image/requirements.txt, unless it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=tests/image/requirements.txt
cmp -s "$requirements" build/image-venv/requirements.txt && exit 0
rm -rf build/image-venv
python3 -m venv build/image-venv
build/image-venv/bin/pip install --quiet --disable-pip-version-check -r "$requirements"
cp "$requirements" build/image-venv/requirements.txt
