#!/bin/bash
# Builds the pages' site into build/site; with --serve it is shown on loopback.
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=tools/docs_requirements.txt
stamp=$(sha256sum "$requirements")
if [ "$(cat build/docs-venv/.stamp 2>/dev/null)" != "$stamp" ]; then
  echo 'Making build/docs-venv'
  rm -rf build/docs-venv
  python3 -m venv build/docs-venv
  build/docs-venv/bin/pip install --quiet --disable-pip-version-check -r "$requirements"
  echo "$stamp" >build/docs-venv/.stamp
fi
NO_MKDOCS_2_WARNING=1 PATH="$PWD/build/docs-venv/bin:$PATH" build/docs-venv/bin/python tools/docs_site.py "$@"
