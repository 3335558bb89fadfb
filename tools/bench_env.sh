#!/bin/bash
# Makes build/bench-venv from tests/benchmark/requirements.txt, unless it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
exec 9>build/.bench_env.lock
flock 9
stamp=$(sha256sum tests/benchmark/requirements.txt)
[ "$(cat build/bench-venv/.stamp 2>/dev/null)" = "$stamp" ] && exit 0

echo 'Making build/bench-venv'
rm -rf build/bench-venv
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)
"$python" -m venv build/bench-venv
build/bench-venv/bin/pip install --quiet --disable-pip-version-check --no-deps \
  -r tests/benchmark/requirements.txt
echo "$stamp" >build/bench-venv/.stamp
