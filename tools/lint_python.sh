#!/bin/bash
# Types of clients/python and tools, and lint of all Python. The client's pyproject.toml has the
# settings; ruff.toml adds those of tests, tools and examples.
#
# usage: lint_python.sh [mypy|ruff]     default: both
set -euo pipefail
cd "$(dirname "$0")/.."
package=clients/python

if [ "${1:-mypy}" = mypy ]; then
  # The stubs have the types of requests and replies.
  build/venv/bin/python $package/tools/generate_stubs.py
  build/venv/bin/mypy --config-file $package/pyproject.toml --cache-dir build/mypy $package/src
  build/venv/bin/mypy --config-file $package/pyproject.toml --cache-dir build/mypy tools/*.py
fi
if [ "${1:-ruff}" = ruff ]; then
  build/venv/bin/ruff check --quiet --cache-dir build/ruff $package tests tools examples
fi
