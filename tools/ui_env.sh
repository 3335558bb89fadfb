#!/bin/bash
# Makes build/ui-venv from tests/ui/requirements.txt, unless it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
exec 9>build/.ui_env.lock
flock 9
stamp=$(sha256sum tests/ui/requirements.txt)
[ "$(cat build/ui-venv/.stamp 2>/dev/null)" = "$stamp" ] && exit 0

echo 'Making build/ui-venv'
rm -rf build/ui-venv
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)
"$python" -m venv build/ui-venv
# All that is wanted is named there: nothing is to be resolved.
build/ui-venv/bin/pip install --quiet --disable-pip-version-check --no-deps -r tests/ui/requirements.txt
echo "$stamp" >build/ui-venv/.stamp
