#!/bin/bash
# Types and lint of clients/python, as its pyproject.toml sets them.
#
# usage: lint_python.sh [mypy|ruff]     default: both
set -euo pipefail
cd "$(dirname "$0")/.."
package=clients/python

if [ "${1:-mypy}" = mypy ]; then
  # The stubs have the types of requests and replies.
  build/venv/bin/python $package/tools/generate_stubs.py
  build/venv/bin/mypy --config-file $package/pyproject.toml --cache-dir build/mypy $package/src
fi
if [ "${1:-ruff}" = ruff ]; then
  build/venv/bin/ruff check --quiet --cache-dir build/ruff --config $package/pyproject.toml $package
fi
