#!/bin/bash
# retrieval_test.sh SCRIPT ARG...: a script of tests/retrieval with an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=tests/retrieval/requirements.txt
stamp=$(sha256sum $requirements)
if [ "$(cat build/retrieval-venv/.stamp 2>/dev/null)" != "$stamp" ]; then
  rm -rf build/retrieval-venv
  python3 -m venv build/retrieval-venv
  build/retrieval-venv/bin/pip install --quiet --disable-pip-version-check -r $requirements
  echo "$stamp" >build/retrieval-venv/.stamp
fi
exec build/retrieval-venv/bin/python "tests/retrieval/${1:?usage: retrieval_test.sh SCRIPT ARG...}" "${@:2}"
