#!/bin/bash
# Makes build/venv from the pinned requirements of tests/ and tools/. Every build folder shares it.
# Does nothing when it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
files=(tests/requirements.txt tests/requirements-alone.txt tools/requirements.txt
  tools/constraints.txt)
mkdir -p build
exec 9>build/.python_env.lock
flock 9

stamp=$(sha256sum "${files[@]}")
[ "$(cat build/venv/.stamp 2>/dev/null)" = "$stamp" ] && exit 0

echo 'Making build/venv'
rm -rf build/venv
# Debian's own interpreter where there is one: the wheels are pinned for it.
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)
"$python" -m venv build/venv
build/venv/bin/pip install --quiet --disable-pip-version-check \
  -r tests/requirements.txt -r tools/requirements.txt -c tools/constraints.txt
build/venv/bin/pip install --quiet --disable-pip-version-check --no-deps \
  -r tests/requirements-alone.txt
echo "$stamp" >build/venv/.stamp
